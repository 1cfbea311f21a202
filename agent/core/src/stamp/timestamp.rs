// SPDX-License-Identifier: Apache-2.0
//! NTP timestamps (RFC 5905 section 6) as carried in packets.

use std::time::Duration;

use canopy_units::UnixTime;

/// Seconds from 1900 to 1970.
const UNIX_EPOCH: u64 = 2_208_988_800;
const NS: u128 = 1_000_000_000;

/// Seconds since 1900 modulo 2^32, then fractions of a second: 0.23 ns apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// The wall clock in this format.
    pub fn from_unix(time: UnixTime) -> Self {
        let unix_ns = time.nanos();
        let seconds = (unix_ns / 1_000_000_000 + UNIX_EPOCH) as u32;
        let fraction = (u128::from(unix_ns % 1_000_000_000) << 32) / NS;
        Self(u64::from(seconds) << 32 | fraction as u64)
    }

    /// Time from `earlier` to `self`, rounded to nanoseconds; `None` if `earlier` is later. Correct up to 68 years, also across the wrap
    /// of the seconds in 2036.
    pub fn since(self, earlier: Self) -> Option<Duration> {
        let units = self.0.wrapping_sub(earlier.0);
        (units >> 63 == 0).then(|| Duration::from_nanos(((u128::from(units) * NS + (1 << 31)) >> 32) as u64))
    }
}
