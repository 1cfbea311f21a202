// SPDX-License-Identifier: Apache-2.0
//! One RoCEv2 datagram, from its UDP header to its ICRC (IBTA annex A17), as a raw socket sends and receives it.
//!
//! The kernel owns the IPv6 header, so the ICRC is computed over a header rebuilt from addresses and length; its
//! other fields are masked anyway.

use std::net::Ipv6Addr;

use canopy_packet::aeth::Aeth;
use canopy_packet::bth::{Bth, BthView, Opcode};
use canopy_packet::icrc::{self, HEADERS_LEN};
use canopy_packet::immdt::ImmDt;
use canopy_packet::ipv6::{Ipv6, NEXT_HEADER_UDP};
use canopy_packet::reth::Reth;
use canopy_packet::udp::{ROCE_PORT, Udp, UdpView};
use canopy_packet::{EmitError, ParseError};

use crate::transfer::MTUS;

/// Octets of the largest datagram that this crate sends: a WRITE Only with Immediate of the largest MTU.
pub const DATAGRAM_MAX: usize =
    Udp::LEN + Bth::LEN + Reth::LEN + ImmDt::LEN + MTUS[MTUS.len() - 1] as usize + icrc::LEN;

const FRONT: usize = Udp::LEN + Bth::LEN;
/// Ones in place of the InfiniBand LRH, with which every ICRC begins.
const LRH: usize = 8;

/// The transport headers of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Headers {
    /// BTH; [`emit`] sets its Pad Count.
    pub bth: Bth,
    /// RETH, where the OpCode has one.
    pub reth: Option<Reth>,
    /// Immediate data, where the OpCode has one.
    pub immediate: Option<u32>,
    /// AETH, where the OpCode has one.
    pub aeth: Option<Aeth>,
}

impl Headers {
    /// Headers of a packet that has a BTH only, with the default partition key.
    pub fn new(opcode: Opcode, dest_qp: u32, psn: u32) -> Self {
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
        Self { bth, reth: None, immediate: None, aeth: None }
    }
}

/// A packet as received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Transport headers.
    pub headers: Headers,
    /// Payload without pad; the reserved octets, in a CNP.
    pub payload: &'a [u8],
}

/// Why a datagram is not a valid packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Discard {
    /// The destination is not the RoCEv2 port.
    #[error("UDP destination port {0} is not RoCEv2's")]
    Port(u16),
    /// The UDP length differs from the datagram's.
    #[error("UDP length {0} is not that of the datagram")]
    Length(u16),
    /// The ICRC does not match.
    #[error("ICRC does not match")]
    Icrc,
    /// A header does not parse.
    #[error(transparent)]
    Header(#[from] ParseError),
    /// Unknown transport header version.
    #[error("BTH version {0} is not 0")]
    Version(u8),
    /// Headers and pad are longer than the packet.
    #[error("the pad is longer than the packet")]
    Pad,
}

/// Writes a datagram to the front of `out` and returns its length. `fill` writes the `payload_len` octets of payload.
///
/// Fails if `out` is too short or a header does not encode; `out` is then undefined.
pub fn emit<E: From<EmitError>>(
    (src, dst, src_port): (Ipv6Addr, Ipv6Addr, u16),
    headers: &Headers,
    payload_len: usize,
    fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    out: &mut [u8],
) -> Result<usize, E> {
    let pad = payload_len.wrapping_neg() % 4;
    let extensions = usize::from(headers.reth.is_some()) * Reth::LEN
        + usize::from(headers.immediate.is_some()) * ImmDt::LEN
        + usize::from(headers.aeth.is_some()) * Aeth::LEN;
    let covered = FRONT + extensions + payload_len + pad;
    let length = covered + icrc::LEN;
    let udp = Udp { src_port, dst_port: ROCE_PORT, length: length as u16, checksum: 0 };
    udp.emit(out)?;
    let bth = Bth { pad_count: pad as u8, ..headers.bth };
    bth.emit(&mut out[Udp::LEN..])?;
    let mut at = FRONT;
    if let Some(reth) = headers.reth {
        reth.emit(&mut out[at..])?;
        at += Reth::LEN;
    }
    if let Some(aeth) = headers.aeth {
        aeth.emit(&mut out[at..])?;
        at += Aeth::LEN;
    }
    if let Some(immediate) = headers.immediate {
        ImmDt(immediate).emit(&mut out[at..])?;
        at += ImmDt::LEN;
    }
    if out.len() < length {
        let problem = canopy_packet::Problem::Truncated { needed: length, available: out.len() };
        return Err(EmitError { header: "ICRC", field: "buffer", problem }.into());
    }
    fill(&mut out[at..at + payload_len])?;
    out[at + payload_len..covered].fill(0);
    let icrc = compute_icrc(src, dst, &out[..covered]);
    out[covered..length].copy_from_slice(&icrc.to_le_bytes());
    Ok(length)
}

/// Parses a datagram from `src` to `dst`. Only the lengths are read before the ICRC is verified.
pub fn parse(src: Ipv6Addr, dst: Ipv6Addr, datagram: &[u8]) -> Result<Packet<'_>, Discard> {
    let udp = UdpView::parse(datagram)?;
    if udp.dst_port() != ROCE_PORT {
        return Err(Discard::Port(udp.dst_port()));
    }
    if usize::from(udp.length()) != datagram.len() {
        return Err(Discard::Length(udp.length()));
    }
    BthView::parse(udp.payload())?;
    let (covered, icrc) = match datagram.split_last_chunk::<{ icrc::LEN }>() {
        Some((covered, icrc)) if covered.len() >= FRONT => (covered, u32::from_le_bytes(*icrc)),
        _ => return Err(Discard::Pad),
    };
    if compute_icrc(src, dst, covered) != icrc {
        return Err(Discard::Icrc);
    }
    let bth = Bth::parse(&covered[Udp::LEN..])?;
    if bth.version != 0 {
        return Err(Discard::Version(bth.version));
    }
    let mut headers = Headers { bth, reth: None, immediate: None, aeth: None };
    let mut rest = &covered[FRONT..];
    if bth.opcode.has_reth() {
        headers.reth = Some(Reth::parse(rest)?);
        rest = &rest[Reth::LEN..];
    }
    if bth.opcode.has_aeth() {
        headers.aeth = Some(Aeth::parse(rest)?);
        rest = &rest[Aeth::LEN..];
    }
    if bth.opcode.has_immdt() {
        headers.immediate = Some(ImmDt::parse(rest)?.0);
        rest = &rest[ImmDt::LEN..];
    }
    let len = rest.len().checked_sub(usize::from(bth.pad_count)).ok_or(Discard::Pad)?;
    Ok(Packet { headers, payload: &rest[..len] })
}

/// ICRC of a datagram without its ICRC: as [`icrc::compute`], with CPU instructions for the CRC.
fn compute_icrc(src: Ipv6Addr, dst: Ipv6Addr, covered: &[u8]) -> u32 {
    let mut front = [0xff; LRH + HEADERS_LEN];
    let headers = &mut front[LRH..];
    headers[0] = 0x60;
    headers[4..6].copy_from_slice(&((covered.len() + icrc::LEN) as u16).to_be_bytes());
    headers[6] = NEXT_HEADER_UDP;
    headers[8..24].copy_from_slice(&src.octets());
    headers[24..Ipv6::LEN].copy_from_slice(&dst.octets());
    headers[Ipv6::LEN..].copy_from_slice(&covered[..FRONT]);
    for (octet, mask) in headers.iter_mut().zip(icrc::MASK) {
        *octet |= mask;
    }
    let mut crc = crc32fast::Hasher::new();
    crc.update(&front);
    crc.update(&covered[FRONT..]);
    crc.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use canopy_packet::aeth::Syndrome;
    use proptest::prelude::*;

    const SRC: Ipv6Addr = Ipv6Addr::new(0xfd00, 1, 0, 0, 0, 0, 0, 1);
    const DST: Ipv6Addr = Ipv6Addr::new(0xfd00, 2, 0, 0, 0, 0, 0, 1);

    fn encode(headers: &Headers, payload: &[u8]) -> Vec<u8> {
        let mut out = vec![0xaa; DATAGRAM_MAX];
        let fill = |to: &mut [u8]| -> Result<(), EmitError> {
            to.copy_from_slice(payload);
            Ok(())
        };
        let path = (SRC, DST, 50_000);
        let length = emit(path, headers, payload.len(), fill, &mut out).unwrap();
        out.truncate(length);
        out
    }

    fn headers(opcode: Opcode) -> Headers {
        let mut headers = Headers::new(opcode, 0x11, 0xff_fffe);
        headers.bth.ack_req = true;
        headers.reth = opcode.has_reth().then_some(Reth { va: 1, rkey: 2, dma_len: 3 });
        headers.immediate = opcode.has_immdt().then_some(9);
        let aeth = Aeth { syndrome: Syndrome::NAK_PSN_SEQUENCE, msn: 77 };
        headers.aeth = opcode.has_aeth().then_some(aeth);
        headers
    }

    #[test]
    fn the_largest_packet_fits_exactly() {
        let packet = encode(&headers(Opcode::WRITE_ONLY_IMM), &[1; 4096]);
        assert_eq!(packet.len(), DATAGRAM_MAX);
    }

    #[test]
    fn a_buffer_that_is_short_is_refused() {
        let fill = |_: &mut [u8]| -> Result<(), EmitError> { Ok(()) };
        let send = headers(Opcode::SEND_ONLY);
        assert!(emit((SRC, DST, 1), &send, 4, fill, &mut [0; 27]).is_err());
        assert!(emit((SRC, DST, 1), &send, 4, fill, &mut [0; 28]).is_ok());
    }

    proptest! {
        #[test]
        fn every_opcode_and_length_survives_with_an_icrc_that_the_packet_crate_accepts(
            opcode in 0_u8..0x12, payload in prop::collection::vec(any::<u8>(), 0..70),
        ) {
            let headers = headers(Opcode(opcode));
            let datagram = encode(&headers, &payload);
            let parsed = parse(SRC, DST, &datagram).unwrap();
            let pad_count = (datagram[9] >> 4) & 3;
            let bth = Bth { pad_count, ..headers.bth };
            prop_assert_eq!(parsed, Packet { headers: Headers { bth, ..headers }, payload: &payload });
            let ipv6 = Ipv6 {
                traffic_class: 3, flow_label: 0x12345, payload_len: datagram.len() as u16,
                next_header: NEXT_HEADER_UDP, hop_limit: 7, src: SRC, dst: DST,
            };
            let mut whole = vec![0; Ipv6::LEN];
            ipv6.emit(&mut whole).unwrap();
            whole.extend_from_slice(&datagram);
            prop_assert!(icrc::verify(&whole).unwrap());
        }

        #[test]
        fn no_flipped_bit_outside_the_mask_passes(bit in 0_usize..(8 * (8 + 12 + 20 + 4))) {
            let mut datagram = encode(&headers(Opcode::SEND_ONLY), &[5; 20]);
            datagram[bit / 8] ^= 1 << (bit % 8);
            let masked = matches!(bit / 8, 6 | 7 | 12);
            prop_assert_eq!(parse(SRC, DST, &datagram).is_ok(), masked);
        }

        #[test]
        fn arbitrary_octets_never_panic(octets in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = parse(SRC, DST, &octets);
        }
    }
}
