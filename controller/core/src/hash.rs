// SPDX-License-Identifier: Apache-2.0
//! Deterministic spreading: a bijective 64-bit mixer (the finaliser of SplitMix64), not a cryptographic hash.

/// Mixes two numbers into one; equal inputs give equal outputs on every machine and in every version.
pub(crate) fn mix(a: u64, b: u64) -> u64 {
    let mut z = a.rotate_left(32).wrapping_add(b).wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
