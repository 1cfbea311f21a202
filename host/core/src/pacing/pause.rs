// SPDX-License-Identifier: Apache-2.0
//! The pause budget: a token bucket of nanoseconds that fills with a share of the time.

use super::Settings;

/// In any span of time T, at most `pause_burst_ns` + `pause_share` * T is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Budget {
    left_ns: u64,
    filled_ns: u64,
}

impl Budget {
    pub(super) fn full(settings: Settings, now_ns: u64) -> Self {
        Self { left_ns: settings.pause_burst_ns, filled_ns: now_ns }
    }

    /// Takes up to `wanted_ns` and returns the granted time.
    pub(super) fn take(&mut self, wanted_ns: u64, settings: Settings, now_ns: u64) -> u64 {
        let earned = settings.pause_share.of(now_ns.saturating_sub(self.filled_ns));
        self.left_ns = self.left_ns.saturating_add(earned).min(settings.pause_burst_ns);
        self.filled_ns = now_ns;
        let granted = wanted_ns.min(self.left_ns);
        self.left_ns -= granted;
        granted
    }
}
