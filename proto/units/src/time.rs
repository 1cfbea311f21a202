// SPDX-License-Identifier: Apache-2.0
//! Instants. Spans between them are [`Duration`].

use std::fmt;
use std::ops::Add;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(crate) const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// Nanoseconds of a span, for edges and for integer arithmetic; spans of more than 584 years are `u64::MAX`.
pub fn nanos(span: Duration) -> u64 {
    let whole = span.as_secs().saturating_mul(1_000_000_000);
    whole.saturating_add(u64::from(span.subsec_nanos()))
}

/// An instant of a monotonic clock (`CLOCK_MONOTONIC` where it meets the kernel): nanoseconds since boot. Tests and simulations
/// count from [`Monotonic::START`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Monotonic(u64);

impl Monotonic {
    /// The clock's zero; before every instant that the clock returns.
    pub const START: Self = Self(0);
    /// Later than every instant: never.
    pub const NEVER: Self = Self(u64::MAX);

    /// From nanoseconds since boot.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since boot.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// Time since `earlier`; zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// At most [`Monotonic::NEVER`].
impl Add<Duration> for Monotonic {
    type Output = Self;
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(nanos(span)))
    }
}

/// An instant of the wall clock: nanoseconds since 1970. For people, logs and packets; for a decision only where an operator
/// writes a time of day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct UnixTime(u64);

impl UnixTime {
    /// From nanoseconds since 1970.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since 1970.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// What the clock shows; zero before 1970.
    pub fn now() -> Self {
        Self::default() + SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }
}

/// Saturates in the year 2554.
impl Add<Duration> for UnixTime {
    type Output = Self;
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(nanos(span)))
    }
}

/// The number of nanoseconds.
impl fmt::Display for UnixTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_do_not_wrap() {
        let (early, late) = (Monotonic(5), Monotonic(9));
        assert_eq!((late.since(early), early.since(late)), (Duration::from_nanos(4), Duration::ZERO));
        assert_eq!(early + Duration::from_nanos(4), late);
        assert_eq!(
            (early + Duration::MAX, late + Duration::from_nanos(u64::MAX)),
            (Monotonic::NEVER, Monotonic::NEVER)
        );
        assert_eq!(UnixTime(1) + Duration::from_secs(1), UnixTime(1_000_000_001));
    }

    #[test]
    fn nanoseconds_of_a_span_are_exact_and_saturate() {
        for ns in [0, 1, 999_999_999, 1_000_000_000, u64::MAX] {
            assert_eq!(nanos(Duration::from_nanos(ns)), ns);
        }
        assert_eq!(nanos(Duration::MAX), u64::MAX);
    }
}
