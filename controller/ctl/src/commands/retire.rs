// SPDX-License-Identifier: Apache-2.0
//! `node retire`: asks the controller for it, and shows the steps that it takes.

mod all;
mod step;

use std::io::Write;

use canopy_controller_api::NodeResource;
use canopy_controller_api::retirement::RetireStep;
use hyper::Method;
use serde_json::json;
use tokio::time::{Instant, sleep};

use self::step::{begin, line};
use super::segment;
use super::wait::POLL;
use crate::cli::{RetireArgs, RetireOutput};
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::output::{self, text};

/// Executes the command, for one node or for all. Its progress goes to `out`, or to `err` if that gets JSON.
///
/// # Errors
/// The controller cannot be reached, or refused; the node has not left in time, and the controller continues.
pub async fn run(client: &Client, args: &RetireArgs, out: &mut dyn Write, err: &mut dyn Write) -> Result<(), Failure> {
    let Some(name) = &args.name else { return all::run(client, args, out).await };
    let name = segment("node", name)?;
    let node: NodeResource = client.get(&format!("reading node {name}"), &format!("/api/v1/nodes/{name}")).await?;
    let path = format!("/api/v1/nodes/{name}/retire");
    if args.cancel {
        client.change(&format!("taking the retirement of node {name} back"), Method::DELETE, &path, None).await?;
        let drain = node.status.retirement.as_ref().and_then(|retirement| retirement.drain.as_ref());
        let drained = match (drain, node.status.retirement.as_ref().map(|retirement| retirement.step)) {
            (Some(_), Some(RetireStep::Draining)) => "it is in service again",
            _ => "it stays drained (canopyctl undrain)",
        };
        return Ok(writeln!(out, "node/{name} is not being retired any more; {drained}")?);
    }
    let node = begin(client, args, &node).await?;
    match args.output {
        RetireOutput::Text => follow(client, name, node, args, out).await.map(drop),
        RetireOutput::Json => {
            let (node, late) = match follow(client, name, node, args, err).await {
                Ok(node) => (node, None),
                Err(late) if late.exit == Exit::Timeout => (read(client, name).await?, Some(late)),
                Err(failure) => return Err(failure),
            };
            output::json(out, &json!(node))?;
            late.map_or(Ok(()), Err)
        }
    }
}

async fn read(client: &Client, name: &str) -> Result<NodeResource, Failure> {
    client.get(&format!("reading node {name}"), &format!("/api/v1/nodes/{name}")).await
}

/// Writes a line for each step and for what it waits for, until the node has left.
async fn follow(
    client: &Client,
    name: &str,
    mut node: NodeResource,
    args: &RetireArgs,
    out: &mut dyn Write,
) -> Result<NodeResource, Failure> {
    let mut deadline = None;
    let mut shown = None;
    loop {
        let Some(retirement) = &node.status.retirement else {
            let message = format!("node {name} is not being retired any more: another call has taken that back");
            return Err(Failure::new(Exit::Conflict, message));
        };
        let line = line(retirement);
        if shown.as_ref() != Some(&line) {
            writeln!(out, "node/{name}: {line}")?;
            out.flush()?;
            shown = Some(line);
        }
        if retirement.step == RetireStep::Retired {
            for removed in &retirement.removed {
                writeln!(out, "  removed {}", text(removed))?;
            }
            if retirement.removed.is_empty() {
                writeln!(
                    out,
                    "  its agent has not reported: on its machine, `canopy-agent cleanup` removes what is left, or apt-get purge canopy-agent"
                )?;
            }
            writeln!(out, "take it out of the topology; `canopyctl node enroll {name}` takes it back instead")?;
            return Ok(node);
        }
        let timeout = args.timeout.unwrap_or(std::time::Duration::from_secs(retirement.timeout_seconds));
        if Instant::now() + POLL > *deadline.get_or_insert_with(|| Instant::now() + timeout) {
            let message = format!(
                "node {name} has not left within {}: it waits for {}; the controller continues, and the same command shows it again (--cancel takes it back while it is drained)",
                humantime::format_duration(timeout),
                text(&retirement.waits_for)
            );
            return Err(Failure::new(Exit::Timeout, message));
        }
        sleep(POLL).await;
        node = read(client, name).await?;
    }
}
