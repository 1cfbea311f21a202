// SPDX-License-Identifier: Apache-2.0
//! The programs of a group at its nodes: those of the tree in force, and while it moves, the next tree beside it (decisions 3.9).

use std::collections::HashMap;

use canopy_model::addressing::AddressPlan;
use canopy_model::node_spec::{BranchKind, GroupProgram};

use crate::plan::GroupPlan;
use crate::program::TreePrograms;
use crate::resource::{Behind, Group, GroupState, Step};
use crate::topology::{Network, NodeIx};

/// The trees that a group's programs follow from.
#[derive(Clone, Copy, Default)]
pub(super) struct Trees<'a> {
    /// The one in force.
    present: Option<&'a GroupPlan>,
    /// While it moves.
    next: Option<&'a GroupPlan>,
}

impl<'a> Trees<'a> {
    pub(super) fn of(state: &'a GroupState, behind: Option<&'a Behind>) -> Self {
        let present = match state {
            GroupState::Live(plan) => Some(&**plan),
            GroupState::Waiting(_) | GroupState::Infeasible(_) | GroupState::Failed(_) => None,
        };
        let next = match behind.map(|behind| &behind.step) {
            Some(Step::Making(making)) => making.plan.as_deref(),
            Some(Step::GivenUp(_) | Step::NoWay(_)) | None => None,
        };
        Self { present, next }
    }

    pub(super) fn of_group(group: &'a Group) -> Self {
        Self::of(&group.state, group.behind.as_ref())
    }

    /// The plan that all programs follow from.
    fn at_rest(self) -> Option<&'a GroupPlan> {
        self.present.filter(|_| self.next.is_none())
    }
}

/// The programs of a group, each with its node, in the order of [`Group::nodes`].
pub(super) fn programs(trees: Trees<'_>, network: &Network, addresses: &AddressPlan) -> Vec<(NodeIx, GroupProgram)> {
    let Some(plan) = trees.present else { return Vec::new() };
    let present = TreePrograms { addresses, network, plan };
    let mut all: Vec<(NodeIx, GroupProgram)> = present.all().collect();
    if let Some(plan) = trees.next {
        let mut of_next: HashMap<NodeIx, GroupProgram> = TreePrograms { plan, ..present }.all().collect();
        for (node, program) in &mut all {
            if let Some(new) = of_next.remove(node) {
                stage_next_to(program, &new);
            }
        }
        let added = plan.tree.nodes.iter();
        all.extend(added.filter_map(|t| Some((t.node, staged(of_next.remove(&t.node)?)))));
    }
    all
}

/// Those of `new` but for nodes that have the same ones of `old`, the trees before, over the same network. What a node has is not made, but
/// while the group moves.
pub(super) fn other_programs(
    old: Trees<'_>,
    new: Trees<'_>,
    network: &Network,
    addresses: &AddressPlan,
) -> Vec<(NodeIx, GroupProgram)> {
    let (Some(before), Some(plan)) = (old.at_rest(), new.at_rest()) else {
        return programs(new, network, addresses);
    };
    let (old, new) = (TreePrograms { addresses, network, plan: before }, TreePrograms { addresses, network, plan });
    let at: HashMap<NodeIx, usize> = before.tree.nodes.iter().map(|t| t.node).zip(0..).collect();
    let is_same = |here: usize, node: &NodeIx| at.get(node).is_some_and(|there| new.is_same(here, &old, *there));
    let nodes = plan.tree.nodes.iter().map(|t| t.node).enumerate();
    nodes.filter(|(here, node)| !is_same(*here, node)).map(|(here, node)| (node, new.at(here))).collect()
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
