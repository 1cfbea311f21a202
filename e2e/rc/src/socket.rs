// SPDX-License-Identifier: Apache-2.0
//! RoCEv2 datagrams through the kernel: raw IPv6 sockets, many datagrams per system call.

mod frames;
mod inbox;
mod outbox;

use std::io;
use std::net::{Ipv6Addr, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::time::Duration;

use canopy_packet::udp::ROCE_PORT;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use socket2::{Domain, Protocol, SockFilter, Socket, Type};

use frames::Frames;
pub use frames::Shape;
pub use inbox::{Arrival, Inbox};
pub use outbox::Outbox;

/// ECN field of a traffic class (RFC 3168): congestion experienced.
pub const ECN_CE: u8 = 0b11;

/// Requested size of the kernel's buffers, octets. A window of 128 packets of 4 KiB needs 1 MiB with the kernel's
/// overhead.
const BUFFER: usize = 16 << 20;

/// A raw socket of one address, for RoCEv2 only. The kernel writes the IPv6 header.
#[derive(Debug)]
pub struct RoceSocket {
    raw: Socket,
    /// Owns the UDP port, so that the kernel does not answer with "port unreachable". Never read.
    _port: Option<Socket>,
    /// Sends in place of the raw socket.
    frames: Option<Frames>,
}

impl RoceSocket {
    /// Opens a socket of a local address, which needs CAP_NET_RAW. Every packet sent has `traffic_class`.
    pub fn open(local: Ipv6Addr, traffic_class: u8) -> io::Result<Self> {
        let raw = Socket::new(Domain::IPV6, Type::RAW, Some(Protocol::UDP))?;
        raw.attach_filter(&roce_only())?;
        raw.set_recv_tclass_v6(true)?;
        raw.set_tclass_v6(u32::from(traffic_class))?;
        // A packet that is too long must fail here instead of being fragmented: an RNIC sends no fragments.
        setsockopt(&raw, sockopt::Ipv6DontFrag, &true)?;
        grow_buffers(&raw)?;
        raw.set_nonblocking(true)?;
        raw.bind(&SocketAddrV6::new(local, 0, 0, 0).into())?;
        Ok(Self { raw, _port: occupy_port(local)?, frames: None })
    }

    /// Sends in frames of `shape` from now on, which needs the local address and the traffic class again.
    pub fn with_frames(self, shape: Shape, local: Ipv6Addr, traffic_class: u8) -> io::Result<Self> {
        Ok(Self { frames: Some(Frames::open(shape, local, traffic_class)?), ..self })
    }

    /// Waits for a datagram, for room to send if `to_send`, for `timeout`, or for a signal.
    pub fn wait(&self, to_send: bool, timeout: Duration) -> io::Result<()> {
        let mut events = PollFlags::POLLIN;
        events.set(PollFlags::POLLOUT, to_send);
        let mut fds = [PollFd::new(self.raw.as_fd(), events)];
        match ppoll(&mut fds, Some(TimeSpec::from_duration(timeout)), None) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn fd(&self) -> RawFd {
        self.raw.as_raw_fd()
    }
}

/// Classic BPF over the UDP header: accepts the whole datagram if its destination port is that of RoCEv2.
fn roce_only() -> [SockFilter; 4] {
    let load_half = (libc::BPF_LD | libc::BPF_H | libc::BPF_ABS) as u16;
    let if_equal = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    [
        SockFilter::new(load_half, 0, 0, 2),
        SockFilter::new(if_equal, 0, 1, u32::from(ROCE_PORT)),
        SockFilter::new(RETURN, 0, 0, u32::MAX),
        SockFilter::new(RETURN, 0, 0, 0),
    ]
}

const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

fn occupy_port(local: Ipv6Addr) -> io::Result<Option<Socket>> {
    let port = Socket::new(Domain::IPV6, Type::DGRAM, Some(Protocol::UDP))?;
    port.attach_filter(&[SockFilter::new(RETURN, 0, 0, 0)])?;
    port.set_recv_buffer_size(0)?;
    port.set_reuse_address(true)?;
    port.set_reuse_port(true)?;
    match port.bind(&SocketAddrV6::new(local, ROCE_PORT, 0, 0).into()) {
        Ok(()) => Ok(Some(port)),
        // A kernel RDMA stack owns the port already, which has the same effect.
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(None),
        Err(error) => Err(error),
    }
}

/// Exceeds the system's limit if permitted, else sets the limit.
fn grow_buffers(raw: &Socket) -> io::Result<()> {
    if setsockopt(raw, sockopt::RcvBufForce, &BUFFER).is_err() {
        raw.set_recv_buffer_size(BUFFER)?;
    }
    if setsockopt(raw, sockopt::SndBufForce, &BUFFER).is_err() {
        raw.set_send_buffer_size(BUFFER)?;
    }
    Ok(())
}
