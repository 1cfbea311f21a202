// SPDX-License-Identifier: Apache-2.0
//! One QP: its ledger, the arbiter over it, its pause and its recovery.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use canopy_model::ids::Qpn;

use super::ledger::{Entry, Issuer};
use super::pause::Budget;
use super::{Command, Outcome, QpSpec, Refusal, Settings};
use crate::congestion::{Action, Percent};

#[derive(Clone, Debug)]
pub(super) struct Qp {
    spec: QpSpec,
    ledger: BTreeMap<Issuer, Entry>,
    round: Option<Round>,
    budget: Budget,
    /// When the next additive increase is due; `None` at line rate.
    recover_ns: Option<u64>,
    /// End of the pause that was last seen running.
    paused_until_ns: Option<u64>,
    told: Option<Command>,
}

/// The RTT that began with a reduction: all reductions in it are one.
#[derive(Clone, Copy, Debug)]
struct Round {
    until_ns: u64,
    /// Rate at its beginning: what every reduction in it counts from.
    start_bps: u64,
    /// The strictest that was asked for in it, and by whom.
    percent: Percent,
    blamed: Issuer,
}

impl Round {
    /// When it ends for this issuer. The peer echoes marks when the packets have gone all the way: what it says within an RTT
    /// after a node's round is about packets that were sent before that node was heard.
    fn ends(&self, issuer: Issuer, rtt_ns: u64) -> u64 {
        let late = issuer == Issuer::Peer && self.blamed != Issuer::Peer;
        self.until_ns.saturating_add(if late { rtt_ns } else { 0 })
    }
}

impl Qp {
    pub(super) fn new(spec: QpSpec, settings: Settings, now_ns: u64) -> Self {
        let budget = Budget::full(settings, now_ns);
        let (ledger, round, recover_ns, paused_until_ns, told) = (BTreeMap::new(), None, None, None, None);
        Self { spec, ledger, round, budget, recover_ns, paused_until_ns, told }
    }

    pub(super) fn peer(&self) -> Ipv6Addr {
        self.spec.peer
    }

    pub(super) fn change(&mut self, spec: QpSpec) {
        self.ledger.values_mut().for_each(|e| e.change_line(self.spec.line_bps, spec.line_bps));
        self.spec = spec;
    }

    /// Forgets entries that ask for nothing and whose node is `gone`.
    pub(super) fn forget_free(&mut self, gone: impl Fn(Ipv6Addr) -> bool, now: u64) {
        let line = self.spec.line_bps;
        self.ledger.retain(|issuer, entry| match issuer {
            Issuer::Node(node) => !gone(*node) || !entry.is_free(line, now),
            Issuer::Peer => true,
        });
    }

    /// When something is due: the end of the pause, or an increase.
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
        let entry = self.ledger.entry(issuer).or_insert_with(|| Entry::new(line));
        if matches!(action, Action::Resume(_)) && entry.is_open(now) && entry.asked_within(rtt, now) {
            return Outcome::Refused(Refusal::TooEarly);
        }
        if !entry.is_newer(timestamp) {
            return Outcome::Refused(Refusal::Stale);
        }
        let outcome = match action {
            Action::Resume(percent) => {
                if !entry.is_open(now) {
                    return Outcome::Absorbed;
                }
                entry.resume(percent, settings.resume_cap.of(line), line, now);
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

    /// One reduction per RTT: within it, only what is stricter than all before adds something.
    fn reduce(&mut self, issuer: Issuer, percent: Percent, now: u64) -> Outcome {
        if percent == Percent::ZERO {
            return Outcome::Absorbed;
        }
        let fresh =
            Round { until_ns: now.saturating_add(self.spec.rtt_ns), start_bps: self.rate(), percent, blamed: issuer };
        let running = self.round.filter(|round| now < round.ends(issuer, self.spec.rtt_ns));
        let round = running.unwrap_or(fresh);
        let stricter = percent > round.percent;
        self.round = Some(if stricter { Round { percent, blamed: issuer, ..round } } else { round });
        let start = round.start_bps;
        let target = (start - percent.of(start)).max(self.spec.min_bps);
        let before = self.rate();
        let line = self.spec.line_bps;
        let entry = self.ledger.entry(issuer).or_insert_with(|| Entry::new(line));
        entry.reduce(start, target);
        entry.ask(now);
        if self.rate() < before { Outcome::Applied } else { Outcome::Absorbed }
    }

    fn pause(&mut self, issuer: Issuer, micros: u16, settings: Settings, now: u64) -> Outcome {
        let wanted = now.saturating_add(u64::from(micros) * 1_000);
        let running = self.ledger.values().map(|e| e.paused_until_ns).max().unwrap_or(0).max(now);
        let longer = wanted.saturating_sub(running);
        let granted = self.budget.take(longer, settings, now);
        if let Some(entry) = self.ledger.get_mut(&issuer) {
            entry.paused_until_ns = entry.paused_until_ns.max(wanted.min(running + granted));
            entry.ask(now);
        }
        if granted < longer {
            self.reduce(issuer, settings.default_reduction, now);
            return Outcome::Applied;
        }
        if granted > 0 { Outcome::Applied } else { Outcome::Absorbed }
    }

    /// Ends the pause and increases the rate, where the time has come.
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

    fn blamed(&self) -> Option<Issuer> {
        let least = self.ledger.values().map(|e| e.cap_bps).min().filter(|cap| *cap < self.spec.line_bps)?;
        let mut guilty = self.ledger.iter().filter(|(_, e)| e.cap_bps == least).map(|(issuer, _)| *issuer);
        let latest = self.round.map(|round| round.blamed);
        let first = guilty.next();
        latest.filter(|latest| first == Some(*latest) || guilty.any(|issuer| issuer == *latest)).or(first)
    }

    pub(super) fn state(&self, qp: Qpn, now: u64) -> Command {
        let paused_until_ns = self.paused_until_ns.filter(|until| *until > now);
        Command { qp, rate_bps: self.rate(), paused_until_ns, blamed: self.blamed() }
    }

    /// The state, unless it was told already.
    pub(super) fn command(&mut self, qp: Qpn, now: u64) -> Option<Command> {
        let state = self.state(qp, now);
        let new = self.told != Some(state);
        self.told = Some(state);
        new.then_some(state)
    }
}
