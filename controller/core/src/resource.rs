// SPDX-License-Identifier: Apache-2.0
//! Resources as the domain holds them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::Duration;

use canopy_model::drain::DrainSpec;
use canopy_model::group::GroupSpec;
use canopy_model::ids::{Generation, GroupId, Qpn};
use canopy_model::member::Role;
use canopy_model::node_spec::Peer;
use canopy_model::reach::HostReach;
use canopy_model::silence::SilenceSpec;
use canopy_model::status::NodeStatus;
use canopy_model::topology::Endpoint;
use canopy_units::Monotonic;
use serde::{Deserialize, Serialize};

use crate::alloc::{Allocation, SessionNumbers};
use crate::clock::Difference;
use crate::delivery::Delivery;
use crate::desired::{DesiredNode, ProgramOrder};
use crate::drops::{DropKey, Rising};
use crate::member::{Member, Members};
use crate::metadata::Metadata;
use crate::plan::GroupPlan;
use crate::progress::Progress;
use crate::topology::{Network, NodeIx};
use crate::view::Evicted;

/// The topology in force.
#[derive(Clone, Debug)]
pub(crate) struct Topology {
    pub(crate) metadata: Metadata,
    pub(crate) network: Arc<Network>,
    /// Ports whose links carry nothing, as their nodes reported.
    pub(crate) down: BTreeSet<Endpoint>,
    /// Those of them whose links lost every packet although their carriers were up.
    pub(crate) silent: BTreeSet<Endpoint>,
    /// What changes with links has a record of its own.
    pub(crate) is_apart: bool,
}

/// A link or node that an operator takes out of service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Drain {
    pub(crate) metadata: Metadata,
    pub(crate) spec: DrainSpec,
}

/// Problems that an operator knows of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Silence {
    pub(crate) metadata: Metadata,
    pub(crate) spec: SilenceSpec,
}

/// A group with its members.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) metadata: Metadata,
    pub(crate) spec: GroupSpec,
    pub(crate) allocation: Allocation,
    pub(crate) epoch: u32,
    /// Epoch in the group's own record; lower than `epoch` when only topology changes moved the tree since.
    pub(crate) recorded_epoch: u32,
    /// Epoch of the tree in the group's own record; `None` if that has none.
    pub(crate) recorded_tree: Option<u32>,
    pub(crate) members: Members,
    /// Epoch in which receivers last moved from behind one node to behind another.
    pub(crate) moved: u32,
    /// Receivers that joined before this epoch may have had another edge since, or none: their hosts were connected elsewhere, or the
    /// group had no tree.
    pub(crate) displaced: u32,
    /// Epoch before the present session of a source began: members that joined up to it belong to sessions that have ended. 0 = the
    /// group's first session.
    pub(crate) session: u32,
    /// Designated QPNs of ended sessions that have members, by the epoch in which each ended: they rest (decisions 6.5).
    pub(crate) ended: BTreeMap<u32, Qpn>,
    /// Epoch in which the source joined for whose session the group was opened last (decisions 3.13); 0 = never.
    pub(crate) opened: u32,
    /// What every node of the tree runs or ran, while the group is open.
    pub(crate) confirmed: Option<Confirmed>,
    /// What becomes `confirmed` once every node of the tree has confirmed it.
    pub(crate) confirming: Option<Confirmed>,
    /// Why the stall policy stopped the group; `None` if it did not.
    pub(crate) failed: Option<String>,
    /// An operator has deleted it, and members are left.
    pub(crate) deleting: bool,
    /// Receivers that the stall policy removed since the source joined, oldest first.
    pub(crate) evicted: Vec<Evicted>,
    pub(crate) state: GroupState,
    /// Set while the tree in force is not the one over the present network (decisions 3.14).
    pub(crate) behind: Option<Behind>,
}

/// Nodes have no program of the group, or one of this epoch or later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Confirmed {
    pub(crate) epoch: u32,
    /// Of the domain: a node that has reconciled it, or its last spec before, is one of them.
    pub(crate) revision: u64,
}

/// A tree that has not moved to the one over the present network yet.
#[derive(Clone, Debug)]
pub(crate) struct Behind {
    pub(crate) step: Step,
}

/// How far the move is.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// The next tree is programmed beside the one in force.
    Making(Making),
    /// The next tree was taken away again.
    GivenUp(GivenUp),
    /// There is no next tree; the reason. The one in force leads over a broken link that is the only way to a receiver.
    NoWay(String),
}

/// A next tree that is programmed beside the one in force.
#[derive(Clone, Debug)]
pub(crate) struct Making {
    /// Revision of the change that began it: names it among the moves of its group.
    pub(crate) since: u64,
    /// Nodes of the next tree that are not in the one in force.
    pub(crate) added: Vec<NodeIx>,
    /// Nodes of the tree in force that are not in the next one.
    pub(crate) leaving: BTreeSet<NodeIx>,
    /// The next tree: see [`Tree::uplinks`](crate::tree::Tree::uplinks).
    pub(crate) next: Vec<Endpoint>,
    /// It, as planned last; `None` before that.
    pub(crate) plan: Option<Arc<GroupPlan>>,
}

/// Why a next tree was taken away again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GivenUp {
    /// The node that did not confirm it.
    pub(crate) node: String,
    /// For operators; it names the node.
    pub(crate) reason: String,
    /// The tree that was taken away.
    pub(crate) next: Vec<Endpoint>,
}

/// Whether a group has a tree.
#[derive(Clone, Debug)]
pub(crate) enum GroupState {
    /// No traffic is possible yet; the reason.
    Waiting(&'static str),
    /// No tree is possible; the reason. A departure, a broken link or a restart with another version leads here, or members that
    /// join behind a broken link.
    Infeasible(String),
    /// The stall policy stopped the group; the reason.
    Failed(String),
    /// The nodes' programs follow from it.
    Live(Arc<GroupPlan>),
}

impl GroupState {
    /// Epoch in which receivers last moved between nodes; of a group that lost its tree in `epoch`, that one.
    pub(crate) fn moved(&self, epoch: u32) -> u32 {
        match self {
            Self::Live(plan) => plan.moved,
            Self::Infeasible(_) => epoch,
            Self::Waiting(_) | Self::Failed(_) => 0,
        }
    }
}

/// See [`Group::probing`]; `source`: when the source joined.
fn is_probed(receiver: &Member, source: Option<u32>) -> bool {
    let is_late = receiver.late && source.is_some_and(|source| receiver.since > source);
    is_late && !receiver.answered && receiver.start.is_none()
}

impl Group {
    /// Nodes that have a program of the group: those of its tree in the tree's order, then those that only the next tree has.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = NodeIx> {
        let tree = self.plan().into_iter().flat_map(|p| p.tree.nodes().map(|t| t.node));
        tree.chain(self.making().into_iter().flat_map(|m| m.added.iter().copied()))
    }

    /// The next tree that is programmed beside the one in force.
    pub(crate) fn making(&self) -> Option<&Making> {
        match &self.behind.as_ref()?.step {
            Step::Making(making) => Some(making),
            Step::GivenUp(_) | Step::NoWay(_) => None,
        }
    }

    /// The epoch that a controller of a version without [`TreeRecord`](crate::record::TreeRecord) continues with after a restart: a tree
    /// that has not moved to the present network moves there at once.
    pub(crate) fn durable_epoch(&self) -> u32 {
        self.epoch + u32::from(self.behind.is_some())
    }

    /// Whether the headend takes data of the present source: receivers that join from now on are late (decisions 3.13).
    pub(crate) fn is_open(&self) -> bool {
        self.source_since().is_some_and(|since| since == self.opened)
    }

    /// Whether a member belongs to the present session.
    pub(crate) fn takes_part(&self, member: &Member) -> bool {
        member.since > self.session
    }

    /// Members of the present session with this role.
    pub(crate) fn present(&self, role: Role) -> impl Iterator<Item = &Member> {
        self.members.iter().map(AsRef::as_ref).filter(move |m| m.role == role && self.takes_part(m))
    }

    /// Receivers of the present session.
    pub(crate) fn receivers(&self) -> usize {
        self.present(Role::Receiver).count()
    }

    /// Receivers that joined late and are not known to have a queue pair that expects the start PSN: they get no data yet.
    pub(crate) fn probing(&self) -> impl Iterator<Item = &Member> {
        let source = self.source_since();
        self.present(Role::Receiver).filter(move |m| is_probed(m, source))
    }

    /// The group is open, and no receiver gets its data: all of them are probed. What is sent now would be acknowledged for no receiver.
    pub(crate) fn is_held(&self) -> bool {
        let source = self.source_since();
        self.is_open() && self.present(Role::Receiver).all(|m| is_probed(m, source))
    }

    /// Ends the session: who joined in it belongs to it for ever, and the next one has `numbers`.
    pub(crate) fn end_session(&mut self, numbers: SessionNumbers) {
        self.ended.insert(self.epoch, self.allocation.session.designated_qpn);
        self.session = self.epoch;
        self.allocation.session = numbers;
        self.forget_ended();
    }

    /// Forgets ended sessions whose members have all left or joined again.
    pub(crate) fn forget_ended(&mut self) {
        if self.ended.is_empty() {
            return;
        }
        let ended_in = |m: &Arc<Member>| self.ended.range(m.since..).next().map(|(epoch, _)| *epoch);
        let inhabited: BTreeSet<u32> = self.members.iter().filter_map(ended_in).collect();
        self.ended.retain(|epoch, _| inhabited.contains(epoch));
    }

    /// Epoch in which the present source joined.
    pub(crate) fn source_since(&self) -> Option<u32> {
        self.members.iter().find(|m| m.role == Role::Source).map(|m| m.since)
    }

    /// The root of its tree, if there is a tree.
    pub(crate) fn headend(&self) -> Option<NodeIx> {
        Some(self.plan()?.tree.root())
    }

    /// The tree and encoding, if there is a tree.
    pub(crate) fn plan(&self) -> Option<&GroupPlan> {
        match &self.state {
            GroupState::Live(plan) => Some(plan),
            _ => None,
        }
    }
}

/// A node: its desired state, and its agent's reports.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) spec: Arc<DesiredNode>,
    /// Of the programs of `spec`.
    pub(crate) order: ProgramOrder,
    pub(crate) status: Option<NodeStatus>,
    pub(crate) connected: bool,
    /// It has left for good: nothing waits for it.
    pub(crate) retired: bool,
    /// The agent is about to end, and is back within this long.
    pub(crate) announced: Option<Duration>,
    /// Set from the end of the agent's stream until one is connected.
    pub(crate) restart: Option<Restart>,
    /// Branches that it reports as stalling their group.
    pub(crate) stalls: BTreeMap<(GroupId, Ipv6Addr), Stall>,
    /// Ports to other nodes whose link loses packets.
    pub(crate) lossy: BTreeMap<String, LossyLink>,
    /// Ports to other nodes on whose links no data arrives, or did not arrive before.
    pub(crate) withholding: BTreeMap<String, Withholding>,
    pub(crate) telemetry: Telemetry,
}

/// An agent that is not connected any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Restart {
    /// It is to be back by then.
    pub(crate) until: Monotonic,
    /// How long that was when its stream ended.
    pub(crate) term: Duration,
    /// The agent announced it when it was stopped.
    pub(crate) is_announced: bool,
    /// How far it is.
    pub(crate) state: RestartState,
}

/// What an agent's absence means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RestartState {
    /// It is to be back soon: that its node does not answer shows nothing.
    Restarting,
    /// The same, but its node does not forward.
    Doubted,
    /// It stays away.
    Away,
}

/// What is known of a node by its telemetry.
#[derive(Clone, Debug, Default)]
pub(crate) struct Telemetry {
    /// When the newest one arrived, or the agent connected; `None`: since the controller started, or since the node was marked silent,
    /// neither has happened.
    pub(crate) received: Option<Monotonic>,
    /// Time between the last two.
    pub(crate) interval: Duration,
    /// None has arrived for too long.
    pub(crate) is_silent: bool,
    /// Progress of the groups that it is the headend of.
    pub(crate) deliveries: BTreeMap<GroupId, Delivery>,
    /// Which branches hold the minimum, of the groups that it has programs of.
    pub(crate) progress: BTreeMap<GroupId, Progress>,
    /// Drop counters that have risen lately.
    pub(crate) rising: BTreeMap<DropKey, Rising>,
    /// How its wall clock differs from the controller's, if by more than is tolerated.
    pub(crate) clock: Option<Difference>,
}

impl Node {
    /// A node of which nothing is known yet.
    pub(crate) fn new(spec: Arc<DesiredNode>) -> Self {
        Self {
            order: ProgramOrder::of(&spec.groups),
            spec,
            status: None,
            connected: false,
            retired: false,
            announced: None,
            restart: None,
            stalls: BTreeMap::new(),
            lossy: BTreeMap::new(),
            withholding: BTreeMap::new(),
            telemetry: Telemetry::default(),
        }
    }

    /// Whether the agent is away and may be back soon.
    pub(crate) fn is_restarting(&self) -> bool {
        self.restart.as_ref().is_some_and(|restart| restart.state != RestartState::Away)
    }

    /// Generation of the present term that the agent last reconciled. A report of another term is of another controller's life
    /// and confirms nothing, whatever its numbers.
    pub(crate) fn observed(&self) -> Option<Generation> {
        self.status.as_ref().filter(|s| s.observed_term == self.spec.term).map(|s| s.observed_generation)
    }

    /// Removes the losses of ports that no longer lead to another node.
    pub(crate) fn prune_losses(&mut self) {
        let ports = &self.spec.base.ports;
        let leads_to_node = |name: &str| ports.iter().any(|p| p.name == name && matches!(p.peer, Peer::Node { .. }));
        self.lossy.retain(|port, _| leads_to_node(port));
        self.withholding.retain(|port, _| leads_to_node(port));
    }
}

/// A link that loses packets although its carrier is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LossyLink {
    /// Its name, `a--b`.
    pub(crate) link: String,
    /// Packets of a thousand that it lost when that began.
    pub(crate) permille: u16,
    /// What showed it, and shows its end.
    pub(crate) by: LossMeasure,
}

/// What shows that a link loses packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LossMeasure {
    /// Echo Requests of both ends.
    Echo,
    /// Data that left through this port.
    Data(Endpoint),
}

/// A link on which no data arrives although Echo Requests are answered: that they are proves nothing, so it is tried again after a while,
/// which doubles if nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Withholding {
    /// Until then the link is treated as one that loses every packet. `None`: it is tried again.
    pub(crate) until: Option<Monotonic>,
    /// When it was, or is to be, tried again.
    pub(crate) tried: Monotonic,
    /// How long it is avoided.
    pub(crate) lasts: Duration,
    /// For operators.
    pub(crate) detail: String,
}

/// A branch that stalls its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stall {
    /// `receiver r1` or `node n2`.
    pub(crate) who: String,
    /// False for a child node, where the cause is a receiver further down.
    pub(crate) is_receiver: bool,
    /// Its QP is in error.
    pub(crate) fatal: bool,
    /// Epoch that brought the branch in.
    pub(crate) since: u32,
    /// What its host answered, if its edge has probed it since it stalled.
    pub(crate) reach: Option<HostReach>,
}
