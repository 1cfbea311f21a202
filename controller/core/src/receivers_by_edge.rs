// SPDX-License-Identifier: Apache-2.0
//! From which epoch on a child node's feedback covers the receivers behind it (decisions 3.9).
//!
//! A parent keeps the feedback state of a child for the receivers that were behind it. When other receivers move behind
//! that child, its earlier feedback does not cover them: the parent must discard it and accept only feedback of the new
//! epoch. The result follows from durable facts alone, so that a restarted controller computes the same.
//!
//! So it is in a tree of which nothing else is known; what a change of a known tree makes of it, [`Epochs`](crate::epochs::Epochs) has.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use canopy_model::ids::NodeId;

/// A receiver and its join: after replacing its QP, or leaving and joining again, it is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Joined {
    pub(crate) address: Ipv6Addr,
    pub(crate) since: u32,
    pub(crate) late: bool,
}

/// The receivers behind every tree edge (parent, child), in order.
pub(crate) type ReceiversByEdge = BTreeMap<(NodeId, NodeId), Vec<Joined>>;

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
    now.iter().any(|(edge, behind)| without(behind, at(before, *edge)).any(|r| r.since < epoch))
}

/// Those behind an edge; none if the tree does not have it.
pub(crate) fn at(receivers: &ReceiversByEdge, edge: (NodeId, NodeId)) -> &[Joined] {
    receivers.get(&edge).map_or(&[], Vec::as_slice)
}

/// Those of `receivers` that are not in `others`, which are in order.
pub(crate) fn without<'a>(receivers: &'a [Joined], others: &'a [Joined]) -> impl Iterator<Item = &'a Joined> {
    receivers.iter().filter(|r| others.binary_search(r).is_err())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(n: u128, since: u32, late: bool) -> Joined {
        Joined { address: Ipv6Addr::from(n), since, late }
    }

    fn behind(child: u64, receivers: &[Joined]) -> ReceiversByEdge {
        let edge = (NodeId::new("node", 1).unwrap(), NodeId::new("node", child).unwrap());
        BTreeMap::from([(edge, receivers.to_vec())])
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
