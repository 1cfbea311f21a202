// SPDX-License-Identifier: Apache-2.0
//! Numbers that are unique in the domain while in use.
//!
//! Each pool hands out the first free number at or after a cursor that moves past every number given, and wraps. So a
//! freed number is reused as late as possible: feedback still in flight names a group that no longer exists, not
//! another group. The numbers in use are read from the groups' records; only the cursors are state.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use canopy_model::addressing::AddressPlan;
use canopy_model::ids::{GroupId, Psn, Qpn, TreeId};
use serde::{Deserialize, Serialize};

use crate::error::DomainError;
use crate::hash::mix;

/// Numbers that a group holds from its creation to its deletion; part of its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Allocation {
    pub(crate) group_id: GroupId,
    pub(crate) tree_id: TreeId,
    /// Index of the Proxy Address in its prefix.
    pub(crate) proxy_index: u64,
    pub(crate) designated_qpn: Qpn,
    pub(crate) start_psn: Psn,
    pub(crate) write_rkey: u32,
}

/// The position of each pool's cursor; durable, so that a restart does not hand out what was just freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Cursors {
    pub(crate) group_id: u64,
    pub(crate) tree_id: u64,
    pub(crate) proxy_index: u64,
    pub(crate) designated_qpn: u64,
}

/// Numbers of one kind.
#[derive(Clone, Debug)]
struct Pool {
    range: RangeInclusive<u64>,
    next: u64,
    used: BTreeSet<u64>,
}

impl Pool {
    fn new(range: RangeInclusive<u64>) -> Self {
        Self { next: *range.start(), range, used: BTreeSet::new() }
    }

    /// The first free number at or after the cursor.
    fn peek(&self) -> Option<u64> {
        let (start, end) = (*self.range.start(), *self.range.end());
        self.first_free(self.next, end).or_else(|| self.first_free(start, self.next - 1))
    }

    fn first_free(&self, from: u64, to: u64) -> Option<u64> {
        let mut candidate = from;
        for &used in self.used.range(from..) {
            if used != candidate {
                break;
            }
            candidate += 1;
        }
        (candidate <= to).then_some(candidate)
    }

    fn behind(&self, value: u64) -> u64 {
        if value >= *self.range.end() { *self.range.start() } else { value + 1 }
    }

    /// False when the number is in use already or outside the range.
    fn claim(&mut self, value: u64) -> bool {
        self.range.contains(&value) && self.used.insert(value)
    }

    fn resume(&mut self, next: u64) {
        self.next = if self.range.contains(&next) { next } else { *self.range.start() };
    }
}

/// All pools of a domain.
#[derive(Clone, Debug)]
pub(crate) struct Pools {
    group_id: Pool,
    tree_id: Pool,
    proxy_index: Pool,
    designated_qpn: Pool,
}

impl Pools {
    /// Empty pools for the addresses of `plan`.
    pub(crate) fn new(plan: &AddressPlan) -> Self {
        let host_bits = 128 - u32::from(plan.proxy_prefix.prefix_len());
        let last_proxy = if host_bits >= 32 { u64::from(u32::MAX) } else { (1 << host_bits) - 1 };
        Self {
            group_id: Pool::new(1..=u64::from(u32::MAX)),
            tree_id: Pool::new(1..=u64::from(u32::MAX)),
            proxy_index: Pool::new(1..=last_proxy),
            designated_qpn: Pool::new(2..=0xFF_FFFE),
        }
    }

    /// What the next group would get; claims nothing.
    ///
    /// # Errors
    /// `Limit`, naming the kind of number that ran out.
    pub(crate) fn peek(&self) -> Result<Allocation, DomainError> {
        let next = |pool: &Pool, what: &str| {
            pool.peek().ok_or_else(|| {
                DomainError::Limit(format!(
                    "all {} {what} are in use: delete groups that are not needed",
                    pool.used.len()
                ))
            })
        };
        let group_id = GroupId::new("groupId", next(&self.group_id, "group identifiers")?)?;
        let designated_qpn = Qpn::new("designatedQpn", next(&self.designated_qpn, "Designated QPNs")?)?;
        // Not always 0: a receiver whose QP was configured for another group would accept PSN 0 as its own first
        // packet.
        let start_psn = Psn::new("startPsn", mix(0x50534E, u64::from(group_id.get())) & 0xFF_FFFF)?;
        // An R_Key is a 24-bit index and an 8-bit key (IBTA 10.6.3): the index is the QPN, unique with it.
        let write_rkey = designated_qpn.get() << 8 | (mix(0x524B, u64::from(designated_qpn.get())) & 0xFF) as u32;
        Ok(Allocation {
            group_id,
            tree_id: TreeId::new("treeId", next(&self.tree_id, "tree identifiers")?)?,
            proxy_index: next(&self.proxy_index, "Proxy Addresses")?,
            designated_qpn,
            start_psn,
            write_rkey,
        })
    }

    /// Marks all numbers in `a` as used, or none of them. On error: the kind of the first number that is not free.
    pub(crate) fn claim(&mut self, a: &Allocation) -> Result<(), &'static str> {
        let failed = self
            .each(a)
            .into_iter()
            .enumerate()
            .find_map(|(i, (pool, value, what))| (!pool.claim(value)).then_some((i, what)));
        match failed {
            None => Ok(()),
            Some((claimed, what)) => {
                for (pool, value, _) in self.each(a).into_iter().take(claimed) {
                    pool.used.remove(&value);
                }
                Err(what)
            }
        }
    }

    /// Frees everything in `a`.
    pub(crate) fn release(&mut self, a: &Allocation) {
        for (pool, value, _) in self.each(a) {
            pool.used.remove(&value);
        }
    }

    /// The present cursors.
    pub(crate) fn cursors(&self) -> Cursors {
        Cursors {
            group_id: self.group_id.next,
            tree_id: self.tree_id.next,
            proxy_index: self.proxy_index.next,
            designated_qpn: self.designated_qpn.next,
        }
    }

    /// The cursors after `a` is claimed.
    pub(crate) fn cursors_behind(&self, a: &Allocation) -> Cursors {
        Cursors {
            group_id: self.group_id.behind(a.group_id.get().into()),
            tree_id: self.tree_id.behind(a.tree_id.get().into()),
            proxy_index: self.proxy_index.behind(a.proxy_index),
            designated_qpn: self.designated_qpn.behind(a.designated_qpn.get().into()),
        }
    }

    /// Sets the cursors to `cursors`.
    pub(crate) fn resume(&mut self, cursors: &Cursors) {
        self.group_id.resume(cursors.group_id);
        self.tree_id.resume(cursors.tree_id);
        self.proxy_index.resume(cursors.proxy_index);
        self.designated_qpn.resume(cursors.designated_qpn);
    }

    /// Numbers in use, of each kind.
    #[cfg(test)]
    pub(crate) fn in_use(&self) -> [usize; 4] {
        [&self.group_id, &self.tree_id, &self.proxy_index, &self.designated_qpn].map(|p| p.used.len())
    }

    fn each(&mut self, a: &Allocation) -> [(&mut Pool, u64, &'static str); 4] {
        [
            (&mut self.group_id, a.group_id.get().into(), "group identifier"),
            (&mut self.tree_id, a.tree_id.get().into(), "tree identifier"),
            (&mut self.proxy_index, a.proxy_index, "Proxy Address"),
            (&mut self.designated_qpn, a.designated_qpn.get().into(), "Designated QPN"),
        ]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_pool_never_repeats_what_is_in_use_and_returns_the_freed_last(steps in prop::collection::vec(any::<(bool, u8)>(), 1..200)) {
            let mut pool = Pool::new(2..=9);
            let mut held: Vec<u64> = Vec::new();
            for (take, which) in steps {
                if take {
                    match pool.peek() {
                        Some(v) => {
                            prop_assert!((2..=9).contains(&v) && !held.contains(&v));
                            prop_assert!(pool.claim(v));
                            pool.resume(pool.behind(v));
                            held.push(v);
                        }
                        None => prop_assert_eq!(held.len(), 8),
                    }
                } else if !held.is_empty() {
                    let freed = held.swap_remove(usize::from(which) % held.len());
                    pool.used.remove(&freed);
                    let other = (2..=9).filter(|v| *v != freed && !held.contains(v)).min_by_key(|&v| distance(pool.next, v));
                    let first = other.filter(|&v| distance(pool.next, v) < distance(pool.next, freed)).unwrap_or(freed);
                    prop_assert_eq!(pool.peek(), Some(first));
                }
            }
        }
    }

    fn distance(from: u64, to: u64) -> u64 {
        (to + 8 - from) % 8
    }

    #[test]
    fn a_claim_is_whole_or_nothing() {
        let mut pools = Pools::new(&AddressPlan::default());
        let a = pools.peek().unwrap();
        pools.claim(&a).unwrap();
        let b = Allocation { group_id: GroupId::new("id", 99).unwrap(), ..a };
        assert_eq!(pools.claim(&b), Err("tree identifier"));
        assert_eq!(pools.in_use(), [1; 4]);
        pools.release(&a);
        assert_eq!(pools.in_use(), [0; 4]);
    }

    #[test]
    fn a_small_proxy_prefix_runs_out_with_a_clear_error() {
        let plan = AddressPlan { proxy_prefix: "fcfe::/112".parse().unwrap(), ..AddressPlan::default() };
        let mut pools = Pools::new(&plan);
        for _ in 1..=0xFFFF {
            let a = pools.peek().unwrap();
            pools.claim(&a).unwrap();
            pools.resume(&pools.cursors_behind(&a));
        }
        assert!(pools.peek().unwrap_err().to_string().starts_with("all 65535 Proxy Addresses are in use"));
    }
}
