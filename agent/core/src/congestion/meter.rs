// SPDX-License-Identifier: Apache-2.0
//! The metrics of an egress port from its counters, section 5.3.1.

use super::trigger::Reading;

/// Counters of a port at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Octets in the egress queue (QD).
    pub queue_bytes: u64,
    /// Data packets sent since an arbitrary start.
    pub packets: u64,
    /// Those of them that were marked CE.
    pub ce_packets: u64,
}

/// Compares counters at the ends of an interval.
#[derive(Clone, Debug, Default)]
pub(super) struct Meter {
    since: Option<(Counters, u64)>,
}

impl Meter {
    /// Returns a reading at the end of an interval of at least `interval_ns`. The first sample, and counters that decreased
    /// after a restart, start a new interval.
    pub(super) fn sample(&mut self, new: Counters, interval_ns: u64, now_ns: u64) -> Option<Reading> {
        let Some((old, since)) = self.since else {
            self.since = Some((new, now_ns));
            return None;
        };
        let elapsed = now_ns.saturating_sub(since);
        let packets = new.packets.checked_sub(old.packets);
        let marked = new.ce_packets.checked_sub(old.ce_packets);
        let (Some(packets), Some(marked)) = (packets, marked) else {
            self.since = Some((new, now_ns));
            return None;
        };
        if elapsed < interval_ns.max(1) {
            return None;
        }
        self.since = Some((new, now_ns));
        let emr_permille = (u128::from(marked) * 1_000).checked_div(u128::from(packets)).unwrap_or(0).min(1_000) as u16;
        // A queue that shrinks does not grow: growth is never negative.
        let grown = u128::from(new.queue_bytes.saturating_sub(old.queue_bytes)) * 1_000_000;
        let qgr_bytes_per_ms = u64::try_from(grown / u128::from(elapsed)).unwrap_or(u64::MAX);
        Some(Reading { queue_bytes: new.queue_bytes, emr_permille, qgr_bytes_per_ms })
    }
}
