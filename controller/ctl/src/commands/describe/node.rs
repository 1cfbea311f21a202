// SPDX-License-Identifier: Apache-2.0
//! A node: its desired state, its agent's reports, and its drops.

use std::io::Write;

use serde_json::Value;

use super::{conditions, field};
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{list, table, text};

pub(super) async fn describe(client: &Client, name: &str, out: &mut dyn Write) -> Result<(), Failure> {
    let doing = format!("describing node {name}");
    let node = client.get(&doing, &format!("/api/v1/nodes/{name}")).await?;
    let telemetry = client.get(&doing, &format!("/api/v1/nodes/{name}/telemetry")).await?;
    for (label, pointer) in [
        ("Name", "/metadata/name"),
        ("Id", "/spec/id"),
        ("Address", "/spec/nodeAddress"),
        ("Locator (uN)", "/spec/un"),
        ("End.MT SID", "/spec/endMt"),
        ("Connected", "/status/connected"),
        ("Desired", "/spec/generation"),
        ("Applied", "/status/observedGeneration"),
        ("Agent", "/status/agentVersion"),
        ("Kernel", "/status/kernel"),
        ("Routes", "/spec/routes"),
        ("Groups", "/spec/groups"),
    ] {
        field(out, label, text(&node, pointer))?;
    }
    writeln!(out, "\nPorts:")?;
    let row = |p: &Value| {
        vec![
            format!("  {}", text(p, "/index")),
            text(p, "/name"),
            text(p, "/peer"),
            text(p, "/mtu"),
            text(p, "/linkLocal"),
        ]
    };
    table(
        out,
        &["  INDEX", "NAME", "PEER", "MTU", "LINK-LOCAL"],
        list(&node, "/spec/ports").iter().map(row).collect(),
    )?;
    let errors = list(&node, "/status/errors");
    if !errors.is_empty() {
        writeln!(out, "\nNot as desired:")?;
        for e in errors {
            writeln!(out, "  ! {} {}: {}", text(e, "/kind"), text(e, "/name"), text(e, "/detail"))?;
        }
    }
    let groups = list(&telemetry, "/groups");
    if !groups.is_empty() {
        writeln!(out, "\nGroups:")?;
        let row = |g: &Value| {
            vec![
                format!("  {}", text(g, "/group")),
                text(g, "/epoch"),
                text(g, "/dataPackets"),
                text(g, "/acksIn"),
                text(g, "/acksOut"),
                list(g, "/branches").len().to_string(),
            ]
        };
        table(out, &["  GROUP", "EPOCH", "DATA", "ACKS IN", "ACKS OUT", "BRANCHES"], groups.iter().map(row).collect())?;
    }
    let of_node = list(&telemetry, "/drops").iter().map(|d| ("-".to_owned(), d));
    let of_groups = groups.iter().flat_map(|g| list(g, "/drops").iter().map(move |d| (text(g, "/group"), d)));
    let rows: Vec<Vec<String>> = of_node
        .chain(of_groups)
        .map(|(group, d)| vec![format!("  {group}"), text(d, "/reason"), text(d, "/name"), text(d, "/packets")])
        .collect();
    if rows.is_empty() {
        writeln!(out, "\nDrops: none reported")?;
    } else {
        writeln!(out, "\nDrops:")?;
        table(out, &["  GROUP", "REASON", "NAME", "PACKETS"], rows)?;
    }
    conditions(out, &node)
}
