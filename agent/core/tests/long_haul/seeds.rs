// SPDX-License-Identifier: Apache-2.0
//! Seeded choices.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Reproducible on every platform and in every version.
pub(crate) struct Dice(ChaCha8Rng);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.0.next_u64() % (high - low + 1)
    }
}

/// The seeds: twenty times as many with `CANOPY_DEEP=1`.
pub(crate) fn seeds(usual: u64) -> std::ops::Range<u64> {
    let deep = std::env::var("CANOPY_DEEP").is_ok_and(|v| v == "1");
    0..usual * if deep { 20 } else { 1 }
}
