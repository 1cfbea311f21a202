// SPDX-License-Identifier: Apache-2.0
//! Invariant CRC of RoCEv2 over IPv6, IBTA annex A17.3.3 and volume 1 section 7.8.1.
//!
//! The ICRC is the CRC-32 of Ethernet over eight octets of ones (in the place of the InfiniBand LRH) and then the
//! packet from its IPv6 header to the end of the pad, with every field that may change on the way taken as ones.
//! `#` marks what is masked:
//!
//! ```text
//!       0                   1                   2                   3
//!       0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//!      +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!      |################### eight octets of ones ######################|
//!      |###############################################################|
//!      +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!    0 |Version|#Traffic Class#|############# Flow Label ##############|  IPv6
//!      +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!    4 |         Payload Length        |  Next Header  |## Hop Limit ##|
//!      +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!    8 |         Source Address, Destination Address (2 x 16 octets)   |
//!      +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!   40 |          Source Port          |       Destination Port        |  UDP
//!      +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!   44 |            Length             |########### Checksum ##########|
//!      +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!   48 |    OpCode     |S|M|Pad| TVer  |             P_Key             |  BTH
//!      +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!   52 |#### resv8a ###|              Destination QP                   |
//!      +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!   56 |A|    resv7    |           Packet Sequence Number              |
//!      +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!   60 |             extension headers, payload, pad                   |
//!      +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!      |      ICRC, least significant octet first (not covered)        |
//!      +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! Three numbers must not be confused:
//!
//! - the **register**: starts as 0xffff_ffff; the unit of [`Crc`], [`seed`] and [`header_delta`];
//! - the **ICRC**, a `u32`: the register after the last covered octet, inverted. [`compute`] gives it;
//! - the **four octets**: the ICRC in little-endian order. [`append`] writes and [`read`] reads them.
//!
//! # By difference
//!
//! The register is linear over GF(2), so of two equally long packets the registers differ by the register (started at
//! 0) of their XOR; the inversion cancels, so the ICRCs differ by the same `u32`. Octets that are equal behind the last
//! difference only multiply the difference by `x^8` each. Hence, with `n` octets from the end of the BTH to the ICRC:
//!
//! ```text
//! icrc_new = icrc_old ^ gf_mul(header_delta(old.., new..), xpow8(n))
//! ```
//!
//! where `icrc_old` is [`read`] from the received packet, valid or not: a corrupt packet keeps the same error pattern,
//! whereas recomputing the ICRC would hide it.

mod crc32;
mod delta;

pub use crc32::{Crc, POLY, TABLE, gf_mul, xpow8};
pub use delta::{Change, delta, header_delta};

use crate::bth::Bth;
use crate::error::{EmitError, ParseError, Problem};
use crate::ipv6::{Ipv6, Ipv6View, NEXT_HEADER_UDP};
use crate::udp::Udp;

const HEADER: &str = "ICRC";

/// Octets of the ICRC.
pub const LEN: usize = 4;

/// Octets of IPv6, UDP and BTH: the front of every RoCEv2 packet, and all that the mask touches.
pub const HEADERS_LEN: usize = Ipv6::LEN + Udp::LEN + Bth::LEN;

/// Bits that the ICRC takes as ones, by offset from the first octet of the IPv6 header.
pub const MASK: [u8; HEADERS_LEN] = {
    let mut mask = [0; HEADERS_LEN];
    mask[0] = 0x0f; // Traffic Class, upper half
    mask[1] = 0xff; // Traffic Class, lower half, and Flow Label
    mask[2] = 0xff;
    mask[3] = 0xff;
    mask[7] = 0xff; // Hop Limit
    mask[Ipv6::LEN + 6] = 0xff; // UDP Checksum
    mask[Ipv6::LEN + 7] = 0xff;
    mask[Ipv6::LEN + Udp::LEN + 4] = 0xff; // resv8a
    mask
};

/// ICRC of a packet that begins with its IPv6 header and ends before its ICRC.
///
/// Fails when the packet is not UDP directly in IPv6, or is shorter than IPv6, UDP and BTH. Length fields are covered
/// as they are, so they must already include the four octets of the ICRC.
pub fn compute(packet: &[u8]) -> Result<u32, ParseError> {
    let view = Ipv6View::parse(packet)?;
    if view.next_header() != NEXT_HEADER_UDP {
        let (expected, found) = (u64::from(NEXT_HEADER_UDP), u64::from(view.next_header()));
        let problem = Problem::Expected { expected, found };
        return Err(ParseError { header: "IPv6", field: "Next Header", problem });
    }
    let (headers, rest) =
        packet.split_first_chunk::<HEADERS_LEN>().ok_or_else(|| truncated("BTH", HEADERS_LEN, packet.len()))?;
    Ok(Crc::START.update_masked(headers, 0).update(rest).icrc())
}

/// The ICRC that a packet carries in its last four octets.
pub fn read(packet: &[u8]) -> Result<u32, ParseError> {
    Ok(split(packet)?.1)
}

/// Whether the last four octets of a packet are the ICRC of those in front. Fails as [`compute`] does.
pub fn verify(packet: &[u8]) -> Result<bool, ParseError> {
    let (covered, icrc) = split(packet)?;
    Ok(compute(covered)? == icrc)
}

/// Writes an ICRC over the last four octets of a packet, least significant octet first.
pub fn write(packet: &mut [u8], icrc: u32) -> Result<(), EmitError> {
    let available = packet.len();
    let octets = packet.last_chunk_mut::<LEN>().ok_or(EmitError {
        header: HEADER,
        field: "buffer",
        problem: Problem::Truncated { needed: LEN, available },
    })?;
    *octets = icrc.to_le_bytes();
    Ok(())
}

/// Computes the ICRC of a packet that lacks one and appends it. Fails as [`compute`] does, and then appends nothing.
#[cfg(feature = "alloc")]
pub fn append(packet: &mut alloc::vec::Vec<u8>) -> Result<(), ParseError> {
    let icrc = compute(packet)?;
    packet.extend_from_slice(&icrc.to_le_bytes());
    Ok(())
}

/// Register after the eight octets of ones, the IPv6 header, the UDP header and the first eight octets of the BTH (up
/// to and including the Destination QP), all masked. A datapath continues it over the remaining octets with [`TABLE`],
/// and inverts it at the end.
pub const fn seed(ipv6: &[u8; Ipv6::LEN], udp: &[u8; Udp::LEN], bth_first_8: &[u8; 8]) -> u32 {
    let crc = Crc::START.update_masked(ipv6, 0).update_masked(udp, Ipv6::LEN);
    crc.update_masked(bth_first_8, Ipv6::LEN + Udp::LEN).0
}

impl Crc {
    /// The register after the eight octets of ones that stand for the LRH: where every ICRC begins.
    pub const START: Self = Self(u32::MAX).update(&[0xff; 8]);

    /// Feeds octets that stand at `offset` from the IPv6 header, with masked bits taken as ones.
    const fn update_masked(mut self, octets: &[u8], offset: usize) -> Self {
        let mut i = 0;
        while i < octets.len() {
            self = self.update(&[octets[i] | mask(offset + i)]);
            i += 1;
        }
        self
    }
}

/// Bits that the ICRC takes as ones in the octet at `offset`.
const fn mask(offset: usize) -> u8 {
    if offset < HEADERS_LEN { MASK[offset] } else { 0 }
}

fn split(packet: &[u8]) -> Result<(&[u8], u32), ParseError> {
    let (covered, octets) = packet.split_last_chunk::<LEN>().ok_or_else(|| truncated(HEADER, LEN, packet.len()))?;
    Ok((covered, u32::from_le_bytes(*octets)))
}

fn truncated(header: &'static str, needed: usize, available: usize) -> ParseError {
    ParseError { header, field: "length", problem: Problem::Truncated { needed, available } }
}

#[cfg(all(test, feature = "alloc"))]
mod tests;
