// SPDX-License-Identifier: Apache-2.0
//! Frames as NICs, switches and the kernel make them: priority tags, checksums left to the hardware, GSO buffers, octets behind the
//! packet, other link-layer addresses, every pair of ECN fields, and what the BTH may have.

use std::process::Command;

use canopy_packet::aeth::{NakCode, Syndrome};
use canopy_packet::bth::Opcode;
use canopy_packet::frame::{RoceBuilder, RoceFrame};
use canopy_packet::ipv6::Ipv6;
use canopy_packet::srh::SrhView;

use super::{copy_for, udp_checksum, upstream, with_udp_checksum};
use crate::testbed::*;

const ETHERNET: usize = 14;
const IPV6: usize = 40;
/// Link-layer addresses of the frames that are sent here: to all, so that every port takes them.
pub(super) const FOR_ALL: [u8; 12] = [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2, 0, 0, 0, 0, 9];

pub(super) fn frame(packet: &[u8]) -> Vec<u8> {
    [&FOR_ALL[..], &[0x86, 0xDD], packet].concat()
}

fn tagged(vid: u16, packet: &[u8]) -> Vec<u8> {
    [&FOR_ALL[..], &[0x81, 0], &vid.to_be_bytes(), &[0x86, 0xDD], packet].concat()
}

/// The packet with the sum of the pseudo-header in place of the UDP checksum, as the kernel leaves it to the hardware. `at`: where its
/// IPv6 header is.
fn without_checksum(mut packet: Vec<u8>, at: usize) -> Vec<u8> {
    let p = &packet[at..];
    let len = (p.len() - IPV6) as u32;
    let pseudo = [&p[8..IPV6], &len.to_be_bytes(), &[0, 0, 0, 17]].concat();
    let mut sum: u32 = pseudo.chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(c[1])).sum();
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    packet[at + 46..at + 48].copy_from_slice(&(sum as u16).to_be_bytes());
    packet
}

/// The kernel fills the checksums in that packets leave this port without.
fn fill_checksums_in(port: &str) {
    let out = Command::new("ethtool").args(["-K", port, "tx", "off"]).output().unwrap();
    assert!(out.status.success(), "ethtool -K {port} tx off: {}", String::from_utf8_lossy(&out.stderr));
}

pub(super) fn tap(bed: &Testbed, port: &str) -> Tap {
    Tap::open(bed.ifindex(&format!("{port}p")))
}

fn far(bed: &Testbed, port: &str) -> PacketSocket {
    PacketSocket::open(bed.ifindex(&format!("{port}p")))
}

pub(super) fn is_roce(packet: &[u8]) -> bool {
    RoceFrame::parse(packet).is_ok()
}

pub(super) fn is_encapsulated(packet: &[u8]) -> bool {
    packet[6] == 43
}

/// The ACK of a receiver for the PSNs before 101, which goes upstream as it is.
fn ack(i: u32) -> Vec<u8> {
    answer(i, Syndrome::ack(31), 100, 1)
}

#[test]
fn a_headends_copies_have_the_right_checksum_where_the_source_left_it_to_the_hardware() {
    let bed = Testbed::without_far_boundary(&Shape { receivers: 2, children: 1, headend: true, ..Shape::default() });
    ["d0", "d1"].into_iter().for_each(fill_checksums_in);
    let (receivers, child) = (tap(&bed, "d0"), tap(&bed, "d1"));
    for psn in 100..110 {
        let sent = data(Opcode::SEND_ONLY, psn, &[psn as u8; 33]);
        far(&bed, "u0").send_without_checksum(ETHERNET + IPV6, &frame(&without_checksum(sent.clone(), 0)));
        for i in 0..2 {
            assert_eq!(receivers.next(is_roce), with_udp_checksum(copy_for(i, &sent)), "psn {psn}, receiver {i}");
        }
        let copy = child.next(is_encapsulated);
        let mut inner = sent;
        inner[7] -= 1;
        assert_eq!(SrhView::parse(&copy[IPV6..]).unwrap().payload(), with_udp_checksum(inner), "psn {psn}");
    }
}

#[test]
fn an_edges_copies_have_the_right_checksum_where_the_source_left_it_to_the_hardware() {
    let bed = Testbed::new(&Shape { receivers: 2, memory: Some((0x9000, 7, 64)), ..Shape::default() });
    fill_checksums_in("d0");
    let receivers = tap(&bed, "d0");
    let mut write = RoceBuilder::new(source(), proxy(), Opcode::WRITE_ONLY, DQPN, 100);
    write.extensions.reth = Some(canopy_packet::reth::Reth { va: 0x1008, rkey: 0xABCD, dma_len: 4 });
    write.payload = b"data";
    for sent in [write.build().unwrap(), data(Opcode::SEND_ONLY, 101, b"odd")] {
        let at = encapsulated(&sent, end_mt(), list(0..2), 0).len() - sent.len();
        let outer = encapsulated(&without_checksum(sent.clone(), 0), end_mt(), list(0..2), 0);
        far(&bed, "u0").send_without_checksum(ETHERNET + at + IPV6, &frame(&outer));
        for i in 0..2 {
            let copy = receivers.next(is_roce);
            assert_eq!(copy, with_udp_checksum(copy.clone()), "receiver {i}");
            let parsed = RoceFrame::parse(&copy).unwrap();
            assert_eq!((parsed.ipv6.dst, parsed.icrc_is_valid()), (receiver(i), true));
        }
    }
}

/// A frame that is used again for what goes upstream keeps the way of its checksum: none, complete, or left to the hardware.
#[test]
fn feedback_upstream_has_the_right_checksum_however_the_receiver_made_its_own() {
    let nak = answer(0, Syndrome::nak(NakCode::PsnSequence), 101, 1);
    let parent = |syndrome, psn| upstream(syndrome, psn, 1);
    for (feedback, up) in
        [(ack(0), parent(Syndrome::ack(31), 100)), (nak, parent(Syndrome::nak(NakCode::PsnSequence), 101))]
    {
        let fresh = || {
            let bed = Testbed::without_far_boundary(&Shape::default());
            (100..102).for_each(|psn| {
                drop(bed.run("u0", &encapsulated(&data(Opcode::SEND_ONLY, psn, b"x"), end_mt(), list(0..1), 0)))
            });
            bed
        };
        assert_eq!(fresh().run("d0", &feedback).1, up);
        assert_eq!(fresh().run("d0", &with_udp_checksum(feedback.clone())).1, with_udp_checksum(up.clone()));
        let bed = fresh();
        fill_checksums_in("u0");
        let to_parent = tap(&bed, "u0");
        far(&bed, "d0").send_without_checksum(ETHERNET + IPV6, &frame(&without_checksum(feedback, 0)));
        assert_eq!(to_parent.next(is_roce), with_udp_checksum(up));
    }
}

#[test]
fn a_cnp_upstream_has_the_right_checksum_however_the_receiver_made_its_own() {
    // The second of two CNPs ends the window of the first, and becomes the node's.
    let fresh = || {
        let bed = Testbed::without_far_boundary(&Shape { receivers: 2, ..Shape::default() });
        drop(bed.run("u0", &encapsulated(&data(Opcode::SEND_ONLY, 100, b"x"), end_mt(), list(0..2), 0)));
        assert_eq!(bed.run("d0", &congestion(0)).0, SHOT);
        bed.end_cnp_window();
        bed
    };
    let (action, up, _) = fresh().run("d0", &congestion(1));
    assert_eq!((action, &up[46..48]), (REDIRECT, &[0, 0][..]));
    assert_eq!(fresh().run("d0", &with_udp_checksum(congestion(1))).1, with_udp_checksum(up.clone()));
    let bed = fresh();
    fill_checksums_in("u0");
    let to_parent = tap(&bed, "u0");
    far(&bed, "d0").send_without_checksum(ETHERNET + IPV6, &frame(&without_checksum(congestion(1), 0)));
    assert_eq!(to_parent.next(is_roce), with_udp_checksum(up));
}

#[test]
fn a_priority_tag_of_a_host_is_taken_and_no_copy_and_no_feedback_has_one() {
    let mut bed = Testbed::without_far_boundary(&Shape { receivers: 1, headend: true, ..Shape::default() });
    // With its priority, and the drop eligible bit.
    let tag = 5 << 13 | 1 << 12;
    let (receivers, to_source) = (tap(&bed, "d0"), tap(&bed, "u0"));
    let sent = data(Opcode::SEND_ONLY, 100, b"tagged");
    far(&bed, "u0").send(&tagged(tag | 7, &data(Opcode::SEND_ONLY, 100, b"another VLAN")));
    far(&bed, "u0").send(&tagged(tag, &sent));
    assert_eq!(receivers.next(is_roce), copy_for(0, &sent));
    far(&bed, "d0").send(&tagged(tag | 7, &ack(0)));
    far(&bed, "d0").send(&tagged(tag, &ack(0)));
    let up = to_source.next(is_roce);
    let parsed = RoceFrame::parse(&up).unwrap();
    assert_eq!((parsed.ipv6.src, parsed.ipv6.dst, parsed.bth.psn), (proxy(), source(), 100));
    let refused = bed.port_drops();
    for port in ["u0", "d0"] {
        assert_eq!(refused[&(port.to_string(), "edge_frame".to_string())], 1, "{refused:?}");
    }
}

#[test]
fn a_buffer_of_several_packets_is_refused() {
    let mut bed = Testbed::new(&Shape { receivers: 1, headend: true, ..Shape::default() });
    let (one, state) = (data(Opcode::SEND_ONLY, 100, &[1; 84]), bed.state_octets());
    let refuses = |bed: &mut Testbed, port: &str, packet: &[u8], packets: u64| {
        let run = bed.datapath.bpf.receive_gso(bed.ifindex(port), packet, 104).unwrap();
        assert_eq!(run.verdict as u32, SHOT);
        assert_eq!((bed.drops()["gso"], bed.state_octets()), (packets, state.clone()));
    };
    refuses(&mut bed, "u0", &one, 1);
    refuses(&mut bed, "d0", &ack(0), 2);
    assert_eq!(bed.run("u0", &one).0, REDIRECT);

    let mut below = Testbed::new(&Shape::default());
    let outer = encapsulated(&one, end_mt(), list(0..1), 0);
    assert_eq!(below.datapath.bpf.receive_gso(below.ifindex("u0"), &outer, 104).unwrap().verdict as u32, SHOT);
    assert_eq!(below.drops()["gso"], 1);
    // What is none of Canopy's passes: the kernel divides it.
    let other =
        super::boundary::packet(receiver(0), "2001:db8:2::1".parse().unwrap(), 64, 17, &super::boundary::udp(80));
    assert_eq!(below.datapath.bpf.receive_gso(below.ifindex("d0"), &other, 12).unwrap().verdict as u32, OK);
}

#[test]
fn octets_behind_a_packet_go_no_further() {
    let behind = |packet: &[u8]| [packet, b"what was in the NIC's buffer"].concat();
    let sent = data(Opcode::SEND_ONLY, 100, b"abc");
    let headend = Testbed::new(&Shape { receivers: 1, headend: true, ..Shape::default() });
    assert_eq!(headend.run("u0", &behind(&sent)).1, copy_for(0, &sent));
    let plain = answer(0, Syndrome::ack(31), 100, 1);
    let (action, up, _) = headend.run("d0", &behind(&plain));
    assert_eq!((action, up.len()), (REDIRECT, plain.len()));

    let to_child = Testbed::new(&Shape { receivers: 0, children: 1, headend: true, ..Shape::default() });
    let (_, outer, _) = to_child.run("u0", &behind(&sent));
    assert_eq!(outer.len(), IPV6 + usize::from(Ipv6::parse(&outer).unwrap().payload_len));
    assert_eq!(SrhView::parse(&outer[IPV6..]).unwrap().payload().len(), sent.len());

    let mut edge = Testbed::new(&Shape::default());
    let outer = encapsulated(&sent, end_mt(), list(0..1), 0);
    assert_eq!(edge.run("u0", &behind(&outer)).1, copy_for(0, &sent));
    // Within the outer packet they belong to no packet.
    assert_eq!(edge.run("u0", &encapsulated(&behind(&sent), end_mt(), list(0..1), 0)).0, SHOT);
    assert_eq!(edge.drops()["inner_malformed"], 1);
}

#[test]
fn a_frame_to_another_link_layer_address_is_not_for_this_node() {
    let mut bed = Testbed::new(&Shape { receivers: 1, children: 1, headend: true, ..Shape::default() });
    let to = |address: [u8; 6], packet: &[u8]| [&address[..], &FOR_ALL[6..], &[0x86, 0xDD], packet].concat();
    let own = |port: &str| -> [u8; 6] {
        let out = Command::new("ip").args(["-br", "link", "show", "dev", port]).output().unwrap();
        let line = String::from_utf8(out.stdout).unwrap();
        let octets = line.split_whitespace().nth(2).unwrap().split(':').map(|o| u8::from_str_radix(o, 16).unwrap());
        octets.collect::<Vec<_>>().try_into().unwrap()
    };
    let (receivers, state) = (tap(&bed, "d0"), bed.state_octets());
    let sent = data(Opcode::SEND_ONLY, 100, b"x");
    let another = [2, 0, 0, 0, 0, 0x77];
    far(&bed, "u0").send(&to(another, &sent));
    far(&bed, "d0").send(&to(another, &ack(0)));
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    let counted = |bed: &mut Testbed| {
        bed.port_drops().iter().filter(|(k, _)| k.1 == "edge_other_mac").map(|(_, n)| n).sum::<u64>()
    };
    while counted(&mut bed) < 2 {
        assert!(std::time::Instant::now() < deadline, "{:?}", bed.port_drops());
    }
    assert_eq!(bed.state_octets(), state);
    let mine = own("u0");
    far(&bed, "u0").send(&to(mine, &sent));
    assert_eq!(receivers.next(is_roce), copy_for(0, &sent));
}

/// RFC 6040 section 4.2, figure 4: by the inner field, what becomes of each outer one (Not-ECT, ECT(1), ECT(0), CE); none is a drop.
#[test]
fn every_pair_of_ecn_fields_leaves_the_tunnel_as_rfc_6040_wants() {
    const FIGURE_4: [(u8, [Option<u8>; 4]); 4] = [
        (0b00, [Some(0b00), Some(0b00), Some(0b00), None]),
        (0b10, [Some(0b10), Some(0b01), Some(0b10), Some(0b11)]),
        (0b01, [Some(0b01), Some(0b01), Some(0b01), Some(0b11)]),
        (0b11, [Some(0b11), Some(0b11), Some(0b11), Some(0b11)]),
    ];
    let mut bed = Testbed::new(&Shape::default());
    for (inner, row) in FIGURE_4 {
        for (outer, becomes) in [0b00, 0b01, 0b10, 0b11].into_iter().zip(row) {
            let mut b = RoceBuilder::new(source(), proxy(), Opcode::SEND_ONLY, DQPN, 100);
            b.traffic_class = 0xA8 | inner;
            let (action, out, _) =
                bed.run("u0", &encapsulated(&b.build().unwrap(), end_mt(), list(0..1), 0x48 | outer));
            let is = (action == REDIRECT).then(|| Ipv6::parse(&out).unwrap().traffic_class);
            assert_eq!(is, becomes.map(|ecn| 0xA8 | ecn), "inner {inner:02b}, outer {outer:02b}");
        }
    }
    assert_eq!(bed.drops()["ecn"], 1);
}

#[test]
fn feedback_of_another_transport_version_or_partition_is_refused_and_of_limited_membership_is_not() {
    let feedback = |change: fn(&mut RoceBuilder<'static>)| {
        let mut ack = RoceBuilder::new(receiver(0), proxy(), Opcode::ACKNOWLEDGE, DQPN, 100);
        ack.extensions.aeth = Some(canopy_packet::aeth::Aeth { syndrome: Syndrome::ack(31), msn: 1 });
        let mut cnp = RoceBuilder::new(receiver(0), proxy(), Opcode::CNP, DQPN, 0);
        cnp.bth.resv8a = 0x40;
        cnp.extensions.cnp = Some(canopy_packet::cnp::Cnp::default());
        [ack, cnp].map(|mut b| {
            change(&mut b);
            b.build().unwrap()
        })
    };
    let mut bed = Testbed::new(&Shape::default());
    drop(bed.run("u0", &encapsulated(&data(Opcode::SEND_ONLY, 100, b"x"), end_mt(), list(0..1), 0)));
    let refused = [
        feedback(|b| b.bth.version = 1),
        feedback(|b| b.bth.version = 8),
        feedback(|b| b.bth.pkey = 0x8001),
        feedback(|b| b.bth.pkey = 0xFFFE),
        feedback(|b| b.bth.pkey = 0xBFFF),
    ];
    let (count, state) = (refused.len() as u64 * 2, bed.state_octets());
    for packet in refused.into_iter().flatten() {
        assert_eq!(bed.run("d0", &packet).0, SHOT);
    }
    assert_eq!((bed.drops()["feedback_malformed"], bed.state_octets(), bed.telemetry().cnps_in), (count, state, 0));
    let [ack, cnp] = feedback(|b| b.bth.pkey = 0x7FFF);
    let (action, up, _) = bed.run("d0", &ack);
    assert_eq!((action, RoceFrame::parse(&up).unwrap().bth.pkey), (REDIRECT, 0xFFFF));
    bed.run("d0", &cnp);
    assert_eq!(bed.telemetry().cnps_in, 1);
}

#[test]
fn the_checksum_of_these_tests_is_that_of_rfc_8200() {
    // Computed by scapy 2.8: IPv6(src="2001:db8::1", dst="2001:db8::2")/UDP(sport=1, dport=2)/b"abc".
    let mut p = super::boundary::packet("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap(), 64, 17, b"");
    p[4..6].copy_from_slice(&11u16.to_be_bytes());
    p.extend([0, 1, 0, 2, 0, 11, 0, 0, b'a', b'b', b'c']);
    assert_eq!(udp_checksum(&p), 0xDFFD);
}
