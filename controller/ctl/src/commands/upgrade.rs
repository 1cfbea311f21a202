// SPDX-License-Identifier: Apache-2.0
//! `upgrade plan`: what is upgraded in which order, from the versions that the controller reports.

use std::io::Write;
use std::sync::Arc;

use canopy_controller_api::topology::TopologyResource;
use canopy_controller_api::version::Version;
use canopy_model::topology::Endpoint;
use serde_json::json;

use super::pages;
use crate::cli::{PlanOutput, UpgradeAction, UpgradeArgs};
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::output::{clean, json};
use crate::upgrade::batches::Network;
use crate::upgrade::plan::{Plan, Running, Step};
use crate::upgrade::release::Release;

/// See the module.
///
/// # Errors
/// The controller does not answer, or the version is refused.
pub async fn run(client: &Client, args: &UpgradeArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let UpgradeAction::Plan { to, batch, output } = &args.action;
    let running = read(client).await?;
    let plan = running.plan(*to, batch.map(usize::from)).map_err(|why| Failure::new(Exit::Error, clean(&why)))?;
    match output {
        PlanOutput::Text => write(&plan, &running, *to, out),
        PlanOutput::Json => json(out, &json!({"to": to.to_string(), "steps": plan.steps, "unknown": plan.unknown})),
    }
}

async fn read(client: &Client) -> Result<Running, Failure> {
    let doing = "reading versions";
    let version: Version = client.get(doing, "/version").await?;
    let controller = version
        .version
        .parse()
        .map_err(|error| Failure::new(Exit::Error, format!("the controller's version: {error}")))?;
    let nodes = pages::nodes(client).await?;
    let links = match nodes.is_empty() {
        true => Vec::new(),
        false => {
            let topology = client.get::<TopologyResource>(doing, "/api/v1/topology").await?;
            Arc::unwrap_or_clone(topology.spec).links
        }
    };
    let agents: Vec<(String, Option<Release>)> =
        nodes.iter().map(|node| (node.metadata.name.clone(), node.status.agent_version.parse().ok())).collect();
    let device = |end: &Endpoint| end.device.clone();
    let network = Network::new(
        agents.iter().map(|(name, _)| name.clone()),
        links.iter().map(|link| (device(&link.a), device(&link.b))),
    );
    Ok(Running { controller, agents, network })
}

fn write(plan: &Plan, running: &Running, to: Release, out: &mut dyn Write) -> Result<(), Failure> {
    if plan.steps.is_empty() {
        return Ok(writeln!(out, "nothing to do: the controller and all agents are {to}")?);
    }
    for (number, step) in plan.steps.iter().enumerate() {
        let number = number + 1;
        match step {
            Step::Controller => writeln!(out, "{number:<4}controller  {} -> {to}", running.controller)?,
            Step::Agents { names } => {
                let names: Vec<String> = names.iter().map(|name| clean(name)).collect();
                writeln!(out, "{number:<4}agents      {}", names.join(" "))?;
            }
        }
    }
    for name in &plan.unknown {
        writeln!(out, "agent {} has not reported its version", clean(name))?;
    }
    Ok(writeln!(out, "after each step: canopyctl check (its line `versions` fails until the last one)")?)
}
