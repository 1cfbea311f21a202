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

    /// Sends a frame as the kernel's UDP sends one through an interface with checksum offload (CHECKSUM_PARTIAL): the checksum of the UDP
    /// header at `udp` is to be filled in by the hardware, and its field has the sum of the pseudo-header.
    #[cfg(test)]
    pub(crate) fn send_without_checksum(&self, udp: usize, frame: &[u8]) {
        // `struct virtio_net_hdr`, and where the checksum is in a UDP header.
        const OFFLOAD: usize = 10;
        const NEEDS_CHECKSUM: u8 = 1;
        const UDP_CHECKSUM: u16 = 6;
        let on: libc::c_int = 1;
        // SAFETY: pointer and length describe a live object.
        let set = unsafe {
            libc::setsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_VNET_HDR,
                std::ptr::from_ref(&on).cast(),
                size_of::<libc::c_int>() as u32,
            )
        };
        assert_eq!(set, 0, "PACKET_VNET_HDR: {}", std::io::Error::last_os_error());
        let mut out = vec![0; OFFLOAD];
        out[0] = NEEDS_CHECKSUM;
        out[6..8].copy_from_slice(&(udp as u16).to_ne_bytes());
        out[8..10].copy_from_slice(&UDP_CHECKSUM.to_ne_bytes());
        out.extend_from_slice(frame);
        self.send(&out);
    }
}
