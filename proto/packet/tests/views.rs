// SPDX-License-Identifier: Apache-2.0
//! Where a view ends. cargo-mutants cannot make a fault of these functions: a borrowed slice of another value does not compile in this crate.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use canopy_packet::aeth::{Aeth, AethView};
use canopy_packet::atomic_eth::{AtomicAckEth, AtomicAckEthView, AtomicEth, AtomicEthView};
use canopy_packet::bth::{Bth, BthView};
use canopy_packet::cnp::{Cnp, CnpView};
use canopy_packet::icmpv6::{Icmpv6, Icmpv6View};
use canopy_packet::ieth::{Ieth, IethView};
use canopy_packet::immdt::{ImmDt, ImmDtView};
use canopy_packet::ipv6::{Ipv6, Ipv6View};
use canopy_packet::reth::{Reth, RethView};
use canopy_packet::stamp::{self, ReflectorPacketView, SenderPacketView};
use canopy_packet::udp::{Udp, UdpView};

#[test]
fn the_payload_of_a_view_is_all_that_is_behind_its_header() {
    // The first octet is that of IPv6, and no Multiplier of STAMP is zero.
    let bytes: Vec<u8> = (0x60..0xa0).collect();
    let b = &bytes[..];
    for (header, len, payload) in [
        ("IPv6", Ipv6::LEN, Ipv6View::parse(b).unwrap().payload()),
        ("UDP", Udp::LEN, UdpView::parse(b).unwrap().payload()),
        ("ICMPv6", Icmpv6::LEN, Icmpv6View::parse(b).unwrap().payload()),
        ("BTH", Bth::LEN, BthView::parse(b).unwrap().payload()),
        ("RETH", Reth::LEN, RethView::parse(b).unwrap().payload()),
        ("AETH", Aeth::LEN, AethView::parse(b).unwrap().payload()),
        ("AtomicETH", AtomicEth::LEN, AtomicEthView::parse(b).unwrap().payload()),
        ("AtomicAckETH", AtomicAckEth::LEN, AtomicAckEthView::parse(b).unwrap().payload()),
        ("ImmDt", ImmDt::LEN, ImmDtView::parse(b).unwrap().payload()),
        ("IETH", Ieth::LEN, IethView::parse(b).unwrap().payload()),
        ("CNP", Cnp::LEN, CnpView::parse(b).unwrap().payload()),
        ("STAMP sender", stamp::LEN, SenderPacketView::parse(b).unwrap().payload()),
        ("STAMP reflector", stamp::LEN, ReflectorPacketView::parse(b).unwrap().payload()),
    ] {
        assert_eq!(payload, &b[len..], "{header}");
    }
}
