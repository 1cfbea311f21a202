// SPDX-License-Identifier: Apache-2.0
//! The programs of a group at its nodes: those of the tree in force, and while it moves, the next tree beside it (decisions 3.9).
//!
//! Nothing keeps them: a program is made whole when it is sent to its node, and a part of one is read from the plans.

use std::collections::{HashMap, HashSet};
use std::net::Ipv6Addr;
use std::sync::Arc;

use canopy_model::addressing::AddressPlan;
use canopy_model::ids::{GroupId, PortIndex};
use canopy_model::node_spec::{Branch, BranchKind, GroupProgram, Multicast, MulticastRoute};

use crate::plan::GroupPlan;
use crate::program::TreePrograms;
use crate::resource::{Behind, Group, GroupState, Step};
use crate::topology::{Network, NodeIx};
use crate::tree::TreeNode;

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

/// A group's program at a node. Its parts are read from the plans without making it.
#[derive(Clone, Copy)]
pub(crate) enum Program<'a> {
    /// That of the only tree.
    OfTree(InTree<'a>),
    /// That of a group that moves, at a node of both trees.
    OfBoth(InTree<'a>, InTree<'a>),
    /// The same at a node that the next tree does not have.
    Leaving(InTree<'a>, TreePrograms<'a>),
    /// The same at a node that only the next tree has.
    OfNext(InTree<'a>),
}

/// A position of a tree.
#[derive(Clone, Copy)]
pub(crate) struct InTree<'a> {
    of: TreePrograms<'a>,
    at: usize,
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

    /// The program at a node; `None`: it has none. It searches the tree for the node.
    pub(crate) fn at(self, node: NodeIx, ground: Ground<'a>) -> Option<Program<'a>> {
        let present = self.present.and_then(|plan| InTree::search(ground.programs(plan), node));
        self.beside(present, node, ground)
    }

    /// The program at the node that is at this position of the tree in force.
    pub(crate) fn at_position(self, at: usize, ground: Ground<'a>) -> Option<Program<'a>> {
        let present = InTree { of: ground.programs(self.present?), at };
        self.beside(Some(present), present.tree_node().node, ground)
    }

    fn beside(self, present: Option<InTree<'a>>, node: NodeIx, ground: Ground<'a>) -> Option<Program<'a>> {
        let Some(next) = self.next.map(|plan| ground.programs(plan)) else { return present.map(Program::OfTree) };
        Some(match (present, InTree::search(next, node)) {
            (Some(present), Some(next)) => Program::OfBoth(present, next),
            (Some(present), None) => Program::Leaving(present, next),
            (None, Some(next)) => Program::OfNext(next),
            (None, None) => return None,
        })
    }

    /// The plan that all programs follow from.
    fn at_rest(self) -> Option<&'a GroupPlan> {
        self.present.filter(|_| self.next.is_none()).map(|plan| &**plan)
    }

    /// The kernel's multicast routes, each with its node.
    pub(crate) fn multicast_routes(self, ground: Ground<'a>) -> impl Iterator<Item = (NodeIx, MulticastRoute)> {
        self.all(ground).filter_map(|(node, program)| Some((node, program.multicast_route()?)))
    }

    /// All programs, each with its node, in the order of [`Group::nodes`].
    fn all(self, ground: Ground<'a>) -> impl Iterator<Item = (NodeIx, Program<'a>)> {
        let places = |plan: Option<&'a Arc<GroupPlan>>| {
            let of = plan.map(|plan| ground.programs(plan));
            of.into_iter().flat_map(|of| (0..of.plan.tree.len()).map(move |at| InTree { of, at }))
        };
        let next = self.next.map(|plan| ground.programs(plan));
        let there: HashMap<NodeIx, InTree<'a>> =
            places(self.next).map(|place| (place.tree_node().node, place)).collect();
        let here: HashSet<NodeIx> = match next {
            Some(_) => places(self.present).map(|place| place.tree_node().node).collect(),
            None => HashSet::new(),
        };
        let added = places(self.next).filter(move |place| !here.contains(&place.tree_node().node)).map(Program::OfNext);
        let present = places(self.present).map(move |place| match (next, there.get(&place.tree_node().node)) {
            (None, _) => Program::OfTree(place),
            (Some(_), Some(next)) => Program::OfBoth(place, *next),
            (Some(next), None) => Program::Leaving(place, next),
        });
        present.chain(added).map(|program| (program.first().tree_node().node, program))
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
    let Some(old_ground) = old_ground.filter(|_| old.present.is_some()) else {
        return new.all(ground).map(|(node, _)| node).collect();
    };
    let is_renumbered = !Arc::ptr_eq(&old_ground.network.spec, &ground.network.spec);
    let before = |node: NodeIx| match is_renumbered {
        true => old_ground.network.node(ground.network.name(node)),
        false => Some(node),
    };
    if let (Some(old), Some(new)) = (old.at_rest(), new.at_rest()) {
        let at: HashMap<NodeIx, usize> = old.tree.nodes().map(|t| t.node).zip(0..).collect();
        let (old, programs) = (old_ground.programs(old), ground.programs(new));
        let is_same = |here: usize, node| {
            before(node).and_then(|node| at.get(&node)).is_some_and(|there| programs.is_same(here, &old, *there))
        };
        let nodes = new.tree.nodes().map(|t| t.node).enumerate();
        return nodes.filter(|(here, node)| !is_same(*here, *node)).map(|(_, node)| node).collect();
    }
    let old: HashMap<NodeIx, Program<'_>> = old.all(old_ground).collect();
    let is_same = |node, program: Program<'_>| {
        before(node).and_then(|node| old.get(&node)).is_some_and(|old| old.make() == program.make())
    };
    new.all(ground).filter(|(node, program)| !is_same(*node, *program)).map(|(node, _)| node).collect()
}

impl<'a> InTree<'a> {
    fn search(of: TreePrograms<'a>, node: NodeIx) -> Option<Self> {
        let at = of.plan.tree.nodes().position(|t| t.node == node)?;
        Some(Self { of, at })
    }

    fn tree_node(self) -> TreeNode<'a> {
        self.of.plan.tree.node(self.at)
    }

    fn make(self) -> GroupProgram {
        self.of.at(self.at)
    }

    fn upstream_port(self) -> PortIndex {
        self.of.upstream_port(self.at)
    }

    fn replication_sid(self) -> Option<Ipv6Addr> {
        self.of.replication_sid(self.at)
    }

    fn branches(self) -> impl Iterator<Item = Branch> + use<'a> {
        self.of.branches(self.at)
    }
}

impl<'a> Program<'a> {
    /// The position that most of it follows from.
    fn first(self) -> InTree<'a> {
        match self {
            Self::OfTree(first) | Self::OfBoth(first, _) | Self::Leaving(first, _) | Self::OfNext(first) => first,
        }
    }

    /// The whole program.
    pub(crate) fn make(self) -> GroupProgram {
        match self {
            Self::OfTree(only) | Self::Leaving(only, _) => only.make(),
            // The port of the future parent, and the future children as staged branches.
            Self::OfBoth(present, next) => GroupProgram {
                alternate_upstream: self.alternate_upstream(),
                replication_sid: present.replication_sid().or_else(|| next.replication_sid()),
                branches: self.branches().collect(),
                ..present.make()
            },
            // All its children still send their feedback to their old parents.
            Self::OfNext(next) => GroupProgram { branches: self.branches().collect(), ..next.make() },
        }
    }

    pub(crate) fn epoch(self) -> u32 {
        let InTree { of, at } = self.first();
        of.epoch(at)
    }

    pub(crate) fn is_headend(self) -> bool {
        self.first().tree_node().parent.is_none()
    }

    /// Where the source's packets arrive, at the headend.
    pub(crate) fn source_port(self) -> Option<PortIndex> {
        self.is_headend().then(|| self.first().of.source_port())
    }

    /// Where feedback leaves.
    pub(crate) fn upstream_port(self) -> PortIndex {
        self.first().upstream_port()
    }

    /// The port to the parent of the next tree, if it is another one.
    pub(crate) fn alternate_upstream(self) -> Option<PortIndex> {
        match self {
            Self::OfBoth(present, next) => Some(next.upstream_port()).filter(|port| *port != present.upstream_port()),
            Self::OfTree(_) | Self::Leaving(..) | Self::OfNext(_) => None,
        }
    }

    pub(crate) fn multicast(self) -> Option<Multicast> {
        self.first().of.plan.content.common.multicast
    }

    /// See [`GroupProgram::multicast_route`].
    pub(crate) fn multicast_route(self) -> Option<MulticastRoute> {
        let flow = self.multicast()?;
        let nodes = self.branches().filter(|b| matches!(b.kind, BranchKind::Node { .. }));
        let route = MulticastRoute { flow, input: self.upstream_port(), outputs: nodes.map(|b| b.port).collect() };
        (!route.outputs.is_empty()).then_some(route)
    }

    /// Child nodes, then receivers; then those of the next tree alone.
    pub(crate) fn branches(self) -> impl Iterator<Item = Branch> + use<'a> {
        let stand_by = move |mut branch: Branch| {
            branch.standby = matches!(self, Self::OfNext(_)) && matches!(branch.kind, BranchKind::Node { .. });
            branch
        };
        let more = match self {
            Self::OfBoth(present, next) => Some(more_branches(present, next)),
            Self::OfTree(_) | Self::Leaving(..) | Self::OfNext(_) => None,
        };
        self.first().branches().map(stand_by).chain(more.into_iter().flatten())
    }

    /// Those of its branches.
    pub(crate) fn addresses(self) -> impl Iterator<Item = Ipv6Addr> + use<'a> {
        let more = match self {
            Self::OfBoth(present, next) => Some(more_branches(present, next).map(|branch| branch.address)),
            Self::OfTree(_) | Self::Leaving(..) | Self::OfNext(_) => None,
        };
        let InTree { of, at } = self.first();
        of.addresses(at).chain(more.into_iter().flatten())
    }

    /// The branch with this address.
    pub(crate) fn branch(self, address: Ipv6Addr) -> Option<Branch> {
        self.branches().find(|branch| branch.address == address)
    }

    pub(crate) fn has_receivers(self) -> bool {
        let has = |InTree { of, at }: InTree<'_>| !of.plan.content.receivers(at).is_empty();
        has(self.first()) || matches!(self, Self::OfBoth(_, next) if has(next))
    }

    /// The ports that it uses; some more than once.
    pub(crate) fn ports(self) -> impl Iterator<Item = PortIndex> + use<'a> {
        let one = [Some(self.upstream_port()), self.alternate_upstream(), self.source_port()];
        self.branches().map(|branch| branch.port).chain(one.into_iter().flatten())
    }

    /// The parent in the tree in force, the parent's port that leads here, and its program without the next tree. `None` at the headend, and
    /// while the node moves to another parent.
    pub(crate) fn parent(self) -> Option<(NodeIx, PortIndex, Self)> {
        let here = match self {
            Self::OfTree(here) | Self::Leaving(here, _) => here,
            Self::OfBoth(here, next) if next.upstream_port() == here.upstream_port() => here,
            Self::OfBoth(..) | Self::OfNext(_) => return None,
        };
        let up = here.tree_node().parent?;
        let parent = InTree { at: up.position, ..here };
        Some((parent.tree_node().node, up.parent_port, Self::OfTree(parent)))
    }

    /// The child nodes in the tree in force that do not move to another parent: as [`Self::parent`] has it at each.
    pub(crate) fn children(self) -> impl Iterator<Item = (NodeIx, PortIndex, Self)> + use<'a> {
        let (here, next) = match self {
            Self::OfTree(here) => (Some(here), None),
            Self::OfBoth(here, next) => (Some(here), Some(next.of)),
            Self::Leaving(here, next) => (Some(here), Some(next)),
            Self::OfNext(_) => (None, None),
        };
        let children = here.into_iter().flat_map(|here| here.tree_node().children().map(move |at| (here, at)));
        children.filter_map(move |(here, at)| {
            let child = InTree { at, ..here };
            let there = next.and_then(|next| InTree::search(next, child.tree_node().node));
            let stays = there.is_none_or(|there| there.upstream_port() == child.upstream_port());
            let port = child.tree_node().parent.filter(|_| stays)?.parent_port;
            Some((child.tree_node().node, port, Self::OfTree(child)))
        })
    }
}

/// The branches that a node has in the next tree alone.
fn more_branches<'a>(present: InTree<'a>, next: InTree<'a>) -> impl Iterator<Item = Branch> + use<'a> {
    let known: Vec<Ipv6Addr> = present.of.addresses(present.at).collect();
    let more = next.branches().filter(move |branch| !known.contains(&branch.address));
    more.map(|branch| Branch { standby: true, ..branch })
}
