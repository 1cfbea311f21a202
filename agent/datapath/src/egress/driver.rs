// SPDX-License-Identifier: Apache-2.0
//! Turns snapshots of the maps into inputs of the congestion detection: differences of counters, and source QPs learned from ACKs.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::Duration;

use canopy_agent_core::congestion::{
    CmMessage, Command, Connections, Counters, FlowKey, FourTuple, Input, Node, Origin, Settings,
};
use canopy_model::ids::{PortIndex, Qpn};
use canopy_units::{Monotonic, Octets};

use imbl::ordmap::DiffItem;

use super::config::{KnownFlow, KnownFlows, WatcherConfig};
use super::window::{FlowTotals, Flows};

/// Older flows and ACKs are not used to learn source QPs.
const FRESH: Duration = Duration::from_secs(5);

/// Maximum number of RDMA-CM requests without a reply yet.
const REQUESTS: usize = 4096;

/// Content of the maps at one time.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    /// Counters by interface.
    pub(crate) ports: BTreeMap<u32, Counters>,
    /// Flow totals; `None` if they were not read.
    pub(crate) flows: Option<Arc<Flows>>,
    /// Time of the last ACK, by the addresses and DestQP of the ACK itself.
    pub(crate) acks: Vec<(FlowKey, Monotonic)>,
}

/// The congestion detection of the node, and the previous inputs.
pub(crate) struct Driver {
    node: Node,
    config: Option<Arc<WatcherConfig>>,
    /// Totals of each flow when flows were last read.
    before: Option<Arc<Flows>>,
    /// Flows are polled often until then, because a queue was above K_min.
    busy_until: Monotonic,
    connections: Connections,
    /// Flows that did not fit the node's table.
    refused: Vec<FlowKey>,
}

impl Driver {
    pub(crate) fn new(settings: Settings) -> Self {
        let (node, connections) = (Node::new(settings), Connections::new(REQUESTS));
        Self { node, config: None, before: None, busy_until: Monotonic::START, connections, refused: Vec::new() }
    }

    /// Applies a new configuration. Returns the flows that do not fit the node's table.
    pub(crate) fn configure(&mut self, new: WatcherConfig, now: Monotonic) -> Vec<FlowKey> {
        let old = self.config.take();
        for port in old.iter().flat_map(|o| o.ports.keys()).filter(|port| !new.ports.contains_key(port)) {
            self.handle(Input::PortGone(*port), now);
        }
        for (index, port) in &new.ports {
            self.handle(Input::Port(*index, port.limits), now);
        }
        let (none, mut added, mut gone) = (KnownFlows::new(), Vec::new(), Vec::new());
        for change in old.as_ref().map_or(&none, |o| &o.flows).diff(&new.flows) {
            match change {
                DiffItem::Add(_, known) | DiffItem::Update { new: (_, known), .. } => added.push(*known),
                DiffItem::Remove(key, _) => gone.push(*key),
            }
        }
        // Flows that did not fit may fit now.
        let refused = std::mem::take(&mut self.refused);
        added.extend(refused.iter().filter_map(|key| new.flows.get(key)));
        gone.into_iter().for_each(|key| _ = self.handle(Input::FlowGone(key), now));
        for KnownFlow { flow, accepts_roce, .. } in added {
            if !self.handle(Input::Flow { flow, origin: Origin::Provisioned, accepts_roce }, now) {
                self.refused.push(flow.key);
            }
        }
        self.config = Some(Arc::new(new));
        self.refused.clone()
    }

    pub(crate) fn config(&self) -> Option<&WatcherConfig> {
        self.config.as_deref()
    }

    /// Whether flows must be polled often: a queue is above K_min, or was within the last RTTs.
    pub(crate) fn busy(&self, now: Monotonic) -> bool {
        now < self.busy_until
    }

    /// A queue of this port is above K_min.
    pub(crate) fn alarm(&mut self, ifindex: u32, now: Monotonic) {
        let rtt = |c: &WatcherConfig| c.ports.values().find(|p| p.ifindex == ifindex).map(|p| p.limits.rtt);
        if let Some(rtt) = self.config().and_then(rtt) {
            self.busy_until = self.busy_until.max(now + rtt * 4);
        }
    }

    /// Handles a snapshot. Returns the CNPs to send, each with its destination.
    pub(crate) fn handle_snapshot(&mut self, snapshot: Snapshot, now: Monotonic) -> Vec<(Command, Ipv6Addr)> {
        let Some(config) = self.config.clone() else { return Vec::new() };
        let port_of: BTreeMap<u32, PortIndex> = config.ports.iter().map(|(index, p)| (p.ifindex, *index)).collect();
        if let (Some(flows), Some(before)) = (&snapshot.flows, self.before.clone()) {
            for ((ifindex, key), flow) in &**flows {
                let old = before.get(&(*ifindex, *key));
                // A flow that left the table and was added again counts from zero.
                let since = |total: fn(&FlowTotals) -> Octets| {
                    total(flow).checked_sub(old.map_or(Octets::ZERO, total)).unwrap_or_else(|| total(flow))
                };
                let (sent, ce_in) = (since(|f| f.octets), since(|f| f.ce_in));
                if let Some(port) = port_of.get(ifindex).filter(|_| sent > Octets::ZERO) {
                    self.handle(Input::Arrived(*port, *key, sent), now);
                    if ce_in > Octets::ZERO {
                        self.handle(Input::CameMarked(*port, *key, ce_in), now);
                    }
                }
            }
            for flow in learned(flows, &snapshot.acks, now) {
                self.handle(Input::Flow { flow, origin: Origin::Learned, accepts_roce: false }, now);
            }
        }
        self.before = snapshot.flows.or(self.before.take());
        for (index, port) in &config.ports {
            if let Some(counters) = snapshot.ports.get(&port.ifindex) {
                self.handle(Input::Sample(*index, *counters), now);
                if counters.queue > port.limits.k_min {
                    self.alarm(port.ifindex, now);
                }
            }
        }
        let mut cnps = Vec::new();
        while let Some(command) = self.node.next_command() {
            let dst = config.flows.get(&command.flow.key).map_or(command.flow.key.src, |known| known.notify);
            cnps.push((command, dst));
        }
        cnps
    }

    /// Handles an RDMA-CM message that this node forwarded.
    pub(crate) fn cm(&mut self, message: CmMessage, now: Monotonic) {
        for flow in self.connections.handle(message).into_iter().flatten() {
            self.handle(Input::Flow { flow, origin: Origin::Cm, accepts_roce: false }, now);
        }
    }

    /// Reports that the CNP of `command` was not sent.
    pub(crate) fn not_sent(&mut self, command: &Command) {
        self.node.not_sent(command);
    }

    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    /// `false` if a provisioned flow does not fit the node's table.
    fn handle(&mut self, input: Input, now: Monotonic) -> bool {
        self.node.handle(input, now).is_ok()
    }
}

/// Source QPs from reverse ACKs (decisions 4.1). An ACK contains the QP of its destination, not that of its sender: the mapping is
/// unambiguous only if there is one flow between two hosts and its ACKs go to one QP.
fn learned(flows: &Flows, acks: &[(FlowKey, Monotonic)], now: Monotonic) -> Vec<FourTuple> {
    let fresh = |seen: Monotonic| now.since(seen) < FRESH;
    let mut keys: BTreeMap<(Ipv6Addr, Ipv6Addr), BTreeSet<FlowKey>> = BTreeMap::new();
    for ((_, key), _) in flows.iter().filter(|(_, flow)| fresh(flow.seen)) {
        keys.entry((key.src, key.dst)).or_default().insert(*key);
    }
    let mut qps: BTreeMap<(Ipv6Addr, Ipv6Addr), BTreeSet<Qpn>> = BTreeMap::new();
    for (ack, _) in acks.iter().filter(|(_, seen)| fresh(*seen)) {
        qps.entry((ack.dst, ack.src)).or_default().insert(ack.dst_qp);
    }
    let only = |(pair, keys): (_, BTreeSet<FlowKey>)| {
        let qps = qps.get(&pair)?;
        let (key, src_qp) = (*keys.first()?, *qps.first()?);
        (keys.len() == 1 && qps.len() == 1).then_some(FourTuple { key, src_qp })
    };
    keys.into_iter().filter_map(only).collect()
}
