// SPDX-License-Identifier: Apache-2.0
//! Signs of problems in a state, and the fixed rules of what explains what:
//!
//! ```text
//! receiver <- port, neighbour        slow receiver <- port, neighbour        branch to a child <- link, route, program       agent -> node behind -> group not programmed
//! a node's clock <- the controller's clock
//! group <- the receivers and branches that hold its minimum: a child's branch counts only if nothing below it explains it
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use canopy_model::ids::{GroupId, PortIndex, Qpn};
use canopy_model::member::Role;
use canopy_model::node_spec::{Branch, BranchKind, Peer};
use canopy_model::status::{ItemError, ItemKind};
use canopy_model::topology::Endpoint;
use canopy_units::Monotonic;

use super::drops::is_fresh;
use super::leaving;
use super::link_views::STALE;
use super::links::{Links, label, label_at};
use super::state::State;
use super::views::address;
use super::waited_for;
use crate::delivery::{DeliveryState, SOURCE_GAVE_UP};
use crate::drops::code_of;
use crate::health::{ProblemKey, Symptom};
use crate::member::Member;
use crate::plan::GroupPlan;
use crate::problem::{Object, ObjectKind, ProblemCode as Code};
use crate::resource::{Group, GroupState, Node, RestartState, Stall, Step};
use crate::retirement::Retirement;
use crate::status::{AtNode, percent};
use crate::threshold::Bound;

/// Links that are named as a possible reason why a group has no tree, at most.
const MAX_SUSPECTS: usize = 32;

/// Reads symptoms off a state.
pub(super) struct Symptoms<'a> {
    pub(super) state: &'a State,
    pub(super) links: &'a Links,
    pub(super) now: Monotonic,
}

/// Whether a retirement has taken longer than its operator wanted, as far as this controller knows.
fn is_late(retirement: &Retirement, now: Monotonic) -> bool {
    !retirement.has_ended() && now.since(retirement.known).as_secs() >= retirement.spec.timeout_seconds
}

fn symptom(code: Code, object: Object, evidence: String, causes: Vec<ProblemKey>) -> Symptom {
    Symptom { key: ProblemKey::new(code, object), evidence, causes, group: None }
}

impl Symptoms<'_> {
    /// Of a node, its ports and its links. None of a node that does not exist.
    pub(super) fn node(&self, name: &str) -> Vec<Symptom> {
        let Some(node) = self.state.node(name) else { return Vec::new() };
        let object = || Object::Node(name.to_owned());
        let mut all = Vec::new();
        let retirement = self.state.retirements.get(name);
        if let Some(late) = retirement.filter(|retirement| is_late(retirement, self.now)) {
            let seconds = late.spec.timeout_seconds;
            let waits_for = leaving::next(self.state, late).err().unwrap_or_default();
            let evidence = format!("step {} for more than {seconds} s: it waits for {waits_for}", late.reached.step);
            all.push(symptom(Code::RetirementLate, object(), evidence, vec![]));
        }
        if node.retired || node.is_restarting() {
            // An agent that is away for a moment is none.
        } else if !node.connected {
            let evidence = "no agent of this node is connected to the controller".to_owned();
            all.push(symptom(Code::AgentDisconnected, object(), evidence, vec![]));
        } else if node.telemetry.is_silent {
            let evidence = "the agent is connected, and no telemetry of it arrives".to_owned();
            all.push(symptom(Code::AgentSilent, object(), evidence, vec![]));
        }
        if let Some(difference) = node.telemetry.clock.filter(|_| node.connected) {
            let evidence = format!("its clock is {difference} the controller's");
            let causes = vec![ProblemKey::new(Code::ControllerClockDiffers, Object::Controller)];
            all.push(symptom(Code::ClockDiffers, object(), evidence, causes));
        }
        let desired = node.spec.generation;
        if node.connected && node.status.is_some() && node.observed() != Some(desired) {
            let evidence = match node.observed() {
                Some(observed) => format!("generation {observed} is applied, {desired} is desired"),
                None => format!("generation {desired} is desired, and none of this controller's term is applied"),
            };
            all.push(symptom(Code::NodeBehind, object(), evidence, self.of_agent(name)));
        }
        for error in node.status.iter().flat_map(|s| &s.errors).filter(|error| !self.leads_away(node, error)) {
            let key = self.key_of(node, error);
            let evidence = format!("{name}: {} {}: {}", error.kind, error.name, error.detail);
            let causes = match key.code {
                Code::NeighbourUnresolved => self.of_port(node, port_of(error)),
                Code::LinkBlackHole => vec![ProblemKey::new(Code::LinkDown, key.object.clone())],
                _ => vec![],
            };
            all.push(Symptom { key, evidence, causes, group: None });
        }
        for (port, withholding) in node.withholding.iter().filter(|(_, w)| w.until.is_some()) {
            let object = self.port_object(node, port);
            let down = ProblemKey::new(Code::LinkDown, object.clone());
            let evidence = format!("{name}: port {port}: {}", withholding.detail);
            all.push(symptom(Code::LinkBlackHole, object, evidence, vec![down]));
        }
        for lossy in node.lossy.values() {
            let evidence = format!("{} of the packets were lost when it was found", percent(lossy.permille));
            all.push(symptom(Code::LinkLossy, Object::Link(lossy.link.clone()), evidence, vec![]));
        }
        self.queues(node, &mut all);
        self.drops(node, &mut all);
        all
    }

    /// Whether an error is a link to a node that has left, or is about to: that it carries nothing is wanted.
    fn leads_away(&self, node: &Node, error: &ItemError) -> bool {
        let port = node.spec.base.ports.iter().find(|port| port.name == error.name);
        let Some(Peer::Node { name, .. }) = port.filter(|_| error.kind.is_dead_link()).map(|port| &port.peer) else {
            return false;
        };
        self.state.retirements.get(name).is_some_and(Retirement::is_beyond_return)
    }

    fn drops(&self, node: &Node, all: &mut Vec<Symptom>) {
        let name = &node.spec.base.name;
        // The first of several reasons names the problem; the others are in its evidence.
        let mut found: BTreeMap<ProblemKey, Vec<String>> = BTreeMap::new();
        for (key, rising) in node.telemetry.rising.iter().filter(|(_, rising)| is_fresh(rising, self.now)) {
            let Some(code) = code_of(key.reason, key.port.is_some()) else { continue };
            let group = key.group.and_then(|id| self.state.groups.name(id));
            let object = match (code.info().object, &key.port, group) {
                (ObjectKind::Port, Some(port), _) => Object::Port(format!("{name}/{port}")),
                (ObjectKind::Group, _, Some(group)) => Object::Group(group.to_owned()),
                (ObjectKind::Node, ..) => Object::Node(name.clone()),
                _ => continue,
            };
            let of = group.map(|group| format!(" of group {group}")).unwrap_or_default();
            let at = match (code.info().object, &key.port) {
                (ObjectKind::Node, Some(port)) => format!(" at port {port}"),
                _ => String::new(),
            };
            let text = format!("{} ({} packets{of}{at} since the sample before)", rising.name, rising.packets);
            found.entry(ProblemKey::new(code, object)).or_default().push(text);
        }
        for (key, reasons) in found {
            let causes = match key.code {
                Code::CopiesNotForwarded => {
                    let ports = node.spec.base.ports.iter();
                    let of_ports = ports.flat_map(|port| self.of_port(node, &port.name));
                    of_ports.chain([ProblemKey::new(Code::RouteMissing, Object::Node(name.clone()))]).collect()
                }
                Code::CopiesTooLarge => {
                    let ports = node.spec.base.ports.iter().map(|p| Object::Port(format!("{name}/{}", p.name)));
                    ports.map(|port| ProblemKey::new(Code::PortMisconfigured, port)).collect()
                }
                _ => vec![],
            };
            let does = if key.code == Code::FlowTableFull { "forwards, and does not count" } else { "drops" };
            let evidence = format!("{name} {does}: {}", reasons.join(", "));
            all.push(Symptom { key, evidence, causes, group: None });
        }
    }

    fn queues(&self, node: &Node, all: &mut Vec<Symptom>) {
        let name = &node.spec.base.name;
        for port in &node.spec.base.ports {
            let from = Endpoint { device: name.clone(), port: port.name.clone() };
            let Some(direction) = self.links.direction(&from) else { continue };
            let Some(pushed) = direction.machine.as_ref().and_then(|m| m.pushed()) else { continue };
            let k_max = pushed.thresholds.k_max;
            let queue = direction.reported().queue.as_ref().filter(|queue| self.now.since(queue.at) <= STALE);
            if let Some(peak) = queue.map(|q| q.report.queue.peak_queue).filter(|peak| *peak > k_max) {
                let evidence =
                    format!("the largest queue of the last two seconds was {peak} bytes; K_max is {k_max} bytes");
                all.push(symptom(Code::LinkCongested, Object::Port(from.to_string()), evidence, vec![]));
            }
            if let Bound::Buffer { wanted } = pushed.thresholds.bound {
                let evidence =
                    format!("K_max is {k_max} bytes; alpha times the bandwidth-delay product is {wanted} bytes");
                all.push(symptom(Code::ThresholdClamped, Object::Port(from.to_string()), evidence, vec![]));
            }
        }
    }

    /// Of a group and its members. None of a group that does not exist.
    pub(super) fn group(&self, name: &str) -> Vec<Symptom> {
        let Some(group) = self.state.groups.get(name) else { return Vec::new() };
        let object = || Object::Group(name.to_owned());
        let mut all = Vec::new();
        let plan = match &group.state {
            GroupState::Waiting(_) => return all,
            GroupState::Failed(reason) => {
                all.push(symptom(Code::GroupFailed, object(), reason.clone(), vec![]));
                return all;
            }
            GroupState::Infeasible(reason) => {
                all.push(symptom(Code::GroupInfeasible, object(), reason.clone(), self.of_dead_links(group)));
                return all;
            }
            GroupState::Live(plan) => plan,
        };
        self.confirmations(name, group, &mut all);
        match group.behind.as_ref().map(|b| &b.step) {
            Some(Step::GivenUp(given_up)) => {
                let causes = self.of_agent(&given_up.node);
                all.push(symptom(Code::MoveGivenUp, object(), given_up.reason.clone(), causes));
            }
            Some(Step::NoWay(reason)) => {
                all.push(symptom(Code::GroupDegraded, object(), reason.clone(), self.of_dead_links(group)));
            }
            Some(Step::Making(_)) | None => {}
        }
        let culprits = self.stalls(name, group, plan, &mut all);
        let headend = &self.state.nodes[plan.tree.root()];
        let at = &headend.spec.base.name;
        let delivery = headend.telemetry.deliveries.get(&group.allocation.group_id);
        if headend.telemetry.is_silent && group.is_open() {
            let evidence = format!("no telemetry arrives from {at}");
            all.push(symptom(Code::GroupUnobserved, object(), evidence, self.of_agent(at)));
        } else if let Some(delivery) = delivery.filter(|d| d.state == DeliveryState::Stalled && group.is_open()) {
            let evidence = format!(
                "headend {at}: {} packets are not acknowledged, and AckPSN has not advanced for {} ms",
                delivery.outstanding,
                group.spec.stall_after.as_millis()
            );
            let mut causes = culprits;
            if delivery.source_gave_up {
                let gave_up = self.source_gave_up(name, group, headend, delivery.outstanding, &causes);
                causes.push(gave_up.key.clone());
                all.push(gave_up);
            }
            all.push(symptom(Code::GroupStalled, object(), evidence, causes));
        }
        all.extend(self.slow(name, group, plan));
        for member in group.probing() {
            let member_object = Object::Member { group: name.to_owned(), host: member.host.to_string() };
            let psn = group.allocation.session.start_psn;
            let evidence = format!("its edge probes the queue pair; rq_psn has to be {psn}");
            all.push(symptom(Code::ReceiverNotReady, member_object, evidence, vec![]));
        }
        all
    }

    /// Nodes that have not confirmed, and those that report errors about the group.
    fn confirmations(&self, name: &str, group: &Group, all: &mut Vec<Symptom>) {
        let object = || Object::Group(name.to_owned());
        let (mut waiting, mut waiting_for, mut errors, mut causes) = (vec![], vec![], vec![], vec![]);
        for at in AtNode::in_force(group, self.state.on_ground()) {
            let (node, name) = (at.node, at.name());
            if !at.is_confirmed() {
                let is_restarting = matches!(&node.restart, Some(r) if r.state != RestartState::Away);
                waiting.push(format!("{name}{}", if is_restarting { ", whose agent restarts" } else { "" }));
                waiting_for.extend(self.of_agent(name));
                waiting_for.push(ProblemKey::new(Code::NodeBehind, Object::Node(name.to_owned())));
            }
            for error in at.errors() {
                let key = self.key_of(node, error);
                // What the object itself is found by needs no cause.
                if key.object != object() {
                    errors.push(format!("{name}: {} {}: {}", error.kind, error.name, error.detail));
                    causes.push(key);
                }
            }
        }
        if !waiting.is_empty() {
            let evidence = format!("not confirmed by {}", waiting.join("; "));
            all.push(symptom(Code::GroupNotProgrammed, object(), evidence, waiting_for));
        }
        if let Some(first) = errors.first() {
            let more = errors.len() - 1;
            let evidence = if more == 0 { first.clone() } else { format!("{first} (and {more} more)") };
            all.push(symptom(Code::GroupDegraded, object(), evidence, causes));
        }
    }

    /// The receivers and branches that hold the group up, and the problems that those are.
    fn stalls(&self, name: &str, group: &Group, plan: &GroupPlan, all: &mut Vec<Symptom>) -> Vec<ProblemKey> {
        let id = group.allocation.group_id;
        let tree = &plan.tree;
        // Parents come before their children, so from the end on every child is known before its parent.
        let mut explained = vec![false; tree.len()];
        let mut culprits = Vec::new();
        for (position, tree_node) in tree.nodes().enumerate().rev() {
            let node = &self.state.nodes[tree_node.node];
            let address_of = |child: usize| self.state.nodes[tree.node(child).node].spec.base.node_address;
            explained[position] = tree_node.children().any(|child| explained[child]);
            for (address, stall) in stalls_of(node, id) {
                let found = if stall.is_receiver {
                    Some(self.receiver(name, self.state.on_ground().at(group, tree_node.node), address, stall))
                } else {
                    let child = tree_node.children().find(|child| address_of(*child) == address);
                    child.filter(|child| !explained[*child]).and_then(|child| self.branch(node, plan, child))
                };
                if let Some(symptom) = found {
                    explained[position] = true;
                    culprits.push(symptom.key.clone());
                    all.push(symptom);
                }
            }
        }
        culprits
    }

    /// Of a source that does not send again. The cause is what held it up until it gave up, what cuts it off, or why the headend drops what it
    /// sends.
    fn source_gave_up(
        &self,
        name: &str,
        group: &Group,
        headend: &Node,
        outstanding: u64,
        culprits: &[ProblemKey],
    ) -> Symptom {
        let source = group.present(Role::Source).next().map_or("the source", |source| &source.host);
        let evidence = format!(
            "{} has taken no packet of {source} for {} s, although {outstanding} packets are not acknowledged",
            headend.spec.base.name,
            SOURCE_GAVE_UP.as_secs()
        );
        let program = group.headend().and_then(|root| self.state.program(group, root));
        let port = program.and_then(|program| program.source_port());
        let object = Object::Group(name.to_owned());
        let mut causes = culprits.to_vec();
        causes.push(ProblemKey::new(Code::SourceRefused, object.clone()));
        let port = port.and_then(|port| port_name(headend, port));
        causes.extend(port.map(|port| self.of_port(headend, port)).unwrap_or_default());
        symptom(Code::SourceGaveUp, object, evidence, causes)
    }

    /// The receiver that the source waits for, if it acknowledges late.
    fn slow(&self, name: &str, group: &Group, plan: &GroupPlan) -> Option<Symptom> {
        let slow = waited_for::slow(self.state, group, plan, self.now)?;
        let at = plan.tree.node(slow.position).node;
        let node = &self.state.nodes[at];
        let network = self.state.network()?;
        let is_it = |m: &&Member| address(network, m) == Some(slow.branch);
        let host = group.present(Role::Receiver).find(is_it)?.host.to_string();
        let branch = self.state.program(group, at).and_then(|program| program.branch(slow.branch));
        let port = branch.and_then(|branch| port_name(node, branch.port));
        let at = &node.spec.base.name;
        let ms = slow.wait.as_millis();
        let evidence = format!(
            "data waits {ms} ms for its ACK at {at}{}, and all other receivers acknowledge before it",
            port.map(|p| format!(", port {p}")).unwrap_or_default()
        );
        let causes = port.map(|p| self.of_port(node, p)).unwrap_or_default();
        Some(symptom(Code::ReceiverSlow, Object::Member { group: name.to_owned(), host }, evidence, causes))
    }

    fn receiver(&self, group: &str, of: AtNode<'_>, address: std::net::Ipv6Addr, stall: &Stall) -> Symptom {
        let node = of.node;
        let host = stall.who.trim_start_matches("receiver ").to_owned();
        let at = &node.spec.base.name;
        let branch = of.program().and_then(|program| program.branch(address));
        let port = branch.as_ref().and_then(|b| port_name(node, b.port));
        let (code, what) = if stall.fatal {
            (Code::ReceiverFailed, "its fatal NAK arrived at")
        } else {
            (Code::ReceiverStalled, "data is forwarded to it, and it acknowledges nothing at")
        };
        let of_port = port.map(|p| format!(", port {p}")).unwrap_or_default();
        let cause = branch.as_ref().and_then(|b| Some(stall.reach?.sentence(&host, qpn_of(b)?)));
        let cause = cause.filter(|_| !stall.fatal).map(|cause| format!("{cause}; ")).unwrap_or_default();
        let evidence = format!("{cause}{what} {at}{of_port}");
        let causes = if stall.fatal { vec![] } else { port.map(|p| self.of_port(node, p)).unwrap_or_default() };
        symptom(code, Object::Member { group: group.to_owned(), host }, evidence, causes)
    }

    fn branch(&self, parent: &Node, plan: &GroupPlan, child: usize) -> Option<Symptom> {
        let network = self.state.network()?;
        let tree_node = &plan.tree.node(child);
        let child = &self.state.nodes[tree_node.node].spec.base.name;
        let link = tree_node.parent?.link;
        let object = Object::Link(label(network, link));
        let evidence = format!(
            "{} forwards data to {child}, from which no acknowledgement arrives; no receiver behind {child} explains it",
            parent.spec.base.name
        );
        let mut causes: Vec<ProblemKey> = [Code::LinkDown, Code::LinkBlackHole]
            .into_iter()
            .map(|code| ProblemKey::new(code, object.clone()))
            .collect();
        let ends = &network.spec.links[link];
        for end in [&ends.a, &ends.b] {
            // An MTU that is too small lets ACKs pass.
            causes.push(ProblemKey::new(Code::PortMisconfigured, Object::Port(end.to_string())));
        }
        for node in [&parent.spec.base.name, child] {
            for code in [Code::RouteMissing, Code::ProgramNotLoaded] {
                causes.push(ProblemKey::new(code, Object::Node(node.clone())));
            }
        }
        Some(symptom(Code::BranchSilent, object, evidence, causes))
    }

    /// The problem that an item error is.
    fn key_of(&self, node: &Node, error: &ItemError) -> ProblemKey {
        let of_node = |code| ProblemKey::new(code, Object::Node(node.spec.base.name.clone()));
        match error.kind {
            ItemKind::Port => {
                let port = format!("{}/{}", node.spec.base.name, error.name);
                ProblemKey::new(Code::PortMisconfigured, Object::Port(port))
            }
            ItemKind::Link => match self.port_object(node, &error.name) {
                link @ Object::Link(_) => ProblemKey::new(Code::LinkDown, link),
                port => ProblemKey::new(Code::PortDown, port),
            },
            ItemKind::Silence => ProblemKey::new(Code::LinkBlackHole, self.port_object(node, &error.name)),
            ItemKind::Neighbour => {
                let port = format!("{}/{}", node.spec.base.name, port_of(error));
                ProblemKey::new(Code::NeighbourUnresolved, Object::Port(port))
            }
            ItemKind::Route => of_node(Code::RouteMissing),
            ItemKind::Program => of_node(Code::ProgramNotLoaded),
            ItemKind::Group => match error.group.and_then(|id| self.state.groups.name(id)) {
                Some(name) => ProblemKey::new(Code::ProgramRefused, Object::Group(name.to_owned())),
                None => of_node(Code::ItemMissing),
            },
            ItemKind::Report | ItemKind::Other => of_node(Code::ItemMissing),
        }
    }

    /// The link of a port that leads to another node, else the port.
    fn port_object(&self, node: &Node, port: &str) -> Object {
        let end = Endpoint { device: node.spec.base.name.clone(), port: port.to_owned() };
        let leads_to_node = node.spec.base.ports.iter().any(|p| p.name == port && matches!(p.peer, Peer::Node { .. }));
        match self.state.network().filter(|_| leads_to_node) {
            Some(network) => Object::Link(label_at(network, &end)),
            None => Object::Port(end.to_string()),
        }
    }

    /// What may be wrong with the far end of a port.
    fn of_port(&self, node: &Node, port: &str) -> Vec<ProblemKey> {
        let object = self.port_object(node, port);
        let neighbour = Object::Port(format!("{}/{port}", node.spec.base.name));
        let codes: &[Code] = match object {
            Object::Link(_) => &[Code::LinkDown, Code::LinkBlackHole],
            _ => &[Code::PortDown],
        };
        let of_object = codes.iter().map(|code| ProblemKey::new(*code, object.clone()));
        let of_port = [Code::PortMisconfigured, Code::NeighbourUnresolved];
        of_object.chain(of_port.map(|code| ProblemKey::new(code, neighbour.clone()))).collect()
    }

    /// What may be wrong with a node's agent.
    fn of_agent(&self, node: &str) -> Vec<ProblemKey> {
        let codes = [Code::AgentDisconnected, Code::AgentSilent, Code::ProgramNotLoaded];
        codes.map(|code| ProblemKey::new(code, Object::Node(node.to_owned()))).into()
    }

    /// The links that carry nothing on the ways to the group's receivers, and at its headend and edges. No others: a tenant reads of them as
    /// causes.
    fn of_dead_links(&self, group: &Group) -> Vec<ProblemKey> {
        let Some(network) = self.state.network() else { return Vec::new() };
        let with = |role| group.members.iter().filter(move |m| m.role == role && group.takes_part(m));
        let node_of = |member: &Arc<Member>| network.host(&member.host).map(|at| at.node);
        let Some(from) = with(Role::Source).find_map(node_of) else { return Vec::new() };
        let dead = network.broken_towards(from, with(Role::Receiver).filter_map(node_of), MAX_SUSPECTS);
        let keys = dead.into_iter().flat_map(|link| {
            let link = Object::Link(label(network, link));
            [ProblemKey::new(Code::LinkDown, link.clone()), ProblemKey::new(Code::LinkBlackHole, link)]
        });
        keys.collect()
    }
}

fn port_name(node: &Node, index: PortIndex) -> Option<&str> {
    node.spec.base.ports.iter().find(|p| p.index == index).map(|p| p.name.as_str())
}

fn qpn_of(branch: &Branch) -> Option<Qpn> {
    match branch.kind {
        BranchKind::Receiver { qpn, .. } => Some(qpn),
        BranchKind::Node { .. } => None,
    }
}

fn stalls_of(node: &Node, id: GroupId) -> impl Iterator<Item = (std::net::Ipv6Addr, &Stall)> {
    let of_group = node.stalls.range((id, std::net::Ipv6Addr::UNSPECIFIED)..).take_while(move |((g, _), _)| *g == id);
    of_group.map(|((_, address), stall)| (*address, stall))
}

/// The port of an error about a neighbour, which is named by port and next hop.
pub(super) fn port_of(error: &ItemError) -> &str {
    error.name.split('/').next().unwrap_or(&error.name)
}
