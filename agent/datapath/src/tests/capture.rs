// SPDX-License-Identifier: Apache-2.0
//! Captures of one packet, with frames through the veth pairs: what the programs report, compared with what a packet socket at the far end
//! of each port gets.

use canopy_agent_core::Datapath;
use canopy_model::capture::{CaptureDirection, CapturedFrame, INNER, MAX_HEAD};
use canopy_packet::bth::Opcode;
use canopy_packet::frame::{RoceBuilder, RoceFrame};
use canopy_packet::reth::Reth;

use super::frames::{FOR_ALL, frame, is_encapsulated, is_roce, tap};
use crate::testbed::*;

const ETHERNET: usize = 14;

fn send(bed: &Testbed, packet: &[u8]) {
    PacketSocket::open(bed.ifindex("u0p")).send(&frame(packet));
}

/// Direction, port, and the headers from the first IPv6 header on.
fn seen(f: &CapturedFrame) -> (CaptureDirection, &str, &[u8]) {
    (f.direction, &f.port, &f.head[ETHERNET..])
}

/// What a capture has of the packet: up to the BTH of the inner packet at `inner`, and not beyond the first octets.
fn headers(packet: &[u8], inner: usize) -> &[u8] {
    &packet[..(inner + INNER).min(MAX_HEAD - ETHERNET)]
}

/// Where the inner packet is in one with an outer header.
fn behind_outer(packet: &[u8]) -> usize {
    40 + 8 * (usize::from(packet[41]) + 1)
}

#[test]
fn a_headend_captures_the_packet_and_each_copy_as_they_are_on_the_wire() {
    let mut bed =
        Testbed::without_far_boundary(&Shape { receivers: 1, children: 2, headend: true, ..Shape::default() });
    let (d0, d1, d2) = (tap(&bed, "d0"), tap(&bed, "d1"), tap(&bed, "d2"));
    bed.capture(7, 101);
    for psn in 100..103 {
        send(&bed, &data(Opcode::SEND_ONLY, psn, b"payload"));
    }
    let frames = bed.captured(4);
    let sent = data(Opcode::SEND_ONLY, 101, b"payload");
    assert_eq!(seen(&frames[0]), (CaptureDirection::In, "u0", headers(&sent, 0)));
    assert_eq!((&frames[0].head[..12], frames[0].length as usize), (&FOR_ALL[..], ETHERNET + sent.len()));
    let with_psn = |of: fn(&[u8]) -> bool, at: fn(&[u8]) -> usize| {
        move |p: &[u8]| of(p) && p[at(p) + INNER - 4..at(p) + INNER] == [0, 0, 0, 101]
    };
    for (port, tap, copy) in [("d1", &d1, &frames[1]), ("d2", &d2, &frames[2])] {
        let on_the_wire = tap.next(with_psn(is_encapsulated, behind_outer));
        let inner = behind_outer(&on_the_wire);
        assert_eq!(seen(copy), (CaptureDirection::Out, port, headers(&on_the_wire, inner)));
        assert_eq!((copy.inner_at as usize, &copy.inner[..]), (ETHERNET + inner, &on_the_wire[inner..inner + INNER]));
        assert_eq!(copy.length as usize, ETHERNET + on_the_wire.len());
    }
    let on_the_wire = d0.next(with_psn(is_roce, |_| 0));
    assert_eq!(seen(&frames[3]), (CaptureDirection::Out, "d0", headers(&on_the_wire, 0)));
    assert!(frames.iter().all(|f| f.id.get() == 7));
}

#[test]
fn an_edge_captures_headers_behind_a_long_list_of_receivers() {
    let mut bed = Testbed::without_far_boundary(&Shape { receivers: 9, ..Shape::default() });
    let d0 = tap(&bed, "d0");
    let sent = encapsulated(&data(Opcode::SEND_ONLY, 100, b"payload"), end_mt(), list(0..9), 0);
    let inner = behind_outer(&sent);
    assert!(inner > MAX_HEAD, "{inner}: this proves nothing");
    bed.capture(7, 100);
    send(&bed, &sent);
    let frames = bed.captured(10);
    assert_eq!(seen(&frames[0]), (CaptureDirection::In, "u0", headers(&sent, inner)));
    assert_eq!((frames[0].head.len(), frames[0].inner_at as usize), (MAX_HEAD, ETHERNET + inner));
    assert_eq!(frames[0].inner[..], sent[inner..inner + INNER]);
    for copy in &frames[1..] {
        assert_eq!(seen(copy), (CaptureDirection::Out, "d0", headers(&d0.next(is_roce), 0)));
    }
}

/// The frames of a later capture are the next ones: nothing else was reported.
#[test]
fn the_packet_is_captured_once_and_no_other_is() {
    let mut bed = Testbed::without_far_boundary(&Shape { headend: true, ..Shape::default() });
    let d0 = tap(&bed, "d0");
    let transmit = |psn| {
        send(&bed, &data(Opcode::SEND_ONLY, psn, b"x"));
        d0.next(is_roce);
    };
    transmit(100);
    bed.capture(7, 102);
    let d0 = tap(&bed, "d0");
    let transmit = |bed: &Testbed, psn| {
        send(bed, &data(Opcode::SEND_ONLY, psn, b"x"));
        d0.next(is_roce);
    };
    // Go-back-N: the source sends it again, and the copies of that are none of this capture.
    [101, 102, 103, 102, 103].into_iter().for_each(|psn| transmit(&bed, psn));
    bed.datapath.capture(None).unwrap();
    transmit(&bed, 104);
    bed.capture(8, 105);
    transmit(&bed, 105);
    let ids: Vec<u32> = bed.captured(4).iter().map(|f| f.id.get()).collect();
    assert_eq!(ids, [7, 7, 8, 8]);
}

#[test]
fn nothing_behind_the_bth_is_captured() {
    let shape = Shape { headend: true, memory: Some((0x7000_0000, 0x55AA_55AA, 8192)), ..Shape::default() };
    let mut bed = Testbed::without_far_boundary(&shape);
    let d0 = tap(&bed, "d0");
    let mut write = RoceBuilder::new(source(), proxy(), Opcode::WRITE_ONLY, DQPN, 100);
    write.extensions.reth = Some(Reth { va: 0x1000, rkey: 0xABCD, dma_len: 4 });
    write.payload = b"data";
    bed.capture(7, 100);
    send(&bed, &write.build().unwrap());
    let on_the_wire = d0.next(is_roce);
    assert_eq!(RoceFrame::parse(&on_the_wire).unwrap().extensions.reth.unwrap().rkey, 0x55AA_55AA);
    let frames = bed.captured(2);
    assert!(frames.iter().all(|f| f.head.len() == ETHERNET + INNER), "{frames:?}");
    assert_eq!(frames[1].head[ETHERNET..], on_the_wire[..INNER]);
}

/// Copies of the kernel's multicast routes bear no mark of the programs.
#[test]
fn copies_that_the_kernel_makes_are_captured_once_each() {
    let mut bed =
        Testbed::new(&Shape { receivers: 0, children: 2, headend: true, multicast: true, ..Shape::default() });
    let (action, mut copy, _) = bed.run("u0", &data(Opcode::SEND_ONLY, 101, b"x"));
    assert_eq!(action, OK, "the kernel gets the packet");
    // It decrements the hop limit of its copies.
    copy[7] -= 1;
    bed.capture(7, 101);
    let packets: Vec<_> = (100..103).map(|psn| data(Opcode::SEND_ONLY, psn, b"x")).collect();
    bed.traffic("u0", &packets);
    let mut frames = bed.captured(3);
    frames.sort_by(|a, b| (a.direction, &a.port).cmp(&(b.direction, &b.port)));
    assert_eq!(seen(&frames[0]), (CaptureDirection::In, "u0", headers(&packets[1], 0)));
    for (frame, port) in frames[1..].iter().zip(["d1", "d2"]) {
        assert_eq!(seen(frame), (CaptureDirection::Out, port, headers(&copy, behind_outer(&copy))));
    }
    // The frames of a later capture are the next ones.
    bed.capture(8, 104);
    bed.traffic("u0", &[data(Opcode::SEND_ONLY, 104, b"x")]);
    assert!(bed.captured(3).iter().all(|f| f.id.get() == 8));
}

#[test]
fn a_group_that_is_not_here_cannot_be_captured() {
    let mut bed = Testbed::new(&Shape::default());
    let order = canopy_model::capture::CaptureOrder::new(7, 99, 1, canopy_model::capture::MAX_WITHIN).unwrap();
    let error = bed.datapath.capture(Some(&order)).unwrap_err();
    assert!(error.to_string().contains("group 99"), "{error}");
}
