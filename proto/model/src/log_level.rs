// SPDX-License-Identifier: Apache-2.0
//! Filters of log lines that hold for a while.

use std::time::Duration;

use crate::FieldError;

/// Minor version of the southbound contract from which on agents take filters.
pub const MINOR_VERSION: u32 = 4;
/// Levels of log lines, the fewest lines first.
pub const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
/// Shortest time for which a filter holds.
pub const MIN_HOLD: Duration = Duration::from_secs(1);
/// Longest time for which a filter holds.
pub const MAX_HOLD: Duration = Duration::from_secs(24 * 3600);
/// Longest filter, octets.
pub const MAX_FILTER: usize = 256;

/// Which log lines a daemon writes: a level, or directives such as `info,canopy_datapath=debug`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFilter(String);

impl LogFilter {
    /// Checks a filter.
    ///
    /// # Errors
    /// What is wrong, with `field` as its field, and what to write.
    pub fn new(field: &str, text: &str) -> Result<Self, FieldError> {
        if text.len() > MAX_FILTER {
            return Err(FieldError::new(field, format!("{} octets, at most {MAX_FILTER} are possible", text.len())));
        }
        if !text.split(',').all(is_directive) {
            let levels = LEVELS.join(", ");
            return Err(FieldError::new(
                field,
                format!("{text:?} is not a level: use one of {levels}, or target=level,..."),
            ));
        }
        Ok(Self(text.to_owned()))
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_directive(text: &str) -> bool {
    let is_target = |target: &str| {
        !target.is_empty() && target.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_:".contains(&b))
    };
    match text.split_once('=') {
        None => LEVELS.contains(&text),
        Some((target, level)) => is_target(target) && LEVELS.contains(&level),
    }
}

/// A filter for a while.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOrder {
    /// The filter; `None`: that of the configuration again, at once.
    pub filter: Option<LogFilter>,
    /// How long, at most [`MAX_HOLD`]; then that of the configuration again.
    pub within: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_a_level_or_directives() {
        for good in ["debug", "off", "info,canopy_datapath=trace", "h2=warn,canopy_agent_link::watch=debug"] {
            assert_eq!(LogFilter::new("level", good).unwrap().as_str(), good);
        }
        for bad in ["", "loud", "a=b=info", "=info", "info,", "a b=info", "Debug", "[span]=info", &"a=info,".repeat(40)]
        {
            let refused = LogFilter::new("level", bad).unwrap_err();
            assert_eq!(refused.field, "level", "{bad}");
        }
        assert!(LogFilter::new("level", "loud").unwrap_err().detail.contains("off, error, warn, info, debug, trace"));
    }
}
