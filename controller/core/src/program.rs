// SPDX-License-Identifier: Apache-2.0
//! The programs of a group's nodes, each made from the group's plan when it is asked for.
//!
//! A program leaves the agent no choice: it contains every address, port, SID and next hop. See the decisions page for:
//! the outer header (2.2), which SID a child is addressed by (2.3), the addresses of the reverse path (3.1).

use std::net::Ipv6Addr;

use canopy_model::addressing::AddressPlan;
use canopy_model::ids::PortIndex;
use canopy_model::node_spec::{
    Branch, BranchKind, EndMtList, GroupProgram, Headend, MAX_RECEIVERS_PER_TLV, Multicast, Upstream,
};

use crate::content::{Content, Receiver};
use crate::plan::GroupPlan;
use crate::topology::{Network, NodeIx};
use crate::tree::TreeNode;

/// The programs of a tree's nodes: of a plan over its network.
#[derive(Clone, Copy)]
pub(crate) struct TreePrograms<'a> {
    pub(crate) addresses: &'a AddressPlan,
    pub(crate) network: &'a Network,
    pub(crate) plan: &'a GroupPlan,
}

impl<'a> TreePrograms<'a> {
    /// The program of the node at a position of the tree.
    pub(crate) fn at(&self, at: usize) -> GroupProgram {
        let (t, receivers) = (self.node(at), self.content().receivers(at));
        let mut branches = Vec::with_capacity(t.children().len() + receivers.len());
        branches.extend(self.branches(at));
        let common = &self.content().common;
        GroupProgram { name: common.name.clone(), headend: self.headend(at), branches, ..self.without_lists(at) }
    }

    /// Whether the node here has the program that the node at a position of the tree of `other` has there. It makes neither, but for the
    /// lists of a headend.
    pub(crate) fn is_same(&self, at: usize, other: &TreePrograms<'_>, there: usize) -> bool {
        self.without_lists(at) == other.without_lists(there)
            && self.content().common.name == other.content().common.name
            && self.branches(at).eq(other.branches(there))
            && self.headend(at) == other.headend(there)
    }

    /// Whether trees and programs are the same, over one network or over two where nodes of one name are the same.
    pub(crate) fn are_same(&self, other: &TreePrograms<'_>) -> bool {
        let is_same = |at: usize| {
            let (here, there) = (self.node(at).node, other.node(at).node);
            self.network.name(here) == other.network.name(there) && self.is_same(at, other, at)
        };
        let (here, there) = (self.plan.tree.len(), other.plan.tree.len());
        here == there && (0..here).all(is_same)
    }

    pub(crate) fn epoch(&self, at: usize) -> u32 {
        self.plan.epochs.of(self.network.id(self.node(at).node))
    }

    /// Whether the node is the headend.
    fn is_root(&self, at: usize) -> bool {
        self.node(at).parent.is_none()
    }

    /// Where the source's packets arrive.
    pub(crate) fn source_port(&self) -> PortIndex {
        self.content().headend.source_port
    }

    /// Where feedback leaves the node.
    pub(crate) fn upstream_port(&self, at: usize) -> PortIndex {
        self.node(at).parent.map_or(self.content().common.upstream.port, |up| up.port)
    }

    fn content(&self) -> &'a Content {
        &self.plan.content
    }

    fn node(&self, at: usize) -> TreeNode<'a> {
        self.plan.tree.node(at)
    }

    fn address(&self, node: NodeIx) -> Ipv6Addr {
        self.addresses.node_address(self.network.id(node))
    }

    fn multicast(&self) -> Option<Multicast> {
        self.content().common.multicast
    }

    /// Without its name, and without what may be long.
    fn without_lists(&self, at: usize) -> GroupProgram {
        let (t, common) = (self.node(at), &self.content().common);
        GroupProgram {
            group_id: common.group_id,
            name: String::new(),
            epoch: self.epoch(at),
            tree_id: common.tree_id,
            proxy: common.proxy,
            designated_qpn: common.designated_qpn,
            start_psn: common.start_psn,
            source: common.source,
            replication_sid: self.replication_sid(at),
            multicast: common.multicast,
            headend: None,
            headend_address: common.headend_address,
            upstream: self.upstream(t),
            alternate_upstream: None,
            branches: Vec::new(),
            receivers_provisioned: self.content().edge(at).is_some_and(|edge| !edge.in_band),
            write_base_va: common.write_base_va,
            write_rkey: common.write_rkey,
            params: common.params,
            branch_metrics: common.branch_metrics,
            largest_packet: common.largest_packet,
        }
    }

    /// RFC 9524, unless the kernel replicates: the root and every node that replicates to other nodes have a
    /// Replication-SID; an edge needs only End.MT.
    pub(crate) fn replication_sid(&self, at: usize) -> Option<Ipv6Addr> {
        let t = self.node(at);
        let replicates = self.multicast().is_none() && (t.parent.is_none() || t.children().len() > 0);
        replicates.then(|| self.addresses.replication(self.network.id(t.node), self.content().common.tree_id))
    }

    /// The SID that copies to a tree node are addressed to; with IP multicast, the same for all nodes.
    fn sid(&self, at: usize) -> Ipv6Addr {
        if let Some(m) = self.multicast() {
            return m.group;
        }
        self.replication_sid(at).unwrap_or_else(|| self.addresses.end_mt(self.network.id(self.node(at).node)))
    }

    /// Of the root alone.
    fn headend(&self, at: usize) -> Option<Headend> {
        let content = self.content();
        let in_band = content.edges.iter().filter(|edge| edge.in_band);
        let tlvs = in_band.flat_map(|edge| {
            let address = self.address(self.node(edge.at()).node);
            let receivers = |part: &[Receiver]| part.iter().map(|r| (r.address, r.member.qpn)).collect();
            let lists = content.of(edge).chunks(MAX_RECEIVERS_PER_TLV);
            lists.map(move |part| EndMtList { edge: address, receivers: receivers(part) })
        });
        self.is_root(at).then(|| Headend { tlvs: tlvs.collect(), ..content.headend.clone() })
    }

    fn upstream(&self, t: TreeNode<'_>) -> Upstream {
        let common = &self.content().common;
        let Some(up) = t.parent else { return common.upstream.clone() };
        let parent = self.node(up.position).node;
        Upstream {
            source_address: self.address(t.node),
            destination: self.address(parent),
            dest_qp: common.designated_qpn,
            port: up.port,
            next_hop: self.addresses.link_local(self.network.id(parent), up.parent_port),
        }
    }

    /// Those of [`Self::branches`].
    pub(crate) fn addresses(&self, at: usize) -> impl Iterator<Item = Ipv6Addr> + use<'a> {
        let this = *self;
        let nodes = this.node(at).children().map(move |child| this.address(this.node(child).node));
        nodes.chain(this.content().receivers(at).iter().map(|r| r.address))
    }

    /// Child nodes in the tree's order, then receivers in the order of their addresses.
    pub(crate) fn branches(&self, at: usize) -> impl Iterator<Item = Branch> + use<'a> {
        let (this, content) = (*self, self.content());
        let nodes = this.node(at).children().filter_map(move |at| {
            let child = this.node(at);
            let up = child.parent?;
            Some(Branch {
                address: this.address(child.node),
                port: up.parent_port,
                next_hop: this.addresses.link_local(this.network.id(child.node), up.port),
                kind: BranchKind::Node { sid: this.sid(at) },
                // Unconfirmed, whichever receivers are behind it: a child that adopts its program earlier than its parent starts late
                // receivers with copies of a former branch, and the parent must not count them from a later message on.
                at_boundary: false,
                start: None,
                since: this.plan.epochs.since(this.network.id(child.node)),
                standby: false,
                lost: false,
            })
        });
        // With another source all receivers start over.
        let is_late = |r: &Receiver| r.member.late && r.member.since > content.source_since;
        let receivers = content.receivers(at).iter().map(move |r| Branch {
            address: r.address,
            port: r.port,
            next_hop: r.address,
            kind: BranchKind::Receiver { qpn: r.member.qpn, memory: r.member.memory },
            at_boundary: is_late(r),
            start: r.member.start.filter(|_| is_late(r)),
            since: r.member.since,
            standby: false,
            // Where another edge in between counted it, and from which message on, is not known.
            lost: is_late(r) && r.member.start.is_none() && content.displaced > r.member.since,
        });
        nodes.chain(receivers)
    }
}
