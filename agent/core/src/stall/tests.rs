// SPDX-License-Identifier: Apache-2.0

use std::net::Ipv6Addr;

use canopy_model::ids::GroupId;
use canopy_model::telemetry::{BranchTelemetry, EventCode, GroupTelemetry};
use canopy_units::Octets;
use proptest::prelude::*;

use super::*;

const MS: u64 = 1_000_000;
/// Stall time of every group here.
const AFTER: u64 = 60 * MS;
/// Sampling interval of the tables.
const STEP: u64 = 15 * MS;
/// Far above 24 and 32 bits: PSNs must not be truncated.
const BASE: u64 = (1 << 40) + 0xFF_FFFE;

/// A time of a test, in nanoseconds.
fn instant(ns: u64) -> Monotonic {
    Monotonic::from_nanos(ns)
}

/// The same for a span.
fn span(ns: u64) -> Duration {
    Duration::from_nanos(ns)
}

fn id(v: u64) -> GroupId {
    GroupId::new("group", v).unwrap()
}

fn address(n: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n)
}

/// `branches` by number and next PSN, from which the minimum is computed.
fn group(v: u64, high: u64, data_packets: u64, branches: &[(u16, Option<u64>)]) -> GroupTelemetry {
    let branch = |(n, next): &(u16, Option<u64>)| BranchTelemetry {
        address: address(*n),
        next: next.map(UnwrappedPsn),
        unconfirmed: false,
        ack_psn: None,
        epsn: None,
        fatal: None,
        late: None,
        start: None,
        ccount: 0,
        last_feedback: None,
        packets: 0,
        octets: Octets::ZERO,
        completed_min: None,
    };
    GroupTelemetry {
        group_id: id(v),
        epoch: 1,
        high: UnwrappedPsn(high),
        min_next: branches.iter().filter_map(|(_, next)| *next).min().map(UnwrappedPsn),
        acks_in: 0,
        acks_out: 0,
        naks_in: 0,
        naks_out: 0,
        cnps_in: 0,
        cnps_out: 0,
        data_packets,
        fresh_packets: None,
        data_octets: Octets::ZERO,
        branches: branches.iter().map(branch).collect(),
        drops: vec![],
    }
}

/// Codes, groups and branch numbers of the events at sample number `step`.
fn step(stalls: &mut Stalls, step: u64, groups: &[GroupTelemetry]) -> Vec<(EventCode, u64, u16)> {
    let events = stalls.observe(groups, |_| Some(span(AFTER)), instant(step * STEP), UnixTime::from_nanos(7));
    assert!(events.iter().all(|e| e.time.nanos() == 7));
    let short = |e: Event| (e.code, u64::from(e.group.unwrap().get()), e.branch.unwrap().segments()[7]);
    events.into_iter().map(short).collect()
}

fn stalled(group: u64, branch: u16) -> (EventCode, u64, u16) {
    (EventCode::BranchStalled, group, branch)
}

fn recovered(group: u64, branch: u16) -> (EventCode, u64, u16) {
    (EventCode::BranchRecovered, group, branch)
}

#[test]
fn what_holds_in_another_epoch_too_is_reported_again() {
    let mut stalls = Stalls::default();
    let at = |n: u64, epoch: u32| {
        let mut g = group(1, BASE + 9, n, &[(1, Some(BASE)), (2, Some(BASE + 9))]);
        g.epoch = epoch;
        g
    };
    let reported: Vec<_> = (0..8).flat_map(|n| step(&mut stalls, n, &[at(n, 1)])).collect();
    assert_eq!(reported, [stalled(1, 1)]);
    let again: Vec<_> = (8..12)
        .flat_map(|n| stalls.observe(&[at(n, 2)], |_| Some(span(AFTER)), instant(n * STEP), UnixTime::from_nanos(7)))
        .collect();
    assert_eq!(again.iter().map(|e| (e.code, e.epoch)).collect::<Vec<_>>(), [(EventCode::BranchStalled, Some(2))]);
}

#[test]
fn a_fatal_nak_is_reported_once_whatever_the_group_and_again_on_request() {
    let fatal = |group, branch| (EventCode::FatalNak, group, branch);
    let mut one = group(1, BASE + 9, 9, &[(1, Some(BASE)), (2, Some(BASE + 9))]);
    one.branches[1].fatal = Some(FatalNak { syndrome: 0x62, psn: 0xAB });
    let mut stalls = Stalls::default();
    let unwatched = |stalls: &mut Stalls, groups: &[GroupTelemetry]| {
        stalls.observe(groups, |_| None, instant(0), UnixTime::from_nanos(7))
    };
    let events = unwatched(&mut stalls, std::slice::from_ref(&one));
    assert_eq!((events.len(), events[0].code, events[0].branch), (1, EventCode::FatalNak, Some(address(2))));
    for part in [address(2).to_string().as_str(), "0x0000ab", "0x62", "remote access error"] {
        assert!(events[0].detail.contains(part), "{part}: {}", events[0].detail);
    }
    assert_eq!(unwatched(&mut stalls, std::slice::from_ref(&one)), []);
    let mut two = one.clone();
    two.group_id = id(2);
    assert_eq!(step(&mut stalls, 1, &[one.clone(), two.clone()]), [fatal(2, 2)]);
    stalls.report_again();
    assert_eq!(step(&mut stalls, 2, &[one.clone(), two]), [fatal(1, 2), fatal(2, 2)]);
    // Another receiver with that address.
    let mut left = one.clone();
    left.branches[1].fatal = None;
    assert_eq!(step(&mut stalls, 3, &[left]), []);
    assert_eq!(step(&mut stalls, 4, &[one]), [fatal(1, 2)]);
}

#[test]
fn an_unconfirmed_branch_is_reported_and_a_pending_one_is_not() {
    let mut stalls = Stalls::default();
    let at = |n: u64, confirmed: bool| {
        let mut g = group(1, BASE + 9, n, &[(1, None), (2, confirmed.then_some(BASE + 9)), (3, None)]);
        g.branches[1].unconfirmed = !confirmed;
        // A group with an unconfirmed branch has no minimum.
        g.min_next = g.min_next.filter(|_| confirmed);
        g
    };
    let reported: Vec<_> = (0..12).flat_map(|n| step(&mut stalls, n, &[at(n, false)])).collect();
    assert_eq!(reported, [stalled(1, 2)], "1 and 3 wait for the start of a message");
    assert_eq!(step(&mut stalls, 12, &[at(12, true)]), [recovered(1, 2)]);
    let mut idle = Stalls::default();
    let reported: Vec<_> = (0..12).flat_map(|n| step(&mut idle, n, &[at(1, false)])).collect();
    assert_eq!(reported, [], "no data is forwarded");
}

/// Nothing was sent to it before: time without data does not count.
#[test]
fn an_unconfirmed_branch_has_a_whole_stall_time_from_the_first_data_on() {
    let mut stalls = Stalls::default();
    let at = |high, data| {
        let mut g = group(1, high, data, &[(1, None)]);
        g.branches[0].unconfirmed = true;
        g
    };
    for n in 0..100 {
        assert_eq!(step(&mut stalls, n, &[at(0, 0)]), []);
    }
    let reported = (100..110).find(|n| !step(&mut stalls, *n, &[at(BASE, *n)]).is_empty());
    assert_eq!(reported, Some(103), "60 ms after the last idle sample");
}

#[test]
fn a_branch_has_a_third_of_the_stall_time_to_acknowledge_data_and_no_more() {
    let mut stalls = Stalls::default();
    // Forwarded: 40 ms after the last progress.
    let data = [(0, 1), (20, 1), (40, 2), (59, 2), (60, 2)];
    let reported = data.map(|(ms, data)| {
        let sample = group(1, BASE + 9, data, &[(1, Some(BASE))]);
        stalls.observe(&[sample], |_| Some(span(AFTER)), instant(ms * MS), UnixTime::from_nanos(7)).len()
    });
    assert_eq!(reported, [0, 0, 0, 0, 1]);
}

#[test]
fn a_branch_holds_nothing_up_once_nothing_is_outstanding() {
    let mut stalls = Stalls::default();
    let at = |n: u64, high| group(1, high, n, &[(1, Some(BASE))]);
    let reported: Vec<_> = (0..8).flat_map(|n| step(&mut stalls, n, &[at(n, BASE + 9)])).collect();
    assert_eq!(reported, [stalled(1, 1)]);
    // The programs lost the data that was sent, and start anew from the branch's PSN.
    assert_eq!(step(&mut stalls, 8, &[at(8, BASE)]), [recovered(1, 1)]);
}

#[test]
fn a_branch_without_progress_while_data_is_forwarded_is_reported_once_and_again_after_progress() {
    let mut stalls = Stalls::default();
    let at = |n: u64, one: u64| group(1, BASE + 9, n, &[(1, Some(BASE + one)), (2, Some(BASE + 9))]);
    let reported: Vec<_> = (0..12).map(|n| step(&mut stalls, n, &[at(n, 0)])).collect();
    for (n, events) in reported.iter().enumerate() {
        // 60 ms after the first sample.
        assert_eq!(*events, if n == 4 { vec![stalled(1, 1)] } else { vec![] }, "sample {n}");
    }
    assert_eq!(step(&mut stalls, 12, &[at(12, 1)]), [recovered(1, 1)]);
    for n in 13..16 {
        assert_eq!(step(&mut stalls, n, &[at(n, 1)]), [], "the time counts from the last progress");
    }
    assert_eq!(step(&mut stalls, 16, &[at(16, 1)]), [stalled(1, 1)]);
    stalls.report_again();
    assert_eq!(
        step(&mut stalls, 17, &[at(17, 1)]),
        [stalled(1, 1)],
        "the controller gets the event again after a reconnect"
    );
    assert_eq!(step(&mut stalls, 18, &[at(18, 9)]), [recovered(1, 1)], "all is acknowledged");
}

#[test]
fn a_branch_above_the_minimum_or_pending_is_not_reported() {
    let mut stalls = Stalls::default();
    let branches = [(1, Some(BASE)), (2, Some(BASE + 1)), (3, None), (4, Some(BASE))];
    let reported: Vec<_> = (0..20).flat_map(|n| step(&mut stalls, n, &[group(1, BASE + 9, n, &branches)])).collect();
    assert_eq!(reported, [stalled(1, 1), stalled(1, 4)]);
    // They leave: the next minimum gets a whole stall time.
    let left = [(2, Some(BASE + 1)), (3, None)];
    for n in 20..24 {
        assert_eq!(step(&mut stalls, n, &[group(1, BASE + 9, n, &left)]), [], "sample {n}");
    }
    assert_eq!(step(&mut stalls, 24, &[group(1, BASE + 9, 24, &left)]), [stalled(1, 2)]);
}

#[test]
fn idle_and_empty_groups_never_stall_and_idle_time_does_not_count() {
    let mut stalls = Stalls::default();
    let idle = |n| [group(1, BASE, n, &[(1, Some(BASE))]), group(2, BASE, n, &[]), group(3, BASE, n, &[(1, None)])];
    for n in 0..1000 {
        assert_eq!(step(&mut stalls, n, &idle(n)), []);
    }
    let busy = |n| group(1, BASE + 1, n, &[(1, Some(BASE))]);
    let reported = (1000..1010).find(|n| !step(&mut stalls, *n, &[busy(*n)]).is_empty());
    assert_eq!(reported, Some(1003), "60 ms after the last idle sample");
}

#[test]
fn an_idle_source_causes_no_report() {
    let mut stalls = Stalls::default();
    let half = |data| group(1, BASE + 9, data, &[(1, Some(BASE)), (2, Some(BASE))]);
    for n in 0..1000 {
        // The source failed right after it had sent.
        assert_eq!(step(&mut stalls, n, &[half(9)]), []);
    }
    // The source resumes: the branches have a third of the stall time to acknowledge.
    assert_eq!(step(&mut stalls, 1000, &[half(10)]), []);
    assert_eq!(step(&mut stalls, 1001, &[half(11)]), []);
    assert_eq!(step(&mut stalls, 1002, &[half(12)]), [stalled(1, 1), stalled(1, 2)]);
}

#[test]
fn groups_do_not_affect_each_other_and_are_forgotten_when_removed() {
    let mut stalls = Stalls::default();
    let bad = |n| group(1, BASE + 9, n, &[(1, Some(BASE))]);
    let good = |n: u64| group(2, BASE + n, n, &[(1, Some(BASE + n / 2))]);
    let reported: Vec<_> = (0..10).flat_map(|n| step(&mut stalls, n, &[bad(n), good(n * 2)])).collect();
    assert_eq!(reported, [stalled(1, 1)]);
    assert_eq!(step(&mut stalls, 10, &[good(20)]), []);
    let again: Vec<_> = (11..16).map(|n| step(&mut stalls, n, &[bad(n)]).len()).collect();
    assert_eq!(again, [0, 0, 0, 0, 1], "another group with the same number starts anew");
    assert!(
        stalls.observe(&[bad(99)], |_| None, instant(99 * STEP), UnixTime::from_nanos(0)).is_empty()
            && stalls.groups.is_empty()
    );
}

#[test]
fn a_branch_that_joins_a_stalled_group_gets_a_whole_stall_time() {
    let mut stalls = Stalls::default();
    for n in 0..10 {
        step(&mut stalls, n, &[group(1, BASE + 9, n, &[(1, Some(BASE))])]);
    }
    let both = [(1, Some(BASE)), (2, Some(BASE))];
    let reported: Vec<_> = (10..15).map(|n| step(&mut stalls, n, &[group(1, BASE + 9, n, &both)])).collect();
    assert_eq!(reported[..4], [[], [], [], []]);
    assert_eq!(reported[4], [stalled(1, 2)]);
}

proptest! {
    /// A branch is reported only after a whole stall time at the minimum, and only while it is at the minimum.
    #[test]
    fn the_stall_time_is_always_given(
        moves in prop::collection::vec((prop::collection::vec(0u64..2, 3), 0u64..3, 1u64..40), 1..80)
    ) {
        let (mut stalls, mut next, mut high, mut data, mut now) = (Stalls::default(), [BASE; 3], BASE, 0, 0);
        let (mut min, mut since, mut standing) = (BASE, 0, std::collections::BTreeSet::new());
        for (steps, sent, ms) in moves {
            now += ms * MS;
            high += sent;
            data += sent;
            for (n, step) in next.iter_mut().zip(steps) {
                *n = (*n + step).min(high);
            }
            let branches: Vec<_> = (0..3).map(|i| (i as u16, Some(next[i]))).collect();
            let sample = group(1, high, data, &branches);
            let lowest = sample.min_next.unwrap();
            if lowest != UnwrappedPsn(min) || lowest == UnwrappedPsn(high) {
                (min, since) = (lowest.get(), now);
            }
            for event in stalls.observe(&[sample], |_| Some(span(AFTER)), instant(now), UnixTime::from_nanos(0)) {
                let branch = event.branch.unwrap().segments()[7];
                if event.code == EventCode::BranchStalled {
                    prop_assert!(now - since >= AFTER && next[usize::from(branch)] == min && min < high);
                    prop_assert!(standing.insert(branch), "reported twice");
                } else {
                    prop_assert!(standing.remove(&branch), "recovered before it stalled");
                    prop_assert!(next[usize::from(branch)] > min || min == high || since == now);
                }
            }
        }
    }
}
