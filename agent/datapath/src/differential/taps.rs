// SPDX-License-Identifier: Apache-2.0
//! The frames that leave the node, with the ports that they leave through.
//!
//! The kernel gives a packet socket each frame that an interface transmits before the call returns that sent it: a test run of a program
//! has no copies under way when it ends. Only the last copy of a packet is not transmitted in a test run, but its result.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::testbed::Testbed;

/// `ETH_P_ALL` in network order.
const EVERYTHING: u16 = (libc::ETH_P_ALL as u16).to_be();
/// Where the next header of an IPv6 packet is in a frame, and those of what the kernel itself sends: hop-by-hop options before a report
/// of multicast listeners, and ICMPv6.
const NEXT_HEADER: usize = 14 + 6;
const OF_THE_KERNEL: [u8; 2] = [0, 58];

/// A frame that leaves through a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Frame {
    pub(super) port: String,
    pub(super) octets: Vec<u8>,
}

/// A packet socket on each port.
pub(super) struct Taps(Vec<Tap>);

struct Tap {
    port: String,
    fd: OwnedFd,
    address: [u8; 6],
}

impl Taps {
    pub(super) fn open(bed: &Testbed) -> Self {
        let tap = |name: &String| Tap::open(name, bed.ifindex(name));
        Self(bed.spec().base.ports.iter().map(|p| tap(&p.name)).collect())
    }

    /// Link-layer address of a port.
    pub(super) fn address(&self, port: &str) -> [u8; 6] {
        self.0.iter().find(|tap| tap.port == port).unwrap_or_else(|| panic!("no port {port}")).address
    }

    /// The frame that is the result of a run. It has the link-layer address of the port that it is for.
    pub(super) fn result(&self, octets: Vec<u8>) -> Frame {
        let from = self.0.iter().find(|tap| octets.get(6..12) == Some(&tap.address[..]));
        Frame { port: from.map_or("none".into(), |tap| tap.port.clone()), octets }
    }

    /// The frames transmitted since the last call, without those that the kernel sends by itself.
    pub(super) fn transmitted(&self) -> impl Iterator<Item = Frame> {
        let of_program =
            |frame: &Frame| !frame.octets.get(NEXT_HEADER).is_some_and(|next| OF_THE_KERNEL.contains(next));
        self.0.iter().flat_map(|tap| std::iter::from_fn(|| tap.receive())).filter(of_program)
    }
}

impl Tap {
    fn open(port: &str, ifindex: u32) -> Self {
        // SAFETY: a plain socket(2); the result is checked and owned at once. Protocol 0 receives nothing before bind(2).
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_NONBLOCK, 0) };
        assert!(fd >= 0, "packet socket: {}", std::io::Error::last_os_error());
        // SAFETY: `fd` is a new descriptor without another owner; all-zero is a valid sockaddr_ll.
        let (fd, mut at) = unsafe { (OwnedFd::from_raw_fd(fd), std::mem::zeroed::<libc::sockaddr_ll>()) };
        at.sll_family = libc::AF_PACKET as u16;
        at.sll_protocol = EVERYTHING;
        at.sll_ifindex = ifindex as i32;
        let mut len = size_of::<libc::sockaddr_ll>() as u32;
        // SAFETY: pointers and lengths describe live objects.
        let bound = unsafe {
            libc::bind(fd.as_raw_fd(), std::ptr::from_ref(&at).cast(), len) == 0
                && libc::getsockname(fd.as_raw_fd(), std::ptr::from_mut(&mut at).cast(), &mut len) == 0
        };
        assert!(bound, "binding a packet socket to {port}: {}", std::io::Error::last_os_error());
        let address = std::array::from_fn(|i| at.sll_addr[i]);
        Self { port: port.into(), fd, address }
    }

    /// The next frame that the port transmitted.
    fn receive(&self) -> Option<Frame> {
        let mut octets = vec![0; 2048];
        loop {
            // SAFETY: all-zero is a valid sockaddr_ll.
            let mut of = unsafe { std::mem::zeroed::<libc::sockaddr_ll>() };
            let mut len = size_of::<libc::sockaddr_ll>() as u32;
            // SAFETY: pointers and lengths describe live objects.
            let n = unsafe {
                libc::recvfrom(
                    self.fd.as_raw_fd(),
                    octets.as_mut_ptr().cast(),
                    octets.len(),
                    0,
                    std::ptr::from_mut(&mut of).cast(),
                    &mut len,
                )
            };
            let Ok(n) = usize::try_from(n) else { return None };
            if of.sll_pkttype == libc::PACKET_OUTGOING {
                octets.truncate(n);
                return Some(Frame { port: self.port.clone(), octets });
            }
        }
    }
}
