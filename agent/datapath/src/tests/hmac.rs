// SPDX-License-Identifier: Apache-2.0
//! The SRH HMAC TLV packet by packet: what it covers is compared, what it does not cover is not, and a rotation drops nothing.

use canopy_model::srh_hmac::{FlagBit, HmacKey, HmacKeyId, HmacSecret, SrhHmac};
use canopy_packet::srh::{Hmac, Srh};

use super::*;
use crate::srh_hmac;

/// Offsets in an encapsulated packet.
const SOURCE: usize = 8;
const SRH: usize = 40;
const LIST: usize = SRH + 8;
/// Octets of the HMAC TLV.
const TLV: usize = 40;

pub(crate) fn key(id: u32, octet: u8, flag_bit: FlagBit) -> HmacKey {
    HmacKey { id: HmacKeyId::new("id", id).unwrap(), secret: HmacSecret::new([octet; 32]), flag_bit }
}

pub(crate) fn keys(keys: &[HmacKey], sending: usize, required: bool) -> Option<SrhHmac> {
    Some(SrhHmac::new(keys.to_vec(), keys[sending].id, required).unwrap())
}

fn a() -> HmacKey {
    key(0x0102_0304, 7, FlagBit::Rfc8754)
}

fn b() -> HmacKey {
    key(0x0102_0305, 8, FlagBit::Linux)
}

fn end_mt_packet(psn: u32) -> Vec<u8> {
    encapsulated(&data(Opcode::SEND_ONLY, psn, b"abc"), end_mt(), list(0..2), 0)
}

/// Where the last TLV of the SRH begins.
fn tlv_at(packet: &[u8]) -> usize {
    SRH + SrhView::parse(&packet[SRH..]).unwrap().wire_len() - TLV
}

/// The packet with one bit inverted.
fn flipped(packet: &[u8], at: usize, bit: u8) -> Vec<u8> {
    let mut p = packet.to_vec();
    p[at] ^= 1 << bit;
    p
}

/// The packet is dropped for this reason alone, and changes nothing.
#[track_caller]
fn refused(bed: &mut Testbed, reason: &str, packet: &[u8], what: &str) {
    let (before, state) = (bed.drops(), bed.state_octets());
    assert_eq!(bed.run("u0", packet).0, SHOT, "{what}");
    let mut wanted = before;
    *wanted.entry(reason.to_owned()).or_default() += 1;
    assert_eq!((bed.drops(), bed.state_octets() == state), (wanted, true), "{what}");
}

fn bits(octets: std::ops::Range<usize>) -> impl Iterator<Item = (usize, u8)> {
    octets.flat_map(|at| (0..8).map(move |bit| (at, bit)))
}

#[test]
fn every_bit_that_the_hmac_covers_is_compared_where_receivers_are() {
    for key in [a(), b()] {
        let mut bed = Testbed::new(&Shape { receivers: 2, hmac: keys(&[a(), b()], 0, true), ..Shape::default() });
        let good = signed(&end_mt_packet(100), &key);
        let tlv = tlv_at(&good);
        // Before and after: what differs below is the bit alone.
        assert_eq!(bed.run("u0", &good).0, REDIRECT);
        let srh_len = tlv + TLV - SRH;
        for (at, bit) in bits(SOURCE..SOURCE + 16) {
            refused(&mut bed, "hmac_mismatch", &flipped(&good, at, bit), &format!("source {at} {bit}"));
        }
        for bit in 0..8 {
            let packet = flipped(&good, SRH + 4, bit);
            let last = usize::from(packet[SRH + 4]);
            let impossible = last == 0 || 8 + 16 * (last + 1) > srh_len;
            let reason = if impossible { "srh_malformed" } else { "hmac_mismatch" };
            refused(&mut bed, reason, &packet, &format!("last entry {last}"));
            refused(&mut bed, "hmac_mismatch", &flipped(&good, SRH + 5, bit), &format!("flags {bit}"));
        }
        // The first segment names the group; without it there is none whose HMAC it could be.
        for (at, bit) in bits(LIST..LIST + 16) {
            refused(&mut bed, "group_unknown", &flipped(&good, at, bit), &format!("segment 0 {at} {bit}"));
        }
        for (at, bit) in bits(LIST + 16..LIST + 32) {
            refused(&mut bed, "hmac_mismatch", &flipped(&good, at, bit), &format!("segment 1 {at} {bit}"));
        }
        for (at, bit) in bits(tlv..tlv + 2) {
            // Another length is no TLV that ends with the SRH.
            refused(&mut bed, "hmac_missing", &flipped(&good, at, bit), &format!("type or length {at} {bit}"));
        }
        for (at, bit) in bits(tlv + 4..tlv + 8) {
            let packet = flipped(&good, at, bit);
            let other = if at == tlv + 7 && bit == 0 { "hmac_mismatch" } else { "hmac_key" };
            refused(&mut bed, other, &packet, &format!("key id {at} {bit}"));
        }
        for (at, bit) in bits(tlv + 8..tlv + TLV) {
            refused(&mut bed, "hmac_mismatch", &flipped(&good, at, bit), &format!("hmac {at} {bit}"));
        }
        assert_eq!(bed.run("u0", &good).0, REDIRECT);
        assert_eq!(bed.telemetry().data_packets, 2);
    }
}

#[test]
fn every_bit_that_the_hmac_covers_is_compared_where_copies_are_made() {
    let mut bed = Testbed::new(&Shape { receivers: 0, children: 1, hmac: keys(&[a()], 0, true), ..Shape::default() });
    let good = signed(&encapsulated(&data(Opcode::SEND_ONLY, 100, b"abc"), replication(), list(0..2), 0), &a());
    let tlv = tlv_at(&good);
    assert_eq!(bed.run("u0", &good).0, REDIRECT);
    let covered = [SOURCE..SOURCE + 16, SRH + 5..SRH + 6, LIST..LIST + 32, tlv + 8..tlv + TLV];
    for (at, bit) in covered.into_iter().flat_map(bits) {
        refused(&mut bed, "hmac_mismatch", &flipped(&good, at, bit), &format!("{at} {bit}"));
    }
    for (at, bit) in bits(tlv + 4..tlv + 8) {
        refused(&mut bed, "hmac_key", &flipped(&good, at, bit), &format!("key id {at} {bit}"));
    }
    assert_eq!(bed.run("u0", &good).0, REDIRECT);
    assert_eq!(bed.telemetry().data_packets, 2);
}

/// Decisions 2.7: the HMAC does not cover them.
#[test]
fn what_the_hmac_does_not_cover_is_checked_without_it() {
    let mut bed = Testbed::new(&Shape { receivers: 2, hmac: keys(&[a()], 0, true), ..Shape::default() });
    let good = signed(&end_mt_packet(100), &a());
    let tlv = tlv_at(&good);
    // The tag, and the D bit and the reserved bits of the TLV.
    for (at, bit) in [SRH + 6..SRH + 8, tlv + 2..tlv + 4].into_iter().flat_map(bits) {
        assert_eq!(bed.run("u0", &flipped(&good, at, bit)).0, REDIRECT, "{at} {bit}");
    }
    // Segments Left: one position only is a group's.
    for (bit, reason) in [(0, "no_srh"), (1, "srh_malformed"), (7, "srh_malformed")] {
        refused(&mut bed, reason, &flipped(&good, SRH + 3, bit), &format!("segments left {bit}"));
    }
    // A receiver of the list: only provisioned ones are served, whatever the HMAC is.
    let receiver = LIST + 32 + 24;
    refused(&mut bed, "tlv_unprovisioned", &flipped(&good, receiver + 15, 7), "address of a receiver");
    refused(&mut bed, "tlv_unprovisioned", &flipped(&good, receiver + 16, 0), "QPN of a receiver");
    // A list with fewer receivers passes: the HMAC does not cover it.
    let fewer = encapsulated(&data(Opcode::SEND_ONLY, 101, b"abc"), end_mt(), list(1..2), 0);
    let sent = data(Opcode::SEND_ONLY, 101, b"abc");
    let (action, out, _) = bed.run("u0", &signed(&fewer, &a()));
    assert_eq!((action, out), (REDIRECT, copy_for(1, &sent)));
}

#[test]
fn a_packet_needs_the_tlv_in_its_place_and_with_32_octets() {
    let mut bed = Testbed::new(&Shape { receivers: 2, hmac: keys(&[a()], 0, true), ..Shape::default() });
    let plain = end_mt_packet(100);
    refused(&mut bed, "hmac_missing", &plain, "no TLV");
    refused(
        &mut bed,
        "hmac_missing",
        &encapsulated(&data(Opcode::SEND_ONLY, 100, b"abc"), end_mt(), vec![], 0),
        "bare",
    );
    for len in [8, 16, 24] {
        let hmac = srh_hmac::tests::vectors()[0].3[..len].to_vec();
        let short = with_tlv(&plain, 0, Some(Hmac { d: true, key_id: a().id.get(), hmac }));
        refused(&mut bed, "hmac_missing", &short, &format!("{len} octets"));
    }
    refused(&mut bed, "hmac_key", &signed(&plain, &b()), "another key");
    refused(&mut bed, "hmac_mismatch", &signed(&plain, &key(a().id.get(), 9, FlagBit::Rfc8754)), "another secret");
    refused(&mut bed, "hmac_mismatch", &signed(&plain, &key(a().id.get(), 7, FlagBit::Linux)), "another flag bit");
    let zero = with_tlv(&plain, 0, Some(Hmac { d: true, key_id: 0, hmac: vec![0; 32] }));
    refused(&mut bed, "hmac_key", &zero, "the place of a key that there is not");
    assert_eq!(bed.run("u0", &signed(&plain, &a())).0, REDIRECT);
}

#[test]
fn a_tlv_that_is_not_required_is_ignored() {
    for hmac in [None, keys(&[a()], 0, false)] {
        let mut bed = Testbed::new(&Shape { receivers: 1, hmac, ..Shape::default() });
        assert!(bed.datapath.bpf.hmacs().keys().is_empty());
        let packet = |psn| encapsulated(&data(Opcode::SEND_ONLY, psn, b"abc"), end_mt(), list(0..1), 0);
        for packet in [packet(100), signed(&packet(101), &b())] {
            assert_eq!(bed.run("u0", &packet).0, REDIRECT);
        }
        assert!(bed.drops().is_empty());
    }
}

#[test]
fn the_headend_sends_what_another_implementation_computes() {
    for (flag_bit, line) in [(FlagBit::Rfc8754, 0), (FlagBit::Linux, 1)] {
        let (key, source, segments, hmac) = srh_hmac::tests::vectors().swap_remove(line);
        assert_eq!(key.flag_bit, flag_bit);
        let shape = Shape { receivers: 0, children: 1, headend: true, ..Shape::default() };
        let without = Testbed::new(&shape).run("u0", &data(Opcode::SEND_ONLY, 100, b"abc")).1;
        // Whether it is required is not the headend's business.
        for required in [false, true] {
            let bed = Testbed::new(&Shape { hmac: keys(std::slice::from_ref(&key), 0, required), ..shape.clone() });
            let (action, out, _) = bed.run("u0", &data(Opcode::SEND_ONLY, 100, b"abc"));
            let srh = Srh::parse(&out[SRH..]).unwrap();
            assert_eq!((action, Ipv6::parse(&out).unwrap().src, &srh.segments), (REDIRECT, source, &segments));
            let tlv = Hmac { d: true, key_id: key.id.get(), hmac: hmac.to_vec() };
            assert_eq!(out, with_tlv(&without, flag_bit.srh_flags(), Some(tlv)), "the rest is as without a TLV");
            assert_eq!(tlv_at(&out) + TLV, out.len() - data(Opcode::SEND_ONLY, 100, b"abc").len());
        }
    }
}

#[test]
fn ip_multicast_packets_are_signed_and_compared_too() {
    let group = group_address();
    let shape = Shape { receivers: 0, children: 1, headend: true, multicast: true, ..Shape::default() };
    let bed = Testbed::new(&Shape { hmac: keys(&[a()], 0, true), ..shape });
    let (_, out, _) = bed.run("u0", &data(Opcode::SEND_ONLY, 100, b"abc"));
    let srh = Srh::parse(&out[SRH..]).unwrap();
    let hmac = srh_hmac::hmac(&a(), plan().node_address(node(1)), &[proxy(), group]).to_vec();
    assert_eq!(
        srh.hmac,
        Some(Hmac { d: false, key_id: a().id.get(), hmac }),
        "the Destination Address stays the active segment"
    );
    drop(bed);

    let mut edge =
        Testbed::new(&Shape { receivers: 1, multicast: true, hmac: keys(&[a()], 0, true), ..Shape::default() });
    let sent = data(Opcode::SEND_ONLY, 100, b"abc");
    // The test's packet has the Replication-SID of a tree as its second segment.
    let other = encapsulated(&sent, group, list(0..1), 0);
    refused(&mut edge, "hmac_mismatch", &signed(&other, &a()), "signed, but another segment list");
    let mut right = other;
    right[LIST + 16..LIST + 32].copy_from_slice(&group.octets());
    assert_eq!(edge.run("u0", &signed(&right, &a())).1, copy_for(0, &sent));
}

/// The steps of a rotation, in any order in which the nodes of a domain can do them.
#[test]
fn a_rotation_drops_nothing_and_the_former_key_is_refused_afterwards() {
    let mut edge = Testbed::new(&Shape { receivers: 1, hmac: keys(&[a()], 0, true), ..Shape::default() });
    let mut psn = 100;
    let mut send = |bed: &Testbed, key: &HmacKey| {
        psn += 1;
        let packet = encapsulated(&data(Opcode::SEND_ONLY, psn, b"abc"), end_mt(), list(0..1), 0);
        bed.run("u0", &signed(&packet, key)).0
    };
    assert_eq!(send(&edge, &a()), REDIRECT);
    let state = edge.state().data_packets;
    let step = |edge: &mut Testbed, hmac: Option<SrhHmac>| {
        assert_eq!(edge.reconcile(|s| s.base_mut().hmac = hmac), []);
        let differences = edge.reconcile(|_| ());
        assert_eq!(differences, []);
    };
    step(&mut edge, keys(&[a(), b()], 0, true));
    for key in [a(), b(), a()] {
        assert_eq!(send(&edge, &key), REDIRECT);
    }
    step(&mut edge, keys(&[a(), b()], 1, true));
    for key in [a(), b()] {
        assert_eq!(send(&edge, &key), REDIRECT);
    }
    assert!(edge.drops().is_empty(), "{:?}", edge.drops());
    step(&mut edge, keys(&[b()], 0, true));
    assert_eq!((send(&edge, &b()), send(&edge, &a())), (REDIRECT, SHOT));
    assert_eq!(edge.drops(), [("hmac_key".to_owned(), 1)].into());
    assert_eq!(edge.state().data_packets, state + 6, "the group's state continued");
    step(&mut edge, None);
    assert!(edge.datapath.bpf.hmacs().keys().is_empty());
}

#[test]
fn the_headend_changes_its_key_between_two_packets() {
    let mut bed = Testbed::new(&Shape {
        receivers: 0,
        children: 1,
        headend: true,
        hmac: keys(&[a(), b()], 0, true),
        ..Shape::default()
    });
    let sent_with = |bed: &Testbed, psn| {
        let (_, out, _) = bed.run("u0", &data(Opcode::SEND_ONLY, psn, b"abc"));
        let srh = Srh::parse(&out[SRH..]).unwrap();
        (srh.flags, srh.hmac.map(|hmac| hmac.key_id))
    };
    assert_eq!(sent_with(&bed, 100), (0, Some(a().id.get())));
    assert_eq!(bed.reconcile(|s| s.base_mut().hmac = keys(&[a(), b()], 1, true)), []);
    assert_eq!(sent_with(&bed, 101), (8, Some(b().id.get())));
    assert_eq!(bed.reconcile(|s| s.base_mut().hmac = None), []);
    assert_eq!(sent_with(&bed, 102), (0, None));
}

#[test]
fn an_entry_that_disappears_is_restored_and_nothing_passes_without_it() {
    let mut bed = Testbed::new(&Shape { receivers: 1, hmac: keys(&[a()], 0, true), ..Shape::default() });
    let packet = signed(&encapsulated(&data(Opcode::SEND_ONLY, 100, b"abc"), end_mt(), list(0..1), 0), &a());
    bed.datapath.bpf.hmacs().delete(&bed.group_id()).unwrap();
    refused(&mut bed, "hmac_key", &packet, "no entry");
    assert_eq!(bed.reconcile(|_| ()), []);
    assert_eq!(bed.run("u0", &packet).0, REDIRECT);
    // A group that is gone leaves none.
    assert_eq!(bed.reconcile(|s| s.groups = Default::default()), []);
    assert!(bed.datapath.bpf.hmacs().keys().is_empty());
}

#[test]
fn a_group_whose_headend_is_not_known_is_an_error_and_not_a_hole() {
    let mut bed = Testbed::new(&Shape { receivers: 1, ..Shape::default() });
    let errors = bed.reconcile(|s| {
        s.base_mut().hmac = keys(&[a()], 0, true);
        s.groups.for_each_mut(|g| g.headend_address = None);
    });
    assert_eq!(errors.len(), 1);
    assert!(errors[0].detail.contains("its headend is not known"), "{errors:?}");
}
