// SPDX-License-Identifier: Apache-2.0
//! The octets of a probe: a STAMP Session-Sender packet (RFC 8762 section 4.2.1, RFC 8972) from this host to itself, behind a program that leads
//! there and back (loopback of draft-ietf-spring-stamp-srpm).

use std::net::Ipv6Addr;

use canopy_packet::ipv6::{Ipv6, NEXT_HEADER_UDP};
use canopy_packet::stamp::{
    ErrorEstimate, LEN, PORT, SESSION, SenderPacket, TLV_EXTRA_PADDING, TLV_LEN, TLV_UNRECOGNIZED,
};
use canopy_packet::udp::{self, Udp};
use canopy_paths::program::Header;

use crate::header;

const HOP_LIMIT: u8 = 64;
/// Not known to be synchronised, NTP format, accurate within 2^-10 s.
const ESTIMATE: ErrorEstimate = ErrorEstimate { synchronized: false, ptp: false, scale: 22, multiplier: 1 };
/// Octets that only this process knows, in the padding.
pub(crate) type Secret = [u8; 8];
/// Octets of the shortest probe behind the outer header.
pub(crate) const SHORTEST: usize = Ipv6::LEN + Udp::LEN + LEN + TLV_LEN + size_of::<Secret>();
/// Longest probe: with the longest outer header, it is an IPv6 packet without a jumbo payload.
const LONGEST: usize = 65_000;

/// What all probes of a host have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender {
    /// From where, and to where.
    pub(crate) address: Ipv6Addr,
    /// DSCP and ECN of both headers.
    pub(crate) traffic_class: u8,
    pub(crate) secret: Secret,
}

/// One probe.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Content<'a> {
    pub(crate) header: &'a Header,
    /// STAMP Session Identifier.
    pub(crate) way: u16,
    pub(crate) sequence: u32,
    /// In the format of NTP.
    pub(crate) timestamp: u64,
    /// Octets behind the outer header, at least [`SHORTEST`] of them are sent.
    pub(crate) length: usize,
}

/// The whole IPv6 packet.
///
/// # Errors
/// The header is longer than the datapath has room for.
pub(crate) fn packet(from: &Sender, content: &Content<'_>) -> anyhow::Result<Vec<u8>> {
    let length = content.length.clamp(SHORTEST, LONGEST);
    let mut packet = header::outer(from.address, from.traffic_class, content.header, length)?;
    let at = packet.len();
    packet.resize(at + length, 0);
    let inner = Ipv6 {
        traffic_class: from.traffic_class,
        // GRO merges packets of one flow alone.
        flow_label: content.way.into(),
        payload_len: (length - Ipv6::LEN) as u16,
        next_header: NEXT_HEADER_UDP,
        hop_limit: HOP_LIMIT,
        src: from.address,
        dst: from.address,
    };
    inner.emit(&mut packet[at..])?;
    let datagram = &mut packet[at + Ipv6::LEN..];
    let mut udp = Udp { src_port: PORT, dst_port: PORT, length: datagram.len() as u16, checksum: 0 };
    udp.emit(datagram)?;
    let stamp = &mut datagram[Udp::LEN..];
    let base = SenderPacket { sequence: content.sequence, timestamp: content.timestamp, error_estimate: ESTIMATE };
    base.emit(stamp)?;
    stamp[SESSION].copy_from_slice(&content.way.to_be_bytes());
    let (tlv, padding) = stamp[LEN..].split_at_mut(TLV_LEN);
    tlv[..2].copy_from_slice(&[TLV_UNRECOGNIZED, TLV_EXTRA_PADDING]);
    tlv[2..].copy_from_slice(&(padding.len() as u16).to_be_bytes());
    padding[..from.secret.len()].copy_from_slice(&from.secret);
    udp.checksum = udp::checksum(from.address, from.address, datagram);
    udp.emit(datagram)?;
    Ok(packet)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Octets worked out by hand from RFC 8200, RFC 768, RFC 8762 and RFC 8972.
    #[test]
    fn a_probe_has_the_octets_of_the_rfcs() {
        let address: Ipv6Addr = "2001:db8:1::9".parse().unwrap();
        let header =
            Header { destination: "5f00:0:1:65:2:65:1::".parse().unwrap(), segments: Vec::new(), segments_left: 0 };
        let from = Sender { address, traffic_class: 0x6a, secret: [1, 2, 3, 4, 5, 6, 7, 8] };
        let content =
            Content { header: &header, way: 0x102, sequence: 0xA0B0_C0D0, timestamp: 0x1112_1314_1516_1718, length: 0 };
        let out = packet(&from, &content).unwrap();
        assert_eq!(out.len(), 40 + 104);
        assert_eq!(out[..8], [0x66, 0xa0, 0, 0, 0, 104, 41, 64]);
        assert_eq!(out[8..24], address.octets());
        assert_eq!(out[24..40], header.destination.octets());
        assert_eq!(out[40..48], [0x66, 0xa0, 0x01, 0x02, 0, 64, 17, 64]);
        assert_eq!((&out[48..64], &out[64..80]), (&address.octets()[..], &address.octets()[..]));
        assert_eq!(out[80..86], [0x03, 0x5e, 0x03, 0x5e, 0, 64]);
        assert_eq!(out[88..104], [0xa0, 0xb0, 0xc0, 0xd0, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 22, 1, 1, 2]);
        assert_eq!(out[104..132], [0; 28]);
        assert_eq!(out[132..], [0x80, 1, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8]);
        // RFC 1071: with the pseudo-header the sum is all ones.
        let words = out[48..80].chunks(2).chain(out[80..].chunks(2));
        let sum: u32 = words.map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum::<u32>() + 64 + 17;
        assert_eq!((sum >> 16) + (sum & 0xffff), 0xffff);
        let long = packet(&from, &Content { length: 8920, ..content }).unwrap();
        assert_eq!((long.len(), &long[4..6], &long[44..46]), (8960, &[0x22, 0xd8][..], &[0x22, 0xb0][..]));
        assert_eq!(long[132..136], [0x80, 1, 0x22, 0x78]);
        assert_eq!(packet(&from, &Content { length: 1 << 20, ..content }).unwrap().len(), 40 + 65_000);
    }
}
