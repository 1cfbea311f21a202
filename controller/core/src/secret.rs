// SPDX-License-Identifier: Apache-2.0
//! The key of the domain's unguessable numbers (decisions 6.5).
//!
//! A number that packets have to carry protects its group only as long as no host can guess it. All of them are functions of this
//! key and of a counter that is durable: planning stays free of side effects, and a counter that never goes back never gives a
//! number twice. The caller draws the key once for the life of a domain.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Rounds of the Feistel network; from seven on it is as good as a random permutation (Patarin 2004).
const ROUNDS: u64 = 8;

/// A secret key; its `Debug` form does not show it.
#[derive(Clone)]
pub struct Secret([u8; 32]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// What a number is for: equal counters of two kinds have nothing to do with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Kind {
    TreeId = 1,
    Proxy = 2,
    DesignatedQpn = 3,
    StartPsn = 4,
    Rkey = 5,
    HmacKey = 6,
    HmacKeyId = 7,
    UidTerm = 8,
    UidRevision = 9,
}

impl Secret {
    /// The key with these bytes, which a cryptographic generator drew.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The pseudorandom number of `counter`: 64 bits of ChaCha20's key stream.
    pub(crate) fn random(&self, kind: Kind, counter: u64) -> u64 {
        self.draw(kind, 0, counter)
    }

    /// The pseudorandom octets of `counter`.
    pub(crate) fn octets(&self, kind: Kind, counter: u64) -> [u8; 32] {
        let mut octets = [0; 32];
        for (round, word) in (0..).zip(octets.as_chunks_mut::<8>().0) {
            *word = self.draw(kind, round, counter).to_le_bytes();
        }
        octets
    }

    /// Where a pseudorandom permutation of `0..=last` has `index`: a balanced Feistel network over the bits of `last`, applied until
    /// the result is within.
    pub(crate) fn permute(&self, kind: Kind, last: u64, index: u64) -> u64 {
        debug_assert!(index <= last);
        let half = (u64::BITS - last.leading_zeros()).div_ceil(2).max(1);
        let mask = (1u64 << half) - 1;
        let mut at = index;
        loop {
            let (mut left, mut right) = (at >> half & mask, at & mask);
            for round in 1..=ROUNDS {
                (left, right) = (right, left ^ (self.draw(kind, round, right) & mask));
            }
            at = left << half | right;
            if at <= last {
                return at;
            }
        }
    }

    /// 64 pseudorandom bits of a kind, a round and a counter.
    pub(crate) fn draw(&self, kind: Kind, round: u64, counter: u64) -> u64 {
        let mut stream = ChaCha20Rng::from_seed(self.0);
        stream.set_stream((kind as u64) << 32 | round);
        // One block of 16 words for each number.
        stream.set_word_pos(u128::from(counter) << 4);
        stream.next_u64()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn secret(byte: u8) -> Secret {
        Secret::new([byte; 32])
    }

    #[test]
    fn a_permutation_reaches_every_number_once() {
        for last in [0, 1, 2, 3, 4, 15, 16, 99, 255, 256, 1_000, 65_534] {
            let reached: BTreeSet<u64> = (0..=last).map(|i| secret(7).permute(Kind::TreeId, last, i)).collect();
            assert_eq!(reached.len() as u64, last + 1, "{last}");
            assert!(reached.last() <= Some(&last));
        }
        let wide: BTreeSet<u64> = (0..10_000).map(|i| secret(7).permute(Kind::Proxy, u64::MAX, i)).collect();
        assert_eq!(wide.len(), 10_000);
    }

    #[test]
    fn numbers_differ_by_key_by_kind_and_by_counter() {
        let at = |s: u8, kind, i| secret(s).permute(kind, u64::MAX, i);
        let base = at(1, Kind::Proxy, 5);
        for other in [at(2, Kind::Proxy, 5), at(1, Kind::TreeId, 5), at(1, Kind::Proxy, 6)] {
            assert_ne!(base, other);
            // Half of the bits differ, give or take.
            assert!((16..=48).contains(&(base ^ other).count_ones()), "{base:x} {other:x}");
        }
        assert_ne!(secret(1).random(Kind::StartPsn, 1), secret(1).random(Kind::StartPsn, 2));
        assert_ne!(secret(1).random(Kind::StartPsn, 1), secret(1).random(Kind::Rkey, 1));
        let octets = secret(1).octets(Kind::HmacKey, 1);
        let words: BTreeSet<_> = octets.as_chunks::<8>().0.iter().collect();
        assert_eq!(words.len(), 4);
        for other in [secret(2).octets(Kind::HmacKey, 1), secret(1).octets(Kind::HmacKey, 2)] {
            assert!(octets.as_chunks::<8>().0.iter().zip(other.as_chunks::<8>().0).all(|(a, b)| a != b));
        }
    }

    /// A number does not reveal the next one: each bit of that is as often 0 as 1.
    #[test]
    fn the_next_number_is_not_near_the_last_one() {
        let numbers: Vec<u64> = (0..2_000).map(|i| secret(3).permute(Kind::DesignatedQpn, 0xFF_FFFC, i)).collect();
        for bit in 0..24 {
            let changed = numbers.windows(2).filter(|w| (w[0] ^ w[1]) >> bit & 1 == 1).count();
            assert!((850..=1_150).contains(&changed), "bit {bit} changed {changed} of 1999 times");
        }
    }

    #[test]
    fn the_key_is_not_shown() {
        assert_eq!(format!("{:?}", secret(0x41)), "Secret(..)");
    }
}
