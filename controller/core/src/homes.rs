// SPDX-License-Identifier: Apache-2.0
//! Which node of a host with several links packets without a program are led to.
//!
//! To the nearest one of those that are best to reach. What a node reaches so, the next node does, too, and it is nearer to that one than this
//! node is to any of them: no packet goes round. Hosts behind the same nodes have their routes together; one of which packets should
//! not take some link has an exception at every node that it is not behind by another one.

use std::collections::{BTreeMap, BTreeSet};

use canopy_model::addressing::AddressPlan;
use canopy_model::routes::{FirstHop, Route, Routes};

use crate::hash::mix;
use crate::topology::{Network, NodeIx, PartlyCut};

/// The one of these nodes that `from` leads packets to.
pub(crate) fn nearest(
    network: &Network,
    from: NodeIx,
    homes: &[NodeIx],
    distance: impl Fn(NodeIx) -> u32,
) -> Option<NodeIx> {
    let order = |to: &NodeIx| {
        let tie = mix(network.id(from).get().into(), network.id(*to).get().into());
        (network.regions().reach(from, *to), distance(*to), tie)
    };
    homes.iter().copied().min_by_key(order)
}

/// The routes of a node to hosts of which packets should not take some link.
pub(crate) fn exceptions(
    network: &Network,
    from: NodeIx,
    distance: impl Fn(NodeIx) -> u32,
    hop: impl Fn(NodeIx) -> Option<FirstHop>,
) -> Vec<Route> {
    let route = |(prefix, homes, sound): &PartlyCut| {
        // Groups need the host at a link that is drained: its node keeps to it.
        if sound.contains(&from) {
            return None;
        }
        let (port, next_hop) = hop(nearest(network, from, homes, &distance)?)?;
        Some(Route { prefix: *prefix, port, next_hop })
    };
    network.partly_cut().iter().filter_map(route).collect()
}

/// Exceptions of nodes whose other routes are as they were.
pub(crate) struct Exceptions<'a> {
    network: &'a Network,
    plan: &'a AddressPlan,
    /// From the nodes that packets may be led to.
    distances: BTreeMap<NodeIx, Vec<u32>>,
}

impl<'a> Exceptions<'a> {
    /// A search for each node that such hosts are behind.
    pub(crate) fn new(network: &'a Network, plan: &'a AddressPlan) -> Self {
        let homes: BTreeSet<NodeIx> = network.partly_cut().iter().flat_map(|(_, homes, _)| homes).copied().collect();
        let distances = homes.into_iter().map(|home| (home, network.distances(home, |_| false).0)).collect();
        Self { network, plan, distances }
    }

    /// Those of a node with these routes.
    pub(crate) fn of(&self, from: NodeIx, routes: &Routes) -> Vec<Route> {
        let distance = |to: NodeIx| self.distances.get(&to).map_or(u32::MAX, |from_there| from_there[from]);
        let hop = |to: NodeIx| {
            let route = routes.to(self.plan.un(self.network.id(to)))?;
            Some((route.port, route.next_hop))
        };
        exceptions(self.network, from, distance, hop)
    }
}
