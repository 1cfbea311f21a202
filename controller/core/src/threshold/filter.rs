// SPDX-License-Identifier: Apache-2.0
//! The minimum of recent samples, in constant memory.

/// Longest time that a sample has effect; the shortest is [`WINDOW_NS`] less one part.
pub const WINDOW_NS: u64 = PART_NS * PARTS as u64;

/// One part of the window, in nanoseconds.
const PART_NS: u64 = 300_000_000;
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
    parts: [Option<(u64, u64)>; PARTS],
    /// The latest time seen: time does not go back.
    now_ns: u64,
    estimate_ns: Option<u64>,
}

impl RttFilter {
    /// Adds a sample at `now_ns` on any monotonic clock (a time earlier than the last counts as the last), and returns
    /// the estimate. All values are nanoseconds.
    pub fn observe(&mut self, rtt_ns: u64, now_ns: u64) -> u64 {
        self.now_ns = self.now_ns.max(now_ns);
        let part = self.now_ns / PART_NS;
        let slot = &mut self.parts[(part % PARTS as u64) as usize];
        *slot = match *slot {
            Some((number, smallest)) if number == part => Some((part, smallest.min(rtt_ns))),
            _ => Some((part, rtt_ns)),
        };
        let live = self.parts.iter().flatten().filter(|(number, _)| part - number < PARTS as u64);
        let estimate_ns = live.map(|(_, smallest)| *smallest).min().unwrap_or(rtt_ns);
        self.estimate_ns = Some(estimate_ns);
        estimate_ns
    }

    /// The estimate in nanoseconds; `None` before the first sample.
    pub fn estimate_ns(&self) -> Option<u64> {
        self.estimate_ns
    }
}
