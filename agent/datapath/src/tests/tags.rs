// SPDX-License-Identifier: Apache-2.0
//! VLAN tags on fabric ports, with frames through the veth pair: the kernel moves a tag out of the frame before the programs see it.

use std::time::{Duration, Instant};

use canopy_packet::bth::Opcode;
use canopy_packet::frame::RoceBuilder;

use crate::testbed::*;

fn at(address: &str) -> std::net::Ipv6Addr {
    address.parse().unwrap()
}

/// A frame with these VIDs before its packet.
fn tagged(vids: &[u16], packet: &[u8]) -> Vec<u8> {
    let mut frame = vec![0xFF; 6];
    frame.extend([2, 0, 0, 0, 0, 9]);
    for vid in vids {
        frame.extend([0x81, 0]);
        frame.extend(vid.to_be_bytes());
    }
    frame.extend([0x86, 0xDD]);
    frame.extend_from_slice(packet);
    frame
}

#[test]
fn a_frame_of_another_vlan_on_a_fabric_port_is_none_of_the_neighbour() {
    let mut bed = Testbed::new(&Shape::default());
    // Frames of one processor arrive in the order in which they were sent.
    bed.stay_on_this_processor();
    let socket = PacketSocket::open(bed.ifindex("u0p"));
    let packet = |psn| encapsulated(&data(Opcode::SEND_ONLY, psn, b"tagged"), end_mt(), list(0..1), 0);
    for (vids, psn) in [(&[5][..], 100), (&[4095], 101), (&[0], 102), (&[], 103)] {
        socket.send(&tagged(vids, &packet(psn)));
    }
    let deadline = Instant::now() + Duration::from_secs(10);
    while bed.telemetry().data_packets < 2 {
        assert!(Instant::now() < deadline, "{:?}", bed.telemetry());
    }
    let t = bed.telemetry();
    assert_eq!((t.data_packets, t.branches[0].packets), (2, 2), "{:?}", bed.drops());
}

/// The kernel removes a priority tag, and those behind it too, without passing it to the program again: what is inside could be for the domain.
#[test]
fn a_frame_with_a_tag_behind_a_priority_tag_ends_at_an_interface_outside() {
    let mut bed = Testbed::new(&Shape::default());
    bed.port_aside();
    assert_eq!(bed.reconcile(|_| {}), []);
    let socket = PacketSocket::open(bed.ifindex("a0p"));
    let harmless =
        RoceBuilder::new(at("2001:db8:99::1"), at("2001:db8:98::1"), Opcode::SEND_ONLY, 1, 1).build().unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    let (mut sent, key) = (0, ("a0".to_owned(), "outside".to_owned()));
    // Until the kernel has noticed that the new interface has a carrier, its queue discards what is sent.
    let counted = loop {
        [&[][..], &[0], &[0, 5]].iter().for_each(|vids| socket.send(&tagged(vids, &harmless)));
        sent += 1;
        match bed.port_drops().get(&key) {
            Some(counted) => break *counted,
            None => assert!(Instant::now() < deadline, "{:?}", bed.port_drops()),
        }
    };
    assert!(counted <= sent, "{counted} of {sent}: also frames without a second tag");
}
