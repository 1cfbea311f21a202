// SPDX-License-Identifier: Apache-2.0
//! First hops of shortest paths from one node to all others.
//!
//! A level of nodes at the same distance is found from whichever side is less: from the level before, or from the nodes that are left, each
//! of which reads its neighbours until one is of the level before. In a fabric where everything is two hops away and has hundreds of
//! neighbours, that is a few of them.

use std::cmp::Reverse;

use crate::hash::mix;
use crate::hops::UNREACHED;
use crate::ranked::{self, Near};
use crate::topology::{Adjacent, Network, NodeIx};

/// So many links of the nodes that are left cost as much as one of a level: most of them are not read.
const UNREAD: usize = 4;

/// Of the neighbours of `node` that are nearer to some other node, paths from there lead over the one with the least of these.
pub(crate) fn rank(network: &Network, node: NodeIx, neighbour: NodeIx) -> (u64, NodeIx) {
    ranked::rank(network.id(node), network.id(neighbour), neighbour)
}

/// The first hop of a shortest path to each node.
pub(crate) struct FirstHops {
    /// By node: the number of its first hop plus one; 0 for the node itself, and for nodes that are not reached.
    pub(crate) of_nodes: Vec<u32>,
    pub(crate) hops: Vec<Adjacent>,
    /// By node: how many hops away it is; [`UNREACHED`]: it is not reached.
    pub(crate) distance: Vec<u16>,
}

/// First hops of paths from this node.
pub(crate) fn first_hops(network: &Network, from: NodeIx) -> FirstHops {
    let ranked = network.ranked();
    let mut distance = vec![UNREACHED; network.len()];
    distance[from] = 0;
    let (mut of_nodes, mut hops) = (vec![0; network.len()], Vec::new());
    let mut left: Vec<NodeIx> = (0..network.len()).filter(|node| *node != from).collect();
    // Links of the nodes that are left.
    let mut open: usize = left.iter().map(|node| network.degree(*node)).sum();
    let mut level = vec![from];
    for at in 1..UNREACHED {
        let nearer = |distance: &[u16], node: NodeIx| {
            let is_nearer = |near: &&Near| distance[near.to as usize] == at - 1 && network.is_way(near.link as usize);
            ranked.of_node(node).iter().find(is_nearer).map(|near| near.to as usize)
        };
        let links: usize = level.iter().map(|node| network.degree(*node)).sum();
        let mut found = Vec::new();
        if links * UNREAD < open || at == 1 {
            for a in level.iter().flat_map(|node| network.adjacent(*node)) {
                if distance[a.to] == UNREACHED {
                    distance[a.to] = at;
                    found.push(a.to);
                }
            }
            for &node in &found {
                if at == 1 {
                    hops.extend(direct(network, from, node));
                    of_nodes[node] = hops.len() as u32;
                } else {
                    of_nodes[node] = nearer(&distance, node).map_or(0, |near| of_nodes[near]);
                }
            }
        } else {
            left.retain(|node| {
                // Found from the other side before.
                if distance[*node] != UNREACHED {
                    return false;
                }
                let Some(near) = nearer(&distance, *node) else { return true };
                distance[*node] = at;
                of_nodes[*node] = of_nodes[near];
                found.push(*node);
                false
            });
        }
        if found.is_empty() {
            break;
        }
        open -= found.iter().map(|node| network.degree(*node)).sum::<usize>();
        level = found;
    }
    FirstHops { of_nodes, hops, distance }
}

/// To a neighbour: of parallel links, one with the largest MTU.
fn direct(network: &Network, from: NodeIx, to: NodeIx) -> Option<Adjacent> {
    let own = network.adjacent(from).filter(|a| a.to == to);
    own.min_by_key(|a| (Reverse(a.mtu), mix(u64::from(network.id(to).get()), u64::from(a.port.get())), a.port)).copied()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use canopy_model::addressing::AddressPlan;
    use canopy_model::topology::{Endpoint, TopologySpec};
    use proptest::prelude::*;

    use super::*;
    use crate::testing::clos::fat_tree;
    use crate::testing::{fabric, random_graph};

    /// The same by reading every link: of the neighbours of a node that are nearer, that of the least rank.
    fn by_all_links(network: &Network, from: NodeIx) -> Vec<Option<Adjacent>> {
        let (distance, order) = network.distances(from, |_| false);
        let mut hops: Vec<Option<Adjacent>> = vec![None; network.len()];
        for &node in &order[1..] {
            hops[node] = match distance[node] {
                1 => direct(network, from, node),
                _ => {
                    let nearer = network.adjacent(node).filter(|a| distance[a.to] + 1 == distance[node]);
                    nearer.min_by_key(|a| rank(network, node, a.to)).and_then(|a| hops[a.to])
                }
            };
        }
        hops
    }

    fn is_the_same(network: &Network) {
        let link = |a: &Adjacent| (a.to, a.link);
        for from in 0..network.len() {
            let FirstHops { of_nodes, hops, .. } = first_hops(network, from);
            let found: Vec<_> =
                of_nodes.iter().map(|number| Some(link(&hops[number.checked_sub(1)? as usize]))).collect();
            let all: Vec<_> = by_all_links(network, from).iter().map(|hop| hop.as_ref().map(link)).collect();
            assert_eq!(found, all, "from {from}");
        }
    }

    fn without(network: &Network, links: impl Iterator<Item = usize>) -> Network {
        let down: BTreeSet<Endpoint> = links.map(|link| network.spec.links[link].a.clone()).collect();
        network.with_links(&down, &[], &[])
    }

    proptest! {
        /// Catches a path over a link that is out of service, one that is longer, and another one of those that are as short.
        #[test]
        fn first_hops_are_those_that_all_links_give(
            parents in prop::collection::vec(any::<usize>(), 0..40), extra in prop::collection::vec(any::<(usize, usize)>(), 0..90), broken in any::<u64>(),
        ) {
            let whole = Network::build(random_graph(&parents, &extra), &AddressPlan::default()).unwrap();
            is_the_same(&whole);
            let links = whole.spec.links.len();
            is_the_same(&without(&whole, (0..links).filter(|link| broken >> (link % 64) & 1 == 1)));
        }
    }

    /// Catches a level that is found from the wrong side: both sides are less in one of these.
    #[test]
    fn first_hops_of_fabrics_are_those_that_all_links_give() {
        let with_parallel_links = |mut spec: TopologySpec| {
            spec.links.push(crate::testing::link("leaf1/again", "spine1/again"));
            spec
        };
        for spec in [fabric(40, 24, 0), fat_tree(8), with_parallel_links(fabric(24, 4, 0))] {
            let whole = Network::build(spec, &AddressPlan::default()).unwrap();
            is_the_same(&whole);
            let links = whole.spec.links.len();
            is_the_same(&without(&whole, (0..links).step_by(3)));
            // One of two parallel links.
            is_the_same(&without(&whole, 0..1));
            let left = whole.with_links(&BTreeSet::new(), &[], &[whole.name(1)]);
            is_the_same(&left);
        }
    }
}
