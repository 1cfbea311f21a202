// SPDX-License-Identifier: Apache-2.0
//! Collects datagrams to one address and sends them in batches.

use std::io::{self, IoSlice};
use std::net::{Ipv6Addr, SocketAddrV6};

use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, MsgFlags, MultiHeaders, SockaddrIn6, sendmmsg};

use super::{Inbox, RoceSocket};
use crate::wire::DATAGRAM_MAX;

/// Room for the answers to one batch of arrivals: an acknowledgement and a CNP each.
const SLOTS: usize = 2 * Inbox::BATCH;

/// Datagrams to send, oldest first.
pub struct Outbox {
    slots: Box<[[u8; DATAGRAM_MAX]]>,
    lengths: [usize; SLOTS],
    /// `slots[first..last]` are to be sent.
    first: usize,
    last: usize,
    peer: Ipv6Addr,
    to: [Option<SockaddrIn6>; SLOTS],
    headers: MultiHeaders<SockaddrIn6>,
    errors: u64,
}

impl Outbox {
    /// An empty outbox for datagrams to `peer`.
    pub fn new(peer: Ipv6Addr) -> Self {
        let to = SockaddrIn6::from(SocketAddrV6::new(peer, 0, 0, 0));
        Self {
            slots: vec![[0; DATAGRAM_MAX]; SLOTS].into_boxed_slice(),
            lengths: [0; SLOTS],
            first: 0,
            last: 0,
            peer,
            to: [Some(to); SLOTS],
            headers: MultiHeaders::preallocate(SLOTS, None),
            errors: 0,
        }
    }

    /// True if all datagrams have been sent.
    pub fn is_empty(&self) -> bool {
        self.first == self.last
    }

    /// True if there is no room for another datagram.
    pub fn is_full(&self) -> bool {
        self.last == SLOTS
    }

    /// Datagrams that the kernel rejected, for example because there is no route. They count as lost.
    pub fn errors(&self) -> u64 {
        self.errors
    }

    /// Appends a datagram that `write` writes, returning its length. Fails if the outbox is full.
    pub fn push(&mut self, write: impl FnOnce(&mut [u8]) -> io::Result<usize>) -> io::Result<()> {
        let full = || io::Error::other("the outbox is full: flush it first");
        let slot = self.slots.get_mut(self.last).ok_or_else(full)?;
        self.lengths[self.last] = write(slot)?;
        self.last += 1;
        Ok(())
    }

    /// Sends as much as the kernel accepts without waiting; the rest stays. Fails if a datagram exceeds the link's
    /// MTU.
    pub fn flush(&mut self, socket: &RoceSocket) -> io::Result<()> {
        while self.first < self.last {
            match self.send_some(socket) {
                Ok(count) => self.first += count,
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return Ok(()),
                Err(Errno::EMSGSIZE) => {
                    let len = self.lengths[self.first];
                    let what = format!("a datagram of {len} octets exceeds the MTU of the link");
                    return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
                }
                Err(_) => {
                    self.errors += 1;
                    self.first += 1;
                }
            }
        }
        (self.first, self.last) = (0, 0);
        Ok(())
    }

    fn send_some(&mut self, socket: &RoceSocket) -> nix::Result<usize> {
        if let Some(frames) = &socket.frames {
            return frames.send(self.peer, &self.slots[self.first][..self.lengths[self.first]]).map(|()| 1);
        }
        let (slots, lengths) = (&self.slots, &self.lengths);
        let vectors: [[IoSlice<'_>; 1]; SLOTS] = std::array::from_fn(|i| [IoSlice::new(&slots[i][..lengths[i]])]);
        let batch = &vectors[self.first..self.last];
        let no_control: [ControlMessage<'_>; 0] = [];
        let flags = MsgFlags::MSG_DONTWAIT;
        let fd = socket.fd();
        sendmmsg(fd, &mut self.headers, batch.iter(), self.to, no_control, flags).map(Iterator::count)
    }
}
