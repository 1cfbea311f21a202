// SPDX-License-Identifier: Apache-2.0
//! `commit`: changes that are taken back unless they are confirmed in time.

use std::io::Write;
use std::time::Duration;

use canopy_controller_api::commit::{CommitPhase, CommitResource, PendingCommit, RollbackAction};
use serde_json::{Value, json};

use crate::cli::{CommitAction, CommitArgs, Report};
use crate::client::{Client, parse};
use crate::failure::{Exit, Failure};
use crate::output::{clean, json as write_json, text};

const PATH: &str = "/api/v1/commit";
/// Changes that are printed, at most.
const SHOWN: usize = 50;

/// See the module.
///
/// # Errors
/// None is pending, or another operator's and its id is not named; the controller refuses it or cannot be reached.
pub async fn run(client: &Client, args: &CommitArgs, out: &mut dyn Write) -> Result<(), Failure> {
    match &args.action {
        CommitAction::Status { output: Report::Json } => {
            write_json(out, &client.get::<Value>("reading the commit", &format!("{PATH}?check=true")).await?)
        }
        CommitAction::Status { .. } => write(&read(client).await?, out),
        CommitAction::Begin { confirm } => Ok(writeln!(out, "{}", text(&begin(client, *confirm).await?.id))?),
        CommitAction::Confirm { id } => {
            let id = named(client, id.as_deref()).await?;
            let _: Value = client.post("confirming the commit", &format!("{PATH}/confirm"), &json!({"id": id})).await?;
            Ok(writeln!(out, "commit {} confirmed", clean(&id))?)
        }
        CommitAction::Cancel { id } => {
            let id = named(client, id.as_deref()).await?;
            write(&cancel(client, &id).await?, out)
        }
        CommitAction::Extend { time, id } => {
            let id = named(client, id.as_deref()).await?;
            let body = json!({"id": id, "timeoutSeconds": time.as_secs()});
            write(&client.post("extending the commit", &format!("{PATH}/extend"), &body).await?, out)
        }
    }
}

/// Begins a commit.
pub(super) async fn begin(client: &Client, timeout: Duration) -> Result<CommitResource, Failure> {
    client.post("beginning a commit", PATH, &json!({"timeoutSeconds": timeout.as_secs()})).await
}

/// Rolls the pending commit back.
pub(super) async fn cancel(client: &Client, id: &str) -> Result<CommitResource, Failure> {
    client.post("cancelling the commit", &format!("{PATH}/cancel"), &json!({"id": id})).await
}

/// Prints the pending commit.
pub(super) async fn pending(client: &Client, out: &mut dyn Write) -> Result<(), Failure> {
    write(&read(client).await?, out)
}

/// One line about the pending commit, at `now`.
pub(super) fn line(commit: &PendingCommit, now: u64) -> String {
    format!(
        "Commit {} of {}: {} taken back in {} unless `canopyctl commit confirm {}` follows",
        text(&commit.id),
        clean(&commit.by.to_string()),
        if commit.changes == 1 { "1 change is".to_owned() } else { format!("{} changes are", commit.changes) },
        left(commit.deadline_unix_ns, now),
        text(&commit.id)
    )
}

async fn read(client: &Client) -> Result<CommitResource, Failure> {
    client.get("reading the commit", &format!("{PATH}?check=true")).await
}

/// The id that the user names, or that of the pending commit if the user has begun it.
async fn named(client: &Client, id: Option<&str>) -> Result<String, Failure> {
    if let Some(id) = id {
        return Ok(id.to_owned());
    }
    let answer = client.get::<Value>("reading the commit", PATH).await?;
    let commit: CommitResource = parse("reading the commit", answer.to_string().as_bytes())?;
    if commit.phase != CommitPhase::Pending {
        return Err(Failure::new(Exit::NotFound, "no commit is pending: `canopyctl commit status` shows the last one"));
    }
    if commit.by.uid.is_some_and(|uid| uid != nix::unistd::geteuid().as_raw()) {
        let message = format!("{} has begun commit {}: name its id", clean(&commit.by.to_string()), text(&commit.id));
        return Err(Failure::new(Exit::Conflict, message));
    }
    Ok(commit.id)
}

fn left(deadline: u64, now: u64) -> String {
    humantime::format_duration(Duration::from_secs(deadline.saturating_sub(now).div_ceil(1_000_000_000))).to_string()
}

fn write(commit: &CommitResource, out: &mut dyn Write) -> Result<(), Failure> {
    let (id, by) = (text(&commit.id), clean(&commit.by.to_string()));
    let ended_by = commit.ended_by.as_ref().map(|by| clean(&by.to_string())).unwrap_or_default();
    match commit.phase {
        CommitPhase::Pending => {
            let left = left(commit.deadline_unix_ns, commit.time_unix_ns);
            writeln!(out, "commit {id} of {by}: taken back in {left} unless `canopyctl commit confirm` follows")?;
        }
        CommitPhase::Confirmed => writeln!(out, "commit {id} of {by}: confirmed by {ended_by}")?,
        CommitPhase::Cancelled => {
            writeln!(out, "commit {id} of {by}: cancelled by {ended_by}, its changes were taken back")?
        }
        CommitPhase::Expired => {
            writeln!(out, "commit {id} of {by}: not confirmed in time, its changes were taken back")?
        }
    }
    for change in commit.changes.iter().take(SHOWN) {
        let what = match change.rollback {
            RollbackAction::Delete => "would be deleted",
            RollbackAction::PutBack => "would be put back",
        };
        writeln!(out, "  {}/{} {what}", text(change.kind).to_lowercase(), clean(&change.name))?;
    }
    if let Some(more) = commit.changes.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        writeln!(out, "  and {more} more")?;
    }
    for refused in &commit.refused {
        let verb = if commit.phase == CommitPhase::Pending { "could not be" } else { "was not" };
        let (kind, name) = (text(refused.kind).to_lowercase(), clean(&refused.name));
        writeln!(out, "  {kind}/{name} {verb} put back: {}", clean(&refused.detail))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use canopy_controller_api::commit::{CommitChange, RollbackRefusal};
    use canopy_controller_api::metadata::Principal;
    use canopy_controller_api::{ApiVersion, Kind, history::IntentKind};

    use super::*;

    fn commit(phase: CommitPhase) -> CommitResource {
        let by: Principal = parse("a test", br#"{"kind": "operator", "name": "alice"}"#).unwrap();
        CommitResource {
            api_version: ApiVersion,
            kind: Kind::Commit,
            id: "0123456789abcdef".into(),
            phase,
            by: by.clone(),
            begun_unix_ns: 0,
            deadline_unix_ns: 100_000_000_000,
            time_unix_ns: 9_500_000_000,
            ended_by: (phase != CommitPhase::Pending).then_some(by),
            ended_unix_ns: None,
            changes: vec![
                CommitChange { kind: IntentKind::Group, name: "g".into(), rollback: RollbackAction::PutBack },
                CommitChange { kind: IntentKind::Member, name: "g/r1".into(), rollback: RollbackAction::Delete },
            ],
            refused: vec![RollbackRefusal { kind: IntentKind::Drain, name: "n4".into(), detail: "in use".into() }],
        }
    }

    fn shown(phase: CommitPhase) -> String {
        let mut out = Vec::new();
        write(&commit(phase), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_commit_shows_what_a_rollback_does_and_what_it_cannot_do() {
        assert_eq!(
            shown(CommitPhase::Pending),
            "commit 0123456789abcdef of alice: taken back in 1m 31s unless `canopyctl commit confirm` follows\n  \
             group/g would be put back\n  member/g/r1 would be deleted\n  drain/n4 could not be put back: in use\n"
        );
        assert!(shown(CommitPhase::Expired).contains("not confirmed in time"));
        assert!(shown(CommitPhase::Cancelled).contains("cancelled by alice"));
        assert!(shown(CommitPhase::Confirmed).ends_with("drain/n4 was not put back: in use\n"));
    }
}
