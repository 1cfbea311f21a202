// SPDX-License-Identifier: Apache-2.0
//! Quantities in lab files and on command lines: `1Gbit`, `1%`, `256MiB`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use bytesize::ByteSize;
use canopy_units::{Octets, nanos};
use serde::{Deserialize, Serialize};

/// A link rate, 8 kbit/s ..= 1 Tbit/s, written as tc(8) does: `1Gbit`, `100Mbit`, `64kbit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Rate(canopy_units::Rate);

impl Rate {
    /// The rate.
    pub fn get(self) -> canopy_units::Rate {
        self.0
    }
}

impl FromStr for Rate {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        let units = [("Tbit", 1e12), ("Gbit", 1e9), ("Mbit", 1e6), ("kbit", 1e3), ("bit", 1.0)];
        match scaled(s, &units) {
            Some(bps) if (8e3..=1e12).contains(&bps) => Ok(Self(canopy_units::Rate::from_bps(bps as u64))),
            _ => Err(format!("{s:?} is not a rate: use 8kbit to 1Tbit with a unit, for example 1Gbit or 250Mbit")),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bps = self.0.bps();
        for (unit, name) in [(1_000_000_000, "Gbit"), (1_000_000, "Mbit"), (1000, "kbit")] {
            if bps.is_multiple_of(unit) {
                return write!(f, "{}{name}", bps / unit);
            }
        }
        write!(f, "{bps}bit")
    }
}

/// The probability that a packet is lost, 0% ..= 100%.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Loss(f64);

impl Loss {
    /// Threshold for 32 random bits, below which a packet is lost: 0 never, 2^32 always.
    pub fn threshold(self) -> u64 {
        (self.0 / 100.0 * 4_294_967_296.0).round() as u64
    }

    /// The probability in percent.
    pub fn percent(self) -> f64 {
        self.0
    }

    /// The loss that has this threshold, to the resolution of 2^-32.
    pub(crate) fn from_threshold(threshold: u64) -> Self {
        Self((threshold.min(1 << 32)) as f64 / 4_294_967_296.0 * 100.0)
    }
}

impl FromStr for Loss {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        match scaled(s, &[("%", 1.0)]) {
            Some(percent) if (0.0..=100.0).contains(&percent) => Ok(Self(percent)),
            _ => Err(format!("{s:?} is not a loss: use 0% to 100%, for example 1% or 0.05%")),
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Six decimals resolve the threshold; trailing zeros are removed.
        let text = format!("{:.6}", self.0);
        write!(f, "{}%", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// One-way delay of a link, 0 ..= 10 s, written `10ms`, `250us` or `1.5s`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Delay(Duration);

impl Delay {
    /// The delay.
    pub fn get(self) -> Duration {
        self.0
    }

    /// The delay in force, as read from a delay line or from netem.
    pub(crate) fn new(delay: Duration) -> Self {
        Self(delay)
    }
}

impl FromStr for Delay {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        match scaled(s, &[("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1.0)]) {
            Some(ns) if (0.0..=1e10).contains(&ns) => Ok(Self(Duration::from_nanos(ns.round() as u64))),
            _ => Err(format!("{s:?} is not a delay: use 0ms to 10s with a unit, for example 10ms or 250us")),
        }
    }
}

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = nanos(self.0);
        for (unit, name) in [(1_000_000_000, "s"), (1_000_000, "ms"), (1000, "us")] {
            if ns > 0 && ns.is_multiple_of(unit) {
                return write!(f, "{}{name}", ns / unit);
            }
        }
        if ns == 0 { f.write_str("0ms") } else { write!(f, "{ns}ns") }
    }
}

/// A number of bytes: `1048576`, `256MiB`, `1GB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bytes(pub Octets);

impl FromStr for Bytes {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        // 1 PiB: more is a mistake.
        match s.parse::<ByteSize>() {
            Ok(size) if (1..=1 << 50).contains(&size.as_u64()) => Ok(Self(Octets(size.as_u64()))),
            _ => Err(format!("{s:?} is not a size: use a whole number of bytes, for example 1048576, 256MiB or 1GB")),
        }
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let octets = self.0.get();
        for (unit, name) in [(1u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")] {
            if octets >= unit {
                return write!(f, "{:.2} {name}", octets as f64 / unit as f64);
            }
        }
        write!(f, "{octets} B")
    }
}

/// `number unit` with the first unit that fits; `None` for anything that is not a finite plain number.
fn scaled(s: &str, units: &[(&str, f64)]) -> Option<f64> {
    let digits = s.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(s.len());
    let (number, unit) = s.split_at(digits);
    let factor = units.iter().find(|(name, _)| *name == unit)?.1;
    number.parse::<f64>().ok().map(|n| n * factor).filter(|n| n.is_finite())
}

macro_rules! as_text {
    ($($name:ident = $field:literal),*) => {$(
        impl TryFrom<String> for $name {
            type Error = String;
            fn try_from(s: String) -> Result<Self, String> {
                // YAML errors contain only the path of the enclosing object, so the error adds the key.
                s.parse().map_err(|e| format!(concat!($field, ": {}"), e))
            }
        }
        impl From<$name> for String {
            fn from(v: $name) -> String {
                v.to_string()
            }
        }
    )*};
}
as_text!(Rate = "rate", Loss = "loss", Delay = "delay");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_is_read() {
        assert_eq!("1.5Gbit".parse::<Rate>().unwrap().get().bps(), 1_500_000_000);
        assert_eq!("1.5Gbit".parse::<Rate>().unwrap().to_string(), "1500Mbit");
        assert_eq!("1%".parse::<Loss>().unwrap().threshold(), 42_949_673);
        assert_eq!("0.05%".parse::<Loss>().unwrap().to_string(), "0.05%");
        assert_eq!("100%".parse::<Loss>().unwrap().threshold(), 1 << 32);
        for (written, ns, shown) in [
            ("10ms", 10_000_000, "10ms"),
            ("1.5s", 1_500_000_000, "1500ms"),
            ("0s", 0, "0ms"),
            ("0.25ms", 250_000, "250us"),
        ] {
            let delay: Delay = written.parse().unwrap();
            assert_eq!((nanos(delay.get()), delay.to_string().as_str()), (ns, shown));
        }
        assert_eq!("256MiB".parse::<Bytes>().unwrap(), Bytes(Octets(256 << 20)));
        assert_eq!("17".parse::<Bytes>().unwrap(), Bytes(Octets(17)));
    }

    #[test]
    fn a_number_without_its_unit_or_range_is_refused() {
        for bad in ["1", "1%%", "101%", "-1%", "nan%", "%", "", "1e1%"] {
            assert!(bad.parse::<Loss>().is_err(), "{bad:?}");
        }
        for bad in ["10", "-1ms", "10.1s", "11s", "ms", "1h", "nans", ""] {
            assert!(bad.parse::<Delay>().is_err(), "{bad:?}");
        }
        assert_eq!("10s".parse::<Delay>().unwrap().get(), Duration::from_secs(10));
        for bad in ["1000", "0Gbit", "1gbit", "2Tbit", "Gbit"] {
            assert!(bad.parse::<Rate>().is_err(), "{bad:?}");
        }
        for bad in ["0", "-1", "2000000GB", "MiB"] {
            assert!(bad.parse::<Bytes>().is_err(), "{bad:?}");
        }
    }
}
