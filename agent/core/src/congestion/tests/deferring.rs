// SPDX-License-Identifier: Apache-2.0
//! What shows that a node upstream is at work: section 5.7, decisions 4.6.

use super::speaking::Lab;
use super::*;

/// Flow 1 at a port where only the depth counts.
fn lab() -> Lab {
    let mut lab = Lab::with_flow();
    let depth_only = Limits { v_growth_bytes_per_ms: u64::MAX, ..limits() };
    lab.node.handle(Input::Port(port(), depth_only), 0).unwrap();
    lab
}

/// So many milliseconds in which flow 1 came in with so many of its 9000 octets marked.
fn came(lab: &mut Lab, count: u64, queue_bytes: u64, marked: u64) -> Vec<(u64, u8, Action)> {
    let mut told = Vec::new();
    for _ in 0..count {
        let now = lab.now + MS;
        lab.node.handle(Input::Arrived(port(), key(1), 9_000), now).unwrap();
        lab.node.handle(Input::CameMarked(port(), key(1), marked), now).unwrap();
        let found = lab.step(queue_bytes, &[]);
        told.extend(found.iter().map(|c| (lab.now / MS, c.level, c.action)));
    }
    told
}

fn falls(lab: &mut Lab, parts: &[(u64, u64)]) -> u64 {
    parts.iter().for_each(|(count, bytes)| drop(lab.steps(*count, 60 * MB, &[(1, *bytes)])));
    lab.step(126 * MB, &[(1, parts.last().unwrap().1)]);
    lab.node.counts().suppressed
}

/// Most of the flow is marked: an RTT of silence. Then the level is higher: an escalation; the same and beyond K_max: a
/// plain instruction, for nobody does more than mark; at K_max or lower: silence as long as marks come.
#[test]
fn a_flow_that_came_in_marked_is_left_to_nodes_upstream_until_it_is_worse() {
    let worse = (140 * MB, vec![(12, 186, Action::Pause { micros: 10_000 })]);
    let still = (130 * MB, vec![(12, 180, Action::RateReduce(percent(30)))]);
    for ((later, expected), before) in [worse, still, (126 * MB, vec![])].into_iter().zip([126, 130, 126]) {
        let mut lab = lab();
        assert_eq!(came(&mut lab, 10, before * MB, 9_000), []);
        let mut told = came(&mut lab, 2, later, 9_000);
        told.extend(came(&mut lab, 5, later, 9_000));
        assert_eq!(told, expected, "{later} after {before} MB");
    }
    let mut lab = lab();
    let told = came(&mut lab, 3, 126 * MB, 4_500);
    assert_eq!(told, [(2, 177, Action::RateReduce(percent(28)))], "half is not most");
}

/// The window was over; it does not begin again.
#[test]
fn what_gets_worse_after_the_window_is_escalated_at_once() {
    let mut lab = lab();
    assert_eq!(came(&mut lab, 16, 126 * MB, 9_000), []);
    assert_eq!(came(&mut lab, 1, 140 * MB, 9_000), [(17, 186, Action::Pause { micros: 10_000 })]);
}

#[test]
fn marks_count_for_an_rtt_and_those_of_unknown_flows_not_at_all() {
    let mut lab = lab();
    came(&mut lab, 3, MB, 9_000);
    assert_eq!(came(&mut lab, 9, 126 * MB, 0), [], "the last marks came 1 to 9 ms ago");
    let told = came(&mut lab, 9, 126 * MB, 0);
    assert_eq!(told.len(), 1, "and then they are too old: {told:?}");
    lab.node.handle(Input::CameMarked(port(), key(9), 9_000), lab.now).unwrap();
    assert_eq!(lab.node.flows(), 1);
}

/// Nobody looks at flows while a queue is short: what comes after is compared with nothing.
#[test]
fn a_gap_in_the_looks_at_flows_is_no_fall() {
    let mut lab = lab();
    lab.steps(15, 60 * MB, &[(1, 10_000)]);
    lab.steps(100, MB, &[]);
    let told = lab.steps(3, 126 * MB, &[(1, 10_000)]);
    assert_eq!((told.len(), lab.node.counts().suppressed), (1, 0));
    // A gap shorter than half an RTT is a time in which nothing came.
    let mut lab = self::lab();
    lab.steps(16, 60 * MB, &[(1, 10_000)]);
    lab.steps(4, 60 * MB, &[]);
    lab.steps(2, 60 * MB, &[(1, 1_000)]);
    lab.step(126 * MB, &[(1, 1_000)]);
    assert_eq!(lab.node.counts().suppressed, 1);
}

/// Windows end after 6, 11, 16, 21 ms.
#[test]
fn a_fall_is_seen_wherever_it_begins_in_a_window() {
    // 8 % in each of two windows.
    assert_eq!(falls(&mut lab(), &[(13, 10_000), (8, 8_400)]), 1, "split over two windows");
    assert_eq!(falls(&mut lab(), &[(16, 10_000), (2, 5_000)]), 1, "the window still runs");
    assert_eq!(falls(&mut lab(), &[(11, 10_000), (10, 9_200)]), 0, "less than a tenth");
    assert_eq!(falls(&mut lab(), &[(6, 5_000), (15, 10_000)]), 0, "a rise");
    assert_eq!(falls(&mut lab(), &[(11, 10_000), (25, 5_000)]), 0, "more than an RTT ago");
}

/// Seen after 19 ms, while the window still ran, and not again at its end: silence until 29 ms.
#[test]
fn a_fall_counts_once() {
    let mut lab = lab();
    assert_eq!(falls(&mut lab, &[(16, 10_000), (2, 5_000)]), 1);
    let told = lab.steps(12, 126 * MB, &[(1, 5_000)]);
    assert_eq!(told.iter().map(|(at, command)| (*at, command.level)).collect::<Vec<_>>(), [(29, 177)]);
}

#[test]
fn a_node_that_does_not_defer_speaks() {
    let mut lab = Lab::new(Settings { defers: false, ..Settings::default() });
    let known = Input::Flow { flow: flow(1), origin: Origin::Provisioned, accepts_roce: false };
    lab.node.handle(known, 0).unwrap();
    assert_eq!(came(&mut lab, 3, 126 * MB, 9_000).len(), 1);
    assert_eq!(lab.node.counts().suppressed, 0);
}
