// SPDX-License-Identifier: Apache-2.0
//! Builds a RoCEv2 packet.

use super::{Extensions, RoceFrame};
use crate::bth::{Bth, Opcode};
use crate::error::{EmitError, Problem};
use crate::icrc;
use crate::ipv6::{Ipv6, NEXT_HEADER_UDP};
use crate::udp::{ROCE_PORT, Udp};
use alloc::vec::Vec;
use core::net::Ipv6Addr;

/// The inputs of a packet. Lengths, pad and ICRC are computed, the UDP checksum is 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoceBuilder<'a> {
    /// IPv6 Traffic Class.
    pub traffic_class: u8,
    /// IPv6 Flow Label, 20 bits.
    pub flow_label: u32,
    /// IPv6 Hop Limit.
    pub hop_limit: u8,
    /// IPv6 Source Address.
    pub src: Ipv6Addr,
    /// IPv6 Destination Address.
    pub dst: Ipv6Addr,
    /// UDP Source Port.
    pub src_port: u16,
    /// Base Transport Header; its Pad Count is not used but computed from the payload.
    pub bth: Bth,
    /// Exactly the extension headers that the OpCode requires.
    pub extensions: Extensions,
    /// Payload without pad; empty where the OpCode has none.
    pub payload: &'a [u8],
}

impl<'a> RoceBuilder<'a> {
    /// A packet of `opcode` for a QP: default partition, Hop Limit 64, source port 49152, every other field 0.
    pub fn new(src: Ipv6Addr, dst: Ipv6Addr, opcode: Opcode, dest_qp: u32, psn: u32) -> Self {
        let bth = Bth {
            opcode,
            solicited: false,
            migration: false,
            pad_count: 0,
            version: 0,
            pkey: 0xffff,
            resv8a: 0,
            dest_qp,
            ack_req: false,
            resv7: 0,
            psn,
        };
        Self {
            traffic_class: 0,
            flow_label: 0,
            hop_limit: 64,
            src,
            dst,
            src_port: 0xc000,
            bth,
            extensions: Extensions::default(),
            payload: &[],
        }
    }

    /// The packet from its IPv6 header to the end of its ICRC.
    ///
    /// Fails when a field exceeds its bits, an extension header is missing or unwanted, the OpCode has no payload and
    /// there is some, or the packet exceeds the 65535 octets of Payload Length.
    pub fn build(&self) -> Result<Vec<u8>, EmitError> {
        let opcode = self.bth.opcode;
        if !opcode.has_payload() && !self.payload.is_empty() {
            let problem = Problem::Unwanted;
            return Err(EmitError { header: opcode.name(), field: "payload", problem });
        }
        let pad_count = self.payload.len().next_multiple_of(4) - self.payload.len();
        let behind_bth = self.extensions.wire_len() + self.payload.len() + pad_count;
        let udp_len = Udp::LEN + Bth::LEN + behind_bth + icrc::LEN;
        let length = u16::try_from(udp_len).map_err(|_| {
            let (max, found) = (u64::from(u16::MAX), udp_len as u64);
            let problem = Problem::OutOfRange { min: 0, max, found };
            EmitError { header: "IPv6", field: "Payload Length", problem }
        })?;
        let ipv6 = Ipv6 {
            traffic_class: self.traffic_class,
            flow_label: self.flow_label,
            payload_len: length,
            next_header: NEXT_HEADER_UDP,
            hop_limit: self.hop_limit,
            src: self.src,
            dst: self.dst,
        };
        let udp = Udp { src_port: self.src_port, dst_port: ROCE_PORT, length, checksum: 0 };
        let bth = Bth { pad_count: pad_count as u8, ..self.bth };

        let mut packet = alloc::vec![0; Ipv6::LEN + udp_len];
        ipv6.emit(&mut packet)?;
        udp.emit(&mut packet[Ipv6::LEN..])?;
        bth.emit(&mut packet[Ipv6::LEN + Udp::LEN..])?;
        let behind = &mut packet[icrc::HEADERS_LEN..];
        let at = self.extensions.emit(opcode, behind)?;
        behind[at..at + self.payload.len()].copy_from_slice(self.payload);
        let covered = packet.len() - icrc::LEN;
        let icrc = icrc::compute(&packet[..covered]).expect("UDP in IPv6 was emitted above");
        icrc::write(&mut packet, icrc)?;
        Ok(packet)
    }
}

/// The input from which the packet can be built again; pad and UDP checksum become 0, and the ICRC valid.
impl<'a> From<&RoceFrame<'a>> for RoceBuilder<'a> {
    fn from(frame: &RoceFrame<'a>) -> Self {
        Self {
            traffic_class: frame.ipv6.traffic_class,
            flow_label: frame.ipv6.flow_label,
            hop_limit: frame.ipv6.hop_limit,
            src: frame.ipv6.src,
            dst: frame.ipv6.dst,
            src_port: frame.udp.src_port,
            bth: frame.bth,
            extensions: frame.extensions,
            payload: frame.payload,
        }
    }
}
