// SPDX-License-Identifier: Apache-2.0
//! Times that operators write, as RFC 3339 has them. They are stored and shown in UTC.

use std::time::{Duration, UNIX_EPOCH};

use canopy_units::UnixTime;
use serde::{Deserialize, Deserializer, Serializer, de};

/// Reads `2026-11-26T18:00:00Z`, also with a fraction of a second or with an offset such as `+01:00`.
///
/// # Errors
/// The text is not a time; with an example of one.
pub fn parse(text: &str) -> Result<UnixTime, String> {
    let (local, offset) = split_offset(text).ok_or_else(|| not_a_time(text))?;
    let local = humantime::parse_rfc3339(&format!("{local}Z")).map_err(|_| not_a_time(text))?;
    let since = local.duration_since(UNIX_EPOCH).map_err(|_| not_a_time(text))?;
    let utc = match offset {
        Offset::East(by) => since.checked_sub(by),
        Offset::West(by) => since.checked_add(by),
    };
    let nanos = utc.and_then(|utc| u64::try_from(utc.as_nanos()).ok()).ok_or_else(|| not_a_time(text))?;
    Ok(UnixTime::from_nanos(nanos))
}

/// In UTC, with the digits of a fraction that it has.
pub fn format(at: UnixTime) -> String {
    // Years beyond 9999 cannot be written: u64 nanoseconds end in 2554.
    humantime::format_rfc3339(UNIX_EPOCH + Duration::from_nanos(at.nanos())).to_string()
}

/// The same without its fraction, for messages.
pub fn seconds(at: UnixTime) -> String {
    const SECOND: u64 = 1_000_000_000;
    format(UnixTime::from_nanos(at.nanos() / SECOND * SECOND))
}

enum Offset {
    East(Duration),
    West(Duration),
}

/// The time without its offset from UTC.
fn split_offset(text: &str) -> Option<(&str, Offset)> {
    if let Some(local) = text.strip_suffix(['Z', 'z']) {
        return Some((local, Offset::East(Duration::ZERO)));
    }
    let (local, offset) = text.split_at_checked(text.len().checked_sub("+00:00".len())?)?;
    let (hours, minutes) = offset.get(1..)?.split_once(':')?;
    let number = |digits: &str, below: u64| -> Option<u64> {
        let is_number = digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_digit());
        digits.parse().ok().filter(|n| is_number && *n < below)
    };
    let by = Duration::from_secs(number(hours, 24)? * 3600 + number(minutes, 60)? * 60);
    match offset.as_bytes()[0] {
        b'+' => Some((local, Offset::East(by))),
        b'-' => Some((local, Offset::West(by))),
        _ => None,
    }
}

fn not_a_time(text: &str) -> String {
    format!("{text:?} is not a time: write it as 2026-11-26T18:00:00Z or 2026-11-26T19:00:00+01:00 (RFC 3339)")
}

/// For a field that may be absent.
pub mod option {
    use super::*;

    /// As text.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(at: &Option<UnixTime>, to: S) -> Result<S::Ok, S::Error> {
        match at {
            Some(at) => to.serialize_some(&format(*at)),
            None => to.serialize_none(),
        }
    }

    /// From text.
    ///
    /// # Errors
    /// The text is no time.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<UnixTime>, D::Error> {
        let text: Option<String> = Option::deserialize(from)?;
        text.map(|text| parse(&text).map_err(de::Error::custom)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_any_offset_and_shown_in_utc() {
        let shown = |text: &str| format(parse(text).unwrap());
        for (text, utc) in [
            ("1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z"),
            ("2026-11-26T18:00:00z", "2026-11-26T18:00:00Z"),
            ("2026-11-26T19:30:00+01:30", "2026-11-26T18:00:00Z"),
            ("2026-11-26T18:00:00+00:00", "2026-11-26T18:00:00Z"),
            ("2026-11-26T18:00:00-00:00", "2026-11-26T18:00:00Z"),
            ("2026-12-31T18:00:00-08:00", "2027-01-01T02:00:00Z"),
            ("2028-02-29T00:00:00.5Z", "2028-02-29T00:00:00.500000000Z"),
        ] {
            assert_eq!(shown(text), utc, "{text}");
            assert_eq!(parse(&shown(text)), parse(text));
        }
        let fraction = parse("1970-01-01T00:00:01.25Z").unwrap();
        assert_eq!((fraction.nanos(), seconds(fraction).as_str()), (1_250_000_000, "1970-01-01T00:00:01Z"));
    }

    #[test]
    fn what_is_no_time_is_named() {
        for text in [
            "",
            "Z",
            "2h",
            "tomorrow",
            "2026-11-26",
            "2026-11-26T18:00:00",
            "2026-02-30T18:00:00Z",
            "2026-11-26T18:00:00+1:00",
            "2026-11-26T18:00:00+24:00",
            "2026-11-26T18:00:00+00:60",
            "2026-11-26T18:00:00*01:00",
            "2026-11-26T18:00:00+ä1:0",
            "1970-01-01T00:00:00+00:01",
            "1969-12-31T23:59:59Z",
            "2999-01-01T00:00:00Z",
        ] {
            let e = parse(text).unwrap_err();
            assert!(e.starts_with(&format!("{text:?} is not a time")) && e.contains("RFC 3339"), "{e}");
        }
    }
}
