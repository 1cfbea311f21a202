// SPDX-License-Identifier: Apache-2.0
//! The kernel's notifications about what the agent keeps, without those that hosts can cause at will.

use std::collections::BTreeMap;
use std::io;
use std::sync::PoisonError;

use netlink_packet_core::{NetlinkBuffer, Parseable};
use netlink_packet_route::neighbour::NeighbourMessage;
use rtnetlink::MulticastGroup;
use rtnetlink::sys::protocols::NETLINK_ROUTE;
use rtnetlink::sys::{AsyncSocket, AsyncSocketExt, SocketAddr, TokioSocket};

use crate::neighbours::{Kept, Neighbour, destination, is_resolved, link_layer_address, managed};

const GROUPS: [MulticastGroup; 9] = [
    MulticastGroup::Link,
    MulticastGroup::Neigh,
    MulticastGroup::Ipv6Ifaddr,
    MulticastGroup::Ipv6Route,
    MulticastGroup::Ipv6Mroute,
    MulticastGroup::Ipv6Rule,
    MulticastGroup::Ipv6Ifinfo,
    MulticastGroup::Ipv6Netconf,
    MulticastGroup::Tc,
];
/// The largest datagram that the kernel sends to such a socket (netlink(7)).
const DATAGRAM: usize = 1 << 15;
/// Octets of notifications that wait while the agent is busy: more are lost, and a reconcile compares everything instead.
const BUFFER: usize = 1 << 20;
/// Message types (include/uapi/linux/rtnetlink.h).
const RTM_NEWNEIGH: u16 = 28;
const RTM_DELNEIGH: u16 = 29;
const RTM_NEWQDISC: u16 = 36;
const RTM_NEWTCLASS: u16 = 40;
const RTM_DELTCLASS: u16 = 41;
const RTM_NEWCHAIN: u16 = 100;

/// A socket that receives the notifications.
pub(crate) struct Notices {
    socket: TokioSocket,
    filter: Filter,
}

impl Notices {
    pub(crate) fn open(kept: Kept) -> io::Result<Self> {
        let mut socket = TokioSocket::new(NETLINK_ROUTE)?;
        let groups = GROUPS.iter().fold(0, |all, group| all | 1 << (*group as u32 - 1));
        socket.socket_mut().set_rx_buf_sz(BUFFER as libc::c_int)?;
        socket.socket_mut().bind(&SocketAddr::new(0, groups))?;
        Ok(Self { socket, filter: Filter { kept, resolved: BTreeMap::new() } })
    }

    /// Waits for a datagram of notifications; returns whether one of them concerns the agent.
    pub(crate) async fn receive(&mut self) -> io::Result<bool> {
        let mut octets = Vec::with_capacity(DATAGRAM);
        match self.socket.recv(&mut octets).await {
            Ok(()) => Ok(self.filter.any_concerns(&octets)),
            // Notifications were lost.
            Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => Ok(true),
            Err(e) => Err(e),
        }
    }
}

/// Decides whether a notification is about something that the agent keeps. A host makes the kernel create and forget neighbours at
/// will; only those that the agent keeps resolved count, and only when they begin or cease to be resolved, or get another link-layer
/// address.
struct Filter {
    kept: Kept,
    /// Whether those that were notified last are resolved, and to what.
    resolved: BTreeMap<Neighbour, (bool, Option<[u8; 6]>)>,
}

impl Filter {
    /// Every message of a datagram changes what the filter remembers.
    fn any_concerns(&mut self, mut octets: &[u8]) -> bool {
        let mut any = false;
        while !octets.is_empty() {
            let Ok(message) = NetlinkBuffer::new_checked(octets) else { return true };
            any |= self.concerns(message.message_type(), message.payload());
            let next = (message.length() as usize).next_multiple_of(4).min(octets.len());
            octets = &octets[next..];
        }
        any
    }

    fn concerns(&mut self, kind: u16, payload: &[u8]) -> bool {
        match kind {
            RTM_NEWNEIGH | RTM_DELNEIGH => {
                NeighbourMessage::parse(payload).map_or(true, |n| self.neighbour(kind == RTM_NEWNEIGH, &n))
            }
            // Of traffic control only filters and what ends them: a pacer on the same machine changes its classes many times a second.
            RTM_NEWQDISC | RTM_NEWTCLASS | RTM_DELTCLASS | RTM_NEWCHAIN => false,
            _ => true,
        }
    }

    fn neighbour(&mut self, exists: bool, n: &NeighbourMessage) -> bool {
        let Some(address) = destination(n) else { return false };
        let neighbour = (n.header.ifindex, address);
        // A neighbour that goes away does not bear the flag any more.
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner).contains(&neighbour);
        if !managed(n) && !kept() {
            return false;
        }
        if !exists || !managed(n) {
            self.resolved.remove(&neighbour);
            return true;
        }
        let resolved = (is_resolved(n.header.state), link_layer_address(n));
        self.resolved.insert(neighbour, resolved) != Some(resolved)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::net::Ipv6Addr;
    use std::process::Command;
    use std::sync::Arc;
    use std::time::Duration;

    use netlink_packet_route::neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourExtFlags, NeighbourState};

    use super::*;

    fn ip(args: &str) {
        let out = Command::new("ip").args(args.split(' ')).output().unwrap();
        assert!(out.status.success(), "ip {args}: {}", String::from_utf8_lossy(&out.stderr));
    }

    /// A network namespace with the interface `d0`, and the notifications about it.
    struct Bed {
        notices: Notices,
        runtime: tokio::runtime::Runtime,
        port: u32,
        kept: Kept,
    }

    impl Bed {
        fn new() -> Self {
            // SAFETY: moves only this thread into a new network namespace; no memory is involved.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0, "unshare(CLONE_NEWNET) needs root");
            // Duplicate address detection would be reported a second later.
            std::fs::write("/proc/sys/net/ipv6/conf/default/accept_dad", "0").unwrap();
            ip("link add d0 type veth peer name d0p");
            ip("link set d0 up");
            ip("link set d0p up");
            ip("-6 addr add 2001:db8::1/64 dev d0 nodad");
            // SAFETY: the name is a NUL-terminated string that lives through the call.
            let port = unsafe { libc::if_nametoindex(c"d0".as_ptr()) };
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let kept = Kept::default();
            let notices = runtime.block_on(async { Notices::open(Arc::clone(&kept)) }).unwrap();
            let mut bed = Self { notices, runtime, port, kept };
            // Addresses and routes of the interfaces that were set up.
            while bed.receive(Duration::from_millis(500)).is_some() {}
            bed
        }

        fn receive(&mut self, within: Duration) -> Option<bool> {
            let Self { notices, runtime, .. } = self;
            let received = async { tokio::time::timeout(within, notices.receive()).await };
            runtime.block_on(received).ok().map(Result::unwrap)
        }

        /// The datagrams up to the next one that concerns the agent.
        fn until_concerned(&mut self) -> usize {
            let mut ignored = 0;
            while !self.receive(Duration::from_secs(10)).expect("a notification that concerns the agent") {
                ignored += 1;
            }
            ignored
        }
    }

    #[test]
    fn a_flood_of_neighbours_that_a_host_makes_up_does_not_concern_the_agent() {
        let mut bed = Bed::new();
        let host: Ipv6Addr = "2001:db8::2".parse().unwrap();
        bed.kept.lock().unwrap().insert((bed.port, host));
        let file = tempfile::NamedTempFile::new().unwrap();
        let lines = |verb: &str, tail: &str| {
            (0x100..0x300).map(|n| format!("neigh {verb} 2001:db8::{n:x} dev d0{tail}\n")).collect::<String>()
        };
        let flood = lines("add", " lladdr 02:00:00:00:00:09 nud reachable") + &lines("del", "");
        let last = "neigh add 2001:db8::2 dev d0 managed extern_learn\n";
        std::fs::write(file.path(), flood + last).unwrap();
        // Received while they are sent: an overrun of the socket's buffer concerns the agent, too.
        let mut ip = Command::new("ip").args(["-6", "-batch"]).arg(file.path()).spawn().unwrap();
        let ignored = bed.until_concerned();
        assert!(ip.wait().unwrap().success());
        assert!(ignored >= 1024, "{ignored} notifications of the flood: this proves nothing");
    }

    /// The kernel reports a neighbour that goes away without the flag that it had.
    #[test]
    fn a_kept_neighbour_that_goes_away_concerns_the_agent() {
        let mut bed = Bed::new();
        bed.kept.lock().unwrap().insert((bed.port, "2001:db8::2".parse().unwrap()));
        for command in ["add", "del", "add"] {
            let managed = if command == "add" { " managed extern_learn" } else { "" };
            ip(&format!("-6 neigh {command} 2001:db8::2 dev d0{managed}"));
            assert!(bed.receive(Duration::from_secs(10)).expect("a notification"), "{command}");
            while bed.receive(Duration::from_millis(100)).is_some() {}
        }
    }

    /// The kernel reports this switch in no other way; that of an interface changes its anycast addresses too.
    #[test]
    fn a_switch_for_forwarding_concerns_the_agent() {
        let mut bed = Bed::new();
        std::fs::write("/proc/sys/net/ipv6/conf/default/forwarding", "1").unwrap();
        assert_eq!(bed.until_concerned(), 0);
    }

    #[test]
    fn a_kept_neighbour_concerns_when_it_begins_or_ceases_to_be_resolved() {
        let (mine, other): (Ipv6Addr, Ipv6Addr) = ("2001:db8::2".parse().unwrap(), "2001:db8::3".parse().unwrap());
        let mut filter = Filter { kept: Kept::default(), resolved: BTreeMap::new() };
        filter.kept.lock().unwrap().insert((4, mine));
        let mut concerns = |address, state, managed: bool| {
            let mut n = NeighbourMessage::default();
            (n.header.ifindex, n.header.state) = (4, state);
            n.attributes.push(NeighbourAttribute::Destination(NeighbourAddress::Inet6(address)));
            if managed {
                n.attributes.push(NeighbourAttribute::ExtFlags(NeighbourExtFlags::Managed));
            }
            filter.neighbour(true, &n)
        };
        use NeighbourState::{Failed, Incomplete, Probe, Reachable, Stale};
        assert!(concerns(mine, Incomplete, true) && concerns(mine, Reachable, true));
        assert!(!concerns(mine, Stale, true) && !concerns(mine, Probe, true) && !concerns(mine, Reachable, true));
        assert!(concerns(mine, Failed, true) && concerns(mine, Reachable, true));
        assert!(concerns(mine, Stale, false), "something took the flag away");
        assert!(concerns(mine, Stale, true), "it is back");
        assert!(!concerns(other, Reachable, false) && !concerns(other, Failed, false));
        assert!(concerns(other, Reachable, true), "the agent removes what it does not keep any more");
    }
}
