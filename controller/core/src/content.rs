// SPDX-License-Identifier: Apache-2.0
//! What the programs of a group's nodes follow from, beside the group's tree and its epochs.

use std::net::Ipv6Addr;
use std::ops::Range;
use std::sync::Arc;

use canopy_model::ids::PortIndex;
use canopy_model::node_spec::{GroupProgram, Headend};

use crate::member::Member;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    /// What is the same in all of them; the rest is that of the root, without its branches.
    pub(crate) common: GroupProgram,
    /// That of the root, without TLVs.
    pub(crate) headend: Headend,
    /// When the source joined.
    pub(crate) source_since: u32,
    /// See [`Group::displaced`](crate::resource::Group::displaced).
    pub(crate) displaced: u32,
    /// Of each edge next to each other, in the order of their addresses: that of copies and of TLV entries.
    pub(crate) receivers: Box<[Receiver]>,
    /// In the tree's order.
    pub(crate) edges: Box<[Edge]>,
}

/// A receiver and its join: after replacing its QP, or leaving and joining again, it is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Joined {
    pub(crate) address: Ipv6Addr,
    pub(crate) since: u32,
    pub(crate) late: bool,
}

/// A receiver at its edge. What the edge does for it follows from its membership.
#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    pub(crate) address: Ipv6Addr,
    pub(crate) port: PortIndex,
    pub(crate) member: Arc<Member>,
}

impl Receiver {
    pub(crate) fn joined(&self) -> Joined {
        Joined { address: self.address, since: self.member.since, late: self.member.late }
    }
}

/// Whether an edge does the same for both.
impl PartialEq for Receiver {
    fn eq(&self, other: &Self) -> bool {
        let rest = |of: &Self| (of.port, of.member.qpn, of.member.memory, of.member.start);
        self.joined() == other.joined() && rest(self) == rest(other)
    }
}

impl Eq for Receiver {}

/// A node of the tree that has receivers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    at: u32,
    first: u32,
    end: u32,
    /// The list of its receivers is in End.MT TLVs; it is provisioned otherwise.
    pub(crate) in_band: bool,
}

impl Edge {
    /// The node at a position of the tree, with these of the group's receivers.
    pub(crate) fn new(at: usize, receivers: Range<usize>) -> Self {
        // A tree has at most MAX_NODES, a group at most MAX_MEMBERS.
        Self { at: at as u32, first: receivers.start as u32, end: receivers.end as u32, in_band: false }
    }

    /// Its position in the tree.
    pub(crate) fn at(&self) -> usize {
        self.at as usize
    }

    /// Its receivers among all.
    pub(crate) fn receivers(&self) -> Range<usize> {
        self.first as usize..self.end as usize
    }
}

impl Content {
    /// The edge at a position of the tree.
    pub(crate) fn edge(&self, at: usize) -> Option<&Edge> {
        self.edges.binary_search_by_key(&at, Edge::at).ok().map(|found| &self.edges[found])
    }

    /// The receivers of the node at a position of the tree.
    pub(crate) fn receivers(&self, at: usize) -> &[Receiver] {
        self.edge(at).map_or(&[], |edge| self.of(edge))
    }

    /// The receivers of an edge.
    pub(crate) fn of(&self, edge: &Edge) -> &[Receiver] {
        &self.receivers[edge.receivers()]
    }
}
