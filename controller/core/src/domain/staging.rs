// SPDX-License-Identifier: Apache-2.0
//! Make-before-break (decisions 3.9): a tree moves in two steps.
//!
//! First the new tree is staged next to the old one, in the old epoch: new parents send copies to children whose
//! feedback still goes to their old parents, and children accept data from both. Once every node has confirmed that, or
//! after a timeout, the new tree alone is put into force in a new epoch, and every child sends its state again. A node
//! that restarts in between uses the new tree at once: the new epoch is durable from the first step on.

use std::collections::{BTreeMap, BTreeSet};

use canopy_model::group::Replication;
use canopy_model::node_spec::{Branch, BranchKind, GroupProgram};

use super::change::Replan;
use super::state::State;
use crate::plan::{GroupPlan, Planned};
use crate::resource::{Group, GroupState};
use crate::status::{assess, is_programmed};
use crate::topology::{Network, NodeIx};
use crate::tree::Tree;

/// Most copies of a packet that a node receives while two trees are in force; beyond that, the move costs more than it
/// saves.
const MAX_COPIES: u32 = 4;

/// The first step for a group that would get another tree over `network`; `None` if it must move at once, because
/// the old tree is broken, cannot be expressed in terms of the new network, or has a child with late receivers only.
pub(super) fn stage(state: &State, network: &Network, group: &Group, planned: &Planned) -> Option<Replan> {
    let Planned::Live(next, programs) = planned else { return None };
    let (present, topology) = (group.plan()?, state.topology.as_ref()?);
    let works =
        |plan: &GroupPlan| plan.tree.nodes.iter().filter_map(|t| t.parent).all(|up| !network.is_broken(up.link));
    let same_lists = next.encoding.in_band_edges == present.encoding.in_band_edges
        && next.encoding.provisioned_edges == present.encoding.provisioned_edges;
    let fits = works(present) && same_lists && most_copies(&present.tree, &next.tree)? <= MAX_COPIES;
    // The kernel's multicast route accepts packets from one port only.
    let by_kernel = group.spec.replication == Replication::Multicast;
    if by_kernel || group.making.is_some() || !network.is_wired_as(&topology.network) || !fits {
        return None;
    }
    let id = group.allocation.group_id;
    let mut old = Vec::with_capacity(present.tree.nodes.len());
    for t in &present.tree.nodes {
        old.push(state.nodes[t.node].spec.groups.get(&id)?.clone());
    }
    // A child that may still wait for a message gets no copies on the present tree, and the staged one would start its receivers
    // before the present one counts them.
    let may_wait = |b: &Branch| b.at_boundary && matches!(b.kind, BranchKind::Node { .. });
    if old.iter().any(|program| program.branches.iter().any(may_wait)) {
        return None;
    }
    let mut extra: Vec<(NodeIx, GroupProgram)> = Vec::new();
    for (t, program) in next.tree.nodes.iter().zip(programs) {
        match present.tree.nodes.iter().position(|p| p.node == t.node) {
            Some(at) => stage_next_to(&mut old[at], program),
            None => extra.push((t.node, staged(program.clone()))),
        }
    }
    let (nodes, new): (Vec<_>, Vec<_>) = extra.into_iter().unzip();
    old.extend(new);
    Some(Replan {
        name: group.metadata.name.clone(),
        epoch: group.epoch,
        state: GroupState::Live(present.clone()),
        making: Some(nodes),
        programs: old,
    })
}

/// See [`super::Domain::is_made`].
pub(super) fn is_made(state: &State, group: &str) -> Option<bool> {
    let group = state.groups.get(group).filter(|g| g.making.is_some())?;
    Some(is_programmed(&assess(group, &state.nodes)))
}

/// The largest number of paths from the root to a node over the edges of both trees; `None` if the edges form a cycle
/// or the trees have different roots.
fn most_copies(a: &Tree, b: &Tree) -> Option<u32> {
    let root = a.nodes.first()?.node;
    if b.nodes.first()?.node != root {
        return None;
    }
    let edge = |t: &Tree, at: usize| Some((t.nodes[t.nodes[at].parent?.position].node, t.nodes[at].node));
    let mut edges: BTreeSet<(NodeIx, NodeIx)> = (0..a.nodes.len()).filter_map(|at| edge(a, at)).collect();
    edges.extend((0..b.nodes.len()).filter_map(|at| edge(b, at)));
    let (mut copies, mut most) = (BTreeMap::from([(root, 1u32)]), 1);
    while !edges.is_empty() {
        // A node is counted after all edges to it are counted.
        let waits: BTreeSet<NodeIx> = edges.iter().map(|(_, child)| *child).collect();
        let (counted, rest): (BTreeSet<_>, BTreeSet<_>) =
            edges.iter().copied().partition(|(up, _)| !waits.contains(up));
        if counted.is_empty() {
            return None;
        }
        for (up, child) in counted {
            let through = copies.get(&up).copied()?;
            let sum = copies.entry(child).or_default();
            *sum = sum.saturating_add(through);
            most = most.max(*sum);
        }
        edges = rest;
    }
    Some(most)
}

/// Adds what `new` has and the present program lacks: the future children as staged branches, and the port of the
/// future parent.
fn stage_next_to(present: &mut GroupProgram, new: &GroupProgram) {
    let is_there = |address| present.branches.iter().any(|b| b.address == address);
    let more: Vec<_> = new.branches.iter().filter(|b| !is_there(b.address)).cloned().collect();
    present.branches.extend(more.into_iter().map(|mut b| {
        b.standby = true;
        b
    }));
    present.replication_sid = present.replication_sid.or(new.replication_sid);
    present.alternate_upstream = Some(new.upstream.port).filter(|port| *port != present.upstream.port);
}

/// The program of a node that is not in the present tree: all its children still send their feedback to their old
/// parents.
fn staged(mut program: GroupProgram) -> GroupProgram {
    for b in program.branches.iter_mut().filter(|b| matches!(b.kind, BranchKind::Node { .. })) {
        b.standby = true;
    }
    program
}
