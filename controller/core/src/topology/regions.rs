// SPDX-License-Identifier: Apache-2.0
//! Nodes that reach each other over links in service, or over links that carry packets.
//!
//! Paths stay in a region where they can: of the links out of service they lead over those alone that join regions.

use std::collections::{BTreeMap, BTreeSet};

use super::{Network, NodeIx};

/// How one node reaches another one, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reach {
    /// Over links in service.
    InService,
    /// Over links that are drained, too.
    Drained,
    /// Not by what is known.
    Dead,
}

/// The regions of a state of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Regions {
    /// By node: the first node of its region.
    in_service: Vec<NodeIx>,
    sound: Vec<NodeIx>,
}

impl Regions {
    /// Follows each link twice.
    pub(super) fn of(network: &Network) -> Self {
        Self {
            in_service: first_nodes(network, |link| !network.is_dead(link) && !network.is_drained(link)),
            sound: first_nodes(network, |link| !network.is_dead(link)),
        }
    }

    /// The nodes that reach others of `homes` in `next` than here, over links in service or over links that carry packets. Work is in the order of
    /// the nodes, and for each region of the homes.
    pub(crate) fn moved(&self, next: &Self, homes: &BTreeSet<NodeIx>) -> impl Iterator<Item = NodeIx> {
        let in_service = others(&self.in_service, &next.in_service, homes);
        let sound = others(&self.sound, &next.sound, homes);
        (0..self.sound.len()).filter(move |node| in_service[*node] || sound[*node])
    }

    /// How `to` is reached from `from`.
    pub(crate) fn reach(&self, from: NodeIx, to: NodeIx) -> Reach {
        if self.in_service[from] == self.in_service[to] {
            Reach::InService
        } else if self.sound[from] == self.sound[to] {
            Reach::Drained
        } else {
            Reach::Dead
        }
    }
}

/// By node: whether its region has other `homes` in `new` than in `old`.
fn others(old: &[NodeIx], new: &[NodeIx], homes: &BTreeSet<NodeIx>) -> Vec<bool> {
    let of = |regions: &[NodeIx]| {
        let mut of: BTreeMap<NodeIx, Vec<NodeIx>> = BTreeMap::new();
        homes.iter().for_each(|home| of.entry(regions[*home]).or_default().push(*home));
        of
    };
    let (before, after) = (of(old), of(new));
    // Nodes that were in one region, and are in one, are alike.
    let mut known: BTreeMap<(NodeIx, NodeIx), bool> = BTreeMap::new();
    let differ =
        |(was, is): (&NodeIx, &NodeIx)| *known.entry((*was, *is)).or_insert_with(|| before.get(was) != after.get(is));
    old.iter().zip(new).map(differ).collect()
}

/// By node: the first one that it reaches over these links.
fn first_nodes(network: &Network, is_way: impl Fn(usize) -> bool) -> Vec<NodeIx> {
    let mut first: Vec<Option<NodeIx>> = vec![None; network.len()];
    for start in 0..network.len() {
        let mut next = vec![start];
        while let Some(node) = next.pop() {
            if first[node].is_none() {
                first[node] = Some(start);
                let far = network.adjacency.of(node).iter().filter(|a| is_way(a.link));
                next.extend(far.map(|a| a.to).filter(|to| first[*to].is_none()));
            }
        }
    }
    first.into_iter().zip(0..).map(|(first, node)| first.unwrap_or(node)).collect()
}
