// SPDX-License-Identifier: Apache-2.0
//! The state machine of a node: takes inputs, returns Long-haul CNPs.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use canopy_model::congestion::CnpCounts;
use canopy_model::ids::{PortIndex, Qpn};
use canopy_model::instruction::{Action, Metric, Percent};
use canopy_units::{Monotonic, Octets};

use super::flow::{FlowKey, FlowTable, FourTuple, Origin, TableFull};
use super::meter::Counters;
use super::port::Port;
use super::trigger::{Assessment, Limits};
use super::upstream::{FlowState, Verdict};

/// Settings of a node, for all ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Maximum number of flows in the table: 65536.
    pub flows: usize,
    /// A flow that is not provisioned is removed this long after its last packet: 60 s.
    pub age: Duration,
    /// Sampling interval: 1 ms.
    pub interval: Duration,
    /// Maximum number of heaviest flows to which one sample sends instructions: 16.
    pub heaviest_flows: usize,
    /// Long-haul CNPs per second and port: 1000.
    pub port_per_second: u32,
    /// Burst of this limit: 64.
    pub port_burst: u32,
    /// Parameter of Resume: 50 %.
    pub resume: Percent,
    /// Whether packets carry the metric: yes.
    pub disclose: bool,
    /// Whether the node defers to a node upstream that already controls the flow (section 5.7): yes. Otherwise every node on
    /// a path sends its own instructions.
    pub defers: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            flows: 65_536,
            age: Duration::from_secs(60),
            interval: Duration::from_millis(1),
            heaviest_flows: 16,
            port_per_second: 1_000,
            port_burst: 64,
            resume: Percent::saturating(50),
            disclose: true,
            defers: true,
        }
    }
}

/// An input of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// An egress port has these limits.
    Port(PortIndex, Limits),
    /// An egress port was removed.
    PortGone(PortIndex),
    /// The source QP of a flow became known.
    Flow {
        /// The flow.
        flow: FourTuple,
        /// Origin of the source QP.
        origin: Origin,
        /// The source's endpoint is registered as accepting the RoCEv2 format; used only with [`Origin::Provisioned`].
        accepts_roce: bool,
    },
    /// The controller's registry no longer has a flow.
    FlowGone(FlowKey),
    /// Octets of a flow that a port sent or queued since the last input for them.
    Arrived(PortIndex, FlowKey, Octets),
    /// So many octets of the preceding [`Input::Arrived`] arrived marked CE: a queue further upstream is above its K_min.
    CameMarked(PortIndex, FlowKey, Octets),
    /// The counters of a port.
    Sample(PortIndex, Counters),
}

/// Format of a Long-haul CNP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// ICMPv6, the default.
    Icmpv6,
    /// RoCEv2, for endpoints that are registered as accepting it.
    RoceV2,
}

/// A Long-haul CNP to send, to the flow's source address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// The egress port that is congested, or no longer congested.
    pub port: PortIndex,
    /// The flow; its source QP is the Source QP Number.
    pub flow: FourTuple,
    /// Congestion Level.
    pub level: u8,
    /// Action and Parameter.
    pub action: Action,
    /// Metric.
    pub metric: Metric,
    /// Format.
    pub format: Format,
}

/// A congestion-aware intermediate node.
#[derive(Debug)]
pub struct Node {
    settings: Settings,
    flows: FlowTable<FlowState>,
    ports: BTreeMap<PortIndex, Port>,
    commands: VecDeque<Command>,
    counts: CnpCounts,
    evicted: u64,
    escalated: u64,
}

impl Node {
    /// A node without ports and flows.
    pub fn new(settings: Settings) -> Self {
        let flows = FlowTable::new(settings.flows, settings.age);
        let (ports, commands) = (BTreeMap::new(), VecDeque::new());
        Self { settings, flows, ports, commands, counts: CnpCounts::default(), evicted: 0, escalated: 0 }
    }

    /// Processes one input. Fails only if the table has no room for a provisioned flow. Take the commands after each input:
    /// one input yields at most [`Settings::port_burst`].
    pub fn handle(&mut self, input: Input, now: Monotonic) -> Result<(), TableFull> {
        self.handle_timeout(now);
        match input {
            Input::Port(index, limits) => {
                self.ports.entry(index).or_insert_with(|| Port::new(limits)).limits = limits;
            }
            Input::PortGone(index) => drop(self.ports.remove(&index)),
            Input::Flow { flow, origin, accepts_roce } => {
                let evicted = self.flows.learn(flow, origin, now)?;
                self.forget(evicted);
                if origin == Origin::Provisioned
                    && let Some(state) = self.flows.get_mut(&flow.key)
                {
                    state.accepts_roce = accepts_roce;
                }
            }
            Input::FlowGone(key) => {
                if self.flows.withdraw(key) {
                    self.forget_flow(&key);
                }
            }
            Input::Arrived(index, key, octets) => self.arrived(index, key, octets, now),
            Input::CameMarked(_, key, octets) => {
                if let Some(state) = self.flows.get_mut(&key) {
                    state.came_marked(octets, now);
                }
            }
            Input::Sample(index, counters) => self.sample(index, counters, now),
        }
        Ok(())
    }

    /// When [`Node::handle_timeout`] is due next; `None` if no flow can expire.
    pub fn poll_timeout(&self) -> Option<Monotonic> {
        self.flows.next_expiry()
    }

    /// Removes expired flows.
    pub fn handle_timeout(&mut self, now: Monotonic) {
        while let Some(key) = self.flows.expire(now) {
            self.forget_flow(&key);
        }
    }

    /// The next Long-haul CNP to send.
    pub fn next_command(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }

    /// The last assessment of a port, `None` before the first. Packets are to be marked if its `first` is set.
    pub fn assessment(&self, port: PortIndex) -> Option<Assessment> {
        self.ports.get(&port)?.last
    }

    /// A command could not be sent: it is counted as failed instead of under its action.
    pub fn not_sent(&mut self, command: &Command) {
        self.count(command.port, command.flow.key, |counts| {
            let sent = counts.cnps.of(command.action);
            *sent = sent.saturating_sub(1);
            counts.cnps.failed += 1;
        });
    }

    /// Packets sent and suppressed since the start, on all ports, removed ones included.
    pub fn counts(&self) -> CnpCounts {
        self.counts
    }

    /// The same for one port, since it was added.
    pub fn port_counts(&self, port: PortIndex) -> CnpCounts {
        self.ports.get(&port).map(|port| port.counts).unwrap_or_default()
    }

    /// The same for the flows of a port, each since it entered the table; flows without any count are left out.
    pub fn flow_counts(&self, port: PortIndex) -> impl Iterator<Item = (FlowKey, CnpCounts)> {
        self.ports.get(&port).into_iter().flat_map(|port| port.flows.iter().map(|(key, counts)| (*key, *counts)))
    }

    /// Source QP of a flow and its origin; `None` while unknown.
    pub fn src_qp(&self, key: &FlowKey) -> Option<(Qpn, Origin)> {
        self.flows.src_qp(key)
    }

    /// Flows evicted from the table.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Commands that were escalations.
    pub fn escalated(&self) -> u64 {
        self.escalated
    }

    /// Flows in the table.
    pub fn flows(&self) -> usize {
        self.flows.len()
    }

    fn arrived(&mut self, index: PortIndex, key: FlowKey, octets: Octets, now: Monotonic) {
        let Some((rtt, polled)) = self.ports.get(&index).map(|port| (port.limits.rtt, port.polled_at)) else {
            return;
        };
        let mut evicted = None;
        // A rate is measured over half an RTT: after a longer gap there is no previous rate to compare with.
        let gap = polled.is_none_or(|at| now.since(at) > rtt / 2 + self.settings.interval * 2);
        let flow = self.flows.observe(key, now, &mut evicted).map(|state| {
            state.follow(gap);
            state.arrive(octets, rtt, now);
        });
        self.forget(evicted);
        if flow.is_some()
            && let Some(port) = self.ports.get_mut(&index)
        {
            let share = port.shares.entry(key).or_default();
            *share += octets;
        }
    }

    fn sample(&mut self, index: PortIndex, counters: Counters, now: Monotonic) {
        let Some(port) = self.ports.get_mut(&index) else { return };
        if !port.shares.is_empty() {
            port.polled_at = Some(now);
        }
        let Some(reading) = port.meter.sample(counters, self.settings.interval, now) else { return };
        let found = port.limits.assess(reading);
        port.last = Some(found);
        let heaviest = if found.second() { port.heaviest_flows(self.settings.heaviest_flows) } else { Vec::new() };
        port.shares.clear();
        let low = reading.queue < port.limits.k_min && !found.second();
        port.low_since = low.then(|| port.low_since.unwrap_or(now));
        let recovered = port.low_since.is_some_and(|since| now.since(since) >= port.limits.rtt);
        let resuming: Vec<_> = if recovered { port.notified.iter().copied().collect() } else { Vec::new() };
        for key in heaviest {
            self.notify(index, key, found, now);
        }
        for key in resuming {
            if self.send(index, key, found, found.level, Action::Resume(self.settings.resume), now)
                && let Some(port) = self.ports.get_mut(&index)
            {
                port.notified.remove(&key);
            }
        }
    }

    /// Sends the flow's source an instruction to reduce its rate, unless a limit or a node upstream makes it unnecessary.
    fn notify(&mut self, index: PortIndex, key: FlowKey, found: Assessment, now: Monotonic) {
        let (Some(port), Some(state)) = (self.ports.get(&index), self.flows.get_mut(&key)) else { return };
        let rtt = port.limits.rtt;
        if state.sent_at.is_some_and(|at| now.since(at) < rtt) {
            self.count(index, key, |counts| counts.rate_limited_flow += 1);
            return;
        }
        let verdict = match self.settings.defers {
            true => state.verdict(found.level, rtt, now),
            false => Verdict::Send,
        };
        let (level, escalate) = match verdict {
            Verdict::Defer => {
                self.count(index, key, |counts| counts.suppressed += 1);
                return;
            }
            Verdict::Send => (found.level, false),
            Verdict::Escalate(least) => (found.level.max(least), true),
        };
        if self.send(index, key, found, level, found.action(level, escalate, rtt), now)
            && let Some(port) = self.ports.get_mut(&index)
        {
            port.notified.insert(key);
            self.escalated += u64::from(escalate);
        }
    }

    /// Queues a packet, unless a limit is reached or the source QP is unknown; returns whether it was queued.
    fn send(
        &mut self,
        index: PortIndex,
        key: FlowKey,
        found: Assessment,
        level: u8,
        action: Action,
        now: Monotonic,
    ) -> bool {
        let Some((src_qp, _)) = self.flows.src_qp(&key) else {
            self.count(index, key, |counts| counts.unknown_source_qp += 1);
            return false;
        };
        let (Some(port), Some(state)) = (self.ports.get_mut(&index), self.flows.get_mut(&key)) else { return false };
        if state.sent_at.is_some_and(|at| now.since(at) < port.limits.rtt) {
            self.count(index, key, |counts| counts.rate_limited_flow += 1);
            return false;
        }
        if !port.bucket.take(self.settings.port_per_second, self.settings.port_burst, now) {
            self.count(index, key, |counts| counts.rate_limited_port += 1);
            return false;
        }
        state.sent_at = Some(now);
        let format = if state.accepts_roce { Format::RoceV2 } else { Format::Icmpv6 };
        let metric = if self.settings.disclose { found.metric() } else { Metric::Undisclosed };
        let flow = FourTuple { key, src_qp };
        self.commands.push_back(Command { port: index, flow, level, action, metric, format });
        self.count(index, key, |counts| *counts.cnps.of(action) += 1);
        true
    }

    /// Changes the counters of the node, of the port, and of the flow at the port.
    fn count(&mut self, index: PortIndex, key: FlowKey, change: impl Fn(&mut CnpCounts)) {
        change(&mut self.counts);
        if let Some(port) = self.ports.get_mut(&index) {
            change(&mut port.counts);
            // A flow that left the table must not get counters again.
            if self.flows.get_mut(&key).is_some() {
                change(port.flows.entry(key).or_default());
            }
        }
    }

    /// Counts an evicted flow and forgets it on all ports.
    fn forget(&mut self, evicted: Option<FlowKey>) {
        self.evicted += u64::from(evicted.is_some());
        evicted.iter().for_each(|key| self.forget_flow(key));
    }

    fn forget_flow(&mut self, key: &FlowKey) {
        self.ports.values_mut().for_each(|port| port.forget(key));
    }
}
