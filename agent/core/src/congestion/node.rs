// SPDX-License-Identifier: Apache-2.0
//! The node: inputs in, Long-haul CNPs out.

use std::collections::{BTreeMap, VecDeque};

use canopy_model::congestion::CnpCounts;
use canopy_model::ids::{PortIndex, Qpn};

use super::flow::{FlowKey, FlowTable, FourTuple, Origin, TableFull};
use super::instruction::{Action, Metric, Percent};
use super::meter::Counters;
use super::port::Port;
use super::trigger::{Assessment, Limits};
use super::upstream::{FlowState, Verdict};

/// How a node behaves, on all ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Flows in the table at most: 65536.
    pub flows: usize,
    /// A flow that is not provisioned leaves this long after its last packet: 60 s.
    pub age_ns: u64,
    /// Interval of a reading: 1 ms.
    pub interval_ns: u64,
    /// Flows that one reading may blame: 16.
    pub blamed: usize,
    /// Long-haul CNPs per second and port: 1000.
    pub port_per_second: u32,
    /// Of these, at once: 64.
    pub port_burst: u32,
    /// Parameter of Resume: 50 %.
    pub resume: Percent,
    /// Whether the metric is told: yes.
    pub disclose: bool,
    /// Whether the node is silent while a flow shows that a node upstream was heard (section 5.7): yes. Without it, every
    /// node on a path complains for itself.
    pub defers: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            flows: 65_536,
            age_ns: 60_000_000_000,
            interval_ns: 1_000_000,
            blamed: 16,
            port_per_second: 1_000,
            port_burst: 64,
            resume: Percent::saturating(50),
            disclose: true,
            defers: true,
        }
    }
}

/// What can happen to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// An egress port has these limits.
    Port(PortIndex, Limits),
    /// An egress port is gone.
    PortGone(PortIndex),
    /// The source QP of a flow is known; from the registry, with whether the source accepts the RoCEv2 format.
    Flow {
        /// The flow.
        flow: FourTuple,
        /// Who says so.
        origin: Origin,
        /// The source's endpoint is registered as accepting the RoCEv2 format. Only the registry can say so.
        accepts_roce: bool,
    },
    /// The registry no longer has a flow.
    FlowGone(FlowKey),
    /// Octets of a flow left, or were queued to leave, by a port, since the last time.
    Arrived(PortIndex, FlowKey, u64),
    /// Of the octets of the [`Input::Arrived`] before it, so many came in marked CE: a queue further upstream is above its
    /// K_min.
    CameMarked(PortIndex, FlowKey, u64),
    /// The counters of a port.
    Sample(PortIndex, Counters),
}

/// Which of the two formats to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// ICMPv6, the default.
    Icmpv6,
    /// RoCEv2, to endpoints that are registered as accepting it.
    RoceV2,
}

/// A Long-haul CNP to send, to the flow's source address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// The egress port that is congested, or no longer is.
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
        let flows = FlowTable::new(settings.flows, settings.age_ns);
        let (ports, commands) = (BTreeMap::new(), VecDeque::new());
        Self { settings, flows, ports, commands, counts: CnpCounts::default(), evicted: 0, escalated: 0 }
    }

    /// Takes in one input. Fails only for a provisioned flow that finds no room. Commands should be taken after each: what
    /// one input gives is bounded by [`Settings::port_burst`].
    pub fn handle(&mut self, input: Input, now_ns: u64) -> Result<(), TableFull> {
        self.handle_timeout(now_ns);
        match input {
            Input::Port(index, limits) => {
                self.ports.entry(index).or_insert_with(|| Port::new(limits)).limits = limits;
            }
            Input::PortGone(index) => drop(self.ports.remove(&index)),
            Input::Flow { flow, origin, accepts_roce } => {
                let evicted = self.flows.learn(flow, origin, now_ns)?;
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
            Input::Arrived(index, key, bytes) => self.arrived(index, key, bytes, now_ns),
            Input::CameMarked(index, key, bytes) => {
                let share = self.ports.get(&index).and_then(|port| port.shares.get(&key)).copied().unwrap_or(0);
                if bytes > share / 2
                    && let Some(state) = self.flows.get_mut(&key)
                {
                    state.came_marked_ns = Some(now_ns);
                }
            }
            Input::Sample(index, counters) => self.sample(index, counters, now_ns),
        }
        Ok(())
    }

    /// When [`Node::handle_timeout`] is due next; `None` when no flow can age.
    pub fn poll_timeout(&self) -> Option<u64> {
        self.flows.next_expiry()
    }

    /// Removes flows that are too old.
    pub fn handle_timeout(&mut self, now_ns: u64) {
        while let Some(key) = self.flows.expire(now_ns) {
            self.forget_flow(&key);
        }
    }

    /// The next Long-haul CNP to send.
    pub fn next_command(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }

    /// The last assessment of a port; its `first` says whether packets are to be marked. `None` before the first.
    pub fn assessment(&self, port: PortIndex) -> Option<Assessment> {
        self.ports.get(&port)?.last
    }

    /// A command could not be carried out: it counts as failed, and as none of its action.
    pub fn not_sent(&mut self, command: &Command) {
        self.count(command.port, command.flow.key, |counts| {
            let said = command.action.counter(&mut counts.cnps);
            *said = said.saturating_sub(1);
            counts.cnps.failed += 1;
        });
    }

    /// What was said and held back since the node is there, on all ports, those that are gone too.
    pub fn counts(&self) -> CnpCounts {
        self.counts
    }

    /// The same of a port, since it is there.
    pub fn port_counts(&self, port: PortIndex) -> CnpCounts {
        self.ports.get(&port).map(|port| port.counts).unwrap_or_default()
    }

    /// The same of a flow at a port, since the flow is in the table; only flows of which there is anything to count.
    pub fn flow_counts(&self, port: PortIndex) -> impl Iterator<Item = (FlowKey, CnpCounts)> {
        self.ports.get(&port).into_iter().flat_map(|port| port.flows.iter().map(|(key, counts)| (*key, *counts)))
    }

    /// Source QP of a flow and where it is from; `None` while it is not known.
    pub fn src_qp(&self, key: &FlowKey) -> Option<(Qpn, Origin)> {
        self.flows.src_qp(key)
    }

    /// Flows that left the table for others.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Of what was commanded, escalations.
    pub fn escalated(&self) -> u64 {
        self.escalated
    }

    /// Flows in the table.
    pub fn flows(&self) -> usize {
        self.flows.len()
    }

    fn arrived(&mut self, index: PortIndex, key: FlowKey, bytes: u64, now: u64) {
        let Some((rtt, looked)) = self.ports.get(&index).map(|port| (port.limits.rtt_ns, port.looked_ns)) else {
            return;
        };
        let mut evicted = None;
        // Half an RTT is what a rate is taken over: a longer gap leaves nothing to compare.
        let unseen = looked.is_some_and(|at| now.saturating_sub(at) > rtt / 2 + 2 * self.settings.interval_ns);
        let known = self.flows.observe(key, now, &mut evicted).map(|state| {
            if unseen {
                state.lose_sight();
            }
            state.arrive(bytes, rtt, now);
        });
        self.forget(evicted);
        if known.is_some()
            && let Some(port) = self.ports.get_mut(&index)
        {
            let share = port.shares.entry(key).or_default();
            *share = share.saturating_add(bytes);
        }
    }

    fn sample(&mut self, index: PortIndex, counters: Counters, now: u64) {
        let Some(port) = self.ports.get_mut(&index) else { return };
        let Some(reading) = port.meter.sample(counters, self.settings.interval_ns, now) else { return };
        let found = port.limits.assess(reading);
        port.last = Some(found);
        if !port.shares.is_empty() {
            port.looked_ns = Some(now);
        }
        let guilty = if found.second() { port.guilty(self.settings.blamed) } else { Vec::new() };
        port.shares.clear();
        let low = reading.queue_bytes < port.limits.k_min_bytes && !found.second();
        port.low_since_ns = low.then(|| port.low_since_ns.unwrap_or(now));
        let rested = port.low_since_ns.is_some_and(|since| now.saturating_sub(since) >= port.limits.rtt_ns);
        let resuming: Vec<_> = if rested { port.told.iter().copied().collect() } else { Vec::new() };
        for key in guilty {
            self.complain(index, key, found, now);
        }
        for key in resuming {
            if self.say(index, key, found, found.level, Action::Resume(self.settings.resume), now)
                && let Some(port) = self.ports.get_mut(&index)
            {
                port.told.remove(&key);
            }
        }
    }

    fn complain(&mut self, index: PortIndex, key: FlowKey, found: Assessment, now: u64) {
        let (Some(port), Some(state)) = (self.ports.get(&index), self.flows.get_mut(&key)) else { return };
        let rtt = port.limits.rtt_ns;
        if state.spoke_ns.is_some_and(|at| now.saturating_sub(at) < rtt) {
            self.count(index, key, |counts| counts.rate_limited_flow += 1);
            return;
        }
        let verdict = match self.settings.defers {
            true => state.verdict(found.level, rtt, now),
            false => Verdict::Speak,
        };
        let (level, escalate) = match verdict {
            Verdict::Defer => {
                self.count(index, key, |counts| counts.suppressed += 1);
                return;
            }
            Verdict::Speak => (found.level, false),
            Verdict::Escalate(least) => (found.level.max(least), true),
        };
        if self.say(index, key, found, level, found.action(level, escalate, rtt), now)
            && let Some(port) = self.ports.get_mut(&index)
        {
            port.told.insert(key);
            self.escalated += u64::from(escalate);
        }
    }

    /// Commands a packet, unless a limit or a missing source QP holds it back.
    fn say(&mut self, index: PortIndex, key: FlowKey, found: Assessment, level: u8, action: Action, now: u64) -> bool {
        let Some((src_qp, _)) = self.flows.src_qp(&key) else {
            self.count(index, key, |counts| counts.unknown_source_qp += 1);
            return false;
        };
        let (Some(port), Some(state)) = (self.ports.get_mut(&index), self.flows.get_mut(&key)) else { return false };
        if state.spoke_ns.is_some_and(|at| now.saturating_sub(at) < port.limits.rtt_ns) {
            self.count(index, key, |counts| counts.rate_limited_flow += 1);
            return false;
        }
        if !port.bucket.take(self.settings.port_per_second, self.settings.port_burst, now) {
            self.count(index, key, |counts| counts.rate_limited_port += 1);
            return false;
        }
        state.spoke_ns = Some(now);
        let format = if state.accepts_roce { Format::RoceV2 } else { Format::Icmpv6 };
        let metric = if self.settings.disclose { found.metric() } else { Metric::Undisclosed };
        let flow = FourTuple { key, src_qp };
        self.commands.push_back(Command { port: index, flow, level, action, metric, format });
        self.count(index, key, |counts| *action.counter(&mut counts.cnps) += 1);
        true
    }

    /// The one place where anything is counted: of the node, of the port, and of the flow at it.
    fn count(&mut self, index: PortIndex, key: FlowKey, change: impl Fn(&mut CnpCounts)) {
        change(&mut self.counts);
        if let Some(port) = self.ports.get_mut(&index) {
            change(&mut port.counts);
            // Those of a flow leave with it, and do not come back.
            if self.flows.get_mut(&key).is_some() {
                change(port.flows.entry(key).or_default());
            }
        }
    }

    /// A flow left the table for another.
    fn forget(&mut self, evicted: Option<FlowKey>) {
        self.evicted += u64::from(evicted.is_some());
        evicted.iter().for_each(|key| self.forget_flow(key));
    }

    fn forget_flow(&mut self, key: &FlowKey) {
        self.ports.values_mut().for_each(|port| port.forget(key));
    }
}
