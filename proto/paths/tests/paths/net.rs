// SPDX-License-Identifier: Apache-2.0
//! Fabrics that tests build link by link: the list of links is what the slow oracle reads, so that it shares nothing with the crate.

use std::net::Ipv6Addr;

use canopy_model::ids::{NodeId, PortIndex};
use canopy_model::usid::UsidBlock;
use canopy_paths::fabric::{Ends, Fabric, PortOf};
use canopy_paths::pair::Paths;
use canopy_paths::path::{Attachment, Path, Style};
use canopy_paths::program::Header;

/// A link: node and port at each end, or a host's at one end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub(crate) a: (u16, u16),
    pub(crate) b: Option<(u16, u16)>,
    pub(crate) mtu: u32,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Net {
    pub(crate) nodes: Vec<u16>,
    pub(crate) links: Vec<Link>,
    ports: Vec<u16>,
}

impl Net {
    pub(crate) fn new(nodes: impl IntoIterator<Item = u16>) -> Self {
        let nodes: Vec<u16> = nodes.into_iter().collect();
        Self { ports: vec![0; nodes.len()], nodes, links: Vec::new() }
    }

    fn port(&mut self, node: u16) -> (u16, u16) {
        let ix = self.nodes.iter().position(|&n| n == node).unwrap();
        self.ports[ix] += 1;
        (node, self.ports[ix])
    }

    /// Connects two nodes at their next ports.
    pub(crate) fn link(&mut self, a: u16, b: u16) {
        let (a, b) = (self.port(a), self.port(b));
        self.links.push(Link { a, b: Some(b), mtu: 9000 });
    }

    /// Connects a host at the node's next port.
    pub(crate) fn host(&mut self, node: u16) -> Attachment {
        let a = self.port(node);
        self.links.push(Link { a, b: None, mtu: 9000 });
        Attachment { edge: port_of(a), link: self.links.len() - 1 }
    }

    pub(crate) fn fabric(&self) -> Fabric {
        let links = self.links.iter().map(|link| {
            let ends = match link.b {
                Some(b) => Ends::Nodes(port_of(link.a), port_of(b)),
                None => Ends::Host(port_of(link.a)),
            };
            (ends, link.mtu)
        });
        Fabric::new(block(), self.nodes.iter().map(|&n| id(n)), links).unwrap()
    }

    /// The only path over these nodes.
    pub(crate) fn over(&self, paths: &Paths, nodes: &[u16]) -> Path {
        let is_it = |path: &&Path| path.nodes().map(NodeId::get).eq(nodes.iter().copied());
        let mut found = paths.list.iter().map(|ranked| &ranked.path).filter(is_it);
        let path = found.next().unwrap_or_else(|| panic!("no path over {nodes:x?}"));
        assert!(found.next().is_none());
        path.clone()
    }
}

pub(crate) fn id(node: u16) -> NodeId {
    NodeId::new("node", node.into()).unwrap()
}

pub(crate) fn port_of((node, port): (u16, u16)) -> PortOf {
    PortOf { node: id(node), port: PortIndex::new("port", port.into()).unwrap() }
}

pub(crate) fn block() -> UsidBlock {
    UsidBlock::at_front("5f00::".parse().unwrap())
}

pub(crate) fn address(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

/// The destination address on each link but that of the destination.
pub(crate) fn destinations(path: &Path, fabric: &Fabric, style: Style) -> Vec<Ipv6Addr> {
    path.headers(fabric, style, None).unwrap().into_iter().map(|header: Header| header.destination).collect()
}
