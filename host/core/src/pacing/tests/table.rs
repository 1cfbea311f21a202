// SPDX-License-Identifier: Apache-2.0
//! The table of `docs/long-haul.md`: inputs and the resulting rate, in percent of the line rate.

use super::*;

/// Name; (RTTs since the start, input, expected outcome); final rate in percent; issuer to which it is attributed.
type Row = (&'static str, Vec<(u64, Input, Outcome)>, u64, Option<Issuer>);

const APPLIED: Outcome = Outcome::Applied;
const ABSORBED: Outcome = Outcome::Absorbed;
const EARLY: Outcome = Outcome::Refused(Refusal::TooEarly);

fn rows() -> Vec<Row> {
    let one = Some(Issuer::Node(node(1)));
    let two = Some(Issuer::Node(node(2)));
    let peers = Some(Issuer::Peer);
    let first = || (0, cut(1, 30), APPLIED);
    vec![
        ("one reduction", vec![first()], 70, one),
        ("a duplicate of it", vec![first(), (0, cut(1, 30), ABSORBED)], 70, one),
        ("two by one node, an RTT apart", vec![first(), (1, cut(1, 30), APPLIED)], 49, one),
        ("two by two nodes in one RTT", vec![first(), (0, cut(2, 30), ABSORBED)], 70, one),
        ("two by two nodes, an RTT apart", vec![first(), (1, cut(2, 30), APPLIED)], 49, two),
        ("the stricter in one RTT", vec![first(), (0, cut(2, 50), APPLIED)], 50, two),
        ("the same the other way round", vec![(0, cut(2, 50), APPLIED), (0, cut(1, 30), ABSORBED)], 50, two),
        ("Resume 50", vec![first(), (1, resume(1, 50), APPLIED)], 85, one),
        ("Resume 50 replayed", vec![first(), (1, resume(1, 50), APPLIED), (1, resume(1, 50), ABSORBED)], 85, one),
        ("Resume 0 is capped at 25", vec![first(), (1, resume(1, 0), APPLIED)], 95, one),
        (
            "Resume 0 replayed",
            vec![first(), (1, resume(1, 0), APPLIED), (1, resume(1, 0), ABSORBED), (2, resume(1, 100), ABSORBED)],
            95,
            one,
        ),
        (
            "two by one node and one Resume 50: half of the second",
            vec![(0, cut(1, 20), APPLIED), (1, cut(1, 50), APPLIED), (2, resume(1, 50), APPLIED)],
            60,
            one,
        ),
        (
            "two by one node and one Resume 0",
            vec![(0, cut(1, 20), APPLIED), (1, cut(1, 50), APPLIED), (2, resume(1, 0), APPLIED)],
            65,
            one,
        ),
        (
            "two by two nodes in one RTT, one resumes: the other reduction stays",
            vec![first(), (0, cut(2, 30), ABSORBED), (1, resume(1, 0), APPLIED)],
            70,
            two,
        ),
        (
            "two by two nodes, both resume 100",
            vec![first(), (0, cut(2, 30), ABSORBED), (1, resume(1, 100), APPLIED), (1, resume(2, 100), APPLIED)],
            95,
            one,
        ),
        ("Resume within the RTT", vec![first(), (0, resume(1, 0), EARLY)], 70, one),
        ("Resume by a node without a reduction", vec![first(), (1, resume(2, 0), ABSORBED)], 70, one),
        ("Resume without any reduction", vec![(0, resume(1, 0), ABSORBED)], 100, None),
        ("Notify", vec![(0, long_haul(1, Action::Notify), APPLIED)], 75, one),
        ("an aggregated CNP", vec![(0, cnp(peer()), APPLIED)], 75, peers),
        ("a node's packet that could not be parsed", vec![(0, cnp(node(1)), APPLIED)], 75, one),
        ("CNP and Long-haul CNP in one RTT", vec![first(), (0, cnp(peer()), ABSORBED)], 70, one),
        (
            "the same, and the node resumes: the reduction of the receivers stays",
            vec![first(), (0, cnp(peer()), ABSORBED), (1, resume(1, 0), APPLIED)],
            75,
            peers,
        ),
        (
            "a CNP an RTT later echoes packets sent before the reduction",
            vec![first(), (1, cnp(peer()), ABSORBED), (1, cut(1, 30), APPLIED)],
            49,
            one,
        ),
        ("and counts if it is the stricter one", vec![(0, cut(1, 20), APPLIED), (1, cnp(peer()), APPLIED)], 75, peers),
        ("reduce by everything", vec![(0, cut(1, 100), APPLIED)], 1, one),
        ("reduce by nothing", vec![(0, cut(1, 0), ABSORBED)], 100, None),
        ("Pause and its Resume", vec![(0, pause(1, 50_000), APPLIED), (1, resume(1, 50), APPLIED)], 100, None),
    ]
}

#[test]
fn every_row_has_its_one_result() {
    for (name, steps, expected, issuer) in rows() {
        let mut source = source();
        for (at, input, outcome) in steps {
            assert_eq!(source.handle(input.clone(), instant(at * RTT)), outcome, "{name}: {input:?}");
        }
        let state = now(&source);
        assert_eq!((state.rate.bps(), state.paused_until), (expected * LINE / 100, None), "{name}");
        assert_eq!(state.limited_by, issuer, "{name}");
    }
}

/// An echo is late by at most an RTT; later CNPs refer to packets sent at the reduced rate. An echo after an echo ends with its
/// own round.
#[test]
fn a_cnp_two_rtts_after_a_node_or_one_rtt_after_a_cnp_counts_as_new() {
    for (start, gap, expected) in
        [(cut(1, 30), 2 * RTT - 1, 70_000), (cut(1, 30), 2 * RTT, 56_250), (cnp(peer()), RTT, 56_250)]
    {
        let mut source = source();
        source.handle(start, instant(0));
        source.handle(cnp(peer()), instant(gap));
        assert_eq!(now(&source).rate.bps(), expected, "{gap}");
    }
}

/// Section 7, steps 4 to 8: 30 %, recovery after 20 ms, Resume 50 gives half of the 30 % on top.
#[test]
fn the_drafts_example() {
    let mut source = source();
    source.handle(cut(1, 30), instant(0));
    source.handle_timeout(instant(2 * RTT));
    assert_eq!(now(&source).rate.bps(), 75_000);
    source.handle(resume(1, 50), instant(2 * RTT + 1));
    assert_eq!(now(&source).rate.bps(), 90_000);
}

#[test]
fn a_resume_ends_only_the_pause_of_its_issuer() {
    let mut source = source();
    source.handle(pause(1, 50_000), instant(0));
    source.handle(pause(2, 30_000), instant(0));
    assert_eq!(now(&source).paused_until, Some(instant(50 * MS)));
    assert_eq!(source.handle(resume(1, 0), instant(RTT - 1)), EARLY);
    assert_eq!(source.handle(resume(1, 0), instant(RTT)), APPLIED);
    assert_eq!(now(&source).paused_until, Some(instant(30 * MS)));
    assert_eq!(source.handle(resume(2, 0), instant(RTT)), APPLIED);
    assert_eq!(now(&source).paused_until, None);
}

/// Packets of a node whose clock was set back count again, and one that is silent for long leaves nothing.
#[test]
fn a_timestamp_counts_for_ten_seconds_of_the_monotonic_clock() {
    const S: u64 = 1000 * MS;
    let stamped = |timestamp| Input::LongHaul {
        from: node(1),
        qp: qp(100),
        action: Action::RateReduce(percent(30)),
        timestamp: Some(timestamp),
    };
    let mut source = source();
    assert_eq!(source.handle(stamped(1 << 45), instant(0)), APPLIED);
    let an_hour_before = (1 << 45) - (3600 << 32);
    assert_eq!(source.handle(stamped(an_hour_before), instant(10 * S - 1)), Outcome::Refused(Refusal::Stale));
    assert_eq!(source.handle(stamped(an_hour_before), instant(10 * S)), APPLIED);
    assert_eq!(source.handle(stamped(an_hour_before), instant(10 * S + 1)), Outcome::Refused(Refusal::Stale));
    let in_the_same_rtt = source.handle(stamped(an_hour_before + 1), instant(10 * S + 1));
    assert_eq!(in_the_same_rtt, ABSORBED, "newer, and already done");
}

/// A Resume that is delayed beyond a later reduction, with and without the Timestamp object.
#[test]
fn a_replayed_resume_does_not_undo_a_later_reduction() {
    let stamped =
        |action, timestamp| Input::LongHaul { from: node(1), qp: qp(100), action, timestamp: Some(timestamp) };
    let reduce = Action::RateReduce(percent(30));
    let mut source = source();
    assert_eq!(source.handle(stamped(reduce, u64::MAX), instant(0)), APPLIED);
    assert_eq!(source.handle(stamped(Action::Resume(percent(50)), 5), instant(RTT)), APPLIED, "NTP time wraps");
    assert_eq!(source.handle(stamped(reduce, 9), instant(2 * RTT)), APPLIED);
    let rate = now(&source).rate.bps();
    assert_eq!(
        source.handle(resume(1, 50), instant(2 * RTT + 5)),
        EARLY,
        "without a timestamp, the RTT protects the reduction"
    );
    assert_eq!(
        source.handle(stamped(Action::Resume(percent(50)), 5), instant(3 * RTT)),
        Outcome::Refused(Refusal::Stale)
    );
    assert_eq!(
        source.handle(stamped(reduce, 9), instant(4 * RTT - 1)),
        Outcome::Refused(Refusal::Stale),
        "a duplicate"
    );
    assert_eq!(now(&source).rate.bps(), rate);
}
