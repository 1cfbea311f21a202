// SPDX-License-Identifier: Apache-2.0
//! RNR NAK timer codes, IBTA volume 1 section 9.7.5.2.
//!
//! The codes are not ordered by time: 1..=31 grow from 10 microseconds to 491.52 milliseconds, and 0 is longer than all
//! of them. To find the longest of several timers, compare [`rnr_rank`], never codes.

use core::time::Duration;

/// Largest timer code.
pub const RNR_TIMER_MAX: u8 = 31;

/// Units of 10 microseconds, by code.
const TENS_OF_MICROS: [u32; 32] = [
    65_536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024, 1_536, 2_048, 3_072,
    4_096, 6_144, 8_192, 12_288, 16_384, 24_576, 32_768, 49_152,
];

/// Minimum time that a requester waits before it retries. `None` if `code` is not in 0..=31.
pub const fn rnr_timer(code: u8) -> Option<Duration> {
    if code > RNR_TIMER_MAX {
        return None;
    }
    Some(Duration::from_micros(TENS_OF_MICROS[code as usize] as u64 * 10))
}

/// Position of a timer code in the order of durations: code 1 is 0, code 31 is 30, code 0 is 31.
///
/// An octet that is not a code ranks with code 0, the longest: its lower bits do not encode a timer.
pub const fn rnr_rank(code: u8) -> u8 {
    if code == 0 || code > RNR_TIMER_MAX { RNR_TIMER_MAX } else { code - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn the_ends_and_the_middle_are_those_of_the_table() {
        let micros = |code| rnr_timer(code).unwrap().as_micros();
        assert_eq!(micros(0), 655_360);
        assert_eq!(micros(1), 10);
        assert_eq!(micros(12), 640);
        assert_eq!(micros(20), 10_240);
        assert_eq!(micros(31), 491_520);
        assert_eq!(rnr_timer(32), None);
    }

    #[test]
    fn rank_orders_codes_exactly_as_their_durations() {
        let mut codes: Vec<u8> = (0..=RNR_TIMER_MAX).collect();
        codes.sort_by_key(|&code| rnr_timer(code));
        let ranks: Vec<u8> = codes.iter().map(|&code| rnr_rank(code)).collect();
        assert_eq!(ranks, (0..=31).collect::<Vec<u8>>());
    }

    #[test]
    fn an_octet_that_is_no_code_ranks_with_the_longest_timer() {
        assert!((RNR_TIMER_MAX + 1..=u8::MAX).all(|octet| rnr_rank(octet) == rnr_rank(0)));
    }
}
