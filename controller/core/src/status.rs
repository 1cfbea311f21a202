// SPDX-License-Identifier: Apache-2.0
//! What a group is doing: its plan beside what the nodes report.
//!
//! ```text
//! Pending      no source, no receiver, or none that gets data
//! Programming  a tree node has not confirmed its present program, the tree moves, or the headend does not take data yet
//! Ready        every tree node read its kernel back and it matched; data, if any, is acknowledged
//! Stalled      the headend has unacknowledged data, and its AckPSN has not advanced for stallAfterMs
//! Unknown      no telemetry of the headend arrives
//! Degraded     a tree node cannot do its part, the tree could not be moved, or there can be no tree
//! Failed       the stall policy stopped it
//! Deleting     it was deleted, and members are left
//! ```
//!
//! A branch that acknowledges nothing sets the condition `Stalled`; the phase follows the headend, which sees whether the source waits. A
//! link that loses packets sets `Lossy` and changes no phase: forwarding continues. Forwarding is static: a group stays Ready when the agent
//! of another node than its headend disconnects after it confirmed, with the condition `AgentsConnected` false.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use canopy_model::ids::{Generation, GroupId};
use canopy_model::node_spec::Peer;
use canopy_model::status::{GroupPhase, ItemError, ItemKind};

use crate::condition::{Condition, ConditionKind as Kind, ConditionReason as Why};
use crate::delivery::DeliveryState;
use crate::programs::{Ground, Program, Trees};
use crate::resource::{Group, GroupState, Node, Stall, Step};
use crate::topology::NodeIx;
use crate::view::NodeProgress;

/// A group's phase with everything that led to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Assessment {
    pub(crate) phase: GroupPhase,
    pub(crate) reason: String,
    pub(crate) conditions: Vec<Condition>,
}

/// A group at one of its nodes: what the node is to have, and what its agent reports. Nothing of it is copied: a group is assessed at every
/// report of each of its nodes.
#[derive(Clone, Copy)]
pub(crate) struct AtNode<'a> {
    pub(crate) node: &'a Node,
    at: NodeIx,
    group: &'a Group,
    nodes: Nodes<'a>,
}

/// All nodes, with what the programs there follow from.
#[derive(Clone, Copy)]
pub(crate) struct Nodes<'a> {
    pub(crate) all: &'a [Node],
    /// `None` without a topology, and so without nodes.
    pub(crate) ground: Option<Ground<'a>>,
}

impl<'a> Nodes<'a> {
    /// The group at one of the nodes.
    pub(crate) fn at(self, group: &'a Group, at: NodeIx) -> AtNode<'a> {
        AtNode { node: &self.all[at], at, group, nodes: self }
    }

    /// The group's program at the node that is at this position of its tree.
    pub(crate) fn program_at(self, group: &'a Group, position: usize) -> Option<Program<'a>> {
        Trees::of_group(group).at_position(position, self.ground?)
    }

    /// The group's program at a node; `None`: it has none. It searches the tree for the node.
    pub(crate) fn program(self, group: &'a Group, at: NodeIx) -> Option<Program<'a>> {
        Trees::of_group(group).at(at, self.ground?)
    }
}

impl<'a> AtNode<'a> {
    /// At the nodes of the group's tree in force, in its order; then at those that only its next tree has.
    pub(crate) fn all(group: &'a Group, nodes: Nodes<'a>) -> impl Iterator<Item = Self> {
        group.nodes().map(Self::of(group, nodes))
    }

    fn of(group: &'a Group, nodes: Nodes<'a>) -> impl Fn(NodeIx) -> Self + use<'a> {
        move |at| nodes.at(group, at)
    }

    /// At the nodes of the tree in force alone.
    pub(crate) fn in_force(group: &'a Group, nodes: Nodes<'a>) -> impl Iterator<Item = Self> {
        let size = group.plan().map_or(0, |plan| plan.tree.len());
        Self::all(group, nodes).take(size)
    }

    /// The same group at another node.
    pub(crate) fn elsewhere(self, at: NodeIx) -> Self {
        self.nodes.at(self.group, at)
    }

    pub(crate) fn name(self) -> &'a str {
        &self.node.spec.base.name
    }

    /// Errors that concern the group.
    pub(crate) fn errors(self) -> impl Iterator<Item = &'a ItemError> {
        let errors: &[ItemError] = self.node.status.as_ref().map_or(&[], |status| &status.errors);
        // Most nodes have none.
        let program = if errors.is_empty() { None } else { self.program() };
        errors.iter().filter(move |e| program.as_ref().is_some_and(|of| concerns(e, self.node, self.id(), of)))
    }

    /// Its agent has reconciled the present program.
    pub(crate) fn is_confirmed(self) -> bool {
        let (observed, latest) = (self.node.observed(), self.node.spec.generation);
        // Most have reconciled all that they are to have.
        observed == Some(latest) || is_confirmed(observed, self.desired(), latest)
    }

    /// For operators.
    pub(crate) fn progress(self) -> NodeProgress {
        NodeProgress {
            node: self.name().to_owned(),
            desired_generation: self.desired(),
            observed_generation: self.node.observed(),
            connected: self.node.connected,
            errors: self.errors().cloned().collect(),
        }
    }

    /// What it is to run; `None`: nothing.
    pub(crate) fn program(self) -> Option<Program<'a>> {
        self.nodes.program(self.group, self.at)
    }

    pub(crate) fn id(self) -> GroupId {
        self.group.allocation.group_id
    }

    /// Generation of the node's spec that first carried the present program.
    fn desired(self) -> Generation {
        self.node.spec.groups.get(&self.id()).unwrap_or(self.node.spec.generation)
    }
}

/// Assesses `group` over `nodes`, which its tree's indexes refer to.
pub(crate) fn assess(group: &Group, nodes: Nodes<'_>) -> Assessment {
    let without_tree = |phase, code, reason: &str| Assessment {
        phase,
        reason: reason.to_owned(),
        conditions: vec![
            Condition::new(Kind::Planned, false, code, reason),
            Condition::unknown(Kind::Programmed, Why::NoTree, "there is no tree to program"),
        ],
    };
    if group.deleting {
        let reason = format!("it is being deleted: {} members are left", group.members.len());
        return without_tree(GroupPhase::Deleting, Why::Waiting, &reason);
    }
    let plan = match &group.state {
        GroupState::Waiting(reason) => return without_tree(GroupPhase::Pending, Why::Waiting, reason),
        GroupState::Infeasible(reason) => return without_tree(GroupPhase::Degraded, Why::Infeasible, reason),
        GroupState::Failed(reason) => return without_tree(GroupPhase::Failed, Why::Failed, reason),
        GroupState::Live(plan) => plan,
    };
    let id = group.allocation.group_id;
    // Those that only the next tree has carry nothing yet.
    let in_force: Vec<AtNode<'_>> = AtNode::in_force(group, nodes).collect();

    let planned = format!("the tree has {} nodes", in_force.len());
    let planned = Condition::new(Kind::Planned, true, Why::TreeComputed, planned);
    let programmed = programmed(&in_force);
    let moved = moved(group, nodes);
    let open = open(group, programmed.holds());
    let healthy = healthy(&in_force);
    let connected = agents_connected(&in_force);
    let stalled = stalled(group.nodes().map(|n| &nodes.all[n]), id);
    let lossy = lossy(AtNode::all(group, nodes));
    let delivering = delivering(group, &nodes.all[plan.tree.root()]);
    let (phase, reason) = if !healthy.holds() {
        (GroupPhase::Degraded, healthy.message.clone())
    } else if matches!(moved.reason, Why::GivenUp | Why::Infeasible) {
        (GroupPhase::Degraded, moved.message.clone())
    } else if !programmed.holds() {
        (GroupPhase::Programming, programmed.message.clone())
    } else if !moved.holds() {
        (GroupPhase::Programming, moved.message.clone())
    } else if open.reason == Why::NoReceiver {
        (GroupPhase::Pending, open.message.clone())
    } else if !open.holds() {
        (GroupPhase::Programming, open.message.clone())
    } else if delivering.reason == Why::NoProgress {
        let by = if stalled.holds() { &stalled.message } else { &delivering.message };
        (GroupPhase::Stalled, by.clone())
    } else if delivering.reason == Why::NoTelemetry {
        (GroupPhase::Unknown, delivering.message.clone())
    } else {
        (GroupPhase::Ready, String::new())
    };
    Assessment {
        phase,
        reason,
        conditions: vec![planned, programmed, moved, open, healthy, connected, delivering, stalled, lossy],
    }
}

/// The first node of the group's next tree that has not confirmed its program without an error, and why not, for operators.
pub(crate) fn lacking(group: &Group, nodes: Nodes<'_>) -> Option<(String, String)> {
    let leaving = group.making().map(|m| &m.leaving);
    let of_next = group.nodes().filter(|node| leaving.is_none_or(|leaving| !leaving.contains(node)));
    first_lacking(of_next.map(AtNode::of(group, nodes)))
}

/// True when every node of the tree in force has confirmed its program without an error.
pub(crate) fn is_confirmed_in_force(group: &Group, nodes: Nodes<'_>) -> bool {
    first_lacking(AtNode::in_force(group, nodes)).is_none()
}

fn first_lacking<'a>(mut nodes: impl Iterator<Item = AtNode<'a>>) -> Option<(String, String)> {
    nodes.find_map(|at| {
        let name = at.name();
        let program = at.errors().next().and_then(|_| at.program());
        let prevents = |e: &&ItemError| program.is_some_and(|program| prevents(e, at.node, at.id(), &program));
        let why = if let Some(e) = at.errors().find(prevents) {
            format!("node {name}: {} {}: {}", e.kind, e.name, e.detail)
        } else if at.is_confirmed() {
            return None;
        } else if at.node.connected {
            format!("node {name} has not confirmed its program")
        } else {
            format!(
                "the agent on {name} is not connected: start canopy-agent there, or check its way to this controller"
            )
        };
        Some((name.to_owned(), why))
    })
}

/// Whether the error keeps the node from carrying out this program in its tree: what is wrong with a host behind it does not.
fn prevents(error: &ItemError, node: &Node, id: GroupId, program: &Program<'_>) -> bool {
    let leads_to_host =
        |port: &str| node.spec.base.ports.iter().any(|p| p.name == port && matches!(p.peer, Peer::Host { .. }));
    match error.kind {
        ItemKind::Port | ItemKind::Link | ItemKind::Silence if leads_to_host(&error.name) => false,
        // Named by port and next hop.
        ItemKind::Neighbour if error.name.split('/').next().is_some_and(leads_to_host) => false,
        _ => concerns(error, node, id, program),
    }
}

/// True when a node that reported `observed` of the present term has reconciled what first appeared at `since`.
pub(crate) fn is_confirmed(observed: Option<Generation>, since: Generation, latest: Generation) -> bool {
    observed.is_some_and(|o| (since..=latest).contains(&o))
}

/// True when the node runs no program of the group that is older than `revision`: it has reconciled that, or its last spec before.
pub(crate) fn is_caught_up(nodes: Nodes<'_>, at: NodeIx, group: &Group, revision: u64) -> bool {
    let (node, id) = (&nodes.all[at], group.allocation.group_id);
    let errors: &[ItemError] = node.status.as_ref().map_or(&[], |status| &status.errors);
    let program = if errors.is_empty() { None } else { nodes.program(group, at) };
    let is_refused = |e: &ItemError| match program {
        Some(program) => prevents(e, node, id, &program),
        None => e.group == Some(id),
    };
    is_confirmed(node.observed(), revision.min(node.spec.generation), node.spec.generation)
        && !errors.iter().any(is_refused)
}

/// Errors at a node that concern the group with this program.
fn concerns(error: &ItemError, node: &Node, id: GroupId, program: &Program<'_>) -> bool {
    match error.group {
        Some(of) => of == id,
        None if error.kind == ItemKind::Port || error.kind.is_dead_link() => uses_port(node, program, &error.name),
        None => true,
    }
}

/// Whether a group with this program uses the node's port with this name.
pub(crate) fn uses_port(node: &Node, program: &Program<'_>, name: &str) -> bool {
    let named = node.spec.base.ports.iter().find(|p| p.name == name);
    named.is_some_and(|port| program.ports().any(|index| index == port.index))
}

fn programmed(in_force: &[AtNode<'_>]) -> Condition {
    let waiting: Vec<AtNode<'_>> = in_force.iter().copied().filter(|at| !at.is_confirmed()).collect();
    if waiting.is_empty() {
        return Condition::new(Kind::Programmed, true, Why::Confirmed, "every node confirmed its program");
    }
    let names = |of: &[AtNode<'_>]| some_names(of.iter().map(|at| at.name()));
    let away: Vec<AtNode<'_>> = waiting.iter().copied().filter(|at| !at.node.connected).collect();
    if !away.is_empty() {
        let (verb, their) = if away.len() == 1 { ("agent on", "is") } else { ("agents on", "are") };
        let message = format!(
            "{verb} {} {their} not connected: start canopy-agent there, or check its way to this controller",
            names(&away)
        );
        return Condition::new(Kind::Programmed, false, Why::AgentNotConnected, message);
    }
    // Not an epoch: each node's program has its own, of the change that last concerned it (decisions 3.15).
    let whose = if waiting.len() == 1 { "its program" } else { "their programs" };
    let message = format!("waiting for {} to confirm {whose}", names(&waiting));
    Condition::new(Kind::Programmed, false, Why::Waiting, message)
}

/// Whether the tree in force is the one over the present topology (decisions 3.14).
fn moved(group: &Group, nodes: Nodes<'_>) -> Condition {
    let of = |holds, why, message: String| Condition::new(Kind::Moved, holds, why, message);
    match group.behind.as_ref().map(|b| &b.step) {
        None => of(true, Why::InForce, "the tree in force is the one over the present topology".to_owned()),
        Some(Step::Making(_)) => {
            let what = match lacking(group, nodes) {
                Some((_, why)) => format!("{why}; the tree in force carries the data until the next one is made"),
                None => "every node confirmed the next tree; it is about to come into force".to_owned(),
            };
            of(false, Why::Making, what)
        }
        Some(Step::NoWay(reason)) => of(false, Why::Infeasible, format!("the tree in force stays: {reason}")),
        Some(Step::GivenUp(given_up)) => of(
            false,
            Why::GivenUp,
            format!(
                "the tree was not moved: {}; the tree in force carries the data, and the move is tried again once {} reports something else",
                given_up.reason, given_up.node
            ),
        ),
    }
}

/// Whether data passes the headend (decisions 3.13).
fn open(group: &Group, programmed: bool) -> Condition {
    let (joined, least) = (group.receivers(), group.spec.min_receivers as usize);
    if group.is_held() {
        let names: Vec<&str> = group.probing().map(|m| m.host.as_ref()).collect();
        let psn = group.allocation.session.start_psn;
        let message = format!(
            "no receiver gets data: {} joined late and has not answered a probe of its queue pair; bring it to RTR with rq_psn {psn}; data is dropped until then",
            some_names(names.into_iter())
        );
        return Condition::new(Kind::Open, false, Why::NoReceiver, message);
    }
    if group.is_open() {
        return Condition::new(
            Kind::Open,
            true,
            Why::Opened,
            "the headend takes data; receivers that join now are late",
        );
    }
    let message = if joined < least {
        format!("{joined} of {least} receivers have joined; data is dropped until then (spec.minReceivers)")
    } else if programmed {
        "every node confirmed; the headend is about to take data".to_owned()
    } else {
        "the headend takes data once every node has confirmed".to_owned()
    };
    Condition::new(Kind::Open, false, Why::Waiting, message)
}

fn healthy(in_force: &[AtNode<'_>]) -> Condition {
    let mut errors = in_force.iter().flat_map(|at| at.errors().map(move |e| (at, e)));
    let Some((at, error)) = errors.next() else {
        return Condition::new(Kind::Healthy, true, Why::NoErrors, "no node reports an error that concerns this group");
    };
    let more = errors.count();
    let mut message = format!("node {}: {} {}: {}", at.name(), error.kind, error.name, error.detail);
    if more > 0 {
        message.push_str(&format!(" (and {more} more)"));
    }
    Condition::new(Kind::Healthy, false, Why::NodeError, message)
}

fn agents_connected(in_force: &[AtNode<'_>]) -> Condition {
    let away = || in_force.iter().filter(|at| !at.node.connected).map(|at| at.name());
    if away().next().is_none() {
        return Condition::new(
            Kind::AgentsConnected,
            true,
            Why::AllConnected,
            "the agents of all tree nodes are connected",
        );
    }
    let message = format!(
        "no agent is connected from {}: forwarding continues, but changes and failures there are not seen",
        some_names(away())
    );
    Condition::new(Kind::AgentsConnected, false, Why::AgentNotConnected, message)
}

/// Whether data that the source sent is acknowledged, by its headend.
fn delivering(group: &Group, headend: &Node) -> Condition {
    if !group.is_open() {
        return Condition::unknown(Kind::Delivering, Why::Waiting, "the headend takes no data yet");
    }
    let name = &headend.spec.base.name;
    if headend.telemetry.is_silent {
        let message = format!(
            "no telemetry arrives from headend {name}: forwarding continues, but whether receivers acknowledge is not known"
        );
        return Condition::unknown(Kind::Delivering, Why::NoTelemetry, message);
    }
    let delivery = headend.telemetry.deliveries.get(&group.allocation.group_id);
    if delivery.is_some_and(|d| d.state == DeliveryState::Stalled) {
        let ms = group.spec.stall_after.as_millis();
        let message = format!("headend {name} has unacknowledged data, and its AckPSN has not advanced for {ms} ms");
        return Condition::new(Kind::Delivering, false, Why::NoProgress, message);
    }
    let message = "the headend has no unacknowledged data, or its AckPSN advances";
    Condition::new(Kind::Delivering, true, Why::Progress, message)
}

/// The condition that one is glad not to have.
fn stalled<'a>(nodes: impl Iterator<Item = &'a Node>, id: GroupId) -> Condition {
    let of_group = |n: &'a Node| n.stalls.range((id, Ipv6Addr::UNSPECIFIED)..).take_while(move |((g, _), _)| *g == id);
    let mut all: Vec<(&str, &Stall)> =
        nodes.flat_map(|n| of_group(n).map(|(_, s)| (n.spec.base.name.as_str(), s))).collect();
    // Every node above a stalled receiver sees its child stall too.
    all.sort_by_key(|(_, stall)| !stall.is_receiver);
    let Some((_, first)) = all.first() else {
        return Condition::new(Kind::Stalled, false, Why::NoStall, "no branch holds the group up");
    };
    let reason = match (first.is_receiver, first.fatal) {
        (true, true) => Why::FatalNak,
        (true, false) => Why::ReceiverStalled,
        (false, _) => Why::ChildNodeStalled,
    };
    let texts: Vec<String> = all.iter().map(|(node, stall)| format!("{} at node {node}", stall.who)).collect();
    let message = format!("held up by {}", some_names(texts.iter().map(String::as_str)));
    Condition::new(Kind::Stalled, true, reason, message)
}

/// Whether a link of the tree loses packets (decisions 3.14): forwarding continues, retransmissions slow it down.
fn lossy<'a>(nodes: impl Iterator<Item = AtNode<'a>>) -> Condition {
    let at_node = |at: AtNode<'a>| {
        let is_used = move |port: &str| at.program().is_some_and(|program| uses_port(at.node, &program, port));
        let used = at.node.lossy.iter().filter(move |(port, _)| is_used(port));
        used.map(|(_, lossy)| (lossy.link.as_str(), lossy.permille))
    };
    // Both ends have it.
    let links: BTreeMap<&str, u16> = nodes.flat_map(at_node).collect();
    if links.is_empty() {
        return Condition::new(Kind::Lossy, false, Why::NoLoss, "no link of the tree is known to lose packets");
    }
    let texts: Vec<String> = links.iter().map(|(link, permille)| format!("{link} ({})", percent(*permille))).collect();
    let message = format!(
        "links of the tree lose packets although their carriers are up: {}",
        some_names(texts.iter().map(String::as_str))
    );
    Condition::new(Kind::Lossy, true, Why::LinkLossy, message)
}

/// `5.1 %`.
pub(crate) fn percent(permille: u16) -> String {
    format!("{}.{} %", permille / 10, permille % 10)
}

/// The first few of `names`, and how many more there are.
fn some_names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    const SHOWN: usize = 3;
    let all: Vec<&str> = names.collect();
    match all.len().checked_sub(SHOWN) {
        None | Some(0) => all.join(", "),
        Some(more) => format!("{} and {more} more", all[..SHOWN].join(", ")),
    }
}
