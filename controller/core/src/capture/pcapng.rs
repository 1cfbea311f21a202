// SPDX-License-Identifier: Apache-2.0
//! Captured frames as pcapng (draft-ietf-opsawg-pcapng): one section, an interface for each node, port and direction, one packet for each
//! frame. Nodes stamp by their own clocks.

use canopy_model::capture::{CaptureDirection, MAX_HEAD};

use super::Hop;

const SECTION: u32 = 0x0A0D_0D0A;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
const BYTE_ORDER: u32 = 0x1A2B_3C4D;
/// LINKTYPE_ETHERNET.
const ETHERNET: u16 = 1;
const OPTION_END: u16 = 0;
const OPTION_NAME: u16 = 2;
const OPTION_RESOLUTION: u16 = 9;
/// Stamps are in nanoseconds: 10 to the power of minus this.
const NANOSECONDS: u8 = 9;

pub(super) fn write(hops: &[Hop]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut section = Vec::new();
    section.extend(BYTE_ORDER.to_le_bytes());
    section.extend([1, 0, 0, 0]);
    // The section's length is not given.
    section.extend([0xFF; 8]);
    block(&mut out, SECTION, &section);
    let seen: Vec<(String, &Hop)> =
        hops.iter().filter(|hop| hop.frame.is_some()).map(|hop| (interface(hop), hop)).collect();
    let mut interfaces: Vec<&str> = Vec::new();
    for (name, _) in &seen {
        if !interfaces.contains(&name.as_str()) {
            interfaces.push(name);
            describe(&mut out, name);
        }
    }
    for (name, hop) in &seen {
        let Some(frame) = &hop.frame else { continue };
        let at = interfaces.iter().position(|known| known == name).unwrap_or_default() as u32;
        let (raw, stamp) = (&frame.raw, frame.raw.time.nanos());
        let mut packet = Vec::new();
        for word in [at, (stamp >> 32) as u32, stamp as u32, raw.head.len() as u32, raw.length] {
            packet.extend(word.to_le_bytes());
        }
        packet.extend(&raw.head);
        block(&mut out, PACKET, &padded(packet));
    }
    out
}

/// `n4/eth1 in`.
fn interface(hop: &Hop) -> String {
    let direction = match hop.direction {
        CaptureDirection::In => "in",
        CaptureDirection::Out => "out",
    };
    format!("{}/{} {direction}", hop.node, hop.port)
}

fn describe(out: &mut Vec<u8>, name: &str) {
    let mut body = Vec::new();
    body.extend(ETHERNET.to_le_bytes());
    body.extend([0; 2]);
    body.extend((MAX_HEAD as u32).to_le_bytes());
    for (code, value) in [(OPTION_NAME, name.as_bytes()), (OPTION_RESOLUTION, &[NANOSECONDS]), (OPTION_END, &[])] {
        body.extend(code.to_le_bytes());
        body.extend((value.len() as u16).to_le_bytes());
        body.extend(padded(value.to_vec()));
    }
    block(out, INTERFACE, &body);
}

/// Up to a multiple of four octets.
fn padded(mut octets: Vec<u8>) -> Vec<u8> {
    octets.resize(octets.len().next_multiple_of(4), 0);
    octets
}

fn block(out: &mut Vec<u8>, kind: u32, body: &[u8]) {
    let length = (12 + body.len() as u32).to_le_bytes();
    out.extend(kind.to_le_bytes());
    out.extend(length);
    out.extend(body);
    out.extend(length);
}
