// SPDX-License-Identifier: Apache-2.0
//! Numbers that are unique in the domain while in use.
//!
//! Each pool counts, and hands out the number that its order has at the count: for numbers that packets carry, an order that
//! only the domain's key reveals (decisions 6.5). What was given is not given again before the whole range was, and then as late
//! as possible: a Designated QPN rests for 16 million sessions, and tree identifiers and Proxy Addresses are used once, unless
//! `addressing.proxy_prefix` has fewer than 2^32 addresses. The numbers in use are read from the groups' records; only the counts are
//! state.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use canopy_model::addressing::AddressPlan;
use canopy_model::ids::{GroupId, Psn, Qpn, TreeId};
use canopy_model::srh_hmac::{HmacKeyId, HmacSecret};
use serde::{Deserialize, Serialize};

use crate::error::DomainError;
use crate::secret::{Kind, Secret};

/// How far the counts move after the records were restored from a copy: more than was given since the copy was made.
const LEAP: u64 = 1 << 20;
/// A pool with at least so many numbers uses each once.
const ONCE: u64 = u32::MAX as u64;

/// Numbers of a group; part of its record. Those of the session change when a session ends, the others exist as long as the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Allocation {
    pub(crate) group_id: GroupId,
    pub(crate) tree_id: TreeId,
    /// Index of the Proxy Address in its prefix.
    pub(crate) proxy_index: u64,
    /// Those of the present session.
    #[serde(flatten)]
    pub(crate) session: SessionNumbers,
}

/// Numbers of one session of a source: packets of another session carry others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionNumbers {
    pub(crate) designated_qpn: Qpn,
    pub(crate) start_psn: Psn,
    pub(crate) write_rkey: u32,
}

/// The next count of each pool; durable, so that a restart does not hand out what was given before.
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
    what: &'static str,
    range: RangeInclusive<u64>,
    /// In the order of the key; `None` = in ascending order.
    order: Option<Kind>,
    /// The next count, within the range; one behind it when a pool that uses each number once is exhausted.
    next: u64,
    used: BTreeSet<u64>,
}

impl Pool {
    fn new(what: &'static str, range: RangeInclusive<u64>, order: Option<Kind>) -> Self {
        Self { what, next: *range.start(), range, order, used: BTreeSet::new() }
    }

    /// Whether a number that was freed is never given again.
    fn once(&self) -> bool {
        self.order.is_some()
            && self.order != Some(Kind::DesignatedQpn)
            && self.range.end() - self.range.start() >= ONCE - 1
    }

    /// The number at `count`.
    fn at(&self, secret: &Secret, count: u64) -> u64 {
        let start = *self.range.start();
        self.order.map_or(count, |kind| start + secret.permute(kind, self.range.end() - start, count - start))
    }

    /// The next number that is free, and the count behind it.
    ///
    /// # Errors
    /// `Limit`, naming the kind of number that ran out.
    fn peek(&self, secret: &Secret) -> Result<(u64, u64), DomainError> {
        let mut count = self.next;
        let has_free = self.used.len() as u64 <= self.range.end() - self.range.start();
        // Each number in use is passed at most once.
        let mut passed = 0..=self.used.len();
        while has_free && self.range.contains(&count) && passed.next().is_some() {
            let value = self.at(secret, count);
            let behind = self.behind(count);
            if !self.used.contains(&value) {
                return Ok((value, behind));
            }
            count = behind;
        }
        // Behind the range is the count of a pool that uses each number once.
        Err(DomainError::Limit(match self.range.contains(&count) {
            true => format!("all {} {} are in use: delete groups that are not needed", self.used.len(), self.what),
            false => format!("all {} have been given, and none is used again: set up another domain", self.what),
        }))
    }

    fn behind(&self, count: u64) -> u64 {
        match (count < *self.range.end(), self.once()) {
            (true, _) => count + 1,
            (false, true) => count.saturating_add(1),
            (false, false) => *self.range.start(),
        }
    }

    /// False when the number is in use already or outside the range.
    fn claim(&mut self, value: u64) -> bool {
        self.range.contains(&value) && self.used.insert(value)
    }

    fn resume(&mut self, next: u64) {
        self.next = if self.range.contains(&next) || self.once() { next } else { *self.range.start() };
    }

    fn leap(&mut self) {
        let (start, size) = (*self.range.start(), self.range.end() - self.range.start());
        self.next = match self.next.checked_add(LEAP) {
            Some(next) if self.once() || next <= *self.range.end() => next,
            _ => start + (self.next - start + LEAP) % size.saturating_add(1).max(1),
        };
    }
}

/// All pools of a domain.
#[derive(Clone, Debug)]
pub(crate) struct Pools {
    secret: Secret,
    group_id: Pool,
    tree_id: Pool,
    proxy_index: Pool,
    designated_qpn: Pool,
}

impl Pools {
    /// A key of the SRH HMAC TLV that is drawn at `revision`, under an identifier that is none of `used`.
    pub(crate) fn hmac_key(&self, revision: u64, used: &[HmacKeyId]) -> (HmacKeyId, HmacSecret) {
        let mut number = self.secret.random(Kind::HmacKeyId, revision) as u32;
        loop {
            match HmacKeyId::new("id", number) {
                Ok(id) if !used.contains(&id) => {
                    return (id, HmacSecret::new(self.secret.octets(Kind::HmacKey, revision)));
                }
                _ => number = number.wrapping_add(1),
            }
        }
    }

    /// The key that all numbers follow from.
    pub(crate) fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Empty pools for the addresses of `plan`, in the order of `secret`.
    pub(crate) fn new(plan: &AddressPlan, secret: Secret) -> Self {
        let host_bits = 128 - u32::from(plan.proxy_prefix.prefix_len());
        let last_proxy = 1u64.checked_shl(host_bits).map_or(u64::MAX, |addresses| addresses - 1);
        let ids = 1..=u64::from(u32::MAX);
        Self {
            secret,
            group_id: Pool::new("group identifiers", ids.clone(), None),
            tree_id: Pool::new("tree identifiers", ids, Some(Kind::TreeId)),
            proxy_index: Pool::new("Proxy Addresses", 1..=last_proxy, Some(Kind::Proxy)),
            designated_qpn: Pool::new("Designated QPNs", 2..=0xFF_FFFE, Some(Kind::DesignatedQpn)),
        }
    }

    /// The numbers of the next group, and the cursors behind them; claims nothing. Its session starts at `start_psn`, or at a random
    /// PSN.
    ///
    /// # Errors
    /// `Limit`, naming the kind of number that ran out.
    pub(crate) fn draw(&self, start_psn: Option<Psn>) -> Result<(Allocation, Cursors), DomainError> {
        let (group_id, group_id_next) = self.group_id.peek(&self.secret)?;
        let (tree_id, tree_id_next) = self.tree_id.peek(&self.secret)?;
        let (proxy_index, proxy_index_next) = self.proxy_index.peek(&self.secret)?;
        let (session, cursors) = self.draw_session(start_psn)?;
        let group_id = GroupId::new("groupId", group_id)?;
        let tree_id = TreeId::new("treeId", tree_id)?;
        let allocation = Allocation { group_id, tree_id, proxy_index, session };
        let cursors =
            Cursors { group_id: group_id_next, tree_id: tree_id_next, proxy_index: proxy_index_next, ..cursors };
        Ok((allocation, cursors))
    }

    /// The numbers of a group's next session, and the cursors behind them; claims nothing.
    ///
    /// # Errors
    /// `Limit` when every Designated QPN is in use.
    pub(crate) fn draw_session(&self, start_psn: Option<Psn>) -> Result<(SessionNumbers, Cursors), DomainError> {
        let (qpn, designated_qpn) = self.designated_qpn.peek(&self.secret)?;
        let random = |kind| self.secret.random(kind, designated_qpn << 32 | qpn);
        let designated = Qpn::new("designatedQpn", qpn)?;
        let drawn = Psn::new("startPsn", random(Kind::StartPsn) & 0xFF_FFFF)?;
        // An R_Key is a 24-bit index and an 8-bit key (IBTA 10.6.3): the index is the QPN, unique with it.
        let write_rkey = designated.get() << 8 | (random(Kind::Rkey) & 0xFF) as u32;
        let numbers = SessionNumbers { designated_qpn: designated, start_psn: start_psn.unwrap_or(drawn), write_rkey };
        Ok((numbers, Cursors { designated_qpn, ..self.cursors() }))
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

    /// Marks the Designated QPN of an ended session as used; false when another group has it.
    pub(crate) fn claim_qpn(&mut self, qpn: Qpn) -> bool {
        self.designated_qpn.claim(qpn.get().into())
    }

    /// Frees the Designated QPN of an ended session.
    pub(crate) fn release_qpn(&mut self, qpn: Qpn) {
        self.designated_qpn.used.remove(&qpn.get().into());
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

    /// Sets the cursors to `cursors`.
    pub(crate) fn resume(&mut self, cursors: &Cursors) {
        self.group_id.resume(cursors.group_id);
        self.tree_id.resume(cursors.tree_id);
        self.proxy_index.resume(cursors.proxy_index);
        self.designated_qpn.resume(cursors.designated_qpn);
    }

    /// Passes over the numbers that may have been given after the records were copied.
    pub(crate) fn leap(&mut self) {
        for pool in [&mut self.group_id, &mut self.tree_id, &mut self.proxy_index, &mut self.designated_qpn] {
            pool.leap();
        }
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
            (&mut self.designated_qpn, a.session.designated_qpn.get().into(), "Designated QPN"),
        ]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn secret() -> Secret {
        Secret::new([5; 32])
    }

    proptest! {
        #[test]
        fn a_pool_never_repeats_what_is_in_use_and_returns_the_freed_last(
            steps in prop::collection::vec(any::<(bool, u8)>(), 1..200),
            order in prop::sample::select(vec![None, Some(Kind::DesignatedQpn)]),
        ) {
            let mut pool = Pool::new("numbers", 2..=9, order);
            // Where the pool's order has each number.
            let place: Vec<u64> = (2..=9).map(|count| pool.at(&secret(), count)).collect();
            let place = |v: u64| 2 + place.iter().position(|p| *p == v).unwrap() as u64;
            let mut held: Vec<u64> = Vec::new();
            for (take, which) in steps {
                if take {
                    match pool.peek(&secret()) {
                        Ok((v, behind)) => {
                            prop_assert!((2..=9).contains(&v) && !held.contains(&v));
                            prop_assert!(pool.claim(v));
                            pool.resume(behind);
                            held.push(v);
                        }
                        Err(_) => prop_assert_eq!(held.len(), 8),
                    }
                } else if !held.is_empty() {
                    let freed = held.swap_remove(usize::from(which) % held.len());
                    pool.used.remove(&freed);
                    let behind_cursor = |v: &u64| distance(pool.next, place(*v));
                    let other = (2..=9).filter(|v| *v != freed && !held.contains(v)).min_by_key(behind_cursor);
                    let first = other.filter(|v| behind_cursor(v) < behind_cursor(&freed)).unwrap_or(freed);
                    prop_assert_eq!(pool.peek(&secret()).unwrap().0, first);
                }
            }
        }
    }

    fn distance(from: u64, to: u64) -> u64 {
        (to + 8 - from) % 8
    }

    fn pools() -> Pools {
        Pools::new(&AddressPlan::default(), secret())
    }

    #[test]
    fn a_claim_is_whole_or_nothing() {
        let mut pools = pools();
        let (a, _) = pools.draw(None).unwrap();
        pools.claim(&a).unwrap();
        let b = Allocation { group_id: GroupId::new("id", 99).unwrap(), ..a };
        assert_eq!(pools.claim(&b), Err("tree identifier"));
        assert_eq!(pools.in_use(), [1; 4]);
        pools.release(&a);
        assert_eq!(pools.in_use(), [0; 4]);
    }

    #[test]
    fn what_was_freed_is_not_given_again() {
        let mut pools = pools();
        let (mut trees, mut proxies, mut sessions) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for _ in 0..5_000 {
            let (a, cursors) = pools.draw(None).unwrap();
            pools.claim(&a).unwrap();
            pools.resume(&cursors);
            pools.release(&a);
            assert!(trees.insert(a.tree_id) && proxies.insert(a.proxy_index));
            assert!(sessions.insert(a.session.designated_qpn));
        }
    }

    #[test]
    fn identifiers_are_spread_over_their_ranges_and_depend_on_the_key() {
        let numbers = |byte| {
            let mut pools = Pools::new(&AddressPlan::default(), Secret::new([byte; 32]));
            let all: Vec<Allocation> = (0..64)
                .map(|_| {
                    let (a, cursors) = pools.draw(None).unwrap();
                    pools.resume(&cursors);
                    a
                })
                .collect();
            all
        };
        let (a, b) = (numbers(1), numbers(2));
        assert!(a.iter().zip(&b).all(|(a, b)| a.tree_id != b.tree_id && a.proxy_index != b.proxy_index));
        // The top bit of every kind is sometimes 0 and sometimes 1.
        type Top = fn(&Allocation) -> bool;
        let tops: [Top; 4] = [
            |a| a.tree_id.get() >> 31 == 1,
            |a| a.proxy_index >> 63 == 1,
            |a| a.session.designated_qpn.get() >> 23 == 1,
            |a| a.session.start_psn.get() >> 23 == 1,
        ];
        for top in tops {
            let ones = a.iter().filter(|a| top(a)).count();
            assert!((12..=52).contains(&ones), "{ones} of 64");
        }
    }

    #[test]
    fn a_session_that_fixes_its_psn_gets_it() {
        let psn = Psn::new("startPsn", 0x123456).unwrap();
        assert_eq!(pools().draw_session(Some(psn)).unwrap().0.start_psn, psn);
    }

    #[test]
    fn a_leap_passes_over_what_was_given_since_the_copy() {
        let mut pools = pools();
        let copy = pools.cursors();
        let mut given = BTreeSet::new();
        for _ in 0..2_000 {
            let (a, cursors) = pools.draw(None).unwrap();
            pools.resume(&cursors);
            given.insert((a.tree_id, a.session.designated_qpn));
        }
        pools.resume(&copy);
        pools.leap();
        for _ in 0..2_000 {
            let (a, cursors) = pools.draw(None).unwrap();
            pools.resume(&cursors);
            let clash = |(tree, qpn): &(TreeId, Qpn)| *tree == a.tree_id || *qpn == a.session.designated_qpn;
            assert!(!given.iter().any(clash));
        }
    }

    #[test]
    fn numbers_are_used_once_where_there_are_2_to_the_32_and_packets_of_earlier_sessions_may_carry_them() {
        let once = |range, order| Pool::new("numbers", range, order).once();
        let top = u64::from(u32::MAX);
        assert!(once(1..=top, Some(Kind::TreeId)) && once(2..=top + 1, Some(Kind::TreeId)));
        assert!(once(1..=u64::MAX, Some(Kind::Proxy)));
        assert!(!once(1..=top - 1, Some(Kind::TreeId)) && !once(2..=top, Some(Kind::TreeId)));
        assert!(!once(1..=top, Some(Kind::DesignatedQpn)) && !once(1..=top, None));
    }

    #[test]
    fn a_pool_of_numbers_that_are_used_once_runs_out_for_good() {
        let mut pool = Pool::new("tree identifiers", 1..=u64::from(u32::MAX), Some(Kind::TreeId));
        pool.resume(u64::from(u32::MAX));
        let (last, behind) = pool.peek(&secret()).unwrap();
        assert!(pool.claim(last));
        pool.resume(behind);
        for _ in 0..2 {
            let error = pool.peek(&secret()).unwrap_err().to_string();
            assert!(error.starts_with("all tree identifiers have been given, and none is used again"), "{error}");
            pool.used.remove(&last);
        }
    }

    /// 2^20 is 6 more than a multiple of 10.
    #[test]
    fn a_leap_stays_within_a_small_pool() {
        for (next, expected) in [(2, 8), (5, 11), (6, 2), (7, 3)] {
            let mut pool = Pool::new("numbers", 2..=11, None);
            pool.resume(next);
            pool.leap();
            assert_eq!(pool.next, expected, "from {next}");
        }
    }

    #[test]
    fn a_small_proxy_prefix_runs_out_with_a_clear_error() {
        let plan = AddressPlan { proxy_prefix: "fcfe::/112".parse().unwrap(), ..AddressPlan::default() };
        let mut pools = Pools::new(&plan, secret());
        let mut last = None;
        for _ in 1..=0xFFFF {
            let (a, cursors) = pools.draw(None).unwrap();
            pools.claim(&a).unwrap();
            pools.resume(&cursors);
            last = Some(a);
        }
        assert!(pools.draw(None).unwrap_err().to_string().starts_with("all 65535 Proxy Addresses are in use"));
        // With so few addresses, those of deleted groups are used again.
        let freed = last.unwrap();
        pools.release(&freed);
        assert_eq!(pools.draw(None).unwrap().0.proxy_index, freed.proxy_index);
    }
}
