// SPDX-License-Identifier: Apache-2.0
//! Action Flags and Parameter, which have one meaning together: section 6.1.

use crate::error::Problem;

/// Largest percentage in Parameter and in an ECN Marking Rate.
pub const PERCENT_MAX: u8 = 100;

/// Requested reaction of the source's QP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// 00: congestion; respond as to any notification. Parameter is zero.
    Notify,
    /// 01: pause transmission for this long.
    Pause {
        /// Duration in microseconds.
        micros: u16,
    },
    /// 10: reduce the rate by a percentage.
    RateReduce {
        /// Percent (0..=100) of the present rate.
        percent: u8,
    },
    /// 11: congestion has subsided, the rate may rise.
    Resume {
        /// Percent (0..=100) of the earlier reduction; 0 means all of it, unconditionally.
        percent: u8,
    },
}

impl Action {
    /// From the octet of Action Flags, whose lower six bits are ignored, and Parameter.
    pub(super) fn from_wire(flags: u8, parameter: u16) -> Result<Self, Problem> {
        let at_most = |max: u8| {
            let problem = Problem::OutOfRange { min: 0, max: u64::from(max), found: u64::from(parameter) };
            u8::try_from(parameter).ok().filter(|value| *value <= max).ok_or(problem)
        };
        Ok(match flags >> 6 {
            0 => {
                at_most(0)?;
                Self::Notify
            }
            1 => Self::Pause { micros: parameter },
            2 => Self::RateReduce { percent: at_most(PERCENT_MAX)? },
            _ => Self::Resume { percent: at_most(PERCENT_MAX)? },
        })
    }

    /// The octet of Action Flags, and Parameter.
    pub(super) fn to_wire(self) -> Result<(u8, u16), Problem> {
        let percent = |value: u8| {
            let (max, found) = (u64::from(PERCENT_MAX), u64::from(value));
            if value <= PERCENT_MAX { Ok(u16::from(value)) } else { Err(Problem::OutOfRange { min: 0, max, found }) }
        };
        Ok(match self {
            Self::Notify => (0, 0),
            Self::Pause { micros } => (1 << 6, micros),
            Self::RateReduce { percent: value } => (2 << 6, percent(value)?),
            Self::Resume { percent: value } => (3 << 6, percent(value)?),
        })
    }
}
