// SPDX-License-Identifier: Apache-2.0
//! Exponential back-off with jitter. Pure: the randomness comes in.

use std::time::Duration;

/// Doubles from `first` up to `most`; each delay is drawn from its upper half, so that agents which lost the
/// same controller at once do not come back at once.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    most: Duration,
    current: Duration,
}

impl Backoff {
    /// Starts at `first`, never waits longer than `most`.
    pub const fn new(first: Duration, most: Duration) -> Self {
        Self { first, most, current: first }
    }

    /// The next delay, within `[d/2, d]` where `d` doubles with every call; `random` is in `[0, 1)`.
    pub fn next_delay(&mut self, random: f64) -> Duration {
        let full = self.current.min(self.most);
        self.current = full.saturating_mul(2).min(self.most);
        full / 2 + (full / 2).mul_f64(random.clamp(0.0, 1.0))
    }

    /// Something worked: the next failure waits as the first one did.
    pub fn reset(&mut self) {
        self.current = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_to_the_cap_and_resets() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_millis(350));
        let upper: Vec<u128> = (0..4).map(|_| backoff.next_delay(1.0).as_millis()).collect();
        assert_eq!(upper, [100, 200, 350, 350]);
        backoff.reset();
        assert_eq!(backoff.next_delay(0.0), Duration::from_millis(50), "jitter takes at most half away");
    }

    #[test]
    fn never_overflows_nor_exceeds_the_cap() {
        let cap = Duration::from_secs(15);
        let mut backoff = Backoff::new(Duration::from_millis(100), cap);
        assert!((0..10_000).all(|_| backoff.next_delay(0.999) <= cap));
    }
}
