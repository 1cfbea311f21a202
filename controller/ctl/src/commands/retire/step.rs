// SPDX-License-Identifier: Apache-2.0
//! How a retirement begins and continues, and its step as a line.

use canopy_controller_api::NodeResource;
use canopy_controller_api::retirement::{RetireStep, Retirement};
use canopy_model::retirement::RetireSpec;
use serde_json::json;

use super::super::segment;
use crate::cli::RetireArgs;
use crate::client::Client;
use crate::failure::Failure;
use crate::output::text;

/// Begins to retire a node, or changes how that continues; returns the node.
///
/// # Errors
/// The controller cannot be reached, or refused.
pub(super) async fn begin(client: &Client, args: &RetireArgs, node: &NodeResource) -> Result<NodeResource, Failure> {
    let name = segment("node", &node.metadata.name)?;
    let present = node.status.retirement.as_ref().filter(|retirement| retirement.step != RetireStep::Retired);
    let body = json!(wanted(args, present));
    client.post(&format!("retiring node {name}"), &format!("/api/v1/nodes/{name}/retire"), &body).await
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

/// The step, and what it waits for.
pub(super) fn line(retirement: &Retirement) -> String {
    let waits_for = text(&retirement.waits_for);
    match retirement.step {
        RetireStep::Retired => "retired: certificates that it had are revoked".to_owned(),
        step => format!("{step}: waits for {waits_for}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::RetireOutput;

    /// Catches a second call that takes back what the first one got.
    #[test]
    fn a_second_call_continues_with_what_the_first_one_wanted() {
        let args = |accept_loss, without_agent| RetireArgs {
            name: Some("n4".into()),
            all: false,
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
