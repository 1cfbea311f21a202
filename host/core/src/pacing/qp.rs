// SPDX-License-Identifier: Apache-2.0
//! One QP: its ledger, the arbiter over it, its pause and its recovery.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::time::Duration;

use canopy_model::ids::Qpn;
use canopy_model::instruction::{Action, Percent};
use canopy_units::{Monotonic, Rate};

use super::ledger::{Issuer, IssuerRecord, share};
use super::pause::Budget;
use super::{Command, Outcome, QpSpec, Refusal, Settings};

#[derive(Clone, Debug)]
pub(super) struct Qp {
    spec: QpSpec,
    ledger: BTreeMap<Issuer, IssuerRecord>,
    round: Option<Round>,
    budget: Budget,
    /// When the next additive increase is due; `None` at line rate.
    recover_at: Option<Monotonic>,
    /// End of the current pause.
    paused_until: Option<Monotonic>,
    last_command: Option<Command>,
}

/// The RTT that starts with a reduction: all reductions within it count as one.
#[derive(Clone, Copy, Debug)]
struct Round {
    until: Monotonic,
    /// Rate at its start, from which every reduction within it is computed.
    start: Rate,
    /// The strictest reduction within it, and its issuer.
    percent: Percent,
    issuer: Issuer,
}

impl Round {
    /// When it ends for this issuer. The peer echoes CE marks only after packets have crossed the whole path: a CNP within an
    /// RTT after a node's round refers to packets that were sent before that node's instruction arrived.
    fn ends(&self, issuer: Issuer, rtt: Duration) -> Monotonic {
        let late = issuer == Issuer::Peer && self.issuer != Issuer::Peer;
        self.until + if late { rtt } else { Duration::ZERO }
    }
}

impl Qp {
    pub(super) fn new(spec: QpSpec, settings: Settings, now: Monotonic) -> Self {
        let budget = Budget::full(settings, now);
        let (ledger, round, recover_at, paused_until, last_command) = (BTreeMap::new(), None, None, None, None);
        Self { spec, ledger, round, budget, recover_at, paused_until, last_command }
    }

    pub(super) fn peer(&self) -> Ipv6Addr {
        self.spec.peer
    }

    pub(super) fn change(&mut self, spec: QpSpec) {
        self.ledger.values_mut().for_each(|e| e.change_line(self.spec.line, spec.line));
        self.spec = spec;
    }

    /// Drops the records of `gone` nodes that limit nothing.
    pub(super) fn forget_free(&mut self, gone: impl Fn(Ipv6Addr) -> bool, now: Monotonic) {
        let line = self.spec.line;
        self.ledger.retain(|issuer, record| match issuer {
            Issuer::Node(node) => !gone(*node) || !record.is_free(line, now),
            Issuer::Peer => true,
        });
    }

    /// When the next timer is due: the end of the pause, or an increase.
    pub(super) fn timer(&self) -> Option<Monotonic> {
        self.paused_until.into_iter().chain(self.recover_at).min()
    }

    pub(super) fn long_haul(
        &mut self,
        issuer: Issuer,
        action: Action,
        timestamp: Option<u64>,
        settings: Settings,
        now: Monotonic,
    ) -> Outcome {
        let (line, rtt) = (self.spec.line, self.spec.rtt);
        let known = self.ledger.contains_key(&issuer);
        if !known && matches!(action, Action::Resume(_)) {
            return Outcome::Absorbed;
        }
        let record = self.ledger.entry(issuer).or_insert_with(|| IssuerRecord::new(line));
        if matches!(action, Action::Resume(_)) && record.is_open(now) && record.requested_within(rtt, now) {
            return Outcome::Refused(Refusal::TooEarly);
        }
        if !record.is_newer(timestamp, now) {
            return Outcome::Refused(Refusal::Stale);
        }
        let outcome = match action {
            Action::Resume(percent) => {
                if !record.is_open(now) {
                    return Outcome::Absorbed;
                }
                record.resume(percent, share(settings.resume_cap, line), line, now);
                Outcome::Applied
            }
            Action::Notify => self.reduce(issuer, settings.default_reduction, now),
            Action::RateReduce(percent) => self.reduce(issuer, percent, now),
            Action::Pause { micros } => self.pause(issuer, micros, settings, now),
        };
        self.note_pause(now);
        let waiting = self.paused_until.unwrap_or(now).max(now + rtt.saturating_mul(2));
        self.recover_at = self.ledger.values().any(|e| e.cap < line).then_some(waiting);
        outcome
    }

    /// Applies one reduction per RTT: within a round, only a stricter one than all before has an effect.
    fn reduce(&mut self, issuer: Issuer, percent: Percent, now: Monotonic) -> Outcome {
        if percent == Percent::ZERO {
            return Outcome::Absorbed;
        }
        let fresh = Round { until: now + self.spec.rtt, start: self.rate(), percent, issuer };
        let current = self.round.filter(|round| now < round.ends(issuer, self.spec.rtt));
        let round = current.unwrap_or(fresh);
        let stricter = percent > round.percent;
        self.round = Some(if stricter { Round { percent, issuer, ..round } } else { round });
        let start = round.start;
        let target = start.saturating_sub(share(percent, start)).max(self.spec.min);
        let before = self.rate();
        let line = self.spec.line;
        let record = self.ledger.entry(issuer).or_insert_with(|| IssuerRecord::new(line));
        record.reduce(start, target);
        record.record_request(now);
        if self.rate() < before { Outcome::Applied } else { Outcome::Absorbed }
    }

    fn pause(&mut self, issuer: Issuer, micros: u16, settings: Settings, now: Monotonic) -> Outcome {
        let wanted = now + Duration::from_micros(micros.into());
        let current = self.ledger.values().map(|e| e.paused_until).max().unwrap_or_default().max(now);
        let longer = wanted.since(current);
        let granted = self.budget.take(longer, settings, now);
        if let Some(record) = self.ledger.get_mut(&issuer) {
            record.paused_until = record.paused_until.max(wanted.min(current + granted));
            record.record_request(now);
        }
        if granted < longer {
            self.reduce(issuer, settings.default_reduction, now);
            return Outcome::Applied;
        }
        if granted > Duration::ZERO { Outcome::Applied } else { Outcome::Absorbed }
    }

    /// Ends the pause and increases the rate if they are due.
    pub(super) fn timeout(&mut self, settings: Settings, now: Monotonic) {
        let line = self.spec.line;
        self.note_pause(now);
        if self.recover_at.is_some_and(|at| at <= now) {
            let step = share(settings.increase, line).max(Rate::from_bps(1));
            self.ledger.values_mut().for_each(|e| e.increase(step, line));
            let done = self.ledger.values().all(|e| e.cap >= line);
            self.recover_at = (!done).then(|| now + self.spec.rtt);
        }
        self.ledger.retain(|_, e| !e.is_blank(line, now));
    }

    fn note_pause(&mut self, now: Monotonic) {
        self.paused_until = self.ledger.values().map(|e| e.paused_until).max().filter(|until| *until > now);
    }

    /// The smallest cap, within the QP's own limits.
    fn rate(&self) -> Rate {
        let caps = self.ledger.values().map(|e| e.cap);
        caps.min().unwrap_or(self.spec.line).clamp(self.spec.min, self.spec.line)
    }

    /// The issuer of the smallest cap; among equals, that of the latest round.
    fn limiting_issuer(&self) -> Option<Issuer> {
        let least = self.ledger.values().map(|e| e.cap).min().filter(|cap| *cap < self.spec.line)?;
        let mut candidates = self.ledger.iter().filter(|(_, e)| e.cap == least).map(|(issuer, _)| *issuer);
        let latest = self.round.map(|round| round.issuer);
        let first = candidates.next();
        latest.filter(|latest| first == Some(*latest) || candidates.any(|issuer| issuer == *latest)).or(first)
    }

    pub(super) fn state(&self, qp: Qpn, now: Monotonic) -> Command {
        let paused_until = self.paused_until.filter(|until| *until > now);
        Command { qp, rate: self.rate(), paused_until, limited_by: self.limiting_issuer() }
    }

    /// The current state as a command, unless it equals the last one.
    pub(super) fn command(&mut self, qp: Qpn, now: Monotonic) -> Option<Command> {
        let state = self.state(qp, now);
        let new = self.last_command != Some(state);
        self.last_command = Some(state);
        new.then_some(state)
    }
}
