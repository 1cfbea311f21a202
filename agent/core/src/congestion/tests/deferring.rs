// SPDX-License-Identifier: Apache-2.0
//! Detection of a node upstream that controls a flow: section 5.7, decisions 4.6.

use super::sending::Lab;
use super::*;

/// Flow 1 at a port where only the queue depth triggers.
fn lab() -> Lab {
    let mut lab = Lab::with_flow();
    let depth_only = Limits { v_growth_per_ms: Octets::MAX, ..limits() };
    lab.node.handle(Input::Port(port(), depth_only), instant(0)).unwrap();
    lab
}

/// Runs `count` milliseconds, in each of which 9000 octets of flow 1 arrive, `marked` of them CE-marked.
fn marked_steps(lab: &mut Lab, count: u64, queue_bytes: u64, marked: u64) -> Vec<(u64, u8, Action)> {
    let mut commands = Vec::new();
    for _ in 0..count {
        let now = lab.now + MS;
        lab.node.handle(Input::Arrived(port(), key(1), Octets(9_000)), instant(now)).unwrap();
        lab.node.handle(Input::CameMarked(port(), key(1), Octets(marked)), instant(now)).unwrap();
        let found = lab.step(queue_bytes, &[]);
        commands.extend(found.iter().map(|c| (lab.now / MS, c.level, c.action)));
    }
    commands
}

fn falls(lab: &mut Lab, parts: &[(u64, u64)]) -> u64 {
    parts.iter().for_each(|(count, bytes)| drop(lab.steps(*count, 60 * MB, &[(1, *bytes)])));
    lab.step(126 * MB, &[(1, parts.last().unwrap().1)]);
    lab.node.counts().suppressed
}

/// Most of the flow is marked: the node defers for an RTT. Then it escalates at a higher level; at the same level above K_max
/// it sends a plain instruction, because the nodes upstream only mark; at K_max or below it defers while marks arrive.
#[test]
fn a_marked_flow_is_left_to_nodes_upstream_until_the_level_rises() {
    let worse = (140 * MB, vec![(12, 186, Action::Pause { micros: 10_000 })]);
    let still = (130 * MB, vec![(12, 180, Action::RateReduce(percent(30)))]);
    for ((later, expected), before) in [worse, still, (126 * MB, vec![])].into_iter().zip([126, 130, 126]) {
        let mut lab = lab();
        assert_eq!(marked_steps(&mut lab, 10, before * MB, 9_000), []);
        let mut commands = marked_steps(&mut lab, 2, later, 9_000);
        commands.extend(marked_steps(&mut lab, 5, later, 9_000));
        assert_eq!(commands, expected, "{later} after {before} MB");
        let pauses = expected.iter().filter(|(.., action)| matches!(action, Action::Pause { .. })).count();
        assert_eq!(lab.node.escalated(), pauses as u64);
    }
    let mut lab = lab();
    let commands = marked_steps(&mut lab, 3, 126 * MB, 4_500);
    assert_eq!(commands, [(2, 177, Action::RateReduce(percent(28)))], "half is not most");
}

/// The deferral has ended and does not start again.
#[test]
fn a_higher_level_after_the_deferral_is_escalated_at_once() {
    let mut lab = lab();
    assert_eq!(marked_steps(&mut lab, 16, 126 * MB, 9_000), []);
    assert_eq!(marked_steps(&mut lab, 1, 140 * MB, 9_000), [(17, 186, Action::Pause { micros: 10_000 })]);
}

/// The level fell in between: the higher one counts from the start of the deferral.
#[test]
fn a_level_that_rises_again_after_the_deferral_is_escalated_at_once() {
    let mut lab = lab();
    assert_eq!(marked_steps(&mut lab, 11, 140 * MB, 9_000), []);
    assert_eq!(marked_steps(&mut lab, 2, 130 * MB, 9_000), []);
    assert_eq!(marked_steps(&mut lab, 1, 150 * MB, 9_000), [(14, 192, Action::Pause { micros: 10_000 })]);
}

/// Two RTTs after the first one, a congestion of the same level is a new one.
#[test]
fn a_later_congestion_is_left_to_nodes_upstream_again() {
    let mut lab = lab();
    assert_eq!(marked_steps(&mut lab, 3, 130 * MB, 9_000), []);
    assert_eq!(marked_steps(&mut lab, 30, MB, 0), []);
    assert_eq!(marked_steps(&mut lab, 3, 130 * MB, 9_000), []);
}

/// Marks caused the deferral; when it ends, the rate has fallen as well.
#[test]
fn a_fall_at_the_end_of_a_deferral_by_marks_starts_another_one() {
    let mut lab = lab();
    for ms in 1..=12 {
        let octets = if ms < 7 { 9_000 } else { 4_000 };
        lab.node.handle(Input::Arrived(port(), key(1), Octets(octets)), instant(ms * MS)).unwrap();
        lab.node.handle(Input::CameMarked(port(), key(1), Octets(octets)), instant(ms * MS)).unwrap();
        assert_eq!(lab.step(126 * MB, &[]), [], "{ms} ms");
    }
}

/// The first congestion ended without an instruction of this node. That nodes upstream did not prevent a worse one two RTTs later shows
/// nothing about their control of it.
#[test]
fn a_deferral_of_an_earlier_congestion_escalates_no_later_one() {
    let mut lab = lab();
    assert_eq!(marked_steps(&mut lab, 3, 126 * MB, 9_000), []);
    assert_eq!(marked_steps(&mut lab, 30, MB, 0), []);
    assert_eq!(marked_steps(&mut lab, 2, 140 * MB, 0), [(34, 186, Action::RateReduce(percent(34)))]);
}

#[test]
fn marks_count_for_an_rtt_and_those_of_unknown_flows_not_at_all() {
    let mut lab = lab();
    marked_steps(&mut lab, 3, MB, 9_000);
    assert_eq!(marked_steps(&mut lab, 9, 126 * MB, 0), [], "the last marks arrived 1 to 9 ms ago");
    let commands = marked_steps(&mut lab, 9, 126 * MB, 0);
    assert_eq!(commands.len(), 1, "now they are too old: {commands:?}");
    lab.node.handle(Input::CameMarked(port(), key(9), Octets(9_000)), instant(lab.now)).unwrap();
    assert_eq!(lab.node.flows(), 1);
}

/// Flows are not polled while a queue is short: the first rate afterwards has no earlier one to compare with.
#[test]
fn a_gap_in_the_polls_of_flows_is_no_fall() {
    let mut lab = lab();
    lab.steps(15, 60 * MB, &[(1, 10_000)]);
    lab.steps(100, MB, &[]);
    let commands = lab.steps(3, 126 * MB, &[(1, 10_000)]);
    assert_eq!((commands.len(), lab.node.counts().suppressed), (1, 0));
    // Half an RTT and two intervals at most are time without packets.
    for (polls, suppressed) in [(4, 1), (6, 1), (7, 0), (15, 0)] {
        let mut lab = self::lab();
        lab.steps(16, 60 * MB, &[(1, 10_000)]);
        lab.steps(polls, 60 * MB, &[]);
        lab.steps(2, 60 * MB, &[(1, 1_000)]);
        lab.step(126 * MB, &[(1, 1_000)]);
        assert_eq!(lab.node.counts().suppressed, suppressed, "{polls}");
    }
}

/// Flows are read seldom while a queue is short: what came marked at the end of a long interval is a small part of what came in it.
#[test]
fn marks_after_a_gap_are_waited_for_and_not_taken_for_none() {
    for (now, then, sent) in [(90, 9_000, 0), (90, 0, 1), (0, 0, 1)] {
        let mut lab = lab();
        lab.steps(15, MB, &[(1, 9_000)]);
        lab.steps(100, MB, &[]);
        assert_eq!(marked_steps(&mut lab, 1, 126 * MB, now).len(), usize::from(now == 0), "{now} {then}");
        assert_eq!(marked_steps(&mut lab, 1, 126 * MB, then).len(), usize::from(now > 0 && then == 0), "{now} {then}");
        assert_eq!(lab.node.counts().cnps.of(Action::RateReduce(percent(28))), &sent);
    }
}

/// Windows end after 6, 11, 16, 21 ms.
#[test]
fn a_fall_is_detected_wherever_it_starts_in_a_window() {
    // 8 % in each of two windows.
    assert_eq!(falls(&mut lab(), &[(13, 10_000), (8, 8_400)]), 1, "split over two windows");
    assert_eq!(falls(&mut lab(), &[(16, 10_000), (2, 5_000)]), 1, "the window still runs");
    assert_eq!(falls(&mut lab(), &[(11, 10_000), (10, 9_200)]), 0, "less than a tenth");
    assert_eq!(falls(&mut lab(), &[(11, 10_000), (10, 9_000)]), 0, "no more than a tenth");
    assert_eq!(falls(&mut lab(), &[(6, 5_000), (15, 10_000)]), 0, "a rise");
    assert_eq!(falls(&mut lab(), &[(11, 10_000), (25, 5_000)]), 0, "more than an RTT ago");
}

/// Detected after 19 ms, within the window, and not again at its end: the node defers until 29 ms.
#[test]
fn a_fall_counts_once() {
    let mut lab = lab();
    assert_eq!(falls(&mut lab, &[(16, 10_000), (2, 5_000)]), 1);
    let commands = lab.steps(12, 126 * MB, &[(1, 5_000)]);
    assert_eq!(commands.iter().map(|(at, command)| (*at, command.level)).collect::<Vec<_>>(), [(29, 177)]);
}

#[test]
fn a_node_that_does_not_defer_sends() {
    let mut lab = Lab::new(Settings { defers: false, ..Settings::default() });
    let known = Input::Flow { flow: flow(1), origin: Origin::Provisioned, accepts_roce: false };
    lab.node.handle(known, instant(0)).unwrap();
    assert_eq!(marked_steps(&mut lab, 3, 126 * MB, 9_000).len(), 1);
    assert_eq!(lab.node.counts().suppressed, 0);
}
