// SPDX-License-Identifier: Apache-2.0
//! The instruction and the metric in a Long-haul CNP: the fields of draft-tian-ccwg-long-haul-cnp-00 section 6.1; their
//! encoding is in `canopy-packet`.

/// A percentage, 0..=100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percent(u8);

impl Percent {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// Everything.
    pub const HUNDRED: Self = Self(100);

    /// `None` above 100.
    pub const fn new(value: u8) -> Option<Self> {
        if value <= 100 { Some(Self(value)) } else { None }
    }

    /// The largest percentage that is not above `value`.
    pub const fn saturating(value: u64) -> Self {
        if value < 100 { Self(value as u8) } else { Self(100) }
    }

    /// The number itself.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// This share of `whole`, rounded down.
    pub const fn of(self, whole: u64) -> u64 {
        (whole as u128 * self.0 as u128 / 100) as u64
    }
}

/// The action that the source should apply to the QP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Congestion without a specific action: respond with the default reduction.
    Notify,
    /// Send nothing for this long.
    Pause {
        /// Duration in microseconds.
        micros: u16,
    },
    /// Lower the rate by a share of it.
    RateReduce(Percent),
    /// Congestion has subsided: the rate may rise by this share of the last reduction; zero means to the original rate.
    Resume(Percent),
}

/// A measurement of the sending node, for information. A kilobyte is 1000 octets. Values have 24 bits and saturate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Metric {
    /// Type and value zero: the node does not disclose its queues.
    Undisclosed,
    /// Queue depth in kilobytes.
    QueueDepth(u32),
    /// Queue growth rate in kilobytes per millisecond.
    QueueGrowthRate(u32),
    /// ECN marking rate in percent.
    EcnMarkingRate(Percent),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_is_at_most_100_and_its_share_exact() {
        assert_eq!((Percent::new(100), Percent::new(101)), (Some(Percent::HUNDRED), None));
        assert_eq!([0, 99, 100, u64::MAX].map(|v| Percent::saturating(v).get()), [0, 99, 100, 100]);
        assert_eq!(Percent::HUNDRED.of(u64::MAX), u64::MAX);
        assert_eq!(Percent(30).of(99), 29);
    }
}
