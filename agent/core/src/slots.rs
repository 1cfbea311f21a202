// SPDX-License-Identifier: Apache-2.0
//! Branch slots: a branch keeps its slot while it exists, across restarts and reconciliations.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;

use canopy_model::node_spec::MAX_BRANCHES;

/// Assigns a slot to every wanted branch: the one it holds, else the lowest one that no branch holds or held.
///
/// Returns the assignment and the branches without a slot.
pub fn assign(
    wanted: impl IntoIterator<Item = Ipv6Addr>,
    held: &BTreeMap<Ipv6Addr, u32>,
) -> (BTreeMap<Ipv6Addr, u32>, Vec<Ipv6Addr>) {
    // The slot of a leaving branch is not reused in the same step: its state is cleared first.
    let mut taken: BTreeSet<u32> = held.values().copied().collect();
    let (mut assigned, mut without) = (BTreeMap::new(), Vec::new());
    for branch in wanted.into_iter().collect::<BTreeSet<_>>() {
        if let Some(slot) = held.get(&branch) {
            assigned.insert(branch, *slot);
        } else if let Some(slot) = (0..MAX_BRANCHES as u32).find(|s| !taken.contains(s)) {
            taken.insert(slot);
            assigned.insert(branch, slot);
        } else {
            without.push(branch);
        }
    }
    (assigned, without)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(n: u128) -> Ipv6Addr {
        Ipv6Addr::from(n)
    }

    #[test]
    fn a_branch_keeps_its_slot_and_the_slot_of_a_leaving_one_is_not_reused_at_once() {
        let held = BTreeMap::from([(addr(1), 0), (addr(2), 1)]);
        let (now, without) = assign([addr(2), addr(3)], &held);
        assert_eq!(now, BTreeMap::from([(addr(2), 1), (addr(3), 2)]));
        assert!(without.is_empty());
        let (later, _) = assign([addr(2), addr(3), addr(4)], &now);
        assert_eq!(later[&addr(4)], 0);
    }

    #[test]
    fn the_129th_branch_is_returned_without_a_slot() {
        let (assigned, without) = assign((0..129).map(addr), &BTreeMap::new());
        assert_eq!(assigned.len(), 128);
        assert_eq!(without, vec![addr(128)]);
    }
}
