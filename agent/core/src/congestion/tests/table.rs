// SPDX-License-Identifier: Apache-2.0
//! The flow table against its bounds, and against a list with the same semantics.

use super::*;
use proptest::prelude::*;

const AGE: u64 = 100;

fn see(table: &mut FlowTable<u64>, n: u32, now: u64) -> (bool, Option<FlowKey>) {
    let mut evicted = None;
    let there = table.observe(key(n), instant(now), &mut evicted).map(|count| *count += 1).is_some();
    (there, evicted)
}

/// Every flow is new: the table stays within its capacity, provisioned flows stay, and the oldest other flow is evicted.
#[test]
fn a_million_flows_stay_within_the_bound_and_never_evict_a_provisioned_one() {
    const CAPACITY: usize = 4_096;
    const PROVISIONED: u32 = 1_000;
    let mut table = FlowTable::<u64>::new(CAPACITY, span(u64::MAX));
    for n in 0..PROVISIONED {
        assert_eq!(table.learn(flow(n), Origin::Provisioned, instant(0)), Ok(None));
    }
    let room = CAPACITY as u32 - PROVISIONED;
    for n in 0..1_000_000 {
        let (there, evicted) = see(&mut table, PROVISIONED + n, u64::from(n));
        assert!(there && table.len() <= CAPACITY);
        assert_eq!(evicted, n.checked_sub(room).map(|oldest| key(PROVISIONED + oldest)));
    }
    assert_eq!(table.len(), CAPACITY);
    assert!((0..PROVISIONED).all(|n| table.src_qp(&key(n)) == Some((qp(100), Origin::Provisioned))));
}

#[test]
fn a_flow_seen_again_is_not_the_oldest_and_provisioned_flows_do_not_expire() {
    let mut table = FlowTable::<u64>::new(3, span(AGE));
    table.learn(flow(9), Origin::Provisioned, instant(0)).unwrap();
    see(&mut table, 1, 0);
    see(&mut table, 2, 10);
    see(&mut table, 1, 20);
    assert_eq!(see(&mut table, 3, 30), (true, Some(key(2))));
    assert_eq!(table.next_expiry(), Some(instant(20 + AGE)));
    assert_eq!(table.expire(instant(19 + AGE)), None);
    assert_eq!(table.expire(instant(20 + AGE)), Some(key(1)));
    assert_eq!((table.expire(instant(20 + AGE)), table.expire(instant(30 + AGE))), (None, Some(key(3))));
    assert_eq!((table.expire(instant(u64::MAX)), table.next_expiry(), table.len()), (None, None, 1));
    assert_eq!(table.get_mut(&key(1)), None);
}

#[test]
fn a_table_full_of_provisioned_flows_refuses_others_until_one_is_withdrawn() {
    let mut table = FlowTable::<u64>::new(2, span(AGE));
    see(&mut table, 1, 0);
    see(&mut table, 2, 0);
    assert_eq!(table.learn(flow(2), Origin::Provisioned, instant(1)), Ok(None), "it is there already");
    assert_eq!(table.learn(flow(3), Origin::Provisioned, instant(1)), Ok(Some(key(1))), "a learned one makes room");
    assert_eq!(table.learn(flow(4), Origin::Provisioned, instant(1)), Err(TableFull { capacity: 2 }));
    assert_eq!(see(&mut table, 5, 1), (false, None));
    assert!(table.withdraw(key(3)) && !table.withdraw(key(3)));
    assert_eq!(see(&mut table, 5, 1), (true, None));
    assert!(!table.withdraw(key(5)), "the registry never had it");
}

#[test]
fn flows_from_rdma_cm_are_added_before_their_first_packet_and_bounded_and_expire_like_others() {
    let mut table = FlowTable::<u64>::new(2, span(100));
    assert_eq!(table.learn(flow(1), Origin::Provisioned, instant(0)), Ok(None));
    assert_eq!(table.learn(flow(2), Origin::Cm, instant(0)), Ok(None));
    assert_eq!(table.src_qp(&key(2)), Some((flow(2).src_qp, Origin::Cm)));
    assert_eq!(table.learn(flow(3), Origin::Cm, instant(50)), Ok(Some(key(2))), "the oldest that is not provisioned");
    assert_eq!((table.expire(instant(149)), table.expire(instant(150)), table.len()), (None, Some(key(3)), 1));
    assert_eq!(table.learn(flow(4), Origin::Provisioned, instant(150)), Ok(None));
    assert_eq!((table.learn(flow(5), Origin::Cm, instant(150)), table.len()), (Ok(None), 2), "no room is no error");
}

#[test]
fn a_source_qp_comes_from_the_most_trusted_origin() {
    let mut table = FlowTable::<u64>::new(2, span(AGE));
    let from = |n| FourTuple { key: key(1), src_qp: qp(n) };
    assert_eq!(table.learn(from(10), Origin::Learned, instant(0)), Ok(None));
    assert!(table.is_empty(), "ACKs alone add nothing");
    see(&mut table, 1, 0);
    assert!(!table.is_empty());
    let steps = [
        (10, Origin::Learned, (10, Origin::Learned)),
        (11, Origin::Learned, (11, Origin::Learned)),
        (20, Origin::Cm, (20, Origin::Cm)),
        (12, Origin::Learned, (20, Origin::Cm)),
        (30, Origin::Provisioned, (30, Origin::Provisioned)),
        (21, Origin::Cm, (30, Origin::Provisioned)),
        (31, Origin::Provisioned, (31, Origin::Provisioned)),
    ];
    for (n, origin, (expected, trusted)) in steps {
        table.learn(from(n), origin, instant(0)).unwrap();
        assert_eq!(table.src_qp(&key(1)), Some((qp(expected), trusted)));
    }
}

/// The list is ordered by the last packet.
#[derive(Default)]
struct Model {
    provisioned: Vec<u32>,
    seen: Vec<(u32, u64)>,
}

impl Model {
    fn room(&mut self, capacity: usize) -> bool {
        if self.provisioned.len() + self.seen.len() < capacity {
            return true;
        }
        let oldest = !self.seen.is_empty();
        if oldest {
            self.seen.remove(0);
        }
        oldest
    }

    fn see(&mut self, n: u32, now: u64, capacity: usize) {
        if self.provisioned.contains(&n) {
            return;
        }
        let known = self.seen.iter().position(|(m, _)| *m == n).map(|at| self.seen.remove(at)).is_some();
        if known || self.room(capacity) {
            self.seen.push((n, now));
        }
    }

    fn provision(&mut self, n: u32, capacity: usize) {
        if self.provisioned.contains(&n) {
            return;
        }
        let known = self.seen.iter().position(|(m, _)| *m == n).map(|at| self.seen.remove(at)).is_some();
        if known || self.room(capacity) {
            self.provisioned.push(n);
        }
    }
}

proptest! {
    #[test]
    fn the_table_is_the_list(steps in prop::collection::vec((0_u8..4, 0_u32..12, 0_u64..40), 1..200)) {
        const CAPACITY: usize = 6;
        let (mut table, mut model, mut now) = (FlowTable::<u64>::new(CAPACITY, span(AGE)), Model::default(), 0);
        for (what, n, gap) in steps {
            now += gap;
            match what {
                0 => {
                    let _ = table.learn(flow(n), Origin::Provisioned, instant(now));
                    model.provision(n, CAPACITY);
                }
                1 => {
                    table.withdraw(key(n));
                    model.provisioned.retain(|m| *m != n);
                }
                _ => {
                    see(&mut table, n, now);
                    model.see(n, now, CAPACITY);
                }
            }
            while table.expire(instant(now)).is_some() {}
            model.seen.retain(|(_, at)| at + AGE > now);
            let held: Vec<_> = (0..12).filter(|n| table.get_mut(&key(*n)).is_some()).collect();
            let mut expected: Vec<_> = model.seen.iter().map(|(n, _)| *n).chain(model.provisioned.clone()).collect();
            expected.sort_unstable();
            prop_assert_eq!(held, expected);
            prop_assert_eq!(table.next_expiry(), model.seen.first().map(|(_, at)| instant(at + AGE)));
        }
    }
}
