// SPDX-License-Identifier: Apache-2.0
//! CNPs of the branches: counted per window, rate limited, and reset when the window ends.

use std::net::Ipv6Addr;
use std::time::{Duration, Instant};

use canopy_packet::aeth::Syndrome;
use canopy_packet::bth::Opcode;
use canopy_packet::cnp::Cnp;
use canopy_packet::frame::RoceBuilder;

use crate::testbed::*;

const HOUR: u64 = 3_600_000_000_000;
const PATIENCE: Duration = Duration::from_secs(10);

/// A group of three receivers with this CNP window and minimum CNP interval, ns.
fn group(window: u64, interval: u64) -> Testbed {
    let mut bed = Testbed::new(&Shape { receivers: 3, ..Shape::default() });
    set(&mut bed, window, interval);
    bed.run("u0", &encapsulated(&data(Opcode::SEND_ONLY, 100, b"x"), end_mt(), list(0..3), 0));
    bed
}

fn set(bed: &mut Testbed, window: u64, interval: u64) {
    let errors = bed.reconcile(|s| {
        s.groups.for_each_mut(|g| {
            (g.params.cnp_window, g.params.cnp_min_interval) =
                (Duration::from_nanos(window), Duration::from_nanos(interval));
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
    assert_eq!((t.cnps_in, t.cnps_out, t.acks_in), (8, 0, 0));
}

#[test]
fn every_count_is_zero_when_a_window_starts() {
    let mut bed = group(HOUR, 0);
    send_cnps(&bed, &[0, 0, 0, 1]);
    bed.end_cnp_window();
    // The first CNP after the end of a window closes it, and is the first of the next one.
    assert_eq!(bed.run("d0", &congestion(2)).0, REDIRECT);
    assert_eq!((counts(&mut bed), bed.cnp_leader()), ([0, 0, 1], (receiver(2), 1)));
    send_cnps(&bed, &[0, 2, 2]);
    assert_eq!((counts(&mut bed), bed.cnp_leader()), ([1, 0, 3], (receiver(2), 3)));
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

/// The CNP that the node sends to its parent.
fn upstream(bed: &Testbed) -> Vec<u8> {
    let (from, to) = (plan().node_address(node(1)), plan().node_address(node(2)));
    let epoch = bed.spec.groups.values().next().unwrap().epoch;
    let mut cnp = RoceBuilder::new(from, to, Opcode::CNP, DQPN, 0);
    (cnp.traffic_class, cnp.src_port) = (48 << 2, 0xC000 | epoch as u16);
    (cnp.bth.migration, cnp.bth.resv8a, cnp.extensions.cnp) = (true, 0x40, Some(Cnp::default()));
    cnp.build().unwrap()
}

#[test]
fn windows_that_follow_each_other_send_one_cnp_each_without_the_agent() {
    let mut bed = group(HOUR, 0);
    for window in 1..=5 {
        send_cnps(&bed, &[0, 1, 1, 2]);
        assert_eq!(bed.cnps_out(), window - 1);
        bed.end_cnp_window();
        let (action, packet, _) = bed.run("d0", &congestion(0));
        assert_eq!((action, packet), (REDIRECT, upstream(&bed)), "window {window}");
        assert_eq!(bed.cnps_out(), window);
    }
    assert_eq!(bed.telemetry().cnps_in, 25);
}

/// A child that sends a CNP per window, a little before or after this node's own window ends: none of them is left out.
#[test]
fn windows_follow_each_other_without_a_gap_while_cnps_arrive() {
    const SECOND: u64 = 1_000_000_000;
    let mut bed = group(HOUR, 0);
    send_cnps(&bed, &[0]);
    for closed_by_the_agent in [false, true] {
        let ended = canopy_bpf::monotonic().nanos() - SECOND;
        bed.set_cnp_window_end(ended);
        if closed_by_the_agent {
            let sent = bed.cnps_out();
            bed.datapath.bpf.control(bed.group_id(), canopy_bpf::node::Control::Cnp, &[0; 94]).unwrap();
            assert_eq!(bed.cnps_out(), sent + 1);
        }
        let sends = if closed_by_the_agent { SHOT } else { REDIRECT };
        assert_eq!(bed.run("d0", &congestion(1)).0, sends);
        assert_eq!(bed.cnp_window_end(), ended + HOUR, "closed by the agent: {closed_by_the_agent}");
    }
    // After a window without a CNP the next one starts with the CNP.
    set(&mut bed, SECOND / 2, 0);
    let before = canopy_bpf::monotonic().nanos();
    bed.set_cnp_window_end(before - SECOND);
    assert_eq!(bed.run("d0", &congestion(1)).0, REDIRECT);
    assert!(bed.cnp_window_end() >= before + SECOND / 2);
}

#[test]
fn a_cnp_that_cannot_be_sent_is_not_counted_as_sent() {
    let mut bed = group(HOUR, 0);
    send_cnps(&bed, &[0]);
    bed.end_cnp_window();
    let gone = std::process::Command::new("ip").args(["-6", "route", "flush", "table", "4791"]).status().unwrap();
    assert!(gone.success());
    assert_eq!(bed.run("d0", &congestion(1)).0, SHOT);
    assert_eq!((bed.cnps_out(), bed.drops()["no_route"]), (0, 1));
}

#[test]
fn the_agent_closes_a_window_after_which_nothing_arrives() {
    let mut bed = group(500_000_000, 0);
    send_cnps(&bed, &[1, 1, 2]);
    let deadline = Instant::now() + PATIENCE;
    while bed.cnps_out() == 0 {
        assert!(Instant::now() < deadline, "the window did not end: {:?}", bed.drops());
        bed.let_time_pass(Duration::from_millis(1));
    }
    assert_eq!((counts(&mut bed), bed.telemetry().cnps_out), ([0; 3], 1));
    bed.let_time_pass(Duration::from_millis(20));
    assert_eq!(bed.cnps_out(), 1, "a window without a CNP sends none");
}

#[test]
fn an_agent_that_starts_closes_the_windows_that_it_finds_open() {
    // It ends after the agent has started.
    let mut bed = group(4_000_000_000, 0);
    send_cnps(&bed, &[1]);
    bed.reopen();
    assert_eq!(bed.cnps_out(), 0);
    let deadline = Instant::now() + PATIENCE;
    while bed.cnps_out() == 0 {
        assert!(Instant::now() < deadline, "the window did not end: {:?}", bed.drops());
        bed.let_time_pass(Duration::from_millis(1));
    }
}

#[test]
fn a_window_of_long_ago_is_left_to_the_next_cnp_and_the_agent_follows_the_group_again() {
    let mut bed = group(5_000_000, 0);
    send_cnps(&bed, &[1]);
    bed.end_cnp_window();
    bed.reopen();
    bed.let_time_pass(Duration::from_millis(20));
    assert_eq!(bed.cnps_out(), 0, "a CNP for congestion that is long over");
    assert_eq!(bed.run("d0", &congestion(1)).0, REDIRECT);
    let deadline = Instant::now() + PATIENCE;
    while bed.cnps_out() == 1 {
        assert!(Instant::now() < deadline, "the agent does not follow the windows of the group any more");
        bed.let_time_pass(Duration::from_millis(1));
    }
    assert_eq!(bed.cnps_out(), 2);
}

/// 25,000 fatal NAKs of another branch are state of that branch: they fill no ring buffer.
#[test]
fn a_flood_of_fatal_naks_hides_no_cnp() {
    let mut bed = group(5_000_000, 0);
    let fatal = answer(2, Syndrome(0x62), 100, 1);
    for _ in 0..25_000 {
        assert_eq!(bed.run("d0", &fatal).0, SHOT);
    }
    let drops = bed.drops();
    assert_eq!((drops.get("nak_fatal"), drops.get("event_lost")), (Some(&25_000), None));
    send_cnps(&bed, &[0]);
    let deadline = Instant::now() + PATIENCE;
    while bed.cnps_out() == 0 {
        assert!(Instant::now() < deadline, "no CNP: {:?}", bed.drops());
        bed.let_time_pass(Duration::from_millis(1));
    }
}

/// A CNP of a child node in an epoch.
fn of_child(epoch: u16) -> Vec<u8> {
    let (from, to) = (plan().node_address(node(10)), plan().node_address(node(1)));
    let mut cnp = RoceBuilder::new(from, to, Opcode::CNP, DQPN, 0);
    (cnp.src_port, cnp.bth.resv8a, cnp.extensions.cnp) = (0xC000 | epoch, 0x40, Some(Cnp::default()));
    cnp.build().unwrap()
}

/// Decisions 3.11: feedback of every kind passes the epoch and data-sent checks before it means anything.
#[test]
fn a_cnp_counts_like_other_feedback_from_a_branch_that_counts_after_data_and_in_its_epoch() {
    let mut bed = Testbed::new(&Shape { receivers: 2, children: 1, provisioned: true, ..Shape::default() });
    set(&mut bed, HOUR, 0);
    let mut late = None;
    let without = |g: &mut canopy_model::node_spec::GroupProgram| {
        let at = g.branches.iter().position(|b| b.address == receiver(1)).unwrap();
        late = Some(g.branches.remove(at));
    };
    assert_eq!(bed.reconcile(|s| s.groups.for_each_mut(without)), []);
    let refused = |bed: &mut Testbed, port: &str, cnp: &[u8], reason: &str| {
        let before = bed.drops().get(reason).copied().unwrap_or(0);
        assert_eq!(bed.run(port, cnp).0, SHOT);
        assert_eq!(bed.drops().get(reason), Some(&(before + 1)), "{reason}");
        assert_eq!(bed.telemetry().cnps_in, 0);
    };
    refused(&mut bed, "d0", &congestion(0), "feedback_window");
    refused(&mut bed, "d1", &of_child(1), "feedback_window");
    bed.run("u0", &encapsulated(&data(Opcode::SEND_ONLY, 100, b"x"), end_mt(), vec![], 0));
    refused(&mut bed, "d1", &of_child(2), "epoch_ahead");
    // Receivers moved behind it; a receiver joined late, and its queue pair has not proved to be fresh.
    let changed = |g: &mut canopy_model::node_spec::GroupProgram| {
        g.epoch = 2;
        g.branches.iter_mut().filter(|b| b.address != receiver(0)).for_each(|b| b.since = 2);
        let late = late.clone().unwrap();
        g.branches.push(canopy_model::node_spec::Branch { at_boundary: true, since: 2, ..late });
    };
    assert_eq!(bed.reconcile(|s| s.groups.for_each_mut(changed)), []);
    refused(&mut bed, "d1", &of_child(1), "epoch_old");
    refused(&mut bed, "d0", &congestion(1), "branch_inactive");
    assert_eq!((bed.run("d0", &congestion(0)).0, bed.run("d1", &of_child(2)).0), (SHOT, SHOT));
    assert_eq!(bed.telemetry().cnps_in, 2);
}
