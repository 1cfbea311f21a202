// SPDX-License-Identifier: Apache-2.0
//! A UDP socket on one interface, with receive timestamps of the kernel.

use std::ffi::c_int;
use std::io::{self, ErrorKind, IoSliceMut};
use std::net::{Ipv6Addr, SocketAddrV6};
use std::os::fd::AsRawFd;

use canopy_agent_core::stamp::Timestamp;
use canopy_units::UnixTime;
use nix::cmsg_space;
use nix::net::if_::if_nametoindex;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrIn6, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::io::Interest;
use tokio::net::UdpSocket;

/// Length of the receive buffer; only the first 44 octets of a datagram are parsed.
const LONGEST: usize = 2048;
/// Hop Limit of sent packets (RFC 8762 section 4.2.1: the reflector reports the received one).
const HOP_LIMIT: u32 = 255;

pub(crate) struct StampSocket {
    socket: UdpSocket,
    scope: u32,
}

/// A received datagram.
pub(crate) struct Arrival {
    pub(crate) source: Ipv6Addr,
    pub(crate) source_port: u16,
    /// Received Hop Limit; 0 if the kernel did not report it.
    pub(crate) hop_limit: u8,
    time: UnixTime,
    octets: Box<[u8; LONGEST]>,
    len: usize,
}

impl StampSocket {
    /// A socket on `interface`, bound to its address `own` and to `port` (0: any).
    pub(crate) fn open(interface: &str, own: Ipv6Addr, port: u16) -> io::Result<Self> {
        let scope = if_nametoindex(interface)?;
        let socket = Socket::new(Domain::IPV6, Type::DGRAM.nonblocking().cloexec(), Some(Protocol::UDP))?;
        socket.set_only_v6(true)?;
        socket.bind_device(Some(interface.as_bytes()))?;
        socket.set_unicast_hops_v6(HOP_LIMIT)?;
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
        setsockopt(&socket, sockopt::Ipv6RecvHopLimit, &true)?;
        socket.bind(&SocketAddrV6::new(own, port, 0, scope).into())?;
        Ok(Self { socket: UdpSocket::from_std(socket.into())?, scope })
    }

    /// Sends without waiting; a packet that does not fit the socket's queue is lost, as on the wire.
    pub(crate) fn send(&self, datagram: &[u8], to: Ipv6Addr, port: u16) -> io::Result<()> {
        // Bypasses tokio, which treats a new socket as not writable until it has polled it once.
        let socket = SockRef::from(&self.socket);
        match socket.send_to(datagram, &SocketAddrV6::new(to, port, 0, self.scope).into()) {
            Ok(_) => Ok(()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Waits for the next datagram. Cancel safe.
    pub(crate) async fn receive(&self) -> io::Result<Arrival> {
        self.socket.async_io(Interest::READABLE, || receive(&self.socket)).await
    }
}

impl Arrival {
    pub(crate) fn datagram(&self) -> &[u8] {
        &self.octets[..self.len]
    }

    /// Receive timestamp.
    pub(crate) fn time(&self) -> Timestamp {
        Timestamp::from_unix(self.time)
    }
}

fn receive(socket: &UdpSocket) -> io::Result<Arrival> {
    let mut octets = Box::new([0; LONGEST]);
    let mut control = cmsg_space!(TimeSpec, c_int);
    let mut vectors = [IoSliceMut::new(octets.as_mut_slice())];
    let message = recvmsg::<SockaddrIn6>(socket.as_raw_fd(), &mut vectors, Some(&mut control), MsgFlags::MSG_DONTWAIT)?;
    let (mut time, mut hop_limit) = (None, 0);
    for control in message.cmsgs()? {
        match control {
            ControlMessageOwned::ScmTimestampns(stamp) => time = unix_time(stamp),
            ControlMessageOwned::Ipv6HopLimit(limit) => hop_limit = u8::try_from(limit).unwrap_or(0),
            _ => {}
        }
    }
    let (source, source_port) = message.address.map_or((Ipv6Addr::UNSPECIFIED, 0), |a| (a.ip(), a.port()));
    let len = message.bytes.min(LONGEST);
    // Without a timestamp of the kernel, the current time is used.
    Ok(Arrival { source, source_port, hop_limit, time: time.unwrap_or_else(UnixTime::now), octets, len })
}

fn unix_time(time: TimeSpec) -> Option<UnixTime> {
    let seconds = u64::try_from(time.tv_sec()).ok()?;
    let nanos = seconds.checked_mul(1_000_000_000)?.checked_add(u64::try_from(time.tv_nsec()).ok()?)?;
    Some(UnixTime::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Over the loopback interface: the kernel's timestamp is between send and receive, and the Hop Limit is the sender's.
    #[tokio::test]
    async fn arrivals_have_the_kernels_time_and_the_senders_hop_limit() {
        let to = StampSocket::open("lo", Ipv6Addr::LOCALHOST, 0).unwrap();
        let port = to.socket.local_addr().unwrap().port();
        let from = StampSocket::open("lo", Ipv6Addr::LOCALHOST, 0).unwrap();
        let before = UnixTime::now();
        from.send(b"abc", Ipv6Addr::LOCALHOST, port).unwrap();
        let arrival = to.receive().await.unwrap();
        assert_eq!((arrival.datagram(), arrival.hop_limit), (&b"abc"[..], 255));
        assert!((before..=UnixTime::now()).contains(&arrival.time), "{:?} {before:?}", arrival.time);
        assert_eq!(arrival.source, Ipv6Addr::LOCALHOST);
        assert!(StampSocket::open("no-such-if", Ipv6Addr::LOCALHOST, 0).is_err());
    }
}
