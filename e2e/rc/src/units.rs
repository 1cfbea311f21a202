// SPDX-License-Identifier: Apache-2.0
//! Sizes, durations and numbers on a command line.

use std::time::Duration;

/// Bytes: `1048576`, `1024KiB`, `1MiB`, `1GiB`, and `kB`, `MB`, `GB` for powers of 1000.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let units = [
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("B", 1),
    ];
    let (digits, unit) = split_unit(text, &units).unwrap_or((text, 1));
    let count: u64 =
        digits.trim().parse().map_err(|_| format!("{text:?} is no size; use e.g. 4096, 64KiB, 1MiB or 1GiB"))?;
    count.checked_mul(unit).ok_or_else(|| format!("{text:?} is more bytes than 64 bits can count"))
}

/// A duration: `500us`, `20ms`, `2s`, `5m`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let units = [("us", 1), ("ms", 1_000), ("s", 1_000_000), ("m", 60_000_000)];
    let wrong = || format!("{text:?} is no duration; use e.g. 500us, 20ms, 2s or 5m");
    let (digits, unit) = split_unit(text, &units).ok_or_else(wrong)?;
    let count: u64 = digits.trim().parse().map_err(|_| wrong())?;
    count.checked_mul(unit).map(Duration::from_micros).ok_or_else(wrong)
}

/// A number, decimal or with 0x.
pub fn parse_number(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("{text:?} is no number; use decimal or 0x and hexadecimal"))
}

/// A number that fits 24 bits: a QPN or a PSN.
pub fn parse_24_bits(text: &str) -> Result<u32, String> {
    let number = parse_number(text)?;
    u32::try_from(number)
        .ok()
        .filter(|&number| number <= crate::psn::MASK)
        .ok_or_else(|| format!("{text:?} does not fit 24 bits; use 0..=0xffffff"))
}

/// Digits and factor, by the first unit that ends the text.
fn split_unit<'a>(text: &'a str, units: &[(&str, u64)]) -> Option<(&'a str, u64)> {
    units.iter().find_map(|&(unit, factor)| text.strip_suffix(unit).map(|digits| (digits, factor)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(parse_size("0"), Ok(0));
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("3B"), Ok(3));
        assert_eq!(parse_size("64KiB"), Ok(65_536));
        assert_eq!(parse_size("256 MiB"), Ok(256 << 20));
        assert_eq!(parse_size("2MB"), Ok(2_000_000));
        for wrong in ["", "MiB", "-1", "1.5MiB", "1mib", "99999999999GiB"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations() {
        assert_eq!(parse_duration("500us"), Ok(Duration::from_micros(500)));
        assert_eq!(parse_duration("20ms"), Ok(Duration::from_millis(20)));
        assert_eq!(parse_duration("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(parse_duration("5m"), Ok(Duration::from_secs(300)));
        for wrong in ["", "20", "ms", "1h", "99999999999999999999s"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn qpns_and_psns() {
        assert_eq!(parse_24_bits("0xffffff"), Ok(0xff_ffff));
        assert_eq!(parse_24_bits("17"), Ok(17));
        for wrong in ["0x1000000", "16777216", "x", "0x"] {
            assert!(parse_24_bits(wrong).is_err(), "{wrong}");
        }
    }
}
