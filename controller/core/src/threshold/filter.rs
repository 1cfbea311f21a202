// SPDX-License-Identifier: Apache-2.0
//! The minimum of recent samples, in constant memory.

use std::time::Duration;

use canopy_units::{Monotonic, nanos};

/// Longest time that a sample has effect; the shortest is [`WINDOW`] less one part.
pub const WINDOW: Duration = PART.saturating_mul(PARTS as u32);

/// One part of the window.
const PART: Duration = Duration::from_millis(300);
/// Parts of the window.
const PARTS: usize = 8;

/// A minimum filter over the last 2.4 s, in 8 parts of 300 ms that expire whole.
///
/// A smaller sample takes effect at once. A larger one takes effect when the last smaller one has left the window: with
/// one report per second, of the smallest sample of that second, a step from 1 to 40 ms is followed within 4.4 s, while
/// anything shorter than 2.1 s (a queue that fills and drains) has no effect. When samples stop, the last estimate
/// stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RttFilter {
    /// Number of the part since time 0, and its smallest sample.
    parts: [Option<(u64, Duration)>; PARTS],
    /// The latest time seen: time does not go back.
    now: Monotonic,
    estimate: Option<Duration>,
}

impl RttFilter {
    /// Adds a sample at `now` on any monotonic clock (a time earlier than the last counts as the last), and returns
    /// the estimate.
    pub fn observe(&mut self, rtt: Duration, now: Monotonic) -> Duration {
        self.now = self.now.max(now);
        let part = self.now.nanos() / nanos(PART);
        let slot = &mut self.parts[(part % PARTS as u64) as usize];
        *slot = match *slot {
            Some((number, smallest)) if number == part => Some((part, smallest.min(rtt))),
            _ => Some((part, rtt)),
        };
        let live = self.parts.iter().flatten().filter(|(number, _)| part - number < PARTS as u64);
        let estimate = live.map(|(_, smallest)| *smallest).min().unwrap_or(rtt);
        self.estimate = Some(estimate);
        estimate
    }

    /// The estimate; `None` before the first sample.
    pub fn estimate(&self) -> Option<Duration> {
        self.estimate
    }
}
