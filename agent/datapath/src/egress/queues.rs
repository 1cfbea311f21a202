// SPDX-License-Identifier: Apache-2.0
//! Depth of every interface's root queue through netlink: for queues that the program cannot read, and for queues without traffic.

use std::collections::BTreeMap;

use rtnetlink::sys::{Socket, SocketAddr};

use canopy_bpf::{Context, Result};

const NETLINK_ROUTE: isize = 0;
const RTM_NEWQDISC: u16 = 36;
const RTM_GETQDISC: u16 = 38;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// NLM_F_REQUEST | NLM_F_DUMP.
const DUMP: u16 = 0x301;
const HEADER: usize = 16;
/// `struct tcmsg`: family, ifindex, handle, parent, info.
const TCMSG: usize = 20;
const TC_H_ROOT: u32 = u32::MAX;
/// `struct tc_stats`: backlog, in octets.
const TCA_STATS: u16 = 3;
const BACKLOG: usize = 32;

/// A netlink socket of its own, polled many times a second.
pub(crate) struct Queues(Socket);

impl Queues {
    pub(crate) fn open() -> Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE).context("opening a netlink socket for queue depths")?;
        socket.bind_auto().context("binding the netlink socket for queue depths")?;
        socket.connect(&SocketAddr::new(0, 0)).context("connecting the netlink socket for queue depths")?;
        Ok(Self(socket))
    }

    /// Octets in the root queue of each interface; interfaces without a queue are missing.
    pub(crate) fn depths(&self) -> Result<BTreeMap<u32, u64>> {
        let mut request = [0u8; HEADER + TCMSG];
        request[..4].copy_from_slice(&((HEADER + TCMSG) as u32).to_ne_bytes());
        request[4..6].copy_from_slice(&RTM_GETQDISC.to_ne_bytes());
        request[6..8].copy_from_slice(&DUMP.to_ne_bytes());
        self.0.send(&request, 0).context("requesting queue depths")?;
        let mut depths = BTreeMap::new();
        loop {
            let answer = match self.0.recv_from_full() {
                // An unread response would be taken for the response to the next request.
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                read => read.context("reading queue depths")?.0,
            };
            if collect(&answer, &mut depths)? {
                return Ok(depths);
            }
        }
    }
}

/// Adds one datagram of the dump; returns whether it was the last.
fn collect(mut rest: &[u8], depths: &mut BTreeMap<u32, u64>) -> Result<bool> {
    while let Some((len, kind)) = word(rest, 0).zip(half(rest, 4)) {
        let Some(message) = rest.get(HEADER..len as usize) else { break };
        match kind {
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR => {
                let code = word(message, 0).unwrap_or(0) as i32;
                return Err(std::io::Error::from_raw_os_error(-code)).context("reading queue depths");
            }
            RTM_NEWQDISC => {
                if let Some((ifindex, depth)) = root(message) {
                    depths.insert(ifindex, depth);
                }
            }
            _ => {}
        }
        rest = rest.get((len as usize).next_multiple_of(4)..).unwrap_or(&[]);
    }
    Ok(false)
}

/// Interface and backlog, if the message describes a root queue.
fn root(message: &[u8]) -> Option<(u32, u64)> {
    if word(message, 12)? != TC_H_ROOT {
        return None;
    }
    let mut rest = message.get(TCMSG..)?;
    loop {
        let len = usize::from(half(rest, 0)?);
        let value = rest.get(4..len)?;
        if half(rest, 2)? == TCA_STATS {
            return Some((word(message, 4)?, word(value, BACKLOG)?.into()));
        }
        rest = rest.get(len.next_multiple_of(4)..)?;
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}
