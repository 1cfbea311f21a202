// SPDX-License-Identifier: Apache-2.0
//! Frames of the lab's group, as its two nodes see one packet.
#![allow(dead_code)] // Each test program uses its part.

use std::net::Ipv6Addr;

use canopy_control::pb;
use canopy_model::capture::INNER;
use canopy_model::node_spec::GroupProgram;

/// The first octets of a plain frame: Ethernet, IPv6, UDP, BTH.
fn plain(source: Ipv6Addr, destination: Ipv6Addr, qpn: u32, psn: u32) -> Vec<u8> {
    let mut head = vec![2; 12];
    head.extend([0x86, 0xDD, 0x60, 0, 0, 0, 0, 40, 17, 63]);
    head.extend(source.octets());
    head.extend(destination.octets());
    head.extend([0xC0, 0, 0x12, 0xB7, 0, 40, 0, 0, 4, 0, 0xFF, 0xFF]);
    head.extend(qpn.to_be_bytes());
    head.extend(psn.to_be_bytes());
    head
}

fn frame(id: u32, direction: pb::CaptureDirection, port: &str, head: Vec<u8>) -> pb::CapturedFrame {
    pb::CapturedFrame {
        id,
        direction: direction.into(),
        port: port.into(),
        time_unix_ns: 5,
        length: 110,
        inner_at: 14,
        inner: head[14..14 + INNER].to_vec(),
        head,
    }
}

/// What a node of the lab sees of its group's packet: what arrives, as the source sends it, and at n2 the receiver's copy.
pub(crate) fn seen(node: &str, program: &GroupProgram, order: &pb::Capture) -> Vec<pb::CapturedFrame> {
    let (id, psn) = (order.id, order.psn);
    let sent = plain(program.source.address, program.proxy, program.designated_qpn.get(), psn);
    let port = if node == "n1" { "eth2" } else { "eth1" };
    let mut frames = vec![frame(id, pb::CaptureDirection::In, port, sent)];
    if node == "n2" {
        let copy = plain(program.proxy, program.branches[0].address, 17, psn);
        frames.push(frame(id, pb::CaptureDirection::Out, "eth2", copy));
    }
    frames
}
