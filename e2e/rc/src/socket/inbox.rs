// SPDX-License-Identifier: Apache-2.0
//! Receives a batch of datagrams.

use std::io::{self, IoSliceMut};
use std::net::Ipv6Addr;

use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, MultiHeaders, SockaddrIn6, recvmmsg};

use super::RoceSocket;
use crate::wire::DATAGRAM_MAX;

/// Datagrams per system call.
const BATCH: usize = 64;
/// One octet more than the largest valid datagram, to detect longer ones.
const SLOT: usize = DATAGRAM_MAX + 1;

/// Buffers for arriving datagrams.
pub struct Inbox {
    slots: Box<[[u8; SLOT]]>,
    headers: MultiHeaders<SockaddrIn6>,
}

/// A received datagram.
#[derive(Debug, Clone, Copy)]
pub struct Arrival<'a> {
    /// IPv6 Source Address.
    pub src: Ipv6Addr,
    /// IPv6 Traffic Class.
    pub traffic_class: u8,
    /// From the UDP header to the ICRC.
    pub datagram: &'a [u8],
}

impl Inbox {
    /// Most arrivals per [`Inbox::receive`].
    pub const BATCH: usize = BATCH;

    /// Empty buffers.
    pub fn new() -> Self {
        let control = cmsg_space!(libc::c_int);
        Self {
            slots: vec![[0; SLOT]; BATCH].into_boxed_slice(),
            headers: MultiHeaders::preallocate(BATCH, Some(control)),
        }
    }

    /// Passes the datagrams that have arrived, at most [`Inbox::BATCH`], to `each`, in order; returns their number.
    /// Does not wait.
    pub fn receive(
        &mut self,
        socket: &RoceSocket,
        mut each: impl FnMut(Arrival<'_>) -> io::Result<()>,
    ) -> io::Result<usize> {
        let mut arrived = [(Ipv6Addr::UNSPECIFIED, 0, 0); BATCH];
        let count = self.fetch(socket, &mut arrived)?;
        for (slot, &(src, traffic_class, len)) in self.slots.iter().zip(&arrived[..count]) {
            each(Arrival { src, traffic_class, datagram: &slot[..len] })?;
        }
        Ok(count)
    }

    fn fetch(&mut self, socket: &RoceSocket, arrived: &mut [(Ipv6Addr, u8, usize); BATCH]) -> io::Result<usize> {
        let mut slots = self.slots.iter_mut();
        let mut vectors: [[IoSliceMut<'_>; 1]; BATCH] =
            std::array::from_fn(|_| [IoSliceMut::new(slots.next().map_or(&mut [], |slot| slot.as_mut_slice()))]);
        let flags = MsgFlags::MSG_DONTWAIT;
        let messages = match recvmmsg(socket.fd(), &mut self.headers, vectors.iter_mut(), flags, None) {
            Ok(messages) => messages,
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(0),
            Err(error) => return Err(error.into()),
        };
        let mut count = 0;
        for (message, arrived) in messages.zip(arrived.iter_mut()) {
            let src = message.address.map_or(Ipv6Addr::UNSPECIFIED, |address| address.ip());
            let traffic_class = message.cmsgs()?.find_map(|control| match control {
                ControlMessageOwned::Ipv6TClass(class) => Some(class as u8),
                _ => None,
            });
            *arrived = (src, traffic_class.unwrap_or(0), message.bytes);
            count += 1;
        }
        Ok(count)
    }
}

impl Default for Inbox {
    fn default() -> Self {
        Self::new()
    }
}
