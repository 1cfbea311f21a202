// SPDX-License-Identifier: Apache-2.0
//! A raw IPv6 socket, for packets of the agent that are not its own: Long-haul CNPs, and probes in the name of a Proxy Address.

use std::net::Ipv6Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use canopy_bpf::{Context, Result};

/// A raw IPv6 socket: the caller provides the whole packet, and the kernel routes it.
pub(crate) struct RawSocket(OwnedFd);

impl RawSocket {
    pub(crate) fn open() -> Result<Self> {
        // SAFETY: a plain socket(2); the result is checked and owned at once.
        let fd = unsafe {
            libc::socket(libc::AF_INET6, libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, libc::IPPROTO_RAW)
        };
        if fd < 0 {
            return Err(std::io::Error::last_os_error()).context("opening a raw IPv6 socket");
        }
        // SAFETY: `fd` is a new descriptor without another owner.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    pub(crate) fn send(&self, packet: &[u8], to: Ipv6Addr) -> Result<()> {
        let address = libc::sockaddr_in6 {
            sin6_family: libc::AF_INET6 as u16,
            sin6_port: 0,
            sin6_flowinfo: 0,
            sin6_addr: libc::in6_addr { s6_addr: to.octets() },
            sin6_scope_id: 0,
        };
        // SAFETY: pointers and lengths describe live objects.
        let sent = unsafe {
            libc::sendto(
                self.0.as_raw_fd(),
                packet.as_ptr().cast(),
                packet.len(),
                libc::MSG_NOSIGNAL,
                std::ptr::from_ref(&address).cast(),
                size_of::<libc::sockaddr_in6>() as u32,
            )
        };
        if sent < 0 {
            return Err(std::io::Error::last_os_error()).with_context(|| format!("sending to {to}"));
        }
        Ok(())
    }
}
