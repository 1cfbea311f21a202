// SPDX-License-Identifier: Apache-2.0
//! What the programs of a group's nodes follow from, beside the group's tree and its epochs.

use std::net::Ipv6Addr;
use std::ops::Range;

use canopy_model::ids::{PortIndex, Qpn};
use canopy_model::member::{LateStart, MemoryRegion};
use canopy_model::node_spec::{GroupProgram, Headend};

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

/// A receiver at its edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Receiver {
    pub(crate) joined: Joined,
    pub(crate) port: PortIndex,
    pub(crate) qpn: Qpn,
    pub(crate) memory: Option<MemoryRegion>,
    pub(crate) start: Option<LateStart>,
}

/// A node of the tree that has receivers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    /// Its position in the tree.
    pub(crate) at: usize,
    /// Its receivers among all.
    pub(crate) receivers: Range<usize>,
    /// Their list is in End.MT TLVs; it is provisioned otherwise.
    pub(crate) in_band: bool,
}

impl Content {
    /// The edge at a position of the tree.
    pub(crate) fn edge(&self, at: usize) -> Option<&Edge> {
        self.edges.binary_search_by_key(&at, |edge| edge.at).ok().map(|found| &self.edges[found])
    }

    /// The receivers of the node at a position of the tree.
    pub(crate) fn receivers(&self, at: usize) -> &[Receiver] {
        self.edge(at).map_or(&[], |edge| &self.receivers[edge.receivers.clone()])
    }
}
