// SPDX-License-Identifier: Apache-2.0
//! `apply -f FILE`: the controller checks all resources before the first is applied. Many are sent as one change set, few one by one.

use std::io::Write;

use canopy_controller_api::check::{Outcome, Validate, Validated};
use canopy_controller_api::metadata::Metadata;
use hyper::Method;
use serde_json::{Value, json};

use super::set::{self, Held};
use super::{change_set, commit};
use crate::cli::ApplyArgs;
use crate::client::{Client, parse};
use crate::documents::{self, Document};
use crate::failure::{Exit, Failure};
use crate::output::{clean, text};

/// See the module.
///
/// # Errors
/// A file cannot be read, or the controller refuses a resource; then nothing was applied, unless another client made a
/// change between the check and the application: the message contains the number of resources applied.
pub async fn run(client: &Client, args: &ApplyArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let mut documents = Vec::new();
    for file in &args.files {
        documents.extend(documents::read(file)?);
    }
    documents.sort_by_key(|d| d.kind);
    let mut left = Vec::new();
    if let Some(name) = &args.set {
        set::mark(&mut documents, name)?;
        left = set::left_out(client, &documents, name).await?;
    }
    left.truncate(if args.prune { left.len() } else { 0 });
    let outcomes = validate(client, &documents).await?;
    // Where nothing changes, nothing has to be confirmed, and no other operator has to wait.
    let changes = !left.is_empty() || outcomes.iter().any(|outcome| *outcome != Outcome::Unchanged);
    let work = Work { documents, outcomes, left, dry_run: args.dry_run };
    let Some(timeout) = args.confirm.filter(|_| changes) else { return work.run(client, out).await };
    let begun = commit::begin(client, timeout).await?;
    let inside = client.inside(&begun.id);
    if let Err(mut failure) = work.run(&inside, out).await {
        let cancelled = commit::cancel(client, &begun.id).await;
        failure.message += &match cancelled {
            Ok(_) => "\n  what was applied before was taken back".to_owned(),
            Err(e) => format!("\n  commit {} is still pending, and is rolled back in time: {e}", begun.id),
        };
        return Err(failure);
    }
    commit::pending(client, out).await
}

/// What passed the check.
struct Work {
    documents: Vec<Document>,
    /// Of each document.
    outcomes: Vec<Outcome>,
    /// What is pruned behind them.
    left: Vec<Held>,
    dry_run: bool,
}

impl Work {
    async fn run(&self, client: &Client, out: &mut dyn Write) -> Result<(), Failure> {
        let changing = self.outcomes.iter().filter(|outcome| **outcome != Outcome::Unchanged).count();
        if !self.dry_run && change_set::is_for(client, changing).await? {
            change_set::apply(client, &self.documents, &self.outcomes, out).await?;
        } else {
            all(client, &self.documents, &self.outcomes, self.dry_run, out).await?;
        }
        set::prune(client, &self.left, self.dry_run, out).await
    }
}

async fn all(
    client: &Client,
    documents: &[Document],
    outcomes: &[Outcome],
    dry_run: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    for (i, document) in documents.iter().enumerate() {
        let outcome = outcomes.get(i).map_or("applied".to_owned(), text);
        if dry_run {
            writeln!(out, "{} {outcome} (dry run)", document.name)?;
            continue;
        }
        let mut note = None;
        if outcomes.get(i) != Some(&Outcome::Unchanged) {
            let put = match tag(&document.body) {
                Some(tag) => put_read(client, document, &tag).await,
                None => {
                    note = other_writer(client, document).await;
                    client.change(&doing(document), Method::PUT, &document.path, Some(&document.body)).await
                }
            };
            if let Err(mut failure) = put {
                failure.message += &format!("\n  {i} of {} resources were applied before", documents.len());
                return Err(failure);
            }
        }
        writeln!(out, "{} {outcome}", document.name)?;
        if let Some(note) = note {
            writeln!(out, "  {note}")?;
        }
    }
    Ok(())
}

fn doing(document: &Document) -> String {
    format!("applying {} from {}", document.name, document.origin)
}

/// The state that the document was read in, if it was read from a controller.
fn tag(body: &Value) -> Option<String> {
    let uid = body.pointer("/metadata/uid")?.as_str()?;
    let generation = body.pointer("/metadata/generation")?.as_u64()?;
    Some(format!("\"{uid}.{generation}\""))
}

/// Replaces what the document was read from, unless that has changed since.
async fn put_read(client: &Client, document: &Document, tag: &str) -> Result<(), Failure> {
    let condition = ("if-match", tag);
    let put = client.change_if(&doing(document), Method::PUT, &document.path, Some(&document.body), condition).await;
    put.map_err(|mut failure| {
        if failure.exit == Exit::Conflict {
            failure.message += "\n  the file has the uid and generation that it was read with: read it again, or remove both to overwrite what others wrote";
        }
        failure
    })
}

/// A note where another operator wrote the resource last, which a document without its generation overwrites.
async fn other_writer(client: &Client, document: &Document) -> Option<String> {
    let present: Value = client.get("reading the present version", &document.path).await.ok()?;
    let metadata: Metadata = serde_json::from_value(present.get("metadata")?.clone()).ok()?;
    let by = metadata.written_by?;
    let is_other = by.uid.is_some_and(|uid| uid != nix::unistd::geteuid().as_raw());
    let history = document.name.replace('/', " ");
    is_other
        .then(|| format!("{} wrote it last: `canopyctl history {history}` has that version", clean(&by.to_string())))
}

/// The outcome for each resource, without applying it.
async fn validate(client: &Client, documents: &[Document]) -> Result<Vec<Outcome>, Failure> {
    let doing = "checking (nothing was applied)";
    let request = json!(Validate { items: documents.iter().map(|d| d.body.clone()).collect() });
    let answer = client.send(Method::POST, "/api/v1/validate", Some(&request)).await?;
    if answer.status != 200 {
        let mut failure = Failure::refused(doing, answer.status, &answer.body);
        // The controller's errors count items; users know files and documents. Replaced in descending order, so that
        // items[1] does not match items[12].
        for (i, d) in documents.iter().enumerate().rev() {
            failure.message = failure.message.replace(&format!("items[{i}]"), &format!("{} ({})", d.name, d.origin));
        }
        return Err(failure);
    }
    Ok(parse::<Validated>(doing, &answer.body)?.outcomes)
}
