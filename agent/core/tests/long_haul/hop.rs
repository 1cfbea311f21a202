// SPDX-License-Identifier: Apache-2.0
//! A node with one egress port, polled as by the agent's driver: when the first octets meet a queue above K_min, then every millisecond
//! while it is above or was within four RTT_est, else every 10 ms. Counters are read always; flows every 100 ms in short queues, for
//! the agent spends little time on them then.

use std::collections::BTreeMap;

use canopy_agent_core::congestion::{Assessment, Command, Counters, FlowKey, FourTuple, Input, Node, Origin, Settings};
use canopy_model::ids::PortIndex;
use canopy_units::{Octets, nanos};

use crate::fluid::{Batch, Fifo, MS, instant, per_step};
use crate::spec::{Burst, HopSpec, Kind};

/// Octets that count as one packet.
const PACKET: u64 = 4_096;

/// Time between two polls while the queue is above K_min or was recently, and otherwise.
const BUSY: u64 = MS;
const IDLE: u64 = 10 * MS;
/// Time between two reads of the flows while the queue is short.
const FLOWS: u64 = 100 * MS;

/// Result of a poll.
#[derive(Default)]
pub(crate) struct Polled {
    pub(crate) by_node: Vec<Command>,
    /// Commands of the shadow node, which never defers.
    pub(crate) by_shadow: Vec<Command>,
    /// Number of the node's commands that were escalations.
    pub(crate) escalated: u64,
}

pub(crate) struct Hop {
    pub(crate) spec: HopSpec,
    pub(crate) fifo: Fifo,
    pub(crate) dropped: u64,
    /// Octets of flows sent.
    pub(crate) carried: u64,
    pub(crate) node: Node,
    shadow: Node,
    /// When the first octets of a flow and era arrived.
    pub(crate) eras: BTreeMap<(usize, u32), u64>,
    /// Octets, and those that arrived marked.
    arrived: BTreeMap<FlowKey, (u64, u64)>,
    /// The same when flows were last read.
    before: BTreeMap<FlowKey, (u64, u64)>,
    bytes: u64,
    marked_bytes: u64,
    /// Octets of flows met a queue above K_min in this step.
    met_long: bool,
    busy_until_ns: u64,
    poll_at_ns: u64,
    flows_at_ns: u64,
    /// When the program last woke the agent: at most once in RTT_est.
    woken_ns: Option<u64>,
}

fn port() -> PortIndex {
    PortIndex::new("port", 1).unwrap()
}

impl Hop {
    pub(crate) fn new(spec: HopSpec, flows: &[FourTuple]) -> Self {
        let node = |settings| {
            let mut node = Node::new(settings);
            node.handle(Input::Port(port(), spec.limits), instant(0)).unwrap();
            for flow in flows {
                let known = Input::Flow { flow: *flow, origin: Origin::Provisioned, accepts_roce: false };
                node.handle(known, instant(0)).unwrap();
            }
            node
        };
        let (node, shadow) = (node(Settings::default()), node(Settings { defers: false, ..Settings::default() }));
        let phase_ns = spec.phase_ns;
        Self {
            spec,
            fifo: Fifo::default(),
            dropped: 0,
            carried: 0,
            node,
            shadow,
            eras: BTreeMap::new(),
            arrived: BTreeMap::new(),
            before: BTreeMap::new(),
            bytes: 0,
            marked_bytes: 0,
            met_long: false,
            busy_until_ns: 0,
            poll_at_ns: phase_ns,
            flows_at_ns: 0,
            woken_ns: None,
        }
    }

    /// Queues the octets that arrive in one step; they are marked if the queue is above K_min before them.
    pub(crate) fn take(&mut self, mut slot: Vec<Batch>, flows: &[FourTuple], now: u64) {
        let rate = |b: &Burst| if (b.from_ns..b.until_ns).contains(&now) { b.rate_bps } else { 0 };
        let background = self.spec.bursts.iter().map(|b| per_step(rate(b))).sum();
        slot.push(Batch { flow: None, bytes: background, ce: false, era: 0 });
        let sum: u64 = slot.iter().map(|b| b.bytes).sum();
        let room = (self.spec.buffer_bytes - self.fifo.depth).min(sum);
        self.met_long = self.fifo.depth > self.spec.limits.k_min.get() && slot.iter().any(|b| b.flow.is_some());
        let mark = self.spec.kind != Kind::Plain && self.fifo.depth > self.spec.limits.k_min.get();
        for batch in &mut slot {
            if let Some(flow) = batch.flow {
                self.eras.entry((flow, batch.era)).or_insert(now);
                let arrived = self.arrived.entry(flows[flow].key).or_default();
                arrived.0 += batch.bytes;
                arrived.1 += if batch.ce { batch.bytes } else { 0 };
                batch.ce |= mark;
                self.bytes += batch.bytes;
                self.marked_bytes += if batch.ce { batch.bytes } else { 0 };
            }
            batch.bytes = (u128::from(batch.bytes) * u128::from(room) / u128::from(sum.max(1))) as u64;
        }
        self.dropped += sum - slot.iter().map(|b| b.bytes).sum::<u64>();
        self.fifo.push(slot);
    }

    /// Octets sent to the next node in one step.
    pub(crate) fn send(&mut self) -> Vec<Batch> {
        let mut out = self.fifo.pull(per_step(self.spec.rate_bps));
        out.retain(|b| b.flow.is_some() && b.bytes > 0);
        self.carried += out.iter().map(|b| b.bytes).sum::<u64>();
        out
    }

    /// True if the program wakes the agent for what arrived in this step.
    fn wakes(&mut self, now: u64) -> bool {
        let wakes = self.met_long && self.woken_ns.is_none_or(|at| now - at >= nanos(self.spec.limits.rtt));
        if wakes {
            self.woken_ns = Some(now);
            self.alarm(now);
        }
        wakes
    }

    /// A queue above K_min was seen.
    fn alarm(&mut self, now: u64) {
        self.busy_until_ns = now + 4 * nanos(self.spec.limits.rtt);
    }

    pub(crate) fn poll(&mut self, now: u64) -> Polled {
        let mut polled = Polled::default();
        if self.spec.kind != Kind::LongHaul || !(self.wakes(now) || now >= self.poll_at_ns) {
            return polled;
        }
        self.poll_at_ns = now + if now < self.busy_until_ns { BUSY } else { IDLE };
        if now < self.busy_until_ns || now >= self.flows_at_ns {
            self.flows_at_ns = now + FLOWS;
            let before = std::mem::replace(&mut self.before, self.arrived.clone());
            for (key, (bytes, marked)) in self.arrived.clone() {
                let old = before.get(&key).copied().unwrap_or_default();
                if bytes > old.0 {
                    self.input(Input::Arrived(port(), key, Octets(bytes - old.0)), now);
                    self.input(Input::CameMarked(port(), key, Octets(marked - old.1)), now);
                }
            }
        }
        let (packets, ce_packets) = (self.bytes / PACKET, self.marked_bytes / PACKET);
        let counters = Counters { queue: Octets(self.fifo.depth), packets, ce_packets };
        let before = self.node.escalated();
        self.input(Input::Sample(port(), counters), now);
        polled.escalated = self.node.escalated() - before;
        if self.fifo.depth > self.spec.limits.k_min.get() {
            self.alarm(now);
        }
        polled.by_node.extend(std::iter::from_fn(|| self.node.next_command()));
        polled.by_shadow.extend(std::iter::from_fn(|| self.shadow.next_command()));
        polled
    }

    pub(crate) fn assessment(&self) -> Option<Assessment> {
        self.node.assessment(port())
    }

    fn input(&mut self, input: Input, now: u64) {
        self.node.handle(input, instant(now)).unwrap();
        self.shadow.handle(input, instant(now)).unwrap();
    }
}
