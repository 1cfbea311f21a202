// SPDX-License-Identifier: Apache-2.0
//! Reads and writes captures: classic pcap, microseconds or nanoseconds, either byte order, link type Ethernet.

use std::path::{Path, PathBuf};

const LINKTYPE_ETHERNET: u32 = 1;
const ETHERTYPE_IPV6: [u8; 2] = [0x86, 0xdd];
const ETHERNET_LEN: usize = 14;

/// The captures of `proto/packet/testdata/rxe`, by name.
pub const CAPTURES: [&str; 8] = [
    "atomic",
    "read-1024",
    "send-1024",
    "send-4096",
    "send-loss-1024",
    "write-4096",
    "write-loss-1024",
    "write-odd-1024",
];

/// Path of a capture.
pub fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto/packet/testdata/rxe").join(name).with_extension("pcap")
}

/// The IPv6 packets of a capture, from the IPv6 header on.
///
/// # Panics
/// The capture cannot be read, or has something else in it.
pub fn packets(name: &str) -> Vec<Vec<u8>> {
    let path = path(name);
    let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let packets = read(&bytes);
    assert!(!packets.is_empty(), "{name}: no packet");
    packets
}

/// All packets of all captures.
pub fn all_packets() -> Vec<Vec<u8>> {
    CAPTURES.iter().flat_map(|name| packets(name)).collect()
}

fn read(file: &[u8]) -> Vec<Vec<u8>> {
    let big_endian = match file[..4] {
        [0xa1, 0xb2, 0xc3, 0xd4] | [0xa1, 0xb2, 0x3c, 0x4d] => true,
        [0xd4, 0xc3, 0xb2, 0xa1] | [0x4d, 0x3c, 0xb2, 0xa1] => false,
        _ => panic!("not a classic pcap: magic {:02x?}", &file[..4]),
    };
    let u32_at = |at: usize| {
        let octets: [u8; 4] = file[at..at + 4].try_into().unwrap();
        if big_endian { u32::from_be_bytes(octets) } else { u32::from_le_bytes(octets) }
    };
    assert_eq!(u32_at(20) & 0xffff, LINKTYPE_ETHERNET, "link type");
    let mut packets = Vec::new();
    let mut at = 24;
    while at < file.len() {
        let (captured, original) = (u32_at(at + 8) as usize, u32_at(at + 12) as usize);
        assert_eq!(captured, original, "packet {} was cut short", packets.len());
        let frame = &file[at + 16..at + 16 + captured];
        assert_eq!(frame[12..14], ETHERTYPE_IPV6, "packet {} is not IPv6", packets.len());
        packets.push(frame[ETHERNET_LEN..].to_vec());
        at += 16 + captured;
    }
    packets
}

/// A capture of IPv6 packets, as the octets of a pcap file.
pub fn write(packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    let u32s = |file: &mut Vec<u8>, values: &[u32]| {
        values.iter().for_each(|value| file.extend(value.to_be_bytes()));
    };
    u32s(&mut file, &[0xa1b2_c3d4, 0x0002_0004, 0, 0, 262_144, LINKTYPE_ETHERNET]);
    for packet in packets {
        let len = (ETHERNET_LEN + packet.len()) as u32;
        u32s(&mut file, &[0, 0, len, len]);
        file.extend([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
        file.extend(ETHERTYPE_IPV6);
        file.extend(packet);
    }
    file
}
