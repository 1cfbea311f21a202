// SPDX-License-Identifier: Apache-2.0
//! The programs packet by packet: every output is compared octet by octet with a packet built by `canopy-packet`.

use std::time::Duration;

use canopy_agent_core::Scope;
use canopy_model::ids::Psn;
use canopy_model::node_spec::Branch;
use canopy_model::status::ItemKind;
use canopy_packet::aeth::{Aeth, NakCode, Syndrome};
use canopy_packet::bth::Opcode;
use canopy_packet::end_mt::EndMt;
use canopy_packet::frame::{RoceBuilder, RoceFrame};
use canopy_packet::ipv6::Ipv6;
use canopy_packet::reth::Reth;
use canopy_packet::srh::{SrhView, Tlv};
use canopy_units::UnwrappedPsn;

use crate::testbed::*;

mod boundary;
mod capture;
mod completed_min;
mod congestion;
mod edges;
mod fatal;
mod flight;
mod following;
mod forged;
mod forger;
mod forwarding;
mod frames;
mod handover;
mod hmac;
mod host_programs;
mod icmp_errors;
mod kernel_hmac;
mod late;
mod local_users;
mod migration;
mod moving;
mod other_mac;
mod paths;
mod remembered;
mod sampling;
mod scopes;
mod tags;
mod verifier;

/// The copy of `sent` that receiver `i` must get.
pub(crate) fn copy_for(i: u32, sent: &[u8]) -> Vec<u8> {
    let f = RoceFrame::parse(sent).unwrap();
    let mut b = RoceBuilder::from(&f);
    b.src = proxy();
    b.dst = receiver(i);
    b.bth.dest_qp = receiver_qpn(i);
    b.hop_limit -= 1;
    b.build().unwrap()
}

/// A test run takes frames of at most a page less its overhead; 4096-byte payloads are tested in the lab.
#[test]
fn end_mt_delivers_exactly_the_receivers_packet() {
    let bed = Testbed::new(&Shape::default());
    for (psn, len) in [(100, 0), (101, 1), (102, 1023), (103, 1024), (104, 3333)] {
        let payload: Vec<u8> = (0..len).map(|i| i as u8).collect();
        let sent = data(Opcode::SEND_ONLY, psn, &payload);
        let (action, out, _) = bed.run("u0", &encapsulated(&sent, end_mt(), list(0..1), 0));
        assert_eq!((action, out), (REDIRECT, copy_for(0, &sent)), "psn {psn}, {len} bytes");
    }
}

#[test]
fn a_corrupt_packet_stays_corrupt() {
    let bed = Testbed::new(&Shape::default());
    let mut sent = data(Opcode::SEND_ONLY, 100, &[7; 64]);
    sent[80] ^= 0x10;
    let (_, out, _) = bed.run("u0", &encapsulated(&sent, end_mt(), list(0..1), 0));
    assert!(!RoceFrame::parse(&out).unwrap().icrc_is_valid());
}

#[test]
fn a_udp_checksum_is_kept_right() {
    let bed = Testbed::new(&Shape::default());
    let sent = with_udp_checksum(data(Opcode::SEND_ONLY, 100, &[9; 33]));
    let (_, out, _) = bed.run("u0", &encapsulated(&sent, end_mt(), list(0..1), 0));
    let got = u16::from_be_bytes([out[46], out[47]]);
    let mut clean = out.clone();
    clean[46..48].fill(0);
    assert_eq!(got, udp_checksum(&clean));
    assert!(RoceFrame::parse(&out).unwrap().icrc_is_valid());
}

#[test]
fn a_udp_checksum_of_zero_is_sent_as_all_ones() {
    let bed = Testbed::new(&Shape::default());
    let sent = |n: u32| data(Opcode::SEND_ONLY, 100, &n.to_be_bytes());
    let becomes_zero = |n: &u32| udp_checksum(&copy_for(0, &sent(*n))) == 0;
    let sent = sent((0..1 << 22).find(becomes_zero).unwrap());
    let (_, out, _) = bed.run("u0", &encapsulated(&with_udp_checksum(sent.clone()), end_mt(), list(0..1), 0));
    assert_eq!(out, with_udp_checksum(copy_for(0, &sent)));
}

/// The packet with the UDP checksum of RFC 8200 section 8.1; 0 is sent as all ones.
pub(crate) fn with_udp_checksum(mut packet: Vec<u8>) -> Vec<u8> {
    packet[46..48].fill(0);
    let checksum = match udp_checksum(&packet) {
        0 => 0xFFFF,
        other => other,
    };
    packet[46..48].copy_from_slice(&checksum.to_be_bytes());
    packet
}

/// The checksum over a packet whose checksum field is 0; 0 over a packet with the right one.
fn udp_checksum(p: &[u8]) -> u16 {
    let len = (p.len() - 40) as u32;
    let pseudo = [&p[8..40], &len.to_be_bytes(), &[0, 0, 0, 17], &p[40..]].concat();
    let mut sum: u32 = pseudo.chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(*c.get(1).unwrap_or(&0))).sum();
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    !(sum as u16)
}

#[test]
fn a_write_lands_in_the_receivers_own_region_or_nowhere() {
    let mut bed = Testbed::new(&Shape { memory: Some((0x7000_0000, 0x55AA, 8192)), ..Shape::default() });
    let write = |psn, va, rkey, dma_len, payload: &[u8]| {
        let mut b = RoceBuilder::new(source(), proxy(), Opcode::WRITE_ONLY, DQPN, psn);
        b.extensions.reth = Some(Reth { va, rkey, dma_len });
        b.payload = payload;
        b.build().unwrap()
    };
    let sent = write(100, 0x1000 + 512, 0xABCD, 100, &[3; 100]);
    let (action, out, _) = bed.run("u0", &encapsulated(&sent, end_mt(), list(0..1), 0));
    let f = RoceFrame::parse(&out).unwrap();
    assert_eq!(action, REDIRECT);
    assert!(f.icrc_is_valid());
    assert_eq!(f.extensions.reth, Some(Reth { va: 0x7000_0000 + 512, rkey: 0x55AA, dma_len: 100 }));
    // One byte past the end, below the base, another key.
    for (va, rkey, len) in [(0x1000 + 8192 - 99, 0xABCD, 100), (0xFFF, 0xABCD, 4), (0x1000, 0xABCE, 4)] {
        assert_eq!(bed.run("u0", &encapsulated(&write(101, va, rkey, len, &[3; 4]), end_mt(), list(0..1), 0)).0, SHOT);
    }
    assert_eq!(bed.drops()["write_refused"], 3);
}

#[test]
fn headend_encapsulates_with_the_planned_srh() {
    let bed = Testbed::new(&Shape { receivers: 2, children: 1, headend: true, ..Shape::default() });
    // Receivers here too: the encapsulated copy leaves as a clone, the last receiver's as the packet.
    let mut sent = RoceBuilder::new(source(), proxy(), Opcode::SEND_ONLY, DQPN, 100);
    sent.payload = &[1, 2, 3];
    let sent = sent.build().unwrap();
    let (action, out, _) = bed.run("u0", &sent);
    assert_eq!((action, out), (REDIRECT, copy_for(1, &sent)));

    let bed = Testbed::new(&Shape { receivers: 0, children: 1, headend: true, ..Shape::default() });
    let mut sent = RoceBuilder::new(source(), proxy(), Opcode::SEND_ONLY, DQPN, 100);
    (sent.payload, sent.traffic_class) = (&[1, 2, 3], 0x2A);
    let sent = sent.build().unwrap();
    let (action, out, _) = bed.run("u0", &sent);
    let (ip, srh) = (Ipv6::parse(&out).unwrap(), SrhView::parse(&out[40..]).unwrap());
    assert_eq!(action, REDIRECT);
    assert_eq!((ip.src, ip.dst), (plan().node_address(node(1)), plan().end_mt(node(10))));
    assert_eq!((ip.traffic_class, ip.hop_limit, usize::from(ip.payload_len)), (0x2A, 64, out.len() - 40));
    assert_eq!((srh.segments_left(), srh.last_entry()), (1, 1));
    let tree = canopy_model::ids::TreeId::new("t", 7).unwrap();
    assert_eq!(srh.segments().collect::<Vec<_>>(), vec![proxy(), plan().replication(node(1), tree)]);
    let mut inner = sent.clone();
    inner[7] -= 1;
    assert_eq!(srh.payload(), inner);
}

#[test]
fn replication_rewrites_the_outer_address_only() {
    let bed = Testbed::new(&Shape { receivers: 0, children: 1, ..Shape::default() });
    let sid = plan().replication(node(1), canopy_model::ids::TreeId::new("t", 7).unwrap());
    let sent = encapsulated(&data(Opcode::SEND_ONLY, 100, b"abc"), sid, vec![], 0);
    let (action, out, _) = bed.run("u0", &sent);
    let mut want = sent;
    want[7] -= 1;
    want[24..40].copy_from_slice(&plan().end_mt(node(10)).octets());
    assert_eq!((action, out), (REDIRECT, want));
}

#[test]
fn ce_travels_inward_and_never_onto_a_packet_without_ect() {
    let mut bed = Testbed::new(&Shape::default());
    let mut b = RoceBuilder::new(source(), proxy(), Opcode::SEND_ONLY, DQPN, 100);
    b.traffic_class = 2;
    let (_, out, _) = bed.run("u0", &encapsulated(&b.build().unwrap(), end_mt(), list(0..1), 3));
    assert_eq!(Ipv6::parse(&out).unwrap().traffic_class, 3);
    b.traffic_class = 0;
    assert_eq!(bed.run("u0", &encapsulated(&b.build().unwrap(), end_mt(), list(0..1), 3)).0, SHOT);
    assert_eq!(bed.drops()["ecn"], 1);
}

#[test]
fn what_cannot_be_processed_whole_is_dropped_whole_and_counted() {
    let mut bed = Testbed::new(&Shape { receivers: 2, children: 1, ..Shape::default() });
    let good = data(Opcode::SEND_ONLY, 100, b"abcd");
    let outer = |tlvs| encapsulated(&good, end_mt(), tlvs, 0);
    let edge = plan().node_address(node(1));
    let one = |a, q| vec![Tlv::EndMt(EndMt { edge, receivers: vec![(a, q)] })];
    let ours = (receiver(0), receiver_qpn(0));
    let patched = |at: usize, v: u8| {
        let mut p = outer(list(0..2));
        p[at] = v;
        p
    };
    let inner_at = 40 + SrhView::parse(&outer(list(0..2))[40..]).unwrap().wire_len();
    let other = |op, qpn, src| RoceBuilder::new(src, proxy(), op, qpn, 100).build();
    let mut read = RoceBuilder::new(source(), proxy(), Opcode::READ_REQUEST, DQPN, 100);
    read.extensions.reth = Some(Reth { va: 0, rkey: 0, dma_len: 4 });
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("tlv_none", outer(vec![])),
        // Addressed to another edge, which has a receiver of this address and QPN.
        ("tlv_none", outer(vec![Tlv::EndMt(EndMt { edge: plan().node_address(node(2)), receivers: vec![ours] })])),
        ("tlv_unprovisioned", outer(one(receiver(9), 0x100))),
        ("tlv_unprovisioned", outer(one(receiver(0), 0x999))),
        ("tlv_unprovisioned", outer(one("ff0e::1".parse().unwrap(), 0x100))),
        ("tlv_unprovisioned", outer(one(end_mt(), 0x100))),
        ("no_srh", patched(40 + 3, 0)),
        ("srh_malformed", patched(40 + 2, 3)),
        ("srh_malformed", patched(40 + 4, 200)),
        ("srh_malformed", patched(40, 17)),
        ("tlv_malformed", patched(40 + 8 + 32 + 1, 250)),
        ("tlv_malformed", patched(40 + 8 + 32 + 20, 3)),
        ("hop_limit", patched(7, 1)),
        ("hop_limit", patched(inner_at + 7, 1)),
        ("truncated", patched(4, 0x7F)),
        // No receiver, but a child node, which is a branch without a QPN.
        ("tlv_unprovisioned", outer(one(plan().node_address(node(10)), 0))),
        ("inner_malformed", patched(inner_at + 6, 6)),
        // UDP length, transport version, and the Proxy Address of another group.
        ("inner_malformed", patched(inner_at + 45, 0xFF)),
        ("inner_malformed", patched(inner_at + 49, 0x41)),
        ("inner_malformed", patched(inner_at + 39, 0xEE)),
        ("opcode_refused", encapsulated(&read.build().unwrap(), end_mt(), list(0..2), 0)),
        (
            "source_unregistered",
            encapsulated(&other(Opcode::SEND_ONLY, 0x77, source()).unwrap(), end_mt(), list(0..2), 0),
        ),
        (
            "source_unregistered",
            encapsulated(&other(Opcode::SEND_ONLY, DQPN, receiver(3)).unwrap(), end_mt(), list(0..2), 0),
        ),
        (
            "psn_window",
            encapsulated(
                &data(Opcode::SEND_ONLY, 101u32.wrapping_sub(1 << 22) & 0xFF_FFFF, b""),
                end_mt(),
                list(0..2),
                0,
            ),
        ),
        ("psn_window", encapsulated(&data(Opcode::SEND_ONLY, 101 + (1 << 22), b""), end_mt(), list(0..2), 0)),
    ];
    assert_eq!(bed.run("u0", &outer(list(0..2))).0, REDIRECT);
    for (reason, packet) in cases {
        let before = bed.drops().get(reason).copied().unwrap_or(0);
        assert_eq!(bed.run("u0", &packet).0, SHOT, "{reason}");
        assert_eq!(bed.drops().get(reason).copied().unwrap_or(0), before + 1, "{reason}: {:?}", bed.drops());
    }
    assert_eq!(bed.run("d1", &outer(list(0..2))).0, SHOT);
    assert_eq!(bed.drops()["wrong_port"], 1);
    let t = bed.telemetry();
    assert_eq!(t.branches.iter().map(|b| b.packets).sum::<u64>(), 3, "no packet was delivered in part");
    assert_eq!(t.data_packets, 1);
}

#[test]
fn every_truncation_of_a_packet_is_refused() {
    let mut bed = Testbed::new(&Shape { receivers: 3, ..Shape::default() });
    let whole = encapsulated(&data(Opcode::SEND_ONLY, 100, &[5; 16]), end_mt(), list(0..3), 0);
    for len in 40..whole.len() {
        assert_eq!(bed.run("u0", &whole[..len]).0, SHOT, "{len} bytes");
    }
    assert_eq!(bed.telemetry().data_packets, 0);
}

/// The feedback that the node must send to its parent node.
fn upstream(syndrome: Syndrome, psn: u32, msn: u32) -> Vec<u8> {
    let mut b =
        RoceBuilder::new(plan().node_address(node(1)), plan().node_address(node(2)), Opcode::ACKNOWLEDGE, DQPN, psn);
    b.src_port = 0xC000 | (DQPN & 0x3FFF) as u16;
    b.bth.migration = true;
    b.extensions.aeth = Some(Aeth { syndrome, msn });
    b.build().unwrap()
}

fn send(bed: &Testbed, psns: std::ops::Range<u32>, receivers: u32) {
    for psn in psns {
        bed.run("u0", &encapsulated(&data(Opcode::SEND_ONLY, psn & 0xFF_FFFF, b"x"), end_mt(), list(0..receivers), 0));
    }
}

const NAK: Syndrome = Syndrome::nak(NakCode::PsnSequence);

#[test]
fn the_minimum_is_acknowledged_and_nothing_else() {
    for start in [100, 0, 0x7F_FFFF, 0x80_0000, 0xFF_FFF8] {
        let bed = Testbed::new(&Shape { receivers: 3, start_psn: start, ..Shape::default() });
        let psn = |i: u32| (start + i) & 0xFF_FFFF;
        let ack = |i, p, msn| bed.run("d0", &answer(i, Syndrome::ack(31), psn(p), msn));
        // Before any data all feedback is dropped.
        assert_eq!(ack(0, 0, 1).0, SHOT);
        send(&bed, start..start + 16, 3);
        assert_eq!(ack(0, 7, 8).0, SHOT);
        assert_eq!(ack(1, 9, 10).0, SHOT);
        let (action, out, _) = ack(2, 5, 6);
        assert_eq!((action, out), (REDIRECT, upstream(Syndrome::ack(31), psn(5), 6)), "start {start:#x}");
        let (_, out, _) = ack(2, 12, 13);
        assert_eq!(out, upstream(Syndrome::ack(31), psn(7), 8));
        // A PSN that was never sent.
        assert_eq!(ack(0, 16, 17).0, SHOT);
    }
}

#[test]
fn a_repeated_ack_heals_a_lost_one_but_not_faster_than_the_limit() {
    let mut bed = Testbed::new(&Shape { receivers: 2, ..Shape::default() });
    send(&bed, 100..110, 2);
    let ack = |bed: &Testbed, i, psn| bed.run("d0", &answer(i, Syndrome::ack(31), psn, 1));
    ack(&bed, 0, 105);
    assert_eq!(ack(&bed, 1, 105).0, REDIRECT);
    // Independent of the machine's speed, the first limit has always passed and the second never.
    for (limit, sent) in [(1, 50), (u64::MAX / 2, 0)] {
        bed.reconcile(|s| s.groups.for_each_mut(|g| g.params.reack_interval = Duration::from_nanos(limit)));
        let repeated: Vec<_> = (0..50).map(|_| ack(&bed, 1, 105)).filter(|r| r.0 == REDIRECT).collect();
        assert_eq!(repeated.len(), sent);
        assert!(repeated.iter().all(|r| r.1 == upstream(Syndrome::ack(31), 105, 1)));
    }
    assert_eq!(bed.telemetry().min_next, Some(UnwrappedPsn((1 << 24) + 106)));
}

#[test]
fn naks_are_merged_and_never_run_ahead_of_a_slower_branch() {
    let mut bed = Testbed::new(&Shape { receivers: 3, ..Shape::default() });
    // Independent of the machine's speed, an identical NAK arrives within the merge time.
    bed.reconcile(|s| s.groups.for_each_mut(|g| g.params.nak_merge = Duration::from_nanos(u64::MAX / 2)));
    send(&bed, 100..120, 3);
    let ack = |i, psn| answer(i, Syndrome::ack(31), psn, 1);
    let nak = |i, psn| answer(i, NAK, psn, 1);
    // Branches 1 and 2 are at 100: no NAK for branch 0's gap at 110 may be sent, and nothing before they are confirmed.
    assert_eq!(bed.run("d0", &nak(0, 110)).0, SHOT);
    assert_eq!(bed.run("d0", &nak(1, 100)).0, SHOT);
    let (action, out, _) = bed.run("d0", &nak(2, 100));
    assert_eq!((action, out), (REDIRECT, upstream(NAK, 100, 1)));
    assert_eq!(bed.run("d0", &nak(1, 110)).0, SHOT, "the same NAK again is merged");
    let (action, out, _) = bed.run("d0", &ack(2, 115));
    assert_eq!((action, out), (REDIRECT, upstream(NAK, 110, 1)), "held until it became the minimum");
    // After the retransmission has been forwarded, a NAK of another receiver for the same PSN is a new loss.
    send(&bed, 110..112, 3);
    assert_eq!(bed.run("d0", &nak(0, 110)).0, REDIRECT);
    // Ghost NAK: below what the branch has acknowledged since.
    bed.run("d0", &ack(0, 112));
    assert_eq!(bed.run("d0", &nak(0, 105)).0, SHOT);
    assert_eq!(bed.drops()["nak_ghost"], 1);
}

#[test]
fn rnr_waits_for_its_turn_and_the_longest_timer_wins() {
    let bed = Testbed::new(&Shape { receivers: 2, ..Shape::default() });
    send(&bed, 100..110, 2);
    let rnr = |i, psn, timer| bed.run("d0", &answer(i, Syndrome::rnr_nak(timer), psn, 1));
    assert_eq!(rnr(0, 105, 5).0, SHOT, "held: branch 1 is behind");
    let (action, out, _) = rnr(1, 105, 9);
    assert_eq!((action, out), (REDIRECT, upstream(Syndrome::rnr_nak(9), 105, 1)));
    // Timer code 0 is 655.36 ms, the longest.
    let (_, out, _) = rnr(0, 105, 0);
    assert_eq!(out, upstream(Syndrome::rnr_nak(0), 105, 1));
}

#[test]
fn feedback_from_anyone_else_changes_nothing() {
    let mut bed = Testbed::new(&Shape { receivers: 2, children: 1, ..Shape::default() });
    send(&bed, 100..110, 2);
    let before = bed.telemetry();
    let mut corrupt = answer(0, Syndrome::ack(31), 105, 1);
    corrupt[59] ^= 1;
    let mut long = RoceBuilder::new(receiver(0), proxy(), Opcode::SEND_ONLY, DQPN, 105);
    long.payload = &[0; 8];
    let mut child =
        RoceBuilder::new(plan().node_address(node(33)), plan().node_address(node(1)), Opcode::ACKNOWLEDGE, DQPN, 105);
    child.extensions.aeth = Some(Aeth { syndrome: Syndrome::ack(31), msn: 1 });
    let cases = [
        ("branch_unknown", "d0", answer(7, Syndrome::ack(31), 105, 1)),
        ("branch_unknown", "d1", child.build().unwrap()),
        ("wrong_port", "d1", answer(0, Syndrome::ack(31), 105, 1)),
        ("feedback_icrc", "d0", corrupt),
        ("feedback_window", "d0", answer(0, Syndrome::ack(31), 110, 1)),
        ("feedback_window", "d0", answer(0, NAK, 111, 1)),
        ("feedback_malformed", "d0", answer(0, Syndrome(0x7F), 105, 1)),
        ("feedback_malformed", "d0", long.build().unwrap()),
        ("nak_fatal", "d0", answer(0, Syndrome::nak(NakCode::RemoteAccess), 105, 1)),
    ];
    for (reason, port, packet) in cases {
        let was = bed.drops().get(reason).copied().unwrap_or(0);
        assert_eq!(bed.run(port, &packet).0, SHOT, "{reason}");
        assert_eq!(bed.drops()[reason], was + 1, "{reason}");
    }
    let after = bed.telemetry();
    assert_eq!((before.min_next, before.acks_in, before.naks_in), (after.min_next, after.acks_in, after.naks_in));
    assert!(after.branches.iter().zip(&before.branches).all(|(a, b)| a.next == b.next && a.epsn == b.epsn));
}

/// ACKs, NAKs and CNPs all show that a receiver is there; what is refused shows nothing.
#[test]
fn the_time_of_a_branchs_last_feedback_is_that_of_what_was_accepted() {
    let mut bed = Testbed::new(&Shape { receivers: 4, ..Shape::default() });
    send(&bed, 100..110, 4);
    let known = |bed: &mut Testbed| {
        let branches = bed.telemetry().branches;
        let of = |i| branches.iter().find(|b| b.address == receiver(i)).unwrap().last_feedback.is_some();
        [0, 1, 2, 3].map(of)
    };
    assert_eq!(known(&mut bed), [false; 4]);
    bed.run("d0", &answer(0, Syndrome::ack(31), 105, 1));
    assert_eq!(known(&mut bed), [true, false, false, false]);
    bed.run("d0", &answer(1, NAK, 103, 1));
    bed.run("d0", &congestion(2));
    bed.run("d0", &answer(3, Syndrome::ack(31), 110, 1));
    assert_eq!(known(&mut bed), [true, true, true, false], "no data was sent with that PSN");
}

#[test]
fn credits_and_msn_upstream_are_the_lowest() {
    let bed = Testbed::new(&Shape { receivers: 2, ..Shape::default() });
    send(&bed, 100..110, 2);
    bed.run("d0", &answer(0, Syndrome::ack(9), 105, 6));
    let (_, out, _) = bed.run("d0", &answer(1, Syndrome::ack(31), 106, 7));
    assert_eq!(out, upstream(Syndrome::ack(9), 105, 6));
}

#[test]
fn a_branch_that_leaves_unblocks_the_minimum_and_one_that_joins_waits_for_a_message() {
    let mut bed = Testbed::new(&Shape { receivers: 3, provisioned: true, ..Shape::default() });
    let data_in = |bed: &Testbed, op, psn| bed.run("u0", &encapsulated(&data(op, psn, b"x"), end_mt(), vec![], 0));
    data_in(&bed, Opcode::SEND_FIRST, 100);
    data_in(&bed, Opcode::SEND_LAST, 101);
    for i in 0..2 {
        bed.run("d0", &answer(i, Syndrome::ack(31), 101, 1));
    }
    let stalled =
        Branch { at_boundary: true, since: 3, ..bed.spec.groups.values().next().unwrap().branches[2].clone() };
    assert_eq!(bed.telemetry().acks_out, 0);
    assert_eq!(
        bed.reconcile(|s| s.groups.for_each_mut(|g| {
            g.branches.remove(2);
            g.epoch += 1;
        })),
        []
    );
    let t = bed.telemetry();
    assert_eq!(
        (t.acks_out, t.min_next),
        (1, Some(UnwrappedPsn((1 << 24) + 102))),
        "the minimum is recomputed and reported at once"
    );
    // It rejoins in the middle of a message: until the next message it gets no copies and does not count.
    data_in(&bed, Opcode::SEND_FIRST, 102);
    assert_eq!(bed.reconcile(|s| s.groups.for_each_mut(|g| g.branches.push(stalled.clone()))), []);
    bed.run("d0", &answer(2, Syndrome::nak(NakCode::PsnSequence), 100, 0));
    data_in(&bed, Opcode::SEND_LAST, 103);
    let joined = |bed: &mut Testbed| bed.telemetry().branches.into_iter().find(|b| b.address == receiver(2)).unwrap();
    assert_eq!((joined(&mut bed).next, joined(&mut bed).packets), (None, 0));
    data_in(&bed, Opcode::SEND_ONLY, 104);
    assert_eq!((joined(&mut bed).next, joined(&mut bed).packets), (Some(UnwrappedPsn((1 << 24) + 104)), 1));
}

#[test]
fn a_late_receiver_gets_the_psns_that_its_qp_expects() {
    for has_checksum in [false, true] {
        let mut bed = Testbed::new(&Shape { provisioned: true, memory: Some((0x9000, 7, 64)), ..Shape::default() });
        let late = |g: &mut canopy_model::node_spec::GroupProgram| {
            (g.branches[0].at_boundary, g.branches[0].since, g.epoch) = (true, 2, 2);
        };
        assert_eq!(bed.reconcile(|s| s.groups.for_each_mut(late)), []);
        bed.run("d0", &answer(0, Syndrome::nak(NakCode::PsnSequence), 100, 0));
        let send = |bed: &Testbed, op, psn| {
            let mut b = RoceBuilder::new(source(), proxy(), op, DQPN, psn);
            b.payload = b"late";
            if op == Opcode::WRITE_ONLY {
                b.extensions.reth = Some(Reth { va: 0x1008, rkey: 0xABCD, dma_len: 4 });
            }
            let mut packet = b.build().unwrap();
            if has_checksum {
                packet = with_udp_checksum(packet);
            }
            bed.run("u0", &encapsulated(&packet, end_mt(), vec![], 0))
        };
        assert_eq!(send(&bed, Opcode::SEND_MIDDLE, 106).0, SHOT, "not in the middle of a message");
        for (op, psn, expected) in [(Opcode::SEND_ONLY, 107, 100), (Opcode::WRITE_ONLY, 108, 101)] {
            let (action, out, _) = send(&bed, op, psn);
            let f = RoceFrame::parse(&out).unwrap();
            assert_eq!((action, f.bth.psn, f.icrc_is_valid()), (REDIRECT, expected, true));
            assert!(!has_checksum || udp_checksum(&out) == 0, "UDP checksum of {op:?}");
        }
        let (action, out, _) = bed.run("d0", &answer(0, Syndrome::ack(31), 101, 2));
        let f = RoceFrame::parse(&out).unwrap();
        assert_eq!((action, f.bth.psn), (REDIRECT, 108), "the PSN sent upstream is the group's");
        assert_eq!(
            bed.run("d0", &answer(0, Syndrome::ack(31), 108, 2)).0,
            SHOT,
            "a PSN outside the receiver's sequence"
        );
    }
}

/// An ACK of `child` (1 or 2) in `epoch`; returns the PSN and UDP source port of the feedback sent upstream for it.
fn child_acks(bed: &Testbed, child: u64, epoch: u16, psn: u32) -> Option<(u32, u16)> {
    let (from, to) = (plan().node_address(node(9 + child)), plan().node_address(node(1)));
    let mut b = RoceBuilder::new(from, to, Opcode::ACKNOWLEDGE, DQPN, psn);
    b.src_port = 0xC000 | epoch;
    b.extensions.aeth = Some(Aeth { syndrome: Syndrome::ack(31), msn: 1 });
    let (action, out, _) = bed.run(&format!("d{child}"), &b.build().unwrap());
    (action == REDIRECT).then(|| RoceFrame::parse(&out).unwrap()).map(|f| (f.bth.psn, f.udp.src_port))
}

#[test]
fn feedback_of_a_program_that_the_node_has_not_adopted_is_refused() {
    let mut bed = Testbed::new(&Shape { receivers: 0, children: 2, ..Shape::default() });
    for psn in 100..164 {
        bed.run("u0", &encapsulated(&data(Opcode::SEND_ONLY, psn, b"x"), replication(), vec![], 0));
    }
    assert_eq!(child_acks(&bed, 2, 1, 163), None);
    assert_eq!(child_acks(&bed, 1, 1, 105), Some((105, 0xC001)));
    let before = bed.state_octets();
    assert_eq!(child_acks(&bed, 1, 2, 163), None);
    assert_eq!(bed.drops()["epoch_ahead"], 1);
    assert!(bed.state_octets() == before, "refused feedback changes no octet of the state");
    assert_eq!(bed.reconcile(|s| s.groups.for_each_mut(|g| g.epoch = 2)), []);
    assert_eq!(child_acks(&bed, 1, 2, 163), Some((163, 0xC002)));
}

#[test]
fn a_node_repeats_its_last_feedback_for_two_seconds_after_it_adopted_a_program() {
    let mut bed = Testbed::new(&Shape { receivers: 0, children: 1, ..Shape::default() });
    bed.run("u0", &encapsulated(&data(Opcode::SEND_ONLY, 100, b"x"), replication(), vec![], 0));
    assert_eq!(child_acks(&bed, 1, 1, 100), Some((100, 0xC001)));
    assert_eq!(bed.reconcile(|s| s.groups.for_each_mut(|g| g.epoch = 2)), []);
    let repeated = |bed: &mut Testbed| bed.telemetry().acks_out;
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    // A busy machine sends fewer of them, but the repetition must end.
    while bed.datapath.repeats_feedback() {
        assert!(std::time::Instant::now() < deadline, "still repeating after {} ACKs", repeated(&mut bed));
        bed.let_time_pass(std::time::Duration::from_millis(20));
    }
    let sent = repeated(&mut bed);
    assert!((3..=202).contains(&sent), "{sent} ACKs were sent upstream");
    assert_eq!(bed.reconcile(|_| ()), []);
    assert!(!bed.datapath.repeats_feedback(), "nothing was adopted");
}

#[test]
fn feedback_of_a_child_counts_for_receivers_that_moved_behind_it_only_in_their_epoch() {
    let mut bed = Testbed::new(&Shape { receivers: 0, children: 2, ..Shape::default() });
    for psn in 100..120 {
        bed.run("u0", &encapsulated(&data(Opcode::SEND_ONLY, psn, b"x"), replication(), vec![], 0));
    }
    assert_eq!(child_acks(&bed, 1, 1, 115), None);
    assert_eq!(child_acks(&bed, 2, 1, 105), Some((105, 0xC001)));
    // A receiver that holds 105 moves from child 2, which is removed, to child 1, which has sent 115 without it.
    let moves = |g: &mut canopy_model::node_spec::GroupProgram| {
        g.branches.remove(1);
        (g.branches[0].since, g.epoch) = (2, 2);
    };
    assert_eq!(bed.reconcile(|s| s.groups.for_each_mut(moves)), []);
    assert_eq!(child_acks(&bed, 1, 1, 116), None);
    assert_eq!((bed.drops()["epoch_old"], bed.telemetry().min_next), (1, None));
    assert_eq!(child_acks(&bed, 1, 2, 105), Some((105, 0xC002)));
}

#[test]
fn state_survives_the_agent_and_nothing_survives_the_group() {
    let mut bed = Testbed::new(&Shape { receivers: 64, children: 2, ..Shape::default() });
    send(&bed, 100..110, 64);
    for i in 0..64 {
        bed.run("d0", &answer(i, Syndrome::ack(31), 104, 1));
    }
    let before = bed.telemetry();
    // A restart: a second agent on the same pins.
    bed.reopen();
    assert_eq!(bed.reconcile(|_| ()), []);
    let after = bed.telemetry();
    assert_eq!((after.acks_in, after.high, after.min_next), (before.acks_in, before.high, before.min_next));
    assert!(bed.entries() > 64);
    assert_eq!(bed.reconcile(|s| s.groups.clear()), []);
    assert_eq!(bed.entries(), 0);
}

/// A step between planning and applying can fail (multicast routes). The first version then took the maps for read, and gave the
/// branches other slots than their state has.
#[test]
fn a_plan_that_is_not_carried_out_changes_nothing() {
    let mut bed = Testbed::new(&Shape { receivers: 2, ..Shape::default() });
    assert_eq!(bed.reconcile(|s| s.groups.for_each_mut(|g| _ = g.branches.remove(0))), []);
    let slots = |bed: &Testbed| -> Vec<u32> {
        bed.datapath.bpf.peers().entries().unwrap().into_iter().map(|(_, peer)| peer.slot).collect()
    };
    assert_eq!(slots(&bed), [1], "the second receiver keeps its slot");
    bed.reopen();
    let ports = bed.spec.base.ports.iter().map(|p| (p.index, bed.ifindex(&p.name))).collect();
    drop(bed.datapath.groups.plan(&bed.spec, ports, Scope::Spec).unwrap());
    assert_eq!(bed.reconcile(|_| ()), []);
    assert_eq!(slots(&bed), [1]);
}

#[test]
fn a_group_that_starts_over_forgets_the_old_numbers() {
    let mut bed = Testbed::new(&Shape::default());
    send(&bed, 100..110, 1);
    bed.run("d0", &answer(0, Syndrome::ack(31), 109, 10));
    assert_eq!(bed.reconcile(|s| s.groups.for_each_mut(|g| g.start_psn = Psn::new("p", 500).unwrap())), []);
    assert_eq!(bed.telemetry().min_next, None);
    assert_eq!(bed.run("d0", &answer(0, Syndrome::ack(31), 500, 1)).0, SHOT, "nothing was sent yet");
}

#[test]
fn another_source_qp_starts_over() {
    let mut bed = Testbed::new(&Shape::default());
    send(&bed, 100..110, 1);
    let qpn = canopy_model::ids::Qpn::new("qpn", 0x99).unwrap();
    assert_eq!(bed.reconcile(|s| s.groups.for_each_mut(|g| g.source.qpn = qpn)), []);
    let t = bed.telemetry();
    assert_eq!((t.high, t.min_next), (UnwrappedPsn::ZERO, None));
}

#[test]
fn a_missing_interface_is_named_and_the_others_continue() {
    let mut bed = Testbed::new(&Shape { children: 1, ..Shape::default() });
    std::process::Command::new("ip").args(["link", "del", "d1"]).status().unwrap();
    let errors = bed.reconcile(|_| ());
    assert!(
        errors.iter().any(|e| e.kind == ItemKind::Link && e.name == "d1" && e.detail.contains("does not exist")),
        "{errors:#?}"
    );
    assert!(errors.iter().any(|e| e.kind == ItemKind::Group && e.group.is_some()), "{errors:#?}");
    let sent = data(Opcode::SEND_ONLY, 100, b"abc");
    let (action, out, _) = bed.run("u0", &encapsulated(&sent, end_mt(), list(0..1), 0));
    assert_eq!((action, out), (REDIRECT, copy_for(0, &sent)));
}
