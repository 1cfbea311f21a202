// SPDX-License-Identifier: Apache-2.0
//! Nodes: whether their agents are connected and follow.

use canopy_controller_actor::Controller;
use canopy_metrics::{Description, Family, Page};

static CONNECTED: Family<1> =
    Family::gauge("canopy_node_connected", "1 while the node's agent is connected.", ["node"]);
static DESIRED: Family<1> =
    Family::gauge("canopy_node_desired_generation", "Generation of the node's desired state.", ["node"]);
static OBSERVED: Family<1> = Family::gauge(
    "canopy_node_observed_generation",
    "Generation that the node's agent last read back from its kernel.",
    ["node"],
);
static ERRORS: Family<1> =
    Family::gauge("canopy_node_errors", "Items that are not in the node's kernel as desired.", ["node"]);
const ALL: [&Family<1>; 4] = [&CONNECTED, &DESIRED, &OBSERVED, &ERRORS];

pub(super) fn families() -> Vec<Description> {
    ALL.iter().map(|family| family.describe()).collect()
}

struct Row {
    name: String,
    connected: bool,
    desired: u64,
    observed: Option<u64>,
    errors: usize,
}

/// All nodes in the order of their names, or as many as fit: at 10,000 nodes that is all of them.
pub(super) fn write(controller: &Controller, page: &mut Page<'_>) -> std::fmt::Result {
    let mut rows = Vec::new();
    controller.read(|d| {
        d.for_each_node(|n| {
            let name = n.name.to_owned();
            rows.push(Row { name, connected: n.connected, desired: n.desired, observed: n.observed, errors: n.errors });
        });
    });
    rows.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    let room = page.room(ALL.len());
    page.leave_out(rows.len().saturating_sub(room) * ALL.len());
    rows.truncate(room);
    let each = || rows.iter().map(|row| ([row.name.as_str()], row));
    page.write(&CONNECTED, each().map(|(labels, row)| (labels, u64::from(row.connected))))?;
    page.write(&DESIRED, each().map(|(labels, row)| (labels, row.desired)))?;
    page.write(&OBSERVED, each().filter_map(|(labels, row)| Some((labels, row.observed?))))?;
    page.write(&ERRORS, each().map(|(labels, row)| (labels, row.errors as u64)))
}
