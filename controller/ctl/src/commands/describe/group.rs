// SPDX-License-Identifier: Apache-2.0
//! A group: its configuration, its tree, the nodes' progress, its branches' acknowledgements, and drops.

use std::collections::BTreeMap;
use std::io::Write;

use canopy_controller_api::event::EventItem;
use canopy_controller_api::group::{BranchRole, GroupStatus, NodeProgress, TreeNodeView};
use canopy_controller_api::query::EventQuery;
use canopy_controller_api::telemetry::GroupSample;
use canopy_controller_api::{GroupResource, List, MemberResource};
use canopy_model::member::Role;
use canopy_model::telemetry::BranchTelemetry;

use super::{ago, conditions, field, fields, labels};
use crate::client::Client;
use crate::commands::with_query;
use crate::failure::Failure;
use crate::output::{clean, table, text};

/// Events shown.
const EVENTS: usize = 10;

pub(super) async fn describe(client: &Client, name: &str, out: &mut dyn Write) -> Result<(), Failure> {
    let doing = format!("describing group {name}");
    let path = format!("/api/v1/groups/{name}");
    let group: GroupResource = client.get(&doing, &path).await?;
    let members: List<MemberResource> = client.get(&doing, &format!("{path}/members")).await?;
    let telemetry: List<GroupSample> = client.get(&doing, &format!("{path}/telemetry")).await?;
    let of_group = EventQuery { limit: Some(EVENTS), group: Some(name.to_owned()), ..EventQuery::default() };
    let events: List<EventItem> = client.get(&doing, &with_query("/api/v1/events", &of_group)?).await?;
    summary(out, &group)?;
    encoding(out, &group, &members.items)?;
    tree(out, &group)?;
    progress(out, &group.status.nodes)?;
    branches(out, &group, &telemetry.items)?;
    drops(out, &telemetry.items)?;
    conditions(out, &group.status.conditions)?;
    recent(out, &events.items)
}

fn receivers(status: &GroupStatus) -> String {
    match status.probing.len() {
        0 => text(status.receivers),
        probing => format!("{}, of which {probing} joined late and get no data yet", status.receivers),
    }
}

fn summary(out: &mut dyn Write, group: &GroupResource) -> Result<(), Failure> {
    let GroupResource { metadata, spec, status, .. } = group;
    fields(
        out,
        [
            ("Name", text(&metadata.name)),
            ("Tenant", text(&metadata.tenant)),
            ("Labels", text(labels(metadata))),
            ("Generation", text(metadata.generation)),
            ("Phase", text(status.phase)),
            ("Reason", text(&status.reason)),
            ("Source", text(&status.source)),
            ("Receivers", receivers(status)),
            ("Replication", text(spec.replication)),
            ("Stall policy", format!("{} after {} ms", text(spec.stall_policy), spec.stall_after.as_millis())),
        ],
    )?;
    for evicted in &status.evicted {
        field(out, "Evicted", format!("{}: {}", text(&evicted.host), text(&evicted.reason)))?;
    }
    field(out, "Epoch", text(status.epoch))?;
    writeln!(out, "\nConnection (the remote side of every member's QP):")?;
    let connection = &status.connection;
    fields(
        out,
        [
            ("  Proxy Address", text(connection.proxy_address)),
            ("  Designated QPN", text(connection.designated_qpn)),
            ("  Start PSN", text(connection.start_psn)),
            ("  Path MTU", text(connection.path_mtu)),
            ("  WRITE length", text(connection.write_length)),
            ("  WRITE base VA", text(connection.write_base_va)),
            ("  WRITE R_Key", text(connection.write_rkey)),
        ],
    )
}

fn encoding(out: &mut dyn Write, group: &GroupResource, members: &[MemberResource]) -> Result<(), Failure> {
    let Some(e) = &group.status.encoding else {
        return Ok(writeln!(out, "\nEncoding: none, there is no tree yet")?);
    };
    writeln!(out, "\nEncoding:")?;
    field(out, "  Mode", format!("{} (asked for: {})", text(e.mode), text(group.spec.encoding)))?;
    field(out, "  Reason", text(&e.reason))?;
    field(out, "  SRH", format!("{} bytes, {} with the outer IPv6 header", e.srh_bytes, e.overhead_bytes))?;
    for (i, segment) in e.segments.iter().enumerate() {
        field(out, &format!("  Segment [{i}]"), segment)?;
    }
    for (title, edges) in [("  End.MT TLVs", &e.in_band_edges), ("  Provisioned", &e.provisioned_edges)] {
        for edge in edges {
            let here = |m: &&MemberResource| m.status.node == *edge && m.spec.role == Role::Receiver;
            let receiver = |m: &MemberResource| format!("{} QPN {}", m.status.address, m.spec.qpn);
            let receivers: Vec<String> = members.iter().filter(here).map(receiver).collect();
            field(out, title, format!("edge {}: {}", clean(edge), receivers.join(", ")))?;
        }
    }
    Ok(())
}

/// The tree, one node or receiver per line, children below their parent.
fn tree(out: &mut dyn Write, group: &GroupResource) -> Result<(), Failure> {
    let nodes = &group.status.tree;
    let Some(root) = nodes.iter().find(|n| n.parent.is_none()) else { return Ok(()) };
    writeln!(out, "\nTree {}:", group.status.tree_id)?;
    writeln!(out, "  {} (source)", text(&group.status.source))?;
    let by_name: BTreeMap<&str, &TreeNodeView> = nodes.iter().map(|n| (n.node.as_str(), n)).collect();
    // The depth is limited, so that a malformed answer cannot cause endless output.
    tree_node(out, &by_name, root, &text(&root.upstream_port), 1, nodes.len())
}

fn tree_node(
    out: &mut dyn Write,
    by_name: &BTreeMap<&str, &TreeNodeView>,
    node: &TreeNodeView,
    port: &str,
    depth: usize,
    most: usize,
) -> Result<(), Failure> {
    let indent = "   ".repeat(depth);
    let roles: Vec<String> = node.roles.iter().map(text).collect();
    let via = if depth == 1 { format!("source at {port}") } else { format!("via {port}") };
    writeln!(out, "  {indent}└─ {} [{}] {via}, SID {}", text(&node.node), roles.join(", "), node.sid)?;
    for branch in &node.branches {
        let port = text(&branch.port);
        match by_name.get(branch.name.as_str()) {
            Some(child) if branch.kind == BranchRole::Node && depth <= most => {
                tree_node(out, by_name, child, &port, depth + 1, most)?
            }
            _ => {
                let (name, address, qpn) = (text(&branch.name), branch.address, text(branch.qpn));
                writeln!(out, "  {indent}   └─ {name} {address} via {port}, QPN {qpn}")?;
            }
        }
    }
    Ok(())
}

fn progress(out: &mut dyn Write, nodes: &[NodeProgress]) -> Result<(), Failure> {
    if nodes.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nNodes (generation desired and applied):")?;
    let row = |n: &NodeProgress| {
        vec![format!("  {}", text(&n.node)), text(n.desired_generation), text(n.observed_generation), text(n.connected)]
    };
    table(out, &["  NODE", "DESIRED", "APPLIED", "CONNECTED"], nodes.iter().map(row).collect())?;
    for (node, e) in nodes.iter().flat_map(|n| n.errors.iter().map(move |e| (n, e))) {
        writeln!(out, "  ! {}: {} {}: {}", text(&node.node), text(e.kind), text(&e.name), text(&e.detail))?;
    }
    Ok(())
}

fn branches(out: &mut dyn Write, group: &GroupResource, samples: &[GroupSample]) -> Result<(), Failure> {
    let of_sample = |s: &GroupSample| s.counters.branches.iter().map(|b| branch_row(group, s, b)).collect::<Vec<_>>();
    let rows: Vec<Vec<String>> = samples.iter().flat_map(of_sample).collect();
    if rows.is_empty() {
        return Ok(writeln!(out, "\nBranches: no node has reported counters of this group")?);
    }
    writeln!(out, "\nBranches:")?;
    table(
        out,
        &[
            "  NODE",
            "BRANCH",
            "ACKPSN",
            "EPSN",
            "FATAL NAK",
            "LATE",
            "LAST FEEDBACK",
            "CNPS",
            "PACKETS",
            "BYTES",
            "COMPLETED MIN",
        ],
        rows,
    )?;
    let row = |s: &GroupSample| {
        let c = &s.counters;
        vec![
            format!("  {}", text(&s.node)),
            text(c.epoch),
            text(c.data_packets),
            format!("{}/{}", c.acks_in, c.acks_out),
            format!("{}/{}", c.naks_in, c.naks_out),
            format!("{}/{}", c.cnps_in, c.cnps_out),
        ]
    };
    writeln!(out, "\nAggregation (received from branches / sent upstream):")?;
    table(out, &["  NODE", "EPOCH", "DATA", "ACKS", "NAKS", "CNPS"], samples.iter().map(row).collect())
}

fn branch_row(group: &GroupResource, sample: &GroupSample, branch: &BranchTelemetry) -> Vec<String> {
    let at = group.status.tree.iter().find(|n| n.node == sample.node);
    let declared = at.and_then(|n| n.branches.iter().find(|b| b.address == branch.address));
    vec![
        format!("  {}", text(&sample.node)),
        declared.map_or_else(|| text(branch.address), |b| text(&b.name)),
        text(branch.ack_psn),
        text(branch.epsn),
        text(branch.fatal.map(|nak| format!("{} at PSN {}", nak.meaning(), nak.psn))),
        text(branch.late),
        ago(branch.last_feedback.map(canopy_units::nanos)),
        text(branch.ccount),
        text(branch.packets),
        text(branch.octets),
        text(branch.completed_min),
    ]
}

fn drops(out: &mut dyn Write, samples: &[GroupSample]) -> Result<(), Failure> {
    let all = samples.iter().flat_map(|s| s.counters.drops.iter().map(move |d| (s, d)));
    let rows: Vec<Vec<String>> = all
        .map(|(s, d)| vec![format!("  {}", text(&s.node)), text(d.reason), text(&d.name), text(d.packets)])
        .collect();
    if rows.is_empty() {
        return Ok(writeln!(out, "\nDrops: none reported")?);
    }
    writeln!(out, "\nDrops:")?;
    table(out, &["  NODE", "REASON", "NAME", "PACKETS"], rows)
}

fn recent(out: &mut dyn Write, events: &[EventItem]) -> Result<(), Failure> {
    if events.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nEvents:")?;
    let row = |e: &EventItem| vec![format!("  {}", text(&e.code)), text(&e.node), text(e.branch), text(&e.detail)];
    table(out, &["  CODE", "NODE", "BRANCH", "DETAIL"], events.iter().map(row).collect())
}
