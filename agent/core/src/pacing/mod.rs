// SPDX-License-Identifier: Apache-2.0
//! The source side of Long-haul CNP (decisions 4.7, draft-tian-ccwg-long-haul-cnp-00 section 5.6): what a QP may send, given
//! what nodes and receivers said. Pure: [`Pacing::handle`] takes inputs and the time, [`Pacing::poll_timeout`] says when
//! [`Pacing::handle_timeout`] wants to be called, [`Pacing::next_command`] says what to set. Times are nanoseconds on any
//! steady clock, rates bits per second.
//!
//! - Every QP has a **ledger** with one entry per issuer (a node, or the QP's peer, whose CNPs are those that the multicast
//!   tree aggregated). An entry is the *cap* that this issuer put on the rate. The rate is the smallest cap, so what one
//!   issuer takes back never undoes what another asked for.
//! - One **arbiter** for all of them: reductions within one RTT do not multiply, the strictest counts, from the rate at the
//!   beginning of that RTT; the issuer of the smallest cap is blamed.
//! - **Pauses** expire by themselves and draw on a budget per QP, so that no issuer, dead or lying, can stop a QP for long.
//! - Nothing here outlives its QP, and an issuer that is not provisioned leaves no trace.
//!
//! `docs/long-haul.md` has the table of results.

mod ledger;
mod pause;
mod qp;

pub use ledger::Issuer;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;

use canopy_model::ids::Qpn;

use crate::congestion::{Action, Percent};
use qp::Qp;

/// QPs that are paced at most.
pub const MAX_QPS: usize = 65_536;
/// Nodes that may be provisioned at most.
pub const MAX_NODES: usize = 4_096;

/// How a source responds. The same for all of its QPs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Reduction on Notify, on a plain CNP, and in place of a pause that the budget does not cover: 25 %.
    pub default_reduction: Percent,
    /// Largest increase by one Resume, of the line rate: 25 %.
    pub resume_cap: Percent,
    /// Additive increase per RTT after two RTTs without news, of the line rate: 5 %.
    pub increase: Percent,
    /// Longest pause that an untouched budget grants, in nanoseconds: 100 ms.
    pub pause_burst_ns: u64,
    /// Share of the time that the budget grants in the long run: 25 %.
    pub pause_share: Percent,
}

impl Default for Settings {
    fn default() -> Self {
        let quarter = Percent::saturating(25);
        Self {
            default_reduction: quarter,
            resume_cap: quarter,
            increase: Percent::saturating(5),
            pause_burst_ns: 100_000_000,
            pause_share: quarter,
        }
    }
}

/// A QP and its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpSpec {
    /// Who answers it: a receiver, or the Proxy Address of a multicast group. Its CNPs are accepted.
    pub peer: Ipv6Addr,
    /// Rate that nothing exceeds.
    pub line_bps: u64,
    /// Rate that no reduction goes below (1..=`line_bps`).
    pub min_bps: u64,
    /// RTT_est of its path (at least 1).
    pub rtt_ns: u64,
}

/// What can happen to a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// These nodes, and no others, may send Long-haul CNPs. What nodes that are gone asked for wears off.
    Nodes(BTreeSet<Ipv6Addr>),
    /// A QP is live, or its path changed.
    Open(Qpn, QpSpec),
    /// A QP is gone.
    Close(Qpn),
    /// A Long-haul CNP came in, well-formed.
    LongHaul {
        /// IPv6 source address of the packet.
        from: Ipv6Addr,
        /// Its Source QP Number.
        qp: Qpn,
        /// What it asks for.
        action: Action,
        /// Its Timestamp object (NTP format), if it has one: then one that is not newer than the last is stale.
        timestamp: Option<u64>,
    },
    /// A plain CNP came in: from the peer, or from a node (a Long-haul CNP that could not be understood).
    Cnp {
        /// IPv6 source address of the packet.
        from: Ipv6Addr,
        /// Destination QP of its BTH.
        qp: Qpn,
    },
}

/// What became of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It changed a rate, a pause or what is known.
    Applied,
    /// It asks for what is already so: a duplicate, a weaker reduction within the RTT, a Resume with nothing to take back.
    Absorbed,
    /// It changed nothing.
    Refused(Refusal),
}

/// Why an input changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The sender is neither a provisioned node nor, for a CNP, the peer.
    UnknownIssuer,
    /// No such QP is live.
    UnknownQp,
    /// A Resume within one RTT of the same issuer's last reduction or pause: a node must see its queue low for one RTT
    /// first, so this one is older than what it would undo.
    TooEarly,
    /// Its timestamp is not newer than that of the issuer's last packet.
    Stale,
    /// A field of [`QpSpec`] is out of its range.
    OutOfRange,
    /// [`MAX_QPS`] or [`MAX_NODES`] are reached.
    TooMany,
}

/// How a QP is to send from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// The QP.
    pub qp: Qpn,
    /// Its rate.
    pub rate_bps: u64,
    /// It sends nothing before this time. Another command follows when the time has come.
    pub paused_until_ns: Option<u64>,
    /// Whose cap the rate is; `None` at line rate.
    pub blamed: Option<Issuer>,
}

/// All QPs of a source.
#[derive(Debug, Default)]
pub struct Pacing {
    settings: Settings,
    nodes: BTreeSet<Ipv6Addr>,
    qps: BTreeMap<Qpn, Qp>,
    timers: BTreeSet<(u64, Qpn)>,
    dirty: BTreeSet<Qpn>,
    now_ns: u64,
}

impl Pacing {
    /// A source without QPs that trusts no node.
    pub fn new(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// Takes in one input. Time does not go back: an earlier `now_ns` counts as the latest.
    pub fn handle(&mut self, input: Input, now_ns: u64) -> Outcome {
        self.handle_timeout(now_ns);
        let (now, settings) = (self.now_ns, self.settings);
        match input {
            Input::Nodes(nodes) if nodes.len() > MAX_NODES => Outcome::Refused(Refusal::TooMany),
            Input::Nodes(nodes) => {
                self.nodes = nodes;
                self.qps.values_mut().for_each(|qp| qp.forget_free(|node| !self.nodes.contains(&node), now));
                Outcome::Applied
            }
            Input::Open(qp, spec) => self.open(qp, spec),
            Input::Close(number) => match self.qps.remove(&number) {
                Some(qp) => {
                    qp.timer().map(|at| self.timers.remove(&(at, number)));
                    self.dirty.remove(&number);
                    Outcome::Applied
                }
                None => Outcome::Refused(Refusal::UnknownQp),
            },
            Input::LongHaul { from, qp, action, timestamp } => {
                if !self.nodes.contains(&from) {
                    return Outcome::Refused(Refusal::UnknownIssuer);
                }
                self.touch(qp, |qp| qp.long_haul(Issuer::Node(from), action, timestamp, settings, now))
            }
            Input::Cnp { from, qp } => {
                let node = self.nodes.contains(&from);
                self.touch(qp, |qp| {
                    let issuer = match (qp.peer() == from, node) {
                        (true, _) => Issuer::Peer,
                        (false, true) => Issuer::Node(from),
                        (false, false) => return Outcome::Refused(Refusal::UnknownIssuer),
                    };
                    qp.long_haul(issuer, Action::Notify, None, settings, now)
                })
            }
        }
    }

    /// When [`Pacing::handle_timeout`] is due next; `None` when nothing is pending.
    pub fn poll_timeout(&self) -> Option<u64> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Does what is due at `now_ns`: ends pauses, increases rates.
    pub fn handle_timeout(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
        let (now, settings) = (self.now_ns, self.settings);
        while let Some((_, number)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.touch(number, |qp| {
                qp.timeout(settings, now);
                Outcome::Applied
            });
        }
    }

    /// The next QP whose rate or pause is other than what was last said; `None` when all is said.
    pub fn next_command(&mut self) -> Option<Command> {
        while let Some(number) = self.dirty.pop_first() {
            let command = self.qps.get_mut(&number).and_then(|qp| qp.command(number, self.now_ns));
            if command.is_some() {
                return command;
            }
        }
        None
    }

    /// How a QP is to send now; `None` when it is not live.
    pub fn state(&self, qp: Qpn) -> Option<Command> {
        self.qps.get(&qp).map(|state| state.state(qp, self.now_ns))
    }

    fn open(&mut self, number: Qpn, spec: QpSpec) -> Outcome {
        if spec.min_bps == 0 || spec.min_bps > spec.line_bps || spec.rtt_ns == 0 {
            return Outcome::Refused(Refusal::OutOfRange);
        }
        if self.qps.len() >= MAX_QPS && !self.qps.contains_key(&number) {
            return Outcome::Refused(Refusal::TooMany);
        }
        let (settings, now) = (self.settings, self.now_ns);
        self.qps.entry(number).or_insert_with(|| Qp::new(spec, settings, now));
        self.touch(number, |qp| {
            qp.change(spec);
            Outcome::Applied
        })
    }

    /// Lets something happen to a QP, and keeps its timer and what is to be said in step.
    fn touch(&mut self, number: Qpn, work: impl FnOnce(&mut Qp) -> Outcome) -> Outcome {
        let Some(qp) = self.qps.get_mut(&number) else { return Outcome::Refused(Refusal::UnknownQp) };
        if let Some(at) = qp.timer() {
            self.timers.remove(&(at, number));
        }
        let outcome = work(qp);
        if let Some(at) = qp.timer() {
            self.timers.insert((at, number));
        }
        self.dirty.insert(number);
        outcome
    }
}

#[cfg(test)]
mod tests;
