// SPDX-License-Identifier: Apache-2.0
//! `diff -f FILE`, `diff KIND NAME [--to GENERATION]`.

use std::io::Write;

use hyper::Method;

use super::{preview, undo};
use crate::cli::DiffArgs;
use crate::client::Client;
use crate::documents;
use crate::failure::{Exit, Failure};

/// See the module. Each document is compared with what is in force, not with what the documents before it would do.
///
/// # Errors
/// A file cannot be read, there is no such version, or the controller would refuse it.
pub async fn run(client: &Client, args: &DiffArgs, out: &mut dyn Write) -> Result<(), Failure> {
    if let Some(kind) = args.of.kind {
        return undo::show(client, kind, args.of.name.as_deref(), args.to, out).await;
    }
    let mut documents = Vec::new();
    for file in &args.files {
        documents.extend(documents::read(file)?);
    }
    documents.sort_by_key(|d| d.kind);
    for document in &documents {
        let doing = format!("comparing {} from {}", document.name, document.origin);
        let answer = client.dry_run(&doing, Method::PUT, &document.path, Some(&document.body)).await;
        let answer = answer.map_err(|failure| match failure.exit {
            // Of a group that another document creates.
            Exit::NotFound => Failure::new(
                Exit::NotFound,
                format!("{failure}\n  apply --dry-run checks documents that depend on each other"),
            ),
            _ => failure,
        })?;
        preview::write(&document.name, &answer, out)?;
    }
    Ok(())
}
