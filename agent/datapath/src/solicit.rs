// SPDX-License-Identifier: Apache-2.0
//! Receivers whose feedback comes from another link-layer address than their neighbour entry has.
//!
//! The programs compare the two and report a difference. The agent then solicits the receiver by multicast (RFC 4861 section 7.2.2), which
//! also a receiver with a new address answers; the kernel takes the address from that answer. Nothing is taken from data, and the entry
//! is not changed before: copies continue to the address that it has.

use std::collections::BTreeMap;
use std::io;
use std::mem::{size_of, size_of_val};
use std::net::Ipv6Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use canopy_bpf::node::{Node, types};
use canopy_bpf::{Context, Result};

/// RFC 4861.
const HOP_LIMIT: libc::c_int = 255;
const SOLICITATION: u8 = 135;
const SOURCE_LINK_LAYER_ADDRESS: u8 = 1;
/// Socket option that selects ICMPv6 types (include/uapi/linux/icmpv6.h); a bit that is set blocks the type.
const ICMPV6_FILTER: libc::c_int = 1;

/// Writes what the kernel's neighbour table has. An entry that stays keeps the time of its last report.
pub(crate) fn keep(bpf: &Node, macs: &BTreeMap<Ipv6Addr, [u8; 6]>) -> Result<()> {
    let held: BTreeMap<Ipv6Addr, [u8; 6]> =
        bpf.neighbours().entries()?.into_iter().map(|(address, known)| (address.into(), known.mac)).collect();
    for address in held.keys().filter(|address| !macs.contains_key(*address)) {
        bpf.neighbours().delete(&(*address).into())?;
    }
    for (address, mac) in macs.iter().filter(|(address, mac)| held.get(*address) != Some(*mac)) {
        let entry = types::canopy_neighbour { mac: *mac, pad: 0, reported_ns: 0 };
        bpf.neighbours().put(&(*address).into(), &entry)?;
    }
    Ok(())
}

/// Sends Neighbour Solicitations.
pub(crate) struct Solicitor(OwnedFd);

impl Solicitor {
    pub(crate) fn open() -> Result<Self> {
        let opening = "opening an ICMPv6 socket";
        // SAFETY: a plain socket(2); the result is checked and owned at once.
        let fd = unsafe {
            libc::socket(
                libc::AF_INET6,
                libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC,
                libc::IPPROTO_ICMPV6,
            )
        };
        if fd < 0 {
            return Err(io::Error::last_os_error()).context(opening);
        }
        // SAFETY: `fd` is a new descriptor without another owner.
        let socket = Self(unsafe { OwnedFd::from_raw_fd(fd) });
        socket.set(libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_HOPS, &HOP_LIMIT).context(opening)?;
        socket.set(libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_LOOP, &0).context(opening)?;
        // The kernel receives the answers.
        socket.set(libc::IPPROTO_ICMPV6, ICMPV6_FILTER, &[u32::MAX; 8]).context(opening)?;
        Ok(socket)
    }

    fn set<T>(&self, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
        let len = size_of_val(value) as u32;
        // SAFETY: pointer and length describe a live value.
        let set = unsafe { libc::setsockopt(self.0.as_raw_fd(), level, option, std::ptr::from_ref(value).cast(), len) };
        if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// The link-layer address of an interface.
    fn own_address(&self, interface: &str) -> io::Result<[u8; 6]> {
        // SAFETY: all zeros are a valid request.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        let room = request.ifr_name.len() - 1;
        for (to, from) in request.ifr_name[..room].iter_mut().zip(interface.bytes()) {
            *to = from as libc::c_char;
        }
        // SAFETY: the request is live, and its name ends with a zero.
        let done = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SIOCGIFHWADDR, &mut request) };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call has written this field.
        let octets = unsafe { request.ifr_ifru.ifru_hwaddr.sa_data };
        Ok(std::array::from_fn(|i| octets[i] as u8))
    }

    /// Asks `target` on an interface for its link-layer address, by multicast.
    pub(crate) fn ask(&self, ifindex: u32, interface: &str, target: Ipv6Addr) -> Result<()> {
        let asking = || format!("soliciting {target} on {interface}");
        let own = self.own_address(interface).with_context(asking)?;
        // Type, code, checksum (the kernel's), reserved; target; option.
        let mut message = vec![SOLICITATION, 0, 0, 0, 0, 0, 0, 0];
        message.extend(target.octets());
        message.extend([SOURCE_LINK_LAYER_ADDRESS, 1]);
        message.extend(own);
        let to = libc::sockaddr_in6 {
            sin6_family: libc::AF_INET6 as u16,
            sin6_port: 0,
            sin6_flowinfo: 0,
            sin6_addr: libc::in6_addr { s6_addr: solicited_node(target).octets() },
            sin6_scope_id: ifindex,
        };
        // SAFETY: pointers and lengths describe live objects.
        let sent = unsafe {
            libc::sendto(
                self.0.as_raw_fd(),
                message.as_ptr().cast(),
                message.len(),
                libc::MSG_NOSIGNAL,
                std::ptr::from_ref(&to).cast(),
                size_of::<libc::sockaddr_in6>() as u32,
            )
        };
        if sent < 0 { Err(io::Error::last_os_error()).with_context(asking) } else { Ok(()) }
    }
}

/// RFC 4291 section 2.7.1.
fn solicited_node(target: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = target.octets();
    Ipv6Addr::from([0xFF, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xFF, a, b, c])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_solicited_node_address_has_the_last_24_bits_of_the_target() {
        let target: Ipv6Addr = "2001:db8::1:2ab:cdef".parse().unwrap();
        assert_eq!(solicited_node(target), "ff02::1:ffab:cdef".parse::<Ipv6Addr>().unwrap());
    }
}
