// SPDX-License-Identifier: Apache-2.0
//! VLAN tags on fabric ports, with frames through the veth pair: the kernel moves a tag out of the frame before the programs see it.

use std::time::{Duration, Instant};

use canopy_packet::bth::Opcode;

use crate::testbed::*;

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
