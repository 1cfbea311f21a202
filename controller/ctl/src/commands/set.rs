// SPDX-License-Identifier: Apache-2.0
//! `apply --set NAME`: what is applied carries the label [`LABEL`], and `--prune` deletes what the set has and the files no longer have.
//!
//! Drains, groups and silences are in sets. The topology is the only one of its domain, and members carry no labels: both are applied and
//! never pruned.

use std::io::Write;

use canopy_controller_api::List;
use canopy_controller_api::check::DryRun;
use canopy_controller_api::metadata::Metadata;
use canopy_controller_api::query::{DrainQuery, ListQuery};
use hyper::Method;
use serde_json::{Map, Value};

use super::delete::until_gone;
use super::pages::{PAGE, list, pages};
use super::{preview, with_query};
use crate::client::Client;
use crate::documents::{Document, Kind, is_plain};
use crate::failure::{Exit, Failure};
use crate::output::clean;

/// Label of a resource that names its set.
const LABEL: &str = "canopy/set";
/// Longest name of a set: that of a label's value.
const MAX_NAME: usize = 63;

/// A resource that an earlier apply put into a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    kind: Kind,
    name: String,
    path: String,
    /// Its state, as an ETag.
    tag: String,
    set: String,
}

/// Puts documents into a set.
///
/// # Errors
/// A usage failure: the name cannot be a label, or a document has the label of another set.
pub(super) fn mark(documents: &mut [Document], set: &str) -> Result<(), Failure> {
    if set.len() > MAX_NAME || !is_plain(set) {
        let why = format!("--set {set:?} is not a name: use up to {MAX_NAME} of a-z, 0-9, '-', '_' and '.'");
        return Err(Failure::new(Exit::Usage, why));
    }
    for document in documents.iter_mut().filter(|d| in_sets(d.kind)) {
        let Some(metadata) = document.body.get_mut("metadata").and_then(Value::as_object_mut) else { continue };
        let labels = metadata.entry("labels").or_insert(Value::Null);
        if labels.is_null() {
            *labels = Value::Object(Map::new());
        }
        // The controller refuses labels that are no object.
        let Some(labels) = labels.as_object_mut() else { continue };
        if let Some(other) = labels.insert(LABEL.to_owned(), set.into()).filter(|other| other != set) {
            let origin = &document.origin;
            let why = format!("{origin}: metadata.labels has {LABEL}: {other}, and --set is {set}: remove the label");
            return Err(Failure::new(Exit::Usage, why));
        }
    }
    Ok(())
}

/// What of a set the documents no longer have, those first that depend on others.
///
/// # Errors
/// A document is in another set, or the controller cannot be reached.
pub(super) async fn left_out(client: &Client, documents: &[Document], set: &str) -> Result<Vec<Held>, Failure> {
    select(held(client).await?, documents, set)
}

fn select(held: Vec<Held>, documents: &[Document], set: &str) -> Result<Vec<Held>, Failure> {
    let is_applied = |held: &Held| documents.iter().find(|d| d.name == held.name);
    if let Some((other, document)) = held.iter().filter(|h| h.set != set).find_map(|h| Some((h, is_applied(h)?))) {
        let why = format!(
            "{} from {} is in set {}, not {set}: apply it there, or remove its label {LABEL} first (nothing was applied)",
            document.name,
            document.origin,
            clean(&other.set)
        );
        return Err(Failure::new(Exit::Conflict, why));
    }
    let names: std::collections::BTreeSet<&str> = documents.iter().map(|d| d.name.as_str()).collect();
    let mut left: Vec<Held> = held.into_iter().filter(|h| h.set == set && !names.contains(h.name.as_str())).collect();
    left.sort_by(|a, b| b.kind.cmp(&a.kind).then_with(|| a.name.cmp(&b.name)));
    Ok(left)
}

/// Deletes what is left out, unless it has changed since it was read.
///
/// # Errors
/// A deletion is refused; the resources before it are deleted.
pub(super) async fn prune(client: &Client, left: &[Held], dry_run: bool, out: &mut dyn Write) -> Result<(), Failure> {
    for (i, Held { name, path, tag, set, .. }) in left.iter().enumerate() {
        let doing = format!("pruning {name} of set {set}");
        if dry_run {
            let preview = client.dry_run(&doing, Method::DELETE, path, None).await?;
            // That all of it goes is in the summary.
            preview::write(name, &DryRun { changes: Vec::new(), ..preview }, out)?;
            continue;
        }
        match client.delete(&doing, path, Some(("if-match", tag))).await {
            Ok(None) => writeln!(out, "{name} pruned")?,
            Ok(Some(group)) => until_gone(client, name, path, group, out).await?,
            // Another client was faster.
            Err(failure) if failure.exit == Exit::NotFound => {}
            Err(mut failure) => {
                failure.message +=
                    &format!("\n  all files were applied; {i} of {} resources were pruned before", left.len());
                return Err(failure);
            }
        }
    }
    Ok(())
}

/// All resources that are in a set.
async fn held(client: &Client) -> Result<Vec<Held>, Failure> {
    let groups = |next| ListQuery { limit: Some(PAGE), next, label_selector: LABEL.to_owned(), ..ListQuery::default() };
    let drains = DrainQuery { label_selector: LABEL.to_owned(), ..DrainQuery::default() };
    let drains = with_query("/api/v1/drains", &drains)?;
    let lists = [
        (Kind::Group, "group", "/api/v1/groups", pages(client, "/api/v1/groups", groups).await?),
        (Kind::Drain, "drain", "/api/v1/drains", list(client, "/api/v1/drains", &drains).await?),
        (Kind::Silence, "silence", "/api/v1/silences", list(client, "/api/v1/silences", "/api/v1/silences").await?),
    ];
    let mut all = Vec::new();
    for (kind, word, path, list) in lists {
        let list: List<Value> = list;
        for item in list.items {
            let metadata: Metadata = serde_json::from_value(item["metadata"].clone())
                .map_err(|e| Failure::new(Exit::Error, format!("reading {path}: {e}")))?;
            let Metadata { name, labels, generation, uid, .. } = metadata;
            let (Some(set), Some(uid)) = (labels.get(LABEL), uid) else { continue };
            let (set, tag) = (set.clone(), format!("\"{uid}.{generation}\""));
            all.push(Held { kind, name: format!("{word}/{name}"), path: format!("{path}/{name}"), tag, set });
        }
    }
    Ok(all)
}

fn in_sets(kind: Kind) -> bool {
    match kind {
        Kind::Drain | Kind::Group | Kind::Silence => true,
        Kind::Topology | Kind::Member => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::documents::parse;

    fn documents(labels: &Value) -> Vec<Document> {
        let group = json!({"apiVersion": "canopy/v1", "kind": "Group", "metadata": {"name": "g1", "labels": labels}});
        let member =
            json!({"apiVersion": "canopy/v1", "kind": "Member", "metadata": {"group": "g1"}, "spec": {"host": "r1"}});
        parse("f", &format!("{group}\n{member}")).unwrap()
    }

    fn held(kind: Kind, name: &str, set: &str) -> Held {
        Held { kind, name: name.into(), path: String::new(), tag: String::new(), set: set.into() }
    }

    #[test]
    fn a_set_is_a_label_of_what_can_have_labels() {
        for labels in [json!(null), json!({}), json!({"a": "b"}), json!({"canopy/set": "s"})] {
            let mut documents = documents(&labels);
            mark(&mut documents, "s").unwrap();
            assert_eq!(documents[0].body["metadata"]["labels"]["canopy/set"], "s", "{labels}");
            assert_eq!(documents[0].body["metadata"]["labels"]["a"], labels["a"]);
            assert_eq!(documents[1].body["metadata"], json!({"group": "g1"}));
        }
        let other = mark(&mut documents(&json!({"canopy/set": "t"})), "s").unwrap_err();
        assert!(other.message.contains("f document 1: metadata.labels has canopy/set: \"t\""), "{other}");
        for bad in ["", "a/b", "x y", &"x".repeat(64)] {
            assert_eq!(mark(&mut documents(&json!({})), bad).unwrap_err().exit, Exit::Usage, "{bad:?}");
        }
    }

    #[test]
    fn only_what_the_set_has_and_the_files_have_not_is_left_out() {
        let documents = documents(&json!({}));
        let all = [
            held(Kind::Drain, "drain/d", "s"),
            held(Kind::Group, "group/g1", "s"),
            held(Kind::Group, "group/g2", "s"),
            held(Kind::Group, "group/g3", "t"),
            held(Kind::Silence, "silence/x", "s"),
        ];
        let left = select(all.to_vec(), &documents, "s").unwrap();
        assert_eq!(left.iter().map(|h| h.name.as_str()).collect::<Vec<_>>(), ["silence/x", "group/g2", "drain/d"]);
        let taken = select(all.to_vec(), &documents, "t").unwrap_err();
        assert_eq!(taken.exit, Exit::Conflict);
        assert!(taken.message.starts_with("group/g1 from f document 1 is in set s, not t"), "{taken}");
    }
}
