// SPDX-License-Identifier: Apache-2.0
//! The slots of a destination: each names a path id, and takes an equal share of the flows.

use super::PathId;

/// Slots of a destination.
pub const SLOTS: usize = 64;

/// Distributes the slots over `ids`, evenly up to one. A slot of `before` keeps its id if the balance permits: paths that leave move their
/// slots alone, and paths that join take as many as they need.
pub(super) fn distribute(before: Option<&[PathId; SLOTS]>, ids: &[PathId]) -> Option<[PathId; SLOTS]> {
    let first = *ids.first()?;
    let (share, more) = (SLOTS / ids.len(), SLOTS % ids.len());
    // Those that have most slots already have the larger shares: that moves fewest.
    let had = |id: &PathId| before.map_or(0, |slots| slots.iter().filter(|slot| *slot == id).count());
    let mut left: Vec<(PathId, usize)> = ids.iter().map(|id| (*id, share)).collect();
    left.sort_by_key(|(id, _)| std::cmp::Reverse(had(id)));
    left.iter_mut().take(more).for_each(|(_, share)| *share += 1);
    let mut slots = [None; SLOTS];
    for (slot, was) in slots.iter_mut().zip(before.into_iter().flatten()) {
        if let Some((id, left)) = left.iter_mut().find(|(id, left)| id == was && *left > 0) {
            *left -= 1;
            *slot = Some(*id);
        }
    }
    // Round robin, so that neighbours differ.
    let mut at = 0;
    let mut next = move || {
        for _ in 0..left.len() {
            let place = at % left.len();
            at += 1;
            if left[place].1 > 0 {
                left[place].1 -= 1;
                return left[place].0;
            }
        }
        first
    };
    Some(slots.map(|slot| slot.unwrap_or_else(&mut next)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn ids(of: &[u32]) -> Vec<PathId> {
        of.iter().map(|id| PathId::new(*id).unwrap()).collect()
    }

    fn shares(slots: &[PathId; SLOTS]) -> BTreeMap<PathId, usize> {
        let mut shares = BTreeMap::new();
        slots.iter().for_each(|id| *shares.entry(*id).or_insert(0) += 1);
        shares
    }

    proptest! {
        /// Catches a failure that moves flows of other paths, and an uneven share.
        #[test]
        fn only_as_many_slots_move_as_the_balance_needs(
            before in prop::collection::btree_set(1u32..40, 1..32),
            after in prop::collection::btree_set(1u32..40, 1..32),
        ) {
            let (before, after) = (ids(&Vec::from_iter(before)), ids(&Vec::from_iter(after)));
            let old = distribute(None, &before).unwrap();
            let new = distribute(Some(&old), &after).unwrap();
            let (old_shares, new_shares) = (shares(&old), shares(&new));
            let sizes = |shares: &BTreeMap<PathId, usize>| (*shares.values().min().unwrap(), *shares.values().max().unwrap());
            prop_assert!(sizes(&new_shares).1 - sizes(&new_shares).0 <= 1);
            prop_assert_eq!(new_shares.keys().copied().collect::<Vec<_>>(), after);
            let kept: usize = new_shares.iter().map(|(id, share)| *share.min(old_shares.get(id).unwrap_or(&0))).sum();
            let same = old.iter().zip(&new).filter(|(old, new)| old == new).count();
            prop_assert_eq!(same, kept);
        }
    }

    #[test]
    fn neighbours_differ_and_no_path_means_no_slots() {
        let slots = distribute(None, &ids(&[1, 2, 3])).unwrap();
        assert!(slots.windows(2).all(|two| two[0] != two[1]));
        assert_eq!(distribute(None, &[]), None);
    }
}
