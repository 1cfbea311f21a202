// SPDX-License-Identifier: Apache-2.0
//! `node retire`: asks the controller for it, and shows the steps that it takes.

use std::io::Write;

use canopy_controller_api::NodeResource;
use canopy_controller_api::retirement::{RetireStep, Retirement};
use canopy_model::retirement::RetireSpec;
use hyper::Method;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::segment;
use super::wait::POLL;
use crate::cli::{RetireArgs, RetireOutput};
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::output::{self, text};

/// Executes the command. Its progress goes to `out`, or to `err` if that gets JSON.
///
/// # Errors
/// The controller cannot be reached, or refused; the node has not left in time, and the controller continues.
pub async fn run(client: &Client, args: &RetireArgs, out: &mut dyn Write, err: &mut dyn Write) -> Result<(), Failure> {
    let name = segment("node", &args.name)?;
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
    let present = node.status.retirement.filter(|retirement| retirement.step != RetireStep::Retired);
    let body = json!(wanted(args, present.as_ref()));
    let node: NodeResource = client.post(&format!("retiring node {name}"), &path, &body).await?;
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

/// What is wanted, and what was wanted before where this call leaves it open: a second call continues where the first one stopped.
fn wanted(args: &RetireArgs, present: Option<&Retirement>) -> RetireSpec {
    let before = present.map_or_else(RetireSpec::default, |present| RetireSpec {
        reason: present.reason.clone(),
        accept_loss: present.accept_loss,
        without_agent: present.without_agent,
        timeout_seconds: present.timeout_seconds,
    });
    RetireSpec {
        reason: args.reason.clone().unwrap_or(before.reason),
        accept_loss: args.accept_loss || before.accept_loss,
        without_agent: args.without_agent || before.without_agent,
        timeout_seconds: args.timeout.map_or(before.timeout_seconds, |timeout| timeout.as_secs()),
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

fn line(retirement: &Retirement) -> String {
    let waits_for = text(&retirement.waits_for);
    match retirement.step {
        RetireStep::Retired => "retired: certificates that it had are revoked".to_owned(),
        step => format!("{step}: waits for {waits_for}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a second call that takes back what the first one got.
    #[test]
    fn a_second_call_continues_with_what_the_first_one_wanted() {
        let args = |accept_loss, without_agent| RetireArgs {
            name: "n4".into(),
            accept_loss,
            without_agent,
            reason: None,
            timeout: None,
            cancel: false,
            output: RetireOutput::Text,
        };
        assert_eq!(wanted(&args(false, false), None), RetireSpec::default());
        let first =
            RetireSpec { reason: "old".into(), accept_loss: true, timeout_seconds: 60, ..RetireSpec::default() };
        let present = Retirement {
            step: RetireStep::Draining,
            since_unix_ns: 0,
            waits_for: String::new(),
            reason: first.reason.clone(),
            accept_loss: true,
            without_agent: false,
            timeout_seconds: 60,
            by: serde_json::from_value(json!({"kind": "operator", "name": "alice"})).unwrap(),
            begun_unix_ns: 0,
            drain: None,
            removed: vec![],
            failed: None,
        };
        assert_eq!(wanted(&args(false, false), Some(&present)), first);
        let now = RetireArgs { reason: Some("new".into()), ..args(false, true) };
        let both = RetireSpec { reason: "new".into(), without_agent: true, ..first };
        assert_eq!(wanted(&now, Some(&present)), both);
    }
}
