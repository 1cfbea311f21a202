// SPDX-License-Identifier: Apache-2.0
//! Each rule of the responder on its own; `tests/rxe_replay.rs` tests it against the kernel's responder.

use super::*;
use crate::transfer::Region;
use canopy_packet::reth::Reth;
use std::time::Duration;

const START: u32 = 0xff_fffe;
const REGION: Region = Region { va: 0x1000, rkey: 7, length: 1000 };

fn responder() -> Responder {
    Responder::new(Settings { region: Some(REGION), ..Settings::new(256) }, START)
}

/// Packet number `number` of `len` bytes.
fn packet(opcode: Opcode, number: u64, len: usize) -> Packet<'static> {
    let mut headers = Headers::new(opcode, 1, psn::add(START, number));
    headers.immediate = opcode.has_immdt().then_some(0);
    headers.reth = opcode.has_reth().then_some(Reth { va: 0x1000, rkey: 7, dma_len: len as u32 });
    Packet { headers, payload: &[5; 4096][..len] }
}

fn asking(mut packet: Packet<'static>) -> Packet<'static> {
    packet.headers.bth.ack_req = true;
    packet
}

/// Handles a packet; returns whether it was delivered, and the answer as (number, syndrome, MSN).
fn give(responder: &mut Responder, packet: Packet<'_>) -> (bool, Option<(i32, u8, u32)>) {
    let delivered = responder.handle(&packet, false, Instant::now()).is_some();
    let answer = responder.next_packet().map(|answer| match answer {
        Answer::Acknowledge { psn, aeth } => (psn::distance(START, psn), aeth.syndrome.0, aeth.msn),
        Answer::Cnp => panic!("no CE, no CNP"),
    });
    assert_eq!(responder.next_packet(), None);
    (delivered, answer)
}

#[test]
fn acks_come_only_where_asked_for_and_carry_psn_msn_and_unlimited_credits() {
    let mut r = responder();
    assert_eq!(give(&mut r, packet(Opcode::SEND_FIRST, 0, 256)), (true, None));
    assert_eq!(give(&mut r, asking(packet(Opcode::SEND_MIDDLE, 1, 256))), (true, Some((1, 31, 0))));
    assert_eq!(give(&mut r, asking(packet(Opcode::SEND_LAST, 2, 1))), (true, Some((2, 31, 1))));
    assert_eq!(give(&mut r, packet(Opcode::SEND_ONLY, 3, 0)), (true, None));
    assert_eq!(give(&mut r, asking(packet(Opcode::SEND_ONLY, 4, 9))), (true, Some((4, 31, 3))));
    assert_eq!(r.counters().messages, 3);
    assert_eq!(r.counters().bytes, 256 + 256 + 1 + 9);
}

#[test]
fn one_nak_per_gap_then_silence_until_it_is_filled() {
    let mut r = responder();
    give(&mut r, packet(Opcode::SEND_ONLY, 0, 4));
    let nak = |at| (false, Some((at, 0x60, at as u32)));
    assert_eq!(give(&mut r, packet(Opcode::SEND_ONLY, 2, 4)), nak(1));
    assert_eq!(give(&mut r, asking(packet(Opcode::SEND_ONLY, 3, 4))), (false, None));
    assert_eq!(give(&mut r, asking(packet(Opcode::SEND_ONLY, 2, 4))), (false, None));
    assert_eq!(give(&mut r, packet(Opcode::SEND_ONLY, 1, 4)), (true, None));
    // The next gap is reported again.
    assert_eq!(give(&mut r, packet(Opcode::SEND_ONLY, 3, 4)), nak(2));
    assert_eq!(r.counters().naks_sent, 2);
    assert_eq!(r.counters().out_of_sequence, 4);
}

#[test]
fn duplicates_are_acknowledged_with_the_latest_psn_asked_or_not_and_delivered_once() {
    let mut r = responder();
    for number in 0..4 {
        give(&mut r, packet(Opcode::SEND_ONLY, number, 4));
    }
    assert_eq!(give(&mut r, packet(Opcode::SEND_ONLY, 0, 4)), (false, Some((3, 31, 4))));
    assert_eq!(give(&mut r, asking(packet(Opcode::SEND_ONLY, 3, 4))), (false, Some((3, 31, 4))));
    assert_eq!((r.counters().duplicates, r.counters().bytes), (2, 16));
}

#[test]
fn a_duplicate_during_a_gap_does_not_renew_its_nak() {
    let mut r = responder();
    give(&mut r, packet(Opcode::SEND_ONLY, 0, 4));
    give(&mut r, packet(Opcode::SEND_ONLY, 2, 4));
    assert_eq!(give(&mut r, packet(Opcode::SEND_ONLY, 0, 4)), (false, Some((0, 31, 1))));
    assert_eq!(give(&mut r, packet(Opcode::SEND_ONLY, 2, 4)), (false, None));
}

/// Each sequence ends in an invalid packet: expects the NAK, and no answer after it.
fn expect_fatal(sequence: &[Packet<'static>], syndrome: u8) {
    let mut r = responder();
    let (last, before) = sequence.split_last().unwrap();
    for packet in before {
        assert_eq!(give(&mut r, *packet), (true, None), "{packet:?}");
    }
    let (number, msn) = (before.len() as i32, r.msn);
    assert_eq!(give(&mut r, *last), (false, Some((number, syndrome, msn))), "{last:?}");
    assert!(r.failure().is_some());
    let next = asking(packet(Opcode::SEND_ONLY, number as u64, 4));
    assert_eq!(give(&mut r, next), (false, None), "the QP is in its error state");
}

#[test]
fn packets_out_of_their_message_are_fatal() {
    use Opcode as O;
    let cases: [&[(Opcode, usize)]; 14] = [
        &[(O::SEND_MIDDLE, 256)],
        &[(O::SEND_LAST, 4)],
        &[(O::WRITE_MIDDLE, 256)],
        &[(O::WRITE_LAST, 4)],
        &[(O::SEND_ONLY, 4), (O::SEND_MIDDLE, 256)],
        &[(O::SEND_FIRST, 256), (O::SEND_FIRST, 256)],
        &[(O::SEND_FIRST, 256), (O::SEND_ONLY, 4)],
        &[(O::SEND_FIRST, 256), (O::WRITE_MIDDLE, 256)],
        &[(O::SEND_FIRST, 256), (O::WRITE_ONLY, 4)],
        &[(O::READ_REQUEST, 0)],
        &[(O::FETCH_ADD, 0)],
        &[(O::ACKNOWLEDGE, 0)],
        &[(O::SEND_ONLY_INV, 4)],
        &[(Opcode(0x1f), 0)],
    ];
    for case in cases {
        let sequence: Vec<_> = (0..).zip(case).map(|(n, &(op, len))| packet(op, n, len)).collect();
        expect_fatal(&sequence, 0x61);
    }
}

#[test]
fn payloads_of_the_wrong_length_are_fatal() {
    let first = packet(Opcode::SEND_FIRST, 0, 256);
    expect_fatal(&[packet(Opcode::SEND_FIRST, 0, 255)], 0x61);
    expect_fatal(&[packet(Opcode::SEND_ONLY, 0, 257)], 0x61);
    expect_fatal(&[first, packet(Opcode::SEND_MIDDLE, 1, 252)], 0x61);
    expect_fatal(&[first, packet(Opcode::SEND_LAST, 1, 0)], 0x61);
    expect_fatal(&[first, packet(Opcode::SEND_LAST, 1, 257)], 0x61);
}

fn write(opcode: Opcode, number: u64, len: usize, (va, rkey, dma_len): (u64, u32, u32)) -> Packet<'static> {
    let mut packet = packet(opcode, number, len);
    packet.headers.reth = Some(Reth { va, rkey, dma_len });
    packet
}

#[test]
fn writes_land_at_their_address_packet_after_packet() {
    let mut r = responder();
    let places: Vec<_> = [
        write(Opcode::WRITE_FIRST, 0, 256, (0x1000 + 400, 7, 600)),
        packet(Opcode::WRITE_MIDDLE, 1, 256),
        packet(Opcode::WRITE_LAST_IMM, 2, 88),
        write(Opcode::WRITE_ONLY, 3, 9, (0x1000, 7, 9)),
    ]
    .iter()
    .map(|packet| r.handle(packet, false, Instant::now()).unwrap())
    .map(|delivery| (delivery.place, delivery.immediate, delivery.ends_message))
    .collect();
    let expected = [
        (Place::Memory(400), None, false),
        (Place::Memory(656), None, false),
        (Place::Memory(912), Some(0), true),
        (Place::Memory(0), None, true),
    ];
    assert_eq!(places, expected);
}

#[test]
fn writes_outside_the_region_or_without_its_key_are_remote_access_errors() {
    for reth in
        [(0x1000, 8, 4), (0xfff, 7, 4), (0x1000 + 997, 7, 4), (0x1000 + 1000, 7, 4), (u64::MAX - 1, 7, 4), (0, 7, 4)]
    {
        expect_fatal(&[write(Opcode::WRITE_ONLY, 0, 4, reth)], 0x62);
    }
    // The whole message is checked before its first byte is written.
    expect_fatal(&[write(Opcode::WRITE_FIRST, 0, 256, (0x1000, 7, 1001))], 0x62);
}

#[test]
fn a_write_of_nothing_needs_no_key() {
    let mut r = responder();
    let packet = asking(write(Opcode::WRITE_ONLY, 0, 0, (0, 0, 0)));
    assert_eq!(give(&mut r, packet), (true, Some((0, 31, 1))));
}

#[test]
fn writes_must_carry_exactly_their_length() {
    let first = |dma_len| write(Opcode::WRITE_FIRST, 0, 256, (0x1000, 7, dma_len));
    expect_fatal(&[write(Opcode::WRITE_ONLY, 0, 4, (0x1000, 7, 5))], 0x61);
    expect_fatal(&[write(Opcode::WRITE_ONLY, 0, 4, (0x1000, 7, 3))], 0x61);
    expect_fatal(&[first(256)], 0x61);
    expect_fatal(&[first(300), packet(Opcode::WRITE_MIDDLE, 1, 256)], 0x61);
    expect_fatal(&[first(300), packet(Opcode::WRITE_LAST, 1, 43)], 0x61);
    expect_fatal(&[first(300), packet(Opcode::WRITE_LAST, 1, 45)], 0x61);
}

#[test]
fn without_memory_every_write_is_refused() {
    let mut r = Responder::new(Settings::new(256), START);
    let answer = give(&mut r, packet(Opcode::WRITE_ONLY, 0, 4));
    assert_eq!(answer, (false, Some((0, 0x62, 0))));
}

#[test]
fn every_second_message_is_not_ready_the_first_time() {
    let mut r = Responder::new(Settings { rnr_every: 2, ..Settings::new(256) }, START);
    assert_eq!(give(&mut r, packet(Opcode::SEND_ONLY, 0, 4)), (true, None));
    assert_eq!(give(&mut r, packet(Opcode::SEND_FIRST, 1, 256)), (false, Some((1, 0x20 | 12, 1))));
    // The packets after it are dropped without another NAK.
    assert_eq!(give(&mut r, packet(Opcode::SEND_LAST, 2, 4)), (false, None));
    assert_eq!(give(&mut r, packet(Opcode::SEND_FIRST, 1, 256)), (true, None));
    assert_eq!(give(&mut r, packet(Opcode::SEND_LAST, 2, 4)), (true, None));
    assert_eq!(give(&mut r, packet(Opcode::SEND_ONLY, 3, 4)), (true, None));
    assert_eq!(give(&mut r, packet(Opcode::SEND_ONLY, 4, 4)), (false, Some((4, 0x20 | 12, 3))));
    assert_eq!(r.counters().rnr_sent, 2);
}

#[test]
fn a_stopped_responder_answers_nothing_at_all() {
    let mut r = Responder::new(Settings { stop_after: Some(8), ..Settings::new(256) }, START);
    assert_eq!(give(&mut r, asking(packet(Opcode::SEND_ONLY, 0, 4))), (true, Some((0, 31, 1))));
    assert_eq!(give(&mut r, asking(packet(Opcode::SEND_ONLY, 1, 4))), (true, Some((1, 31, 2))));
    for number in [0, 2, 5] {
        assert_eq!(give(&mut r, asking(packet(Opcode::SEND_ONLY, number, 4))), (false, None));
    }
    assert_eq!(r.counters().ignored, 3);
}

#[test]
fn ce_is_answered_with_cnps_at_most_every_50_microseconds() {
    let mut r = responder();
    let begin = Instant::now();
    let mut cnps = Vec::new();
    for (number, micros) in [0, 10, 49, 50, 99, 100].into_iter().enumerate() {
        let now = begin + Duration::from_micros(micros);
        r.handle(&packet(Opcode::SEND_ONLY, number as u64, 4), true, now);
        if r.next_packet() == Some(Answer::Cnp) {
            cnps.push(micros);
        }
    }
    assert_eq!(cnps, [0, 50, 100]);
    assert_eq!((r.counters().ce_marked, r.counters().cnps_sent), (6, 3));
    let cnp = Answer::Cnp.headers(9);
    assert_eq!((cnp.bth.opcode, cnp.bth.resv8a, cnp.bth.dest_qp), (Opcode::CNP, 0x40, 9));
}
