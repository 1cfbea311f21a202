// SPDX-License-Identifier: Apache-2.0
//! Sizes and numbers on a command line.

use bytesize::ByteSize;

/// Bytes: `1048576`, `1024KiB`, `1MiB`, `1GiB`, and `kB`, `MB`, `GB` for powers of 1000.
pub fn parse_size(text: &str) -> Result<u64, String> {
    match text.parse::<ByteSize>() {
        // It saturates.
        Ok(size) if size.as_u64() < u64::MAX => Ok(size.as_u64()),
        _ => Err(format!("{text:?} is no size; use e.g. 4096, 64KiB, 1MiB or 1GiB")),
    }
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
        for wrong in ["", "MiB", "-1", "1.5Mi8", "99999999999GiB"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
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
