// SPDX-License-Identifier: Apache-2.0
//! Frames in transit: first in, first out, none before its time, bounded in bytes.

use std::collections::VecDeque;

/// Memory cost of a frame in addition to its bytes: its place in the queue and the allocator's overhead.
const OVERHEAD: usize = 64;
/// Room in addition to rate x delay: the burst of a token bucket, and what arrives while the process is not running.
const HEADROOM: u64 = 16 << 20;
/// Rate assumed for a link without one, bits per second.
const FASTEST: u64 = 10_000_000_000;
/// Upper limit of one direction, bytes.
const MOST: u64 = 1 << 30;

/// A frame and the time when it leaves, nanoseconds of CLOCK_MONOTONIC.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) due: u64,
    pub(super) bytes: Box<[u8]>,
}

/// The queue of one direction; see the module.
#[derive(Debug, Default)]
pub(super) struct Queue {
    frames: VecDeque<Frame>,
    bytes: usize,
    /// When the newest frame leaves.
    last: u64,
}

impl Queue {
    /// Queues a frame; returns false if more than `limit` bytes would be in transit. A frame that is due before one
    /// that came earlier (the delay was made shorter) leaves right behind it.
    pub(super) fn push(&mut self, due: u64, frame: &[u8], limit: u64) -> bool {
        if (self.bytes + frame.len() + OVERHEAD) as u64 > limit {
            return false;
        }
        self.last = self.last.max(due);
        self.bytes += frame.len() + OVERHEAD;
        self.frames.push_back(Frame { due: self.last, bytes: frame.into() });
        true
    }

    /// When the next frame leaves.
    pub(super) fn due(&self) -> Option<u64> {
        self.frames.front().map(|f| f.due)
    }

    /// The first frames that are due at `now`, at most `most`.
    pub(super) fn take_due(&mut self, now: u64, most: usize) -> Vec<Frame> {
        let count = self.frames.iter().take(most).take_while(|f| f.due <= now).count();
        let taken: Vec<Frame> = self.frames.drain(..count).collect();
        self.bytes -= taken.iter().map(|f| f.bytes.len() + OVERHEAD).sum::<usize>();
        taken
    }

    /// Frames, and the bytes that count against the limit.
    pub(super) fn len(&self) -> (u64, u64) {
        (self.frames.len() as u64, self.bytes as u64)
    }
}

/// Upper limit of the bytes in one direction: rate x delay and headroom. `rate_bps` 0 = no rate limit.
pub(crate) fn limit(rate_bps: u64, delay_ns: u64) -> u64 {
    let rate = if rate_bps == 0 { FASTEST } else { rate_bps };
    // Overhead included, small frames cost up to twice their bytes.
    let under_way = u128::from(rate) * u128::from(delay_ns) / 8_000_000_000 * 2;
    u64::try_from(under_way).unwrap_or(MOST).saturating_add(HEADROOM).min(MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: u64 = 1 << 20;

    fn first_bytes(frames: &[Frame]) -> Vec<u8> {
        frames.iter().map(|f| f.bytes[0]).collect()
    }

    #[test]
    fn nothing_leaves_before_its_time_or_out_of_turn() {
        let mut q = Queue::default();
        assert!(q.push(100, &[1], ROOM) && q.push(200, &[2], ROOM));
        // A shorter delay from now on: due at once, but behind what came before.
        assert!(q.push(50, &[3], ROOM));
        assert!(q.take_due(99, 8).is_empty());
        assert_eq!(first_bytes(&q.take_due(199, 8)), [1]);
        assert_eq!(q.due(), Some(200));
        assert_eq!(first_bytes(&q.take_due(200, 8)), [2, 3]);
        assert_eq!(q.len(), (0, 0));
    }

    #[test]
    fn what_has_no_room_is_refused_and_room_comes_back() {
        let mut q = Queue::default();
        let frame = [0; 1000];
        assert!(q.push(1, &frame, 2200) && q.push(1, &frame, 2200));
        assert!(!q.push(1, &frame, 2200), "more than the limit is under way");
        assert_eq!(q.take_due(1, 1).len(), 1);
        assert!(q.push(1, &frame, 2200));
        assert_eq!(q.len().0, 2);
    }

    #[test]
    fn the_limit_holds_rate_times_delay_at_any_rate() {
        assert!(limit(1_000_000_000, 40_000_000) >= 5_000_000 + HEADROOM);
        assert_eq!(limit(1_000_000_000_000, 10_000_000_000), MOST);
        assert_eq!(limit(0, 0), HEADROOM);
        assert!(limit(0, 10_000_000) >= 12_500_000);
    }
}
