// SPDX-License-Identifier: Apache-2.0
//! `log-level agent NODE LEVEL`, `log-level controller LEVEL`, `log-level list`.

use std::io::Write;
use std::time::Duration;

use canopy_controller_api::List;
use canopy_controller_api::log_level::{LogLevelItem, LogLevelRequest};
use serde_json::json;

use super::segment;
use crate::cli::{LogLevelAction, LogLevelArgs};
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{clean, table, text};

const PATH: &str = "/api/v1/log-levels";
/// The word for the level of the configuration.
const DEFAULT: &str = "default";

/// See the module.
///
/// # Errors
/// The level is none, the agent is not connected or too old for it, or the controller cannot be reached.
pub async fn run(client: &Client, args: &LogLevelArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let (node, level, time) = match &args.action {
        LogLevelAction::List => return write(&read(client).await?, out),
        LogLevelAction::Agent { node, level, time } => (Some(segment("node", node)?.to_owned()), level, time),
        LogLevelAction::Controller { level, time } => (None, level, time),
    };
    let level = (level != DEFAULT).then(|| level.clone());
    let whose = node.as_ref().map_or("the controller".to_owned(), |node| format!("the agent of {node}"));
    let for_seconds = Some(u32::try_from(time.as_secs()).unwrap_or(u32::MAX));
    let request = json!(LogLevelRequest { node, level: level.clone(), for_seconds });
    let _: List<LogLevelItem> = client.post(&format!("setting the log level of {whose}"), PATH, &request).await?;
    match level {
        Some(level) => writeln!(out, "{whose} logs {} for {}", clean(&level), humantime::format_duration(*time))?,
        None => writeln!(out, "{whose} logs what its configuration asks for")?,
    }
    Ok(())
}

/// The levels in force.
pub(super) async fn read(client: &Client) -> Result<Vec<LogLevelItem>, Failure> {
    let list: List<LogLevelItem> = client.get("listing log levels", PATH).await?;
    Ok(list.items)
}

/// `debug for 9m 58s more (alice)`.
pub(super) fn described(item: &LogLevelItem) -> String {
    format!("{} for {} more ({})", text(&item.level), left(item), clean(&item.by.to_string()))
}

fn left(item: &LogLevelItem) -> String {
    humantime::format_duration(Duration::from_secs(item.left_ns / 1_000_000_000)).to_string()
}

fn write(items: &[LogLevelItem], out: &mut dyn Write) -> Result<(), Failure> {
    if items.is_empty() {
        return Ok(writeln!(out, "every log level is that of its configuration")?);
    }
    let row = |item: &LogLevelItem| {
        let of = item.node.as_ref().map_or("controller".to_owned(), |node| format!("agent {}", text(node)));
        vec![of, text(&item.level), left(item), clean(&item.by.to_string())]
    };
    table(out, &["OF", "LEVEL", "FOR", "BY"], items.iter().map(row).collect())
}
