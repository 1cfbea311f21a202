// SPDX-License-Identifier: Apache-2.0
//! Rates on the command line and in files.

use serde::{Deserialize, Deserializer, Serialize};

/// Bits per second; in a file a number, or a text as [`rate`] reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Rate(pub(crate) u64);

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected a rate: bits per second such as \"25G\", \"500M\" or 1000000")]
        enum Written {
            Number(u64),
            Text(String),
        }
        let text = match Written::deserialize(from)? {
            Written::Number(bps) => bps.to_string(),
            Written::Text(text) => text,
        };
        rate(&text).map(Self).map_err(serde::de::Error::custom)
    }
}

/// Bits per second: `1000000`, `25G`, `1.5G`, `100Gbit`, `100Gbps`; k, M, G, T are powers of 1000.
///
/// # Errors
/// It is not a number of at least 1.
pub(crate) fn rate(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is not a rate: write bits per second such as 25G, 500M or 1000000");
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
    if bps.is_finite() && (1.0..=1e15).contains(&bps) { Ok(bps as u64) } else { Err(wrong()) }
}

/// A rate for printed output.
pub(crate) fn show_rate(bps: u64) -> String {
    let (value, unit) = match bps {
        1_000_000_000.. => (bps as f64 / 1e9, "Gbit/s"),
        1_000_000.. => (bps as f64 / 1e6, "Mbit/s"),
        1_000.. => (bps as f64 / 1e3, "kbit/s"),
        _ => (bps as f64, "bit/s"),
    };
    let digits = format!("{value:.3}");
    format!("{} {unit}", digits.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_bits_per_second_in_powers_of_1000() {
        for (text, bps) in
            [("1", 1), ("25G", 25_000_000_000), ("1.5 Gbit/s", 1_500_000_000), ("100gbps", 100_000_000_000)]
        {
            assert_eq!(rate(text), Ok(bps), "{text}");
        }
        for text in ["", "0", "-1G", "G", "nan", "1P", "1e30"] {
            assert!(rate(text).is_err(), "{text}");
        }
        assert_eq!(
            (show_rate(1_500_000_000), show_rate(100_000_000), show_rate(7)),
            ("1.5 Gbit/s".into(), "100 Mbit/s".into(), "7 bit/s".into())
        );
    }
}
