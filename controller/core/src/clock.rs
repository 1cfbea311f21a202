// SPDX-License-Identifier: Apache-2.0
//! Wall clocks that differ from one another.

use std::fmt;
use std::time::Duration;

use canopy_units::UnixTime;

/// A larger difference is one. Telemetry that was on its way for long dates a node's clock back by as much.
const TOLERATED: Duration = Duration::from_secs(5);

/// By how much a clock differs from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    by: Duration,
    /// It shows a later time than the other.
    pub(crate) is_ahead: bool,
}

impl Difference {
    /// Of the clock that showed `at` when `reference` showed `now`; `None` if it is tolerated.
    pub(crate) fn between(at: UnixTime, now: UnixTime) -> Option<Self> {
        let by = Duration::from_nanos(at.nanos().abs_diff(now.nanos()));
        (by > TOLERATED).then_some(Self { by, is_ahead: at > now })
    }
}

/// For example `12.5 s ahead of`.
impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = if self.is_ahead { "ahead of" } else { "behind" };
        write!(f, "{:.1} s {side}", self.by.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_differ_from_more_than_what_is_tolerated() {
        let at = |seconds: u64| UnixTime::from_nanos(seconds * 1_000_000_000);
        let text = |node, controller| Difference::between(at(node), at(controller)).map(|d| d.to_string());
        assert_eq!(text(1000, 1005), None);
        assert_eq!(text(1005, 1000), None);
        assert_eq!(text(1000, 1006).as_deref(), Some("6.0 s behind"));
        assert_eq!(text(4600, 1000).as_deref(), Some("3600.0 s ahead of"));
    }
}
