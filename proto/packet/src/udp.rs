// SPDX-License-Identifier: Apache-2.0
//! UDP header, RFC 768; its use by RoCEv2, IBTA annex A17.3.1.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |          Source Port          |       Destination Port        |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |            Length             |           Checksum            |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use core::net::Ipv6Addr;

use crate::checksum::pseudo_header;
use crate::error::{EmitError, ParseError};
use crate::ipv6::NEXT_HEADER_UDP;
use crate::wire::{be16, room, split};

const HEADER: &str = "UDP";

/// Destination port of RoCEv2 (IANA `roce`).
pub const ROCE_PORT: u16 = 4791;

/// A UDP header in place.
#[derive(Debug, Clone, Copy)]
pub struct UdpView<'a> {
    header: &'a [u8; Udp::LEN],
    payload: &'a [u8],
}

impl<'a> UdpView<'a> {
    /// Checks that `bytes` begins with a whole header. Length is not compared with what follows.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (header, payload) = split::<{ Udp::LEN }>(bytes, HEADER)?;
        Ok(Self { header, payload })
    }

    /// Source Port; RoCEv2 puts flow entropy here.
    pub fn src_port(&self) -> u16 {
        be16(self.header, 0)
    }

    /// Destination Port.
    pub fn dst_port(&self) -> u16 {
        be16(self.header, 2)
    }

    /// Length: octets of this header and its payload.
    pub fn length(&self) -> u16 {
        be16(self.header, 4)
    }

    /// Checksum; 0 means none, which RoCEv2 over IPv6 uses because the ICRC protects the packet.
    pub fn checksum(&self) -> u16 {
        be16(self.header, 6)
    }

    /// All octets after the header.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// A UDP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Udp {
    /// Source Port; RoCEv2 puts flow entropy here.
    pub src_port: u16,
    /// Destination Port.
    pub dst_port: u16,
    /// Length: octets of this header and its payload.
    pub length: u16,
    /// Checksum; 0 means none.
    pub checksum: u16,
}

impl Udp {
    /// Octets of the header.
    pub const LEN: usize = 8;

    /// Reads a header from the front of `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let view = UdpView::parse(bytes)?;
        Ok(Self {
            src_port: view.src_port(),
            dst_port: view.dst_port(),
            length: view.length(),
            checksum: view.checksum(),
        })
    }

    /// Writes the header to the front of `out`; fails when `out` is short.
    pub fn emit(&self, out: &mut [u8]) -> Result<(), EmitError> {
        let out = room::<{ Self::LEN }>(out, HEADER)?;
        let fields = [self.src_port, self.dst_port, self.length, self.checksum];
        for (octets, field) in out.chunks_exact_mut(2).zip(fields) {
            octets.copy_from_slice(&field.to_be_bytes());
        }
        Ok(())
    }
}

/// The checksum of a whole datagram between two addresses, whose checksum field is zero (RFC 8200 section 8.1): never zero itself.
pub fn checksum(src: Ipv6Addr, dst: Ipv6Addr, datagram: &[u8]) -> u16 {
    match pseudo_header(src, dst, datagram.len(), NEXT_HEADER_UDP).add(datagram).checksum() {
        0 => 0xffff,
        sum => sum,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields_lie_where_rfc_768_puts_them() {
        let udp = Udp::parse(&[0xc1, 0xe4, 0x12, 0xb7, 0x00, 0x34, 0x00, 0x01]).unwrap();
        let expected = Udp { src_port: 0xc1e4, dst_port: ROCE_PORT, length: 52, checksum: 1 };
        assert_eq!(udp, expected);
    }

    /// From ::1 to ::1: 0001 + 0001 (addresses) + 0008 (length) + 0011 (next header) + 0001 + 0002 (ports) + 0008 = 0026; ~ = ffd9.
    #[test]
    fn the_checksum_is_that_of_a_sum_by_hand() {
        let (one, datagram) = (Ipv6Addr::LOCALHOST, [0, 1, 0, 2, 0, 8, 0, 0]);
        assert_eq!(checksum(one, one, &datagram), 0xffd9);
        let zero = [0xff, 0xda, 0, 2, 0, 8, 0, 0];
        assert_eq!(checksum(one, one, &zero), 0xffff, "ffda - 1 more sums up to ffff, whose complement is zero");
    }

    proptest! {
        #[test]
        fn every_bit_survives(bytes: [u8; 8]) {
            let mut again = [0; 8];
            Udp::parse(&bytes).unwrap().emit(&mut again).unwrap();
            prop_assert_eq!(again, bytes);
        }
    }
}
