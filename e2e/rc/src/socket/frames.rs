// SPDX-License-Identifier: Apache-2.0
//! Frames as other NICs and the kernel's own UDP make them, in place of those of a raw socket.

use std::io;
use std::net::{Ipv6Addr, SocketAddrV6};
use std::os::fd::{AsRawFd, OwnedFd};

use canopy_packet::ipv6::{Ipv6, NEXT_HEADER_UDP};
use canopy_packet::udp::Udp;
use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{AddressFamily, LinkAddr, MsgFlags, SockFlag, SockType, SockaddrLike, bind, send, socket};
use socket2::{Domain, Protocol, Socket, Type};

/// Ethertypes of IPv6, and of a VLAN tag (IEEE 802.1Q).
const IPV6: [u8; 2] = [0x86, 0xDD];
const TAG: [u8; 2] = [0x81, 0];
/// VID 0 with priority 3, as a NIC tags frames of a lossless class on a port without VLANs.
const PRIORITY: [u8; 2] = [3 << 5, 0];
/// What is behind a padded packet.
const PADDING: [u8; 7] = [0xA5; 7];
/// Where the checksum is in a UDP header.
const CHECKSUM: std::ops::Range<usize> = 6..8;

/// What the frames are like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Sent by a UDP socket, whose checksum the kernel leaves to the interface if that can compute it (CHECKSUM_PARTIAL).
    Udp,
    /// With a priority tag, to this link-layer address.
    Tagged([u8; 6]),
    /// With a complete UDP checksum, and octets behind the packet, to this link-layer address.
    Padded([u8; 6]),
}

/// Sends the frames of one address.
#[derive(Debug)]
pub(super) struct Frames {
    shape: Shape,
    local: Ipv6Addr,
    traffic_class: u8,
    /// A UDP or a packet socket.
    socket: OwnedFd,
    /// Link-layer addresses, up to the IPv6 header.
    ethernet: Vec<u8>,
}

impl Frames {
    /// Opens a socket for frames of `shape` from a local address.
    pub(super) fn open(shape: Shape, local: Ipv6Addr, traffic_class: u8) -> io::Result<Self> {
        let (socket, ethernet) = match shape {
            Shape::Udp => (udp(traffic_class)?, Vec::new()),
            Shape::Tagged(to) => packet(local, to, &[&TAG[..], &PRIORITY, &IPV6])?,
            Shape::Padded(to) => packet(local, to, &[&IPV6])?,
        };
        Ok(Self { shape, local, traffic_class, socket, ethernet })
    }

    /// Sends one datagram, from its UDP header on.
    pub(super) fn send(&self, to: Ipv6Addr, datagram: &[u8]) -> nix::Result<()> {
        if self.shape == Shape::Udp {
            return self.send_udp(to, datagram);
        }
        let mut frame = self.ethernet.clone();
        let at = frame.len();
        frame.resize(at + Ipv6::LEN, 0);
        self.header(to, datagram.len()).emit(&mut frame[at..]).map_err(|_| Errno::EINVAL)?;
        frame.extend_from_slice(datagram);
        if let Shape::Padded(_) = self.shape {
            fill_checksum_in(&mut frame[at..]);
            frame.extend(PADDING);
        }
        send(self.socket.as_raw_fd(), &frame, MsgFlags::MSG_DONTWAIT).map(drop)
    }

    fn header(&self, dst: Ipv6Addr, payload: usize) -> Ipv6 {
        Ipv6 {
            traffic_class: self.traffic_class,
            flow_label: 0,
            payload_len: payload as u16,
            next_header: NEXT_HEADER_UDP,
            hop_limit: 64,
            src: self.local,
            dst,
        }
    }

    /// The kernel writes the UDP header that the datagram has: the first one determines the source port of all.
    fn send_udp(&self, to: Ipv6Addr, datagram: &[u8]) -> nix::Result<()> {
        let udp = Udp::parse(datagram).map_err(|_| Errno::EINVAL)?;
        let from = SocketAddrV6::new(self.local, udp.src_port, 0, 0);
        match bind(self.socket.as_raw_fd(), &nix::sys::socket::SockaddrIn6::from(from)) {
            // It is bound already.
            Ok(()) | Err(Errno::EINVAL) => {}
            Err(error) => return Err(error),
        }
        let to = nix::sys::socket::SockaddrIn6::from(SocketAddrV6::new(to, udp.dst_port, 0, 0));
        let payload = datagram.get(Udp::LEN..).unwrap_or_default();
        nix::sys::socket::sendto(self.socket.as_raw_fd(), payload, &to, MsgFlags::MSG_DONTWAIT).map(drop)
    }
}

fn udp(traffic_class: u8) -> io::Result<OwnedFd> {
    let socket = Socket::new(Domain::IPV6, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_tclass_v6(u32::from(traffic_class))?;
    Ok(socket.into())
}

/// A packet socket of the interface with this address, and the Ethernet header of its frames.
fn packet(local: Ipv6Addr, to: [u8; 6], types: &[&[u8]]) -> io::Result<(OwnedFd, Vec<u8>)> {
    let has =
        |i: &nix::ifaddrs::InterfaceAddress| i.address.and_then(|a| Some(a.as_sockaddr_in6()?.ip())) == Some(local);
    let unknown = || io::Error::new(io::ErrorKind::AddrNotAvailable, "no interface has the address");
    let name = getifaddrs()?.find(has).ok_or_else(unknown)?.interface_name;
    let link =
        |i: nix::ifaddrs::InterfaceAddress| (i.interface_name == name).then(|| i.address?.as_link_addr().copied())?;
    let interface: LinkAddr = getifaddrs()?.find_map(link).ok_or_else(unknown)?;
    debug_assert!(interface.family() == Some(AddressFamily::Packet));
    let fd = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None)?;
    bind(fd.as_raw_fd(), &interface)?;
    let own = interface.addr().ok_or_else(unknown)?;
    Ok((fd, [&to[..], &own, &types.concat()].concat()))
}

/// RFC 8200 section 8.1, over a packet from its IPv6 header on.
fn fill_checksum_in(packet: &mut [u8]) {
    let (ip, udp) = packet.split_at_mut(Ipv6::LEN);
    udp[CHECKSUM].fill(0);
    let length = [0, 0, ip[4], ip[5], 0, 0, 0, NEXT_HEADER_UDP];
    let words = |octets: &[u8]| -> u32 {
        octets.chunks(2).map(|c| u32::from(c[0]) << 8 | c.get(1).copied().map_or(0, u32::from)).sum()
    };
    let mut sum = words(&ip[8..]) + words(&length) + words(udp);
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    let checksum = match !(sum as u16) {
        0 => 0xFFFF,
        other => other,
    };
    udp[CHECKSUM].copy_from_slice(&checksum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_one_that_scapy_computes() {
        // scapy 2.8: IPv6(src="2001:db8::1", dst="2001:db8::2")/UDP(sport=1, dport=2)/b"abc".
        let ip = Ipv6 {
            traffic_class: 0,
            flow_label: 0,
            payload_len: 11,
            next_header: NEXT_HEADER_UDP,
            hop_limit: 64,
            src: "2001:db8::1".parse().unwrap(),
            dst: "2001:db8::2".parse().unwrap(),
        };
        let mut packet = vec![0; Ipv6::LEN];
        ip.emit(&mut packet).unwrap();
        packet.extend([0, 1, 0, 2, 0, 11, 9, 9, b'a', b'b', b'c']);
        fill_checksum_in(&mut packet);
        assert_eq!(packet[46..48], [0xDF, 0xFD]);
    }
}
