// SPDX-License-Identifier: Apache-2.0
//! The routes and neighbours that the programs look up per packet, over all groups. A change costs the groups that changed.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::Ipv6Addr;

use canopy_model::ids::PortIndex;
use canopy_model::node_spec::{BranchKind, GroupProgram};
use canopy_model::programs::Programs;

/// A route to a child node or to the parent on the port that the tree uses: destination, port, next hop.
pub type HopRoute = (Ipv6Addr, PortIndex, Ipv6Addr);
/// A next hop on a port.
pub type Neighbour = (PortIndex, Ipv6Addr);

/// What the groups need, and how many branches need it.
#[derive(Clone, Debug, Default)]
pub struct Hops {
    programs: Programs,
    routes: BTreeMap<HopRoute, usize>,
    neighbours: BTreeMap<Neighbour, usize>,
}

impl Hops {
    /// Follows the groups to `programs`; returns whether a route or a neighbour came or went.
    pub fn follow(&mut self, programs: &Programs) -> bool {
        let before = std::mem::replace(&mut self.programs, programs.clone());
        let mut others = false;
        for (id, program) in programs.changed_since(&before) {
            // First what is needed now: what both need stays.
            if let Some(program) = program {
                routes(program).for_each(|route| others |= need(&mut self.routes, route));
                neighbours(program).for_each(|hop| others |= need(&mut self.neighbours, hop));
            }
            if let Some(old) = before.get(&id) {
                routes(old).for_each(|route| others |= release(&mut self.routes, route));
                neighbours(old).for_each(|hop| others |= release(&mut self.neighbours, hop));
            }
        }
        others
    }

    /// The routes.
    pub fn routes(&self) -> impl Iterator<Item = &HopRoute> {
        self.routes.keys()
    }

    /// The neighbours.
    pub fn neighbours(&self) -> impl Iterator<Item = &Neighbour> {
        self.neighbours.keys()
    }
}

#[cfg(test)]
impl Hops {
    /// Those of one tree.
    pub(crate) fn of(route: HopRoute) -> Self {
        Self { routes: BTreeMap::from([(route, 1)]), ..Self::default() }
    }
}

/// One more branch needs `key`; returns whether it is the first.
fn need<K: Ord>(counts: &mut BTreeMap<K, usize>, key: K) -> bool {
    let count = counts.entry(key).or_default();
    *count += 1;
    *count == 1
}

/// One branch less needs `key`; returns whether it was the last.
fn release<K: Ord>(counts: &mut BTreeMap<K, usize>, key: K) -> bool {
    let Entry::Occupied(mut count) = counts.entry(key) else { return false };
    *count.get_mut() -= 1;
    let was_last = *count.get() == 0;
    if was_last {
        count.remove();
    }
    was_last
}

fn routes(g: &GroupProgram) -> impl Iterator<Item = HopRoute> + '_ {
    let nodes = g.branches.iter().filter(|b| matches!(b.kind, BranchKind::Node { .. }));
    let up = &g.upstream;
    let parent = (up.next_hop != up.destination).then_some((up.destination, up.port, up.next_hop));
    nodes.map(|b| (b.address, b.port, b.next_hop)).chain(parent)
}

/// The next hops of a group.
pub fn neighbours(g: &GroupProgram) -> impl Iterator<Item = Neighbour> + '_ {
    g.branches.iter().map(|b| (b.port, b.next_hop)).chain([(g.upstream.port, g.upstream.next_hop)])
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::testing::{any, branch, index, program};

    fn programs(all: impl IntoIterator<Item = GroupProgram>) -> Programs {
        all.into_iter().map(|program| (program.group_id, program)).collect()
    }

    /// The ports of the routes, and of the neighbours.
    fn ports(hops: &Hops) -> (Vec<u16>, Vec<u16>) {
        (
            hops.routes().map(|(_, port, _)| port.get()).collect(),
            hops.neighbours().map(|(port, _)| port.get()).collect(),
        )
    }

    #[test]
    fn a_hop_is_there_as_long_as_a_group_needs_it() {
        let mut hops = Hops::default();
        assert!(hops.follow(&programs([program(1, [2, 3]), program(2, [3, 4])])));
        assert_eq!(ports(&hops), (vec![2, 3, 4], vec![1, 2, 3, 4]), "the source behind port 1 is no node");
        assert_eq!(hops.routes().next(), Some(&(branch(2).address, index(2), any())));
        assert!(!hops.follow(&programs([program(1, [2, 3]), program(2, [4])])), "what is needed is the same");
        assert_eq!(ports(&hops), (vec![2, 3, 4], vec![1, 2, 3, 4]), "group 1 still has a child behind port 3");
        assert!(hops.follow(&programs([program(2, [4])])), "what only group 1 needed is gone");
        assert_eq!(ports(&hops), (vec![4], vec![1, 4]));
        assert!(hops.follow(&Programs::default()));
        assert_eq!(ports(&hops), (vec![], vec![]));
    }

    #[test]
    fn a_parent_node_has_a_route_and_receivers_have_none() {
        let mut g = program(1, [2, 3]);
        g.branches[1].kind = BranchKind::Receiver { qpn: g.designated_qpn, memory: None };
        g.upstream.next_hop = "fe80::9".parse().unwrap();
        let mut hops = Hops::default();
        hops.follow(&programs([g.clone()]));
        let upstream = (g.upstream.destination, index(1), g.upstream.next_hop);
        assert_eq!(hops.routes().copied().collect::<Vec<_>>(), [(branch(2).address, index(2), any()), upstream]);
        assert_eq!(ports(&hops).1, [1, 2, 3]);
    }
}
