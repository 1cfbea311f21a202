// SPDX-License-Identifier: Apache-2.0
//! Nodes as the northbound API shows them.

use std::borrow::Cow;

use canopy_model::labels::Labels;
use canopy_model::node_spec::Peer;

use super::leaving;
use super::paging::{self, EXAMINED, NameFilter};
use super::state::State;
use crate::condition::{Condition, ConditionKind as Kind, ConditionReason as Why};
use crate::desired::DesiredNode;
use crate::fields::{NodeField, truth};
use crate::limits::MAX_PAGE;
use crate::resource::Node;
use crate::retirement::{RetireStep, Retirement};
use crate::states::NodeState;
use crate::topology::NodeIx;
use crate::view::{NodeDesired, NodeObserved, NodeSummary, NodeView, Page, PortThresholdsView, PortView};

/// Views of a state.
pub(super) struct NodeViews<'a>(pub(super) &'a State);

impl<'a> NodeViews<'a> {
    /// See [`super::Domain::nodes`]. A page compares the names of all nodes, and reads the state of its own.
    pub(super) fn page(
        &self,
        filter: &NameFilter<NodeField>,
        after: Option<&str>,
        limit: usize,
        with_ports: bool,
    ) -> Page<NodeView> {
        let limit = limit.clamp(1, MAX_PAGE);
        let names = self.0.nodes.iter().map(|node| node.spec.base.name.as_str());
        let names = filter.begin(names, after, limit);
        let read = |name: &str| {
            let at = self.0.index(name).filter(|at| self.passes(filter, *at))?;
            Some(self.view(at, with_ports))
        };
        let (items, next) = paging::page(names.into_iter(), limit, EXAMINED, read);
        Page { items, next: next.map(str::to_owned) }
    }

    /// See [`super::Domain::node_names`].
    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.0.nodes.iter().map(|node| node.spec.base.name.clone()).collect();
        names.sort_unstable();
        names
    }

    /// See [`super::Domain::for_each_node`].
    pub(super) fn summaries(&self) -> impl Iterator<Item = NodeSummary<'a>> + use<'a> {
        self.0.nodes.iter().map(|node| NodeSummary {
            name: &node.spec.base.name,
            connected: node.connected,
            desired: node.spec.generation,
            observed: node.status.as_ref().map(|status| status.observed_generation),
            errors: node.status.as_ref().map_or(0, |status| status.errors.len()),
            metrics_address: node.status.as_ref().map_or("", |status| &status.metrics_address),
        })
    }

    /// One node.
    pub(super) fn one(&self, name: &str) -> Option<NodeView> {
        self.0.index(name).map(|at| self.view(at, true))
    }

    /// The state of the node in one word.
    pub(super) fn state(&self, node: &Node) -> NodeState {
        if let Some(retirement) = self.retirement(node) {
            return if retirement.reached.step == RetireStep::Retired {
                NodeState::Retired
            } else {
                NodeState::Retiring
            };
        }
        match (&node.status, node.observed()) {
            _ if node.is_restarting() => NodeState::Restarting,
            _ if !node.connected => NodeState::NotConnected,
            (None, _) => NodeState::NotReported,
            (Some(status), Some(observed)) if observed >= node.spec.generation => {
                if status.errors.is_empty() {
                    NodeState::InSync
                } else {
                    NodeState::ItemErrors
                }
            }
            _ => NodeState::Behind,
        }
    }

    fn passes(&self, filter: &NameFilter<NodeField>, at: NodeIx) -> bool {
        let node = &self.0.nodes[at];
        let matches = |labels: &Labels| filter.labels.matches(labels);
        self.labels(at).is_some_and(matches)
            && filter.fields.matches(|field| match field {
                NodeField::Connected => truth(node.connected),
                NodeField::Name => Cow::Borrowed(node.spec.base.name.as_str()),
                NodeField::State => Cow::Borrowed(self.state(node).name()),
                NodeField::Synced => truth(is_synced(node)),
            })
    }

    /// Of a node that leaves, or has left.
    fn retirement(&self, node: &Node) -> Option<&'a Retirement> {
        self.0.retirements.get(&node.spec.base.name).filter(|of| !of.enrolled)
    }

    /// As the topology declares them.
    fn labels(&self, at: NodeIx) -> Option<&'a Labels> {
        Some(&self.0.network()?.spec.nodes[at].labels)
    }

    fn view(&self, at: NodeIx, with_ports: bool) -> NodeView {
        let node = &self.0.nodes[at];
        let spec = &*node.spec;
        let status = node.status.as_ref();
        let retirement = self.retirement(node).map(|retirement| leaving::view(self.0, retirement));
        NodeView {
            name: spec.base.name.clone(),
            labels: self.labels(at).cloned().unwrap_or_default(),
            spec: NodeDesired {
                id: spec.base.node_id,
                node_address: spec.base.node_address,
                un: spec.base.un,
                end_mt: spec.base.end_mt,
                term: spec.term,
                generation: spec.generation,
                ports: if with_ports { ports(spec) } else { Vec::new() },
                port_count: spec.base.ports.len() as u32,
                routes: spec.base.routes.len() as u32,
                groups: spec.groups.len() as u32,
            },
            status: NodeObserved {
                state: self.state(node),
                connected: node.connected,
                observed_term: status.map(|s| s.observed_term),
                observed_generation: status.map(|s| s.observed_generation),
                observed_digest: status.map(|s| s.observed_digest.to_string()).unwrap_or_default(),
                contract: status.map(|s| format!("1.{}", s.minor_version)).unwrap_or_default(),
                errors: status.map(|s| s.errors.clone()).unwrap_or_default(),
                agent_version: status.map(|s| s.agent_version.clone()).unwrap_or_default(),
                kernel: status.map(|s| s.kernel.clone()).unwrap_or_default(),
                metrics_address: status.map(|s| s.metrics_address.clone()).unwrap_or_default(),
                conditions: conditions(node),
                retirement,
            },
        }
    }
}

/// Whether the node's kernel has all of the desired state.
pub(super) fn is_synced(node: &Node) -> bool {
    node.observed() == Some(node.spec.generation) && node.status.as_ref().is_some_and(|s| s.errors.is_empty())
}

fn ports(spec: &DesiredNode) -> Vec<PortView> {
    let peer = |peer: &Peer| match peer {
        Peer::Node { name, .. } | Peer::Host { name, .. } => name.clone(),
    };
    let view = |p: &canopy_model::node_spec::Port| PortView {
        index: p.index,
        name: p.name.clone(),
        peer: peer(&p.peer),
        mtu: p.mtu,
        link_local: p.link_local,
        thresholds: p.thresholds.map(|t| PortThresholdsView {
            k_min: t.k_min,
            k_max: t.k_max,
            rtt: t.rtt,
            port_rate: t.port_rate,
            v_ecn: t.v_ecn_permille,
            v_growth: t.v_growth_per_ms,
        }),
    };
    spec.base.ports.iter().map(view).collect()
}

fn conditions(node: &Node) -> Vec<Condition> {
    let connected = if node.connected {
        Condition::new(Kind::Connected, true, Why::AgentConnected, "the agent is connected")
    } else if node.retired {
        let message = "the node has left for good: enroll it again to take it back, or take it out of the topology";
        Condition::new(Kind::Connected, false, Why::Retired, message)
    } else if let Some(restart) = node.restart.as_ref().filter(|_| node.is_restarting()) {
        let why = if restart.is_announced { "was stopped" } else { "was killed or cut off" };
        let within = restart.term.as_secs();
        let message = format!(
            "the agent {why} and is to be back within {within} s of that: the node continues to forward, and trees stay as they are"
        );
        Condition::new(Kind::Connected, false, Why::Restarting, message)
    } else {
        Condition::new(
            Kind::Connected,
            false,
            Why::AgentNotConnected,
            "the agent is not connected: start canopy-agent on the node, or check its path to this controller",
        )
    };
    let desired = node.spec.generation;
    let Some(status) = &node.status else {
        let never = |kind| Condition::unknown(kind, Why::NeverReported, "the agent has not reported yet");
        return vec![connected, never(Kind::Synced), never(Kind::Healthy)];
    };
    let observed = status.observed_generation;
    let synced = if node.observed() == Some(desired) {
        Condition::new(Kind::Synced, true, Why::Reconciled, format!("generation {desired} is reconciled"))
    } else if status.observed_term != node.spec.term {
        let (theirs, ours) = (status.observed_term, node.spec.term);
        let message =
            format!("generation {observed} of term {theirs} is reconciled, {desired} of term {ours} is desired");
        Condition::new(Kind::Synced, false, Why::OtherTerm, message)
    } else {
        Condition::new(
            Kind::Synced,
            false,
            Why::Behind,
            format!("generation {observed} is reconciled, {desired} is desired"),
        )
    };
    let healthy = match status.errors.first() {
        None => Condition::new(Kind::Healthy, true, Why::NoErrors, "the kernel's state is as desired"),
        Some(e) => {
            let more = if status.errors.len() > 1 {
                format!(" (and {} more)", status.errors.len() - 1)
            } else {
                String::new()
            };
            Condition::new(Kind::Healthy, false, Why::ItemError, format!("{} {}: {}{more}", e.kind, e.name, e.detail))
        }
    };
    vec![connected, synced, healthy]
}
