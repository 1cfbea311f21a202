// SPDX-License-Identifier: Apache-2.0
//! The queue pairs of this host and the rate of each. No socket, no clock: inputs pass through [`Pacing`], changes
//! are queued for [`Engine::next_change`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Ipv6Addr;
use std::time::Duration;

use canopy_control::pb::PacingCause as Cause;
use canopy_host_core::pacing::{Command, Input, Outcome, Pacing, QpSpec, Refusal, Settings};
use canopy_model::ids::Qpn;
use canopy_model::instruction::Action;
use canopy_units::{Monotonic, Rate};

use crate::notice::{Content, Format, Invalid, Notification};
use crate::tally::{self, Tally};

/// A peer and a QP number: the Destination QP of a flow to it, or the local QP of its answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flow {
    /// The other side's address.
    pub peer: Ipv6Addr,
    /// QP number.
    pub qpn: u32,
}

/// How a queue pair became known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Registered by an application or an operator.
    Registered,
    /// Learned from its packets.
    Learned,
    /// A source of a group, from the agent of the host.
    Agent,
}

/// The source of an RTT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RttFrom {
    /// Configured at registration: never replaced.
    Given,
    /// The daemon's default, until one is measured.
    Assumed,
    /// Measured on the QP's own packets.
    Measured,
}

/// A live queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Live {
    /// Its peer and Destination QP.
    pub flow: Flow,
    /// How it became known.
    pub origin: Origin,
    /// The properties of its path.
    pub spec: QpSpec,
    /// The source of its RTT.
    pub rtt_from: RttFrom,
    /// Its current pacing.
    pub command: Command,
}

/// Parameters of opening a queue pair; absent ones are the daemon's defaults.
#[derive(Clone, Copy, Debug)]
pub struct Open {
    /// Its local number.
    pub qpn: Qpn,
    /// Its peer and Destination QP.
    pub flow: Flow,
    /// Maximum rate.
    pub line: Option<Rate>,
    /// Minimum rate, below which no reduction goes.
    pub min: Option<Rate>,
    /// RTT of its path.
    pub rtt: Option<Duration>,
}

/// Why a queue pair cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// Another registered queue pair has this flow.
    FlowTaken(Qpn),
    /// A rate is out of range, or there are too many queue pairs.
    Refused(Refusal),
}

/// What became of a queue pair that an operator or an application closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// It has ended. If the agent has it, it is paced as the agent's from now on.
    Ended,
    /// The agent has it, and it is not registered: it stays as it is.
    OfAgent,
    /// It is not live.
    Unknown,
}

/// A change of a queue pair's pacing, or its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The cause.
    pub cause: Cause,
    /// Its number.
    pub qpn: Qpn,
    /// Its state after the change.
    pub live: Live,
    /// When the kernel received the notification.
    pub received_at: Option<Monotonic>,
}

/// The daemon's defaults for every path.
#[derive(Clone, Copy, Debug)]
pub struct Defaults {
    /// Line rate.
    pub line: Rate,
    /// Minimum rate.
    pub min: Rate,
    /// RTT if none is measured.
    pub rtt: Duration,
}

/// All queue pairs.
#[derive(Debug)]
pub struct Engine {
    pacing: Pacing,
    defaults: Defaults,
    nodes: BTreeSet<Ipv6Addr>,
    live: BTreeMap<Qpn, Live>,
    flows: BTreeMap<Flow, Qpn>,
    /// Sources' queue pairs in the last report of the agent.
    of_agent: BTreeMap<Qpn, Flow>,
    changes: VecDeque<Change>,
    /// Counters of inputs and their outcomes.
    pub tally: Tally,
}

impl Engine {
    /// No queue pairs, no trusted nodes.
    pub fn new(defaults: Defaults) -> Self {
        let pacing = Pacing::new(Settings::default());
        let (nodes, live, flows, changes) = (BTreeSet::new(), BTreeMap::new(), BTreeMap::new(), VecDeque::new());
        let (of_agent, tally) = (BTreeMap::new(), Tally::default());
        Self { pacing, defaults, nodes, live, flows, of_agent, changes, tally }
    }

    /// The live queue pairs.
    pub fn live(&self) -> &BTreeMap<Qpn, Live> {
        &self.live
    }

    /// The queue pair of a flow.
    pub fn of_flow(&self, flow: Flow) -> Option<Qpn> {
        self.flows.get(&flow).copied()
    }

    /// The nodes whose Long-haul CNPs are accepted.
    pub fn nodes(&self) -> &BTreeSet<Ipv6Addr> {
        &self.nodes
    }

    /// Replaces the trusted nodes.
    ///
    /// # Errors
    /// There are too many; the old ones stay in force.
    pub fn set_nodes(&mut self, nodes: BTreeSet<Ipv6Addr>, now: Monotonic) -> Result<(), Refusal> {
        self.timeout(now);
        if let Outcome::Refused(why) = self.pacing.handle(Input::Nodes(nodes.clone()), now) {
            return Err(why);
        }
        self.nodes = nodes;
        Ok(())
    }

    /// Opens a queue pair, or changes its path. A learned queue pair of the same flow is closed.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn open(&mut self, open: Open, origin: Origin, now: Monotonic) -> Result<(), OpenError> {
        self.timeout(now);
        let Open { qpn, flow, .. } = open;
        let other = self.of_flow(flow).filter(|other| *other != qpn);
        if let Some(other) = other
            && (origin == Origin::Learned || self.live.get(&other).is_some_and(|l| l.origin == Origin::Registered))
        {
            return Err(OpenError::FlowTaken(other));
        }
        let line = open.line.unwrap_or(self.defaults.line);
        let min = open.min.unwrap_or(self.defaults.min.min(line));
        let spec = QpSpec { peer: flow.peer, line, min, rtt: open.rtt.unwrap_or(self.defaults.rtt) };
        if min == Rate::ZERO || min > line || spec.rtt.is_zero() {
            return Err(OpenError::Refused(Refusal::OutOfRange));
        }
        let elsewhere = self.live.get(&qpn).is_some_and(|live| live.flow != flow);
        for gone in other.into_iter().chain(elsewhere.then_some(qpn)) {
            self.close(gone, now);
        }
        let rtt_from = if open.rtt.is_some() { RttFrom::Given } else { RttFrom::Assumed };
        self.set(qpn, flow, spec, (origin, rtt_from), Cause::Open, now).map_err(OpenError::Refused)
    }

    /// Opens the queue pairs of the host's sources, and closes those that the agent had before and has no more. What an application or an
    /// operator registered stays as it is. Returns those that could not be opened.
    pub fn open_of_agent(&mut self, flows: &BTreeMap<Qpn, Flow>, now: Monotonic) -> Vec<(Qpn, OpenError)> {
        self.of_agent.clone_from(flows);
        let is_of_agent = |live: &Live| live.origin == Origin::Agent;
        let had: Vec<Qpn> = self.live.iter().filter(|(_, live)| is_of_agent(live)).map(|(qpn, _)| *qpn).collect();
        for qpn in had {
            if self.live.get(&qpn).map(|live| &live.flow) != flows.get(&qpn) {
                self.close(qpn, now);
            }
        }
        let mut refused = Vec::new();
        for (qpn, flow) in flows {
            if self.live.get(qpn).is_some_and(|live| live.origin != Origin::Learned) {
                continue;
            }
            let open = Open { qpn: *qpn, flow: *flow, line: None, min: None, rtt: None };
            if let Err(error) = self.open(open, Origin::Agent, now) {
                refused.push((*qpn, error));
            }
        }
        refused
    }

    /// Closes a queue pair for an operator or an application. One that the agent has is paced without a gap, at its present rate.
    pub fn close_registered(&mut self, qpn: Qpn, now: Monotonic) -> Closed {
        self.timeout(now);
        let Some(live) = self.live.get(&qpn).copied() else { return Closed::Unknown };
        if live.origin == Origin::Agent {
            return Closed::OfAgent;
        }
        let is_measured = live.rtt_from == RttFrom::Measured;
        let (rtt, rtt_from) =
            if is_measured { (live.spec.rtt, RttFrom::Measured) } else { (self.defaults.rtt, RttFrom::Assumed) };
        let Defaults { line, min, .. } = self.defaults;
        let spec = QpSpec { peer: live.flow.peer, line, min: min.min(line), rtt };
        let has_agent = self.of_agent.get(&qpn) == Some(&live.flow);
        let is_taken_over =
            has_agent && self.set(qpn, live.flow, spec, (Origin::Agent, rtt_from), Cause::Adjust, now).is_ok();
        if !is_taken_over {
            self.close(qpn, now);
            // Those that could not be opened beside it, too.
            let flows = self.of_agent.clone();
            self.open_of_agent(&flows, now);
        }
        Closed::Ended
    }

    /// Sets the measured RTT of a queue pair, unless its RTT is configured.
    pub fn measured(&mut self, qpn: Qpn, rtt: Duration, now: Monotonic) {
        self.timeout(now);
        let Some(live) = self.live.get(&qpn).copied().filter(|live| live.rtt_from != RttFrom::Given) else { return };
        let spec = QpSpec { rtt, ..live.spec };
        // The queue pair is live and its other parameters were accepted before.
        _ = self.set(qpn, live.flow, spec, (live.origin, RttFrom::Measured), Cause::Adjust, now);
    }

    fn set(
        &mut self,
        qpn: Qpn,
        flow: Flow,
        spec: QpSpec,
        (origin, rtt_from): (Origin, RttFrom),
        cause: Cause,
        now: Monotonic,
    ) -> Result<(), Refusal> {
        if let Outcome::Refused(why) = self.pacing.handle(Input::Open(qpn, spec), now) {
            return Err(why);
        }
        let free = Command { qp: qpn, rate: spec.line, paused_until: None, limited_by: None };
        let command = self.pacing.state(qpn).unwrap_or(free);
        let live = Live { flow, origin, spec, rtt_from, command };
        self.flows.insert(flow, qpn);
        let before = self.live.insert(qpn, live);
        if before != Some(live) {
            self.changes.push_back(Change { cause, qpn, live, received_at: None });
        }
        // The change above contains it.
        while self.pacing.next_command().is_some() {}
        Ok(())
    }

    /// Closes a queue pair; returns `false` if it is not live.
    pub fn close(&mut self, qpn: Qpn, now: Monotonic) -> bool {
        self.timeout(now);
        let Some(mut live) = self.live.remove(&qpn) else { return false };
        self.pacing.handle(Input::Close(qpn), now);
        self.flows.remove(&live.flow);
        live.command = Command { qp: qpn, rate: live.spec.line, paused_until: None, limited_by: None };
        self.changes.push_back(Change { cause: Cause::Close, qpn, live, received_at: None });
        true
    }

    /// Handles a received packet, well-formed or not.
    pub fn receive(
        &mut self,
        notification: Result<Notification, (Format, Invalid)>,
        received_at: Monotonic,
        now: Monotonic,
    ) {
        self.timeout(now);
        let notification = match notification {
            Ok(notification) => notification,
            Err((format, why)) => {
                self.tally.received(format.name());
                self.tally.count(why.name());
                return;
            }
        };
        self.tally.received(notification.format.name());
        let from = notification.from;
        let Ok(qp) = Qpn::new("qpn", notification.qpn.into()) else {
            // No QP of an application has this number; the issuer is checked first, as for every other notification.
            let known = self.nodes.contains(&from);
            self.tally.count(if known { "unknown_qp" } else { "unknown_issuer" });
            return;
        };
        let (input, cause) = match notification.content {
            Content::LongHaul { action, timestamp } => (Input::LongHaul { from, qp, action, timestamp }, cause(action)),
            Content::Cnp => (Input::Cnp { from, qp }, Cause::Cnp),
        };
        if notification.format == Format::Rocev2 && notification.content == Content::Cnp {
            self.tally.count("not_understood");
        }
        let outcome = self.pacing.handle(input, now);
        self.tally.count(tally::name(outcome));
        self.drain(Some((cause, received_at)));
    }

    /// When [`Engine::timeout`] is due; `None` when nothing is pending.
    pub fn poll_timeout(&self) -> Option<Monotonic> {
        self.pacing.poll_timeout()
    }

    /// Handles expired timers.
    pub fn timeout(&mut self, now: Monotonic) {
        self.pacing.handle_timeout(now);
        self.drain(None);
    }

    /// The next change; `None` if there are no more.
    pub fn next_change(&mut self) -> Option<Change> {
        self.changes.pop_front()
    }

    /// `why` is `None` for a change by a timer.
    fn drain(&mut self, why: Option<(Cause, Monotonic)>) {
        while let Some(command) = self.pacing.next_command() {
            let Some(live) = self.live.get_mut(&command.qp) else { continue };
            let ended = live.command.paused_until.is_some() && command.paused_until.is_none();
            if command.paused_until > live.command.paused_until {
                self.tally.count("pauses");
            }
            let cause = why.map_or(if ended { Cause::PauseEnd } else { Cause::Increase }, |(cause, _)| cause);
            live.command = command;
            let received_at = why.map(|(_, at)| at);
            self.changes.push_back(Change { cause, qpn: command.qp, live: *live, received_at });
        }
    }
}

fn cause(action: Action) -> Cause {
    match action {
        Action::Notify => Cause::Notify,
        Action::RateReduce(_) => Cause::Reduce,
        Action::Pause { .. } => Cause::Pause,
        Action::Resume(_) => Cause::Resume,
    }
}

#[cfg(test)]
mod tests;
