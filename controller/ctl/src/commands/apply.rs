// SPDX-License-Identifier: Apache-2.0
//! `apply -f FILE`: the controller checks all resources before the first is applied.

use std::io::Write;

use canopy_controller_api::check::{Outcome, Validate, Validated};
use hyper::Method;
use serde_json::json;

use crate::cli::ApplyArgs;
use crate::client::{Client, parse};
use crate::documents::{self, Document};
use crate::failure::Failure;
use crate::output::text;

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
    let outcomes = validate(client, &documents).await?;
    for (i, document) in documents.iter().enumerate() {
        let outcome = outcomes.get(i).map_or("applied".to_owned(), text);
        if args.dry_run {
            writeln!(out, "{} {outcome} (dry run)", document.name)?;
            continue;
        }
        if outcomes.get(i) != Some(&Outcome::Unchanged) {
            let put = client
                .change(
                    &format!("applying {} from {}", document.name, document.origin),
                    Method::PUT,
                    &document.path,
                    Some(&document.body),
                )
                .await;
            if let Err(mut failure) = put {
                failure.message += &format!("\n  {i} of {} resources were applied before", documents.len());
                return Err(failure);
            }
        }
        writeln!(out, "{} {outcome}", document.name)?;
    }
    Ok(())
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
