// SPDX-License-Identifier: Apache-2.0
//! Serial arithmetic of 24-bit packet sequence numbers, IBTA volume 1 section 9.7.2.

/// All 24 bits.
pub const MASK: u32 = 0xff_ffff;

/// The PSN `count` packets after `psn`.
pub const fn add(psn: u32, count: u64) -> u32 {
    ((psn as u64).wrapping_add(count) & MASK as u64) as u32
}

/// The PSN just before `psn`.
pub const fn before(psn: u32) -> u32 {
    psn.wrapping_sub(1) & MASK
}

/// How far `to` lies after `from`: negative when before it, in -2^23..2^23.
pub const fn distance(from: u32, to: u32) -> i32 {
    // Shifting the 24-bit difference to the top of the word makes its own top bit the sign.
    (to.wrapping_sub(from) << 8) as i32 >> 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_crosses_the_wrap_both_ways() {
        assert_eq!(distance(0xff_ffff, 0), 1);
        assert_eq!(distance(0, 0xff_ffff), -1);
        assert_eq!(distance(0x7f_ffff, 0x80_0000), 1);
        assert_eq!(distance(5, 5), 0);
        assert_eq!(distance(0, 0x7f_ffff), 0x7f_ffff);
        assert_eq!(distance(0, 0x80_0000), -0x80_0000);
    }

    #[test]
    fn add_and_before_stay_within_24_bits() {
        assert_eq!(add(0xff_fff0, 0x20), 0x10);
        assert_eq!(add(7, 1 << 24), 7);
        assert_eq!(before(0), 0xff_ffff);
    }
}
