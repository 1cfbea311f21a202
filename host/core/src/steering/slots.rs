// SPDX-License-Identifier: Apache-2.0
//! The slots of a destination: each names a path id, and takes an equal share of the flows.

use std::collections::BTreeMap;

use super::PathId;

/// Slots of a destination.
pub const SLOTS: usize = 64;
/// Weights differ by multiples of one part in so many.
const WEIGHTS: f64 = 1024.0;

/// Distributes the slots over `ids` by their weights, as evenly as slots permit, and at least one to each. A slot of `before` keeps its id if
/// the balance permits: paths that leave move their slots alone, and paths that get more take as many as they need.
pub(super) fn distribute(before: Option<&[PathId; SLOTS]>, ids: &[(PathId, f64)]) -> Option<[PathId; SLOTS]> {
    let (first, _) = *ids.first()?;
    // Those that have most slots already have the larger shares: that moves fewest.
    let mut had: BTreeMap<PathId, usize> = BTreeMap::new();
    before.into_iter().flatten().for_each(|id| *had.entry(*id).or_default() += 1);
    let mut left = shares(ids, |id| had.get(id).copied().unwrap_or(0));
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

/// How many slots each gets, those that had most before others of the same weight.
fn shares(ids: &[(PathId, f64)], had: impl Fn(&PathId) -> usize) -> Vec<(PathId, usize)> {
    // Whole numbers: equal weights are equal.
    let weighed = ids.iter().map(|(id, weight)| (*id, (weight * WEIGHTS).round().max(1.0) as usize * SLOTS));
    let weighed: Vec<(PathId, usize)> = weighed.collect();
    let sum = weighed.iter().map(|(_, weight)| weight).sum::<usize>() / SLOTS;
    let mut all: Vec<(PathId, usize)> = weighed;
    // What is lifted to one slot has more than its part.
    let part = |weight: usize| if weight < sum { 0 } else { weight % sum };
    all.sort_by_key(|(id, weight)| std::cmp::Reverse((part(*weight), had(id))));
    all.iter_mut().for_each(|(_, weight)| *weight = (*weight / sum).max(1));
    let given: usize = all.iter().map(|(_, share)| share).sum();
    all.iter_mut().take(SLOTS.saturating_sub(given)).for_each(|(_, share)| *share += 1);
    // Each has one at least: the largest shares make up for it.
    for _ in SLOTS..given {
        if let Some((_, share)) = all.iter_mut().max_by_key(|(_, share)| *share) {
            *share -= 1;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ids(of: &[u32]) -> Vec<PathId> {
        of.iter().map(|id| PathId::new(*id).unwrap()).collect()
    }

    fn alike(ids: &[PathId]) -> Vec<(PathId, f64)> {
        ids.iter().map(|id| (*id, 1.0)).collect()
    }

    fn counted(slots: &[PathId; SLOTS]) -> BTreeMap<PathId, usize> {
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
            let old = distribute(None, &alike(&before)).unwrap();
            let new = distribute(Some(&old), &alike(&after)).unwrap();
            let (old_shares, new_shares) = (counted(&old), counted(&new));
            let sizes = |shares: &BTreeMap<PathId, usize>| (*shares.values().min().unwrap(), *shares.values().max().unwrap());
            prop_assert!(sizes(&new_shares).1 - sizes(&new_shares).0 <= 1);
            prop_assert_eq!(new_shares.keys().copied().collect::<Vec<_>>(), after);
            let kept: usize = new_shares.iter().map(|(id, share)| *share.min(old_shares.get(id).unwrap_or(&0))).sum();
            let same = old.iter().zip(&new).filter(|(old, new)| old == new).count();
            prop_assert_eq!(same, kept);
        }

        /// Catches shares that are not as the weights, slots that move though their paths keep their shares, and a path without any.
        #[test]
        fn shares_are_as_the_weights(
            weights in prop::collection::btree_map(1u32..40, 1u32..=16, 1..32),
            before in prop::collection::btree_set(1u32..40, 1..32),
        ) {
            let of: Vec<(PathId, f64)> =
                weights.iter().map(|(id, weight)| (PathId::new(*id).unwrap(), f64::from(*weight) / 16.0)).collect();
            let old = distribute(None, &alike(&ids(&Vec::from_iter(before)))).unwrap();
            let new = distribute(Some(&old), &of).unwrap();
            let (old_shares, new_shares) = (counted(&old), counted(&new));
            let sum: f64 = of.iter().map(|(_, weight)| weight).sum();
            // Those that have one slot at least have them from the others.
            let lifted: f64 = of.iter().map(|(_, weight)| (1.0 - weight / sum * 64.0).max(0.0)).sum();
            for (id, weight) in &of {
                let (exact, share) = (weight / sum * 64.0, new_shares[id] as f64);
                prop_assert!(share >= 1.0 && (share - exact).abs() < 1.0 + lifted, "{share} slots for {exact}");
            }
            let kept: usize = new_shares.iter().map(|(id, share)| *share.min(old_shares.get(id).unwrap_or(&0))).sum();
            let same = old.iter().zip(&new).filter(|(old, new)| old == new).count();
            prop_assert_eq!(same, kept);
        }
    }

    /// Catches shares that are more than there are slots, by which a path of little weight has none.
    #[test]
    fn each_path_has_a_slot_beside_many_of_more_weight() {
        let all = ids(&Vec::from_iter(1..=32));
        let heavy = distribute(None, &alike(&all[..20])).unwrap();
        let of: Vec<(PathId, f64)> =
            all.iter().zip(0..).map(|(id, n)| (*id, if n < 20 { 1.0 } else { 0.0625 })).collect();
        let shares = counted(&distribute(Some(&heavy), &of).unwrap());
        assert_eq!((shares.len(), shares.values().sum::<usize>()), (32, SLOTS));
        assert!(all[20..].iter().all(|id| shares[id] == 1), "{shares:?}");
    }

    #[test]
    fn neighbours_differ_and_no_path_means_no_slots() {
        let slots = distribute(None, &alike(&ids(&[1, 2, 3]))).unwrap();
        assert!(slots.windows(2).all(|two| two[0] != two[1]));
        assert_eq!(distribute(None, &[]), None);
        assert_eq!(distribute(Some(&slots), &alike(&ids(&[3, 2, 1]))), Some(slots), "no slot needs to move");
    }
}
