// SPDX-License-Identifier: Apache-2.0
//! A packet socket that receives all packets of an interface.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

const ETH_P_IPV6: u16 = 0x86DD;

/// A packet socket at the far end of a port.
pub(crate) struct Tap(OwnedFd);

impl Tap {
    pub(crate) fn open(ifindex: u32) -> Self {
        // SAFETY: a plain socket(2); the result is checked and owned at once.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_NONBLOCK, 0) };
        assert!(fd >= 0, "packet socket: {}", std::io::Error::last_os_error());
        // SAFETY: `fd` is a new descriptor without another owner; all-zero is a valid sockaddr_ll.
        let (fd, mut at) = unsafe { (OwnedFd::from_raw_fd(fd), std::mem::zeroed::<libc::sockaddr_ll>()) };
        let room: libc::c_int = 8 << 20;
        at.sll_family = libc::AF_PACKET as u16;
        at.sll_protocol = ETH_P_IPV6.to_be();
        at.sll_ifindex = ifindex as i32;
        // SAFETY: pointers and lengths describe live objects.
        let bound = unsafe {
            libc::setsockopt(
                fd.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_RCVBUFFORCE,
                std::ptr::from_ref(&room).cast(),
                size_of::<libc::c_int>() as u32,
            );
            libc::bind(fd.as_raw_fd(), std::ptr::from_ref(&at).cast(), size_of::<libc::sockaddr_ll>() as u32)
        };
        assert_eq!(bound, 0, "bind: {}", std::io::Error::last_os_error());
        Self(fd)
    }

    /// The next received packet, from its IPv6 header on, that `wanted` accepts; others are discarded.
    pub(crate) fn try_next(&self, wanted: impl Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
        let mut buffer = vec![0u8; 65536];
        loop {
            // SAFETY: the buffer has the given length.
            let n = unsafe { libc::recv(self.0.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
            let packet = buffer.get(14..usize::try_from(n).ok()?)?;
            if wanted(packet) {
                return Some(packet.to_vec());
            }
        }
    }

    /// Waits for the next such packet; panics after 20 seconds.
    pub(crate) fn next(&self, wanted: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        let deadline = Instant::now() + Duration::from_secs(20);
        while Instant::now() < deadline {
            if let Some(packet) = self.try_next(&wanted) {
                return packet;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("no such packet arrived");
    }
}
