// SPDX-License-Identifier: Apache-2.0
//! From what the maps show to what the node hears: differences, shares, source QPs that ACKs give away.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use std::sync::Arc;

use canopy_agent_core::congestion::{
    CmMessage, Command, Connections, Counters, FlowKey, FourTuple, Input, Node, Origin, Settings,
};
use canopy_model::ids::{PortIndex, Qpn};

use super::orders::{KnownFlow, Orders};
use super::window::{FlowShown, Flows};

/// A flow or an ACK that was not seen for this long says nothing about who talks to whom.
const FRESH_NS: u64 = 5_000_000_000;

/// RDMA-CM requests that may wait for their replies.
const REQUESTS: usize = 4096;

/// What the maps show at one moment.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    /// By interface.
    pub(crate) ports: BTreeMap<u32, Counters>,
    /// By interface and flow; `None` when nobody looked.
    pub(crate) flows: Option<Arc<Flows>>,
    /// ACKs, by their own addresses and DestQP: when last seen.
    pub(crate) acks: Vec<(FlowKey, u64)>,
}

/// The node and what it was told before.
pub(crate) struct Driver {
    node: Node,
    orders: Option<Arc<Orders>>,
    /// Totals of each flow when flows were last looked at.
    before: Option<Arc<Flows>>,
    /// A port was above K_min, until then.
    busy_until_ns: u64,
    connections: Connections,
}

impl Driver {
    pub(crate) fn new(settings: Settings) -> Self {
        let (node, connections) = (Node::new(settings), Connections::new(REQUESTS));
        Self { node, orders: None, before: None, busy_until_ns: 0, connections }
    }

    /// New orders. Returns the flows for which there was no room.
    pub(crate) fn order(&mut self, new: Orders, now_ns: u64) -> Vec<FlowKey> {
        let mut refused = Vec::new();
        let old = self.orders.take();
        for port in old.iter().flat_map(|o| o.ports.keys()).filter(|port| !new.ports.contains_key(port)) {
            self.hear(Input::PortGone(*port), now_ns);
        }
        for key in old.iter().flat_map(|o| o.flows.keys()).filter(|key| !new.flows.contains_key(key)) {
            self.hear(Input::FlowGone(*key), now_ns);
        }
        for (index, port) in &new.ports {
            self.hear(Input::Port(*index, port.limits), now_ns);
        }
        for KnownFlow { flow, accepts_roce, .. } in new.flows.values().copied() {
            if !self.hear(Input::Flow { flow, origin: Origin::Provisioned, accepts_roce }, now_ns) {
                refused.push(flow.key);
            }
        }
        self.orders = Some(Arc::new(new));
        refused
    }

    pub(crate) fn orders(&self) -> Option<&Orders> {
        self.orders.as_deref()
    }

    /// Whether flows are worth looking at: a queue is above K_min, or was within the last RTTs.
    pub(crate) fn busy(&self, now_ns: u64) -> bool {
        now_ns < self.busy_until_ns
    }

    /// A queue of this port is above K_min.
    pub(crate) fn alarm(&mut self, ifindex: u32, now_ns: u64) {
        let rtt = |o: &Orders| o.ports.values().find(|p| p.ifindex == ifindex).map(|p| p.limits.rtt_ns);
        if let Some(rtt) = self.orders().and_then(rtt) {
            self.busy_until_ns = self.busy_until_ns.max(now_ns.saturating_add(rtt.saturating_mul(4)));
        }
    }

    /// One look at everything: what the node says to it, with who is to be told.
    pub(crate) fn look(&mut self, shown: Shown, now_ns: u64) -> Vec<(Command, Ipv6Addr)> {
        let Some(orders) = self.orders.clone() else { return Vec::new() };
        let port_of: BTreeMap<u32, PortIndex> = orders.ports.iter().map(|(index, p)| (p.ifindex, *index)).collect();
        if let (Some(flows), Some(before)) = (&shown.flows, self.before.clone()) {
            for ((ifindex, key), flow) in &**flows {
                let old = before.get(&(*ifindex, *key));
                // An entry that left the table and came back counts from zero.
                let since = |total: fn(&FlowShown) -> u64| {
                    total(flow).checked_sub(old.map_or(0, total)).unwrap_or_else(|| total(flow))
                };
                let (bytes, came) = (since(|f| f.bytes), since(|f| f.came));
                if let Some(port) = port_of.get(ifindex).filter(|_| bytes > 0) {
                    self.hear(Input::Arrived(*port, *key, bytes), now_ns);
                    if came > 0 {
                        self.hear(Input::CameMarked(*port, *key, came), now_ns);
                    }
                }
            }
            for flow in learned(flows, &shown.acks, now_ns) {
                self.hear(Input::Flow { flow, origin: Origin::Learned, accepts_roce: false }, now_ns);
            }
        }
        self.before = shown.flows.or(self.before.take());
        for (index, port) in &orders.ports {
            if let Some(counters) = shown.ports.get(&port.ifindex) {
                self.hear(Input::Sample(*index, *counters), now_ns);
                if counters.queue_bytes > port.limits.k_min_bytes {
                    self.alarm(port.ifindex, now_ns);
                }
            }
        }
        let mut said = Vec::new();
        while let Some(command) = self.node.next_command() {
            let tell = orders.flows.get(&command.flow.key).map_or(command.flow.key.src, |known| known.tell);
            said.push((command, tell));
        }
        said
    }

    /// An RDMA-CM message passed.
    pub(crate) fn cm(&mut self, message: CmMessage, now_ns: u64) {
        for flow in self.connections.handle(message).into_iter().flatten() {
            self.hear(Input::Flow { flow, origin: Origin::Cm, accepts_roce: false }, now_ns);
        }
    }

    /// What it was told to say could not be sent.
    pub(crate) fn not_sent(&mut self, command: &Command) {
        self.node.not_sent(command);
    }

    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    /// `false` when a provisioned flow found no room.
    fn hear(&mut self, input: Input, now_ns: u64) -> bool {
        self.node.handle(input, now_ns).is_ok()
    }
}

/// Source QPs from reverse ACKs (decisions 4.1). An ACK says the QP that it goes to, not the one that it comes from: only where
/// two hosts have one flow between them, and its ACKs go to one QP, is there no doubt.
fn learned(flows: &Flows, acks: &[(FlowKey, u64)], now_ns: u64) -> Vec<FourTuple> {
    let fresh = |seen_ns: u64| now_ns.saturating_sub(seen_ns) < FRESH_NS;
    let mut keys: BTreeMap<(Ipv6Addr, Ipv6Addr), BTreeSet<FlowKey>> = BTreeMap::new();
    for ((_, key), _) in flows.iter().filter(|(_, flow)| fresh(flow.seen_ns)) {
        keys.entry((key.src, key.dst)).or_default().insert(*key);
    }
    let mut qps: BTreeMap<(Ipv6Addr, Ipv6Addr), BTreeSet<Qpn>> = BTreeMap::new();
    for (ack, _) in acks.iter().filter(|(_, seen_ns)| fresh(*seen_ns)) {
        qps.entry((ack.dst, ack.src)).or_default().insert(ack.dst_qp);
    }
    let only = |(pair, keys): (_, BTreeSet<FlowKey>)| {
        let qps = qps.get(&pair)?;
        let (key, src_qp) = (*keys.first()?, *qps.first()?);
        (keys.len() == 1 && qps.len() == 1).then_some(FourTuple { key, src_qp })
    };
    keys.into_iter().filter_map(only).collect()
}
