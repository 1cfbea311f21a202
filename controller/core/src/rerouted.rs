// SPDX-License-Identifier: Apache-2.0
//! Nodes whose unicast routes another use of links changes.
//!
//! A path from node s to node w ends with a step from the neighbour of w that is nearer to s, of several from the one with the least
//! [`rank`]; the first hop to w is that to this neighbour. If links change, the neighbours of nodes at their ends change, and no others. So
//! where these ends stay at their distances from s, every node does, and if s reaches the former and the new neighbour of each end through
//! the same port, its first hops all stay.

use std::collections::BTreeSet;

use canopy_model::addressing::AddressPlan;
use canopy_model::routes::Routes;

use crate::first_hops::rank;
use crate::topology::{Network, NodeIx};

/// How a node is reached from another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Way {
    hops: u32,
    /// Over this neighbour of it, with its rank.
    by: (u64, NodeIx),
}

/// The nodes whose routes may be others in `new` than in `old`, two states of one network that use `links` differently, in the order of
/// their indexes. Two searches for each end of these links, and a few comparisons per node; only theirs are made anew. Where there are hosts
/// with several links, also nodes that reach other nodes of such hosts than before.
///
/// `routes`: of a node in `old`.
pub(crate) fn rerouted<'a>(
    [old, new]: [&Network; 2],
    plan: &AddressPlan,
    links: &BTreeSet<usize>,
    routes: impl Fn(NodeIx) -> &'a Routes,
) -> Vec<NodeIx> {
    let hop = |from, by: NodeIx| routes(from).to(plan.un(new.id(by))).map(|route| route.port);
    let changes = |from: NodeIx, before: Way, after: Way| {
        before.hops != after.hops || (before.by != after.by && hop(from, before.by.1) != hop(from, after.by.1))
    };
    let ends: BTreeSet<NodeIx> = links.iter().filter_map(|link| new.ends(*link)).flatten().collect();
    let mut rerouted = vec![false; new.len()];
    ends.iter().for_each(|end| rerouted[*end] = true);
    // Which node of a host with several links is the best to reach depends on more than where the ends are.
    let homes: BTreeSet<NodeIx> = new.shared().iter().flatten().copied().collect();
    if !homes.is_empty() {
        old.regions().moved(new.regions(), &homes).for_each(|node| rerouted[node] = true);
    }
    // One end after the other: a drained node has hundreds of them, and a search has an entry for every node.
    for end in ends {
        let (before, after) = (ways_to(old, end), ways_to(new, end));
        for (from, is_other) in rerouted.iter_mut().enumerate().filter(|(_, is_other)| !**is_other) {
            *is_other = changes(from, before[from], after[from]);
        }
    }
    (0..new.len()).filter(|node| rerouted[*node]).collect()
}

/// For each node, how `end` is reached from there.
fn ways_to(network: &Network, end: NodeIx) -> Vec<Way> {
    let unreached = Way { hops: u32::MAX, by: (u64::MAX, end) };
    let mut ways = vec![unreached; network.len()];
    ways[end].hops = 0;
    let (mut order, mut next) = (vec![end], 0);
    while let Some(&node) = order.get(next) {
        next += 1;
        let way = ways[node];
        for a in network.adjacent(node) {
            let by = if node == end { rank(network, end, a.to) } else { way.by };
            let found = &mut ways[a.to];
            if found.hops == u32::MAX {
                *found = Way { hops: way.hops + 1, by };
                order.push(a.to);
            } else if found.hops == way.hops + 1 {
                found.by = found.by.min(by);
            }
        }
    }
    ways
}

#[cfg(test)]
mod tests {
    use canopy_model::drain::DrainTarget;
    use canopy_model::node_spec::NodeBase;
    use canopy_model::topology::Endpoint;
    use proptest::prelude::*;

    use super::*;
    use crate::routes::node_base;
    use crate::testing::{fabric, random_graph, with_multi_homed};

    fn bases(network: &Network) -> Vec<NodeBase> {
        (0..network.len()).map(|node| node_base(network, &AddressPlan::default(), None, node)).collect()
    }

    /// Those that are found, and those that are truly others.
    fn both(old: &Network, new: &Network) -> [Vec<NodeIx>; 2] {
        let (before, after) = (bases(old), bases(new));
        let links = old.difference(new).paths;
        let found = rerouted([old, new], &AddressPlan::default(), &links, |node| &before[node].routes);
        let other = (0..old.len()).filter(|node| before[*node] != after[*node]).collect();
        [found, other]
    }

    fn without(network: &Network, links: &[usize]) -> Network {
        let down: BTreeSet<Endpoint> = links.iter().map(|link| network.spec.links[*link].a.clone()).collect();
        network.with_links(&down, &[], &[])
    }

    proptest! {
        /// Catches a node that is left with routes over a link that is gone, or without those over one that is back.
        #[test]
        fn every_node_with_other_routes_is_found(
            parents in prop::collection::vec(any::<usize>(), 0..14), extra in prop::collection::vec(any::<(usize, usize)>(), 0..24),
            first in any::<u64>(), second in any::<u64>(), drained in any::<u64>(), homes in prop::collection::vec(any::<usize>(), 0..4),
        ) {
            let mut spec = random_graph(&parents, &extra);
            let between = spec.links.len();
            if !homes.is_empty() {
                spec = with_multi_homed(spec, &homes);
            }
            let whole = Network::build(spec, &AddressPlan::default()).unwrap();
            let some = |bits: u64| -> Vec<usize> {
                (0..between).filter(|link| bits >> (link % 64) & (bits >> ((link + 17) % 64)) & 1 == 1).collect()
            };
            let (old, mut new) = (without(&whole, &some(first)), without(&whole, &some(second)));
            let labels: Vec<String> = some(drained).into_iter().map(|link| whole.spec.links[link].label()).collect();
            let drains: Vec<DrainTarget<'_>> = labels.iter().map(|label| DrainTarget::Link(label)).collect();
            let down = some(second).into_iter().map(|link| whole.spec.links[link].a.clone()).collect();
            for drains in [&[][..], &drains] {
                new = new.with_links(&down, drains, &[]);
                for [old, new] in [[&old, &new], [&new, &old]] {
                    let [found, other] = both(old, new);
                    prop_assert!(other.iter().all(|node| found.contains(node)), "{:?} of {:?}", other, found);
                }
            }
        }
    }

    /// Catches a search that names all nodes: in a fabric with equal paths most first hops stay.
    #[test]
    fn the_nodes_that_are_found_are_few_in_a_fabric() {
        let whole = Network::build(fabric(24, 4, 0), &AddressPlan::default()).unwrap();
        let all = whole.spec.links.len();
        let mut sums = [0, 0];
        for link in 0..all {
            let broken = without(&whole, &[link]);
            for [old, new] in [[&whole, &broken], [&broken, &whole]] {
                let [found, other] = both(old, new);
                assert!(other.iter().all(|node| found.contains(node)));
                sums[0] += found.len();
                sums[1] += other.len();
            }
        }
        let [found, other] = sums.map(|sum| sum as f64 / (2 * all) as f64);
        println!("{found:.1} of {} nodes are made anew for one link, {other:.1} are others", whole.len());
        assert!(found < other * 1.5, "{found} for {other}");
    }
}
