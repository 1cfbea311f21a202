// SPDX-License-Identifier: Apache-2.0
//! CNPs of the branches: counted per window, rate limited, and reset when the window ends.

use std::net::Ipv6Addr;
use std::time::{Duration, Instant};

use crate::testbed::*;

const HOUR: u64 = 3_600_000_000_000;
const PATIENCE: Duration = Duration::from_secs(10);

/// A group of three receivers with this CNP window and minimum CNP interval, ns.
fn group(window: u64, interval: u64) -> Testbed {
    let mut bed = Testbed::new(&Shape { receivers: 3, ..Shape::default() });
    set(&mut bed, window, interval);
    bed
}

fn set(bed: &mut Testbed, window: u64, interval: u64) {
    let errors = bed.reconcile(|s| {
        s.groups.for_each_mut(|g| {
            (g.params.cnp_window_ns, g.params.cnp_min_interval_ns) = (window, interval);
        });
    });
    assert_eq!(errors, []);
}

fn send_cnps(bed: &Testbed, branches: &[u32]) {
    branches.iter().for_each(|b| {
        assert_eq!(bed.run("d0", &congestion(*b)).0, SHOT, "no CNP goes upstream before the window ends")
    });
}

/// CCount of the three receivers.
fn counts(bed: &mut Testbed) -> [u32; 3] {
    let t = bed.telemetry();
    let of = |a: Ipv6Addr| t.branches.iter().find(|b| b.address == a).unwrap().ccount;
    [0, 1, 2].map(|i| of(receiver(i)))
}

#[test]
fn cnps_are_counted_for_each_branch_and_the_highest_count_leads() {
    let mut bed = group(HOUR, 0);
    assert_eq!(counts(&mut bed), [0; 3]);
    send_cnps(&bed, &[2, 2]);
    assert_eq!(bed.cnp_leader(), (receiver(2), 2));
    send_cnps(&bed, &[0, 1, 1, 1]);
    assert_eq!((counts(&mut bed), bed.cnp_leader()), ([1, 3, 2], (receiver(1), 3)));
    // Of equal counts the lowest branch, independent of the order.
    send_cnps(&bed, &[0, 0]);
    assert_eq!((counts(&mut bed), bed.cnp_leader()), ([3, 3, 2], (receiver(0), 3)));
    let t = bed.telemetry();
    // A window without a timer sends its CNP first.
    let at_once = bed.drops().get("cnp_timer").copied().unwrap_or(0);
    assert_eq!((t.cnps_in, t.cnps_out, t.acks_in), (8, at_once, 0));
}

#[test]
fn every_count_is_zero_when_a_window_starts() {
    let mut bed = group(1_000_000, 0);
    send_cnps(&bed, &[0, 0, 0, 1]);
    let deadline = Instant::now() + PATIENCE;
    while bed.telemetry().cnps_out == 0 || counts(&mut bed) != [0; 3] {
        assert!(Instant::now() < deadline, "the window did not end: {:?}", counts(&mut bed));
    }
    // A window that stays open shows the counts with which it started.
    set(&mut bed, HOUR, 0);
    send_cnps(&bed, &[0, 2, 2]);
    assert_eq!((counts(&mut bed), bed.cnp_leader()), ([1, 0, 2], (receiver(2), 2)));
}

#[test]
fn cnps_above_the_rate_of_a_branch_are_dropped_and_not_counted() {
    let mut bed = group(HOUR, HOUR);
    send_cnps(&bed, &[0, 0, 0, 1, 0]);
    assert_eq!((counts(&mut bed), bed.telemetry().cnps_in), ([1, 1, 0], 2));
    assert_eq!(bed.drops()["cnp_rate"], 3);
    // The limit depends on the interval, not on the window.
    set(&mut bed, HOUR, 0);
    send_cnps(&bed, &[0]);
    assert_eq!((counts(&mut bed), bed.drops()["cnp_rate"]), ([2, 1, 0], 3));
}

/// The kernel allocates a window's timer without waiting, and on one processor every such allocation can fail for seconds.
#[test]
fn every_window_sends_one_cnp_whether_or_not_the_kernel_has_a_timer() {
    let mut bed = group(100_000, 0);
    let at_once = |bed: &mut Testbed| bed.drops().get("cnp_timer").copied().unwrap_or(0);
    // Each new entry takes a new timer: after some thousand there are none for a while.
    for i in 0..8_000 {
        bed.forget_cnps();
        send_cnps(&bed, &[0]);
        let deadline = Instant::now() + PATIENCE;
        while bed.cnps_out() == 0 {
            assert!(Instant::now() < deadline, "window {i} sent no CNP: {:?}", bed.drops());
        }
        assert_eq!(bed.cnps_out(), 1);
    }
    println!("{} of 8,000 windows had no timer", at_once(&mut bed));
    // Within a window there is no second one.
    set(&mut bed, HOUR, 0);
    bed.forget_cnps();
    let before = at_once(&mut bed);
    send_cnps(&bed, &[0, 1, 1]);
    assert_eq!(bed.cnps_out(), at_once(&mut bed) - before);
}

#[test]
fn a_window_that_its_timer_never_ended_ends_with_the_next_cnp() {
    let mut bed = group(1_000_000, 0);
    bed.lose_cnp_timer();
    send_cnps(&bed, &[2]);
    let deadline = Instant::now() + PATIENCE;
    while bed.cnps_out() == 0 {
        assert!(Instant::now() < deadline, "the lost window is still open: {:?}", bed.drops());
    }
}
