// SPDX-License-Identifier: Apache-2.0
//! A packet that meets a queue above K_min wakes the agent, once per RTT_est.

use super::*;

/// A queue of some 50 kB that drains very slowly, and the programs with maps of their own.
fn congested(k_min: u64, rtt_ns: u64) -> (Bed, Egress) {
    let bed = Bed::new();
    bed.queue("1kbit");
    bed.fill(50);
    let program = own(&bed);
    limit(&bed, &program, k_min, rtt_ns);
    (bed, program)
}

fn limit(bed: &Bed, program: &Egress, k_min: u64, rtt_ns: u64) {
    program.set_limits(&BTreeMap::from([(bed.port, types::canopy_limits { k_min, rtt_ns })])).unwrap();
}

fn events(program: &Egress) -> Vec<types::canopy_congested> {
    records(&program.bpf.congested().unwrap())
}

/// Test runs stay on this processor: the limit is one event per RTT_est and processor.
fn stay() {
    let set = [1u64; 1];
    // SAFETY: the pointer and the length are those of the set.
    let rc = unsafe { libc::sched_setaffinity(0, size_of_val(&set), set.as_ptr().cast()) };
    assert_eq!(rc, 0, "sched_setaffinity: {}", std::io::Error::last_os_error());
}

#[test]
fn the_agent_is_woken_once_per_rtt_whatever_the_flows() {
    stay();
    let (bed, program) = congested(2_000, HOUR_NS);
    (0..50).for_each(|n| drop(program.run(bed.port, &frame(&packet(n, ECT0, 1, b"abcd")))));
    let woken = events(&program);
    let [event] = &woken[..] else { panic!("expected one event per RTT, got {}", woken.len()) };
    assert_eq!(event.ifindex, bed.port);
    assert!(event.depth > 2_000 && event.time_ns > 0, "{}", event.depth);
    // With an RTT of 1 ns every packet causes an event, without ECN too.
    limit(&bed, &program, 2_000, 1);
    (0..5).for_each(|_| drop(program.run(bed.port, &frame(&packet(1, 0, 1, b"abcd")))));
    assert_eq!(events(&program).len(), 5);
}

#[test]
fn a_short_queue_does_not_wake_the_agent() {
    stay();
    let (bed, program) = congested(1 << 40, 1);
    (0..5).for_each(|_| drop(program.run(bed.port, &frame(&packet(2, ECT0, 1, b"abcd")))));
    assert_eq!(events(&program).len(), 0);
    assert_eq!(program.stats(bed.port).unwrap().packets, 5);
}

/// An agent that reads nothing: each event beyond what the ring buffer holds is counted at its port.
#[test]
fn events_that_find_no_room_are_counted_at_the_port() {
    stay();
    let (bed, program) = congested(2_000, 1);
    let sent = 4_000;
    (0..sent).for_each(|_| drop(program.run(bed.port, &frame(&packet(1, ECT0, 1, b"abcd")))));
    let lost: u64 = lost_events(&program, bed.port);
    let kept = events(&program).len() as u64;
    assert!(kept < sent, "the ring buffer holds all of them: this proves nothing");
    assert_eq!(lost, sent - kept);
}
