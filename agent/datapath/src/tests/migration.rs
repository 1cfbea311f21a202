// SPDX-License-Identifier: Apache-2.0
//! The migration bit of the BTH (MigReq), which the endpoints set as they like and the ICRC covers: with either value packets pass, and
//! nothing depends on it.

use canopy_packet::aeth::{NakCode, Syndrome};
use canopy_packet::bth::Opcode;
use canopy_packet::frame::{RoceBuilder, RoceFrame};
use canopy_packet::reth::Reth;
use canopy_packet::srh::SrhView;

use super::copy_for;
use crate::testbed::*;

#[test]
fn copies_keep_the_bit_of_the_source() {
    for bit in [false, true] {
        let bed = Testbed::new(&Shape { memory: Some((0x9000, 7, 64)), ..Shape::default() });
        let mut write = RoceBuilder::new(source(), proxy(), Opcode::WRITE_ONLY, DQPN, 101);
        write.extensions.reth = Some(Reth { va: 0x1008, rkey: 0xABCD, dma_len: 4 });
        write.payload = b"data";
        for sent in [data(Opcode::SEND_ONLY, 100, b"data"), write.build().unwrap()] {
            let sent = with_migration(sent, bit);
            assert!(RoceFrame::parse(&sent).unwrap().icrc_is_valid());
            let (action, out, _) = bed.run("u0", &encapsulated(&sent, end_mt(), list(0..1), 0));
            let copy = RoceFrame::parse(&out).unwrap();
            assert_eq!((action, copy.bth.migration, copy.icrc_is_valid()), (REDIRECT, bit, true));
            if copy.extensions.reth.is_none() {
                assert_eq!(out, copy_for(0, &sent));
            }
        }
        let headend = Testbed::new(&Shape { receivers: 0, children: 1, headend: true, ..Shape::default() });
        let (_, out, _) = headend.run("u0", &with_migration(data(Opcode::SEND_ONLY, 100, b"data"), bit));
        let inner = SrhView::parse(&out[40..]).unwrap().payload().to_vec();
        let inside = RoceFrame::parse(&inner).unwrap();
        assert_eq!((inside.bth.migration, inside.icrc_is_valid()), (bit, true));
        let transit = Testbed::new(&Shape { receivers: 0, children: 1, ..Shape::default() });
        let (_, out, _) = transit.run("u0", &encapsulated(&inner, replication(), vec![], 0));
        assert_eq!(SrhView::parse(&out[40..]).unwrap().payload(), inner);
    }
}

#[test]
fn a_late_receivers_copies_and_feedback_are_shifted_with_either_bit() {
    for bit in [false, true] {
        let mut bed = Testbed::new(&Shape { provisioned: true, ..Shape::default() });
        let late = |g: &mut canopy_model::node_spec::GroupProgram| {
            (g.branches[0].at_boundary, g.branches[0].since, g.epoch) = (true, 2, 2);
        };
        assert_eq!(bed.reconcile(|s| s.groups.for_each_mut(late)), []);
        bed.run("d0", &with_migration(answer(0, Syndrome::nak(NakCode::PsnSequence), 100, 0), bit));
        let sent = with_migration(data(Opcode::SEND_ONLY, 107, b"late"), bit);
        let (action, out, _) = bed.run("u0", &encapsulated(&sent, end_mt(), vec![], 0));
        let copy = RoceFrame::parse(&out).unwrap();
        let is = (action, copy.bth.psn, copy.bth.migration, copy.icrc_is_valid());
        assert_eq!(is, (REDIRECT, 100, bit, true));
        let (action, out, _) = bed.run("d0", &with_migration(answer(0, Syndrome::ack(31), 100, 1), bit));
        let up = RoceFrame::parse(&out).unwrap();
        assert_eq!((action, up.bth.psn, up.bth.migration, up.icrc_is_valid()), (REDIRECT, 107, true, true));
    }
}

#[test]
fn feedback_is_the_same_upstream_with_either_bit() {
    let run = |bit: bool| {
        let mut bed = Testbed::new(&Shape { receivers: 2, ..Shape::default() });
        for psn in 100..120 {
            bed.run("u0", &encapsulated(&data(Opcode::SEND_ONLY, psn, b"x"), end_mt(), list(0..2), 0));
        }
        let mut out = Vec::new();
        let mut feed = |bed: &Testbed, packet: Vec<u8>| {
            let (action, packet, _) = bed.run("d0", &with_migration(packet, bit));
            out.extend((action == REDIRECT).then_some(packet));
        };
        for (i, syndrome, psn) in [
            (0, Syndrome::ack(31), 109),
            (1, Syndrome::ack(31), 104),
            (1, Syndrome::nak(NakCode::PsnSequence), 106),
            (1, Syndrome::rnr_nak(5), 108),
            (1, Syndrome::ack(31), 119),
        ] {
            feed(&bed, answer(i, syndrome, psn, 1));
        }
        feed(&bed, congestion(0));
        bed.end_cnp_window();
        feed(&bed, congestion(1));
        (out, bed.telemetry().acks_in, bed.telemetry().naks_in, bed.cnps_out(), bed.drops())
    };
    let (without, with) = (run(false), run(true));
    assert_eq!((without.0.len(), without.1, without.2, without.3), (5, 3, 2, 1), "{:?}", without.4);
    for packet in &without.0 {
        let up = RoceFrame::parse(packet).unwrap();
        assert!(up.bth.migration && up.icrc_is_valid(), "{up:?}");
    }
    assert_eq!(without, with);
}
