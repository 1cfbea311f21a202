// SPDX-License-Identifier: Apache-2.0
//! Metric Type and Congestion Metric Value, which have one meaning together: sections 6.1 and 10.4.

use super::PERCENT_MAX;
use crate::error::Problem;

/// Largest Congestion Metric Value: 24 bits.
pub const METRIC_VALUE_MAX: u32 = 0xff_ffff;
/// Metric Types that have a variant of their own.
const ASSIGNED: u8 = 4;

/// A measurement of the node that sends the CNP; informational. A kilobyte is 1000 octets: the draft's example has a
/// queue of 130 MB as 130000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Metric {
    /// 0: without a defined meaning. [`Metric::UNDISCLOSED`] if the node does not disclose its queues.
    Unspecified(u32),
    /// 1: queue depth in kilobytes.
    QueueDepth(u32),
    /// 2: queue growth rate in kilobytes per millisecond.
    QueueGrowthRate(u32),
    /// 3: ECN marking rate in percent (0..=100).
    EcnMarkingRate(u8),
    /// 4: RTT-based metric in microseconds.
    Rtt(u32),
    /// 5..=255: unassigned, or experimental from 254 on.
    Other {
        /// Metric Type (5..=255).
        metric_type: u8,
        /// Congestion Metric Value (0..=0xffffff).
        value: u32,
    },
}

impl Metric {
    /// Metric Type and value zero: the node does not disclose the state of its queues.
    pub const UNDISCLOSED: Self = Self::Unspecified(0);

    /// `value` has 24 bits.
    pub(super) fn from_wire(metric_type: u8, value: u32) -> Self {
        match metric_type {
            0 => Self::Unspecified(value),
            1 => Self::QueueDepth(value),
            2 => Self::QueueGrowthRate(value),
            // A value of more than one octet is out of range too: `check` refuses it.
            3 => Self::EcnMarkingRate(u8::try_from(value).unwrap_or(u8::MAX)),
            4 => Self::Rtt(value),
            _ => Self::Other { metric_type, value },
        }
    }

    pub(super) fn to_wire(self) -> (u8, u32) {
        match self {
            Self::Unspecified(value) => (0, value),
            Self::QueueDepth(value) => (1, value),
            Self::QueueGrowthRate(value) => (2, value),
            Self::EcnMarkingRate(percent) => (3, u32::from(percent)),
            Self::Rtt(value) => (4, value),
            Self::Other { metric_type, value } => (metric_type, value),
        }
    }

    /// Names the field that is beyond its limits.
    pub(super) fn check(self) -> Result<(), (&'static str, Problem)> {
        let (metric_type, value) = self.to_wire();
        if matches!(self, Self::Other { .. }) && metric_type <= ASSIGNED {
            // It would be parsed as another variant.
            return Err(("Metric Type", Problem::Unsupported { found: u64::from(metric_type) }));
        }
        let max = match self {
            Self::EcnMarkingRate(_) => u32::from(PERCENT_MAX),
            _ => METRIC_VALUE_MAX,
        };
        if value <= max {
            return Ok(());
        }
        let problem = Problem::OutOfRange { min: 0, max: u64::from(max), found: u64::from(value) };
        Err(("Congestion Metric Value", problem))
    }
}
