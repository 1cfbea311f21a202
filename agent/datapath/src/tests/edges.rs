// SPDX-License-Identifier: Apache-2.0
//! Corner cases of End.MT: reserved fields, a packet without an SRH, a FIB that differs from the controller's plan.

use canopy_packet::bth::Opcode;
use canopy_packet::frame::RoceBuilder;
use canopy_packet::reth::Reth;
use canopy_packet::srh::SrhView;

use super::copy_for;
use crate::testbed::*;

/// Length of an End.MT TLV before its receivers, from its type on: octets 2..4 and 21..24 are reserved, as is the last of the twenty
/// octets of each receiver.
const FIXED: usize = 24;
const RECEIVER: usize = 20;

#[test]
fn reserved_fields_of_a_tlv_are_ignored_when_received() {
    let bed = Testbed::new(&Shape { receivers: 1, ..Shape::default() });
    let sent = data(Opcode::SEND_ONLY, 100, b"reserved");
    let mut packet = encapsulated(&sent, end_mt(), list(0..1), 0);
    let tlv = 40 + 8 + 2 * 16;
    assert_eq!((packet[tlv], packet[tlv + 20]), (124, 1), "the TLV is at the assumed offset");
    for at in [2, 3, 21, 22, 23, FIXED + RECEIVER - 1] {
        assert_eq!(packet[tlv + at], 0);
        packet[tlv + at] = 0xFF;
    }
    let (action, out, _) = bed.run("u0", &packet);
    assert_eq!((action, out), (REDIRECT, copy_for(0, &sent)));
}

/// Length and Num Receivers must agree: of receivers that only Length has room for, some would get no copy, unnoticed.
#[test]
fn a_tlv_whose_length_is_not_that_of_its_receivers_is_dropped() {
    let mut bed = Testbed::new(&Shape { receivers: 2, ..Shape::default() });
    let whole = encapsulated(&data(Opcode::SEND_ONLY, 100, b"counted"), end_mt(), list(0..2), 0);
    let count = 40 + 8 + 2 * 16 + 20;
    assert_eq!(whole[count], 2, "the TLV is at the assumed offset");
    for (dropped, receivers) in (1..).zip([0, 1, 3, 255]) {
        let mut packet = whole.clone();
        packet[count] = receivers;
        assert_eq!(bed.run("u0", &packet).0, SHOT, "{receivers}");
        assert_eq!((bed.drops()["tlv_malformed"], bed.telemetry().data_packets), (dropped, 0), "{receivers}");
    }
    assert_eq!(bed.run("u0", &whole).0, REDIRECT);
}

#[test]
fn a_list_without_receivers_is_malformed() {
    let mut bed = Testbed::new(&Shape { receivers: 1, ..Shape::default() });
    let whole = encapsulated(&data(Opcode::SEND_ONLY, 100, b"none"), end_mt(), list(0..1), 0);
    let tlv = 40 + 8 + 2 * 16;
    let mut packet = whole.clone();
    (packet[tlv + 1], packet[tlv + 20]) = ((FIXED - 2) as u8, 0);
    // PadN in place of the receiver.
    packet[tlv + FIXED..][..RECEIVER].fill(0);
    (packet[tlv + FIXED], packet[tlv + FIXED + 1]) = (4, (RECEIVER - 2) as u8);
    assert_eq!(bed.run("u0", &packet).0, SHOT);
    assert_eq!((bed.drops().get("tlv_malformed"), bed.telemetry().data_packets), (Some(&1), 0), "{:?}", bed.drops());
    assert_eq!(bed.run("u0", &whole).0, REDIRECT);
}

/// What the rest of a TLV would be is the inner packet: no receiver is read from it.
#[test]
fn a_tlv_that_ends_behind_its_srh_is_malformed() {
    let mut bed = Testbed::new(&Shape { receivers: 2, ..Shape::default() });
    let whole = encapsulated(&data(Opcode::SEND_ONLY, 100, b"longer"), end_mt(), list(0..2), 0);
    let srh = 40 + 8 * (usize::from(whole[40 + 1]) + 1);
    let mut packet = [&whole[..srh - 8], &whole[srh..]].concat();
    packet[40 + 1] -= 1;
    let len = u16::from_be_bytes([whole[4], whole[5]]) - 8;
    packet[4..6].copy_from_slice(&len.to_be_bytes());
    assert_eq!(bed.run("u0", &packet).0, SHOT);
    assert_eq!((bed.drops()["tlv_malformed"], bed.telemetry().data_packets), (1, 0), "{:?}", bed.drops());
    assert_eq!(bed.run("u0", &whole).0, REDIRECT);
}

#[test]
fn a_headend_takes_the_sources_data_from_the_sources_port_alone() {
    let mut bed = Testbed::new(&Shape { receivers: 1, children: 1, headend: true, ..Shape::default() });
    let sent = data(Opcode::SEND_ONLY, 100, b"elsewhere");
    assert_eq!(bed.run("d1", &sent).0, SHOT);
    assert_eq!((bed.drops()["wrong_port"], bed.telemetry().data_packets), (1, 0));
    assert_eq!(bed.run("u0", &sent).0, REDIRECT);
}

#[test]
fn a_headend_with_receivers_refuses_a_write_outside_their_memory() {
    let shape = Shape { headend: true, memory: Some((0x9000, 7, 64)), ..Shape::default() };
    let write = |va, dma_len, rkey| {
        let mut b = RoceBuilder::new(source(), proxy(), Opcode::WRITE_ONLY, DQPN, 100);
        b.extensions.reth = Some(Reth { va, rkey, dma_len });
        b.payload = b"data";
        b.build().unwrap()
    };
    let mut bed = Testbed::new(&shape);
    let (base, rkey) = {
        let (_, group) = bed.spec().groups.iter().next().unwrap();
        (group.write_base_va, group.write_rkey)
    };
    for (dropped, packet) in (1..).zip([
        write(base + 61, 4, rkey),
        write(base, 65, rkey),
        write(base + 65, 0, rkey),
        write(base, 4, rkey + 1),
    ]) {
        assert_eq!(bed.run("u0", &packet).0, SHOT, "{dropped}");
        assert_eq!((bed.drops()["write_refused"], bed.telemetry().data_packets), (dropped, 0));
    }
    assert_eq!(bed.run("u0", &write(base + 60, 4, rkey)).0, REDIRECT);
}

/// Segments Left is an index of the Segment List, whose last one is Last Entry.
#[test]
fn a_packet_whose_segments_left_is_above_last_entry_is_dropped() {
    let mut bed = Testbed::new(&Shape { receivers: 1, ..Shape::default() });
    let whole = encapsulated(&data(Opcode::SEND_ONLY, 100, b"segments"), end_mt(), list(0..1), 0);
    assert_eq!((whole[40 + 3], whole[40 + 4]), (1, 1), "Segments Left, Last Entry");
    for (dropped, left) in (1..).zip([2, 3, 255]) {
        let mut packet = whole.clone();
        packet[40 + 3] = left;
        assert_eq!(bed.run("u0", &packet).0, SHOT, "{left}");
        assert_eq!((bed.drops()["srh_malformed"], bed.telemetry().data_packets), (dropped, 0), "{left}");
    }
    assert_eq!(bed.run("u0", &whole).0, REDIRECT);
}

#[test]
fn a_packet_to_end_mt_without_an_srh_is_dropped() {
    let mut bed = Testbed::new(&Shape { receivers: 1, provisioned: true, ..Shape::default() });
    let with = encapsulated(&data(Opcode::SEND_ONLY, 100, b"bare"), end_mt(), vec![], 0);
    let inner = SrhView::parse(&with[40..]).unwrap().payload().to_vec();
    let mut without = with[..40].to_vec();
    without[4..6].copy_from_slice(&(inner.len() as u16).to_be_bytes());
    without[6] = 41;
    without.extend(inner);
    assert_eq!(bed.run("u0", &without).0, SHOT);
    assert_eq!((bed.drops()["no_srh"], bed.telemetry().data_packets), (1, 0));
    assert_eq!(bed.run("u0", &with).0, REDIRECT);
}

#[test]
fn a_copy_that_the_fib_sends_elsewhere_is_dropped() {
    let mut bed = Testbed::new(&Shape { receivers: 1, ..Shape::default() });
    let packet = |psn| encapsulated(&data(Opcode::SEND_ONLY, psn, b"route"), end_mt(), list(0..1), 0);
    assert_eq!(bed.run("u0", &packet(100)).0, REDIRECT);
    let ip = |args: &str| {
        let done = std::process::Command::new("ip").args(args.split(' ')).status().unwrap();
        assert!(done.success(), "ip {args}");
    };
    ip("-6 route flush table 4791 2001:db8:1::/64");
    assert_eq!((bed.run("u0", &packet(101)).0, bed.drops().get("no_route")), (SHOT, Some(&1)), "{:?}", bed.drops());
    // With a neighbour entry too, so that only the port is wrong.
    ip("-6 route add table 4791 2001:db8:1::/64 dev u0");
    ip(&format!("-6 neigh replace {} dev u0 lladdr 02:00:00:00:00:77 nud permanent", receiver(0)));
    assert_eq!((bed.run("u0", &packet(102)).0, bed.drops().get("no_route")), (SHOT, Some(&2)), "{:?}", bed.drops());
}
