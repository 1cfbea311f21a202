// SPDX-License-Identifier: Apache-2.0
//! The event loop: one event after the other, until the source has finished or must have finished.

use anyhow::Result;

use crate::chance::Chance;
use crate::config::{Config, Setup};
use crate::moves::Move;
use crate::net::{Event, Net, Packet, SOURCE};
use crate::oracle::Oracle;
use crate::report::Report;
use crate::schedule;
use crate::source::Source;
use crate::tree::{ROOT, Tree};

/// Timeouts within which the source finishes once faults stop (I4).
pub const TIMEOUTS: u64 = 3;

/// A run in progress.
pub(crate) struct World<'a> {
    pub(crate) setup: Setup,
    pub(crate) chance: Chance,
    pub(crate) net: Net,
    pub(crate) tree: Tree,
    pub(crate) source: Source,
    pub(crate) oracle: Oracle,
    pub(crate) report: Report,
    pub(crate) moving: Option<Move>,
    pub(crate) epoch: u32,
    /// Number of places at the start: faults of links are drawn from them.
    pub(crate) places: u64,
    /// Time at which faults stopped, and deadline of the source.
    pub(crate) calm: Option<(u64, u64)>,
    /// See [`Config::careless`].
    pub(crate) careless: bool,
    pub(crate) forged: u32,
    will_send: bool,
    timer_at: Option<u64>,
    trace: Option<&'a mut dyn FnMut(&str)>,
}

/// Runs `seed`.
///
/// # Errors
/// If a requester rejects `config`.
pub fn run(seed: u64, config: &Config) -> Result<Report> {
    World::new(seed, config, None)?.run()
}

/// Runs `seed` and traces every event.
///
/// # Errors
/// As [`run`].
pub fn run_traced(seed: u64, config: &Config, trace: &mut dyn FnMut(&str)) -> Result<Report> {
    World::new(seed, config, Some(trace))?.run()
}

impl<'a> World<'a> {
    fn new(seed: u64, config: &Config, trace: Option<&'a mut dyn FnMut(&str)>) -> Result<Self> {
        let mut chance = Chance::new(seed);
        let setup = Setup::draw(config, &mut chance);
        let mut tree = Tree::draw(&setup, config.mutant, &mut chance);
        tree.receivers.iter_mut().for_each(|r| r.loses = config.all_lose);
        let mut net = Net::new(setup.links);
        for (at, action) in schedule::draw(config, &setup, &mut chance) {
            net.at(at + 1, Event::Acts(action));
        }
        net.at(1, Event::SourceSends);
        let depth = tree.receivers.iter().map(|r| tree.upwards(r.parent).len() as u64 + 1).max().unwrap_or(1);
        let round_trip = 2 * depth * setup.links.delay;
        let report = Report { seed, start_psn: setup.start_psn, round_trip, ..Report::default() };
        Ok(Self {
            source: Source::new(&setup)?,
            oracle: Oracle::default(),
            moving: None,
            epoch: setup.epoch,
            places: (tree.nodes.len() + tree.receivers.len()) as u64,
            calm: config.no_faults.then_some((0, u64::MAX)),
            careless: config.careless,
            forged: config.forged,
            will_send: true,
            timer_at: None,
            report,
            setup,
            chance,
            net,
            tree,
            trace,
        })
    }

    fn run(mut self) -> Result<Report> {
        let mut last = 0;
        while let Some((now, event)) = self.net.take_next() {
            last = now;
            self.note(now, &event);
            match event {
                Event::Arrives { from, to, packet } => self.arrives(from, to, packet, now),
                Event::SourceSends => self.source_sends(now),
                Event::SourceTimer => {
                    self.timer_at = None;
                    self.source.handle_timeout(now);
                    self.wake_source(now);
                }
                Event::Acts(action) => self.act(action, now),
            }
            if self.source.is_complete() {
                self.report.finished = Some(now);
                break;
            }
            if self.is_late(now) {
                break;
            }
        }
        if self.report.finished.is_none() && self.oracle.count == 0 {
            self.oracle.violated(last, "I4: nothing happens any more, and the source has not finished");
        }
        Ok(self.finish(last))
    }

    fn is_late(&mut self, now: u64) -> bool {
        if let Some(failure) = self.source.failure() {
            self.oracle.violated(now, &format!("the source failed: {failure}"));
            return true;
        }
        let Some((_, until)) = self.calm else { return false };
        let expired = self.source.counters().timeouts - self.report.timeouts;
        let late = now > until || expired > TIMEOUTS;
        if late {
            let acked = self.source.acked;
            self.oracle
                .violated(now, &format!("I4: {acked} packets acknowledged, {expired} timeouts after faults stopped"));
        }
        late
    }

    fn finish(mut self, now: u64) -> Report {
        for (index, receiver) in self.tree.receivers.iter().enumerate() {
            if let Some(failure) = receiver.failure() {
                let place = self.tree.receiver_place(index);
                self.oracle.violated(now, &format!("the receiver at {place} failed: {failure}"));
            }
        }
        let counters = self.source.counters();
        if counters.false_acks > 0 {
            self.oracle.violated(
                now,
                &format!("the source saw {} answers to packets that it never sent", counters.false_acks),
            );
        }
        let after = counters.timeouts - self.report.timeouts;
        Report {
            violations: self.oracle.violations,
            violation_count: self.oracle.count,
            wraps: (u64::from(self.setup.start_psn) + self.source.acked) >> 24,
            calm: self.calm.map(|(at, _)| at),
            timeouts: counters.timeouts,
            timeouts_after: if self.calm.is_some() { after } else { 0 },
            fewest_acks: self.tree.receivers.iter().map(|r| r.acks_sent()).min().unwrap_or(0),
            ..self.report
        }
    }

    /// Adds an event to the hash and to the trace.
    fn note(&mut self, now: u64, event: &Event) {
        self.report.events += 1;
        let mut mix = |value: u64| {
            self.report.trace_hash =
                (self.report.trace_hash.rotate_left(5) ^ value).wrapping_mul(0x517C_C1B7_2722_0A95);
        };
        mix(now);
        match event {
            Event::Arrives { from, to, packet: Packet::Data(b) } => {
                mix(u64::from(*from) << 32 | u64::from(*to));
                mix(u64::from(b.psn) << 32 | u64::from(b.count) << 3 | u64::from(b.ask));
            }
            Event::Arrives { from, to, packet: Packet::Feedback(f) } => {
                mix(u64::from(*from) << 32 | u64::from(*to));
                mix(u64::from(f.psn) << 32 | u64::from(f.syndrome) << 24 | u64::from(f.msn));
            }
            Event::SourceSends => mix(1),
            Event::SourceTimer => mix(2),
            Event::Acts(_) => mix(3),
        }
        if let Some(trace) = &mut self.trace {
            trace(&format!("{now:>12} {event:?}"));
        }
    }

    /// Adds a remark to the trace.
    pub(crate) fn remark(&mut self, now: u64, what: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace(&format!("{now:>12}   {}", what()));
        }
    }

    fn source_sends(&mut self, now: u64) {
        self.will_send = false;
        if let Some(burst) = self.source.send(now) {
            self.net.send(&mut self.chance, now, (SOURCE, ROOT), Packet::Data(burst));
            self.will_send = true;
            self.net.at(now + self.setup.gap * u64::from(burst.count), Event::SourceSends);
        }
        self.watch_timer();
    }

    pub(crate) fn wake_source(&mut self, now: u64) {
        if !self.will_send {
            self.will_send = true;
            self.net.at(now, Event::SourceSends);
        }
        self.watch_timer();
    }

    fn watch_timer(&mut self) {
        if let Some(at) = self.source.poll_timeout()
            && self.timer_at.is_none_or(|known| at < known)
        {
            self.timer_at = Some(at);
            self.net.at(at, Event::SourceTimer);
        }
    }
}
