// SPDX-License-Identifier: Apache-2.0

use super::*;
use crate::aeth::{Aeth, Syndrome};
use crate::atomic_eth::{AtomicAckEth, AtomicEth};
use crate::cnp::Cnp;
use crate::ieth::Ieth;
use crate::immdt::ImmDt;
use crate::reth::Reth;
use core::net::Ipv6Addr;
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

fn opcodes() -> Vec<Opcode> {
    (0..=u8::MAX).map(Opcode).filter(|&opcode| known(opcode)).collect()
}

fn extensions(opcode: Opcode, seed: u64) -> Extensions {
    let (low, high) = (seed as u32, (seed >> 32) as u32);
    let aeth = Aeth { syndrome: Syndrome(low as u8), msn: high >> 8 };
    let atomic = AtomicEth { va: seed, rkey: low, swap_or_add: !seed, compare: seed << 1 };
    let cnp = Cnp { reserved: [low as u8; 16] };
    Extensions {
        reth: opcode.has_reth().then_some(Reth { va: seed, rkey: low, dma_len: high }),
        atomic_eth: opcode.has_atomic_eth().then_some(atomic),
        aeth: opcode.has_aeth().then_some(aeth),
        atomic_ack_eth: opcode.has_atomic_ack_eth().then_some(AtomicAckEth(seed)),
        immdt: opcode.has_immdt().then_some(ImmDt(low)),
        ieth: opcode.has_ieth().then_some(Ieth(high)),
        cnp: (opcode == Opcode::CNP).then_some(cnp),
    }
}

fn packet(opcode: Opcode, payload: &[u8]) -> Vec<u8> {
    let (src, dst) = (Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST);
    let mut builder = RoceBuilder::new(src, dst, opcode, 5, 6);
    builder.extensions = extensions(opcode, 7);
    builder.payload = payload;
    builder.build().unwrap()
}

#[test]
fn an_acknowledgement_is_68_octets_and_a_cnp_80() {
    assert_eq!(packet(Opcode::ACKNOWLEDGE, &[]).len(), 40 + 8 + 12 + 4 + 4);
    let cnp = packet(Opcode::CNP, &[]);
    assert_eq!(cnp.len(), 40 + 8 + 12 + 16 + 4);
    assert_eq!(cnp[4..6], 40_u16.to_be_bytes());
    assert_eq!(cnp[44..48], [0, 40, 0, 0]);
}

#[test]
fn what_is_not_one_whole_roce_packet_is_refused_by_header_and_field() {
    let good = packet(Opcode::SEND_ONLY, &[1, 2, 3, 4]);
    for (offset, octet, header, field) in [
        (6, 43, "IPv6", "Next Header"),
        (5, 255, "IPv6", "Payload Length"),
        (5, 24, "UDP", "Length"),
        (43, 0xb6, "UDP", "Destination Port"),
        (45, 27, "UDP", "Length"),
        (48, 0x15, "BTH", "OpCode"),
        (48, 0x64, "BTH", "OpCode"),
        (48, 0x06, "RETH", "length"),
        (49, 0x01, "BTH", "TVer"),
    ] {
        let mut bytes = good.clone();
        bytes[offset] = octet;
        let error = RoceFrame::parse(&bytes).unwrap_err();
        assert_eq!((error.header, error.field), (header, field), "octet {offset}");
    }
}

#[test]
fn a_packet_that_ends_before_its_icrc_is_refused() {
    let mut bytes = packet(Opcode::SEND_ONLY, &[]);
    (bytes[5], bytes[45]) = (23, 23);
    let error = RoceFrame::parse(&bytes).unwrap_err();
    assert_eq!((error.header, error.field), ("ICRC", "length"));
}

#[test]
fn a_pad_that_is_not_there_or_not_to_four_octets_is_refused() {
    let mut bytes = packet(Opcode::SEND_ONLY, &[]);
    bytes[49] = 0x10;
    let missing = Problem::Truncated { needed: 1, available: 0 };
    let expected = |problem| ParseError { header: "BTH", field: "Pad Count", problem };
    assert_eq!(RoceFrame::parse(&bytes).unwrap_err(), expected(missing));
    let mut odd = packet(Opcode::SEND_ONLY, &[1, 2, 3, 4, 5, 6]);
    odd.remove(60);
    (odd[5], odd[45]) = (odd[5] - 1, odd[45] - 1);
    // Five octets of payload take a pad of three.
    let short = Problem::Expected { expected: 3, found: 2 };
    assert_eq!(RoceFrame::parse(&odd).unwrap_err(), expected(short));
}

#[test]
fn a_damaged_packet_is_parsed_and_its_icrc_is_not_valid() {
    let mut bytes = packet(Opcode::SEND_ONLY, &[1, 2, 3, 4]);
    assert!(RoceFrame::parse(&bytes).unwrap().icrc_is_valid());
    bytes[60] ^= 1;
    let frame = RoceFrame::parse(&bytes).unwrap();
    assert_eq!((frame.payload, frame.icrc_is_valid()), (&[0, 2, 3, 4][..], false));
}

#[test]
fn the_octets_behind_the_bth_are_extension_headers_payload_and_pad() {
    for (opcode, payload, octets) in [
        (Opcode::SEND_MIDDLE, &[][..], 0),
        (Opcode::ACKNOWLEDGE, &[], 4),
        (Opcode::CNP, &[], 16),
        (Opcode::WRITE_ONLY_IMM, &[1, 2, 3, 4, 5], 16 + 4 + 5 + 3),
    ] {
        let bytes = packet(opcode, payload);
        assert_eq!(RoceFrame::parse(&bytes).unwrap().octets_behind_bth(), octets, "{opcode:?}");
    }
}

#[test]
fn an_acknowledgement_with_payload_is_neither_parsed_nor_built() {
    let mut bytes = packet(Opcode::SEND_ONLY, &[0; 8]);
    bytes[48] = Opcode::ACKNOWLEDGE.0;
    assert_eq!(RoceFrame::parse(&bytes).unwrap_err().field, "payload length");
    let (src, dst) = (Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST);
    let mut builder = RoceBuilder::new(src, dst, Opcode::ACKNOWLEDGE, 5, 6);
    builder.extensions = extensions(Opcode::ACKNOWLEDGE, 0);
    builder.payload = &[0; 4];
    assert_eq!(builder.build().unwrap_err().field, "payload");
}

#[test]
fn a_packet_beyond_payload_length_is_not_built() {
    let payload = vec![0; 65_535 - 24];
    let builder = |payload| {
        let (src, dst) = (Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST);
        RoceBuilder { payload, ..RoceBuilder::new(src, dst, Opcode::SEND_ONLY, 5, 6) }.build()
    };
    assert_eq!(builder(&payload).unwrap_err().field, "Payload Length");
    let largest = builder(&payload[3..]).unwrap();
    assert_eq!(largest.len(), 40 + 65_532);
    assert!(RoceFrame::parse(&largest).unwrap().icrc_is_valid());
}

#[test]
fn exactly_the_extension_headers_of_the_opcode_are_emitted() {
    for opcode in opcodes() {
        let right = extensions(opcode, 1);
        for other in opcodes() {
            let wrong = extensions(other, 1);
            let result = wrong.emit(opcode, &mut [0; Extensions::MAX_LEN]);
            assert_eq!(result.is_ok(), wrong == right, "{opcode:?} {other:?}");
        }
    }
}

proptest! {
    #[test]
    fn what_is_built_is_parsed(
        opcode in prop::sample::select(opcodes()),
        (src, dst) in any::<(Ipv6Addr, Ipv6Addr)>(),
        (traffic_class, flow_label, hop_limit, src_port) in (any::<u8>(), 0_u32..1 << 20, any::<u8>(), any::<u16>()),
        bth in any::<[u8; 12]>(),
        seed: u64,
        payload: Vec<u8>,
        behind: Vec<u8>,
    ) {
        let bth = Bth { opcode, version: 0, ..Bth::parse(&bth).unwrap() };
        let payload = if opcode.has_payload() { &payload[..] } else { &[] };
        let extensions = extensions(opcode, seed);
        let builder = RoceBuilder {
            traffic_class, flow_label, hop_limit, src, dst, src_port, bth, extensions, payload,
        };
        let mut bytes = builder.build().unwrap();
        let len = bytes.len();
        bytes.extend(behind);
        let frame = RoceFrame::parse(&bytes).unwrap();
        prop_assert!(frame.icrc_is_valid());
        prop_assert_eq!(frame.packet(), &bytes[..len]);
        prop_assert_eq!(frame.payload, payload);
        prop_assert_eq!(frame.extensions, extensions);
        prop_assert_eq!((frame.pad.len() + payload.len()) % 4, 0);
        prop_assert_eq!(frame.bth, Bth { pad_count: frame.pad.len() as u8, ..bth });
        prop_assert_eq!(RoceBuilder::from(&frame).build().unwrap(), &bytes[..len]);
        prop_assert!(RoceFrame::parse(&bytes[..len - 1]).is_err());
    }
}
