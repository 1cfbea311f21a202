// SPDX-License-Identifier: Apache-2.0
//! The programs of a group at its nodes: those of the tree in force, and while it moves, the next tree beside it (decisions 3.9).
//!
//! Nothing keeps them. One is made whole when it is sent to its node; of the rest that asks for a part of one, most gets it from the plan.

use std::collections::HashMap;
use std::net::Ipv6Addr;
use std::sync::Arc;

use canopy_model::addressing::AddressPlan;
use canopy_model::ids::{GroupId, PortIndex};
use canopy_model::node_spec::{Branch, BranchKind, GroupProgram, Multicast, MulticastRoute};

use crate::plan::GroupPlan;
use crate::program::TreePrograms;
use crate::resource::{Behind, Group, GroupState, Step};
use crate::topology::{Network, NodeIx};

/// The trees that a group's programs follow from.
#[derive(Clone, Copy, Default)]
pub(crate) struct Trees<'a> {
    /// The one in force.
    present: Option<&'a Arc<GroupPlan>>,
    /// While it moves.
    next: Option<&'a Arc<GroupPlan>>,
}

/// What trees are planned over.
#[derive(Clone, Copy)]
pub(crate) struct Ground<'a> {
    pub(crate) network: &'a Network,
    pub(crate) addresses: &'a AddressPlan,
}

/// Programs of one node, to be made one after the other: their plans, which a change of the domain replaces and does not change.
#[derive(Clone, Debug)]
pub struct NodePrograms {
    node: NodeIx,
    network: Arc<Network>,
    addresses: AddressPlan,
    plans: Arc<[Plans]>,
}

/// The plans that a group's programs follow from.
#[derive(Clone, Debug)]
struct Plans {
    id: GroupId,
    present: Option<Arc<GroupPlan>>,
    next: Option<Arc<GroupPlan>>,
}

impl NodePrograms {
    pub(crate) fn new<'a>(
        node: NodeIx,
        network: &Arc<Network>,
        addresses: &AddressPlan,
        groups: impl Iterator<Item = &'a Group>,
    ) -> Self {
        let plans = groups.map(|group| {
            let Trees { present, next } = Trees::of_group(group);
            Plans { id: group.allocation.group_id, present: present.cloned(), next: next.cloned() }
        });
        Self { node, network: Arc::clone(network), addresses: addresses.clone(), plans: plans.collect() }
    }

    /// Makes those of the groups behind this one, in the order that they were asked for in; all if it is `None`.
    pub fn after(&self, id: Option<GroupId>) -> impl Iterator<Item = (GroupId, GroupProgram)> + Send + use<> {
        let this = self.clone();
        let first = id.map_or(0, |id| this.plans.partition_point(|plans| plans.id <= id));
        (first..this.plans.len()).filter_map(move |at| {
            let Plans { id, present, next } = &this.plans[at];
            let trees = Trees { present: present.as_ref(), next: next.as_ref() };
            let ground = Ground { network: &this.network, addresses: &this.addresses };
            Some((*id, trees.at(this.node, ground)?.make()))
        })
    }
}

/// A group's program at a node.
pub(crate) enum Program<'a> {
    /// That of the only tree, at this position of it. Its parts are read without making it.
    OfTree(TreePrograms<'a>, usize),
    /// That of a group that moves, at a node whose program follows from both trees, or from the next one alone.
    Staged(Box<GroupProgram>),
}

impl<'a> Trees<'a> {
    pub(crate) fn of(state: &'a GroupState, behind: Option<&'a Behind>) -> Self {
        let present = match state {
            GroupState::Live(plan) => Some(plan),
            GroupState::Waiting(_) | GroupState::Infeasible(_) | GroupState::Failed(_) => None,
        };
        let next = match behind.map(|behind| &behind.step) {
            Some(Step::Making(making)) => making.plan.as_ref(),
            Some(Step::GivenUp(_) | Step::NoWay(_)) | None => None,
        };
        // Without a tree in force no node has a program.
        Self { present, next: next.filter(|_| present.is_some()) }
    }

    pub(crate) fn of_group(group: &'a Group) -> Self {
        Self::of(&group.state, group.behind.as_ref())
    }

    /// The program at a node; `None`: it has none.
    pub(crate) fn at(self, node: NodeIx, ground: Ground<'a>) -> Option<Program<'a>> {
        let of = |plan: &'a Arc<GroupPlan>| {
            let at = plan.tree.nodes.iter().position(|t| t.node == node)?;
            Some((ground.programs(plan), at))
        };
        let present = self.present.and_then(of);
        let next = self.next.and_then(of);
        let staged = match (present, next) {
            (present, None) => return present.map(|(of, at)| Program::OfTree(of, at)),
            (Some((of, at)), Some((next, there))) => {
                let mut program = of.at(at);
                stage_next_to(&mut program, &next.at(there));
                program
            }
            (None, Some((next, there))) => staged(next.at(there)),
        };
        Some(Program::Staged(Box::new(staged)))
    }

    /// In the order of [`Group::nodes`].
    fn nodes(self) -> Vec<NodeIx> {
        let of = |plan: &'a Arc<GroupPlan>| plan.tree.nodes.iter().map(|t| t.node);
        let present: Vec<NodeIx> = self.present.into_iter().flat_map(of).collect();
        let added: Vec<NodeIx> = self.next.into_iter().flat_map(of).filter(|node| !present.contains(node)).collect();
        [present, added].concat()
    }

    /// The plan that all programs follow from.
    fn at_rest(self) -> Option<&'a GroupPlan> {
        self.present.filter(|_| self.next.is_none()).map(|plan| &**plan)
    }

    /// The kernel's multicast routes, each with its node.
    pub(crate) fn multicast_routes(self, ground: Ground<'_>) -> impl Iterator<Item = (NodeIx, MulticastRoute)> {
        let is_by_kernel = self.present.is_some_and(|plan| plan.content.common.multicast.is_some());
        let programs = if is_by_kernel { self.all(ground) } else { Vec::new() };
        programs.into_iter().filter_map(|(node, program)| Some((node, program.multicast_route()?)))
    }

    /// All programs, each with its node, in the order of [`Group::nodes`].
    pub(crate) fn all(self, ground: Ground<'_>) -> Vec<(NodeIx, GroupProgram)> {
        let Some(plan) = self.present else { return Vec::new() };
        let mut all: Vec<(NodeIx, GroupProgram)> = ground.programs(plan).all().collect();
        if let Some(plan) = self.next {
            let mut of_next: HashMap<NodeIx, GroupProgram> = ground.programs(plan).all().collect();
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
}

impl<'a> Ground<'a> {
    pub(crate) fn programs(self, plan: &'a GroupPlan) -> TreePrograms<'a> {
        TreePrograms { addresses: self.addresses, network: self.network, plan }
    }
}

/// The nodes that have another program with the trees `new` than with `old`, or had none; `old_ground`: `None` if nodes had no program. Nodes
/// of one name are the same. No program is made, but while the group moves.
pub(crate) fn changed(
    old: Trees<'_>,
    old_ground: Option<Ground<'_>>,
    new: Trees<'_>,
    ground: Ground<'_>,
) -> Vec<NodeIx> {
    let Some(old_ground) = old_ground.filter(|_| old.present.is_some()) else { return new.nodes() };
    let is_renumbered = !Arc::ptr_eq(&old_ground.network.spec, &ground.network.spec);
    let before = |node: NodeIx| match is_renumbered {
        true => old_ground.network.node(ground.network.name(node)),
        false => Some(node),
    };
    if let (Some(old), Some(new)) = (old.at_rest(), new.at_rest()) {
        let at: HashMap<NodeIx, usize> = old.tree.nodes.iter().map(|t| t.node).zip(0..).collect();
        let (old, programs) = (old_ground.programs(old), ground.programs(new));
        let is_same = |here: usize, node| {
            before(node).and_then(|node| at.get(&node)).is_some_and(|there| programs.is_same(here, &old, *there))
        };
        let nodes = new.tree.nodes.iter().map(|t| t.node).enumerate();
        return nodes.filter(|(here, node)| !is_same(*here, *node)).map(|(_, node)| node).collect();
    }
    let old: HashMap<NodeIx, GroupProgram> = old.all(old_ground).into_iter().collect();
    let is_same = |node, program: &GroupProgram| before(node).and_then(|node| old.get(&node)) == Some(program);
    new.all(ground).into_iter().filter(|(node, program)| !is_same(*node, program)).map(|(node, _)| node).collect()
}

impl Program<'_> {
    /// The whole program.
    pub(crate) fn make(self) -> GroupProgram {
        match self {
            Self::OfTree(of, at) => of.at(at),
            Self::Staged(program) => *program,
        }
    }

    pub(crate) fn epoch(&self) -> u32 {
        match self {
            Self::OfTree(of, at) => of.epoch(*at),
            Self::Staged(program) => program.epoch,
        }
    }

    pub(crate) fn is_headend(&self) -> bool {
        match self {
            Self::OfTree(of, at) => of.is_root(*at),
            Self::Staged(program) => program.headend.is_some(),
        }
    }

    /// Where the source's packets arrive, at the headend.
    pub(crate) fn source_port(&self) -> Option<PortIndex> {
        match self {
            Self::OfTree(of, at) => of.is_root(*at).then(|| of.source_port()),
            Self::Staged(program) => program.headend.as_ref().map(|headend| headend.source_port),
        }
    }

    /// Where feedback leaves.
    pub(crate) fn upstream_port(&self) -> PortIndex {
        match self {
            Self::OfTree(of, at) => of.upstream_port(*at),
            Self::Staged(program) => program.upstream.port,
        }
    }

    /// The port to the parent of the next tree, if it is another one.
    pub(crate) fn alternate_upstream(&self) -> Option<PortIndex> {
        match self {
            Self::OfTree(..) => None,
            Self::Staged(program) => program.alternate_upstream,
        }
    }

    pub(crate) fn multicast(&self) -> Option<Multicast> {
        match self {
            Self::OfTree(of, _) => of.plan.content.common.multicast,
            Self::Staged(program) => program.multicast,
        }
    }

    /// See [`GroupProgram::multicast_route`].
    pub(crate) fn multicast_route(self) -> Option<MulticastRoute> {
        self.multicast()?;
        self.make().multicast_route()
    }

    /// Child nodes, then receivers.
    pub(crate) fn branches(&self) -> impl Iterator<Item = Branch> {
        let (of_tree, staged) = match self {
            Self::OfTree(of, at) => (Some(of.branches(*at)), None),
            Self::Staged(program) => (None, Some(program.branches.iter().cloned())),
        };
        of_tree.into_iter().flatten().chain(staged.into_iter().flatten())
    }

    /// Those of its branches.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = Ipv6Addr> {
        let (of_tree, staged) = match self {
            Self::OfTree(of, at) => (Some(of.addresses(*at)), None),
            Self::Staged(program) => (None, Some(program.branches.iter().map(|b| b.address))),
        };
        of_tree.into_iter().flatten().chain(staged.into_iter().flatten())
    }

    /// The branch with this address.
    pub(crate) fn branch(&self, address: Ipv6Addr) -> Option<Branch> {
        self.branches().find(|branch| branch.address == address)
    }

    pub(crate) fn has_receivers(&self) -> bool {
        match self {
            Self::OfTree(of, at) => !of.plan.content.receivers(*at).is_empty(),
            Self::Staged(program) => program.branches.iter().any(|b| matches!(b.kind, BranchKind::Receiver { .. })),
        }
    }

    /// The ports that it uses; some more than once.
    pub(crate) fn ports(&self) -> impl Iterator<Item = PortIndex> {
        let one = [Some(self.upstream_port()), self.alternate_upstream(), self.source_port()];
        self.branches().map(|branch| branch.port).chain(one.into_iter().flatten())
    }
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
