// SPDX-License-Identifier: Apache-2.0
//! A node: its desired state, its agent's reports, and its drops.

use std::io::Write;

use canopy_controller_api::NodeResource;
use canopy_controller_api::log_level::LogLevelItem;
use canopy_controller_api::node::PortView;
use canopy_controller_api::telemetry::{GroupSample, NodeSample};
use canopy_model::rfc3339;
use canopy_units::UnixTime;

use super::super::log_level::{self, described};
use super::super::rows;
use super::{conditions, fields, labels};
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{table, text};

pub(super) async fn describe(client: &Client, name: &str, out: &mut dyn Write) -> Result<(), Failure> {
    let doing = format!("describing node {name}");
    let node: NodeResource = client.get(&doing, &format!("/api/v1/nodes/{name}")).await?;
    let telemetry: NodeSample = client.get(&doing, &format!("/api/v1/nodes/{name}/telemetry")).await?;
    let levels = log_level::read(client).await?;
    let level = levels.iter().find(|level| level.node.as_deref() == Some(name));
    summary(out, &node, level)?;
    ports(out, &node.spec.ports)?;
    retirement(out, &node)?;
    errors(out, &node)?;
    groups(out, &telemetry.groups)?;
    drops(out, &telemetry)?;
    conditions(out, &node.status.conditions)
}

fn summary(out: &mut dyn Write, node: &NodeResource, level: Option<&LogLevelItem>) -> Result<(), Failure> {
    let (spec, status) = (&node.spec, &node.status);
    fields(
        out,
        [
            ("Name", text(&node.metadata.name)),
            ("Labels", text(labels(&node.metadata))),
            ("Id", text(spec.id)),
            ("Address", text(spec.node_address)),
            ("Locator (uN)", text(spec.un)),
            ("End.MT SID", text(spec.end_mt)),
            ("State", text(format!("{:?}", status.state))),
            ("Connected", rows::connection(node)),
            ("Desired", text(spec.generation)),
            ("Applied", text(status.observed_generation)),
            ("Agent", text(&status.agent_version)),
            ("Kernel", text(&status.kernel)),
            ("Log level", level.map_or("of its configuration".to_owned(), described)),
            ("Routes", text(spec.routes)),
            ("Groups", text(spec.groups)),
        ],
    )
}

fn ports(out: &mut dyn Write, ports: &[PortView]) -> Result<(), Failure> {
    writeln!(out, "\nPorts:")?;
    let row = |p: &PortView| {
        vec![format!("  {}", text(p.index)), text(&p.name), text(&p.peer), text(p.mtu), text(p.link_local)]
    };
    table(out, &["  INDEX", "NAME", "PEER", "MTU", "LINK-LOCAL"], ports.iter().map(row).collect())
}

fn retirement(out: &mut dyn Write, node: &NodeResource) -> Result<(), Failure> {
    let Some(of) = &node.status.retirement else { return Ok(()) };
    writeln!(out, "\nRetirement:")?;
    let at = |ns| rfc3339::seconds(UnixTime::from_nanos(ns));
    fields(
        out,
        [
            ("  Step", format!("{} since {}", of.step, at(of.since_unix_ns))),
            ("  Waits for", text(&of.waits_for)),
            ("  Reason", text(&of.reason)),
            ("  Begun", format!("{} by {}", at(of.begun_unix_ns), text(of.by.to_string()))),
            ("  Accepts loss", text(of.accept_loss)),
            ("  Without agent", text(of.without_agent)),
            ("  Removed", text(of.removed.join(", "))),
        ],
    )
}

fn errors(out: &mut dyn Write, node: &NodeResource) -> Result<(), Failure> {
    if !node.status.errors.is_empty() {
        writeln!(out, "\nNot as desired:")?;
    }
    for e in &node.status.errors {
        writeln!(out, "  ! {} {}: {}", text(e.kind), text(&e.name), text(&e.detail))?;
    }
    Ok(())
}

fn groups(out: &mut dyn Write, groups: &[GroupSample]) -> Result<(), Failure> {
    if groups.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nGroups:")?;
    let row = |g: &GroupSample| {
        vec![
            format!("  {}", text(&g.group)),
            text(g.counters.epoch),
            text(g.counters.data_packets),
            text(g.counters.acks_in),
            text(g.counters.acks_out),
            text(g.counters.branches.len()),
        ]
    };
    table(out, &["  GROUP", "EPOCH", "DATA", "ACKS IN", "ACKS OUT", "BRANCHES"], groups.iter().map(row).collect())
}

fn drops(out: &mut dyn Write, telemetry: &NodeSample) -> Result<(), Failure> {
    let of_node = telemetry.drops.iter().map(|d| ("-".to_owned(), d));
    let of_groups = telemetry.groups.iter().flat_map(|g| g.counters.drops.iter().map(|d| (text(&g.group), d)));
    let row = |(group, d): (String, &canopy_model::telemetry::DropCount)| {
        vec![
            format!("  {group}"),
            d.port.clone().unwrap_or_else(|| "-".into()),
            text(d.reason),
            text(&d.name),
            text(d.packets),
        ]
    };
    let rows: Vec<Vec<String>> = of_node.chain(of_groups).map(row).collect();
    if rows.is_empty() {
        return Ok(writeln!(out, "\nDrops: none reported")?);
    }
    writeln!(out, "\nDrops:")?;
    table(out, &["  GROUP", "PORT", "REASON", "NAME", "PACKETS"], rows)
}
