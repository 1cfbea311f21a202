// SPDX-License-Identifier: Apache-2.0
//! SRHs with End.MT, PadN, HMAC and unknown TLVs against scapy, tshark and the Linux kernel.

use super::sample::{address, roce, sample};
use super::{hex, lines, run, scapy, tshark};
use canopy_packet::end_mt::{EndMt, MAX_RECEIVERS};
use canopy_packet::frame::RoceBuilder;
use canopy_packet::ipv6::{Ipv6, NEXT_HEADER_IPV6, NEXT_HEADER_ROUTING};
use canopy_packet::srh::{Hmac, Srh, Tlv};
use proptest::collection::vec;
use proptest::prelude::*;

fn tlv() -> impl Strategy<Value = Tlv> {
    let receivers = vec((address(), 0_u32..1 << 24), 1..=MAX_RECEIVERS);
    let end_mt = (address(), receivers).prop_map(|(edge, receivers)| Tlv::EndMt(EndMt { edge, receivers }));
    let other = (200_u8..210, vec(any::<u8>(), 0..20)).prop_map(|(tlv_type, value)| Tlv::Other { tlv_type, value });
    prop_oneof![3 => end_mt, 1 => other]
}

prop_compose! {
    fn srh()(
        segments in vec(address(), 1..5),
        left: prop::sample::Index,
        tag: u16,
        tlvs in vec(tlv(), 0..4),
        hmac in prop::option::of((any::<u32>(), vec(any::<u8>(), 32))),
    ) -> Srh {
        let segments_left = left.index(segments.len()) as u8;
        let hmac = hmac.map(|(key_id, hmac)| Hmac { d: false, key_id, hmac });
        Srh { next_header: NEXT_HEADER_IPV6, segments_left, flags: 0, tag, segments, tlvs, hmac }
    }
}

/// The TLVs of an encoded SRH one by one, using only Type and Length.
fn tlvs(srh: &Srh, bytes: &[u8]) -> Vec<String> {
    let mut rest = &bytes[8 + 16 * srh.segments.len()..];
    let mut tlvs = Vec::new();
    while let [_, length, ..] = rest {
        let (tlv, behind) = rest.split_at(2 + usize::from(*length));
        tlvs.push(hex(tlv));
        rest = behind;
    }
    assert!(rest.is_empty());
    tlvs
}

#[test]
fn scapy_walks_the_same_tlvs() {
    let samples = sample(200, srh());
    let encoded: Vec<_> = samples.iter().map(|srh| srh.to_vec().unwrap()).collect();
    let answers = scapy("srh", &encoded.iter().map(|srh| hex(srh)).collect::<Vec<_>>());
    for ((srh, bytes), answer) in samples.iter().zip(&encoded).zip(answers) {
        let segments: Vec<_> = srh.segments.iter().map(ToString::to_string).collect();
        let last_entry = srh.segments.len() - 1;
        let fixed = format!("41 {} {last_entry} {} {}", srh.segments_left, srh.tag, segments.join(","));
        assert_eq!(answer, [vec![fixed], tlvs(srh, bytes)].concat().join(" "));
    }
}

fn kernel(srhs: &[Vec<u8>]) -> Vec<String> {
    let input: Vec<_> = srhs.iter().map(|srh| hex(srh)).collect();
    let script = include_str!("linux_srh.py");
    let answer = run("python3", &["-c", script], "python3", lines(&input));
    answer.lines().map(str::to_owned).collect()
}

#[test]
fn linux_accepts_every_srh() {
    let encoded: Vec<_> = sample(300, srh()).iter().map(|srh| srh.to_vec().unwrap()).collect();
    for (srh, verdict) in encoded.iter().zip(kernel(&encoded)) {
        assert_eq!(verdict, "accepted", "{}", hex(srh));
    }
}

/// Shows that the kernel's check can fail: on what this crate refuses too, and on Pad1, which it must never emit.
#[test]
fn linux_refuses_what_is_malformed_and_pad1() {
    let tlv = Tlv::Other { tlv_type: 200, value: vec![0; 5] };
    let one = Srh { tlvs: vec![tlv], hmac: None, ..sample(1, srh()).remove(0) };
    let good = one.to_vec().unwrap();
    let list = 8 + 16 * one.segments.len();
    let mut length = good.clone();
    length[list + 1] = 255;
    assert!(Srh::parse(&length).is_err());
    let mut left = good.clone();
    left[3] = 9;
    assert!(Srh::parse(&left).is_err());
    let mut pad1 = good[..list + 8].to_vec();
    pad1[1] -= 1;
    pad1[list + 7] = 0;
    assert_eq!(Srh::parse(&pad1).as_ref(), Ok(&one));
    assert_eq!(kernel(&[good, length, left, pad1]), ["accepted", "EINVAL", "EINVAL", "EINVAL"]);
}

/// Whole packets as a headend sends them: outer IPv6, SRH, inner RoCEv2.
#[test]
fn tshark_reads_encapsulated_packets_without_error() {
    let srhs = sample(100, srh());
    let mut packets: Vec<_> = srhs.iter().zip(sample(100, roce())).map(packet).collect();
    let mut damaged = packets[0].clone();
    damaged[40 + 3] = 200; // Segments Left
    packets.push(damaged);
    let fields = [
        "_ws.malformed",
        "_ws.expert.message",
        "ipv6.routing.segleft",
        "ipv6.routing.srh.tag",
        "ipv6.routing.srh.addr",
        "ipv6.dst",
        "infiniband.bth.opcode",
    ];
    let mut rows = tshark(&packets, &fields);
    let error = rows.pop().unwrap();
    assert!(error[1].contains("segments left"), "damage goes unnoticed: {error:?}");
    for ((srh, packet), row) in srhs.iter().zip(&packets).zip(rows) {
        let segments: Vec<_> = srh.segments.iter().map(ToString::to_string).collect();
        let inner = &packet[40 + srh.wire_len()..];
        assert_eq!(row[..2], ["", ""], "{row:?}");
        assert_eq!(row[2], srh.segments_left.to_string());
        assert_eq!(row[3], format!("{:04x}", srh.tag));
        assert_eq!(row[4], segments.join(","));
        assert!(row[5].ends_with(&Ipv6::parse(inner).unwrap().dst.to_string()), "{row:?}");
        assert_eq!(row[6], inner[48].to_string());
    }
}

fn packet((srh, (builder, payload)): (&Srh, (RoceBuilder<'static>, Vec<u8>))) -> Vec<u8> {
    let inner = RoceBuilder { payload: &payload, ..builder }.build().unwrap();
    let srh_octets = srh.to_vec().unwrap();
    let outer = Ipv6 {
        traffic_class: 0,
        flow_label: 0,
        payload_len: (srh_octets.len() + inner.len()) as u16,
        next_header: NEXT_HEADER_ROUTING,
        hop_limit: 64,
        src: "fcff:0:0:1::1".parse().unwrap(),
        dst: srh.segments[usize::from(srh.segments_left)],
    };
    let mut packet = vec![0; Ipv6::LEN];
    outer.emit(&mut packet).unwrap();
    [packet, srh_octets, inner].concat()
}
