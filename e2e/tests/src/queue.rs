// SPDX-License-Identifier: Apache-2.0
//! Depth of a port's queue over time: polls the kernel for that one queue some thousand times a second, which costs
//! little.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use canopy_lab::Lab;
use canopy_units::{Monotonic, Octets};
use nix::net::if_::if_nametoindex;
use nix::sched::{CloneFlags, setns};
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send, setsockopt, socket,
    sockopt,
};
use nix::sys::time::TimeVal;
use nix::time::{ClockId, clock_gettime};

/// Interval between two samples.
const EVERY: Duration = Duration::from_micros(500);
/// linux/rtnetlink.h: `struct nlmsghdr`, `struct tcmsg` (family, ifindex, handle, parent, info), and attributes.
const RTM_NEWQDISC: u16 = 36;
const RTM_GETQDISC: u16 = 38;
/// NLM_F_REQUEST | NLM_F_ECHO: the kernel answers the requesting socket.
const ASK: u16 = 1 | 8;
/// Seconds to wait for the kernel's answer.
const PATIENCE: i64 = 1;
const HEADERS: usize = 16 + 20;
const TCA_STATS: u16 = 3;
/// `backlog` in `struct tc_stats`, octets.
const BACKLOG: usize = 32;

/// CLOCK_MONOTONIC: the clock of `canopy-pacer watch --json`.
fn monotonic() -> Monotonic {
    Monotonic::START + clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from)
}

/// One sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Depth {
    /// Its time.
    pub at: Monotonic,
    /// What is in the queue.
    pub queue: Octets,
}

/// Samples one queue until it is stopped.
#[derive(Debug)]
pub struct Sampler {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Vec<Depth>>>,
}

impl Sampler {
    /// Starts sampling the root queue of `port` at `device`.
    ///
    /// # Errors
    /// No such device.
    pub fn start(lab: &Lab, device: &str, port: &str) -> Result<Self> {
        let path = format!("/run/netns/{}", lab.state().instance.namespace(device));
        let namespace = File::open(&path).with_context(|| format!("opening {path}"))?;
        let stop = Arc::new(AtomicBool::new(false));
        let (flag, port) = (Arc::clone(&stop), port.to_owned());
        Ok(Self { stop, thread: std::thread::spawn(move || sample(&namespace, &port, &flag)) })
    }

    /// All samples, in order.
    ///
    /// # Errors
    /// There is no such port, or it has no queue.
    pub fn stop(self) -> Result<Vec<Depth>> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|_| bail!("the sampler panicked"))
    }
}

/// Runs in a thread of its own, which enters the namespace.
fn sample(namespace: &File, port: &str, stop: &AtomicBool) -> Result<Vec<Depth>> {
    setns(namespace, CloneFlags::CLONE_NEWNET).context("entering the namespace")?;
    let ifindex = if_nametoindex(port).with_context(|| format!("interface {port}"))?;
    let netlink: OwnedFd =
        socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute)?;
    bind(netlink.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
    setsockopt(&netlink, sockopt::ReceiveTimeout, &TimeVal::new(PATIENCE, 0))?;
    let mut request = [0u8; HEADERS];
    request[..4].copy_from_slice(&(HEADERS as u32).to_ne_bytes());
    request[4..6].copy_from_slice(&RTM_GETQDISC.to_ne_bytes());
    request[6..8].copy_from_slice(&ASK.to_ne_bytes());
    request[20..24].copy_from_slice(&ifindex.to_ne_bytes());
    // TC_H_ROOT
    request[28..32].copy_from_slice(&u32::MAX.to_ne_bytes());
    let (mut all, mut answer) = (Vec::new(), [0u8; 4096]);
    while !stop.load(Ordering::Relaxed) {
        send(netlink.as_raw_fd(), &request, MsgFlags::empty())?;
        let len = recv(netlink.as_raw_fd(), &mut answer, MsgFlags::empty())?;
        let queue = octets(&answer[..len]).with_context(|| format!("{port} has no queue of its own"))?;
        all.push(Depth { at: monotonic(), queue });
        std::thread::sleep(EVERY);
    }
    Ok(all)
}

/// The backlog in a message about a queue.
fn octets(message: &[u8]) -> Option<Octets> {
    let half = |at: usize| Some(u16::from_ne_bytes(*message.get(at..)?.first_chunk()?));
    if half(4)? != RTM_NEWQDISC {
        return None;
    }
    let mut at = HEADERS;
    while half(at + 2)? != TCA_STATS {
        at += usize::from(half(at)?.max(4)).next_multiple_of(4);
    }
    Some(Octets(u32::from_ne_bytes(*message.get(at + 4 + BACKLOG..)?.first_chunk()?).into()))
}

/// Time at which a queue was first above `limit`, interpolated linearly between two samples.
pub fn first_above(depths: &[Depth], limit: Octets) -> Option<Monotonic> {
    let at = depths.iter().position(|d| d.queue > limit)?;
    let (after, Some(before)) = (depths[at], at.checked_sub(1).map(|i| depths[i])) else {
        return Some(depths[at].at);
    };
    let more = |than: Octets| than.saturating_sub(before.queue).get() as f64;
    Some(before.at + after.at.since(before.at).mul_f64(more(limit) / more(after.queue)))
}

/// Total time above `limit`.
pub fn time_above(depths: &[Depth], limit: Octets) -> Duration {
    depths.windows(2).filter(|w| w[0].queue > limit).map(|w| w[1].at.since(w[0].at)).sum()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn depths_are_read_and_added_up() {
        let mut message = vec![0; HEADERS];
        message[4..6].copy_from_slice(&RTM_NEWQDISC.to_ne_bytes());
        assert_eq!(octets(&message), None, "no statistics");
        let mut attribute = |kind: u16, value: &[u8]| {
            message.extend((4 + value.len() as u16).to_ne_bytes());
            message.extend(kind.to_ne_bytes());
            message.extend(value);
            message.resize(message.len().next_multiple_of(4), 0);
        };
        attribute(1, b"tbf\0\0");
        let mut stats = [0; 36];
        stats[BACKLOG..].copy_from_slice(&4096u32.to_ne_bytes());
        attribute(TCA_STATS, &stats);
        assert_eq!((octets(&message), octets(&message[..message.len() - 1])), (Some(Octets(4096)), None));
        let depths = [(0, 5), (10, 20), (30, 21), (40, 3), (50, 9)]
            .map(|(ns, octets)| Depth { at: Monotonic::from_nanos(ns), queue: Octets(octets) });
        let firsts = [8, 3, 30].map(|limit| first_above(&depths, Octets(limit)).map(Monotonic::nanos));
        assert_eq!(firsts, [Some(2), Some(0), None]);
        assert_eq!([10, 30].map(|limit| time_above(&depths, Octets(limit)).as_nanos()), [30, 0]);
    }
}
