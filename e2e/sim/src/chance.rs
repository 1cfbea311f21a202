// SPDX-License-Identifier: Apache-2.0
//! The one source of randomness of a run.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// A millionth, the unit of probabilities.
pub const MILLION: u64 = 1_000_000;

/// A generator. Ranges are drawn here and not by a library, whose algorithm may change.
pub struct Chance(ChaCha8Rng);

impl Chance {
    /// The generator of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// In `0..n`; 0 when `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// In `from..=to`.
    pub fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    /// True `ppm` times in a million.
    pub fn happens(&mut self, ppm: u64) -> bool {
        ppm > 0 && self.below(MILLION) < ppm
    }

    /// One of `from`.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        from.get(self.below(from.len() as u64) as usize).copied()
    }
}
