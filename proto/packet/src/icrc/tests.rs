// SPDX-License-Identifier: Apache-2.0

use super::*;
use crate::bth::Opcode;
use crate::frame::RoceBuilder;
use crate::reth::Reth;
use core::net::Ipv6Addr;
use proptest::prelude::*;
use std::vec::Vec;

fn packet(payload: &[u8]) -> Vec<u8> {
    let src = "fd00:1::1".parse().unwrap();
    let dst = "fd00:2::1".parse().unwrap();
    let mut builder = RoceBuilder::new(src, dst, Opcode::WRITE_ONLY, 0x11, 0xff_ffff);
    builder.extensions.reth = Some(Reth { va: 0x1000, rkey: 7, dma_len: payload.len() as u32 });
    builder.payload = payload;
    builder.build().unwrap()
}

#[test]
fn exactly_the_masked_bits_of_the_figure_are_not_covered() {
    let packet = packet(b"Canopy");
    let covered = packet.len() - LEN;
    for bit in 0..covered * 8 {
        let mut other = packet.clone();
        other[bit / 8] ^= 0x80 >> (bit % 8);
        let masked = match bit / 8 {
            0 => bit >= 4, // all of octet 0 but Version
            1..=3 | 7 | 46 | 47 | 52 => true,
            _ => false,
        };
        // Version and Next Header are refused before any CRC is computed.
        if let Ok(valid) = verify(&other) {
            assert_eq!(valid, masked, "bit {bit}");
        } else {
            assert!(bit < 4 || bit / 8 == 6, "bit {bit}");
        }
    }
}

#[test]
fn other_than_udp_in_ipv6_is_refused_by_field() {
    let mut packet = packet(&[]);
    assert_eq!(compute(&packet[..59]).unwrap_err().header, "BTH");
    assert_eq!(verify(&packet[..3]).unwrap_err().header, "ICRC");
    packet[6] = 43;
    assert_eq!(compute(&packet).unwrap_err().field, "Next Header");
}

#[test]
fn append_and_write_put_the_least_significant_octet_first() {
    let whole = packet(b"0123");
    let mut appended = whole[..whole.len() - LEN].to_vec();
    append(&mut appended).unwrap();
    assert_eq!(appended, whole);
    write(&mut appended, 0x0102_0304).unwrap();
    assert!(appended.ends_with(&[4, 3, 2, 1]));
    assert_eq!(read(&appended), Ok(0x0102_0304));
    assert_eq!(write(&mut [0; 3], 0).unwrap_err().field, "buffer");
}

#[test]
fn a_change_that_does_not_fit_is_refused() {
    let change = |offset, old, new| delta(100, &[Change { offset, old, new }]);
    assert_eq!(change(98, &[1, 2], &[1, 2]), Ok(0));
    assert_eq!(change(0, &[1, 2], &[1]).unwrap_err().field, "length of a change");
    assert_eq!(change(99, &[1, 2], &[1, 3]).unwrap_err().field, "offset of a change");
    assert_eq!(change(usize::MAX, &[1], &[2]).unwrap_err().field, "offset of a change");
}

/// The octets on both sides of each masked field, the first behind the BTH with them, count as in a packet of zeros.
#[test]
fn a_change_counts_unless_its_octet_is_masked() {
    const COVERED: usize = 64;
    for offset in 0..COVERED {
        let change = Change { offset, old: &[0x0f], new: &[0] };
        let masked = matches!(offset, 0..=3 | 7 | 46 | 47 | 52);
        let counts = if masked { 0 } else { Crc::ZERO.update(&[0x0f]).shift_zeros(COVERED - offset - 1).0 };
        assert_eq!(delta(COVERED, &[change]), Ok(counts), "octet {offset}");
    }
}

proptest! {
    #[test]
    fn a_seed_continued_over_the_rest_is_the_icrc(payload: Vec<u8>) {
        let packet = packet(&payload);
        let (ipv6, rest) = packet.split_first_chunk().unwrap();
        let (udp, rest) = rest.split_first_chunk().unwrap();
        let (bth, rest) = rest.split_first_chunk().unwrap();
        let mut register = seed(ipv6, udp, bth);
        for octet in &rest[..rest.len() - LEN] {
            register = register >> 8 ^ TABLE[usize::from(register as u8 ^ octet)];
        }
        prop_assert_eq!(!register, read(&packet).unwrap());
    }

    #[test]
    fn delta_over_any_changes_is_the_difference_of_the_icrcs(
        payload in prop::collection::vec(any::<u8>(), 4..200),
        edits in prop::collection::btree_map(8_usize..64, any::<u8>(), 0..20),
    ) {
        let old = packet(&payload);
        let mut new = old.clone();
        edits.iter().for_each(|(&at, &octet)| new[at] = octet);
        let changes: Vec<_> = edits
            .keys()
            .map(|&offset| Change { offset, old: &old[offset..=offset], new: &new[offset..=offset] })
            .collect();
        let covered = old.len() - LEN;
        let difference = compute(&old[..covered]).unwrap() ^ compute(&new[..covered]).unwrap();
        prop_assert_eq!(delta(covered, &changes), Ok(difference));
        let whole = [Change { offset: 0, old: &old[..covered], new: &new[..covered] }];
        prop_assert_eq!(delta(covered, &whole), Ok(difference));
    }

    #[test]
    fn header_delta_is_delta_at_the_end_of_the_bth(
        old: (Ipv6Addr, Ipv6Addr, u32), new: (Ipv6Addr, Ipv6Addr, u32),
    ) {
        let octets = |value: (Ipv6Addr, Ipv6Addr, u32)| {
            [&value.0.octets()[..], &value.1.octets(), &value.2.to_be_bytes()[1..]].concat()
        };
        let (a, b) = (octets(old), octets(new));
        let changes = [
            Change { offset: 8, old: &a[..32], new: &b[..32] },
            Change { offset: 53, old: &a[32..], new: &b[32..] },
        ];
        let header = header_delta(old.0, old.1, old.2, new.0, new.1, new.2);
        prop_assert_eq!(delta(HEADERS_LEN, &changes), Ok(header));
    }
}
