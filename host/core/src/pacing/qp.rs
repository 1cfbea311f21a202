// SPDX-License-Identifier: Apache-2.0
//! One QP: its ledger, the arbiter over it, its pause and its recovery.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use canopy_model::ids::Qpn;
use canopy_model::instruction::{Action, Percent};

use super::ledger::{Issuer, IssuerRecord};
use super::pause::Budget;
use super::{Command, Outcome, QpSpec, Refusal, Settings};

#[derive(Clone, Debug)]
pub(super) struct Qp {
    spec: QpSpec,
    ledger: BTreeMap<Issuer, IssuerRecord>,
    round: Option<Round>,
    budget: Budget,
    /// When the next additive increase is due; `None` at line rate.
    recover_ns: Option<u64>,
    /// End of the current pause.
    paused_until_ns: Option<u64>,
    last_command: Option<Command>,
}

/// The RTT that starts with a reduction: all reductions within it count as one.
#[derive(Clone, Copy, Debug)]
struct Round {
    until_ns: u64,
    /// Rate at its start, from which every reduction within it is computed.
    start_bps: u64,
    /// The strictest reduction within it, and its issuer.
    percent: Percent,
    issuer: Issuer,
}

impl Round {
    /// When it ends for this issuer. The peer echoes CE marks only after packets have crossed the whole path: a CNP within an
    /// RTT after a node's round refers to packets that were sent before that node's instruction arrived.
    fn ends(&self, issuer: Issuer, rtt_ns: u64) -> u64 {
        let late = issuer == Issuer::Peer && self.issuer != Issuer::Peer;
        self.until_ns.saturating_add(if late { rtt_ns } else { 0 })
    }
}

impl Qp {
    pub(super) fn new(spec: QpSpec, settings: Settings, now_ns: u64) -> Self {
        let budget = Budget::full(settings, now_ns);
        let (ledger, round, recover_ns, paused_until_ns, last_command) = (BTreeMap::new(), None, None, None, None);
        Self { spec, ledger, round, budget, recover_ns, paused_until_ns, last_command }
    }

    pub(super) fn peer(&self) -> Ipv6Addr {
        self.spec.peer
    }

    pub(super) fn change(&mut self, spec: QpSpec) {
        self.ledger.values_mut().for_each(|e| e.change_line(self.spec.line_bps, spec.line_bps));
        self.spec = spec;
    }

    /// Drops the records of `gone` nodes that limit nothing.
    pub(super) fn forget_free(&mut self, gone: impl Fn(Ipv6Addr) -> bool, now: u64) {
        let line = self.spec.line_bps;
        self.ledger.retain(|issuer, record| match issuer {
            Issuer::Node(node) => !gone(*node) || !record.is_free(line, now),
            Issuer::Peer => true,
        });
    }

    /// When the next timer is due: the end of the pause, or an increase.
    pub(super) fn timer(&self) -> Option<u64> {
        self.paused_until_ns.into_iter().chain(self.recover_ns).min()
    }

    pub(super) fn long_haul(
        &mut self,
        issuer: Issuer,
        action: Action,
        timestamp: Option<u64>,
        settings: Settings,
        now: u64,
    ) -> Outcome {
        let (line, rtt) = (self.spec.line_bps, self.spec.rtt_ns);
        let known = self.ledger.contains_key(&issuer);
        if !known && matches!(action, Action::Resume(_)) {
            return Outcome::Absorbed;
        }
        let record = self.ledger.entry(issuer).or_insert_with(|| IssuerRecord::new(line));
        if matches!(action, Action::Resume(_)) && record.is_open(now) && record.requested_within(rtt, now) {
            return Outcome::Refused(Refusal::TooEarly);
        }
        if !record.is_newer(timestamp) {
            return Outcome::Refused(Refusal::Stale);
        }
        let outcome = match action {
            Action::Resume(percent) => {
                if !record.is_open(now) {
                    return Outcome::Absorbed;
                }
                record.resume(percent, settings.resume_cap.of(line), line, now);
                Outcome::Applied
            }
            Action::Notify => self.reduce(issuer, settings.default_reduction, now),
            Action::RateReduce(percent) => self.reduce(issuer, percent, now),
            Action::Pause { micros } => self.pause(issuer, micros, settings, now),
        };
        self.note_pause(now);
        let waiting = self.paused_until_ns.unwrap_or(now).max(now.saturating_add(rtt.saturating_mul(2)));
        self.recover_ns = self.ledger.values().any(|e| e.cap_bps < line).then_some(waiting);
        outcome
    }

    /// Applies one reduction per RTT: within a round, only a stricter one than all before has an effect.
    fn reduce(&mut self, issuer: Issuer, percent: Percent, now: u64) -> Outcome {
        if percent == Percent::ZERO {
            return Outcome::Absorbed;
        }
        let fresh = Round { until_ns: now.saturating_add(self.spec.rtt_ns), start_bps: self.rate(), percent, issuer };
        let current = self.round.filter(|round| now < round.ends(issuer, self.spec.rtt_ns));
        let round = current.unwrap_or(fresh);
        let stricter = percent > round.percent;
        self.round = Some(if stricter { Round { percent, issuer, ..round } } else { round });
        let start = round.start_bps;
        let target = (start - percent.of(start)).max(self.spec.min_bps);
        let before = self.rate();
        let line = self.spec.line_bps;
        let record = self.ledger.entry(issuer).or_insert_with(|| IssuerRecord::new(line));
        record.reduce(start, target);
        record.record_request(now);
        if self.rate() < before { Outcome::Applied } else { Outcome::Absorbed }
    }

    fn pause(&mut self, issuer: Issuer, micros: u16, settings: Settings, now: u64) -> Outcome {
        let wanted = now.saturating_add(u64::from(micros) * 1_000);
        let current = self.ledger.values().map(|e| e.paused_until_ns).max().unwrap_or(0).max(now);
        let longer = wanted.saturating_sub(current);
        let granted = self.budget.take(longer, settings, now);
        if let Some(record) = self.ledger.get_mut(&issuer) {
            record.paused_until_ns = record.paused_until_ns.max(wanted.min(current + granted));
            record.record_request(now);
        }
        if granted < longer {
            self.reduce(issuer, settings.default_reduction, now);
            return Outcome::Applied;
        }
        if granted > 0 { Outcome::Applied } else { Outcome::Absorbed }
    }

    /// Ends the pause and increases the rate if they are due.
    pub(super) fn timeout(&mut self, settings: Settings, now: u64) {
        let line = self.spec.line_bps;
        self.note_pause(now);
        if self.recover_ns.is_some_and(|at| at <= now) {
            let step = settings.increase.of(line).max(1);
            self.ledger.values_mut().for_each(|e| e.increase(step, line));
            let done = self.ledger.values().all(|e| e.cap_bps >= line);
            self.recover_ns = (!done).then(|| now.saturating_add(self.spec.rtt_ns));
        }
        self.ledger.retain(|_, e| !e.is_blank(line, now));
    }

    fn note_pause(&mut self, now: u64) {
        self.paused_until_ns = self.ledger.values().map(|e| e.paused_until_ns).max().filter(|until| *until > now);
    }

    /// The smallest cap, within the QP's own limits.
    fn rate(&self) -> u64 {
        let caps = self.ledger.values().map(|e| e.cap_bps);
        caps.min().unwrap_or(self.spec.line_bps).clamp(self.spec.min_bps, self.spec.line_bps)
    }

    /// The issuer of the smallest cap; among equals, that of the latest round.
    fn limiting_issuer(&self) -> Option<Issuer> {
        let least = self.ledger.values().map(|e| e.cap_bps).min().filter(|cap| *cap < self.spec.line_bps)?;
        let mut candidates = self.ledger.iter().filter(|(_, e)| e.cap_bps == least).map(|(issuer, _)| *issuer);
        let latest = self.round.map(|round| round.issuer);
        let first = candidates.next();
        latest.filter(|latest| first == Some(*latest) || candidates.any(|issuer| issuer == *latest)).or(first)
    }

    pub(super) fn state(&self, qp: Qpn, now: u64) -> Command {
        let paused_until_ns = self.paused_until_ns.filter(|until| *until > now);
        Command { qp, rate_bps: self.rate(), paused_until_ns, limited_by: self.limiting_issuer() }
    }

    /// The current state as a command, unless it equals the last one.
    pub(super) fn command(&mut self, qp: Qpn, now: u64) -> Option<Command> {
        let state = self.state(qp, now);
        let new = self.last_command != Some(state);
        self.last_command = Some(state);
        new.then_some(state)
    }
}
