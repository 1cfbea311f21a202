// SPDX-License-Identifier: Apache-2.0
//! The octets of an outer header, as the BPF program puts them in front of a packet (RFC 8986 section 5.2, RFC 8754).

use std::net::Ipv6Addr;

use canopy_bpf::steer::types::steer_program;
use canopy_host_core::steering::PathId;
use canopy_packet::ipv6::{Ipv6, NEXT_HEADER_IPV6, NEXT_HEADER_ROUTING};
use canopy_packet::srh::Srh;
use canopy_paths::program::Header;

/// Hop Limit of the outer header.
const HOP_LIMIT: u8 = 64;

/// The program of `header` from `source`, whose packets have the path id as flow label.
///
/// # Errors
/// The header is longer than the datapath has room for.
pub(crate) fn program(id: PathId, source: Ipv6Addr, header: &Header, most: u32) -> anyhow::Result<steer_program> {
    let mut program = steer_program { most, ..steer_program::default() };
    // At most 96.
    program.length = emit(&mut program.header, source, 0, id.get(), header)? as u32;
    Ok(program)
}

/// The outer header of a packet of `length` octets that is no packet of a program: its flow label is zero.
///
/// # Errors
/// As [`program`].
pub(crate) fn outer(source: Ipv6Addr, traffic_class: u8, header: &Header, length: usize) -> anyhow::Result<Vec<u8>> {
    let mut octets = steer_program::default().header;
    let with = emit(&mut octets, source, traffic_class, 0, header)?;
    octets[4..6].copy_from_slice(&u16::try_from(with - Ipv6::LEN + length)?.to_be_bytes());
    Ok(octets[..with].to_vec())
}

/// Returns how many octets it has.
fn emit(out: &mut [u8], src: Ipv6Addr, traffic_class: u8, flow_label: u32, header: &Header) -> anyhow::Result<usize> {
    let has_srh = !header.segments.is_empty();
    let outer = Ipv6 {
        traffic_class,
        flow_label,
        payload_len: 0,
        next_header: if has_srh { NEXT_HEADER_ROUTING } else { NEXT_HEADER_IPV6 },
        hop_limit: HOP_LIMIT,
        src,
        dst: header.destination,
    };
    outer.emit(out)?;
    let mut length = Ipv6::LEN;
    if has_srh {
        let srh = Srh {
            next_header: NEXT_HEADER_IPV6,
            segments_left: header.segments_left,
            flags: 0,
            tag: 0,
            segments: header.segments.clone(),
            tlvs: Vec::new(),
            hmac: None,
        };
        length += srh.emit(&mut out[Ipv6::LEN..])?;
    }
    Ok(length)
}

/// The source and header of a program that an earlier process has written; `None`: it has written something else.
pub(crate) fn read(program: &steer_program) -> Option<(Ipv6Addr, Header)> {
    let octets = program.header.get(..usize::try_from(program.length).ok()?)?;
    let outer = Ipv6::parse(octets).ok()?;
    let (segments, segments_left) = match outer.next_header {
        NEXT_HEADER_IPV6 => (Vec::new(), 0),
        NEXT_HEADER_ROUTING => {
            let srh = Srh::parse(&octets[Ipv6::LEN..]).ok()?;
            (srh.segments, srh.segments_left)
        }
        _ => return None,
    };
    Some((outer.src, Header { destination: outer.dst, segments, segments_left }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The octets are worked out by hand from RFC 8200 and RFC 8754.
    #[test]
    fn a_program_has_the_octets_of_the_rfcs() {
        let id = PathId::new(0x1234).unwrap();
        let source: Ipv6Addr = "2001:db8:1::9".parse().unwrap();
        let plain = Header { destination: "5f00:0:1:65:2::".parse().unwrap(), segments: Vec::new(), segments_left: 0 };
        let wire = program(id, source, &plain, 8960).unwrap();
        assert_eq!((wire.length, wire.most), (40, 8960));
        assert_eq!(wire.header[..8], [0x60, 0x00, 0x12, 0x34, 0, 0, 41, 64]);
        assert_eq!(read(&wire), Some((source, plain.clone())));
        let segments: Vec<Ipv6Addr> = ["5f00:0:d::", "5f00::7:8:9:a:b:c"].map(|a| a.parse().unwrap()).to_vec();
        let long = Header { segments, segments_left: 2, ..plain };
        let wire = program(id, source, &long, 8960).unwrap();
        assert_eq!((wire.length, wire.header[6]), (80, 43));
        assert_eq!(wire.header[40..48], [41, 4, 4, 2, 1, 0, 0, 0]);
        assert_eq!(wire.header[48..50], [0x5f, 0]);
        assert_eq!(read(&wire), Some((source, long.clone())));
        let too_long = Header { segments: vec![source; 4], segments_left: 4, ..long };
        assert!(program(id, source, &too_long, 8960).is_err());
        assert_eq!(read(&steer_program::default()), None);
    }
}
