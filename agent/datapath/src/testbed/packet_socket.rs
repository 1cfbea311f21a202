// SPDX-License-Identifier: Apache-2.0
//! Frames as they are, out of one interface.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// A packet socket bound to one interface.
pub(crate) struct PacketSocket {
    fd: OwnedFd,
    to: libc::sockaddr_ll,
}

impl PacketSocket {
    pub(crate) fn open(ifindex: u32) -> Self {
        // SAFETY: a plain socket(2); the result is checked and owned at once.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0) };
        assert!(fd >= 0, "packet socket: {}", std::io::Error::last_os_error());
        // SAFETY: `fd` is a new descriptor without another owner; all-zero is a valid sockaddr_ll.
        let (fd, mut to) = unsafe { (OwnedFd::from_raw_fd(fd), std::mem::zeroed::<libc::sockaddr_ll>()) };
        to.sll_family = libc::AF_PACKET as u16;
        to.sll_ifindex = ifindex as i32;
        Self { fd, to }
    }

    pub(crate) fn send(&self, frame: &[u8]) {
        // SAFETY: pointers and lengths describe live objects.
        let sent = unsafe {
            libc::sendto(
                self.fd.as_raw_fd(),
                frame.as_ptr().cast(),
                frame.len(),
                0,
                std::ptr::from_ref(&self.to).cast(),
                size_of::<libc::sockaddr_ll>() as u32,
            )
        };
        assert_eq!(sent, frame.len() as isize, "sendto: {}", std::io::Error::last_os_error());
    }
}
