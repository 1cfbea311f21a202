// SPDX-License-Identifier: Apache-2.0
//! Packets as the source, receivers and the parent node of the group send them.

use std::net::Ipv6Addr;

use canopy_agent_core::congestion::FlowKey;
use canopy_model::ids::{Qpn, TreeId};
use canopy_model::srh_hmac::HmacKey;
use canopy_packet::aeth::{Aeth, Syndrome};
use canopy_packet::bth::Opcode;
use canopy_packet::end_mt::EndMt;
use canopy_packet::frame::RoceBuilder;
use canopy_packet::ipv6::Ipv6;
use canopy_packet::srh::{Hmac, Srh, Tlv};

use super::{DQPN, node, ok, plan, proxy, receiver, receiver_qpn, source};

/// A data packet of the source.
pub fn data(opcode: Opcode, psn: u32, payload: &[u8]) -> Vec<u8> {
    let mut b = RoceBuilder::new(source(), proxy(), opcode, DQPN, psn);
    b.payload = payload;
    ok(b.build())
}

/// Feedback of receiver `i`.
pub fn answer(i: u32, syndrome: Syndrome, psn: u32, msn: u32) -> Vec<u8> {
    let mut b = RoceBuilder::new(receiver(i), proxy(), Opcode::ACKNOWLEDGE, DQPN, psn);
    b.extensions.aeth = Some(Aeth { syndrome, msn });
    ok(b.build())
}

const FLOW_QPN: u32 = 0x77;

fn flow_source(n: u32) -> Ipv6Addr {
    Ipv6Addr::from(0x2001_0db8_00ff_0000_0000_0001_0000_0000_u128 + u128::from(n))
}

/// The key of one of many flows, at no port.
pub(super) fn flow_key(n: u32) -> FlowKey {
    FlowKey { src: flow_source(n), dst: receiver(0), dst_qp: ok(Qpn::new("qpn", FLOW_QPN.into())) }
}

/// A data packet of one of many flows.
pub fn flow_packet(n: u32) -> Vec<u8> {
    ok(RoceBuilder::new(flow_source(n), receiver(0), Opcode::SEND_MIDDLE, FLOW_QPN, 1).build())
}

/// The plain packet with this migration bit (MigReq) of the BTH, and the ICRC that belongs to it.
pub fn with_migration(mut packet: Vec<u8>, bit: bool) -> Vec<u8> {
    const FLAGS: usize = 40 + 8 + 1;
    packet[FLAGS] = packet[FLAGS] & !0x40 | u8::from(bit) << 6;
    packet.truncate(packet.len() - 4);
    ok(canopy_packet::icrc::append(&mut packet));
    packet
}

/// A CNP of receiver `i`.
pub fn congestion(i: u32) -> Vec<u8> {
    let mut b = RoceBuilder::new(receiver(i), proxy(), Opcode::CNP, DQPN, 0);
    b.bth.resv8a = 0x40;
    b.extensions.cnp = Some(canopy_packet::cnp::Cnp::default());
    ok(b.build())
}

/// `inner` as the parent node sends it: with an outer IPv6 header and an SRH with `tlvs`.
pub fn encapsulated(inner: &[u8], dst: Ipv6Addr, tlvs: Vec<Tlv>, tc: u8) -> Vec<u8> {
    encapsulated_for(proxy(), inner, dst, tlvs, tc)
}

/// The same for the group with another Proxy Address.
pub fn encapsulated_for(proxy: Ipv6Addr, inner: &[u8], dst: Ipv6Addr, tlvs: Vec<Tlv>, tc: u8) -> Vec<u8> {
    let first = plan().replication(node(9), ok(TreeId::new("tree", 7)));
    let srh =
        Srh { next_header: 41, segments_left: 1, flags: 0, tag: 0, segments: vec![proxy, first], tlvs, hmac: None };
    let srh = ok(srh.to_vec());
    let ip = Ipv6 {
        traffic_class: tc,
        flow_label: 5,
        payload_len: (srh.len() + inner.len()) as u16,
        next_header: 43,
        hop_limit: 60,
        src: plan().node_address(node(9)),
        dst,
    };
    let mut p = vec![0; 40];
    ok(ip.emit(&mut p));
    p.extend(srh);
    p.extend_from_slice(inner);
    p
}

/// The encapsulated packet with this HMAC TLV and these flags.
pub(crate) fn with_tlv(packet: &[u8], flags: u8, tlv: Option<Hmac>) -> Vec<u8> {
    let mut srh = ok(Srh::parse(&packet[Ipv6::LEN..]));
    let behind = Ipv6::LEN + srh.wire_len();
    (srh.flags, srh.hmac) = (flags, tlv);
    let srh = ok(srh.to_vec());
    let mut out = [&packet[..Ipv6::LEN], &srh, &packet[behind..]].concat();
    let len = (out.len() - Ipv6::LEN) as u16;
    out[4..6].copy_from_slice(&len.to_be_bytes());
    out
}

/// The encapsulated packet as its headend signs it.
pub fn signed(packet: &[u8], key: &HmacKey) -> Vec<u8> {
    let srh = ok(Srh::parse(&packet[Ipv6::LEN..]));
    let hmac = crate::srh_hmac::hmac(key, ok(Ipv6::parse(packet)).src, &srh.segments).to_vec();
    with_tlv(packet, key.flag_bit.srh_flags(), Some(Hmac { d: true, key_id: key.id.get(), hmac }))
}

/// End.MT TLVs of this node's receivers.
pub fn list(receivers: std::ops::Range<u32>) -> Vec<Tlv> {
    let all: Vec<_> = receivers.map(|i| (receiver(i), receiver_qpn(i))).collect();
    EndMt::split(plan().node_address(node(1)), &all).into_iter().map(Tlv::EndMt).collect()
}
