// SPDX-License-Identifier: Apache-2.0
//! From which epoch on a child node speaks for the receivers behind it (decisions 3.9).
//!
//! A parent knows what a child holds for the receivers that were behind it. When others move there, what the child said
//! before says nothing about them: the parent must forget it and listen only to what the child says in the new epoch. What
//! is told follows from durable facts alone, so that a controller that starts again tells the same.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;

use canopy_model::ids::NodeId;

/// How a branch comes into its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Epoch that brought it in, or that changed who is behind it.
    pub(crate) since: u32,
    /// Nobody behind it was in the group before data flowed.
    pub(crate) at_boundary: bool,
}

/// A receiver as it joined: with another QP, or after it had left, it is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Joined {
    pub(crate) address: Ipv6Addr,
    pub(crate) since: u32,
    pub(crate) late: bool,
}

/// Who is behind every (parent, child) of a tree.
pub(crate) type Ways = BTreeMap<(NodeId, NodeId), BTreeSet<Joined>>;

/// A child's entry, in a group whose receivers last moved in epoch `moved`.
pub(crate) fn entry(behind: &BTreeSet<Joined>, moved: u32) -> Entry {
    Entry {
        since: behind.iter().map(|r| r.since).max().unwrap_or(0).max(moved),
        at_boundary: behind.iter().all(|r| r.late && r.since > moved),
    }
}

/// A receiver that was there before `epoch` has come behind another child.
pub(crate) fn has_moved(before: &Ways, now: &Ways, epoch: u32) -> bool {
    let none = BTreeSet::new();
    now.iter().any(|(way, behind)| behind.difference(before.get(way).unwrap_or(&none)).any(|r| r.since < epoch))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(n: u128, since: u32, late: bool) -> Joined {
        Joined { address: Ipv6Addr::from(n), since, late }
    }

    fn behind(child: u64, receivers: &[Joined]) -> Ways {
        let way = (NodeId::new("node", 1).unwrap(), NodeId::new("node", child).unwrap());
        BTreeMap::from([(way, receivers.iter().copied().collect())])
    }

    #[test]
    fn who_was_there_and_comes_behind_another_child_has_moved_and_who_joins_or_leaves_has_not() {
        let (old, new) = (joined(7, 1, false), joined(8, 4, true));
        assert!(!has_moved(&behind(2, &[old]), &behind(2, &[old, new]), 4), "joins");
        assert!(!has_moved(&behind(2, &[old, new]), &behind(2, &[old]), 5), "leaves");
        assert!(has_moved(&behind(2, &[old, new]), &behind(3, &[old, new]), 5));
        assert!(has_moved(&behind(2, &[new]), &behind(2, &[old, new]), 5), "from elsewhere behind a known child");
    }

    #[test]
    fn a_branch_of_late_joiners_only_starts_at_a_boundary_unless_they_moved() {
        let late = BTreeSet::from([joined(7, 4, true)]);
        assert_eq!(entry(&late, 2), Entry { since: 4, at_boundary: true });
        assert_eq!(entry(&late, 6), Entry { since: 6, at_boundary: false });
        let mixed = BTreeSet::from([joined(7, 4, true), joined(8, 1, false)]);
        assert_eq!(entry(&mixed, 2), Entry { since: 4, at_boundary: false });
    }
}
