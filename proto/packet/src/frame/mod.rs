// SPDX-License-Identifier: Apache-2.0
//! One whole RoCEv2-over-IPv6 packet, IBTA annex A17, of the Reliable Connection service or a CNP.
//!
//! ```text
//! +------+-----+-----+-------------------+---------+-----------+------+
//! | IPv6 | UDP | BTH | extension headers | payload | pad 0..=3 | ICRC |
//! +------+-----+-----+-------------------+---------+-----------+------+
//!         |<-------------------- UDP Length ------------------------->|
//! ```
//!
//! The OpCode determines the extension headers: [`Extensions`]. Other transport services (for example the datagrams of
//! QP1) have extension headers that this crate does not implement, and are refused; parse those header by header.

#[cfg(feature = "alloc")]
mod builder;
mod extensions;

#[cfg(feature = "alloc")]
pub use builder::RoceBuilder;
pub use extensions::Extensions;

use crate::bth::{Bth, Opcode};
use crate::error::{ParseError, Problem};
use crate::icrc;
use crate::ipv6::{Ipv6, Ipv6View, NEXT_HEADER_UDP};
use crate::udp::{ROCE_PORT, Udp, UdpView};

/// A RoCEv2 packet: headers as values, payload in place.
#[derive(Debug, Clone, Copy)]
pub struct RoceFrame<'a> {
    /// IPv6 header.
    pub ipv6: Ipv6,
    /// UDP header.
    pub udp: Udp,
    /// Base Transport Header.
    pub bth: Bth,
    /// The extension headers that the OpCode requires.
    pub extensions: Extensions,
    /// Payload, without pad.
    pub payload: &'a [u8],
    /// Pad Count octets after the payload.
    pub pad: &'a [u8],
    /// The ICRC in the packet, valid or not; see [`RoceFrame::icrc_is_valid`].
    pub icrc: u32,
    packet: &'a [u8],
}

impl<'a> RoceFrame<'a> {
    /// Parses a packet that starts with its IPv6 header. Octets after Payload Length (Ethernet padding) are ignored.
    ///
    /// Fails, naming header and field, unless UDP follows IPv6 directly, the port is [`ROCE_PORT`], UDP Length equals
    /// Payload Length, TVer is 0, the OpCode is RC or CNP, and extension headers, pad and ICRC fit and leave payload
    /// and pad at a multiple of 4 octets (none, if the OpCode has no payload). The ICRC is not checked.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let ipv6_view = Ipv6View::parse(bytes)?;
        expect("IPv6", "Next Header", NEXT_HEADER_UDP, ipv6_view.next_header())?;
        let ipv6 = Ipv6::parse(bytes)?;
        let len = Ipv6::LEN + usize::from(ipv6.payload_len);
        let packet = bytes.get(..len).ok_or_else(|| {
            let problem = Problem::Truncated { needed: len, available: bytes.len() };
            ParseError { header: "IPv6", field: "Payload Length", problem }
        })?;
        let udp_view = UdpView::parse(&packet[Ipv6::LEN..])?;
        let udp = Udp::parse(&packet[Ipv6::LEN..])?;
        expect("UDP", "Destination Port", ROCE_PORT, udp.dst_port)?;
        expect("UDP", "Length", ipv6.payload_len, udp.length)?;
        let bth = Bth::parse(udp_view.payload())?;
        expect("BTH", "TVer", 0, bth.version)?;
        let (extensions, rest) = Extensions::parse(bth.opcode, &udp_view.payload()[Bth::LEN..])?;
        let (body, icrc) = rest.split_last_chunk::<{ icrc::LEN }>().ok_or_else(|| {
            let problem = Problem::Truncated { needed: icrc::LEN, available: rest.len() };
            ParseError { header: "ICRC", field: "length", problem }
        })?;
        let (payload, pad) = split_pad(&bth, body)?;
        let icrc = u32::from_le_bytes(*icrc);
        Ok(Self { ipv6, udp, bth, extensions, payload, pad, icrc, packet })
    }

    /// Whether the ICRC is that of the packet.
    pub fn icrc_is_valid(&self) -> bool {
        icrc::verify(self.packet) == Ok(true)
    }

    /// The packet from its IPv6 header to the end of its ICRC.
    pub fn packet(&self) -> &'a [u8] {
        self.packet
    }

    /// Octets from the end of the BTH to the ICRC: the distance that [`icrc::xpow8`] needs.
    pub fn octets_behind_bth(&self) -> usize {
        self.packet.len() - icrc::HEADERS_LEN - icrc::LEN
    }
}

fn split_pad<'a>(bth: &Bth, body: &'a [u8]) -> Result<(&'a [u8], &'a [u8]), ParseError> {
    let pad_count = usize::from(bth.pad_count);
    let payload_len = body.len().checked_sub(pad_count).ok_or_else(|| {
        let problem = Problem::Truncated { needed: pad_count, available: body.len() };
        ParseError { header: "BTH", field: "Pad Count", problem }
    })?;
    if !bth.opcode.has_payload() && !body.is_empty() {
        let problem = Problem::Expected { expected: 0, found: body.len() as u64 };
        return Err(ParseError { header: bth.opcode.name(), field: "payload length", problem });
    }
    if !body.len().is_multiple_of(4) {
        let expected = (payload_len.next_multiple_of(4) - payload_len) as u64;
        let problem = Problem::Expected { expected, found: pad_count as u64 };
        return Err(ParseError { header: "BTH", field: "Pad Count", problem });
    }
    Ok(body.split_at(payload_len))
}

fn expect<T: Into<u64> + PartialEq>(
    header: &'static str,
    field: &'static str,
    expected: T,
    found: T,
) -> Result<(), ParseError> {
    if expected == found {
        return Ok(());
    }
    let problem = Problem::Expected { expected: expected.into(), found: found.into() };
    Err(ParseError { header, field, problem })
}

/// The OpCodes whose extension headers are known.
fn known(opcode: Opcode) -> bool {
    opcode.is_rc() || opcode == Opcode::CNP
}

#[cfg(all(test, feature = "alloc"))]
mod tests;
