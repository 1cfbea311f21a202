// SPDX-License-Identifier: Apache-2.0
//! Packets that are not Long-haul CNPs, and values without an encoding: each refused by the invalid field.

use super::*;
use crate::error::Problem;

fn body(change: impl FnOnce(&mut [u8; 12])) -> Result<LongHaulCnp, ParseError> {
    let mut octets = BODY;
    change(&mut octets);
    LongHaulCnp::parse(&octets)
}

/// The extensions with one octet changed and a valid checksum, so that the checksum is not the reason of the refusal.
fn extensions(change: &[(usize, u8)]) -> Vec<u8> {
    let mut octets = EXTENSIONS.to_vec();
    change.iter().for_each(|(at, octet)| octets[*at] = *octet);
    octets[2..4].fill(0);
    let checksum = Sum::default().add(&octets).checksum();
    octets[2..4].copy_from_slice(&checksum.to_be_bytes());
    octets
}

fn refused(octets: &[u8]) -> &'static str {
    ExtensionsView::parse(octets).map(|_| ()).unwrap_err().field
}

#[test]
fn every_limit_of_every_field_on_both_sides() {
    for (flags, at_most) in [(0x00, 0_u16), (0x40, u16::MAX), (0x80, 100), (0xc0, 100)] {
        let with = |parameter: u16| {
            body(|octets| {
                octets[1] = flags;
                octets[2..4].copy_from_slice(&parameter.to_be_bytes());
            })
        };
        assert!(with(0).is_ok() && with(at_most).is_ok(), "{flags:#x}");
        if let Some(over) = at_most.checked_add(1) {
            for parameter in [over, 0x100 + at_most, u16::MAX] {
                assert_eq!(with(parameter).unwrap_err().field, "Parameter", "{flags:#x} {parameter}");
            }
        }
    }
    assert_eq!(body(|o| o[4..8].copy_from_slice(&[0, 255, 255, 255])).unwrap().source_qp, 0xff_ffff);
    assert_eq!(body(|o| o[4] = 1).unwrap_err().field, "Source QP Number");
    assert_eq!(body(|o| o[0] = 255).unwrap().level, 255);
    let metric = |octets: [u8; 4]| body(|o| o[8..].copy_from_slice(&octets)).map(|cnp| cnp.metric);
    assert_eq!(metric([3, 0, 0, 100]), Ok(Metric::EcnMarkingRate(100)));
    for over in [[3, 0, 0, 101], [3, 0, 1, 0], [3, 1, 0, 0]] {
        assert_eq!(metric(over).unwrap_err().field, "Congestion Metric Value");
    }
    assert_eq!(metric([0, 255, 255, 255]), Ok(Metric::Unspecified(0xff_ffff)));
    assert_eq!(metric([2, 0, 0, 9]), Ok(Metric::QueueGrowthRate(9)));
    assert_eq!(metric([4, 0, 0x27, 0x10]), Ok(Metric::Rtt(10_000)));
    assert_eq!(metric([254, 0, 0, 7]), Ok(Metric::Other { metric_type: 254, value: 7 }));
}

#[test]
fn values_beyond_their_limits_are_not_emitted() {
    let other = |metric_type| Metric::Other { metric_type, value: 0 };
    for (cnp, field) in [
        (LongHaulCnp { action: Action::RateReduce { percent: 101 }, ..EXAMPLE }, "Parameter"),
        (LongHaulCnp { action: Action::Resume { percent: 255 }, ..EXAMPLE }, "Parameter"),
        (LongHaulCnp { source_qp: 0x100_0000, ..EXAMPLE }, "Source QP Number"),
        (LongHaulCnp { metric: Metric::QueueDepth(0x100_0000), ..EXAMPLE }, "Congestion Metric Value"),
        (LongHaulCnp { metric: Metric::EcnMarkingRate(101), ..EXAMPLE }, "Congestion Metric Value"),
        (LongHaulCnp { metric: other(4), ..EXAMPLE }, "Metric Type"),
        (LongHaulCnp { metric: other(0), ..EXAMPLE }, "Metric Type"),
    ] {
        assert_eq!(cnp.emit(&mut [0; 12]).unwrap_err().field, field, "{cnp:?}");
    }
    assert_eq!(EXAMPLE.emit(&mut [0; 11]).unwrap_err().field, "buffer");
    let emitted = |object: Object| extension::emit(&[object], &mut vec![0; 70_000]).map_err(|e| e.field);
    let other = |c_type| Object::Other { class_num: 247, c_type, payload: vec![] };
    assert_eq!([0, 1, 2, 3].map(|c_type| emitted(other(c_type))), [Err("C-Type"); 4]);
    assert_eq!(emitted(other(4)), Ok(8));
    assert_eq!(emitted(Object::Path(vec![0; 65_531])), Ok(4 + 65_536));
    assert_eq!(emitted(Object::Path(vec![0; 65_532])), Err("Length"));
    assert_eq!(extension::emit(&objects(), &mut [0; 31]).unwrap_err().field, "buffer");
    let long = roce(vec![Object::Path(vec![0; 65_531])]);
    assert_eq!(long.to_vec().unwrap_err().field, "Payload Length");
}

#[test]
fn every_length_from_0_to_64_is_judged_and_only_whole_ones_pass() {
    let long = |with: &[u8]| [with, &[0; 64]].concat();
    let (message, behind_udp) =
        (message(objects()).to_vec(node(), source()).unwrap(), roce(objects()).to_vec().unwrap()[48..].to_vec());
    for len in 0..=64 {
        let zeros = vec![0; len];
        assert!(Message::parse(node(), source(), &zeros).is_err());
        assert!(ExtensionsView::parse(&zeros).is_err() && RoceView::parse(&zeros).is_err());
        assert_eq!(LongHaulCnp::parse(&zeros).is_ok(), len >= 12, "{len}");
        assert_eq!(ExtensionsView::parse(&long(&EXTENSIONS)[..len]).is_ok(), len == 32, "{len}");
        // A message cut to `len` whose ICMPv6 checksum is valid: it must be refused for the missing octets.
        let mut cut = long(&message)[..len].to_vec();
        if len >= 4 {
            let checksum = icmpv6::checksum(node(), source(), &cut);
            cut[2..4].copy_from_slice(&checksum.to_be_bytes());
        }
        assert_eq!(Message::parse(node(), source(), &cut).is_ok(), len == 16 || len == 48, "{len}");
        let whole = long(&behind_udp);
        assert_eq!(RoceView::parse(&whole[..len]).is_ok(), len == 12 + 12 + 32, "{len}");
    }
    let plain = roce(vec![]).to_vec().unwrap();
    for len in 0..plain.len() {
        assert!(RocePacket::parse(&plain[..len]).is_err(), "{len}");
        assert_eq!(RoceView::parse(&plain[48..][..len.min(32)]).is_ok(), len == 28, "{len}");
    }
}

#[test]
fn extension_headers_are_refused_by_field() {
    assert!(ExtensionsView::parse(&extensions(&[])).is_ok());
    for bits in 0..16_u8 {
        let octet = bits << 4;
        let expected = if bits == 2 { None } else { Some("Version") };
        let found = ExtensionsView::parse(&extensions(&[(0, octet)])).map_err(|e| e.field).err();
        assert_eq!(found, expected, "version {bits}");
    }
    for bit in 0..12 {
        let reserved = (0x2000_u16 | 1 << bit).to_be_bytes();
        assert_eq!(refused(&extensions(&[(0, reserved[0]), (1, reserved[1])])), "Reserved", "bit {bit}");
    }
    assert_eq!(refused(&EXTENSIONS[..4]), "Checksum", "it covers other octets");
    assert_eq!(refused(&[0x20, 0, 0xdf, 0xff]), "Extension Object");
    for at in 4..32 {
        let mut damaged = EXTENSIONS;
        damaged[at] ^= 0x04;
        let error = ExtensionsView::parse(&damaged).map(|_| ()).unwrap_err();
        assert_eq!(error.field, "Checksum", "octet {at}");
        assert!(matches!(error.problem, Problem::Expected { found: 0xb3ab, .. }), "{error}");
    }
    let mut none = EXTENSIONS;
    none[2..4].fill(0);
    assert_eq!(ExtensionsView::parse(&none).unwrap().checksum(), 0, "the sender computed none");
    none[7] = 0;
    assert_eq!(refused(&none), "C-Type", "but the objects are checked all the same");
}

#[test]
fn objects_are_refused_by_field() {
    for length in 0..4 {
        assert_eq!(refused(&extensions(&[(5, length)])), "Length", "{length}");
    }
    // The last object: 5 octets and a pad of 3.
    for (length, field) in [([0, 9], "Length"), ([0, 12], "Length"), ([255, 255], "Length")] {
        assert_eq!(refused(&extensions(&[(24, length[0]), (25, length[1])])), field, "{length:?}");
    }
    assert_eq!(refused(&extensions(&[(25, 3)])), "Length");
    for at in [22, 23, 29, 30, 31] {
        assert_eq!(refused(&extensions(&[(at, 1)])), "Padding", "octet {at}");
    }
    assert_eq!(refused(&extensions(&[(7, 0)])), "C-Type");
    assert_eq!(refused(&extensions(&[(5, 11), (15, 0)])), "Timestamp Length");
    assert_eq!(refused(&extensions(&[(20, 0xff)])), "Device Identifier");
    let unknown = extensions(&[(6, 1)]);
    let first = ExtensionsView::parse(&unknown).unwrap().objects().next();
    assert_eq!(first, Some(ObjectView::Other { class_num: 1, c_type: 1, payload: &EXTENSIONS[8..16] }));
    let unassigned = extensions(&[(7, 9)]);
    let seen: Vec<_> = ExtensionsView::parse(&unassigned).unwrap().objects().collect();
    assert!(matches!(seen[0], ObjectView::Other { c_type: 9, .. }) && seen.len() == 3);
}

#[test]
fn an_error_names_the_octets_that_are_needed() {
    let problem = |octets: &[u8]| ExtensionsView::parse(octets).map(|_| ()).unwrap_err().problem;
    // A Timestamp has 4 octets of header and 8 of payload.
    assert_eq!(problem(&extensions(&[(5, 11), (15, 0)])), Problem::Expected { expected: 12, found: 11 });
    assert_eq!(problem(&extensions(&[(25, 9)])), Problem::Truncated { needed: 12, available: 8 });
    assert_eq!(problem(&extensions(&[(25, 3)])), Problem::OutOfRange { min: 4, max: 65_535, found: 3 });
    assert_eq!(problem(&extensions(&[(20, 0xff)])), Problem::Unsupported { found: 0xff });
    // From the BTH to the end of the 16 octets of a CNP.
    let plain = roce(vec![]).to_vec().unwrap();
    let error = RoceView::parse(&plain[48..75]).unwrap_err();
    assert_eq!((error.field, error.problem), ("length", Problem::Truncated { needed: 28, available: 27 }));
}

#[test]
fn icmpv6_messages_are_refused_by_field() {
    let good = message(objects()).to_vec(node(), source()).unwrap();
    let field = |octets: &[u8]| Message::parse(node(), source(), octets).unwrap_err().field;
    for at in 0..good.len() {
        let mut damaged = good.clone();
        damaged[at] ^= 0x20;
        let expected = ["Type", "Code"].get(at).unwrap_or(&"Checksum");
        assert_eq!(field(&damaged), *expected, "octet {at}");
    }
    assert_eq!(Message::parse(source(), "::1".parse().unwrap(), &good).unwrap_err().field, "Checksum");
}

#[test]
fn reserved_bits_of_action_flags_are_ignored() {
    for bits in 0..64 {
        assert_eq!(body(|octets| octets[1] |= bits), Ok(EXAMPLE), "{bits:#x}");
    }
}

/// The ICRC masks the octet of E, and a receiver may get a packet whose ICRC is valid for its changed octets: so every
/// bit that the draft fixes is checked.
#[test]
fn rocev2_packets_are_refused_by_field() {
    let good = roce(vec![]).to_vec().unwrap()[48..76].to_vec();
    assert!(RoceView::parse(&good).is_ok());
    let field = |at: usize, bit: u8| {
        let mut octets = good.clone();
        octets[at] ^= bit;
        RoceView::parse(&octets).map(|_| ()).unwrap_err().field
    };
    for bit in (0..8).map(|n| 1 << n) {
        assert_eq!(field(0, bit), "OpCode");
        assert_eq!(field(4, bit), "FECN, BECN, E and reserved");
        assert_eq!(field(8, bit), if bit == 0x80 { "Acknowledge Request" } else { "resv7" });
        (9..12).for_each(|at| assert_eq!(field(at, bit), "PSN"));
        (5..8).for_each(|at| assert_eq!(field(at, bit), "Source QP Number"));
        // After the body: no longer fill, so an Extension Header of another version, or with a reserved bit.
        let expected = if bit == 0x20 { "Checksum" } else { "Version" };
        let found = field(24, bit);
        assert!(found == expected || found == "Extension Object", "{found}");
    }
    for (bit, name) in [(0x80, "Solicited Event"), (0x40, "MigReq"), (0x30, "Pad Count"), (0x0f, "TVer")] {
        assert_eq!(field(1, bit), name);
    }
    let mut pkey = good.clone();
    pkey[2..4].copy_from_slice(&[0x80, 0x01]);
    assert_eq!(RoceView::parse(&pkey).unwrap().pkey(), 0x8001);
    let whole = roce(vec![]).to_vec().unwrap();
    let changed = [
        (6, "Next Header"),
        (42, "UDP Destination Port"),
        (45, "UDP Length"),
        (60, "ICRC"),
        (61, "Parameter"),
        (79, "ICRC"),
    ];
    for (at, name) in changed {
        let mut octets = whole.clone();
        octets[at] ^= 0x80;
        assert_eq!(RocePacket::parse(&octets).unwrap_err().field, name, "octet {at}");
    }
}
