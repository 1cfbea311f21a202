// SPDX-License-Identifier: Apache-2.0
//! Queue thresholds of every link direction that a node sends in (decisions 4.2): what was declared and what agents
//! measure come in, what nodes have to be told goes out. In memory only: agents measure again after a restart.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use canopy_model::congestion::{MAX_TOLD_FLOWS, PortCongestion};
use canopy_model::ids::PortIndex;
use canopy_model::node_spec::{NodeBase, Port, PortThresholds};
use canopy_model::telemetry::LinkRtt;
use canopy_model::topology::{Endpoint, LinkBuffer};

use super::Domain;
use super::apply::Effect;
use crate::command::{Outcome, Prepared};
use crate::threshold::{LinkThresholds, PortLimits, ThresholdSettings};
use crate::topology::{Network, NodeIx, PortInfo};

/// The machines, by node and port name: both stay when a topology numbers its ports anew.
#[derive(Clone, Debug, Default)]
pub(super) struct Links {
    defaults: ThresholdSettings,
    nodes: HashMap<String, BTreeMap<String, Direction>>,
    /// Nodes that have to be told something.
    due: BTreeSet<String>,
}

/// One direction, out of a node's port.
#[derive(Clone, Debug)]
pub(super) struct Direction {
    to: Endpoint,
    /// `None` where the rate is not known.
    pub(super) machine: Option<LinkThresholds>,
    pub(super) report: Option<Report>,
    pub(super) queue: Option<Queue>,
}

/// What the agent last measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    /// The newest sample.
    pub(super) rtt_ns: Option<u64>,
    pub(super) samples: u64,
    pub(super) lost: u64,
    pub(super) at_ns: u64,
}

/// What the agent last told of the sending port's queue, and when.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    pub(super) told: PortCongestion,
    pub(super) at_ns: u64,
}

/// What a direction is made of.
pub(super) struct Declared {
    pub(super) link: usize,
    pub(super) from: Endpoint,
    pub(super) to: Endpoint,
    pub(super) settings: ThresholdSettings,
    pub(super) port: PortLimits,
    pub(super) rtt_us: Option<u64>,
}

/// New thresholds of ports of one node.
#[derive(Debug)]
pub(crate) struct ThresholdEffect {
    node: NodeIx,
    ports: Vec<(PortIndex, Option<PortThresholds>)>,
}

impl Domain {
    /// alpha and K_base of links that do not have their own; call [`Domain::tune_links`] afterwards.
    pub fn set_threshold_defaults(&mut self, defaults: ThresholdSettings) {
        self.links.defaults = defaults;
    }

    /// Takes in what the topology says of links, at `now_ns` on the clock of [`Domain::link_rtts`]. Call it after every
    /// change of the topology.
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
                // Validated with the topology and with the controller's settings.
                _ = machine.configure(settings, port, rtt_us.map(|us| us * 1_000), now_ns);
            }
            nodes.entry(from.device).or_default().insert(from.port, direction);
        }
        self.links.nodes = nodes;
        self.links.due = self.nodes.iter().map(|n| n.spec.base.name.clone()).collect();
        self.forget_what_is_not_due();
    }

    /// Takes in what the agent of `node` measured, at `now_ns` on any steady clock (nanoseconds). Ports that it does not
    /// have are left out.
    pub fn link_rtts(&mut self, node: &str, rtts: &[LinkRtt], now_ns: u64) {
        let Some(at) = self.index(node) else { return };
        let (spec, Some(ports)) = (&self.nodes[at].spec, self.links.nodes.get_mut(node)) else { return };
        for rtt in rtts {
            let Some(port) = spec.base.ports.get(usize::from(rtt.port.get()) - 1) else { continue };
            let Some(direction) = ports.get_mut(&port.name) else { continue };
            let newest = rtt.rtt_ns.or(direction.report.and_then(|r| r.rtt_ns));
            direction.report = Some(Report { rtt_ns: newest, samples: rtt.samples, lost: rtt.lost, at_ns: now_ns });
            if let (Some(machine), Some(rtt_ns)) = (&mut direction.machine, rtt.rtt_ns) {
                // Out of range measures nothing; what it makes due is seen below.
                _ = machine.observe(rtt_ns, now_ns);
            }
        }
        if !self.changes(at).is_empty() {
            self.links.due.insert(node.to_owned());
        }
    }

    /// Takes in what the agent of `node` told of its queues, at `now_ns` on the same clock. It replaces what was known: a port
    /// that is not told of has nothing to tell. Nodes whose agent is away are left out, ports that the node does not have are left out, and flows beyond the first
    /// [`MAX_TOLD_FLOWS`] of the node.
    pub fn queues(&mut self, node: &str, told: Vec<PortCongestion>, now_ns: u64) {
        // What comes in after the agent went would stay.
        let Some(at) = self.index(node).filter(|at| self.nodes[*at].connected) else { return };
        let (spec, Some(ports)) = (&self.nodes[at].spec, self.links.nodes.get_mut(node)) else { return };
        ports.values_mut().for_each(|direction| direction.queue = None);
        let mut room = MAX_TOLD_FLOWS;
        for mut told in told {
            let Some(port) = spec.base.ports.get(usize::from(told.port.get()) - 1) else { continue };
            let Some(direction) = ports.get_mut(&port.name) else { continue };
            told.flows.truncate(room);
            room -= told.flows.len();
            direction.queue = Some(Queue { told, at_ns: now_ns });
        }
    }

    /// Forgets what was told of a node's queues: nobody knows what they do now.
    pub(super) fn forget_queues(&mut self, node: &str) {
        let ports = self.links.nodes.get_mut(node);
        ports.into_iter().flat_map(BTreeMap::values_mut).for_each(|direction| direction.queue = None);
    }

    /// True when [`Command::PushThresholds`](crate::Command::PushThresholds) would tell a node something.
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
        // The values are not durable, but no node's generation may go back.
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
        self.forget_what_is_not_due();
        name
    }

    /// A base that was made anew, with what its ports had; what changed is told by the next push.
    pub(super) fn with_thresholds(&self, mut base: NodeBase) -> NodeBase {
        let Some(node) = self.node_entry(&base.name) else { return base };
        let before: HashMap<&str, &Port> = node.spec.base.ports.iter().map(|p| (p.name.as_str(), p)).collect();
        for port in &mut base.ports {
            port.thresholds = before.get(port.name.as_str()).and_then(|old| old.thresholds);
        }
        base
    }

    /// Every direction that a node sends in, in the topology's order, `a` to `b` first.
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

    /// What the node has to be told.
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

    fn forget_what_is_not_due(&mut self) {
        let due = std::mem::take(&mut self.links.due);
        let is_due = |name: &String| self.index(name).is_some_and(|at| !self.changes(at).is_empty());
        self.links.due = due.into_iter().filter(is_due).collect();
    }
}

/// Name of a link as people know it.
pub(super) fn label(network: &Network, link: usize) -> String {
    network.spec.links[link].label()
}
