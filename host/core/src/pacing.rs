// SPDX-License-Identifier: Apache-2.0
//! The source side of Long-haul CNP (decisions 4.7, draft-tian-ccwg-long-haul-cnp-00 section 5.6): the rate of each QP, computed
//! from the instructions of nodes and receivers. Pure: [`Pacing::handle`] takes inputs and the time, [`Pacing::poll_timeout`]
//! returns when to call [`Pacing::handle_timeout`], [`Pacing::next_command`] returns the next rate to set. Any monotonic
//! clock will do.
//!
//! - Every QP has a **ledger** with one record per issuer (a node, or the QP's peer, whose CNPs are those that the multicast
//!   tree aggregated). A record holds the *cap* that this issuer put on the rate. The rate is the smallest cap, so a Resume of
//!   one issuer never cancels the reduction of another.
//! - One **arbiter** combines all issuers: reductions within one RTT do not multiply; the strictest applies, to the rate at the
//!   start of that RTT. The rate is attributed to the issuer of the smallest cap.
//! - **Pauses** expire and draw on a budget per QP, so that no failed or malicious issuer can stop a QP for long.
//! - No state outlives its QP, and an issuer that is not provisioned leaves no state.
//!
//! `docs/long-haul.md` has the table of results.

mod ledger;
mod pause;
mod qp;

pub use ledger::Issuer;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use std::time::Duration;

use canopy_model::ids::Qpn;
use canopy_model::instruction::{Action, Percent};
use canopy_units::{Monotonic, Rate};

use qp::Qp;

/// Maximum number of paced QPs.
pub const MAX_QPS: usize = 65_536;
/// Maximum number of provisioned nodes.
pub const MAX_NODES: usize = 4_096;

/// Settings of a source, for all of its QPs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Reduction on Notify, on a plain CNP, and instead of a pause that exceeds the budget: 25 %.
    pub default_reduction: Percent,
    /// Maximum increase by one Resume, of the line rate: 25 %.
    pub resume_cap: Percent,
    /// Additive increase per RTT after two RTTs without an instruction, of the line rate: 5 %.
    pub increase: Percent,
    /// Longest pause that a full budget grants: 100 ms.
    pub pause_burst: Duration,
    /// Share of the time that the budget grants on average: 25 %.
    pub pause_share: Percent,
}

impl Default for Settings {
    fn default() -> Self {
        let quarter = Percent::saturating(25);
        Self {
            default_reduction: quarter,
            resume_cap: quarter,
            increase: Percent::saturating(5),
            pause_burst: Duration::from_millis(100),
            pause_share: quarter,
        }
    }
}

/// A QP and its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpSpec {
    /// Address of its peer: a receiver, or the Proxy Address of a multicast group. CNPs from it are accepted.
    pub peer: Ipv6Addr,
    /// Maximum rate.
    pub line: Rate,
    /// Minimum rate of any reduction (1 bit/s ..= `line`).
    pub min: Rate,
    /// RTT_est of its path (at least 1 ns).
    pub rtt: Duration,
}

/// An input of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Only these nodes may send Long-haul CNPs. Reductions of removed nodes are lifted by the additive increase.
    Nodes(BTreeSet<Ipv6Addr>),
    /// A QP was opened, or its path changed.
    Open(Qpn, QpSpec),
    /// A QP was closed.
    Close(Qpn),
    /// A well-formed Long-haul CNP was received.
    LongHaul {
        /// IPv6 source address of the packet.
        from: Ipv6Addr,
        /// Its Source QP Number.
        qp: Qpn,
        /// Its action.
        action: Action,
        /// Its Timestamp object (NTP format), if present. A packet whose timestamp is not newer than the last one is stale.
        timestamp: Option<u64>,
    },
    /// A plain CNP was received: from the peer, or from a node (a Long-haul CNP that could not be parsed).
    Cnp {
        /// IPv6 source address of the packet.
        from: Ipv6Addr,
        /// Destination QP of its BTH.
        qp: Qpn,
    },
}

/// Result of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It changed a rate, a pause or other state.
    Applied,
    /// It has no effect: a duplicate, a weaker reduction within the RTT, or a Resume without a reduction to lift.
    Absorbed,
    /// It was refused and changed nothing.
    Refused(Refusal),
}

/// Why an input was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The sender is neither a provisioned node nor, for a CNP, the peer.
    UnknownIssuer,
    /// The QP is not open.
    UnknownQp,
    /// A Resume within one RTT of the same issuer's last reduction or pause: a node sends a Resume only after its queue was low
    /// for one RTT, so this one is older than that reduction or pause.
    TooEarly,
    /// Its timestamp is not newer than the last one of the issuer.
    Stale,
    /// A field of [`QpSpec`] is out of its range.
    OutOfRange,
    /// [`MAX_QPS`] or [`MAX_NODES`] is reached.
    TooMany,
}

/// Rate and pause to set for a QP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// The QP.
    pub qp: Qpn,
    /// Its rate.
    pub rate: Rate,
    /// The QP must not send before this time. Another command follows at that time.
    pub paused_until: Option<Monotonic>,
    /// Issuer of the cap that determines the rate; `None` at line rate.
    pub limited_by: Option<Issuer>,
}

/// All QPs of a source.
#[derive(Debug, Default)]
pub struct Pacing {
    settings: Settings,
    nodes: BTreeSet<Ipv6Addr>,
    qps: BTreeMap<Qpn, Qp>,
    timers: BTreeSet<(Monotonic, Qpn)>,
    dirty: BTreeSet<Qpn>,
    now: Monotonic,
}

impl Pacing {
    /// A source without QPs and without provisioned nodes.
    pub fn new(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// Processes one input. An earlier `now` than the latest counts as the latest.
    pub fn handle(&mut self, input: Input, now: Monotonic) -> Outcome {
        self.handle_timeout(now);
        let (now, settings) = (self.now, self.settings);
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

    /// When [`Pacing::handle_timeout`] is due next; `None` without a timer.
    pub fn poll_timeout(&self) -> Option<Monotonic> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Runs the timers due at `now`: ends pauses, increases rates.
    pub fn handle_timeout(&mut self, now: Monotonic) {
        self.now = self.now.max(now);
        let (now, settings) = (self.now, self.settings);
        while let Some((_, number)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.touch(number, |qp| {
                qp.timeout(settings, now);
                Outcome::Applied
            });
        }
    }

    /// The next QP whose rate or pause differs from its last command; `None` when there is none.
    pub fn next_command(&mut self) -> Option<Command> {
        while let Some(number) = self.dirty.pop_first() {
            let command = self.qps.get_mut(&number).and_then(|qp| qp.command(number, self.now));
            if command.is_some() {
                return command;
            }
        }
        None
    }

    /// Current rate and pause of a QP; `None` if it is not open.
    pub fn state(&self, qp: Qpn) -> Option<Command> {
        self.qps.get(&qp).map(|state| state.state(qp, self.now))
    }

    fn open(&mut self, number: Qpn, spec: QpSpec) -> Outcome {
        if spec.min == Rate::ZERO || spec.min > spec.line || spec.rtt.is_zero() {
            return Outcome::Refused(Refusal::OutOfRange);
        }
        if self.qps.len() >= MAX_QPS && !self.qps.contains_key(&number) {
            return Outcome::Refused(Refusal::TooMany);
        }
        let (settings, now) = (self.settings, self.now);
        self.qps.entry(number).or_insert_with(|| Qp::new(spec, settings, now));
        self.touch(number, |qp| {
            qp.change(spec);
            Outcome::Applied
        })
    }

    /// Changes a QP, then updates its timer and marks it for [`Pacing::next_command`].
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
