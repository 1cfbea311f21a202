// SPDX-License-Identifier: Apache-2.0
//! Frames in transit: first in, first out, none before its time, bounded in bytes.

use std::collections::VecDeque;
use std::time::Duration;

use canopy_units::{Monotonic, Octets, Rate};

/// Memory cost of a frame in addition to its bytes: its place in the queue and the allocator's overhead.
const OVERHEAD: Octets = Octets(64);
/// Room in addition to rate x delay: the burst of a token bucket, and what arrives while the process is not running.
const HEADROOM: Octets = Octets(16 << 20);
/// Rate assumed for a link without one.
const FASTEST: Rate = Rate::from_bps(10_000_000_000);
/// Upper limit of one direction.
const MOST: Octets = Octets(1 << 30);

/// A frame and the time when it leaves.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) due: Monotonic,
    pub(super) bytes: Box<[u8]>,
}

/// The queue of one direction; see the module.
#[derive(Debug, Default)]
pub(super) struct Queue {
    frames: VecDeque<Frame>,
    /// What counts against the limit.
    octets: Octets,
    /// When the newest frame leaves.
    last: Monotonic,
}

impl Queue {
    /// Queues a frame; returns false if more than `limit` would be in transit. A frame that is due before one
    /// that came earlier (the delay was made shorter) leaves right behind it.
    pub(super) fn push(&mut self, due: Monotonic, frame: &[u8], limit: Octets) -> bool {
        if self.octets + cost(frame) > limit {
            return false;
        }
        self.last = self.last.max(due);
        self.octets += cost(frame);
        self.frames.push_back(Frame { due: self.last, bytes: frame.into() });
        true
    }

    /// When the next frame leaves.
    pub(super) fn due(&self) -> Option<Monotonic> {
        self.frames.front().map(|f| f.due)
    }

    /// The first frames that are due at `now`, at most `most`.
    pub(super) fn take_due(&mut self, now: Monotonic, most: usize) -> Vec<Frame> {
        let count = self.frames.iter().take(most).take_while(|f| f.due <= now).count();
        let taken: Vec<Frame> = self.frames.drain(..count).collect();
        self.octets = self.octets.saturating_sub(taken.iter().map(|f| cost(&f.bytes)).sum());
        taken
    }

    /// Frames, and what counts against the limit.
    pub(super) fn len(&self) -> (u64, Octets) {
        (self.frames.len() as u64, self.octets)
    }
}

/// Memory cost of a frame.
fn cost(frame: &[u8]) -> Octets {
    Octets(frame.len() as u64) + OVERHEAD
}

/// Upper limit of one direction: rate x delay and headroom. A rate of zero = no rate limit.
pub(crate) fn limit(rate: Rate, delay: Duration) -> Octets {
    let rate = if rate == Rate::ZERO { FASTEST } else { rate };
    // Overhead included, small frames cost up to twice their bytes.
    let under_way = u128::from(rate.bps()) * delay.as_nanos() / 8_000_000_000 * 2;
    (u64::try_from(under_way).map_or(MOST, Octets) + HEADROOM).min(MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: Octets = Octets(1 << 20);

    fn at(ns: u64) -> Monotonic {
        Monotonic::from_nanos(ns)
    }

    fn limit_of(bps: u64, ms: u64) -> Octets {
        limit(Rate::from_bps(bps), Duration::from_millis(ms))
    }

    fn first_bytes(frames: &[Frame]) -> Vec<u8> {
        frames.iter().map(|f| f.bytes[0]).collect()
    }

    #[test]
    fn nothing_leaves_before_its_time_or_out_of_turn() {
        let mut q = Queue::default();
        assert!(q.push(at(100), &[1], ROOM) && q.push(at(200), &[2], ROOM));
        // A shorter delay from now on: due at once, but behind what came before.
        assert!(q.push(at(50), &[3], ROOM));
        assert!(q.take_due(at(99), 8).is_empty());
        assert_eq!(first_bytes(&q.take_due(at(199), 8)), [1]);
        assert_eq!(q.due(), Some(at(200)));
        assert_eq!(first_bytes(&q.take_due(at(200), 8)), [2, 3]);
        assert_eq!(q.len(), (0, Octets::ZERO));
    }

    #[test]
    fn what_has_no_room_is_refused_and_room_comes_back() {
        let mut q = Queue::default();
        let (frame, limit) = ([0; 1000], Octets(2200));
        assert!(q.push(at(1), &frame, limit) && q.push(at(1), &frame, limit));
        assert!(!q.push(at(1), &frame, limit), "more than the limit is under way");
        assert_eq!(q.take_due(at(1), 1).len(), 1);
        assert!(q.push(at(1), &frame, limit));
        assert_eq!(q.len().0, 2);
    }

    #[test]
    fn the_limit_holds_rate_times_delay_at_any_rate() {
        assert!(limit_of(1_000_000_000, 40) >= Octets(5_000_000) + HEADROOM);
        assert_eq!(limit_of(1_000_000_000_000, 10_000), MOST);
        assert_eq!(limit_of(0, 0), HEADROOM);
        assert!(limit_of(0, 10) >= Octets(12_500_000));
    }
}
