// SPDX-License-Identifier: Apache-2.0
//! Rates and their texts.

use std::fmt;
use std::ops::Add;
use std::str::FromStr;
use std::time::Duration;

use crate::Octets;
use crate::time::NANOS_PER_SECOND;

/// Bits per second.
///
/// As text a number with an optional unit, in powers of 1000: `1000000`, `25G`, `1.5G`, `100Gbps`, `1.5 Gbit/s`, at least 1 bit/s
/// and at most 1 Pbit/s. It is printed as `1.5 Gbit/s`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Rate(u64);

/// The text is not a rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotARate(String);

impl Rate {
    /// Nothing is sent; in a declaration, a rate that is not known.
    pub const ZERO: Self = Self(0);

    /// From bits per second.
    pub const fn from_bps(bps: u64) -> Self {
        Self(bps)
    }

    /// Bits per second.
    pub const fn bps(self) -> u64 {
        self.0
    }

    /// `self` less `other`, at least zero.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// What `octets` in `time` amount to, rounded down; a time of zero counts as a nanosecond.
    pub fn of(octets: Octets, time: Duration) -> Self {
        let bits = u128::from(octets.get()) * 8 * NANOS_PER_SECOND;
        Self(u64::try_from(bits / time.as_nanos().max(1)).unwrap_or(u64::MAX))
    }
}

/// At most `u64::MAX` bit/s.
impl Add for Rate {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl FromStr for Rate {
    type Err = NotARate;
    fn from_str(text: &str) -> Result<Self, NotARate> {
        let wrong = || NotARate(text.to_owned());
        let lower = text.trim().to_ascii_lowercase();
        let short = ["bit/s", "bps", "bit"].iter().find_map(|unit| lower.strip_suffix(unit)).unwrap_or(&lower);
        let (number, factor) = match short.chars().last() {
            Some('k') => (&short[..short.len() - 1], 1e3),
            Some('m') => (&short[..short.len() - 1], 1e6),
            Some('g') => (&short[..short.len() - 1], 1e9),
            Some('t') => (&short[..short.len() - 1], 1e12),
            _ => (short, 1.0),
        };
        let bps = number.trim().parse::<f64>().map_err(|_| wrong())? * factor;
        if bps.is_finite() && (1.0..=1e15).contains(&bps) { Ok(Self(bps as u64)) } else { Err(wrong()) }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match self.0 {
            1_000_000_000.. => (self.0 as f64 / 1e9, "Gbit/s"),
            1_000_000.. => (self.0 as f64 / 1e6, "Mbit/s"),
            1_000.. => (self.0 as f64 / 1e3, "kbit/s"),
            _ => (self.0 as f64, "bit/s"),
        };
        let digits = format!("{value:.3}");
        write!(f, "{} {unit}", digits.trim_end_matches('0').trim_end_matches('.'))
    }
}

impl fmt::Display for NotARate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a rate: write bits per second such as 25G, 500M or 1000000", self.0)
    }
}

impl std::error::Error for NotARate {}

#[cfg(test)]
mod tests {
    use super::*;

    const GBPS_100: Rate = Rate::from_bps(100_000_000_000);

    #[test]
    fn texts_are_bits_per_second_in_powers_of_1000() {
        for (text, bps) in
            [("1", 1), ("25G", 25_000_000_000), ("1.5 Gbit/s", 1_500_000_000), ("100gbps", 100_000_000_000)]
        {
            assert_eq!(text.parse(), Ok(Rate(bps)), "{text}");
        }
        for text in ["", "0", "-1G", "G", "nan", "1P", "1e30"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
        let printed = [1_500_000_000, 100_000_000, 7].map(|bps| Rate(bps).to_string());
        assert_eq!(printed, ["1.5 Gbit/s", "100 Mbit/s", "7 bit/s"]);
    }

    #[test]
    fn a_rate_is_what_octets_and_a_time_amount_to() {
        assert_eq!(Rate::of(Octets(125_000_000), Duration::from_millis(10)), GBPS_100);
        assert_eq!(Rate::of(Octets::MAX, Duration::ZERO), Rate(u64::MAX));
    }
}
