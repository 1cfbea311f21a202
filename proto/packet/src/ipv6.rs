// SPDX-License-Identifier: Apache-2.0
//! IPv6 header, RFC 8200 section 3.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |Version| Traffic Class |           Flow Label                  |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |         Payload Length        |  Next Header  |   Hop Limit   |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                    Source Address (16 octets)                 |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                  Destination Address (16 octets)              |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use crate::error::{EmitError, ParseError, Problem};
use crate::wire::{addr, be16, be24, fits, room, split};
use core::net::Ipv6Addr;

const HEADER: &str = "IPv6";

/// Next Header: UDP.
pub const NEXT_HEADER_UDP: u8 = 17;
/// Next Header: IPv6 in IPv6 (RFC 2473).
pub const NEXT_HEADER_IPV6: u8 = 41;
/// Next Header: Routing Header, of which the SRH is type 4.
pub const NEXT_HEADER_ROUTING: u8 = 43;
/// Next Header: ICMPv6.
pub const NEXT_HEADER_ICMPV6: u8 = 58;

/// An IPv6 header in place.
#[derive(Debug, Clone, Copy)]
pub struct Ipv6View<'a> {
    header: &'a [u8; Ipv6::LEN],
    payload: &'a [u8],
}

impl<'a> Ipv6View<'a> {
    /// Checks that `bytes` begins with a whole header of version 6. Payload Length is not compared with what follows.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (header, payload) = split::<{ Ipv6::LEN }>(bytes, HEADER)?;
        let version = header[0] >> 4;
        if version != 6 {
            let problem = Problem::Expected { expected: 6, found: u64::from(version) };
            return Err(ParseError { header: HEADER, field: "Version", problem });
        }
        Ok(Self { header, payload })
    }

    /// Traffic Class: DSCP in the upper six bits, ECN in the lower two.
    pub fn traffic_class(&self) -> u8 {
        (be16(self.header, 0) >> 4) as u8
    }

    /// Flow Label, 20 bits.
    pub fn flow_label(&self) -> u32 {
        be24(self.header, 1) & 0xf_ffff
    }

    /// Payload Length: octets behind this header.
    pub fn payload_len(&self) -> u16 {
        be16(self.header, 4)
    }

    /// Next Header.
    pub fn next_header(&self) -> u8 {
        self.header[6]
    }

    /// Hop Limit.
    pub fn hop_limit(&self) -> u8 {
        self.header[7]
    }

    /// Source Address.
    pub fn src(&self) -> Ipv6Addr {
        addr(self.header, 8)
    }

    /// Destination Address.
    pub fn dst(&self) -> Ipv6Addr {
        addr(self.header, 24)
    }

    /// All octets given after the header, independent of Payload Length.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// An IPv6 header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ipv6 {
    /// Traffic Class: DSCP in the upper six bits, ECN in the lower two.
    pub traffic_class: u8,
    /// Flow Label, 20 bits.
    pub flow_label: u32,
    /// Payload Length: octets behind this header.
    pub payload_len: u16,
    /// Next Header.
    pub next_header: u8,
    /// Hop Limit.
    pub hop_limit: u8,
    /// Source Address.
    pub src: Ipv6Addr,
    /// Destination Address.
    pub dst: Ipv6Addr,
}

impl Ipv6 {
    /// Octets of the header.
    pub const LEN: usize = 40;

    /// Reads a header from the front of `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let view = Ipv6View::parse(bytes)?;
        Ok(Self {
            traffic_class: view.traffic_class(),
            flow_label: view.flow_label(),
            payload_len: view.payload_len(),
            next_header: view.next_header(),
            hop_limit: view.hop_limit(),
            src: view.src(),
            dst: view.dst(),
        })
    }

    /// Writes the header to the front of `out`; fails when `out` is short or the flow label exceeds 20 bits.
    pub fn emit(&self, out: &mut [u8]) -> Result<(), EmitError> {
        let out = room::<{ Self::LEN }>(out, HEADER)?;
        let flow_label = fits(HEADER, "Flow Label", self.flow_label, 20)?;
        let first = 6 << 28 | u32::from(self.traffic_class) << 20 | flow_label;
        out[..4].copy_from_slice(&first.to_be_bytes());
        out[4..6].copy_from_slice(&self.payload_len.to_be_bytes());
        out[6] = self.next_header;
        out[7] = self.hop_limit;
        out[8..24].copy_from_slice(&self.src.octets());
        out[24..].copy_from_slice(&self.dst.octets());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_ipv4_packet_is_refused_by_its_version() {
        let error = Ipv6::parse(&[0x45; 40]).unwrap_err();
        assert_eq!((error.header, error.field), ("IPv6", "Version"));
    }

    #[test]
    fn a_flow_label_of_21_bits_is_refused() {
        let mut header = Ipv6::parse(&[0x60; 40]).unwrap();
        header.flow_label = 0x10_0000;
        assert_eq!(header.emit(&mut [0; 40]).unwrap_err().field, "Flow Label");
    }

    proptest! {
        #[test]
        fn every_bit_survives(mut bytes: [u8; 40]) {
            bytes[0] = 0x60 | bytes[0] & 0x0f;
            let mut again = [0; 40];
            Ipv6::parse(&bytes).unwrap().emit(&mut again).unwrap();
            prop_assert_eq!(again, bytes);
        }
    }
}
