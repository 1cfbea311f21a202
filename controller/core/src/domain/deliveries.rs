// SPDX-License-Identifier: Apache-2.0
//! What headends report of their groups' progress, and nodes from which no telemetry arrives. In memory only.

use std::time::Duration;

use canopy_model::ids::GroupId;
use canopy_model::telemetry::GroupTelemetry;
use canopy_units::{Monotonic, UnixTime};

use super::state::State;
use crate::delivery::{Delivery, DeliveryState};
use crate::resource::{Group, Telemetry};
use crate::topology::NodeIx;

/// A node is silent after this time without telemetry...
const SILENT_AFTER: Duration = Duration::from_secs(3);
/// ...or after so many of the intervals in which it sends, whichever is longer.
const SILENT_INTERVALS: u32 = 3;
/// Longest interval that is believed: as an agent's configuration allows.
const LONGEST_INTERVAL: Duration = Duration::from_secs(3600);

/// Adds the samples of the groups that `node` is the headend of. Returns the names of those that stall from now on or no longer do,
/// and of those whose source gave up.
pub(super) fn add<'a>(
    state: &mut State,
    node: &str,
    samples: impl Iterator<Item = &'a GroupTelemetry>,
    now: Monotonic,
    wall: UnixTime,
) -> Vec<String> {
    let Some(at) = state.index(node) else { return Vec::new() };
    let mut changed = Vec::new();
    for sample in samples {
        let id = sample.group_id;
        let Some(group) = state.groups.by_id(id) else { continue };
        if !headed(group, at) || state.program(group, at).is_none_or(|program| program.epoch() != sample.epoch) {
            continue;
        }
        let stall_after = group.spec.stall_after;
        let delivery = state.nodes[at].telemetry.deliveries.entry(id).or_default();
        let shown = |delivery: &Delivery| (delivery.state == DeliveryState::Stalled, delivery.source_gave_up);
        let before = shown(delivery);
        delivery.add(sample, stall_after, now, wall);
        if shown(delivery) != before {
            changed.extend(state.groups.name(id).map(str::to_owned));
        }
    }
    // Does nothing for most messages.
    let node = &state.nodes[at];
    if node.telemetry.deliveries.len() > node.spec.groups.len() {
        let is_headend = |id: &&GroupId| state.groups.by_id(**id).is_some_and(|group| headed(group, at));
        let gone: Vec<GroupId> = node.telemetry.deliveries.keys().filter(|id| !is_headend(id)).copied().collect();
        gone.iter().for_each(|id| _ = state.nodes[at].telemetry.deliveries.remove(id));
    }
    changed
}

/// Notes that telemetry of `node` arrived, or that its agent connected. Returns the names of the groups that are observed again.
pub(super) fn received(state: &mut State, node: &str, now: Monotonic) -> Vec<String> {
    let Some(at) = state.index(node) else { return Vec::new() };
    let telemetry = &mut state.nodes[at].telemetry;
    if let Some(before) = telemetry.received {
        telemetry.interval = now.since(before).min(LONGEST_INTERVAL);
    }
    telemetry.received = Some(now);
    if std::mem::take(&mut telemetry.is_silent) { headed_by(state, at) } else { Vec::new() }
}

/// Marks the nodes that have become silent, except those whose agents restart. Returns their names, and those of the groups that they are headends of. A few instructions
/// per node; called twice a second.
pub(super) fn mark_silent(state: &mut State, now: Monotonic) -> (Vec<String>, Vec<String>) {
    let (mut nodes, mut groups) = (Vec::new(), Vec::new());
    for at in 0..state.nodes.len() {
        if state.nodes[at].is_restarting() {
            continue;
        }
        let Telemetry { received, interval, is_silent, .. } = &mut state.nodes[at].telemetry;
        let patience = SILENT_AFTER.max(*interval * SILENT_INTERVALS);
        if *is_silent || received.is_none_or(|received| now.since(received) < patience) {
            continue;
        }
        *is_silent = true;
        // The next one after the silence is no measure of the interval.
        *received = None;
        nodes.push(state.nodes[at].spec.base.name.clone());
        groups.extend(headed_by(state, at));
    }
    (nodes, groups)
}

fn headed_by(state: &State, at: usize) -> Vec<String> {
    let groups = state.nodes[at].spec.groups.ids().filter_map(|id| state.groups.by_id(id));
    groups.filter(|group| headed(group, at)).map(|group| group.metadata.name.clone()).collect()
}

/// Whether the node is the group's headend.
fn headed(group: &Group, at: NodeIx) -> bool {
    group.headend() == Some(at)
}
