// SPDX-License-Identifier: Apache-2.0
//! One HTB class for each queue pair that was ever slowed down, and one for all other traffic, below a class that
//! stands for the line: a class has a small guaranteed rate, and borrows up to its own rate from what the line has
//! left.
//!
//! HTB cannot pause a class. For a pause the class gets so low a rate that one packet uses up the whole pause; the
//! debt ends with the pause, so that sending continues at once.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use anyhow::{Context, bail};
use canopy_host_core::pacing::Command;
use canopy_model::ids::Qpn;
use canopy_units::{Monotonic, Rate};
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage};

use super::Path;
use super::netlink::{Existing, Netlink};
use super::options::{self, Class};
use super::root::{DEFAULT_CLASS, LINE_CLASS, MAJOR};
use crate::clock::monotonic;

/// Octets on the line in addition to the MTU: Ethernet header, FCS, preamble and gap.
const FRAMING: u64 = 38;
/// The burst is the rate times this, and at least two packets.
const BURST: Duration = Duration::from_micros(250);
/// The guaranteed rate of a class is its rate divided by this, so that the sum fits into any line.
const SURE: u64 = 1 << 20;
/// The guaranteed rate of traffic that is not paced, ACKs included, is the line rate divided by this.
const SURE_OF_DEFAULT: u64 = 8;
/// A released class drains its queue at line rate for this time.
const DRAIN: Duration = Duration::from_secs(1);
/// At the end, packets queued in classes leave within this time, or are lost with them.
const FLUSH: Duration = Duration::from_millis(50);

/// The classes.
pub(super) struct Htb {
    path: Path,
    classes: BTreeMap<Qpn, u16>,
    /// Minor number that was never used before.
    next: u16,
    free: Vec<u16>,
    draining: VecDeque<(Monotonic, u16)>,
}

impl Htb {
    /// Creates the classes of the line and of traffic that is not paced.
    pub(super) async fn new(netlink: &mut Netlink, path: Path) -> anyhow::Result<Self> {
        let (classes, free, draining) = (BTreeMap::new(), Vec::new(), VecDeque::new());
        let htb = Self { path, classes, next: 1, free, draining };
        let line = htb.flowing(path.line);
        htb.change(netlink, LINE_CLASS, Class { sure: line.most, ..line }).await.context("making the line's class")?;
        let default = Class { sure: (line.most / SURE_OF_DEFAULT).max(1), ..line };
        htb.make(netlink, DEFAULT_CLASS, default).await.context("making the class of what is not paced")?;
        Ok(htb)
    }

    /// Sets the pacing of a queue pair; returns the id of its class.
    pub(super) async fn set(&mut self, netlink: &mut Netlink, qpn: Qpn, command: Command) -> anyhow::Result<u32> {
        let minor = match self.classes.get(&qpn) {
            Some(minor) => *minor,
            None => {
                let minor = self.take_minor()?;
                self.make(netlink, minor, self.flowing(command.rate)).await?;
                self.classes.insert(qpn, minor);
                minor
            }
        };
        let pause = command.paused_until.map_or(Duration::ZERO, |until| until.since(monotonic()));
        let class = if pause > Duration::ZERO { self.paused(pause) } else { self.flowing(command.rate) };
        self.change(netlink, minor, class).await?;
        Ok(u32::from(MAJOR) << 16 | u32::from(minor))
    }

    /// Releases the class of a queue pair.
    pub(super) async fn release(&mut self, netlink: &mut Netlink, qpn: Qpn) -> anyhow::Result<()> {
        let Some(minor) = self.classes.remove(&qpn) else { return Ok(()) };
        self.draining.push_back((monotonic() + DRAIN, minor));
        self.change(netlink, minor, self.flowing(self.path.line)).await
    }

    /// Removes the classes that have drained.
    pub(super) async fn tidy(&mut self, netlink: &mut Netlink) {
        let now = monotonic();
        while let Some((_, minor)) = self.draining.pop_front_if(|(at, _)| *at <= now) {
            if let Err(error) = netlink.delete_class(message(self.path.ifindex, minor)).await {
                tracing::warn!(?error, minor, "an HTB class cannot be removed");
            }
            self.free.push(minor);
        }
    }

    /// Sends all packets that are queued in classes.
    pub(super) async fn flush(&mut self, netlink: &mut Netlink) {
        for minor in self.classes.values() {
            if let Err(error) = self.change(netlink, *minor, self.flowing(self.path.line)).await {
                tracing::warn!(error = format!("{error:#}"), "an HTB class cannot be opened");
            }
        }
        if !self.classes.is_empty() {
            tokio::time::sleep(FLUSH).await;
        }
    }

    fn take_minor(&mut self) -> anyhow::Result<u16> {
        if let Some(minor) = self.free.pop() {
            return Ok(minor);
        }
        if self.next == LINE_CLASS {
            bail!("{} QPs have an HTB class, and no more is possible: use a kernel with fq", LINE_CLASS - 1);
        }
        self.next += 1;
        Ok(self.next - 1)
    }

    /// Creates a class with a queue that is long enough for a slow QP.
    async fn make(&self, netlink: &mut Netlink, minor: u16, class: Class) -> anyhow::Result<()> {
        self.change(netlink, minor, class).await?;
        let mut leaf = TcMessage::with_index(self.path.ifindex as i32);
        leaf.header.parent = TcHandle { major: MAJOR, minor };
        leaf.attributes = vec![TcAttribute::Kind("pfifo".to_owned()), options::pfifo()];
        let made = netlink.set_qdisc(leaf, Existing::Replace).await;
        made.map_err(anyhow::Error::from).with_context(|| format!("making the queue of HTB class {minor:x}"))
    }

    async fn change(&self, netlink: &mut Netlink, minor: u16, class: Class) -> anyhow::Result<()> {
        let mut message = message(self.path.ifindex, minor);
        let above = if minor == LINE_CLASS { 0 } else { LINE_CLASS };
        message.header.parent = TcHandle { major: MAJOR, minor: above };
        message.attributes = vec![TcAttribute::Kind("htb".to_owned()), options::class(class)];
        let changed = netlink.set_class(message).await;
        changed.map_err(anyhow::Error::from).with_context(|| format!("changing HTB class {minor:x}"))
    }

    fn packet(&self) -> u64 {
        u64::from(self.path.mtu) + FRAMING
    }

    fn flowing(&self, rate: Rate) -> Class {
        let most = (rate.bps() / 8).max(1);
        let burst = u128::from(most) * BURST.as_nanos() / 1_000_000_000;
        let burst_octets = u64::try_from(burst).unwrap_or(u64::MAX).max(2 * self.packet());
        Class { sure: (most / SURE).max(1), most, burst_octets, quantum: self.quantum() }
    }

    /// One packet of the MTU uses up the whole pause.
    fn paused(&self, pause: Duration) -> Class {
        let rate = u128::from(self.packet()) * 1_000_000_000 / pause.as_nanos().max(1);
        let line = (self.path.line.bps() / 8).max(1);
        let most = u64::try_from(rate).unwrap_or(u64::MAX).clamp(1, line);
        Class { sure: 1, most, burst_octets: 1, quantum: self.quantum() }
    }

    fn quantum(&self) -> u32 {
        self.path.mtu + FRAMING as u32
    }
}

fn message(ifindex: u32, minor: u16) -> TcMessage {
    let mut message = TcMessage::with_index(ifindex as i32);
    message.header.handle = TcHandle { major: MAJOR, minor };
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    fn htb() -> Htb {
        let path = Path { ifindex: 1, mtu: 1500, line: Rate::from_bps(1_000_000_000) };
        Htb { path, classes: BTreeMap::new(), next: 1, free: vec![], draining: VecDeque::new() }
    }

    #[test]
    fn one_packet_uses_a_pause_up() {
        let paused = htb().paused(Duration::from_millis(50));
        let debt_ns = htb().packet() * 1_000_000_000 / paused.most;
        assert!((50_000_000..50_010_000).contains(&debt_ns), "{debt_ns}");
        assert_eq!(htb().paused(Duration::from_nanos(1)).most, 125_000_000, "never above line rate");
    }

    #[test]
    fn numbers_of_classes_end_and_come_back() {
        let mut htb = htb();
        let all: Vec<u16> = std::iter::from_fn(|| htb.take_minor().ok()).collect();
        assert_eq!((all.len(), all[0], all[all.len() - 1]), (0xFFFD, 1, 0xFFFD));
        htb.free.push(7);
        assert_eq!(htb.take_minor().ok(), Some(7));
        assert!(htb.take_minor().is_err());
    }
}
