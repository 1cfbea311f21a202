// SPDX-License-Identifier: Apache-2.0
//! The pause budget: a token bucket of time that fills with a share of the time.

use std::time::Duration;

use canopy_units::{Monotonic, nanos};

use super::Settings;

/// In any span of time T, at most `pause_burst` + `pause_share` * T is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Budget {
    left: Duration,
    filled: Monotonic,
}

impl Budget {
    pub(super) fn full(settings: Settings, now: Monotonic) -> Self {
        Self { left: settings.pause_burst, filled: now }
    }

    /// Takes up to `wanted` and returns the granted time.
    pub(super) fn take(&mut self, wanted: Duration, settings: Settings, now: Monotonic) -> Duration {
        let earned = Duration::from_nanos(settings.pause_share.of(nanos(now.since(self.filled))));
        self.left = self.left.saturating_add(earned).min(settings.pause_burst);
        self.filled = now;
        let granted = wanted.min(self.left);
        self.left = self.left.saturating_sub(granted);
        granted
    }
}
