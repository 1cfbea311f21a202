// SPDX-License-Identifier: Apache-2.0
//! First level: packets that meet a queue above K_min are marked CE, and no others.

use super::*;

const PAYLOAD: usize = 936;
/// Octets of a packet in the queue, with its Ethernet header.
const LEN: u64 = 14 + 40 + 8 + 12 + PAYLOAD as u64 + 4;

fn is_data(packet: &[u8]) -> bool {
    RoceFrame::parse(packet).is_ok()
}

#[test]
fn packets_that_meet_a_queue_above_k_min_are_marked_and_no_others() {
    let bed = Bed::new();
    // Nothing leaves before all packets are in the queue, however slow the machine is.
    bed.queue("1kbit");
    // No more than the socket may have in queues.
    let (k_min, burst) = (20_000, 80);
    bed.limits(k_min, 1);
    let tap = Tap::open(bed.bed.ifindex("d0p"));
    let socket = PacketSocket::open(bed.port);
    let sent: Vec<_> = (0..burst).map(|psn| packet(1, ECT0 | 0xB8, psn, &[psn as u8; PAYLOAD])).collect();
    sent.iter().for_each(|p| socket.send(&frame(p)));
    let state = bed.stats();
    assert_eq!(state.source, 1, "the depth of a tbf is read in the kernel");
    // The last packet met all others, except for the first ones, which tbf had tokens for, and the one that it has dequeued.
    assert!(state.depth > 70_000 && state.depth <= u64::from(burst - 1) * LEN, "{}", state.depth);
    bed.queue("10mbit");
    // The queue wakes up.
    bed.fill(1);

    let arrived: Vec<_> = (0..burst).map(|_| tap.next(is_data)).collect();
    let marked: Vec<_> = arrived.iter().map(|p| p[1] & 0x30 == 0x30).collect();
    // A packet meets at most the packets sent before it.
    let surely_below = (k_min / LEN) as usize + 1;
    assert!(marked[..surely_below].iter().all(|m| !m), "{marked:?}");
    assert!(marked[60..].iter().all(|m| *m), "{marked:?}");
    for ((sent, arrived), marked) in sent.iter().zip(&arrived).zip(&marked) {
        let wanted = if *marked { with_ecn(sent, 0, CE) } else { sent.clone() };
        assert_eq!(arrived, &wanted, "only the mark differs");
        assert!(RoceFrame::parse(arrived).unwrap().icrc_is_valid());
    }
    let (stats, count) = (bed.stats(), marked.iter().filter(|m| **m).count() as u64);
    assert_eq!((stats.packets, stats.bytes), (u64::from(burst), u64::from(burst) * LEN));
    assert_eq!((stats.marked, stats.ce, stats.not_ect), (count, count, 0));
    let (key, counted) = bed.flows()[0];
    assert_eq!((key, counted.packets, counted.ce), (flow(1), u64::from(burst), count));
}

/// A queue of some 50 kB that drains very slowly.
fn deep() -> Bed {
    let bed = Bed::new();
    bed.queue("1kbit");
    bed.fill(50);
    bed
}

#[test]
fn the_threshold_is_exact_and_no_limits_mark_nothing() {
    let bed = deep();
    let p = packet(1, ECT0, 1, b"abcd");
    assert_eq!(bed.run(&p), p, "a port without limits");
    let depth = bed.stats().depth;
    assert!(depth > 40_000, "{depth}");
    bed.limits(depth, 1);
    assert_eq!(bed.run(&p), p, "at K_min");
    bed.limits(depth - 1, 1);
    assert_eq!(bed.run(&p), with_ecn(&p, 0, CE), "above it");
}

#[test]
fn what_is_not_ecn_capable_is_counted_and_left_alone_and_a_mark_is_not_counted_twice() {
    let bed = deep();
    bed.limits(1_000, 1);
    let not_ect = packet(1, 0x20, 1, b"abcd");
    assert_eq!(bed.run(&not_ect), not_ect);
    let ect1 = packet(1, 1, 2, b"abcd");
    assert_eq!(bed.run(&ect1), with_ecn(&ect1, 0, CE));
    let ce = packet(1, CE, 3, b"abcd");
    assert_eq!(bed.run(&ce), ce);
    let stats = bed.stats();
    assert_eq!((stats.packets, stats.marked, stats.ce, stats.not_ect), (3, 1, 2, 1));
    let [(_, seen)] = bed.flows()[..] else { panic!("{}", bed.flows().len()) };
    assert_eq!(
        (seen.ce, seen.ce_in_bytes),
        (2, ce.len() as u64 + 14),
        "received CE marks are counted apart from marks set here"
    );
}

#[test]
fn encapsulated_packets_are_seen_as_the_inner_flow_and_marked_inside_and_outside() {
    let bed = deep();
    bed.limits(1_000, 1);
    let inner = packet(3, ECT0, 9, &[5; 100]);
    let in_srv6 = encapsulated(&inner, end_mt(), vec![], ECT0);
    let at = in_srv6.len() - inner.len();
    assert_eq!(bed.run(&in_srv6), with_ecn(&with_ecn(&in_srv6, 0, CE), at, CE), "SRv6");
    let outer_not_ect = encapsulated(&inner, end_mt(), vec![], 0);
    assert_eq!(bed.run(&outer_not_ect), with_ecn(&outer_not_ect, at, CE), "an outer header that is not ECN capable");
    let mut in_ipv6 = in_srv6[..40].to_vec();
    in_ipv6[4..6].copy_from_slice(&(inner.len() as u16).to_be_bytes());
    in_ipv6[6] = 41;
    in_ipv6.extend_from_slice(&inner);
    let out = bed.run(&in_ipv6);
    assert_eq!(out, with_ecn(&with_ecn(&in_ipv6, 0, CE), 40, CE), "IPv6 in IPv6");
    assert!(RoceFrame::parse(&out[40..]).unwrap().icrc_is_valid());
    let flows: Vec<_> = bed.flows().into_iter().map(|(key, f)| (key, f.packets, f.ce)).collect();
    assert_eq!(flows, [(flow(3), 3, 3)], "one flow, independent of its encapsulation");
    // A packet truncated in its headers belongs to no flow: it is passed unchanged and not counted.
    for len in 40..at + 60 {
        assert_eq!(bed.run(&in_srv6[..len]), in_srv6[..len], "{len}");
    }
    assert_eq!(bed.stats().packets, 3);
}

/// A node upstream marks the outer header too; if only that is marked, the packet still arrived marked.
#[test]
fn a_mark_of_the_outer_header_alone_counts_as_arrived_unless_the_inner_one_is_not_ecn_capable() {
    let bed = Bed::new();
    let inner = |psn, ecn| packet(3, ecn, psn, &[5; 100]);
    let marked = encapsulated(&inner(1, ECT0), end_mt(), vec![], CE);
    assert_eq!(bed.run(&marked), marked, "nothing is changed without a queue");
    let seen = |bed: &Bed| bed.flows().iter().map(|(_, f)| (f.packets, f.ce, f.ce_in_bytes)).collect::<Vec<_>>();
    let octets = marked.len() as u64 + 14;
    assert_eq!((bed.stats().ce, seen(&bed)), (1, vec![(1, 1, octets)]));
    for (psn, ecn, outer) in [(2, 0, CE), (3, ECT0, ECT0)] {
        bed.run(&encapsulated(&inner(psn, ecn), end_mt(), vec![], outer));
        assert_eq!((bed.stats().ce, seen(&bed)), (1, vec![(u64::from(psn), 1, octets)]));
    }
}

/// A GSO buffer leaves as several packets: rates of packets count those.
#[test]
fn a_gso_buffer_counts_as_the_packets_that_it_is() {
    let bed = deep();
    bed.limits(1_000, 1);
    let p = packet(1, ECT0, 1, &[7; 900]);
    bed.egress().run_gso(bed.port, &frame(&p), 5);
    let stats = bed.stats();
    assert_eq!((stats.packets, stats.marked, stats.ce), (5, 5, 5));
    assert_eq!((stats.bytes, bed.flows()[0].1.packets, bed.flows()[0].1.ce), (p.len() as u64 + 14, 5, 5));
    bed.egress().run_gso(bed.port, &frame(&packet(1, 0, 2, &[7; 900])), 3);
    assert_eq!((bed.stats().packets, bed.stats().not_ect, bed.stats().ce), (8, 3, 5));
}

#[test]
fn the_depth_of_a_queue_that_counts_per_processor_is_what_the_agent_sampled() {
    let bed = Bed::new();
    tc("qdisc replace dev d0 root pfifo_fast");
    bed.limits(1_000, 1);
    let p = packet(1, ECT0, 1, b"abcd");
    assert_eq!(bed.run(&p), p, "not sampled yet");
    bed.egress().set_sampled(bed.port, Octets(1_001)).unwrap();
    assert_eq!(bed.run(&p), with_ecn(&p, 0, CE));
    let state = bed.stats();
    assert_eq!((state.source, state.depth), (0, 1_001));
}
