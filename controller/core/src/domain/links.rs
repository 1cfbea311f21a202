// SPDX-License-Identifier: Apache-2.0
//! Queue thresholds of every link direction out of a node's port (decisions 4.2): declared settings and the agents'
//! measurements in, threshold changes per node out. Durable are the measured round-trip times in force; agents measure all else again after
//! a restart.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use canopy_model::congestion::{MAX_REPORTED_FLOWS, PortCongestion};
use canopy_model::ids::{Generation, GroupId, PortIndex};
use canopy_model::node_spec::PortThresholds;
use canopy_model::telemetry::{GroupTelemetry, LinkLoss, LinkRtt};
use canopy_model::topology::{Endpoint, LinkBuffer, PortNumber};
use canopy_units::{Monotonic, Octets, Rate, UnixTime, nanos};

use super::change::{Effect, Prepared, ThresholdEffect, ThresholdEffects};
use super::data_flows::{Carried, DataFlows, Part, Withheld};
use super::losses::{Loss, Losses, is_congested, judge, judge_data};
use super::recorded_rtts::RecordedRtts;
use super::state::State;
use crate::command::{MAX_WRITES, Outcome};
use crate::record::RecordedRtt;
use crate::resource::{LossMeasure, LossyLink, Node};
use crate::threshold::{LinkThresholds, PortLimits, RttSource, ThresholdSettings};
use crate::topology::{Network, NodeIx, PortInfo};

/// The threshold machines, by node and port name: both stay when a topology renumbers its ports.
#[derive(Clone, Debug)]
pub(super) struct Links {
    defaults: ThresholdSettings,
    nodes: HashMap<String, BTreeMap<String, Direction>>,
    flows: DataFlows,
    recorded: RecordedRtts,
    /// Nodes with threshold changes to push, or with another record than they should have.
    due: BTreeSet<String>,
}

/// One direction, out of a node's port.
#[derive(Clone, Debug)]
pub(super) struct Direction {
    to: Endpoint,
    /// `None` while the rate is not known.
    pub(super) machine: Option<LinkThresholds>,
    /// `None` before the first report: most of what a direction needs, where a topology has declared a million links at once.
    reported: Option<Box<Reported>>,
    avoided: Avoided,
    /// The port's number, and the generation of the node's spec that gave it another one: reports by the former numbers are of other ports.
    index: Option<PortIndex>,
    numbered: Generation,
}

// A topology declares millions of them at once.
const _: () = assert!(size_of::<Direction>() <= 640);

/// What agents and groups reported of a direction, since the link was declared.
#[derive(Clone, Debug, Default)]
pub(super) struct Reported {
    pub(super) report: Option<Report>,
    /// Samples below the least round-trip time.
    pub(super) refused: u64,
    pub(super) queue: Option<Queue>,
    pub(super) losses: Losses,
    /// What it carried of the groups' data, and that by reports of the port's queue.
    pub(super) carried: Carried,
    data: Losses,
}

impl Reported {
    const NOTHING: &Self = &Self {
        report: None,
        refused: 0,
        queue: None,
        losses: Losses::NONE,
        carried: Carried { packets: 0, lost: 0 },
        data: Losses::NONE,
    };
}

impl Direction {
    /// What was reported of it.
    pub(super) fn reported(&self) -> &Reported {
        self.reported.as_deref().unwrap_or(Reported::NOTHING)
    }

    fn reported_mut(&mut self) -> &mut Reported {
        self.reported.get_or_insert_default()
    }

    /// Notes whether trees and routes avoid the link, at the direction out of `from`.
    fn avoid(&mut self, state: &State, from: &Endpoint) {
        let is_in = |ports: &BTreeSet<Endpoint>| ports.contains(from) || ports.contains(&self.to);
        let avoided = match is_in(state.down()) {
            true if is_in(state.silent()) => Avoided::Silent,
            true => Avoided::Down,
            false => Avoided::No,
        };
        let was = std::mem::replace(&mut self.avoided, avoided);
        if let Some(reported) = self.reported.as_mut().filter(|_| was < avoided) {
            reported.losses.forget();
            reported.data.forget();
        }
    }

    /// Whether the node's agent names this port by its present number.
    fn is_known_to(&self, node: &Node) -> bool {
        self.numbered == 0 || node.observed().is_some_and(|observed| observed >= self.numbered)
    }
}

/// Whether trees and routes avoid a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Avoided {
    #[default]
    No,
    /// It carries nothing.
    Down,
    /// It lost every packet although its carrier was up.
    Silent,
}

/// A link that loses packets, or no longer does.
pub(super) struct Verdict {
    /// The end whose report led to it first.
    pub(super) ends: [Endpoint; 2],
    /// Packets of a thousand that it loses; 0 = none.
    pub(super) permille: u16,
    pub(super) loss: Loss,
    pub(super) by: LossMeasure,
}

/// A link on which no data of a group arrives.
pub(super) struct Silenced {
    /// The end that sends it.
    pub(super) from: Endpoint,
    /// The node that it does not reach.
    pub(super) to: String,
    pub(super) group: GroupId,
    pub(super) data: Withheld,
}

/// How long Echo Requests must have been answered while no data arrived, so that data alone is lost. A link that loses everything is found
/// by its agents, and used again when it answers.
const ONLY_DATA: Duration = Duration::from_millis(900);
/// A queue that drops packets may drop all of a group's, but not for ever.
const CONGESTED: Duration = Duration::from_secs(10);

/// The agent's last measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    /// The newest sample.
    pub(super) rtt: Option<Duration>,
    pub(super) samples: u64,
    pub(super) lost: u64,
    pub(super) at: Monotonic,
}

/// The agent's last report of the sending port's queue, and its time.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    pub(super) report: PortCongestion,
    pub(super) at: Monotonic,
    pub(super) load: Load,
}

/// What a port sent between two reports.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// The report from which on the next rate is measured: its octets, and when its agent took it.
    since: (Octets, UnixTime),
    /// `None` until two reports of one agent are far enough from each other.
    pub(super) rate: Option<Rate>,
}

/// Reports that are nearer to each other than this are measured as one: what their clocks lack would be much of the rate.
const LOAD_EVERY: Duration = Duration::from_millis(500);

impl Load {
    fn first(octets: Octets, taken: UnixTime) -> Self {
        Self { since: (octets, taken), rate: None }
    }

    /// With one more report. Octets that became fewer are those of another port or kernel, and a clock that was set back measures nothing.
    fn next(self, octets: Octets, taken: UnixTime) -> Self {
        let (before, since) = self.since;
        let sent = octets.get().checked_sub(before.get());
        let Some((sent, ns)) = sent.zip(taken.nanos().checked_sub(since.nanos())) else {
            return Self::first(octets, taken);
        };
        let time = Duration::from_nanos(ns);
        if time < LOAD_EVERY {
            return self;
        }
        Self { since: (octets, taken), rate: Some(Rate::of(Octets(sent), time)) }
    }
}

/// The declared settings of a direction.
pub(super) struct Declared {
    pub(super) link: usize,
    pub(super) from: Endpoint,
    pub(super) to: Endpoint,
    pub(super) settings: ThresholdSettings,
    pub(super) port: PortLimits,
    pub(super) source: RttSource,
}

impl Links {
    /// The links of a restored state, whose nodes' specs get their thresholds. `defaults` are for links without their own alpha and K_base.
    pub(super) fn restore(defaults: ThresholdSettings, recorded: RecordedRtts, state: &mut State) -> Self {
        let (nodes, flows) = (HashMap::new(), DataFlows::default());
        let mut links = Self { defaults, nodes, flows, recorded, due: BTreeSet::new() };
        links.tune(state, Monotonic::START);
        for node in 0..state.nodes.len() {
            state.restore_thresholds(ThresholdEffect { node, ports: links.changes(state, node) });
        }
        links.prune_due(state);
        links
    }

    /// Applies the settings of the topology's links.
    pub(super) fn tune(&mut self, state: &State, now: Monotonic) {
        let mut before = std::mem::take(&mut self.nodes);
        let mut nodes = HashMap::with_capacity(state.nodes.len());
        for (at, network) in
            state.network().into_iter().flat_map(|network| (0..network.len()).map(move |at| (at, network)))
        {
            let mut old = before.remove(network.name(at));
            let directions = network.ports(at).iter().map(|info| {
                let declared = self.direction_of(network, info.link, info.is_a);
                let was = old.as_mut().map(|ports| ports.remove(&declared.from.port));
                let port = declared.from.port.clone();
                (port, self.tuned(state, declared, info.index, was, now))
            });
            let ports: BTreeMap<_, _> = directions.collect();
            if !ports.is_empty() {
                nodes.insert(network.name(at).to_owned(), ports);
            }
        }
        self.nodes = nodes;
        self.flows.retain(|node| state.index(node).is_some());
        self.due = state.nodes.iter().map(|n| n.spec.base.name.clone()).collect();
        self.due.extend(self.recorded.nodes().cloned());
        self.prune_due(state);
    }

    /// A direction as it is declared, which continues as it `was`; `None`: its node is new.
    fn tuned(
        &self,
        state: &State,
        declared: Declared,
        index: PortIndex,
        was: Option<Option<Direction>>,
        now: Monotonic,
    ) -> Direction {
        let Declared { from, to, settings, port, source, .. } = declared;
        let is_new_node = was.is_none();
        let new = || Direction {
            to: to.clone(),
            machine: None,
            reported: None,
            avoided: Avoided::No,
            index: None,
            numbered: 0,
        };
        let mut direction = was.flatten().filter(|d| d.to == to).unwrap_or_else(new);
        if direction.index != Some(index) && !is_new_node {
            direction.numbered = state.revision;
        }
        direction.index = Some(index);
        direction.avoid(state, &from);
        direction.machine = match direction.machine.take() {
            _ if port.rate == Rate::ZERO => None,
            Some(machine) => Some(machine),
            None => self.machine(&from, &to, settings, port, now),
        };
        if let Some(machine) = &mut direction.machine {
            // Settings were validated with the topology and the controller's configuration, so this cannot fail.
            _ = machine.configure(settings, port, source, now);
        }
        direction
    }

    /// Notes for the links of these ports whether trees and routes avoid them.
    pub(super) fn avoid(&mut self, state: &State, ports: BTreeSet<Endpoint>) {
        for port in ports {
            let far = self.direction(&port).map(|direction| direction.to.clone());
            for from in far.into_iter().chain([port]) {
                if let Some(direction) = self.direction_mut(&from) {
                    direction.avoid(state, &from);
                }
            }
        }
    }

    /// A machine that continues with the recorded round-trip time, if there is one of this path.
    fn machine(
        &self,
        from: &Endpoint,
        to: &Endpoint,
        settings: ThresholdSettings,
        port: PortLimits,
        now: Monotonic,
    ) -> Option<LinkThresholds> {
        let recorded = self.recorded.get(from, to).filter(|rtt| *rtt >= settings.min_rtt);
        let machine = LinkThresholds::new(settings, port, recorded, now);
        // A record of another version may have one that this one refuses.
        machine.or_else(|_| LinkThresholds::new(settings, port, None, now)).ok()
    }

    /// See [`super::Domain::link_rtts`].
    pub(super) fn measured(&mut self, state: &State, node: &str, rtts: &[LinkRtt], now: Monotonic) {
        let Some(at) = state.index(node) else { return };
        let (spec, Some(ports)) = (&state.nodes[at].spec, self.nodes.get_mut(node)) else { return };
        let mut is_changed = false;
        for rtt in rtts {
            let Some(port) = spec.base.ports.get(usize::from(rtt.port.get()) - 1) else { continue };
            let Some(direction) = ports.get_mut(&port.name).filter(|d| d.is_known_to(&state.nodes[at])) else {
                continue;
            };
            let is_refused = rtt.rtt.is_some_and(|sample| sample < self.defaults.min_rtt);
            let reported = direction.reported_mut();
            reported.refused += u64::from(is_refused);
            let rtt = LinkRtt { rtt: rtt.rtt.filter(|_| !is_refused), ..*rtt };
            let newest = rtt.rtt.or(reported.report.and_then(|r| r.rtt));
            reported.report = Some(Report { rtt: newest, samples: rtt.samples, lost: rtt.lost, at: now });
            if let (Some(machine), Some(sample)) = (&mut direction.machine, rtt.rtt) {
                // A sample out of range is ignored.
                is_changed |= machine.observe(sample, now).is_ok_and(|pushed| pushed.is_some());
            }
        }
        if is_changed {
            self.due.insert(node.to_owned());
        }
    }

    /// Adds what an agent's Echo Requests found, and returns the links about which the verdict is another one now.
    pub(super) fn lost(&mut self, state: &State, node: &str, reports: &[LinkLoss], now: Monotonic) -> Vec<Verdict> {
        let Some(node) = state.node(node) else { return Vec::new() };
        let base = &node.spec.base;
        let mut verdicts = Vec::new();
        for report in reports {
            let Some(port) = base.ports.get(usize::from(report.port.get()) - 1) else { continue };
            let here = Endpoint { device: base.name.clone(), port: port.name.clone() };
            let Some(direction) = self.direction_mut(&here).filter(|d| d.is_known_to(node)) else { continue };
            let is_down = direction.avoided != Avoided::No;
            let reported = direction.reported_mut();
            reported.losses.add(*report, now, is_down);
            let Carried { packets, lost } = reported.carried;
            reported.data.add(LinkLoss { requests: packets, lost, ..*report }, now, is_down);
            let Some(direction) = self.direction(&here) else { continue };
            let Some(back) = self.direction(&direction.to) else { continue };
            let is = node.lossy.get(&port.name);
            match verdict(is, &here, [direction, back], now) {
                Some((permille, loss, by)) if is.is_some() != (permille > 0) => {
                    let to = direction.to.clone();
                    if let (LossMeasure::Data(_), Some(direction)) = (&by, self.direction_mut(&here)) {
                        direction.reported_mut().data.restart();
                    }
                    verdicts.push(Verdict { ends: [here, to], permille, loss, by });
                }
                _ => {}
            }
        }
        verdicts
    }

    /// A stream of telemetry of a node begins, whose first sample has all groups that it has.
    pub(super) fn stream_begins(&mut self, state: &State, node: &str, now: Monotonic) {
        if state.node(node).is_some() {
            self.flows.begin(node, now);
        }
    }

    /// Adds what a node counted of the groups' data, and returns the links on which none arrives. `others_at_rest`: of the node's other groups
    /// nothing has changed.
    pub(super) fn data<'a>(
        &mut self,
        state: &State,
        node: &str,
        samples: impl Iterator<Item = &'a GroupTelemetry>,
        others_at_rest: bool,
        now: Monotonic,
    ) -> Vec<Silenced> {
        let Some(index) = state.index(node) else { return Vec::new() };
        let node = &state.nodes[index];
        let part = |id| Part::of(state.on_ground().at(state.groups.by_id(id)?, index));
        self.flows.prune(node);
        let mut silenced = Vec::new();
        for sample in samples {
            let here = part(sample.group_id).filter(|here| self.flows.add(here, sample, now));
            let Some(here) = here else { continue };
            if let Some((from, parent)) = uplink(&here) {
                self.measure(&from, &parent, &here);
                silenced.extend(self.silenced(from, &parent, &here, now));
            }
            for (child, port) in here.children() {
                let Some(port) = here.port_name(port) else { continue };
                self.measure(&Endpoint { device: here.at.name().to_owned(), port: port.to_owned() }, &here, &child);
                self.flows.expect(&here, &child, now);
            }
        }
        if others_at_rest {
            for here in self.flows.rest(node, now).into_iter().filter_map(part) {
                let Some((from, parent)) = uplink(&here) else { continue };
                silenced.extend(self.silenced(from, &parent, &here, now));
            }
        }
        silenced
    }

    /// Flows of nodes that are measured.
    #[cfg(test)]
    pub(super) fn flows(&self) -> usize {
        self.flows.len()
    }

    fn measure(&mut self, from: &Endpoint, parent: &Part<'_>, child: &Part<'_>) {
        let Some(Carried { packets, lost }) = self.flows.measure(parent, child) else { return };
        let Some(direction) = self.direction_mut(from) else { return };
        let carried = &mut direction.reported_mut().carried;
        carried.packets += packets;
        carried.lost += lost;
    }

    /// Whether data alone is lost on the way out of `from`, and all of the group's.
    fn silenced(&self, from: Endpoint, parent: &Part<'_>, child: &Part<'_>, now: Monotonic) -> Option<Silenced> {
        let data = self.flows.withheld(parent, child, now)?;
        let there = self.direction(&from).filter(|there| there.avoided == Avoided::No)?;
        let back = self.direction(&there.to)?;
        let is_congested = there.reported().losses.has_dropped(now) && now.since(data.since) < CONGESTED;
        if is_congested || !back.reported().losses.is_answered_for(ONLY_DATA, now) {
            return None;
        }
        Some(Silenced { from, to: child.at.name().to_owned(), group: child.at.id(), data })
    }

    /// Ports of the node that were silent, and whose links have not answered for long enough since.
    pub(super) fn unproven(&self, state: &State, node: &str, now: Monotonic) -> BTreeSet<String> {
        let is_proven = |port: &Endpoint| {
            // A reply takes both ways: one end is enough.
            let ends = self.ends(state, port);
            ends.is_none_or(|ends| ends.iter().any(|end| end.is_answered(now)))
        };
        state.silent_of(node).filter(|port| !is_proven(port)).map(|port| port.port.clone()).collect()
    }

    /// Whether the link of this port is silent for its queues' sake.
    pub(super) fn is_congested(&self, state: &State, port: &Endpoint, now: Monotonic) -> bool {
        self.ends(state, port).is_some_and(|ends| is_congested(ends, now))
    }

    /// What the agents at both ends report; `None` if one end is none of a node.
    fn ends(&self, state: &State, port: &Endpoint) -> Option<[&Losses; 2]> {
        let here = self.direction(port)?;
        state.index(&here.to.device)?;
        Some([&here.reported().losses, &self.direction(&here.to)?.reported().losses])
    }

    /// See [`super::Domain::queues`].
    pub(super) fn queues(
        &mut self,
        state: &State,
        node: &str,
        reports: Vec<PortCongestion>,
        taken: UnixTime,
        now: Monotonic,
    ) {
        // A report received after the agent disconnected would never be removed.
        let Some(node) = state.node(node).filter(|node| node.connected) else { return };
        let (spec, Some(ports)) = (&node.spec, self.nodes.get_mut(&node.spec.base.name)) else { return };
        let before = ports.iter_mut().filter_map(|(port, direction)| {
            let queue = direction.reported.as_mut()?.queue.take()?;
            Some((port.clone(), queue.load))
        });
        let before: BTreeMap<String, Load> = before.collect();
        let mut room = MAX_REPORTED_FLOWS;
        for mut report in reports {
            let Some(port) = spec.base.ports.get(usize::from(report.port.get()) - 1) else { continue };
            let Some(direction) = ports.get_mut(&port.name).filter(|d| d.is_known_to(node)) else { continue };
            report.flows.truncate(room);
            room -= report.flows.len();
            let octets = report.queue.octets;
            let first = Load::first(octets, taken);
            let load = before.get(&port.name).map_or(first, |load| load.next(octets, taken));
            direction.reported_mut().queue = Some(Queue { report, at: now, load });
        }
    }

    /// Removes the queue state of a node whose agent disconnected.
    pub(super) fn forget_queues(&mut self, node: &str) {
        let ports = self.nodes.get_mut(node);
        let reported =
            ports.into_iter().flat_map(BTreeMap::values_mut).filter_map(|direction| direction.reported.as_mut());
        reported.for_each(|reported| reported.queue = None);
    }

    /// True when a push would change a node's spec or record.
    pub(super) fn are_due(&self, state: &State) -> bool {
        self.due.iter().any(|name| self.is_due(state, name))
    }

    /// A command that pushes what is due, and writes the round-trip times that it follows from: as many nodes as one transaction holds.
    pub(super) fn prepare_push(&self, state: &State) -> Prepared {
        let (mut nodes, mut recorded) = (Vec::new(), Vec::new());
        for name in &self.due {
            let rtts = self.in_force(name);
            if !self.recorded.is(name, &rtts) {
                // One write is the state record's.
                if recorded.len() == MAX_WRITES - 1 {
                    continue;
                }
                recorded.push((name.clone(), rtts));
            }
            let Some(node) = state.index(name) else { continue };
            let ports = self.changes(state, node);
            if !ports.is_empty() {
                nodes.push(ThresholdEffect { node, ports });
            }
        }
        let generation = state.topology.as_ref().map_or(0, |t| t.metadata.generation);
        if nodes.is_empty() && recorded.is_empty() {
            return Prepared::noop(state, generation);
        }
        // A node's generation must never decrease, so the state record is written also where no round-trip time changed.
        let writes = recorded.iter().map(|(node, rtts)| RecordedRtts::write(node, rtts, state.revision + 1)).collect();
        let effect = Effect::Thresholds(ThresholdEffects { nodes, recorded });
        Prepared::change(state, Outcome::Updated, generation, writes, state.pools.cursors(), effect)
    }

    /// Takes note of what became durable, and forgets the nodes whose specs have the present thresholds.
    pub(super) fn pushed(&mut self, state: &State, recorded: Vec<(String, BTreeMap<String, RecordedRtt>)>) {
        recorded.into_iter().for_each(|(node, rtts)| self.recorded.set(node, rtts));
        self.prune_due(state);
    }

    fn prune_due(&mut self, state: &State) {
        let due = std::mem::take(&mut self.due);
        self.due = due.into_iter().filter(|name| self.is_due(state, name)).collect();
    }

    /// Whether the node's spec or record is another one than it should be.
    fn is_due(&self, state: &State, name: &str) -> bool {
        state.index(name).is_some_and(|at| !self.changes(state, at).is_empty())
            || !self.recorded.is(name, &self.in_force(name))
    }

    /// The measured round-trip times of a node's ports that its thresholds were computed from.
    fn in_force(&self, name: &str) -> BTreeMap<String, RecordedRtt> {
        let directions = self.nodes.get(name).into_iter().flatten();
        let of_port = directions.filter_map(|(port, direction)| {
            let rtt = direction.machine.as_ref()?.in_force()?;
            Some((port.clone(), RecordedRtt { to: direction.to.clone(), rtt_ns: nanos(rtt) }))
        });
        of_port.collect()
    }

    /// Every direction out of a node's port, in the topology's order, `a` to `b` first.
    pub(super) fn declared(&self, state: &State) -> Vec<Declared> {
        let Some(network) = state.network() else { return Vec::new() };
        (0..network.spec.links.len()).flat_map(|link| self.directions(network, link)).collect()
    }

    /// Those of one link.
    pub(super) fn declared_of<'a>(&'a self, state: &'a State, link: usize) -> impl Iterator<Item = Declared> + 'a {
        state.network().into_iter().flat_map(move |network| self.directions(network, link))
    }

    /// The direction out of a node's port; `None` if the topology has no such port of a node.
    pub(super) fn declared_from(&self, state: &State, node: &str, port: &str) -> Option<Declared> {
        let network = state.network()?;
        let at = network.node(node)?;
        let of_port = network.ports(at).iter().find(|info| network.port_name(at, info.index) == port)?;
        self.directions(network, of_port.link).find(|declared| declared.from.device == node)
    }

    /// The directions of a link that leave through a node's port.
    fn directions<'a>(&'a self, network: &'a Network, link: usize) -> impl Iterator<Item = Declared> + 'a {
        let both = [true, false].into_iter().map(move |is_a| self.direction_of(network, link, is_a));
        both.filter(|declared| network.node(&declared.from.device).is_some())
    }

    /// The direction out of the `a` end of a link, or out of the other one.
    fn direction_of(&self, network: &Network, link: usize, is_a: bool) -> Declared {
        let decl = &network.spec.links[link];
        let (from, to) = if is_a { (&decl.a, &decl.b) } else { (&decl.b, &decl.a) };
        let at_end =
            |number: Option<PortNumber>| number.and_then(if is_a { PortNumber::at_a } else { PortNumber::at_b });
        let buffer = decl.buffer.and_then(if is_a { LinkBuffer::at_a } else { LinkBuffer::at_b });
        let v_ecn = at_end(decl.v_ecn).and_then(|permille| u16::try_from(permille).ok());
        let settings = ThresholdSettings {
            alpha_permille: decl.alpha.unwrap_or(self.defaults.alpha_permille),
            k_base: decl.k_base.unwrap_or(self.defaults.k_base),
            v_ecn_permille: v_ecn.unwrap_or(self.defaults.v_ecn_permille),
            v_growth: at_end(decl.v_growth).map(Octets).or(self.defaults.v_growth),
            ..self.defaults
        };
        let port = PortLimits { rate: decl.rate, buffer };
        let source = match decl.rtt {
            Some(rtt) => RttSource::Configured(rtt),
            // A host does not answer STAMP.
            None if network.node(&to.device).is_none() => RttSource::Unknown,
            None => RttSource::Measured,
        };
        Declared { link, from: from.clone(), to: to.clone(), settings, port, source }
    }

    pub(super) fn direction(&self, from: &Endpoint) -> Option<&Direction> {
        self.nodes.get(&from.device)?.get(&from.port)
    }

    fn direction_mut(&mut self, from: &Endpoint) -> Option<&mut Direction> {
        self.nodes.get_mut(&from.device)?.get_mut(&from.port)
    }

    /// Ports of the node whose thresholds differ from its spec.
    fn changes(&self, state: &State, node: NodeIx) -> Vec<(PortIndex, Option<PortThresholds>)> {
        let Some(network) = state.network() else { return Vec::new() };
        let ports = self.nodes.get(network.name(node));
        let wanted = |p: &PortInfo| {
            let pushed = ports?.get(network.port_name(node, p.index))?.machine.as_ref()?.pushed()?;
            Some(PortThresholds {
                k_min: pushed.thresholds.k_min,
                k_max: pushed.thresholds.k_max,
                rtt: pushed.rtt,
                port_rate: pushed.rate,
                v_ecn_permille: pushed.v_ecn_permille,
                v_growth_per_ms: pushed.v_growth_per_ms,
            })
        };
        let now = state.nodes[node].spec.base.ports.iter().map(|p| p.thresholds);
        let both = network.ports(node).iter().zip(now);
        both.map(|(p, now)| (p.index, wanted(p), now))
            .filter(|(_, new, now)| new != now)
            .map(|(i, new, _)| (i, new))
            .collect()
    }
}

/// Packets of a thousand that the link loses, judged at a report of its end `here`. A loss ends by what showed it, unless the other
/// measure shows one too.
fn verdict(
    is: Option<&LossyLink>,
    here: &Endpoint,
    [direction, back]: [&Direction; 2],
    now: Monotonic,
) -> Option<(u16, Loss, LossMeasure)> {
    let [direction, back] = [direction.reported(), back.reported()];
    let echo = |is| judge(is, [&direction.losses, &back.losses], now);
    let data = |is| judge_data(is, &direction.data, now);
    let (permille, loss, by) = match is.map(|lossy| (lossy.permille, &lossy.by)) {
        None => {
            let by_data = || data(None).map(|(permille, loss)| (permille, loss, LossMeasure::Data(here.clone())));
            echo(None).map(|(permille, loss)| (permille, loss, LossMeasure::Echo)).or_else(by_data)?
        }
        Some((permille, LossMeasure::Echo)) => {
            let by_data = [&direction.data, &back.data].into_iter().find_map(|data| judge_data(None, data, now));
            let (permille, loss) = echo(Some(permille)).filter(|_| by_data.is_none())?;
            (permille, loss, LossMeasure::Echo)
        }
        Some((permille, LossMeasure::Data(from))) if from == here => {
            let (permille, loss) = data(Some(permille)).filter(|_| echo(None).is_none())?;
            (permille, loss, LossMeasure::Data(here.clone()))
        }
        Some((_, LossMeasure::Data(_))) => return None,
    };
    Some((permille, loss, by))
}

/// Name of the link at `end` as the APIs show it.
pub(super) fn label_at(network: &Network, end: &Endpoint) -> String {
    network.link_at(end).map_or_else(|| end.to_string(), |link| label(network, link))
}

/// The link that is named by its label or by one of its ends: one of the device that the name begins with.
pub(super) fn link_named(network: &Network, wanted: &str) -> Option<usize> {
    let device = wanted.split('/').next()?;
    let of_node = network.node(device).into_iter().flat_map(|node| network.ports(node)).map(|port| port.link);
    let of_host = network.host_links(device).map(|at| at.link);
    let is_wanted = |link: &usize| {
        let decl = &network.spec.links[*link];
        label(network, *link) == wanted || decl.a.to_string() == wanted || decl.b.to_string() == wanted
    };
    of_node.chain(of_host).find(is_wanted)
}

/// Name of a link as the APIs show it.
pub(super) fn label(network: &Network, link: usize) -> String {
    network.spec.links[link].label()
}

/// The port that data of the group leaves its parent through, and the parent.
fn uplink<'a>(here: &Part<'a>) -> Option<(Endpoint, Part<'a>)> {
    let (parent, port) = here.parent()?;
    let from = Endpoint { device: parent.at.name().to_owned(), port: parent.port_name(port)?.to_owned() };
    Some((from, parent))
}
