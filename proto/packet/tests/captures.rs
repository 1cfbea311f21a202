// SPDX-License-Identifier: Apache-2.0
//! Packets captured from Linux's rdma_rxe: every packet parses completely, its ICRC is valid, every header re-encodes
//! to the same octets, and the ICRC by difference equals the ICRC recomputed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use canopy_packet::aeth::Syndrome;
use canopy_packet::bth::Opcode;
use canopy_packet::frame::{Extensions, RoceBuilder, RoceFrame};
use canopy_packet::icrc::{self, Change};
use canopy_packet::reth::Reth;
use canopy_testkit::captures::{self, CAPTURES, packets};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::net::Ipv6Addr;
use std::sync::LazyLock;

static PACKETS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(captures::all_packets);

#[test]
fn every_capture_of_the_folder_is_tested() {
    let folder = captures::path("atomic");
    let files = std::fs::read_dir(folder.parent().unwrap()).unwrap();
    let names: BTreeSet<_> =
        files.map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    assert_eq!(names, CAPTURES.iter().map(|&name| name.to_owned()).collect());
}

#[test]
fn every_packet_parses_whole_verifies_and_re_encodes() {
    for name in CAPTURES {
        for (i, packet) in packets(name).iter().enumerate() {
            let frame = RoceFrame::parse(packet).unwrap_or_else(|e| panic!("{name} {i}: {e}"));
            assert_eq!(frame.packet(), packet, "{name} {i}");
            assert!(frame.icrc_is_valid(), "{name} {i}");
            assert_eq!(icrc::verify(packet), Ok(true), "{name} {i}");
            let mut headers = vec![0; packet.len()];
            frame.ipv6.emit(&mut headers).unwrap();
            frame.udp.emit(&mut headers[40..]).unwrap();
            frame.bth.emit(&mut headers[48..]).unwrap();
            let at = frame.extensions.emit(frame.bth.opcode, &mut headers[60..]).unwrap();
            assert_eq!(headers[..60 + at], packet[..60 + at], "{name} {i}");
            assert_eq!(60 + at + frame.payload.len() + frame.pad.len() + 4, packet.len());
            assert_eq!(RoceBuilder::from(&frame).build().unwrap(), *packet, "{name} {i}");
        }
    }
}

/// Expected content of the captures: a parser that misreads a field finds other content.
#[test]
fn each_capture_matches_its_table() {
    let seen = |name: &str| {
        let packets = packets(name);
        let frames = packets.iter().map(|packet| RoceFrame::parse(packet).unwrap());
        frames.map(|f| (f.bth.opcode, f.extensions.aeth.map(|a| a.syndrome), f.bth.pad_count)).collect::<Vec<_>>()
    };
    let opcodes = |name| seen(name).into_iter().map(|(op, ..)| op).collect::<BTreeSet<_>>();
    use Opcode as O;
    assert_eq!(opcodes("atomic"), [O::FETCH_ADD, O::ATOMIC_ACKNOWLEDGE].into());
    let read = [O::READ_RESPONSE_FIRST, O::READ_RESPONSE_MIDDLE, O::READ_RESPONSE_LAST];
    assert!(opcodes("read-1024").is_superset(&read.into()));
    let send = [O::SEND_FIRST, O::SEND_MIDDLE, O::SEND_LAST, O::ACKNOWLEDGE];
    for name in ["send-1024", "send-4096", "send-loss-1024"] {
        assert_eq!(opcodes(name), send.into(), "{name}");
    }
    assert!(opcodes("write-4096").is_superset(&[O::WRITE_FIRST, O::WRITE_LAST].into()));
    for (name, lossy) in [("send-1024", false), ("send-loss-1024", true), ("write-loss-1024", true)] {
        let naks = seen(name).iter().any(|&(_, aeth, _)| aeth == Some(Syndrome::NAK_PSN_SEQUENCE));
        assert_eq!(naks, lossy, "{name}");
    }
    assert!(seen("write-odd-1024").iter().any(|&(.., pad_count)| pad_count == 3));
}

#[derive(Debug, Clone, Copy)]
struct Rewrite {
    src: Ipv6Addr,
    dst: Ipv6Addr,
    qpn: u32,
    reth: Reth,
    /// Traffic class, flow label, hop limit, UDP checksum, resv8a: fields that the ICRC must not cover.
    masked: (u8, u32, u8, u16, u8),
}

fn rewrite() -> impl Strategy<Value = Rewrite> {
    let reth = any::<(u64, u32, u32)>().prop_map(|(va, rkey, dma_len)| Reth { va, rkey, dma_len });
    let masked = (any::<u8>(), 0_u32..1 << 20, any::<u8>(), any::<u16>(), any::<u8>());
    (any::<Ipv6Addr>(), any::<Ipv6Addr>(), 0_u32..1 << 24, reth, masked)
        .prop_map(|(src, dst, qpn, reth, masked)| Rewrite { src, dst, qpn, reth, masked })
}

impl Rewrite {
    /// The packet rewritten as an edge does, its ICRC fixed by difference.
    fn apply(&self, packet: &[u8]) -> Vec<u8> {
        let old = RoceFrame::parse(packet).unwrap();
        let mut new = old;
        (new.ipv6.src, new.ipv6.dst, new.bth.dest_qp) = (self.src, self.dst, self.qpn);
        (new.ipv6.traffic_class, new.ipv6.flow_label) = (self.masked.0, self.masked.1);
        (new.ipv6.hop_limit, new.udp.checksum) = (self.masked.2, self.masked.3);
        new.bth.resv8a = self.masked.4;
        let header = icrc::header_delta(
            old.ipv6.src,
            old.ipv6.dst,
            old.bth.dest_qp,
            new.ipv6.src,
            new.ipv6.dst,
            new.bth.dest_qp,
        );
        let mut difference = icrc::gf_mul(header, icrc::xpow8(old.octets_behind_bth()));
        let mut out = packet.to_vec();
        if let Some(reth) = &mut new.extensions.reth {
            *reth = self.reth;
            let mut octets = [0; Reth::LEN];
            reth.emit(&mut octets).unwrap();
            let change = Change { offset: 60, old: &packet[60..76], new: &octets };
            difference ^= icrc::delta(packet.len() - 4, &[change]).unwrap();
        }
        new.ipv6.emit(&mut out).unwrap();
        new.udp.emit(&mut out[40..]).unwrap();
        new.bth.emit(&mut out[48..]).unwrap();
        Extensions::emit(&new.extensions, new.bth.opcode, &mut out[60..]).unwrap();
        icrc::write(&mut out, icrc::read(packet).unwrap() ^ difference).unwrap();
        out
    }
}

/// ICRC in the packet XOR the valid ICRC.
fn error_of(packet: &[u8]) -> u32 {
    icrc::read(packet).unwrap() ^ icrc::compute(&packet[..packet.len() - 4]).unwrap()
}

#[test]
fn every_packet_rewritten_by_difference_verifies() {
    let rewrite = Rewrite {
        src: "fcfe::9".parse().unwrap(),
        dst: "2001:db8:ffff::1".parse().unwrap(),
        qpn: 0xab_cdef,
        reth: Reth { va: 0x7fff_1234_5678_9abc, rkey: 0xdead_beef, dma_len: 77 },
        masked: (3, 0xf_0f0f, 1, 0, 0x80),
    };
    for (i, packet) in PACKETS.iter().enumerate() {
        let new = rewrite.apply(packet);
        assert_ne!(new, *packet);
        assert_eq!(icrc::verify(&new), Ok(true), "packet {i}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_icrc_by_difference_is_the_icrc_recomputed(at: prop::sample::Index, rewrite in rewrite()) {
        let new = rewrite.apply(at.get::<Vec<u8>>(&PACKETS));
        prop_assert_eq!(icrc::verify(&new), Ok(true));
    }

    /// Payload and ICRC may be damaged anywhere: the same error must be present after the rewrite, so that the receiver
    /// still detects it. A recomputed ICRC would hide it.
    #[test]
    fn a_corrupt_packet_stays_corrupt_by_the_same_error(
        at: prop::sample::Index, place: prop::sample::Index, flip in 1_u8..=255, rewrite in rewrite(),
    ) {
        let mut packet = at.get(PACKETS.as_slice()).clone();
        let fixed = 60 + RoceFrame::parse(&packet).unwrap().extensions.wire_len();
        let place = fixed + place.index(packet.len() - fixed);
        packet[place] ^= flip;
        let error = error_of(&packet);
        prop_assert_ne!(error, 0);
        let new = rewrite.apply(&packet);
        prop_assert_eq!(error_of(&new), error);
        prop_assert_eq!(icrc::verify(&new), Ok(false));
    }
}
