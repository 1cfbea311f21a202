// SPDX-License-Identifier: Apache-2.0
//! The network that paths lead through, by numbers only: nodes, their ports, the links between them.
//!
//! A node's *tier* is its distance from the nearest node with hosts, and its *plane* is what links between nodes connect. A plane is
//! *tiered* if each of its links connects neighbouring tiers, as in a folded Clos of any number of tiers.

use std::collections::BTreeMap;

use canopy_model::ids::{NodeId, PortIndex};
use canopy_model::usid::UsidBlock;

/// Place of a node in a [`Fabric`], in ascending order of their numbers.
pub(crate) type NodeIx = usize;

/// A port of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortOf {
    /// The node.
    pub node: NodeId,
    /// The port's number, which is that of its uA.
    pub port: PortIndex,
}

/// A link, by its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// Between two nodes.
    Nodes(PortOf, PortOf),
    /// Between a node and a host.
    Host(PortOf),
}

/// Nodes and links.
#[derive(Clone, Debug)]
pub struct Fabric {
    block: UsidBlock,
    ids: Vec<NodeId>,
    ports: Vec<Vec<Port>>,
    mtus: Vec<u32>,
    planes: Vec<usize>,
    tiers: Vec<u32>,
    /// By plane.
    tiered: Vec<bool>,
    span: u32,
    top: u32,
    is_clos: bool,
}

/// A port of a node with what is behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Port {
    pub(crate) port: PortIndex,
    /// Place of its link in the list that the fabric was made of.
    pub(crate) link: usize,
    /// `None`: a host.
    pub(crate) far: Option<NodeIx>,
}

/// A list that is not a fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAFabric {
    /// Two nodes have one number.
    #[error("node {0} is there twice")]
    NodeTwice(NodeId),
    /// A link ends at a node that is not there.
    #[error("link {link} ends at node {node}, which is not there")]
    UnknownNode {
        /// Its place in the list.
        link: usize,
        /// The node.
        node: NodeId,
    },
    /// Two links end at one port.
    #[error("two links end at port {} of node {}", .0.port, .0.node)]
    PortTwice(PortOf),
}

impl Fabric {
    /// From nodes, and links with their MTUs. Work is in the order of their number.
    ///
    /// # Errors
    /// What is there twice or not at all.
    pub fn new(
        block: UsidBlock,
        nodes: impl IntoIterator<Item = NodeId>,
        links: impl IntoIterator<Item = (Ends, u32)>,
    ) -> Result<Self, NotAFabric> {
        let mut ids: Vec<NodeId> = nodes.into_iter().collect();
        ids.sort_unstable();
        if let Some(twice) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(NotAFabric::NodeTwice(twice[0]));
        }
        let mut by_port: Vec<BTreeMap<PortIndex, Port>> = vec![BTreeMap::new(); ids.len()];
        let mut mtus = Vec::new();
        for (link, (ends, mtu)) in links.into_iter().enumerate() {
            mtus.push(mtu);
            let find = |end: PortOf| {
                ids.binary_search(&end.node).map_err(|_| NotAFabric::UnknownNode { link, node: end.node })
            };
            let both = match ends {
                Ends::Nodes(a, b) => vec![(a, Some(find(b)?)), (b, Some(find(a)?))],
                Ends::Host(a) => vec![(a, None)],
            };
            for (end, far) in both {
                if by_port[find(end)?].insert(end.port, Port { port: end.port, link, far }).is_some() {
                    return Err(NotAFabric::PortTwice(end));
                }
            }
        }
        let mut ports: Vec<Vec<Port>> = by_port.into_iter().map(|ports| ports.into_values().collect()).collect();
        // Ascending numbers of neighbours, hosts first.
        ports.iter_mut().for_each(|ports| ports.sort_by_key(|port| (port.far, port.port)));
        let (planes, tiers) = (planes(&ports), tiers(&ports));
        let mut tiered = vec![true; planes.iter().max().map_or(0, |last| last + 1)];
        for (node, ports) in ports.iter().enumerate() {
            let is_tiered = ports.iter().filter_map(|port| port.far).all(|far| tiers[node].abs_diff(tiers[far]) == 1);
            tiered[planes[node]] &= is_tiered;
        }
        let span = span(&ports, &planes, &tiers);
        let top = tiers.iter().filter(|tier| **tier != u32::MAX).max().copied().unwrap_or(0);
        let mut with_hosts = planes.iter().zip(&tiers).filter(|(_, tier)| **tier == 0);
        let is_clos = with_hosts.all(|(plane, _)| tiered[*plane]) && span <= 2 * top;
        Ok(Self { block, ids, ports, mtus, planes, tiers, tiered, span, top, is_clos })
    }

    /// The block of its uSIDs.
    pub fn block(&self) -> UsidBlock {
        self.block
    }

    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(crate) fn find(&self, node: NodeId) -> Option<NodeIx> {
        self.ids.binary_search(&node).ok()
    }

    pub(crate) fn id(&self, node: NodeIx) -> NodeId {
        self.ids[node]
    }

    /// The links from a node to other nodes, in ascending order of the nodes' and ports' numbers.
    pub(crate) fn neighbours(&self, node: NodeIx) -> impl Iterator<Item = (Port, NodeIx)> {
        self.ports[node].iter().filter_map(|port| Some((*port, port.far?)))
    }

    /// The links between two nodes, at the first one's ports.
    pub(crate) fn between(&self, node: NodeIx, far: NodeIx) -> &[Port] {
        let ports = &self.ports[node];
        let first = ports.partition_point(|port| port.far < Some(far));
        let behind = ports.partition_point(|port| port.far <= Some(far));
        &ports[first..behind]
    }

    pub(crate) fn port(&self, node: NodeIx, port: PortIndex) -> Option<Port> {
        self.ports[node].iter().find(|info| info.port == port).copied()
    }

    /// The port by which a link leaves a node.
    pub(crate) fn port_of_link(&self, node: NodeId, link: usize) -> Option<PortIndex> {
        self.ports[self.find(node)?].iter().find(|port| port.link == link).map(|port| port.port)
    }

    pub(crate) fn mtu(&self, link: usize) -> u32 {
        self.mtus[link]
    }

    pub(crate) fn plane(&self, node: NodeIx) -> usize {
        self.planes[node]
    }

    pub(crate) fn tier(&self, node: NodeIx) -> u32 {
        self.tiers[node]
    }

    /// The highest tier of a node.
    pub(crate) fn top(&self) -> u32 {
        self.top
    }

    /// Links, also those to hosts.
    pub(crate) fn links(&self) -> usize {
        self.mtus.len()
    }

    pub(crate) fn is_tiered(&self, plane: usize) -> bool {
        self.tiered[plane]
    }

    /// Links of the longest of the shortest paths between nodes with hosts. Exact in a Clos and in a tree; in any other graph it is that of a pair
    /// which is far apart.
    pub(crate) fn span(&self) -> u32 {
        self.span
    }

    /// Every plane with hosts is a Clos, as far as its tiers and the span show.
    pub(crate) fn is_clos(&self) -> bool {
        self.is_clos
    }
}

/// The plane of each node, numbered in the order of their first nodes.
fn planes(ports: &[Vec<Port>]) -> Vec<usize> {
    let mut planes = vec![usize::MAX; ports.len()];
    let mut next = 0;
    for start in 0..ports.len() {
        if planes[start] != usize::MAX {
            continue;
        }
        let mut open = vec![start];
        while let Some(node) = open.pop() {
            if planes[node] == usize::MAX {
                planes[node] = next;
                open.extend(ports[node].iter().filter_map(|port| port.far));
            }
        }
        next += 1;
    }
    planes
}

/// The tier of each node; `u32::MAX` in a plane without hosts.
fn tiers(ports: &[Vec<Port>]) -> Vec<u32> {
    let mut tiers = vec![u32::MAX; ports.len()];
    let mut level: Vec<NodeIx> =
        (0..ports.len()).filter(|&node| ports[node].iter().any(|port| port.far.is_none())).collect();
    let mut tier = 0;
    while !level.is_empty() {
        level.retain(|&node| {
            let is_new = tiers[node] == u32::MAX;
            tiers[node] = tiers[node].min(tier);
            is_new
        });
        level = level.iter().flat_map(|&node| ports[node].iter().filter_map(|port| port.far)).collect();
        tier += 1;
    }
    tiers
}

/// See [`Fabric::span`]. Two searches for each plane.
fn span(ports: &[Vec<Port>], planes: &[usize], tiers: &[u32]) -> u32 {
    let mut first = BTreeMap::new();
    for (node, plane) in planes.iter().enumerate().filter(|(node, _)| tiers[*node] == 0) {
        first.entry(plane).or_insert(node);
    }
    let span = |node: &NodeIx| farthest(ports, tiers, farthest(ports, tiers, *node).1).0;
    first.values().map(span).max().unwrap_or(0)
}

/// The links to the node with hosts that is farthest away, and that node.
fn farthest(ports: &[Vec<Port>], tiers: &[u32], from: NodeIx) -> (u32, NodeIx) {
    let mut distances = vec![u32::MAX; ports.len()];
    distances[from] = 0;
    let (mut order, mut next, mut found) = (vec![from], 0, (0, from));
    while let Some(&node) = order.get(next) {
        next += 1;
        if tiers[node] == 0 {
            found = (distances[node], node);
        }
        for far in ports[node].iter().filter_map(|port| port.far) {
            if distances[far] == u32::MAX {
                distances[far] = distances[node] + 1;
                order.push(far);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(node: u16, port: u16) -> PortOf {
        let (node, port) = (u64::from(node), u64::from(port));
        PortOf { node: NodeId::new("node", node).unwrap(), port: PortIndex::new("port", port).unwrap() }
    }

    fn fabric(nodes: &[u16], links: &[Ends]) -> Result<Fabric, NotAFabric> {
        let block = UsidBlock::at_front("5f00::".parse().unwrap());
        let nodes = nodes.iter().map(|&node| end(node, 1).node);
        Fabric::new(block, nodes, links.iter().map(|&ends| (ends, 9000)))
    }

    /// Catches a tier or a plane that follows from the order in which nodes are declared, and a link within a tier that goes unnoticed.
    #[test]
    fn tiers_and_planes_follow_from_links_and_hosts() {
        let two_planes = [
            Ends::Host(end(1, 1)),
            Ends::Nodes(end(9, 1), end(1, 2)),
            Ends::Nodes(end(9, 2), end(7, 1)),
            Ends::Host(end(4, 1)),
            Ends::Host(end(3, 1)),
            Ends::Nodes(end(3, 2), end(4, 2)),
        ];
        let f = fabric(&[9, 1, 7, 3, 4], &two_planes).unwrap();
        let of = |id: u16| {
            let node = f.find(end(id, 1).node).unwrap();
            (f.plane(node), f.tier(node), f.is_tiered(f.plane(node)))
        };
        assert_eq!([1, 9, 7].map(of), [(0, 0, true), (0, 1, true), (0, 2, true)]);
        assert_eq!([3, 4].map(of), [(1, 0, false), (1, 0, false)], "a link within a tier");
    }

    #[test]
    fn parallel_links_are_found_from_both_ends() {
        let links =
            [Ends::Nodes(end(1, 2), end(2, 4)), Ends::Nodes(end(1, 3), end(2, 1)), Ends::Nodes(end(1, 1), end(3, 1))];
        let f = fabric(&[1, 2, 3], &links).unwrap();
        let between = |a, b| f.between(a, b).iter().map(|port| (port.port.get(), port.link)).collect::<Vec<_>>();
        assert_eq!((between(0, 1), between(1, 0)), (vec![(2, 0), (3, 1)], vec![(1, 1), (4, 0)]));
        assert_eq!((between(0, 2), between(1, 2)), (vec![(1, 2)], vec![]));
    }

    #[test]
    fn what_is_there_twice_or_not_at_all_is_named() {
        let refused = |nodes: &[u16], links: &[Ends]| fabric(nodes, links).unwrap_err().to_string();
        assert_eq!(refused(&[1, 1], &[]), "node 1 is there twice");
        let link = Ends::Nodes(end(1, 1), end(2, 1));
        assert_eq!(refused(&[1], &[link]), "link 0 ends at node 2, which is not there");
        assert_eq!(refused(&[1, 2], &[link, Ends::Host(end(2, 1))]), "two links end at port 1 of node 2");
    }
}
