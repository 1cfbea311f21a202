// SPDX-License-Identifier: Apache-2.0
//! The minimum of recent samples, in constant memory.

use std::time::Duration;

use canopy_units::{Monotonic, nanos};

/// Longest time that a sample has effect on the newest estimate; the shortest is [`WINDOW`] less one part.
pub const WINDOW: Duration = PART.saturating_mul(PARTS as u32);
/// The same for the settled estimate: 10 min.
pub const SETTLED: Duration = SETTLED_PART.saturating_mul(PARTS as u32);

/// One part of the window.
const PART: Duration = Duration::from_millis(300);
const SETTLED_PART: Duration = Duration::from_secs(75);
/// Parts of the window.
const PARTS: usize = 8;

/// Number of a part since time 0, and its smallest sample.
type Part = Option<(u64, Duration)>;

/// A minimum filter over a window in 8 parts that expire whole.
///
/// The newest estimate has a window of 2.4 s in parts of 300 ms: a smaller sample takes effect at once, a larger one when the last
/// smaller one has left the window. With one report per second, of the smallest sample of that second, a step from 1 to 40 ms is followed
/// within 4.4 s, while anything shorter than 2.1 s (a queue that fills and drains) has no effect. When samples stop, the last estimate
/// stays.
///
/// The settled estimate has a window of 10 min. What delays a test packet is added to the path's own time, so that the minimum of many
/// samples is that time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RttFilter {
    part: Duration,
    /// `None` before the first sample.
    parts: Option<Box<[Part; PARTS]>>,
    /// The latest time seen: time does not go back.
    now: Monotonic,
    /// The first sample without a gap of half a window since.
    since: Option<Monotonic>,
    estimate: Option<Duration>,
}

impl Default for RttFilter {
    fn default() -> Self {
        Self::of_parts(PART)
    }
}

impl RttFilter {
    /// The settled estimate's.
    pub fn settled() -> Self {
        Self::of_parts(SETTLED_PART)
    }

    fn of_parts(part: Duration) -> Self {
        Self { part, parts: None, now: Monotonic::START, since: None, estimate: None }
    }

    /// Adds a sample at `now` on any monotonic clock (a time earlier than the last counts as the last), and returns
    /// the estimate.
    pub fn observe(&mut self, rtt: Duration, now: Monotonic) -> Duration {
        let before = self.now;
        self.now = before.max(now);
        let is_gap = self.now.since(before) >= self.part * (PARTS as u32 / 2);
        self.since = self.since.filter(|_| !is_gap).or(Some(self.now));
        let part = self.now.nanos() / nanos(self.part);
        let parts = self.parts.get_or_insert_default();
        let slot = &mut parts[(part % PARTS as u64) as usize];
        *slot = match *slot {
            Some((number, smallest)) if number == part => Some((part, smallest.min(rtt))),
            _ => Some((part, rtt)),
        };
        let live = parts.iter().flatten().filter(|(number, _)| part - number < PARTS as u64);
        let estimate = live.map(|(_, smallest)| *smallest).min().unwrap_or(rtt);
        self.estimate = Some(estimate);
        estimate
    }

    /// The estimate; `None` before the first sample.
    pub fn estimate(&self) -> Option<Duration> {
        self.estimate
    }

    /// Whether samples have come for a whole window: until then, the estimate may be above the path's own time.
    pub fn is_full(&self) -> bool {
        self.since.is_some_and(|since| self.now.since(since) >= self.part * PARTS as u32)
    }
}
