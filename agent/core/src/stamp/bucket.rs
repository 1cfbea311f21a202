// SPDX-License-Identifier: Apache-2.0
//! A token bucket.

use std::time::Duration;

use canopy_units::Monotonic;

/// Grants `burst` tokens at once and one more every `interval`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    burst: Duration,
    interval: Duration,
    /// When the bucket is full again without further tokens taken.
    full_at: Monotonic,
}

impl Bucket {
    pub(super) fn new(per_second: u32, burst: u32) -> Self {
        let interval = Duration::from_secs(1) / per_second.max(1);
        Self { burst: interval * burst.max(1), interval, full_at: Monotonic::START }
    }

    /// Takes one token at `now`, if there is one.
    pub(super) fn take(&mut self, now: Monotonic) -> bool {
        let full_at = self.full_at.max(now) + self.interval;
        let passes = full_at.since(now) <= self.burst;
        if passes {
            self.full_at = full_at;
        }
        passes
    }
}
