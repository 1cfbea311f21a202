// SPDX-License-Identifier: Apache-2.0
//! A token bucket.

/// Grants `burst` tokens at once and one more every `interval_ns`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    burst_ns: u64,
    interval_ns: u64,
    /// When the bucket is full again without further tokens taken.
    full_at_ns: u64,
}

impl Bucket {
    pub(super) fn new(per_second: u32, burst: u32) -> Self {
        let interval_ns = 1_000_000_000 / u64::from(per_second.max(1));
        Self { burst_ns: interval_ns * u64::from(burst.max(1)), interval_ns, full_at_ns: 0 }
    }

    /// Takes one token at `now_ns`, if there is one.
    pub(super) fn take(&mut self, now_ns: u64) -> bool {
        let full_at_ns = self.full_at_ns.max(now_ns) + self.interval_ns;
        let passes = full_at_ns - now_ns <= self.burst_ns;
        if passes {
            self.full_at_ns = full_at_ns;
        }
        passes
    }
}
