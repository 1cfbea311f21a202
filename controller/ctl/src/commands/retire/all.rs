// SPDX-License-Identifier: Apache-2.0
//! `node retire --all`: every node leaves, at the same time.

use std::collections::BTreeMap;
use std::io::Write;

use canopy_controller_api::NodeResource;
use canopy_controller_api::retirement::RetireStep;
use tokio::time::{Instant, sleep};

use super::super::pages::nodes;
use super::super::wait::POLL;
use super::step::{begin, line};
use crate::cli::RetireArgs;
use crate::client::Client;
use crate::failure::{Exit, Failure};

/// Time that all have, unless the command line has another.
const WITHIN: std::time::Duration = std::time::Duration::from_secs(300);

/// Retires all nodes and waits until they have left; a line for each step of each goes to `out`.
///
/// # Errors
/// The controller cannot be reached; or nodes stay, which the message names with what each waits for.
pub(super) async fn run(client: &Client, args: &RetireArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let (mut refused, mut shown) = (BTreeMap::new(), BTreeMap::new());
    for node in nodes(client).await?.iter().filter(|node| !has_left(node)) {
        if let Err(failure) = begin(client, args, node).await {
            refused.insert(node.metadata.name.clone(), failure.message);
        }
    }
    let within = args.timeout.unwrap_or(WITHIN);
    let deadline = Instant::now() + within;
    loop {
        let nodes = nodes(client).await?;
        for node in &nodes {
            let (name, Some(retirement)) = (&node.metadata.name, &node.status.retirement) else { continue };
            let now = line(retirement);
            if shown.get(name) != Some(&now) {
                writeln!(out, "node/{name}: {now}")?;
                out.flush()?;
                shown.insert(name.clone(), now);
            }
        }
        let stay: Vec<_> = nodes.iter().filter(|node| !has_left(node)).collect();
        if stay.is_empty() {
            return Ok(writeln!(out, "all nodes have left")?);
        }
        // What was refused does not change by itself.
        let has_ended = stay.iter().all(|node| refused.contains_key(&node.metadata.name));
        if has_ended || Instant::now() + POLL > deadline {
            return Err(late(&stay, &refused, within));
        }
        sleep(POLL).await;
    }
}

fn has_left(node: &NodeResource) -> bool {
    node.status.retirement.as_ref().is_some_and(|of| of.step == RetireStep::Retired)
}

fn late(stay: &[&NodeResource], refused: &BTreeMap<String, String>, within: std::time::Duration) -> Failure {
    let why = |node: &NodeResource| match (refused.get(&node.metadata.name), &node.status.retirement) {
        (Some(refusal), _) => refusal.clone(),
        (None, Some(retirement)) => line(retirement),
        (None, None) => "another call has taken its retirement back".to_owned(),
    };
    let lines: String = stay.iter().map(|node| format!("\n  {}: {}", node.metadata.name, why(node))).collect();
    let exit = if refused.is_empty() { Exit::Timeout } else { Exit::Conflict };
    let message = format!(
        "{} nodes have not left within {}; the controller continues, and the same command shows it again:{lines}",
        stay.len(),
        humantime::format_duration(within)
    );
    Failure::new(exit, message)
}
