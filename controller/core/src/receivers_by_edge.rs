// SPDX-License-Identifier: Apache-2.0
//! From which epoch on a child node's feedback covers the receivers behind it (decisions 3.9).
//!
//! A parent keeps the feedback state of a child for the receivers that were behind it. When other receivers move behind
//! that child, its earlier feedback does not cover them: the parent must discard it and accept only feedback of the new
//! epoch. The result follows from durable facts alone, so that a restarted controller computes the same.
//!
//! So it is in a tree of which nothing else is known; what a change of a known tree makes of it, [`Epochs`](crate::epochs::Epochs) has.

use std::net::Ipv6Addr;
use std::ops::Range;

use canopy_model::ids::NodeId;

use crate::content::{Content, Joined};
use crate::topology::Network;
use crate::tree::Tree;

/// A child node of a tree and its parent.
pub(crate) type TreeEdge = (NodeId, NodeId);

/// The receivers behind every tree edge (parent, child), in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReceiversByEdge {
    /// In order, each with its receivers among all.
    edges: Vec<(TreeEdge, Range<usize>)>,
    /// Those of each edge next to each other.
    receivers: Vec<Joined>,
}

impl ReceiversByEdge {
    /// Those behind the edges of this tree.
    pub(crate) fn of(network: &Network, tree: &Tree, content: &Content) -> Self {
        let mut counts = vec![0; tree.len()];
        content.edges.iter().for_each(|edge| counts[edge.at()] = edge.receivers().len());
        // Parents come before their children.
        for (at, t) in tree.nodes().enumerate().rev() {
            if let Some(up) = t.parent {
                counts[up.position] += counts[at];
            }
        }
        // By position: where the receivers of the node, and of what is below it, begin, and where the next of them goes.
        let begins: Vec<usize> =
            counts.iter().scan(0, |end, count| Some(std::mem::replace(end, *end + count))).collect();
        let mut ends = begins.clone();
        let none = Joined { address: Ipv6Addr::UNSPECIFIED, since: 0, late: false };
        let mut receivers = vec![none; counts.iter().sum()];
        for edge in &content.edges {
            for r in content.of(edge) {
                receivers[ends[edge.at()]] = r.joined();
                ends[edge.at()] += 1;
            }
        }
        let mut edges = Vec::with_capacity(tree.len());
        for (at, t) in tree.nodes().enumerate().rev() {
            let Some(up) = t.parent else { continue };
            let behind = begins[at]..ends[at];
            // A stable sort uses that those of each child, and the node's own, are in order.
            receivers[behind.clone()].sort();
            receivers.copy_within(behind.clone(), ends[up.position]);
            ends[up.position] += behind.len();
            edges.push(((network.id(tree.node(up.position).node), network.id(t.node)), behind));
        }
        edges.sort_unstable_by_key(|(edge, _)| *edge);
        Self { edges, receivers }
    }

    /// Those behind an edge; none if the tree does not have it.
    pub(crate) fn at(&self, edge: TreeEdge) -> &[Joined] {
        let found = self.edges.binary_search_by_key(&edge, |(edge, _)| *edge);
        found.map_or(&[], |found| &self.receivers[self.edges[found].1.clone()])
    }

    /// The edges, each with those behind it.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (TreeEdge, &[Joined])> {
        self.edges.iter().map(|(edge, behind)| (*edge, &self.receivers[behind.clone()]))
    }
}

/// Every child starts over when the epoch reaches a multiple of this: feedback carries 14 bits of the epoch, and none is ever taken for
/// old only because the receivers behind its sender stay (decisions 3.15).
pub(crate) const REFRESHED_EVERY: u32 = 2_048;

/// Epoch from which a child's feedback counts in `epoch`, in a group whose receivers last moved in epoch `moved`: that added it, or
/// changed the receivers behind it, or in which it started over.
pub(crate) fn counts_since(behind: &[Joined], moved: u32, epoch: u32) -> u32 {
    let refreshed = epoch - epoch % REFRESHED_EVERY;
    behind.iter().map(|r| r.since).max().unwrap_or(0).max(moved).max(refreshed)
}

/// True if a receiver that joined before `epoch` is now behind another child.
pub(crate) fn has_moved(before: &ReceiversByEdge, now: &ReceiversByEdge, epoch: u32) -> bool {
    now.iter().any(|(edge, behind)| without(behind, before.at(edge)).any(|r| r.since < epoch))
}

/// Those of `receivers` that are not in `others`, which are in order.
pub(crate) fn without<'a>(receivers: &'a [Joined], others: &'a [Joined]) -> impl Iterator<Item = &'a Joined> {
    // Most are the same: that is found by one comparison of each.
    let different = if receivers == others { &[] } else { receivers };
    different.iter().filter(|r| others.binary_search(r).is_err())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(n: u128, since: u32, late: bool) -> Joined {
        Joined { address: Ipv6Addr::from(n), since, late }
    }

    fn behind(child: u64, receivers: &[Joined]) -> ReceiversByEdge {
        let edge = (NodeId::new("node", 1).unwrap(), NodeId::new("node", child).unwrap());
        ReceiversByEdge { edges: vec![(edge, 0..receivers.len())], receivers: receivers.to_vec() }
    }

    #[test]
    fn a_receiver_behind_another_child_has_moved_and_one_that_joins_or_leaves_has_not() {
        let (old, new) = (joined(7, 1, false), joined(8, 4, true));
        assert!(!has_moved(&behind(2, &[old]), &behind(2, &[old, new]), 4), "joins");
        assert!(!has_moved(&behind(2, &[old, new]), &behind(2, &[old]), 5), "leaves");
        assert!(has_moved(&behind(2, &[old, new]), &behind(3, &[old, new]), 5));
        assert!(has_moved(&behind(2, &[new]), &behind(2, &[old, new]), 5), "from elsewhere behind a known child");
    }

    #[test]
    fn feedback_counts_from_the_last_join_or_move_on() {
        let late = [joined(7, 4, true)];
        assert_eq!((counts_since(&late, 2, 7), counts_since(&late, 6, 7)), (4, 6));
        assert_eq!(counts_since(&[joined(7, 4, true), joined(8, 1, false)], 2, 7), 4);
    }

    #[test]
    fn a_child_starts_over_before_it_is_4096_epochs_behind() {
        let one = [joined(7, 4, false)];
        assert_eq!([2_047, 2_048, 4_095, 20_000].map(|epoch| counts_since(&one, 0, epoch)), [4, 2_048, 2_048, 18_432]);
        assert!((5..50_000).chain([u32::MAX]).all(|epoch| epoch - counts_since(&one, 0, epoch) < 4_096));
    }
}
