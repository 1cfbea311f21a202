// SPDX-License-Identifier: Apache-2.0
//! Resources as the northbound API shows them.

use std::collections::HashMap;
use std::net::Ipv6Addr;

use canopy_model::group::EncodingMode;
use canopy_model::member::Role;
use canopy_model::node_spec::{BranchKind, NodeSpec, Peer};
use canopy_model::topology::TopologySpec;

use super::leaving;
use super::paging::{EXAMINED, Found, GroupFilter};
use super::state::State;
use crate::condition::{Condition, ConditionKind as Kind, ConditionReason as Why};
use crate::delivery::Delivery;
use crate::fields::GroupField;
use crate::limits::MAX_PAGE;
use crate::member::Member;
use crate::plan::GroupPlan;
use crate::resource::{Group, Node};
use crate::status::assess;
use crate::topology::Network;
use crate::view::*;

/// Views of a state.
pub(super) struct Views<'a>(pub(super) &'a State);

impl Views<'_> {
    /// The network; `None` before a topology was declared.
    pub(super) fn topology(&self) -> Option<TopologyView> {
        let (t, status) = (self.0.topology.as_ref()?, self.topology_status()?);
        Some(TopologyView { metadata: t.metadata.clone(), spec: TopologySpec::clone(&t.network.spec), status })
    }

    /// What is observed of the network; `None` before a topology was declared.
    pub(super) fn topology_status(&self) -> Option<TopologyStatus> {
        let t = self.0.topology.as_ref()?;
        let count = |of: &dyn Fn(&Node) -> bool| self.0.nodes.iter().filter(|n| of(n)).count();
        // Nothing waits for one that has left.
        let all = count(&|n| !n.retired);
        let (connected, synced) = (count(&|n| n.connected && !n.retired), count(&|n| is_synced(n) && !n.retired));
        let ready = Condition::new(
            Kind::Ready,
            synced == all,
            if synced == all { Why::AllSynced } else { Why::NotSynced },
            format!("{synced} of {all} nodes run their desired state, {connected} agents are connected"),
        );
        Some(TopologyStatus {
            nodes: self.0.nodes.len() as u32,
            connected_nodes: connected as u32,
            synced_nodes: synced as u32,
            hosts: t.network.spec.hosts.len() as u32,
            links: t.network.spec.links.len() as u32,
            conditions: vec![ready],
        })
    }

    /// All nodes, in name order.
    pub(super) fn nodes(&self) -> Vec<NodeView> {
        let mut views: Vec<NodeView> = self.0.nodes.iter().map(|node| self.node_view(node)).collect();
        views.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        views
    }

    /// See [`super::Domain::for_each_node`].
    pub(super) fn summaries(&self) -> impl Iterator<Item = NodeSummary<'_>> {
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
    pub(super) fn node(&self, name: &str) -> Option<NodeView> {
        self.0.node(name).map(|node| self.node_view(node))
    }

    fn node_view(&self, node: &Node) -> NodeView {
        let retirement = self.0.retirements.get(&node.spec.base.name).filter(|of| !of.enrolled);
        node_view(node, retirement.map(|retirement| leaving::view(self.0, retirement)))
    }

    /// One group.
    pub(super) fn group(&self, name: &str) -> Option<GroupView> {
        self.group_view(self.0.groups.get(name)?)
    }

    /// See [`super::Domain::groups`].
    pub(super) fn groups(&self, filter: &GroupFilter, after: Option<&str>, limit: usize) -> Page<GroupView> {
        self.page(filter, self.0.groups.matching(filter, after, limit.clamp(1, MAX_PAGE), EXAMINED))
    }

    /// See [`super::Domain::groups_among`].
    pub(super) fn groups_among(&self, names: &[String], filter: &GroupFilter, limit: usize) -> Page<GroupView> {
        let limit = limit.clamp(1, MAX_PAGE);
        self.page(filter, self.0.groups.among(names.iter().map(String::as_str), filter, limit, EXAMINED))
    }

    fn page(&self, filter: &GroupFilter, found: Found<&Group>) -> Page<GroupView> {
        let is_of_phase = |view: &GroupView| {
            let fields = &filter.fields;
            !fields.requires(GroupField::Phase) || fields.allows(GroupField::Phase, &view.status.phase.to_string())
        };
        let views = found.items.into_iter().filter_map(|group| self.group_view(group));
        Page { items: views.filter(is_of_phase).collect(), next: found.next }
    }

    /// Members of a group in the order of their hosts' names; `None` when there is no such group.
    pub(super) fn members(&self, group: &str) -> Option<Vec<MemberView>> {
        let g = self.0.groups.get(group)?;
        Some(g.members.values().filter_map(|m| self.member_view(g, m)).collect())
    }

    /// One membership.
    pub(super) fn member(&self, group: &str, host: &str) -> Option<MemberView> {
        let g = self.0.groups.get(group)?;
        self.member_view(g, g.members.get(host)?)
    }

    fn group_view(&self, group: &Group) -> Option<GroupView> {
        let assessment = assess(group, &self.0.nodes);
        Some(GroupView {
            metadata: group.metadata.clone(),
            spec: group.spec.clone(),
            status: GroupStatus {
                phase: assessment.phase,
                reason: assessment.reason,
                delivery: self.delivery(group),
                conditions: assessment.conditions,
                observed_generation: group.metadata.generation,
                group_id: group.allocation.group_id,
                tree_id: group.allocation.tree_id,
                epoch: group.epoch,
                connection: super::connection::connection(&self.0.addresses, group)?,
                source: group.present(Role::Source).next().map(|m| m.spec.host.clone()),
                receivers: group.receivers() as u32,
                probing: group.probing().map(|m| m.spec.host.clone()).collect(),
                evicted: group.evicted.clone(),
                encoding: group.plan().map(|p| p.encoding.clone()),
                tree: self.tree_view(group).unwrap_or_default(),
                nodes: assessment.nodes,
            },
        })
    }

    fn delivery(&self, group: &Group) -> Option<Delivery> {
        let headend = group.plan()?.tree.nodes.first()?.node;
        self.0.nodes[headend].telemetry.deliveries.get(&group.allocation.group_id).copied()
    }

    fn tree_view(&self, group: &Group) -> Option<Vec<TreeNodeView>> {
        let (network, plan) = (self.0.network()?, group.plan()?);
        let hosts: HashMap<Ipv6Addr, &str> =
            group.members.values().filter_map(|m| Some((address(network, m)?, m.spec.host.as_str()))).collect();
        (0..plan.tree.nodes.len()).map(|at| self.tree_node_view(network, group, plan, at, &hosts)).collect()
    }

    fn tree_node_view(
        &self,
        network: &Network,
        group: &Group,
        plan: &GroupPlan,
        at: usize,
        hosts: &HashMap<Ipv6Addr, &str>,
    ) -> Option<TreeNodeView> {
        let t = &plan.tree.nodes[at];
        let program = self.0.nodes[t.node].spec.groups.get(&group.allocation.group_id)?;
        // Branches are child nodes in the tree's order, then receivers.
        let mut children = t.children.iter().map(|&c| network.name(plan.tree.nodes[c].node));
        let branches: Vec<BranchView> = program
            .branches
            .iter()
            .filter_map(|b| {
                let (name, kind, qpn) = match b.kind {
                    BranchKind::Node { .. } => (children.next()?, BranchRole::Node, None),
                    BranchKind::Receiver { qpn, .. } => (*hosts.get(&b.address)?, BranchRole::Receiver, Some(qpn)),
                };
                Some(BranchView {
                    name: name.to_owned(),
                    kind,
                    address: b.address,
                    qpn,
                    port: network.port_name(t.node, b.port).to_owned(),
                })
            })
            .collect();
        let has = |kind| branches.iter().any(|b| b.kind == kind);
        let roles = [
            (TreeRole::Headend, program.headend.is_some()),
            (TreeRole::Transit, has(BranchRole::Node)),
            (TreeRole::Edge, has(BranchRole::Receiver)),
        ];
        Some(TreeNodeView {
            node: network.name(t.node).to_owned(),
            parent: t.parent.map(|p| network.name(plan.tree.nodes[p.position].node).to_owned()),
            roles: roles.into_iter().filter_map(|(role, is)| is.then_some(role)).collect(),
            sid: (program.multicast.map(|m| m.group).or(program.replication_sid))
                .unwrap_or_else(|| self.0.addresses.end_mt(network.id(t.node))),
            upstream_port: network.port_name(t.node, program.upstream.port).to_owned(),
            branches,
        })
    }

    fn member_view(&self, group: &Group, member: &Member) -> Option<MemberView> {
        let network = self.0.network()?;
        let at = network.host(&member.spec.host)?;
        let edge = network.name(at.node);
        let in_tree = member.spec.role == Role::Receiver && group.takes_part(member);
        let encoding = group.plan().filter(|_| in_tree).map(|p| {
            let provisioned = p.encoding.provisioned_edges.iter().any(|e| e == edge);
            if provisioned { EncodingMode::Provisioned } else { EncodingMode::InBand }
        });
        Some(MemberView {
            group: group.metadata.name.clone(),
            metadata: member.metadata.clone(),
            spec: member.spec.clone(),
            status: MemberStatus {
                address: address(network, member)?,
                node: edge.to_owned(),
                port: network.port_name(at.node, at.port).to_owned(),
                encoding,
                ended: !group.takes_part(member),
                late: member.late,
                start: member.start,
            },
        })
    }
}

/// The address of the member's QP.
pub(super) fn address(network: &Network, member: &Member) -> Option<Ipv6Addr> {
    member.spec.address.or_else(|| network.host(&member.spec.host).map(|at| at.address))
}

fn is_synced(node: &Node) -> bool {
    node.observed() == Some(node.spec.generation) && node.status.as_ref().is_some_and(|s| s.errors.is_empty())
}

fn node_view(node: &Node, retirement: Option<RetirementView>) -> NodeView {
    let spec = &*node.spec;
    let status = node.status.as_ref();
    NodeView {
        name: spec.base.name.clone(),
        spec: NodeDesired {
            id: spec.base.node_id,
            node_address: spec.base.node_address,
            un: spec.base.un,
            end_mt: spec.base.end_mt,
            term: spec.term,
            generation: spec.generation,
            ports: port_views(spec),
            routes: spec.base.routes.len() as u32,
            groups: spec.groups.len() as u32,
        },
        status: NodeObserved {
            connected: node.connected,
            observed_term: status.map(|s| s.observed_term),
            observed_generation: status.map(|s| s.observed_generation),
            observed_digest: status.map(|s| s.observed_digest.to_string()).unwrap_or_default(),
            contract: status.map(|s| format!("1.{}", s.minor_version)).unwrap_or_default(),
            errors: status.map(|s| s.errors.clone()).unwrap_or_default(),
            agent_version: status.map(|s| s.agent_version.clone()).unwrap_or_default(),
            kernel: status.map(|s| s.kernel.clone()).unwrap_or_default(),
            metrics_address: status.map(|s| s.metrics_address.clone()).unwrap_or_default(),
            conditions: node_conditions(node),
            retirement,
        },
    }
}

fn port_views(spec: &NodeSpec) -> Vec<PortView> {
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

fn node_conditions(node: &Node) -> Vec<Condition> {
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
