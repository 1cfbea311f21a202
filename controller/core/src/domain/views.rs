// SPDX-License-Identifier: Apache-2.0
//! Resources as the northbound API shows them.

use std::collections::HashMap;
use std::net::Ipv6Addr;
use std::sync::Arc;

use canopy_model::group::EncodingMode;
use canopy_model::member::Role;
use canopy_model::node_spec::BranchKind;

use super::node_views::is_synced;
use super::paging::{EXAMINED, Found, GroupFilter};
use super::state::State;
use crate::condition::{Condition, ConditionKind as Kind, ConditionReason as Why};
use crate::delivery::Delivery;
use crate::fields::GroupField;
use crate::limits::MAX_PAGE;
use crate::member::Member;
use crate::plan::GroupPlan;
use crate::resource::{Group, Node};
use crate::status::{Assessment, AtNode, assess};
use crate::topology::Network;
use crate::view::*;

/// Views of a state.
pub(super) struct Views<'a>(pub(super) &'a State);

impl Views<'_> {
    /// The network; `None` before a topology was declared.
    pub(super) fn topology(&self) -> Option<TopologyView> {
        let (t, status) = (self.0.topology.as_ref()?, self.topology_status()?);
        Some(TopologyView { metadata: t.metadata.clone(), spec: Arc::clone(&t.network.spec), status })
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
            host_links: t.network.host_link_count() as u32,
            conditions: vec![ready],
        })
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
        Some(g.members.iter().filter_map(|m| self.member_view(g, m)).collect())
    }

    /// One membership.
    pub(super) fn member(&self, group: &str, host: &str) -> Option<MemberView> {
        let g = self.0.groups.get(group)?;
        self.member_view(g, g.members.get(host)?)
    }

    /// One group's, without what only operators read.
    pub(super) fn group_summary(&self, name: &str) -> Option<GroupSummary> {
        let group = self.0.groups.get(name)?;
        let Assessment { phase, reason, .. } = assess(group, self.0.on_ground());
        Some(GroupSummary {
            uid: group.metadata.uid,
            tenant: group.metadata.tenant.clone(),
            group_id: group.allocation.group_id,
            phase,
            reason,
            receivers: (group.receivers() - group.probing().count()) as u32,
            evicted: group.evicted.clone(),
            connection: super::connection::connection(&self.0.addresses, group)?,
        })
    }

    fn group_view(&self, group: &Group) -> Option<GroupView> {
        let assessment = assess(group, self.0.on_ground());
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
                source: group.present(Role::Source).next().map(|m| m.host.to_string()),
                receivers: group.receivers() as u32,
                probing: group.probing().map(|m| m.host.to_string()).collect(),
                evicted: group.evicted.clone(),
                encoding: group.plan().zip(self.0.network()).map(|(plan, network)| plan.encoding_report(network)),
                tree: self.tree_view(group).unwrap_or_default(),
                nodes: AtNode::all(group, self.0.on_ground()).map(AtNode::progress).collect(),
            },
        })
    }

    fn delivery(&self, group: &Group) -> Option<Delivery> {
        let headend = group.headend()?;
        self.0.nodes[headend].telemetry.deliveries.get(&group.allocation.group_id).copied()
    }

    fn tree_view(&self, group: &Group) -> Option<Vec<TreeNodeView>> {
        let (network, plan) = (self.0.network()?, group.plan()?);
        let hosts: HashMap<Ipv6Addr, &str> =
            group.members.iter().filter_map(|m| Some((address(network, m)?, m.host.as_ref()))).collect();
        (0..plan.tree.len()).map(|at| self.tree_node_view(network, group, plan, at, &hosts)).collect()
    }

    fn tree_node_view(
        &self,
        network: &Network,
        group: &Group,
        plan: &GroupPlan,
        at: usize,
        hosts: &HashMap<Ipv6Addr, &str>,
    ) -> Option<TreeNodeView> {
        let t = &plan.tree.node(at);
        let program = self.0.on_ground().program_at(group, at)?.make();
        // Branches are child nodes in the tree's order, then receivers.
        let mut children = t.children().map(|c| network.name(plan.tree.node(c).node));
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
            parent: t.parent.map(|p| network.name(plan.tree.node(p.position).node).to_owned()),
            roles: roles.into_iter().filter_map(|(role, is)| is.then_some(role)).collect(),
            sid: (program.multicast.map(|m| m.group).or(program.replication_sid))
                .unwrap_or_else(|| self.0.addresses.end_mt(network.id(t.node))),
            upstream_port: network.port_name(t.node, program.upstream.port).to_owned(),
            branches,
        })
    }

    fn member_view(&self, group: &Group, member: &Member) -> Option<MemberView> {
        let network = self.0.network()?;
        let at = network.host(&member.host)?;
        let edge = network.name(at.node);
        let in_tree = member.role == Role::Receiver && group.takes_part(member);
        let encoding = group.plan().filter(|_| in_tree).map(|p| {
            let provisioned = p.edges(false).any(|edge| edge == at.node);
            if provisioned { EncodingMode::Provisioned } else { EncodingMode::InBand }
        });
        Some(MemberView {
            group: group.metadata.name.clone(),
            metadata: member.metadata(&group.metadata.tenant),
            spec: member.spec(),
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
    member.address.or_else(|| network.host(&member.host).map(|at| at.address))
}
