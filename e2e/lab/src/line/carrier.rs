// SPDX-License-Identifier: Apache-2.0
//! A delay line between two links has the carrier of one link: when one end goes down, the other loses its carrier
//! too.

use std::os::fd::AsRawFd;
use std::process::Command;

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::{AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, socket};

use crate::sh;

/// RTMGRP_LINK, linux/rtnetlink.h.
const LINK_CHANGES: u32 = 1;

/// State of one interface of the delay line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    up: bool,
    carrier: bool,
}

/// The next change to make, if any: the index of the interface, and whether to set it up.
///
/// An interface that is up without a carrier has an end that is down: the other interface is set down, so that the
/// other end loses its carrier. If both ends are down only one interface is set down, because an interface that is
/// down cannot detect that its end comes back; the next link change triggers the rest.
fn next(lines: [Seen; 2]) -> Option<(usize, bool)> {
    for (here, there) in [(0, 1), (1, 0)] {
        if lines[here].up && lines[here].carrier != lines[there].up {
            return Some((there, lines[here].carrier));
        }
    }
    None
}

/// Brings both interfaces up and keeps them alike from then on.
///
/// # Errors
/// An interface is gone, or the kernel refuses.
pub(super) fn keep(interfaces: [&str; 2], ready: impl FnOnce()) -> Result<()> {
    let changes = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute)
        .context("netlink")?;
    bind(changes.as_raw_fd(), &NetlinkAddr::new(0, LINK_CHANGES)).context("listening to changes of links")?;
    for i in interfaces {
        set(i, true)?;
    }
    ready();
    let mut message = [0; 8192];
    loop {
        if let Some((which, up)) = next(read_interfaces(interfaces)?) {
            set(interfaces[which], up)?;
        }
        // The notification is only a trigger: it may be outdated by later changes. ENOBUFS: some notifications were
        // lost.
        match recv(changes.as_raw_fd(), &mut message, MsgFlags::empty()) {
            Ok(_) | Err(Errno::ENOBUFS | Errno::EINTR) => {}
            Err(e) => return Err(e).context("listening to changes of links"),
        }
    }
}

fn read_interfaces(interfaces: [&str; 2]) -> Result<[Seen; 2]> {
    let all: Vec<_> = getifaddrs().context("listing interfaces")?.collect();
    let seen = |name: &str| -> Result<Seen> {
        let flags = all.iter().find(|i| i.interface_name == name).map(|i| i.flags);
        let flags = flags.with_context(|| format!("interface {name} is gone"))?;
        let has = |f| flags.contains(f);
        Ok(Seen { up: has(InterfaceFlags::IFF_UP), carrier: has(InterfaceFlags::IFF_LOWER_UP) })
    };
    Ok([seen(interfaces[0])?, seen(interfaces[1])?])
}

fn set(interface: &str, up: bool) -> Result<()> {
    sh::run(Command::new("ip").args(["link", "set", "dev", interface, if up { "up" } else { "down" }])).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line whose ends are up or not, as the kernel would show it: a carrier needs both sides of a pair.
    fn settle(ends: [bool; 2], mut up: [bool; 2]) -> [bool; 2] {
        for _ in 0..4 {
            let seen = |i: usize| Seen { up: up[i], carrier: up[i] && ends[i] };
            match next([seen(0), seen(1)]) {
                Some((which, to)) => up[which] = to,
                None => return up,
            }
        }
        panic!("it does not settle from {ends:?}");
    }

    #[test]
    fn an_end_has_a_carrier_exactly_when_the_other_end_is_up() {
        let states = [[true, true], [true, false], [false, true], [false, false]];
        for first in states {
            for second in states {
                let before = settle(first, [true, true]);
                let up = settle(second, before);
                for (here, there) in [(0, 1), (1, 0)] {
                    if second[here] {
                        assert_eq!(up[here], second[there], "ends {first:?}, then {second:?}");
                    }
                }
            }
        }
    }
}
