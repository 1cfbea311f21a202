// SPDX-License-Identifier: Apache-2.0
//! The two ends of a Reliable Connection, and which datagrams belong to it.

use std::net::Ipv6Addr;

use canopy_packet::EmitError;
use canopy_packet::udp::ROCE_PORT;
use serde::Serialize;

use crate::wire::{self, Discard, Headers, Packet};

/// The parameters of a connection, known to both ends before the first packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// Own address.
    pub local: Ipv6Addr,
    /// Own QPN, 24 bits.
    pub local_qpn: u32,
    /// The peer's address; a group's Proxy Address.
    pub peer: Ipv6Addr,
    /// The peer's QPN, 24 bits; a group's Designated QPN.
    pub peer_qpn: u32,
    /// PSN of the first request, 24 bits.
    pub start_psn: u32,
    /// Path MTU, octets of payload per packet.
    pub mtu: u32,
}

impl Connection {
    /// UDP source port: one per QP in 49152..=65535, so that ECMP keeps the path of a QP (IBTA annex A17.3.1).
    pub fn src_port(&self) -> u16 {
        let mixed = self.local_qpn ^ self.local_qpn >> 14;
        0xc000 | (mixed & 0x3fff) as u16
    }

    /// Writes a datagram to the peer to the front of `out`; see [`wire::emit`].
    pub fn emit<E: From<EmitError>>(
        &self,
        headers: &Headers,
        payload_len: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
        out: &mut [u8],
    ) -> Result<usize, E> {
        wire::emit((self.local, self.peer, self.src_port()), headers, payload_len, fill, out)
    }
}

/// Datagrams that were not for the state machine, by reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Ingress {
    /// The ICRC does not match.
    pub bad_icrc: u64,
    /// Not a RoCEv2 packet, although the ICRC matches, or too short for one.
    pub malformed: u64,
    /// A valid packet from an address other than the peer's.
    pub wrong_source: u64,
    /// A valid packet from the peer to another QP.
    pub wrong_qp: u64,
}

impl Ingress {
    /// Returns the packet in a datagram from `src` if it is valid and belongs to this connection; else counts it.
    pub fn accept<'a>(&mut self, connection: &Connection, src: Ipv6Addr, datagram: &'a [u8]) -> Option<Packet<'a>> {
        let packet = match wire::parse(src, connection.local, datagram) {
            Ok(packet) => packet,
            Err(Discard::Port(port)) => {
                debug_assert_ne!(port, ROCE_PORT);
                return None;
            }
            Err(Discard::Icrc) => {
                self.bad_icrc += 1;
                return None;
            }
            Err(_) => {
                self.malformed += 1;
                return None;
            }
        };
        if src != connection.peer {
            self.wrong_source += 1;
            return None;
        }
        if packet.headers.bth.dest_qp != connection.local_qpn {
            self.wrong_qp += 1;
            return None;
        }
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use canopy_packet::bth::Opcode;

    const LOCAL: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
    const PEER: Ipv6Addr = Ipv6Addr::new(0xfcfe, 0, 0, 0, 0, 0, 0, 1);

    fn connection() -> Connection {
        Connection { local: LOCAL, local_qpn: 0x11, peer: PEER, peer_qpn: 9, start_psn: 0, mtu: 1024 }
    }

    fn datagram(src: Ipv6Addr, dst: Ipv6Addr, qpn: u32) -> Vec<u8> {
        let mut out = vec![0; 100];
        let headers = Headers::new(Opcode::SEND_ONLY, qpn, 5);
        let fill = |_: &mut [u8]| -> Result<(), EmitError> { Ok(()) };
        let length = wire::emit((src, dst, 50_000), &headers, 0, fill, &mut out).unwrap();
        out.truncate(length);
        out
    }

    #[test]
    fn only_sound_packets_from_the_peer_to_this_qp_pass() {
        let mut ingress = Ingress::default();
        let connection = connection();
        let mut accept = |src, octets: &[u8]| ingress.accept(&connection, src, octets).is_some();
        assert!(accept(PEER, &datagram(PEER, LOCAL, 0x11)));
        assert!(!accept(PEER, &datagram(PEER, LOCAL, 0x12)));
        assert!(!accept(LOCAL, &datagram(LOCAL, LOCAL, 0x11)));
        // An address rewritten without fixing the ICRC.
        assert!(!accept(PEER, &datagram(LOCAL, LOCAL, 0x11)));
        assert!(!accept(PEER, &[0; 5]));
        let expected = Ingress { bad_icrc: 1, malformed: 1, wrong_source: 1, wrong_qp: 1 };
        assert_eq!(ingress, expected);
    }

    #[test]
    fn the_source_port_is_dynamic_and_differs_between_neighbouring_qps() {
        let port = |local_qpn| Connection { local_qpn, ..connection() }.src_port();
        assert!((0..10_000).all(|qpn| port(qpn) >= 49_152));
        assert_ne!(port(0x11), port(0x12));
        assert_ne!(port(1), port(1 | 1 << 14));
    }
}
