// SPDX-License-Identifier: Apache-2.0
//! A host in a separate network namespace, at the peer of a port of the test bed.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::*;

const TYPE: u8 = canopy_packet::long_haul_cnp::ICMPV6_TYPE;

/// A host that receives messages of type 200 through a raw ICMPv6 socket, which verifies their checksums, and whole packets through
/// a [`Tap`].
pub(super) struct Host {
    icmp: OwnedFd,
    pub(super) tap: Tap,
    /// Keeps the namespace alive until the host is dropped.
    leave: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Host {
    fn drop(&mut self) {
        drop(self.leave.take());
        self.thread.take().map(JoinHandle::join);
    }
}

impl Host {
    /// Moves `interface` to the host's namespace and gives it `address`.
    pub(super) fn new(interface: &str, address: Ipv6Addr) -> Self {
        let (report, reports) = mpsc::channel();
        let (take, taken) = mpsc::channel::<()>();
        let (leave, left) = mpsc::channel::<()>();
        let name = interface.to_owned();
        let thread = std::thread::spawn(move || {
            // SAFETY: moves only this thread into a new network namespace; no memory is involved.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0);
            // SAFETY: no arguments, no memory.
            report.send(Err(unsafe { libc::gettid() })).unwrap();
            taken.recv().unwrap();
            // The link-layer address in the test bed's neighbour entries.
            ip(&format!("link set dev {name} address 02:00:00:00:00:{:02x} up", address.octets()[15]));
            ip(&format!("addr add {address}/64 dev {name} nodad"));
            // SAFETY: a plain socket(2); the result is checked and owned at once. The name lives through the call.
            let (fd, ifindex) = unsafe {
                let name = std::ffi::CString::new(name).unwrap();
                let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK;
                (libc::socket(libc::AF_INET6, kind, libc::IPPROTO_ICMPV6), libc::if_nametoindex(name.as_ptr()))
            };
            assert!(fd >= 0, "raw socket: {}", std::io::Error::last_os_error());
            // SAFETY: `fd` is a new descriptor without another owner.
            report.send(Ok((unsafe { OwnedFd::from_raw_fd(fd) }, Tap::open(ifindex)))).unwrap();
            let _ = left.recv();
        });
        let Ok(Err(tid)) = reports.recv() else { panic!("the host did not come up") };
        ip(&format!("link set dev {interface} netns {tid}"));
        take.send(()).unwrap();
        let Ok(Ok((icmp, tap))) = reports.recv() else { panic!("the host has no sockets") };
        Self { icmp, tap, leave: Some(leave), thread: Some(thread) }
    }

    /// Waits for the next ICMPv6 message of type 200 and its sender; calls `meanwhile` repeatedly until it arrives.
    pub(super) fn message(&self, mut meanwhile: impl FnMut()) -> (Ipv6Addr, Vec<u8>) {
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut buffer = [0u8; 2048];
        while Instant::now() < deadline {
            // SAFETY: all-zero is a valid sockaddr_in6.
            let mut from = unsafe { std::mem::zeroed::<libc::sockaddr_in6>() };
            let mut len = size_of::<libc::sockaddr_in6>() as u32;
            // SAFETY: pointers and lengths describe live objects.
            let n = unsafe {
                libc::recvfrom(
                    self.icmp.as_raw_fd(),
                    buffer.as_mut_ptr().cast(),
                    buffer.len(),
                    0,
                    std::ptr::from_mut(&mut from).cast(),
                    &mut len,
                )
            };
            if n > 0 && buffer[0] == TYPE {
                return (from.sin6_addr.s6_addr.into(), buffer[..n as usize].to_vec());
            }
            if n < 0 {
                meanwhile();
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        panic!("no Long-haul CNP arrived");
    }
}

fn ip(args: &str) {
    let out = Command::new("ip").args(args.split_whitespace()).output().unwrap();
    assert!(out.status.success(), "ip {args}: {}", String::from_utf8_lossy(&out.stderr));
}
