// SPDX-License-Identifier: Apache-2.0
//! A Long-haul CNP in either format, or a STAMP packet, that parses encodes to one that parses to the same. The ICMPv6
//! checksum is corrected first: a fuzzer would not find a valid one.
#![no_main]

use canopy_packet::icmpv6;
use canopy_packet::long_haul_cnp::extension::{self, ExtensionsView, Object};
use canopy_packet::long_haul_cnp::icmp::Message;
use canopy_packet::long_haul_cnp::roce::{RocePacket, RoceView};
use canopy_packet::stamp::{ReflectorPacket, SenderPacket};
use core::net::Ipv6Addr;
use libfuzzer_sys::fuzz_target;

const HERE: Ipv6Addr = Ipv6Addr::LOCALHOST;

fuzz_target!(|bytes: &[u8]| {
    let mut message = bytes.to_vec();
    if message.len() >= 4 {
        let checksum = icmpv6::checksum(HERE, HERE, bytes);
        message[2..4].copy_from_slice(&checksum.to_be_bytes());
    }
    if let Ok(parsed) = Message::parse(HERE, HERE, &message) {
        let again = parsed.to_vec(HERE, HERE).expect("a parsed message can be written");
        assert_eq!(Message::parse(HERE, HERE, &again), Ok(parsed));
    }
    if let Ok(view) = ExtensionsView::parse(bytes) {
        let objects: Vec<_> = view.objects().map(Object::from).collect();
        let mut again = vec![0xaa; bytes.len()];
        assert_eq!(extension::emit(&objects, &mut again), Ok(bytes.len()));
        assert_eq!(again[4..], bytes[4..]);
    }
    if let Ok(packet) = RocePacket::parse(bytes) {
        let again = packet.to_vec().expect("a parsed packet can be written");
        assert_eq!(RocePacket::parse(&again), Ok(packet));
    }
    let _ = RoceView::parse(bytes);
    let mut again = [0; canopy_packet::stamp::LEN];
    if let Ok(packet) = SenderPacket::parse(bytes) {
        packet.emit(&mut again).expect("a parsed packet can be written");
        assert_eq!(SenderPacket::parse(&again), Ok(packet));
    }
    if let Ok(packet) = ReflectorPacket::parse(bytes) {
        packet.emit(&mut again).expect("a parsed packet can be written");
        assert_eq!(ReflectorPacket::parse(&again), Ok(packet));
    }
});
