// SPDX-License-Identifier: Apache-2.0
//! One path of a pair of hosts: its program, its headers on the way, its MTU.

use std::iter;

use canopy_model::ids::{NodeId, ServiceId};
use canopy_model::usid::Usid;

use crate::fabric::{Fabric, PortOf};
use crate::program::{Header, NotAProgram, Program};

/// Where a host is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// The edge and its port.
    pub edge: PortOf,
    /// Place of the link in the list that the fabric was made of.
    pub link: usize,
}

/// A link between two nodes, in the direction of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The port by which it leaves a node.
    pub from: PortOf,
    /// The node that it leads to.
    pub to: NodeId,
    /// Place of the link in the list that the fabric was made of.
    pub link: usize,
    /// Other links connect the same two nodes.
    pub is_parallel: bool,
}

/// A path from a host to another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// Where it leaves the source.
    pub from: Attachment,
    /// From the first edge to the last one; none if they are the same.
    pub hops: Vec<Hop>,
    /// Where it reaches the destination.
    pub to: Attachment,
    /// What links between nodes connect: paths of two planes share the hosts only.
    pub plane: usize,
}

/// Which uSIDs name a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// The uN of every node; behind it the uA of the link where another one leads to the same node.
    Nodes,
    /// The uA of every link, in the local block; the last one is that of the destination.
    Links,
}

impl Path {
    /// The nodes in order.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> {
        iter::once(self.from.edge.node).chain(self.hops.iter().map(|hop| hop.to))
    }

    /// All links, those of the hosts with them.
    pub fn links(&self) -> impl Iterator<Item = usize> {
        iter::once(self.from.link).chain(self.hops.iter().map(|hop| hop.link)).chain(iter::once(self.to.link))
    }

    /// The uSIDs that each node carries out, the last edge's included.
    fn by_node(&self, style: Style, service: Option<ServiceId>) -> Vec<Vec<Usid>> {
        let at_last = |last: NodeId| match (style, service) {
            (_, Some(service)) => vec![Usid::Node(last), Usid::Service(service)],
            (Style::Nodes, None) => vec![Usid::Node(last)],
            (Style::Links, None) => vec![Usid::Adjacency(self.to.edge.port)],
        };
        let of_hop = |hop: &Hop| {
            let link = Usid::Adjacency(hop.from.port);
            match style {
                Style::Links => vec![link],
                Style::Nodes if hop.is_parallel => vec![Usid::Node(hop.from.node), link],
                Style::Nodes => vec![Usid::Node(hop.from.node)],
            }
        };
        self.hops.iter().map(of_hop).chain(iter::once(at_last(self.to.edge.node))).collect()
    }

    /// The program that leads along the path, to a service of the last edge if one is given.
    ///
    /// # Errors
    /// It has too many links.
    pub fn program(&self, style: Style, service: Option<ServiceId>) -> Result<Program, NotAProgram> {
        Program::new(self.by_node(style, service).concat())
    }

    /// The path that leads along this one to its last edge, and back to the host over the links of `back`, which leads from the same edge to the
    /// same one: what a probe in loopback takes (draft-ietf-spring-stamp-srpm; decisions 5.6). `None`: they are not such paths, or have no link
    /// between nodes.
    pub fn there_and_back(&self, back: &Self, fabric: &Fabric) -> Option<Self> {
        let ends = |path: &Self| (path.from.edge, path.to.edge.node);
        if ends(self) != ends(back) || self.hops.is_empty() {
            return None;
        }
        let turned = |(hop, to): (&Hop, NodeId)| {
            let from = PortOf { node: hop.to, port: fabric.port_of_link(hop.to, hop.link)? };
            Some(Hop { from, to, ..*hop })
        };
        let nodes: Vec<NodeId> = back.nodes().collect();
        let mut hops = self.hops.clone();
        for hop in back.hops.iter().zip(nodes).rev().map(turned) {
            hops.push(hop?);
        }
        Some(Self { from: self.from, hops, to: self.from, plane: self.plane })
    }

    /// The header on each link but that of the destination, in order. The first one is the source's.
    ///
    /// # Errors
    /// The path has too many links.
    pub fn headers(
        &self,
        fabric: &Fabric,
        style: Style,
        service: Option<ServiceId>,
    ) -> Result<Vec<Header>, NotAProgram> {
        let mut header = self.program(style, service)?.encode(fabric.block());
        let mut headers = vec![header.clone()];
        for usids in self.by_node(style, service).iter().take(self.hops.len()) {
            for _ in usids {
                // The last edge has uSIDs of its own, so that the program does not end before.
                header = header.carried_out().unwrap_or(header);
            }
            headers.push(header.clone());
        }
        Ok(headers)
    }

    /// The largest packet of a host that the path carries behind this header. The destination's link carries it without the header.
    pub fn mtu(&self, fabric: &Fabric, header: &Header) -> u32 {
        let with_header = iter::once(self.from.link).chain(self.hops.iter().map(|hop| hop.link));
        let least = with_header.map(|link| fabric.mtu(link)).min().unwrap_or(0);
        let inner = least.saturating_sub(u32::try_from(header.overhead().get()).unwrap_or(u32::MAX));
        inner.min(fabric.mtu(self.to.link))
    }
}
