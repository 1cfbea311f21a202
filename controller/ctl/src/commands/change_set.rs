// SPDX-License-Identifier: Apache-2.0
//! `change-set list|show|undo`, and files that `apply` sends as a change set.

use std::io::Write;

use canopy_controller_api::List;
use canopy_controller_api::change_set::{ChangeSetInput, ChangeSetPhase, ChangeSetResource};
use canopy_controller_api::check::Outcome;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::rows::instant;
use super::segment;
use super::wait::POLL;
use crate::cli::ChangeSetAction;
use crate::client::Client;
use crate::documents::Document;
use crate::failure::{Exit, Failure};
use crate::output::{clean, json as write_json, table, text};

const PATH: &str = "/api/v1/change-sets";
/// Up to so many are written one by one, as the controller writes so many in one transaction.
const ONE_BY_ONE: usize = 30;

/// Executes the command.
///
/// # Errors
/// The controller cannot be reached, or refused; an undo has left something.
pub async fn run(client: &Client, action: &ChangeSetAction, out: &mut dyn Write) -> Result<(), Failure> {
    match action {
        ChangeSetAction::List { json } => {
            let list: List<ChangeSetResource> = client.get("listing change sets", PATH).await?;
            if *json {
                return write_json(out, &json!(list));
            }
            if list.items.is_empty() {
                return Ok(writeln!(out, "no change sets")?);
            }
            let rows = list.items.iter().map(row).collect();
            table(out, &["ID", "PHASE", "BY", "RESOURCES", "CREATED", "UPDATED", "BEGUN"], rows)
        }
        ChangeSetAction::Show { id, json: true } => {
            write_json(out, &client.get::<Value>("reading the change set", &path(id)?).await?)
        }
        ChangeSetAction::Show { id, .. } => write(&read(client, id).await?, out),
        ChangeSetAction::Undo { id, no_wait } => {
            let path = format!("{}/undo", path(id)?);
            let mut set: ChangeSetResource = client.post("taking the change set back", &path, &Value::Null).await?;
            if !no_wait {
                set = finished(client, set, out).await?;
            }
            write(&set, out)?;
            match set.refused.len() {
                0 => Ok(()),
                n => Err(Failure::new(Exit::Conflict, format!("{n} of its resources were not put back"))),
            }
        }
    }
}

/// Whether `apply` sends files that change so many resources as a change set.
///
/// # Errors
/// The controller cannot be reached, or refused.
pub(super) async fn is_for(client: &Client, resources: usize) -> Result<bool, Failure> {
    if resources <= ONE_BY_ONE || client.is_within_commit() {
        return Ok(false);
    }
    match client.get::<Value>("listing change sets", PATH).await {
        Ok(_) => Ok(true),
        // Of an earlier version.
        Err(failure) if failure.exit == Exit::NotFound => Ok(false),
        Err(failure) => Err(failure),
    }
}

/// Sends resources that were checked, and waits until the controller has written them.
///
/// # Errors
/// The controller refused them, or one of them later; the message has the resource and how to take back what was written.
pub(super) async fn apply(
    client: &Client,
    documents: &[Document],
    outcomes: &[Outcome],
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let input = ChangeSetInput { items: documents.iter().map(|d| d.body.clone()).collect() };
    let begun: ChangeSetResource = client.post("beginning a change set", PATH, &json!(input)).await?;
    let set = finished(client, begun, out).await?;
    let written = usize::try_from(set.done).unwrap_or(usize::MAX);
    for (document, outcome) in documents.iter().zip(outcomes).take(written) {
        writeln!(out, "{} {}", document.name, text(outcome))?;
    }
    let id = text(&set.id);
    if set.phase == ChangeSetPhase::Applied {
        return Ok(writeln!(out, "change set {id} is applied; `canopyctl change-set undo {id}` takes it back")?);
    }
    let why = set.refused.first().map(|refused| clean(&refused.detail)).unwrap_or_default();
    let at = documents.get(written).map(|d| format!("{} from {}", d.name, d.origin)).unwrap_or_default();
    let message = format!(
        "applying {at}: {why}\n  {written} of {} resources were applied before, in change set {id}, which is {}: `canopyctl change-set undo {id}` takes them back",
        documents.len(),
        text(set.phase).to_lowercase()
    );
    // All were checked before: what is refused now has changed meanwhile.
    Err(Failure::new(Exit::Conflict, message))
}

async fn read(client: &Client, id: &str) -> Result<ChangeSetResource, Failure> {
    client.get("reading the change set", &path(id)?).await
}

/// The set once there is nothing more to do; prints why it does not continue.
async fn finished(
    client: &Client,
    mut set: ChangeSetResource,
    out: &mut dyn Write,
) -> Result<ChangeSetResource, Failure> {
    let mut waits = None;
    while set.phase.is_active() {
        if set.waits_for != waits {
            waits.clone_from(&set.waits_for);
            if let Some(why) = &waits {
                writeln!(out, "change set {} waits at {} of {}: {}", text(&set.id), set.done, set.items, clean(why))?;
            }
        }
        sleep(POLL).await;
        set = read(client, &set.id).await?;
    }
    Ok(set)
}

fn path(id: &str) -> Result<String, Failure> {
    Ok(format!("{PATH}/{}", segment("change set", id)?))
}

fn row(set: &ChangeSetResource) -> Vec<String> {
    vec![
        text(&set.id),
        text(set.phase),
        clean(&set.by.to_string()),
        format!("{}/{}", set.done, set.items),
        set.created.to_string(),
        set.updated.to_string(),
        instant(set.begun_unix_ns),
    ]
}

fn write(set: &ChangeSetResource, out: &mut dyn Write) -> Result<(), Failure> {
    let (id, by, phase) = (text(&set.id), clean(&set.by.to_string()), text(set.phase).to_lowercase());
    let (done, items) = (set.done, set.items);
    writeln!(
        out,
        "change set {id} of {by}: {phase}, {done} of {items} resources, {} created, {} updated",
        set.created, set.updated
    )?;
    if let Some(why) = &set.waits_for {
        writeln!(out, "  waits: {}", clean(why))?;
    }
    if let Some(by) = &set.undone_by {
        let written = set.created + set.updated;
        writeln!(out, "  taken back by {}: {} of {written} put back", clean(&by.to_string()), set.put_back)?;
    }
    let verb = if set.undone_by.is_some() { "was not put back" } else { "was refused" };
    for refused in &set.refused {
        let (kind, name) = (text(refused.kind).to_lowercase(), clean(&refused.name));
        writeln!(out, "  {kind}/{name} {verb}: {}", clean(&refused.detail))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(phase: &str, more: Value) -> ChangeSetResource {
        let mut set = json!({
            "apiVersion": "canopy/v1", "kind": "ChangeSet", "id": "0123456789abcdef", "phase": phase,
            "by": {"kind": "operator", "name": "alice"}, "begunUnixNs": 1, "items": 100, "done": 60, "created": 50,
            "updated": 9, "putBack": 0, "refused": [],
        });
        set.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(set).unwrap()
    }

    fn shown(set: &ChangeSetResource) -> String {
        let mut out = Vec::new();
        write(set, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// Catches a refusal that is not shown, and an undo that is shown as a refusal.
    #[test]
    fn a_change_set_shows_how_far_it_is_and_what_was_refused() {
        let head = "change set 0123456789abcdef of alice:";
        let refused = json!([{"kind": "Group", "name": "g", "detail": "it was written since"}]);
        assert_eq!(
            shown(&set("Applying", json!({"waitsFor": "a commit is pending"}))),
            format!("{head} applying, 60 of 100 resources, 50 created, 9 updated\n  waits: a commit is pending\n")
        );
        assert!(
            shown(&set("Stopped", json!({"refused": refused})))
                .ends_with("group/g was refused: it was written since\n")
        );
        let undone = json!({"refused": refused, "undoneBy": {"kind": "operator", "name": "bob"}, "putBack": 58});
        assert!(
            shown(&set("Undone", undone))
                .ends_with("taken back by bob: 58 of 59 put back\n  group/g was not put back: it was written since\n")
        );
    }
}
