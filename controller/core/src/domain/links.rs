// SPDX-License-Identifier: Apache-2.0
//! Queue thresholds of every link direction out of a node's port (decisions 4.2): declared settings and the agents'
//! measurements in, threshold changes per node out. In memory only: agents measure again after a restart.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use canopy_model::congestion::{MAX_REPORTED_FLOWS, PortCongestion};
use canopy_model::ids::PortIndex;
use canopy_model::node_spec::{NodeBase, Port, PortThresholds};
use canopy_model::telemetry::LinkRtt;
use canopy_model::topology::{Endpoint, LinkBuffer};

use super::Domain;
use super::apply::Effect;
use crate::command::{Outcome, Prepared};
use crate::threshold::{LinkThresholds, PortLimits, ThresholdSettings};
use crate::topology::{Network, NodeIx, PortInfo};

/// The threshold machines, by node and port name: both stay when a topology renumbers its ports.
#[derive(Clone, Debug, Default)]
pub(super) struct Links {
    defaults: ThresholdSettings,
    nodes: HashMap<String, BTreeMap<String, Direction>>,
    /// Nodes with threshold changes to push.
    due: BTreeSet<String>,
}

/// One direction, out of a node's port.
#[derive(Clone, Debug)]
pub(super) struct Direction {
    to: Endpoint,
    /// `None` while the rate is not known.
    pub(super) machine: Option<LinkThresholds>,
    pub(super) report: Option<Report>,
    pub(super) queue: Option<Queue>,
}

/// The agent's last measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    /// The newest sample.
    pub(super) rtt_ns: Option<u64>,
    pub(super) samples: u64,
    pub(super) lost: u64,
    pub(super) at_ns: u64,
}

/// The agent's last report of the sending port's queue, and its time.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    pub(super) report: PortCongestion,
    pub(super) at_ns: u64,
}

/// The declared settings of a direction.
pub(super) struct Declared {
    pub(super) link: usize,
    pub(super) from: Endpoint,
    pub(super) to: Endpoint,
    pub(super) settings: ThresholdSettings,
    pub(super) port: PortLimits,
    pub(super) rtt_us: Option<u64>,
}

/// New thresholds of a node's ports.
#[derive(Debug)]
pub(crate) struct ThresholdEffect {
    node: NodeIx,
    ports: Vec<(PortIndex, Option<PortThresholds>)>,
}

impl Domain {
    /// Default alpha and K_base, for links without their own; call [`Domain::tune_links`] afterwards.
    pub fn set_threshold_defaults(&mut self, defaults: ThresholdSettings) {
        self.links.defaults = defaults;
    }

    /// Applies the topology's link settings, at `now_ns` on the clock of [`Domain::link_rtts`]. Must be called after
    /// every change of the topology.
    pub fn tune_links(&mut self, now_ns: u64) {
        let mut before = std::mem::take(&mut self.links.nodes);
        let mut nodes: HashMap<String, BTreeMap<String, Direction>> = HashMap::new();
        for declared in self.declared_links() {
            let Declared { from, to, settings, port, rtt_us, .. } = declared;
            let old = before.get_mut(&from.device).and_then(|ports| ports.remove(&from.port));
            let new = || Direction { to: to.clone(), machine: None, report: None, queue: None };
            let mut direction = old.filter(|d| d.to == to).unwrap_or_else(new);
            direction.machine = match direction.machine.take() {
                _ if port.rate_bps == 0 => None,
                Some(machine) => Some(machine),
                None => LinkThresholds::new(settings, port).ok(),
            };
            if let Some(machine) = &mut direction.machine {
                // Settings were validated with the topology and the controller's configuration, so this cannot fail.
                _ = machine.configure(settings, port, rtt_us.map(|us| us * 1_000), now_ns);
            }
            nodes.entry(from.device).or_default().insert(from.port, direction);
        }
        self.links.nodes = nodes;
        self.links.due = self.nodes.iter().map(|n| n.spec.base.name.clone()).collect();
        self.drop_nodes_without_changes();
    }

    /// Processes the measurements of the agent of `node`, at `now_ns` on any monotonic clock (nanoseconds). Unknown
    /// ports are ignored.
    pub fn link_rtts(&mut self, node: &str, rtts: &[LinkRtt], now_ns: u64) {
        let Some(at) = self.index(node) else { return };
        let (spec, Some(ports)) = (&self.nodes[at].spec, self.links.nodes.get_mut(node)) else { return };
        for rtt in rtts {
            let Some(port) = spec.base.ports.get(usize::from(rtt.port.get()) - 1) else { continue };
            let Some(direction) = ports.get_mut(&port.name) else { continue };
            let newest = rtt.rtt_ns.or(direction.report.and_then(|r| r.rtt_ns));
            direction.report = Some(Report { rtt_ns: newest, samples: rtt.samples, lost: rtt.lost, at_ns: now_ns });
            if let (Some(machine), Some(rtt_ns)) = (&mut direction.machine, rtt.rtt_ns) {
                // A sample out of range is ignored; a resulting change is found below.
                _ = machine.observe(rtt_ns, now_ns);
            }
        }
        if !self.changes(at).is_empty() {
            self.links.due.insert(node.to_owned());
        }
    }

    /// Stores the queues that the agent of `node` reported, at `now_ns` on the same clock. The report replaces the
    /// previous one: a port that is not in it has no queue state. Ignored: reports of nodes whose agent is not
    /// connected, ports that the node does not have, and flows beyond the first [`MAX_REPORTED_FLOWS`] of the node.
    pub fn queues(&mut self, node: &str, reports: Vec<PortCongestion>, now_ns: u64) {
        // A report received after the agent disconnected would never be removed.
        let Some(at) = self.index(node).filter(|at| self.nodes[*at].connected) else { return };
        let (spec, Some(ports)) = (&self.nodes[at].spec, self.links.nodes.get_mut(node)) else { return };
        ports.values_mut().for_each(|direction| direction.queue = None);
        let mut room = MAX_REPORTED_FLOWS;
        for mut report in reports {
            let Some(port) = spec.base.ports.get(usize::from(report.port.get()) - 1) else { continue };
            let Some(direction) = ports.get_mut(&port.name) else { continue };
            report.flows.truncate(room);
            room -= report.flows.len();
            direction.queue = Some(Queue { report, at_ns: now_ns });
        }
    }

    /// Removes the queue state of a node whose agent disconnected.
    pub(super) fn forget_queues(&mut self, node: &str) {
        let ports = self.links.nodes.get_mut(node);
        ports.into_iter().flat_map(BTreeMap::values_mut).for_each(|direction| direction.queue = None);
    }

    /// True when [`Command::PushThresholds`](crate::Command::PushThresholds) would change a node's spec.
    pub fn thresholds_are_due(&self) -> bool {
        self.links.due.iter().filter_map(|name| self.index(name)).any(|at| !self.changes(at).is_empty())
    }

    pub(super) fn prepare_push_thresholds(&self) -> Prepared {
        let due = self.links.due.iter().filter_map(|name| self.index(name));
        let effects = due.map(|node| ThresholdEffect { node, ports: self.changes(node) });
        let effects: Vec<ThresholdEffect> = effects.filter(|effect| !effect.ports.is_empty()).collect();
        let generation = self.topology.as_ref().map_or(0, |t| t.metadata.generation);
        if effects.is_empty() {
            return self.noop(generation);
        }
        // The values are not durable, but a node's generation must never decrease.
        let writes = vec![self.state_write(self.pools.cursors())];
        let effect = Effect::Thresholds(effects);
        Prepared { writes, base_revision: self.revision, outcome: Outcome::Updated, generation, effect }
    }

    pub(super) fn apply_thresholds(&mut self, effect: ThresholdEffect) -> String {
        let name = self.nodes[effect.node].spec.base.name.clone();
        self.change_node(effect.node, |spec, _, _| {
            for (index, thresholds) in effect.ports {
                if let Some(port) = spec.base.ports.get_mut(usize::from(index.get()) - 1) {
                    port.thresholds = thresholds;
                }
            }
        });
        self.drop_nodes_without_changes();
        name
    }

    /// A rebuilt base with the present thresholds of its ports; changes are pushed by the next command.
    pub(super) fn with_thresholds(&self, mut base: NodeBase) -> NodeBase {
        let Some(node) = self.node_entry(&base.name) else { return base };
        let before: HashMap<&str, &Port> = node.spec.base.ports.iter().map(|p| (p.name.as_str(), p)).collect();
        for port in &mut base.ports {
            port.thresholds = before.get(port.name.as_str()).and_then(|old| old.thresholds);
        }
        base
    }

    /// Every direction out of a node's port, in the topology's order, `a` to `b` first.
    pub(super) fn declared_links(&self) -> Vec<Declared> {
        let Some(network) = self.topology.as_ref().map(|t| &*t.network) else { return Vec::new() };
        let directions = network.spec.links.iter().enumerate().flat_map(|(link, decl)| {
            let settings = ThresholdSettings {
                alpha_permille: decl.alpha.unwrap_or(self.links.defaults.alpha_permille),
                k_base_bytes: decl.k_base_bytes.unwrap_or(self.links.defaults.k_base_bytes),
            };
            let buffers = decl.buffer_bytes;
            let ends = [
                (&decl.a, &decl.b, buffers.and_then(LinkBuffer::at_a)),
                (&decl.b, &decl.a, buffers.and_then(LinkBuffer::at_b)),
            ];
            ends.map(|(from, to, buffer_bytes)| {
                let port = PortLimits { rate_bps: decl.rate_bps, buffer_bytes };
                Declared { link, from: from.clone(), to: to.clone(), settings, port, rtt_us: decl.rtt_us }
            })
        });
        directions.filter(|d| network.node(&d.from.device).is_some()).collect()
    }

    pub(super) fn direction(&self, from: &Endpoint) -> Option<&Direction> {
        self.links.nodes.get(&from.device)?.get(&from.port)
    }

    /// Ports of the node whose thresholds differ from its spec.
    fn changes(&self, node: NodeIx) -> Vec<(PortIndex, Option<PortThresholds>)> {
        let Some(network) = self.topology.as_ref().map(|t| &*t.network) else { return Vec::new() };
        let ports = self.links.nodes.get(network.name(node));
        let wanted = |p: &PortInfo| {
            let pushed = ports?.get(network.port_name(node, p.index))?.machine.as_ref()?.pushed()?;
            Some(PortThresholds {
                k_min_bytes: pushed.thresholds.k_min_bytes,
                k_max_bytes: pushed.thresholds.k_max_bytes,
                rtt_ns: pushed.rtt_ns,
                port_rate_bps: pushed.rate_bps,
            })
        };
        let now = self.nodes[node].spec.base.ports.iter().map(|p| p.thresholds);
        let both = network.ports(node).iter().zip(now);
        both.map(|(p, now)| (p.index, wanted(p), now))
            .filter(|(_, new, now)| new != now)
            .map(|(i, new, _)| (i, new))
            .collect()
    }

    fn drop_nodes_without_changes(&mut self) {
        let due = std::mem::take(&mut self.links.due);
        let is_due = |name: &String| self.index(name).is_some_and(|at| !self.changes(at).is_empty());
        self.links.due = due.into_iter().filter(is_due).collect();
    }
}

/// Name of a link as the APIs show it.
pub(super) fn label(network: &Network, link: usize) -> String {
    network.spec.links[link].label()
}
