// SPDX-License-Identifier: Apache-2.0
//! `describe group NAME`, `describe node NAME`, `describe link NODE/PORT`, `describe host NAME`,
//! `describe drain NAME`: all that is known, for troubleshooting.

mod drain;
mod group;
mod host;
mod link;
mod node;

use std::io::Write;

use canopy_controller_api::condition::Condition;
use canopy_controller_api::metadata::Metadata;

use super::segment;
use crate::cli::{Describable, DescribeArgs};
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{table, text};

/// See the module.
///
/// # Errors
/// The controller cannot be reached, or there is no such resource.
pub async fn run(client: &Client, args: &DescribeArgs, out: &mut dyn Write) -> Result<(), Failure> {
    match args.kind {
        Describable::Group => group::describe(client, segment("group", &args.name)?, out).await,
        Describable::Link => link::describe(client, &args.name, out).await,
        Describable::Drain => drain::describe(client, segment("drain", &args.name)?, out).await,
        Describable::Host => host::describe(client, segment("host", &args.name)?, out).await,
        Describable::Node => node::describe(client, segment("node", &args.name)?, out).await,
    }
}

fn field(out: &mut dyn Write, name: &str, value: impl std::fmt::Display) -> Result<(), Failure> {
    Ok(writeln!(out, "{:<20}{value}", format!("{name}:"))?)
}

/// As a selector has them; nothing if there are none.
fn labels(of: &Metadata) -> String {
    let all: Vec<String> = of.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    all.join(", ")
}

/// One field per line.
fn fields<const N: usize>(out: &mut dyn Write, all: [(&str, String); N]) -> Result<(), Failure> {
    all.into_iter().try_for_each(|(name, value)| field(out, name, value))
}

fn conditions(out: &mut dyn Write, conditions: &[Condition]) -> Result<(), Failure> {
    if conditions.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nConditions:")?;
    let row = |c: &Condition| vec![format!("  {}", text(c.kind)), text(c.status), text(c.reason), text(&c.message)];
    table(out, &["  TYPE", "STATUS", "REASON", "MESSAGE"], conditions.iter().map(row).collect())
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
