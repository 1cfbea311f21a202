// SPDX-License-Identifier: Apache-2.0
//! No parser panics on any input, and every accepted input can be encoded again.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use canopy_packet::aeth::Aeth;
use canopy_packet::atomic_eth::{AtomicAckEth, AtomicEth};
use canopy_packet::bth::Bth;
use canopy_packet::cnp::Cnp;
use canopy_packet::end_mt::EndMt;
use canopy_packet::frame::{RoceBuilder, RoceFrame};
use canopy_packet::icrc;
use canopy_packet::ieth::Ieth;
use canopy_packet::immdt::ImmDt;
use canopy_packet::ipv6::Ipv6;
use canopy_packet::reth::Reth;
use canopy_packet::srh::{HmacView, Srh, SrhView};
use canopy_packet::udp::Udp;
use canopy_testkit::captures;
use proptest::prelude::*;
use std::sync::LazyLock;

static PACKETS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(captures::all_packets);

fn parse_everything(bytes: &[u8]) {
    let fixed = [
        (Ipv6::LEN, Ipv6::parse(bytes).is_ok()),
        (Udp::LEN, Udp::parse(bytes).is_ok()),
        (Bth::LEN, Bth::parse(bytes).is_ok()),
        (Aeth::LEN, Aeth::parse(bytes).is_ok()),
        (Reth::LEN, Reth::parse(bytes).is_ok()),
        (ImmDt::LEN, ImmDt::parse(bytes).is_ok()),
        (Ieth::LEN, Ieth::parse(bytes).is_ok()),
        (AtomicEth::LEN, AtomicEth::parse(bytes).is_ok()),
        (AtomicAckEth::LEN, AtomicAckEth::parse(bytes).is_ok()),
        (Cnp::LEN, Cnp::parse(bytes).is_ok()),
    ];
    for (len, accepted) in fixed {
        assert!(!accepted || bytes.len() >= len, "{len} octets");
    }
    let _ = icrc::verify(bytes);
    let _ = HmacView::parse(bytes);
    if let Ok(end_mt) = EndMt::parse(bytes) {
        end_mt.emit(&mut [0; 244]).unwrap();
    }
    if let Ok(view) = SrhView::parse(bytes) {
        assert!(view.tlvs().count() <= view.wire_len());
    }
    if let Ok(srh) = Srh::parse(bytes) {
        // Only padding of our own can make it longer than the input, by less than two units of 8 octets.
        let len = 8 + 8 * usize::from(bytes[1]);
        assert!(srh.wire_len() <= len + 15);
        if srh.wire_len() <= 2048 {
            assert_eq!(Srh::parse(&srh.to_vec().unwrap()), Ok(srh));
        }
    }
    if let Ok(frame) = RoceFrame::parse(bytes) {
        let built = RoceBuilder::from(&frame).build().unwrap();
        assert!(RoceFrame::parse(&built).unwrap().icrc_is_valid());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn arbitrary_octets(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        parse_everything(&bytes);
    }

    #[test]
    fn octets_that_begin_like_an_srh(
        mut bytes in prop::collection::vec(any::<u8>(), 8..300),
        units in 0_u8..37,
        last_entry in 0_u8..8,
        tlv in prop::sample::select(&[0_u8, 4, 5, 124, 200][..]),
    ) {
        (bytes[1], bytes[2], bytes[3], bytes[4]) = (units, 4, 0, last_entry);
        if let Some(octet) = bytes.get_mut(24 + 16 * usize::from(last_entry)) {
            *octet = tlv;
        }
        parse_everything(&bytes);
    }

    #[test]
    fn damaged_captures(
        at: prop::sample::Index,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut: prop::sample::Index,
        shorten: bool,
    ) {
        let mut packet = at.get(PACKETS.as_slice()).clone();
        let headers = packet.len().min(90);
        damage.iter().for_each(|(place, octet)| packet[place.index(headers)] = *octet);
        if shorten {
            packet.truncate(cut.index(packet.len()));
        }
        parse_everything(&packet);
    }
}
