// SPDX-License-Identifier: Apache-2.0
//! What the HMAC of an HMAC TLV covers, RFC 8754 section 2.1.2.1.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ~            IPv6 Source Address (16 octets)                    ~
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |  Last Entry   |     Flags     |      HMAC Key ID (4 octets)   |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |          ..                   |                               |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+                               |
//! ~     Segment List[0] ... Segment List[Last Entry]              ~
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! Nothing else: neither the Destination Address and Segments Left, which nodes change, nor the tag, the D bit and the other TLVs.

use alloc::vec::Vec;
use core::net::Ipv6Addr;

/// The octets over which the HMAC is computed, for an SRH with this segment list (1..=127 segments) in the order of the wire.
pub fn hmac_text(source: Ipv6Addr, flags: u8, key_id: u32, segments: &[Ipv6Addr]) -> Vec<u8> {
    let last_entry = segments.len().saturating_sub(1) as u8;
    let mut text = Vec::with_capacity(22 + 16 * segments.len());
    text.extend(source.octets());
    text.extend([last_entry, flags]);
    text.extend(key_id.to_be_bytes());
    text.extend(segments.iter().flat_map(Ipv6Addr::octets));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_the_fields_in_the_order_of_the_rfc() {
        let address = |n: u8| Ipv6Addr::from([n; 16]);
        let text = hmac_text(address(1), 8, 0x0203_0405, &[address(6), address(7)]);
        let wanted = [&[1; 16][..], &[1, 8, 2, 3, 4, 5], &[6; 16], &[7; 16]].concat();
        assert_eq!(text, wanted);
    }
}
