// SPDX-License-Identifier: Apache-2.0
//! `describe group NAME`, `describe node NAME`, `describe link NODE/PORT`: all that is known, for troubleshooting.

mod group;
mod link;
mod node;

use std::io::Write;

use serde_json::Value;

use super::segment;
use crate::cli::{Describable, DescribeArgs};
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{list, text};

/// See the module.
///
/// # Errors
/// The controller cannot be reached, or there is no such resource.
pub async fn run(client: &Client, args: &DescribeArgs, out: &mut dyn Write) -> Result<(), Failure> {
    match args.kind {
        Describable::Group => group::describe(client, segment("group", &args.name)?, out).await,
        Describable::Link => link::describe(client, &args.name, out).await,
        Describable::Node => node::describe(client, segment("node", &args.name)?, out).await,
    }
}

fn field(out: &mut dyn Write, name: &str, value: impl std::fmt::Display) -> Result<(), Failure> {
    Ok(writeln!(out, "{:<20}{value}", format!("{name}:"))?)
}

fn conditions(out: &mut dyn Write, resource: &Value) -> Result<(), Failure> {
    let conditions = list(resource, "/status/conditions");
    if !conditions.is_empty() {
        writeln!(out, "\nConditions:")?;
        let row = |c: &Value| {
            vec![format!("  {}", text(c, "/type")), text(c, "/status"), text(c, "/reason"), text(c, "/message")]
        };
        crate::output::table(out, &["  TYPE", "STATUS", "REASON", "MESSAGE"], conditions.iter().map(row).collect())?;
    }
    Ok(())
}

/// `labels` of a resource as `a=b, c=d`.
fn labels(resource: &Value) -> String {
    let pairs = resource.pointer("/metadata/labels").and_then(Value::as_object);
    let pairs: Vec<String> =
        pairs.into_iter().flatten().map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default())).collect();
    if pairs.is_empty() { "-".into() } else { pairs.join(", ") }
}

/// A duration in nanoseconds, in a readable unit.
fn ago(ns: Option<u64>) -> String {
    match ns {
        None => "never".into(),
        Some(ns) if ns < 1_000_000 => format!("{} us ago", ns / 1000),
        Some(ns) if ns < 1_000_000_000 => format!("{} ms ago", ns / 1_000_000),
        Some(ns) => format!("{:.1} s ago", ns as f64 / 1e9),
    }
}
