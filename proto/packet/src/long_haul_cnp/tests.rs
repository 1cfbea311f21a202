// SPDX-License-Identifier: Apache-2.0

use super::extension::{ExtensionsView, Object, ObjectView};
use super::icmp::{Message, MessageView};
use super::roce::{RocePacket, RoceView};
use super::*;
use crate::checksum::Sum;
use crate::{icmpv6, icrc};
use core::net::Ipv6Addr;
use std::vec;
use std::vec::Vec;

mod malformed;
mod random;

/// Section 7, step 4: 130 MB of queue, level 180, reduce QP 100 by 30 %.
const EXAMPLE: LongHaulCnp = LongHaulCnp {
    level: 180,
    action: Action::RateReduce { percent: 30 },
    source_qp: 100,
    metric: Metric::QueueDepth(130_000),
};

/// The example, octet by octet from the figure of section 6.1.
const BODY: [u8; 12] = [
    0xb4, // Congestion Level 180
    0x80, // Action Flags: 10, Rate Reduce
    0x00, 0x1e, // Parameter 30
    0x00, 0x00, 0x00, 0x64, // Source QP Number 100
    0x01, // Metric Type: queue depth in kilobytes
    0x01, 0xfb, 0xd0, // 130000
];

/// One object of each kind, the last two with pads of 2 and 3 octets. The words sum to 4_4c50, which folds to 4c54; its
/// complement is b3ab.
const EXTENSIONS: [u8; 32] = [
    0x20, 0x00, 0xb3, 0xab, // Version 2, Checksum
    0x00, 0x0c, 247, 1, // Timestamp
    0xe9, 0x00, 0x00, 0x01, 0x80, 0x00, 0x00, 0x00, // 0x80000000: half a second
    0x00, 0x06, 247, 2, // Device Identifier
    0x6e, 0x31, 0x00, 0x00, // "n1"
    0x00, 0x05, 247, 3, // Path Identifier
    0x70, 0x00, 0x00, 0x00,
];

fn node() -> Ipv6Addr {
    "fcff:0:0:1::1".parse().unwrap()
}

fn source() -> Ipv6Addr {
    "fd00:1::1".parse().unwrap()
}

fn objects() -> Vec<Object> {
    vec![Object::Timestamp(0xe900_0001_8000_0000), Object::Device("n1".into()), Object::Path(vec![0x70])]
}

fn message(objects: Vec<Object>) -> Message {
    Message { cnp: EXAMPLE, objects }
}

fn roce(objects: Vec<Object>) -> RocePacket {
    let (src, dst) = (node(), source());
    let (traffic_class, hop_limit, src_port, pkey) = (0, 64, 0xc000, 0xffff);
    RocePacket { traffic_class, hop_limit, src, dst, src_port, pkey, cnp: EXAMPLE, objects }
}

#[test]
fn the_drafts_example_is_that_of_the_figure_in_icmpv6() {
    // fd01 + fd02 (addresses) + 0010 (length) + 003a (next header) + c800 + b480 + 001e + 0064 + 0101 + fbd0 = 4_7420,
    // folded 7424, complement 8bdb.
    let expected = [&[200, 0, 0x8b, 0xdb][..], &BODY].concat();
    assert_eq!(message(vec![]).to_vec(node(), source()).unwrap(), expected);
    assert_eq!(Message::parse(node(), source(), &expected), Ok(message(vec![])));
    assert!(MessageView::parse(node(), source(), &expected).unwrap().extensions().is_none());
    let mut out = [0xaa; 13];
    EXAMPLE.emit(&mut out).unwrap();
    assert_eq!((&out[..12], out[12]), (&BODY[..], 0xaa));
    assert_eq!(LongHaulCnpView::parse(&out).unwrap().payload(), [0xaa]);
}

#[test]
fn every_object_is_that_of_the_figure_in_icmpv6() {
    // 0020 more of length, and the extensions, which sum to zero (ffff): 8bdb - 0020 = 8bbb.
    let expected = [&[200, 0, 0x8b, 0xbb][..], &BODY, &EXTENSIONS].concat();
    assert_eq!(message(objects()).to_vec(node(), source()).unwrap(), expected);
    assert_eq!(Message::parse(node(), source(), &expected), Ok(message(objects())));
    let seen: Vec<_> = ExtensionsView::parse(&EXTENSIONS).unwrap().objects().collect();
    assert_eq!(seen, [ObjectView::Timestamp(0xe900_0001_8000_0000), ObjectView::Device("n1"), ObjectView::Path(b"p")]);
}

/// From the figures of section 6.2; the ICRCs were computed independently of this crate (zlib's CRC-32 over the masked
/// octets).
#[test]
fn the_drafts_example_is_that_of_the_figure_in_rocev2() {
    let bth = [
        0x81, 0x00, 0xff, 0xff, // OpCode, SE M Pad TVer, P_Key
        0x60, 0x00, 0x00, 0x64, // BECN and E, Destination QP 100
        0x00, 0x00, 0x00, 0x00, // A, PSN
    ];
    let plain = [&bth[..], &BODY, &[0, 0, 0, 0]].concat();
    let extended = [&bth[..], &BODY, &EXTENSIONS].concat();
    for (packet, behind_udp, crc) in
        [(roce(vec![]), plain, [0xfc, 0xe4, 0x3d, 0x70]), (roce(objects()), extended, [0x54, 0xcc, 0x17, 0x79])]
    {
        let built = packet.to_vec().unwrap();
        assert_eq!(built[48..], [&behind_udp[..], &crc].concat());
        assert!(icrc::verify(&built).unwrap());
        assert_eq!(RocePacket::parse(&built), Ok(packet));
    }
    // Never shorter than a CNP: BTH, 16 reserved octets, ICRC.
    assert_eq!(roce(vec![]).to_vec().unwrap().len(), 40 + 8 + 12 + 16 + 4);
}

#[test]
fn a_resume_of_the_example_and_the_other_actions_have_their_bits() {
    let of = |action| {
        let mut out = [0; 12];
        LongHaulCnp { action, ..EXAMPLE }.emit(&mut out).unwrap();
        [out[1], out[2], out[3]]
    };
    assert_eq!(of(Action::Notify), [0x00, 0, 0]);
    assert_eq!(of(Action::Pause { micros: 0x1234 }), [0x40, 0x12, 0x34]);
    assert_eq!(of(Action::RateReduce { percent: 100 }), [0x80, 0, 100]);
    assert_eq!(of(Action::Resume { percent: 50 }), [0xc0, 0, 50]);
    assert_eq!(of(Action::Resume { percent: 0 }), [0xc0, 0, 0]);
}

#[test]
fn a_node_that_discloses_nothing_writes_zeros() {
    let mut out = [0xff; 12];
    LongHaulCnp { metric: Metric::UNDISCLOSED, ..EXAMPLE }.emit(&mut out).unwrap();
    assert_eq!(out[8..], [0, 0, 0, 0]);
    assert_eq!(LongHaulCnp::parse(&out).unwrap().metric, Metric::Unspecified(0));
}

/// Where the sum is zero, which would mean that there is no checksum, 0xffff is written, the same number.
#[test]
fn a_checksum_is_never_zero_by_accident() {
    // 2000 + 0008 + f703 + x = ffff (one's complement) for a payload x of e8f4 - the rest.
    let others = Sum::default().add(&[0x20, 0, 0, 0, 0, 8, 247, 3]).checksum();
    let object = Object::Path([&others.to_be_bytes()[..], &[0, 0]].concat());
    let mut out = [0; 12];
    assert_eq!(extension::emit(&[object], &mut out), Ok(12));
    assert_eq!(out[2..4], [0xff, 0xff]);
    assert_eq!(ExtensionsView::parse(&out).unwrap().checksum(), 0xffff);
}
