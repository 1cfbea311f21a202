// SPDX-License-Identifier: Apache-2.0
//! Packets from nodes and from the peer to the host.

use canopy_packet::aeth::{Aeth, Syndrome};
use canopy_packet::bth::{Bth, Opcode, RESV8A_BECN};
use canopy_packet::cnp::Cnp;
use canopy_packet::frame::RoceBuilder;
use canopy_packet::icmpv6;
use canopy_packet::icrc;
use canopy_packet::ipv6::{Ipv6, NEXT_HEADER_ICMPV6, NEXT_HEADER_UDP};
use canopy_packet::long_haul_cnp::icmp::Message;
use canopy_packet::long_haul_cnp::roce::RocePacket;
use canopy_packet::long_haul_cnp::{Action, LongHaulCnp, Metric};
use canopy_packet::udp::{ROCE_PORT, Udp};

use super::{HOST, PEER, at};

/// A Long-haul CNP of `node` in ICMPv6.
pub(crate) fn icmp(node: &str, qpn: u32, action: Action) -> Vec<u8> {
    let message = Message { cnp: body(qpn, action), objects: vec![] };
    icmpv6_packet(node, &message.to_vec(at(node), at(HOST)).unwrap())
}

/// The same in RoCEv2.
pub(crate) fn roce(node: &str, qpn: u32, action: Action) -> Vec<u8> {
    let (src, dst) = (at(node), at(HOST));
    let (traffic_class, hop_limit, src_port, pkey) = (0, 64, 0xc000, 0xffff);
    let cnp = body(qpn, action);
    RocePacket { traffic_class, hop_limit, src, dst, src_port, pkey, cnp, objects: vec![] }.to_vec().unwrap()
}

/// An ICMPv6 message of any kind, unchanged.
pub(crate) fn icmpv6_packet(node: &str, message: &[u8]) -> Vec<u8> {
    let mut packet = header(node, NEXT_HEADER_ICMPV6, message.len());
    packet.extend(message);
    packet
}

/// An ICMPv6 message of type 200 whose checksum is right, filled with `octet`.
pub(crate) fn icmpv6_of_length(node: &str, len: usize, octet: u8) -> Vec<u8> {
    let mut message = vec![octet; len];
    message.iter_mut().zip([200, 0]).for_each(|(place, value)| *place = value);
    if len >= 4 {
        let sum = icmpv6::checksum(at(node), at(HOST), &message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    icmpv6_packet(node, &message)
}

/// A plain CNP.
pub(crate) fn cnp(from: &str, qpn: u32) -> Vec<u8> {
    let len = Udp::LEN + Bth::LEN + Cnp::LEN + icrc::LEN;
    let mut packet = header(from, NEXT_HEADER_UDP, len);
    let mut rest = vec![0; Udp::LEN + Bth::LEN + Cnp::LEN];
    let udp = Udp { src_port: 0xc000, dst_port: ROCE_PORT, length: len as u16, checksum: 0 };
    udp.emit(&mut rest).unwrap();
    let bth = Bth {
        opcode: Opcode::CNP,
        solicited: false,
        migration: true,
        pad_count: 0,
        version: 0,
        pkey: 0xffff,
        resv8a: RESV8A_BECN,
        dest_qp: qpn,
        ack_req: false,
        resv7: 0,
        psn: 0,
    };
    bth.emit(&mut rest[Udp::LEN..]).unwrap();
    packet.extend(rest);
    icrc::append(&mut packet).unwrap();
    packet
}

/// An ACK of the peer to a local QP.
pub(crate) fn ack(qpn: u32, psn: u32) -> Vec<u8> {
    let mut builder = RoceBuilder::new(at(PEER), at(HOST), Opcode::ACKNOWLEDGE, qpn, psn);
    builder.extensions.aeth = Some(Aeth { syndrome: Syndrome(0x1f), msn: 1 });
    builder.build().unwrap()
}

fn body(qpn: u32, action: Action) -> LongHaulCnp {
    LongHaulCnp { level: 180, action, source_qp: qpn, metric: Metric::QueueDepth(1) }
}

fn header(from: &str, next_header: u8, len: usize) -> Vec<u8> {
    let (src, dst) = (at(from), at(HOST));
    let mut out = vec![0; Ipv6::LEN];
    let ip = Ipv6 { traffic_class: 0, flow_label: 0, payload_len: len as u16, next_header, hop_limit: 64, src, dst };
    ip.emit(&mut out).unwrap();
    out
}
