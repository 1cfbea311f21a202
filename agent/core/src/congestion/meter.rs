// SPDX-License-Identifier: Apache-2.0
//! The metrics of an egress port from its counters, section 5.3.1.

use std::time::Duration;

use canopy_units::{Monotonic, Octets};

use super::trigger::Reading;

/// Counters of a port at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Queue depth (QD): what the egress queue holds.
    pub queue: Octets,
    /// Data packets sent since an arbitrary start.
    pub packets: u64,
    /// Those of them that were marked CE.
    pub ce_packets: u64,
}

/// Compares counters at the ends of an interval.
#[derive(Clone, Debug, Default)]
pub(super) struct Meter {
    since: Option<(Counters, Monotonic)>,
}

impl Meter {
    /// Returns a reading at the end of an interval of at least `interval`. The first sample, and counters that decreased
    /// after a restart, start a new interval.
    pub(super) fn sample(&mut self, new: Counters, interval: Duration, now: Monotonic) -> Option<Reading> {
        let Some((old, since)) = self.since else {
            self.since = Some((new, now));
            return None;
        };
        let elapsed = now.since(since);
        let packets = new.packets.checked_sub(old.packets);
        let marked = new.ce_packets.checked_sub(old.ce_packets);
        let (Some(packets), Some(marked)) = (packets, marked) else {
            self.since = Some((new, now));
            return None;
        };
        if elapsed < interval.max(Duration::from_nanos(1)) {
            return None;
        }
        self.since = Some((new, now));
        let emr_permille = (u128::from(marked) * 1_000).checked_div(u128::from(packets)).unwrap_or(0).min(1_000) as u16;
        // A queue that shrinks does not grow: growth is never negative.
        let grown = u128::from(new.queue.saturating_sub(old.queue).get()) * 1_000_000;
        let qgr_per_ms = u64::try_from(grown / elapsed.as_nanos()).map_or(Octets::MAX, Octets);
        Some(Reading { queue: new.queue, emr_permille, qgr_per_ms })
    }
}
