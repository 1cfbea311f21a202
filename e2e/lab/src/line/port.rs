// SPDX-License-Identifier: Apache-2.0
//! A packet socket on one interface: it receives frames with the kernel's arrival time, and sends frames.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::AsRawFd;
use std::time::Duration;

use anyhow::{Context, Result};
use canopy_units::Monotonic;
use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, MultiHeaders, SockaddrLike, bind, recvmmsg, sendmmsg, setsockopt,
    sockopt,
};
use nix::time::{ClockId, clock_gettime};
use socket2::{Domain, Protocol, SockFilter, Socket, Type};

use super::queue::Frame;

/// Frames per system call.
pub(super) const BATCH: usize = 64;
/// Bytes that may wait in the kernel while the process is not running.
const WAITING: usize = 32 << 20;
/// Bytes sent that may be queued further on: the kernel charges a frame to the socket that sent it until the frame
/// leaves the machine's namespaces or arrives. A link exerts no backpressure.
const UNDER_WAY: usize = 1 << 29;
/// ETH_P_ALL in network byte order, linux/if_ether.h.
const EVERY_PROTOCOL: i32 = 0x0003u16.to_be() as i32;
/// `ld #pkttype; jeq #PACKET_OUTGOING, drop; ret #all; drop: ret #0`, see linux/filter.h: a socket that also sends would
/// receive what it sent.
const ARRIVING: [SockFilter; 4] = [
    SockFilter::new(0x20, 0, 0, 0xffff_f004),
    SockFilter::new(0x15, 1, 0, 4),
    SockFilter::new(0x06, 0, 0, u32::MAX),
    SockFilter::new(0x06, 0, 0, 0),
];

/// One received frame, in the scratch memory of [`Port::receive`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    /// Its bytes.
    pub(super) length: usize,
    /// When the kernel received it.
    pub(super) time: Monotonic,
    /// Frames dropped so far because the socket buffer was full.
    pub(super) overflow: u32,
}

/// A packet socket bound to one interface; see the module.
#[derive(Debug)]
pub(super) struct Port {
    socket: Socket,
    frame: usize,
}

impl Port {
    /// Opens `interface`, which must be down, so that no frame is missed or taken from another interface; `mtu` in
    /// bytes.
    ///
    /// # Errors
    /// No such interface, or the kernel refuses.
    pub(super) fn open(interface: &str, mtu: u32) -> Result<Self> {
        let what = || format!("packet socket on {interface}");
        let socket = Socket::new(Domain::PACKET, Type::RAW, Some(Protocol::from(EVERY_PROTOCOL))).with_context(what)?;
        socket.attach_filter(&ARRIVING).with_context(what)?;
        let address = getifaddrs()
            .context("listing interfaces")?
            .filter(|i| i.interface_name == interface)
            .filter_map(|i| i.address)
            .find(|a| a.family() == Some(AddressFamily::Packet))
            .with_context(|| format!("interface {interface} does not exist"))?;
        let link = address.as_link_addr().with_context(what)?;
        bind(socket.as_raw_fd(), link).with_context(what)?;
        setsockopt(&socket, sockopt::RcvBufForce, &WAITING).with_context(what)?;
        setsockopt(&socket, sockopt::SndBufForce, &UNDER_WAY).with_context(what)?;
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true).with_context(what)?;
        setsockopt(&socket, sockopt::RxqOvfl, &1).with_context(what)?;
        // 14 bytes Ethernet header, and room to detect an oversized frame.
        let port = Self { socket, frame: mtu as usize + 32 };
        // Discards frames that other interfaces received before `bind`, and the error that this interface is down.
        let mut scratch = port.scratch();
        while !matches!(port.receive(&mut scratch, false), Ok(frames) if frames.is_empty()) {}
        Ok(port)
    }

    /// Memory for [`Port::receive`].
    pub(super) fn scratch(&self) -> Vec<u8> {
        vec![0; self.frame * BATCH]
    }

    /// The bytes of arrival `i`.
    pub(super) fn frame<'s>(&self, scratch: &'s [u8], i: usize, length: usize) -> &'s [u8] {
        &scratch[i * self.frame..][..length.min(self.frame)]
    }

    /// Received frames, at most [`BATCH`]; waits for the first one if `wait`. Empty if there is none.
    ///
    /// # Errors
    /// The interface is gone.
    pub(super) fn receive(&self, scratch: &mut [u8], wait: bool) -> Result<Vec<Arrival>> {
        let flags = if wait { MsgFlags::MSG_WAITFORONE } else { MsgFlags::MSG_DONTWAIT };
        let mut buffers: Vec<[IoSliceMut<'_>; 1]> =
            scratch.chunks_exact_mut(self.frame).map(|c| [IoSliceMut::new(c)]).collect();
        // New headers for each call: the kernel shortens the control message buffers to what it used.
        let mut headers: MultiHeaders<()> =
            MultiHeaders::preallocate(BATCH, Some(nix::cmsg_space!(nix::sys::time::TimeSpec, u32)));
        let messages = match recvmmsg(self.socket.as_raw_fd(), &mut headers, buffers.iter_mut(), flags, None) {
            Ok(messages) => messages,
            // A socket reports ENETDOWN once when its interface goes down; the interface may come up again.
            Err(Errno::EAGAIN | Errno::EINTR | Errno::ENETDOWN) => return Ok(Vec::new()),
            Err(e) => return Err(e).context("receiving"),
        };
        let (uptime, unix) = (read(ClockId::CLOCK_MONOTONIC)?, read(ClockId::CLOCK_REALTIME)?);
        let arrivals = messages.map(|m| {
            let mut a = Arrival { length: m.bytes, time: Monotonic::START + uptime, overflow: 0 };
            for c in m.cmsgs().into_iter().flatten() {
                match c {
                    // The kernel timestamps with the real-time clock: only the age of the timestamp is used.
                    ControlMessageOwned::ScmTimestampns(t) => {
                        let age = unix.saturating_sub(Duration::from(t));
                        a.time = Monotonic::START + uptime.saturating_sub(age);
                    }
                    ControlMessageOwned::RxqOvfl(n) => a.overflow = n,
                    _ => {}
                }
            }
            a
        });
        Ok(arrivals.collect())
    }

    /// Sends the frames; returns how many the kernel refused (the interface is down, or they are too long).
    pub(super) fn send(&self, frames: &[Frame]) -> u64 {
        let mut headers: MultiHeaders<()> = MultiHeaders::preallocate(frames.len(), None);
        let (mut at, mut lost) = (0, 0);
        while at < frames.len() {
            let slices: Vec<[IoSlice<'_>; 1]> = frames[at..].iter().map(|f| [IoSlice::new(&f.bytes)]).collect();
            let to = vec![None; slices.len()];
            match sendmmsg(self.socket.as_raw_fd(), &mut headers, slices.iter(), to, [], MsgFlags::empty()) {
                Ok(sent) => at += sent.count().max(1),
                Err(Errno::EINTR) => {}
                Err(_) => (at, lost) = (at + 1, lost + 1),
            }
        }
        lost
    }
}

/// Reads CLOCK_MONOTONIC.
///
/// # Errors
/// Never on Linux.
pub(super) fn monotonic() -> Result<Monotonic> {
    Ok(Monotonic::START + read(ClockId::CLOCK_MONOTONIC)?)
}

fn read(clock: ClockId) -> Result<Duration> {
    Ok(clock_gettime(clock).context("reading a clock")?.into())
}
