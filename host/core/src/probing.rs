// SPDX-License-Identifier: Apache-2.0
//! Probes of a source host (decisions 5.6): whether its paths carry packets, and how long that takes. Pure: the time and what has come back
//! come in, [`Probing::next_probe`] returns what to send next.
//!
//! - A **way** is a path between two edges, by the program that leads there and back over the same links. Packets to all hosts behind
//!   the far edge have it in common. No peer has to be alive.
//! - Each way is probed at an interval: those that carry packets at [`Settings::interval`], those that wait for their turn at ten times that,
//!   those with a fault ever more seldom, and for ever. Together they are at most [`Settings::rate`]: beyond it all intervals are stretched.
//! - A probe is **lost** when it has not come back after three times the longest round-trip time of late, and at least the interval, and at
//!   least 1 ms; the one that makes a black hole sooner: after twice the longest, and at least three tenths of the interval. One that comes
//!   back later takes that back.
//! - A way has a **fault** after three losses in a row, or when losses are as frequent as those of a link that loses 5 % ([`fault`]).
//!
//! While this host itself stands still, nothing is lost: of a way whose turn came late, losses wait.

mod fault;
#[cfg(test)]
mod tests;
mod way;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use canopy_paths::program::Header;
use canopy_units::Monotonic;

pub use fault::Fault;
use way::Way;
pub use way::{Answer, Counts, OfLate, QUEUED, RING, WayView};

/// Ways at once: their numbers are STAMP Session Identifiers (RFC 8972), 1 ..= this.
pub const MAX_WAYS: usize = 4095;
/// A way that waits for its turn is probed at so many times the interval.
const STANDBY: u32 = 10;
/// A way with a fault is probed at so many times the interval, and twice as many after each relapse.
const FAULTY: u32 = 4;
/// Longest interval of a way with a fault.
const MOST_SELDOM: Duration = Duration::from_secs(1);
/// A turn that comes so late shows that the host stood still.
const STOOD_STILL: Duration = Duration::from_millis(5);
/// The longest round-trip time of all ways becomes shorter by this part with each turn of a way.
const FORGET: u32 = 4096;
/// One probe of so many is as long as the path takes: a path may pass short packets alone.
const LONG_EACH: u32 = 8;

/// Settings of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Between two probes of a way that carries packets.
    pub interval: Duration,
    /// Probes a second, at most.
    pub rate: u32,
}

/// What a way is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Packets may take it when another way fails.
    Standby,
    /// Packets take it.
    Active,
}

/// A way to probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// What it is for.
    pub role: Role,
    /// Longest inner packet that goes there and back, octets.
    pub most: u32,
}

/// The number of a way, 1 ..= [`MAX_WAYS`]. It may name another way after the way was removed.
pub type WayNumber = u16;

/// A probe to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Of its way.
    pub way: WayNumber,
    /// Sequence number.
    pub sequence: u32,
    /// The program there and back.
    pub header: Header,
    /// Octets of the inner packet; `None`: as short as it can be.
    pub length: Option<u32>,
}

/// See the module.
#[derive(Debug)]
pub struct Probing {
    settings: Settings,
    ways: BTreeMap<WayNumber, Way>,
    numbers: BTreeMap<Header, WayNumber>,
    free: VecDeque<WayNumber>,
    /// When each way has its turn.
    turns: BTreeSet<(Monotonic, WayNumber)>,
    due: VecDeque<Probe>,
    news: VecDeque<(Header, Option<Fault>)>,
    /// Probes a second of all ways, before they are stretched.
    load: f64,
    /// Where sequence numbers begin: what a process before this one has sent is not taken for its own.
    first: u32,
    /// The same for numbers of ways that were in use before: behind every probe of the former way.
    firsts: BTreeMap<WayNumber, u32>,
    /// Ways that have no number.
    left_out: BTreeMap<Header, Wanted>,
    /// Probes of ways that were removed.
    former: Counts,
    /// Longest round-trip time of any way, of late.
    longest: Option<Duration>,
}

impl Probing {
    /// Without ways. `first` is where sequence numbers begin.
    pub fn new(settings: Settings, first: u32) -> Self {
        Self {
            settings,
            ways: BTreeMap::new(),
            numbers: BTreeMap::new(),
            free: (1..=MAX_WAYS as WayNumber).collect(),
            turns: BTreeSet::new(),
            due: VecDeque::new(),
            news: VecDeque::new(),
            load: 0.0,
            first,
            firsts: BTreeMap::new(),
            left_out: BTreeMap::new(),
            former: Counts::default(),
            longest: None,
        }
    }

    /// Probes a way from now on, or no more. Beyond [`MAX_WAYS`] a way is not probed until another one goes. Returns the fault that it has.
    pub fn set(&mut self, header: &Header, wanted: Option<&Wanted>, now: Monotonic) -> Option<Fault> {
        let Some(wanted) = wanted else {
            self.left_out.remove(header);
            self.remove(header, now);
            return None;
        };
        let number = match self.numbers.get(header) {
            Some(number) => *number,
            None => match self.free.pop_front() {
                Some(number) => {
                    self.numbers.insert(header.clone(), number);
                    let first = self.firsts.get(&number).copied().unwrap_or(self.first);
                    self.ways.insert(number, Way::new(header.clone(), first));
                    number
                }
                None => {
                    self.left_out.insert(header.clone(), wanted.clone());
                    return None;
                }
            },
        };
        let way = self.ways.get_mut(&number)?;
        way.wanted = Some(wanted.clone());
        let fault = way.view().fault;
        self.reckon(number, now);
        fault
    }

    /// When to call [`Probing::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Monotonic> {
        self.turns.first().map(|(at, _)| *at)
    }

    /// Gives every way whose turn it is its turn: judges its probes by what has become of them, and makes the next one if that is due.
    pub fn handle_timeout(&mut self, now: Monotonic, become_of: impl Fn(WayNumber, u32) -> Answer) {
        let (stretch, least) = (self.stretch(), least_timeout(&self.settings));
        while let Some((at, number)) = self.turns.pop_first() {
            if at > now {
                self.turns.insert((at, number));
                break;
            }
            let Some(way) = self.ways.get_mut(&number) else { continue };
            way.expect(self.longest);
            let stood_still = now.since(at) > STOOD_STILL;
            if let Some(change) = way.judge(now, stood_still, least, |sequence| become_of(number, sequence)) {
                self.news.push_back((way.header.clone(), change));
            }
            let forgotten = self.longest.map(|longest| longest - longest / FORGET);
            self.longest = forgotten.max(way.longest());
            let every = interval(&self.settings, way);
            if way.due <= now {
                // By turns: the ways do not send their long ones together.
                let is_long = way.next_sequence().wrapping_add(number.into()).is_multiple_of(LONG_EACH);
                let most = way.wanted.as_ref().map(|wanted| wanted.most);
                let length = most.filter(|_| is_long);
                let sequence = way.send(now, is_long);
                self.due.push_back(Probe { way: number, sequence, header: way.header.clone(), length });
                // A delayed sender does not catch up with a burst, and keeps its place among the others.
                let every = every.mul_f64(stretch).max(Duration::from_nanos(1));
                let missed = now.since(way.due).as_nanos() / every.as_nanos();
                let times = u32::try_from(missed).unwrap_or(u32::MAX).saturating_add(1);
                way.due = way.due + every.saturating_mul(times);
            }
            let turn = way.turn(least);
            let turn = if turn > now { turn } else { now + least };
            self.turns.insert((turn, number));
            way.turn_at = turn;
            if way.counted != Some(every) {
                self.load += per_second(Some(every)) - per_second(way.counted.replace(every));
            }
        }
    }

    /// What to send next.
    pub fn next_probe(&mut self) -> Option<Probe> {
        self.due.pop_front()
    }

    /// Whether [`Probing::next_change`] has something.
    pub fn has_changes(&self) -> bool {
        !self.news.is_empty()
    }

    /// A way whose fault has changed, and the fault. A way that was removed has none.
    pub fn next_change(&mut self) -> Option<(Header, Option<Fault>)> {
        self.news.pop_front()
    }

    /// What is known of a way.
    pub fn way(&self, header: &Header) -> Option<WayView> {
        let number = *self.numbers.get(header)?;
        Some(self.ways.get(&number)?.view())
    }

    /// What probes of each way have shown of late.
    pub fn of_late(&self) -> BTreeMap<Header, OfLate> {
        self.ways.values().map(|way| (way.header.clone(), way.view().of_late)).collect()
    }

    /// All ways.
    pub fn ways(&self) -> impl Iterator<Item = WayView> {
        self.ways.values().map(Way::view)
    }

    /// Probes of ways that were removed.
    pub fn former(&self) -> Counts {
        self.former
    }

    /// As it was made.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// By how much all intervals are longer than they should be, because there are too many ways for the rate: 1 or more.
    pub fn stretch(&self) -> f64 {
        (self.load / f64::from(self.settings.rate.max(1))).max(1.0)
    }

    /// Ways that are not probed, because there are more than [`MAX_WAYS`].
    pub fn left_out(&self) -> usize {
        self.left_out.len()
    }

    fn remove(&mut self, header: &Header, now: Monotonic) {
        let Some(number) = self.numbers.remove(header) else { return };
        if let Some(way) = self.ways.remove(&number) {
            self.load -= per_second(way.counted);
            self.firsts.insert(number, way.next_sequence().wrapping_add(RING as u32));
            self.turns.remove(&(way.turn_at, number));
            self.former = self.former + way.view().counts;
        }
        self.due.retain(|probe| probe.way != number);
        self.news.retain(|(of, _)| of != header);
        self.free.push_back(number);
        if self.ways.is_empty() {
            // What rounding has left.
            self.load = 0.0;
        }
        if let Some((next, wanted)) = self.left_out.pop_first() {
            self.set(&next, Some(&wanted), now);
        }
    }

    /// Counts a way with its present interval, and gives it a turn by then.
    fn reckon(&mut self, number: WayNumber, now: Monotonic) {
        let settings = self.settings;
        let Some(way) = self.ways.get_mut(&number) else { return };
        let every = interval(&settings, way);
        let is_new = way.counted.is_none();
        self.load += per_second(Some(every)) - per_second(way.counted.replace(every));
        let stretched = every.mul_f64((self.load / f64::from(settings.rate.max(1))).max(1.0));
        // New ways begin at different times, as spread as their numbers: no burst when a fabric comes.
        let begin = now + stretched.mul_f64(f64::from(number.wrapping_mul(40_503)) / f64::from(u16::MAX));
        way.due = if is_new { begin } else { way.due.min(now + stretched) };
        self.turns.remove(&(way.turn_at, number));
        way.turn_at = way.turn(least_timeout(&settings));
        self.turns.insert((way.turn_at, number));
    }
}

/// Between two probes of a way.
fn interval(settings: &Settings, way: &Way) -> Duration {
    let is_active = way.wanted.as_ref().is_some_and(|wanted| wanted.role == Role::Active);
    // So that the fate of a probe is known before its place in the ring is another one's.
    let slowest =
        way.longest().map_or(Duration::ZERO, |longest| longest.saturating_mul(way::PATIENCE) / (RING as u32 / 2));
    let every = match way.relapses() {
        Some(relapses) => {
            let seldom = settings.interval.saturating_mul(FAULTY).saturating_mul(1 << relapses.min(10));
            seldom.min(MOST_SELDOM.max(settings.interval))
        }
        None if is_active => settings.interval,
        None => settings.interval.saturating_mul(STANDBY),
    };
    every.max(slowest)
}

/// The interval, so that a queue which grows by less is no loss, and at least a millisecond.
fn least_timeout(settings: &Settings) -> Duration {
    settings.interval.clamp(way::LEAST_TIMEOUT, way::MOST_TIMEOUT)
}

fn per_second(every: Option<Duration>) -> f64 {
    every.map_or(0.0, |every| 1.0 / every.as_secs_f64())
}
