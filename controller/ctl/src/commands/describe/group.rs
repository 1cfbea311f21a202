// SPDX-License-Identifier: Apache-2.0
//! A group: its configuration, its tree, the nodes' progress, its branches' acknowledgements, and drops.

use std::collections::BTreeMap;
use std::io::Write;

use serde_json::Value;

use super::{ago, conditions, field, labels};
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{list, table, text};

pub(super) async fn describe(client: &Client, name: &str, out: &mut dyn Write) -> Result<(), Failure> {
    let doing = format!("describing group {name}");
    let path = format!("/api/v1/groups/{name}");
    let group = client.get(&doing, &path).await?;
    let members = client.get(&doing, &format!("{path}/members")).await?;
    let telemetry = client.get(&doing, &format!("{path}/telemetry")).await?;
    let events = client.get(&doing, &format!("/api/v1/events?limit=10&group={name}")).await?;
    summary(out, &group)?;
    encoding(out, &group, list(&members, "/items"))?;
    tree(out, &group)?;
    progress(out, &group)?;
    branches(out, &group, list(&telemetry, "/items"))?;
    drops(out, list(&telemetry, "/items"))?;
    conditions(out, &group)?;
    recent(out, list(&events, "/items"))
}

fn summary(out: &mut dyn Write, group: &Value) -> Result<(), Failure> {
    field(out, "Name", text(group, "/metadata/name"))?;
    field(out, "Tenant", text(group, "/metadata/tenant"))?;
    field(out, "Labels", labels(group))?;
    field(out, "Generation", text(group, "/metadata/generation"))?;
    field(out, "Phase", text(group, "/status/phase"))?;
    field(out, "Reason", text(group, "/status/reason"))?;
    field(out, "Source", text(group, "/status/source"))?;
    field(out, "Receivers", text(group, "/status/receivers"))?;
    field(out, "Replication", text(group, "/spec/replication"))?;
    field(
        out,
        "Stall policy",
        format!("{} after {} ms", text(group, "/spec/stallPolicy"), text(group, "/spec/stallAfterMs")),
    )?;
    for evicted in list(group, "/status/evicted") {
        field(out, "Evicted", format!("{}: {}", text(evicted, "/host"), text(evicted, "/reason")))?;
    }
    field(out, "Epoch", text(group, "/status/epoch"))?;
    writeln!(out, "\nConnection (the remote side of every member's QP):")?;
    for (label, pointer) in [
        ("Proxy Address", "proxyAddress"),
        ("Designated QPN", "designatedQpn"),
        ("Start PSN", "startPsn"),
        ("Path MTU", "pathMtu"),
        ("WRITE length", "writeLength"),
        ("WRITE base VA", "writeBaseVa"),
        ("WRITE R_Key", "writeRkey"),
    ] {
        field(out, &format!("  {label}"), text(group, &format!("/status/connection/{pointer}")))?;
    }
    Ok(())
}

fn encoding(out: &mut dyn Write, group: &Value, members: &[Value]) -> Result<(), Failure> {
    let Some(e) = group.pointer("/status/encoding").filter(|e| !e.is_null()) else {
        return Ok(writeln!(out, "\nEncoding: none, there is no tree yet")?);
    };
    writeln!(out, "\nEncoding:")?;
    field(out, "  Mode", format!("{} (asked for: {})", text(e, "/mode"), text(group, "/spec/encoding")))?;
    field(out, "  Reason", text(e, "/reason"))?;
    field(
        out,
        "  SRH",
        format!("{} bytes, {} with the outer IPv6 header", text(e, "/srhBytes"), text(e, "/overheadBytes")),
    )?;
    for (i, segment) in list(e, "/segments").iter().enumerate() {
        field(out, &format!("  Segment [{i}]"), segment.as_str().unwrap_or("-"))?;
    }
    for (title, pointer) in [("  End.MT TLVs", "/inBandEdges"), ("  Provisioned", "/provisionedEdges")] {
        for edge in list(e, pointer).iter().filter_map(Value::as_str) {
            let here = |m: &&Value| {
                m.pointer("/status/node").and_then(Value::as_str) == Some(edge) && text(m, "/spec/role") == "receiver"
            };
            let receivers: Vec<String> = members
                .iter()
                .filter(here)
                .map(|m| format!("{} QPN {}", text(m, "/status/address"), text(m, "/spec/qpn")))
                .collect();
            field(out, title, format!("edge {edge}: {}", receivers.join(", ")))?;
        }
    }
    Ok(())
}

/// The tree, one node or receiver per line, children below their parent.
fn tree(out: &mut dyn Write, group: &Value) -> Result<(), Failure> {
    let nodes = list(group, "/status/tree");
    let Some(root) = nodes.iter().find(|n| n.get("parent").is_none_or(Value::is_null)) else { return Ok(()) };
    writeln!(out, "\nTree {}:", text(group, "/status/treeId"))?;
    writeln!(out, "  {} (source)", text(group, "/status/source"))?;
    let by_name: BTreeMap<String, &Value> = nodes.iter().map(|n| (text(n, "/node"), n)).collect();
    // The depth is limited, so that a malformed answer cannot cause endless output.
    tree_node(out, &by_name, root, &text(root, "/upstreamPort"), 1, nodes.len())
}

fn tree_node(
    out: &mut dyn Write,
    by_name: &BTreeMap<String, &Value>,
    node: &Value,
    port: &str,
    depth: usize,
    most: usize,
) -> Result<(), Failure> {
    let indent = "   ".repeat(depth);
    let roles: Vec<&str> = list(node, "/roles").iter().filter_map(Value::as_str).collect();
    let via = if depth == 1 { format!("source at {port}") } else { format!("via {port}") };
    writeln!(out, "  {indent}└─ {} [{}] {via}, SID {}", text(node, "/node"), roles.join(", "), text(node, "/sid"))?;
    for branch in list(node, "/branches") {
        let (name, port) = (text(branch, "/name"), text(branch, "/port"));
        match by_name.get(&name) {
            Some(child) if text(branch, "/kind") == "node" && depth <= most => {
                tree_node(out, by_name, child, &port, depth + 1, most)?
            }
            _ => writeln!(
                out,
                "  {indent}   └─ {name} {} via {port}, QPN {}",
                text(branch, "/address"),
                text(branch, "/qpn")
            )?,
        }
    }
    Ok(())
}

fn progress(out: &mut dyn Write, group: &Value) -> Result<(), Failure> {
    let nodes = list(group, "/status/nodes");
    if nodes.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nNodes (generation desired and applied):")?;
    let row = |n: &Value| {
        vec![
            format!("  {}", text(n, "/node")),
            text(n, "/desiredGeneration"),
            text(n, "/observedGeneration"),
            text(n, "/connected"),
        ]
    };
    table(out, &["  NODE", "DESIRED", "APPLIED", "CONNECTED"], nodes.iter().map(row).collect())?;
    for (node, error) in nodes.iter().flat_map(|n| list(n, "/errors").iter().map(move |e| (n, e))) {
        writeln!(
            out,
            "  ! {}: {} {}: {}",
            text(node, "/node"),
            text(error, "/kind"),
            text(error, "/name"),
            text(error, "/detail")
        )?;
    }
    Ok(())
}

fn branches(out: &mut dyn Write, group: &Value, samples: &[Value]) -> Result<(), Failure> {
    let mut rows = Vec::new();
    for sample in samples {
        let node = text(sample, "/node");
        for branch in list(sample, "/branches") {
            let address = text(branch, "/address");
            rows.push(vec![
                format!("  {node}"),
                branch_name(group, &node, &address).unwrap_or_else(|| address.clone()),
                text(branch, "/ackPsn"),
                text(branch, "/epsn"),
                ago(branch.get("lastFeedbackNs").and_then(Value::as_u64)),
                text(branch, "/ccount"),
                text(branch, "/packets"),
                text(branch, "/bytes"),
            ]);
        }
    }
    if rows.is_empty() {
        return Ok(writeln!(out, "\nBranches: no node has reported counters of this group")?);
    }
    writeln!(out, "\nBranches:")?;
    table(out, &["  NODE", "BRANCH", "ACKPSN", "EPSN", "LAST FEEDBACK", "CNPS", "PACKETS", "BYTES"], rows)?;
    let mut rows = Vec::new();
    for s in samples {
        let sent_and_received = |a: &str| format!("{}/{}", text(s, &format!("/{a}In")), text(s, &format!("/{a}Out")));
        let row = vec![
            format!("  {}", text(s, "/node")),
            text(s, "/epoch"),
            text(s, "/dataPackets"),
            sent_and_received("acks"),
            sent_and_received("naks"),
            sent_and_received("cnps"),
        ];
        rows.push(row);
    }
    writeln!(out, "\nAggregation (received from branches / sent upstream):")?;
    table(out, &["  NODE", "EPOCH", "DATA", "ACKS", "NAKS", "CNPS"], rows)
}

fn branch_name(group: &Value, node: &str, address: &str) -> Option<String> {
    let at = list(group, "/status/tree").iter().find(|n| text(n, "/node") == node)?;
    let branch = list(at, "/branches").iter().find(|b| text(b, "/address") == address)?;
    Some(text(branch, "/name"))
}

fn drops(out: &mut dyn Write, samples: &[Value]) -> Result<(), Failure> {
    let rows: Vec<Vec<String>> = samples
        .iter()
        .flat_map(|s| {
            list(s, "/drops").iter().map(move |d| {
                vec![format!("  {}", text(s, "/node")), text(d, "/reason"), text(d, "/name"), text(d, "/packets")]
            })
        })
        .collect();
    if rows.is_empty() {
        return Ok(writeln!(out, "\nDrops: none reported")?);
    }
    writeln!(out, "\nDrops:")?;
    table(out, &["  NODE", "REASON", "NAME", "PACKETS"], rows)
}

fn recent(out: &mut dyn Write, events: &[Value]) -> Result<(), Failure> {
    if events.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nEvents:")?;
    let row =
        |e: &Value| vec![format!("  {}", text(e, "/code")), text(e, "/node"), text(e, "/branch"), text(e, "/detail")];
    table(out, &["  CODE", "NODE", "BRANCH", "DETAIL"], events.iter().map(row).collect())
}
