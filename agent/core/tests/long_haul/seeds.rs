// SPDX-License-Identifier: Apache-2.0
//! Seeded choices.

/// SplitMix64: reproducible on every platform.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }
}

/// The seeds: twenty times as many with `CANOPY_DEEP=1`.
pub(crate) fn seeds(usual: u64) -> std::ops::Range<u64> {
    let deep = std::env::var("CANOPY_DEEP").is_ok_and(|v| v == "1");
    0..usual * if deep { 20 } else { 1 }
}
