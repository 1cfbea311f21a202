// SPDX-License-Identifier: Apache-2.0
//! One way: its probes on the way, their times, and what follows from them.

use std::collections::VecDeque;
use std::ops::Add;
use std::time::Duration;

use canopy_paths::program::Header;
use canopy_units::Monotonic;

use super::Wanted;
use super::fault::{Change, Fault, Health};

/// Probes of a way whose fate is remembered, lost ones included; a power of two.
pub const RING: usize = 64;
/// Least time after which a probe is lost, at any interval.
pub(super) const LEAST_TIMEOUT: Duration = Duration::from_millis(1);
/// Most of it, and what it is while no probe has come back.
pub(super) const MOST_TIMEOUT: Duration = Duration::from_millis(250);
/// Times the longest round-trip time of late.
pub(super) const PATIENCE: u32 = 3;
/// The same for a probe behind others that are lost already, and whose loss makes a black hole of them.
const LAST_PATIENCE: u32 = 2;
/// Its least timeout, as part of that of the others.
const LAST_PART: f64 = 0.3;
/// The longest round-trip time of late approaches the present one by this part of the difference, with each probe.
const FORGET: u32 = 64;
const SMOOTH: u32 = 8;
/// A probe that takes so much longer than twice the least round-trip time has waited in a queue, at every round-trip time.
pub const QUEUED: Duration = Duration::from_micros(100);

/// What has become of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It has not left this host.
    NotSent,
    /// It left, and has not come back.
    OnItsWay {
        /// When it left.
        left: Monotonic,
    },
    /// It has come back.
    Back {
        /// From the egress of the interface to its ingress.
        after: Duration,
        /// A node marked it (CE).
        is_marked: bool,
    },
}

/// A way as it is now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WayView {
    /// What is wrong with it.
    pub fault: Option<Fault>,
    /// Since the fault, or since the last one ended.
    pub since: Option<Monotonic>,
    /// Smoothed round-trip time, of the whole way there and back.
    pub rtt: Option<Duration>,
    /// Least round-trip time.
    pub least: Option<Duration>,
    /// Probes.
    pub counts: Counts,
    /// Probes of late.
    pub of_late: OfLate,
}

/// Probes of late: each probe has the earlier ones count less, by a part in 256.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OfLate {
    /// Are lost.
    pub lost: f64,
    /// Have come back.
    pub back: f64,
}

impl OfLate {
    fn add(&mut self, lost: f64, back: f64) {
        let keep = 1.0 - 1.0 / 256.0;
        *self = Self { lost: self.lost * keep + lost, back: self.back * keep + back };
    }
}

/// Probes by what has become of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Have come back.
    pub back: u64,
    /// Were taken for lost.
    pub lost: u64,
    /// Of these, have come back after all; they are among `back`, too.
    pub late: u64,
    /// Have not left this host.
    pub not_sent: u64,
    /// Have come back with a mark of congestion (CE).
    pub marked: u64,
    /// Have come back with such a mark, or after more than twice the least round-trip time of their way and [`QUEUED`].
    pub congested: u64,
}

impl Add for Counts {
    type Output = Self;

    fn add(self, more: Self) -> Self {
        Self {
            back: self.back + more.back,
            late: self.late + more.late,
            lost: self.lost + more.lost,
            not_sent: self.not_sent + more.not_sent,
            marked: self.marked + more.marked,
            congested: self.congested + more.congested,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    sequence: u32,
    at: Monotonic,
    is_lost: bool,
    /// As long as the path takes: what it takes on slow links is no queue.
    is_long: bool,
}

/// The least round-trip time of one to two minutes: a path may become longer.
#[derive(Clone, Copy, Debug)]
struct Base {
    before: Duration,
    now: Duration,
    since: Monotonic,
}

impl Base {
    const PERIOD: Duration = Duration::from_secs(60);

    fn new(first: Duration, now: Monotonic) -> Self {
        Self { before: first, now: first, since: now }
    }

    fn least(self) -> Duration {
        self.before.min(self.now)
    }

    fn with(self, after: Duration, now: Monotonic) -> Self {
        match now.since(self.since) >= Self::PERIOD {
            true => Self { before: self.now, now: after, since: now },
            false => Self { now: self.now.min(after), ..self },
        }
    }
}

#[derive(Debug)]
pub(super) struct Way {
    pub(super) header: Header,
    pub(super) wanted: Option<Wanted>,
    /// Its interval, as part of the load.
    pub(super) counted: Option<Duration>,
    /// When its next probe is sent.
    pub(super) due: Monotonic,
    /// When it has its turn next.
    pub(super) turn_at: Monotonic,
    next: u32,
    /// In order.
    sent: VecDeque<Sent>,
    health: Health,
    smoothed: Option<Duration>,
    least: Option<Duration>,
    /// Of short probes.
    base: Option<Base>,
    /// Of late.
    longest: Option<Duration>,
    counts: Counts,
    of_late: OfLate,
    /// Losses wait until then.
    patient_until: Monotonic,
    /// Losses have waited since they were judged last.
    has_waited: bool,
}

impl Way {
    pub(super) fn new(header: Header, first: u32) -> Self {
        Self {
            header,
            wanted: None,
            counted: None,
            due: Monotonic::START,
            turn_at: Monotonic::START,
            next: first,
            sent: VecDeque::with_capacity(RING),
            health: Health::new(),
            smoothed: None,
            least: None,
            base: None,
            longest: None,
            counts: Counts::default(),
            of_late: OfLate::default(),
            patient_until: Monotonic::START,
            has_waited: false,
        }
    }

    pub(super) fn next_sequence(&self) -> u32 {
        self.next
    }

    /// Relapses if there is a fault.
    pub(super) fn relapses(&self) -> Option<u32> {
        self.health.fault().map(|_| self.health.relapses())
    }

    /// Returns the probe's sequence number.
    pub(super) fn send(&mut self, now: Monotonic, is_long: bool) -> u32 {
        let sequence = self.next;
        self.next = self.next.wrapping_add(1);
        self.sent.push_back(Sent { sequence, at: now, is_lost: false, is_long });
        sequence
    }

    /// When the next probe is due, or the first one of those under way is lost.
    pub(super) fn turn(&self, least: Duration) -> Monotonic {
        let timeout = self.next_timeout(least);
        let lost = self.sent.iter().find(|sent| !sent.is_lost).map(|sent| (sent.at + timeout).max(self.patient_until));
        lost.map_or(self.due, |lost| lost.min(self.due))
    }

    /// Judges the probes, in the order in which they were sent. Returns the last change of the fault.
    pub(super) fn judge(
        &mut self,
        now: Monotonic,
        stood_still: bool,
        least: Duration,
        become_of: impl Fn(u32) -> Answer,
    ) -> Option<Change> {
        // Once: a process that is always late judges all the same.
        self.has_waited = stood_still && !self.has_waited;
        if self.has_waited {
            self.patient_until = now + least;
        }
        let before = self.health.fault();
        let mut kept = VecDeque::with_capacity(RING);
        // The next probe takes the place of the one that is as far back as the ring is long.
        let oldest = self.next.wrapping_sub(RING as u32 - 1);
        for mut sent in std::mem::take(&mut self.sent) {
            let has_no_place = sent.sequence.wrapping_sub(oldest) > u32::MAX / 2;
            let answer = become_of(sent.sequence);
            let left = if let Answer::OnItsWay { left } = answer { left.max(sent.at) } else { sent.at };
            let has_had_its_time = now >= left + self.next_timeout(least) && now >= self.patient_until || has_no_place;
            match answer {
                Answer::Back { after, is_marked } => self.back(sent, after, is_marked, now),
                _ if sent.is_lost || !has_had_its_time => {
                    if !has_no_place {
                        kept.push_back(sent);
                    }
                }
                Answer::NotSent => self.counts.not_sent += 1,
                Answer::OnItsWay { .. } => {
                    self.counts.lost += 1;
                    self.of_late.add(1.0, 0.0);
                    self.health.lost(now);
                    sent.is_lost = true;
                    if !has_no_place {
                        kept.push_back(sent);
                    }
                }
            }
        }
        self.sent = kept;
        let after = self.health.fault();
        (after != before).then_some(after)
    }

    fn back(&mut self, sent: Sent, after: Duration, is_marked: bool, now: Monotonic) {
        self.counts.back += 1;
        self.counts.marked += u64::from(is_marked);
        let has_waited = !sent.is_long && self.base.is_some_and(|base| after > base.least() * 2 + QUEUED);
        self.counts.congested += u64::from(is_marked || has_waited);
        self.of_late.add(0.0, 1.0);
        if sent.is_lost {
            self.counts.late += 1;
            self.of_late.lost = (self.of_late.lost - 1.0).max(0.0);
            self.health.late(now);
        } else if self.health.answered(now) == Some(None) {
            // It has proved itself: what it lost before explains no later fault.
            self.of_late.lost = 0.0;
        }
        let approach = |from: Duration, by: u32| {
            if after > from { from + (after - from) / by } else { from - (from - after) / by }
        };
        self.smoothed = Some(self.smoothed.map_or(after, |smoothed| approach(smoothed, SMOOTH)));
        self.least = Some(self.least.map_or(after, |least| least.min(after)));
        if !sent.is_long {
            self.base = Some(self.base.map_or(Base::new(after, now), |base| base.with(after, now)));
        }
        self.longest = Some(self.longest.map_or(after, |longest| approach(longest, FORGET).max(after)));
    }

    /// Of late.
    pub(super) fn longest(&self) -> Option<Duration> {
        self.longest
    }

    /// None of its probes has come back: it is as patient as others are.
    pub(super) fn expect(&mut self, longest: Option<Duration>) {
        self.longest = self.longest.or(longest);
    }

    /// That of the next probe that may be lost.
    fn next_timeout(&self, least: Duration) -> Duration {
        let of = |patience: u32, least: Duration| {
            let longest = self.longest.map_or(MOST_TIMEOUT, |longest| longest.saturating_mul(patience));
            longest.clamp(least, MOST_TIMEOUT)
        };
        match self.health.is_one_from_black_hole() {
            true => of(LAST_PATIENCE, least.mul_f64(LAST_PART)),
            false => of(PATIENCE, least),
        }
    }

    pub(super) fn view(&self) -> WayView {
        WayView {
            fault: self.health.fault(),
            since: self.health.since,
            rtt: self.smoothed,
            least: self.least,
            counts: self.counts,
            of_late: self.of_late,
        }
    }
}
