// SPDX-License-Identifier: Apache-2.0
//! ICMPv6 header and checksum, RFC 4443 sections 2.1 and 2.3.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |     Type      |     Code      |          Checksum             |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ~                         Message Body                          ~
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! Types with the upper bit clear are error messages, the others informational. The checksum covers a pseudo-header of
//! the addresses, so it is checked by [`verify`], not by the parsers.

use crate::checksum::{self, Sum};
use crate::error::{EmitError, ParseError};
use crate::ipv6::NEXT_HEADER_ICMPV6;
use crate::wire::{be16, room, split};
use core::net::Ipv6Addr;

const HEADER: &str = "ICMPv6";

/// An ICMPv6 header in place.
#[derive(Debug, Clone, Copy)]
pub struct Icmpv6View<'a> {
    header: &'a [u8; Icmpv6::LEN],
    payload: &'a [u8],
}

impl<'a> Icmpv6View<'a> {
    /// Checks that `bytes` begins with a whole header; any type and checksum is accepted.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (header, payload) = split::<{ Icmpv6::LEN }>(bytes, HEADER)?;
        Ok(Self { header, payload })
    }

    /// Type.
    pub fn icmp_type(&self) -> u8 {
        self.header[0]
    }

    /// Code, which the Type gives a meaning.
    pub fn code(&self) -> u8 {
        self.header[1]
    }

    /// Checksum, valid or not; see [`verify`].
    pub fn checksum(&self) -> u16 {
        be16(self.header, 2)
    }

    /// All octets after the header: the message body.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// An ICMPv6 header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Icmpv6 {
    /// Type.
    pub icmp_type: u8,
    /// Code, which the Type gives a meaning.
    pub code: u8,
    /// Checksum; [`checksum`] computes it.
    pub checksum: u16,
}

impl Icmpv6 {
    /// Octets of the header.
    pub const LEN: usize = 4;

    /// Reads a header from the front of `bytes`; any type and checksum is accepted.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let view = Icmpv6View::parse(bytes)?;
        Ok(Self { icmp_type: view.icmp_type(), code: view.code(), checksum: view.checksum() })
    }

    /// Writes the header to the front of `out`; fails when `out` is short.
    pub fn emit(&self, out: &mut [u8]) -> Result<(), EmitError> {
        let out = room::<{ Self::LEN }>(out, HEADER)?;
        (out[0], out[1]) = (self.icmp_type, self.code);
        out[2..].copy_from_slice(&self.checksum.to_be_bytes());
        Ok(())
    }

    /// Whether the message is informational: one that a receiver discards silently when it does not know the Type
    /// (RFC 4443 section 2.4 (b)).
    pub fn is_informational(&self) -> bool {
        self.icmp_type & 0x80 != 0
    }
}

/// The checksum of a whole message between two addresses; its Checksum field is taken as zero.
pub fn checksum(src: Ipv6Addr, dst: Ipv6Addr, message: &[u8]) -> u16 {
    let (front, rest) = message.split_at(message.len().min(2));
    let behind = rest.get(2..).unwrap_or_default();
    pseudo_header(src, dst, message.len()).add(front).add(behind).checksum()
}

/// Whether a whole message between two addresses has a valid checksum. `false` if it has no complete header.
pub fn verify(src: Ipv6Addr, dst: Ipv6Addr, message: &[u8]) -> bool {
    message.len() >= Icmpv6::LEN && pseudo_header(src, dst, message.len()).add(message).fold() == 0xffff
}

fn pseudo_header(src: Ipv6Addr, dst: Ipv6Addr, len: usize) -> Sum {
    checksum::pseudo_header(src, dst, len, NEXT_HEADER_ICMPV6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An Echo Request from ::1 to ::1, identifier 1, sequence 2, summed by hand:
    /// 0001 + 0001 (addresses) + 0008 (length) + 003a (next header) + 8000 (type) + 0001 + 0002 = 8047; ~ = 7fb8.
    #[test]
    fn the_checksum_is_that_of_a_sum_by_hand() {
        let message = [128, 0, 0x7f, 0xb8, 0, 1, 0, 2];
        let one = Ipv6Addr::LOCALHOST;
        assert_eq!(checksum(one, one, &message), 0x7fb8);
        assert!(verify(one, one, &message));
        assert!(!verify(one, Ipv6Addr::UNSPECIFIED, &message), "the addresses are covered");
        for at in 0..message.len() {
            let mut damaged = message;
            damaged[at] ^= 0x10;
            assert!(!verify(one, one, &damaged), "octet {at}");
        }
    }

    #[test]
    fn every_short_message_is_refused_and_informational_types_are_the_upper_half() {
        for len in 0..Icmpv6::LEN {
            assert_eq!(Icmpv6::parse(&[0xff; 4][..len]).unwrap_err().header, "ICMPv6");
            assert!(!verify(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, &[0; 4][..len]));
            checksum(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, &[0; 4][..len]);
        }
        let of = |icmp_type| Icmpv6 { icmp_type, code: 0, checksum: 0 }.is_informational();
        assert_eq!((0..=255).filter(|t| of(*t)).count(), 128);
        assert!(!of(127) && of(128) && of(200));
    }

    proptest! {
        #[test]
        fn every_bit_survives(bytes: [u8; 4]) {
            let mut again = [0; 4];
            Icmpv6::parse(&bytes).unwrap().emit(&mut again).unwrap();
            prop_assert_eq!(again, bytes);
        }

        #[test]
        fn what_was_computed_verifies(src: u128, dst: u128, mut message in prop::collection::vec(any::<u8>(), 4..80)) {
            let (src, dst) = (Ipv6Addr::from_bits(src), Ipv6Addr::from_bits(dst));
            let sum = checksum(src, dst, &message);
            message[2..4].copy_from_slice(&sum.to_be_bytes());
            prop_assert!(verify(src, dst, &message));
        }
    }
}
