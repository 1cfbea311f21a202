// SPDX-License-Identifier: Apache-2.0
//! For which receivers a group's source waits, from the progress at every node of its tree. In memory only.

use std::collections::HashMap;
use std::net::Ipv6Addr;
use std::time::Duration;

use canopy_model::ids::GroupId;
use canopy_model::member::Role;
use canopy_model::node_spec::BranchKind;
use canopy_model::telemetry::GroupTelemetry;
use canopy_units::Monotonic;

use super::state::State;
use super::views::address;
use crate::plan::GroupPlan;
use crate::progress::{Part, Progress};
use crate::resource::Group;
use crate::topology::NodeIx;
use crate::tree::TreeNode;
use crate::view::{BranchNode, BranchReceiver, Branches, ReceiverShare, WaitedFor};

/// Progress whose newest sample is older than this is history.
const FRESH: Duration = Duration::from_secs(5);
/// The whole, in parts per million.
const WHOLE: f64 = 1_000_000.0;

/// Adds the samples of a node. Returns the groups of which another branch holds the minimum there from now on, or is late, or no longer is.
pub(super) fn add<'a>(
    state: &mut State,
    node: &str,
    samples: impl Iterator<Item = &'a GroupTelemetry>,
    now: Monotonic,
) -> Vec<String> {
    let Some(at) = state.index(node) else { return Vec::new() };
    let mut changed = Vec::new();
    for sample in samples {
        let program = state.program_of(sample.group_id, at).filter(|program| program.epoch() == sample.epoch);
        let Some(branches) = program.map(|program| program.addresses().collect::<Vec<_>>()) else {
            continue;
        };
        let progress = state.nodes[at].telemetry.progress.entry(sample.group_id).or_default();
        if progress.add(&branches, sample, now) {
            changed.push(sample.group_id);
        }
    }
    let node = &mut state.nodes[at];
    // Does nothing for most messages.
    if node.telemetry.progress.len() > node.spec.groups.len() {
        node.telemetry.progress.retain(|id, _| node.spec.groups.contains(id));
    }
    changed.into_iter().filter_map(|id: GroupId| state.groups.name(id).map(str::to_owned)).collect()
}

/// The shares of all receivers of a group; the largest first, then by name. `None`: it has no tree.
pub(super) fn shares(state: &State, group: &Group, now: Monotonic) -> Option<WaitedFor> {
    let (network, plan) = (state.network()?, group.plan()?);
    let hosts: HashMap<Ipv6Addr, &str> =
        group.present(Role::Receiver).filter_map(|m| Some((address(network, m)?, m.host.as_ref()))).collect();
    let mut share = vec![0.0; plan.tree.len()];
    let mut receivers = Vec::new();
    let mut unknown = 0.0;
    share[0] = WHOLE;
    for (position, tree_node) in plan.tree.nodes().enumerate() {
        let of_node = share[position];
        let known = progress(state, group, plan, position, now).map(|p| (p, p.psns()));
        let node = &state.nodes[tree_node.node].spec;
        let Some(program) = state.on_ground().program_at(group, position) else { continue };
        let parts: HashMap<Ipv6Addr, Part> =
            known.iter().flat_map(|(p, _)| p.parts()).map(|part| (part.branch, part)).collect();
        let total: u64 = known.map_or(0, |(_, total)| total);
        if total == 0 {
            unknown += of_node;
        }
        let mut children = tree_node.children();
        for branch in program.branches() {
            let part = parts.get(&branch.address);
            let raised = part.map_or(0, |part| part.psns) as f64;
            let share_of = if total == 0 { 0.0 } else { of_node * raised / total as f64 };
            match branch.kind {
                BranchKind::Node { .. } => {
                    if let Some(child) = children.next() {
                        share[child] = share_of;
                    }
                }
                BranchKind::Receiver { .. } => {
                    let Some(host) = hosts.get(&branch.address) else { continue };
                    receivers.push(ReceiverShare {
                        host: (*host).to_owned(),
                        node: node.base.name.clone(),
                        ppm: share_of.round() as u32,
                        wait: part.and_then(|part| part.wait),
                    });
                }
            }
        }
    }
    receivers.sort_by(|a, b| b.ppm.cmp(&a.ppm).then_with(|| a.host.cmp(&b.host)));
    let headend = progress(state, group, plan, 0, now);
    Some(WaitedFor {
        covers: headend.map_or(Duration::ZERO, Progress::covers),
        psns: headend.map_or(0, Progress::psns),
        unknown_ppm: unknown.round() as u32,
        receivers,
    })
}

/// The branches from the headend to all receivers. `None`: the group has no tree.
pub(super) fn branches(state: &State, group: &Group) -> Option<Branches> {
    let (network, plan) = (state.network()?, group.plan()?);
    let node = |tree_node: TreeNode<'_>| {
        let base = &state.nodes[tree_node.node].spec.base;
        let parent = tree_node.parent.map(|parent| parent.position);
        BranchNode { name: base.name.clone(), parent, address: base.node_address }
    };
    let nodes: Vec<BranchNode> = plan.tree.nodes().map(node).collect();
    let edges: HashMap<NodeIx, usize> = plan.tree.nodes().zip(0..).map(|(of, place)| (of.node, place)).collect();
    let receivers = group.present(Role::Receiver).filter_map(|member| {
        let host = member.host.to_string();
        let edge = *edges.get(&network.host(&host)?.node)?;
        Some(BranchReceiver { host, edge, address: address(network, member)? })
    });
    Some(Branches { nodes, receivers: receivers.collect() })
}

/// A receiver that acknowledges late, and that the source waits for.
pub(super) struct Slow {
    /// Position of its edge in the tree.
    pub(super) position: usize,
    pub(super) branch: Ipv6Addr,
    /// How long data waits at its edge for its acknowledgement, on average.
    pub(super) wait: Duration,
}

/// The receiver at the end of the branches that hold the minimum, from the headend down, if it acknowledges late. `None` also where
/// one node does not know which branch that is.
pub(super) fn slow(state: &State, group: &Group, plan: &GroupPlan, now: Monotonic) -> Option<Slow> {
    let mut position = 0;
    loop {
        let progress = progress(state, group, plan, position, now)?;
        let holder = progress.holder()?;
        let child = plan
            .tree
            .node(position)
            .children()
            .find(|child| state.nodes[plan.tree.node(*child).node].spec.base.node_address == holder.branch);
        match child {
            Some(child) => position = child,
            None => {
                let wait = progress.parts().find(|part| part.branch == holder.branch)?.wait?;
                return holder.is_late.then_some(Slow { position, branch: holder.branch, wait });
            }
        }
    }
}

fn progress<'a>(
    state: &'a State,
    group: &Group,
    plan: &GroupPlan,
    position: usize,
    now: Monotonic,
) -> Option<&'a Progress> {
    let node = &state.nodes[plan.tree.node(position).node];
    let progress = node.telemetry.progress.get(&group.allocation.group_id)?;
    (now.since(progress.newest()) < FRESH).then_some(progress)
}
