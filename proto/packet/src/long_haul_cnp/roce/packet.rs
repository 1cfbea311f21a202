// SPDX-License-Identifier: Apache-2.0
//! A whole RoCEv2-over-IPv6 packet that is a Long-haul CNP.

use super::super::extension::{self, Object};
use super::{FILL, HEADER, LongHaulCnp, RoceView, expect};
use crate::bth::{Bth, Opcode, RESV8A_BECN, RESV8A_E};
use crate::error::{EmitError, ParseError, Problem};
use crate::icrc;
use crate::ipv6::{Ipv6, Ipv6View, NEXT_HEADER_UDP};
use crate::udp::{ROCE_PORT, Udp, UdpView};
use alloc::vec::Vec;
use core::net::Ipv6Addr;

/// The inputs of a packet, without the fields that follow from them or have one valid value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RocePacket {
    /// IPv6 Traffic Class.
    pub traffic_class: u8,
    /// IPv6 Hop Limit.
    pub hop_limit: u8,
    /// IPv6 Source Address: the node that sends the CNP.
    pub src: Ipv6Addr,
    /// IPv6 Destination Address: the source of the flow.
    pub dst: Ipv6Addr,
    /// UDP Source Port.
    pub src_port: u16,
    /// Partition Key: 0xffff, or that of the flow.
    pub pkey: u16,
    /// The fixed body; its Source QP Number is the Destination QP of the BTH too.
    pub cnp: LongHaulCnp,
    /// Extension objects in order; without any, the Extension Header is omitted.
    pub objects: Vec<Object>,
}

impl RocePacket {
    /// Reads a packet from its IPv6 header on; octets after Payload Length (Ethernet padding) are ignored, and so is the
    /// Flow Label.
    ///
    /// Fails, naming the field, when it is not UDP to the RoCEv2 port directly in IPv6, lengths do not agree, the ICRC is
    /// wrong, or [`RoceView::parse`] fails.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let ipv6 = Ipv6View::parse(bytes)?;
        expect("Next Header", u64::from(NEXT_HEADER_UDP), u64::from(ipv6.next_header()))?;
        let needed = Ipv6::LEN + usize::from(ipv6.payload_len());
        let packet = bytes.get(..needed).ok_or(ParseError {
            header: "IPv6",
            field: "Payload Length",
            problem: Problem::Truncated { needed, available: bytes.len() },
        })?;
        let udp = UdpView::parse(&packet[Ipv6::LEN..])?;
        expect("UDP Destination Port", u64::from(ROCE_PORT), u64::from(udp.dst_port()))?;
        expect("UDP Length", u64::from(ipv6.payload_len()), u64::from(udp.length()))?;
        let (covered, _) = udp.payload().split_last_chunk::<{ icrc::LEN }>().ok_or(ParseError {
            header: "ICRC",
            field: "length",
            problem: Problem::Truncated { needed: icrc::LEN, available: udp.payload().len() },
        })?;
        let view = RoceView::parse(covered)?;
        let expected = icrc::compute(&packet[..packet.len() - icrc::LEN])?;
        expect("ICRC", u64::from(expected), u64::from(icrc::read(packet)?))?;
        Ok(Self {
            traffic_class: ipv6.traffic_class(),
            hop_limit: ipv6.hop_limit(),
            src: ipv6.src(),
            dst: ipv6.dst(),
            src_port: udp.src_port(),
            pkey: view.pkey(),
            cnp: view.cnp(),
            objects: view.extensions().into_iter().flat_map(|e| e.objects()).map(Object::from).collect(),
        })
    }

    /// The packet from its IPv6 header to the end of its ICRC, UDP checksum 0. Fails when a field is beyond its limits or
    /// the packet exceeds the 65535 octets of Payload Length.
    pub fn to_vec(&self) -> Result<Vec<u8>, EmitError> {
        let behind = extension::wire_len(&self.objects).max(FILL.len());
        let len = Udp::LEN + Bth::LEN + LongHaulCnp::LEN + behind + icrc::LEN;
        let length = u16::try_from(len).map_err(|_| {
            let problem = Problem::OutOfRange { min: 0, max: u64::from(u16::MAX), found: len as u64 };
            EmitError { header: "IPv6", field: "Payload Length", problem }
        })?;
        let ipv6 = Ipv6 {
            traffic_class: self.traffic_class,
            flow_label: 0,
            payload_len: length,
            next_header: NEXT_HEADER_UDP,
            hop_limit: self.hop_limit,
            src: self.src,
            dst: self.dst,
        };
        let mut packet = alloc::vec![0; Ipv6::LEN + len];
        ipv6.emit(&mut packet)?;
        Udp { src_port: self.src_port, dst_port: ROCE_PORT, length, checksum: 0 }.emit(&mut packet[Ipv6::LEN..])?;
        self.cnp.emit(&mut packet[icrc::HEADERS_LEN..])?;
        self.bth().emit(&mut packet[Ipv6::LEN + Udp::LEN..])?;
        extension::emit(&self.objects, &mut packet[icrc::HEADERS_LEN + LongHaulCnp::LEN..])?;
        let covered = packet.len() - icrc::LEN;
        let icrc = icrc::compute(&packet[..covered]).map_err(|error| {
            let ParseError { field, problem, .. } = error;
            EmitError { header: HEADER, field, problem }
        })?;
        icrc::write(&mut packet, icrc)?;
        Ok(packet)
    }

    fn bth(&self) -> Bth {
        Bth {
            opcode: Opcode::CNP,
            solicited: false,
            migration: false,
            pad_count: 0,
            version: 0,
            pkey: self.pkey,
            resv8a: RESV8A_BECN | RESV8A_E,
            dest_qp: self.cnp.source_qp,
            ack_req: false,
            resv7: 0,
            psn: 0,
        }
    }
}
