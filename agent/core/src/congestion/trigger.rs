// SPDX-License-Identifier: Apache-2.0
//! The second-level triggers, the Congestion Level, and the action for it: sections 5.4 and 5.5.1.
//!
//! The draft leaves the scale of the level and the growth of the reduction open. Both are straight lines between points
//! that give exactly the numbers of its example (130 MB of 125 MB: level 180, 30 %; 30 MB: level 20):
//!
//! | of K_max | 0 | 1/2 (K_min) | 1 | 2 and more |
//! |---|---|---|---|---|
//! | Congestion Level | 0 | 42 | 177 | 255 |
//! | Rate Reduce | - | - | 28 % | 80 % |
//!
//! A marking rate or a growth rate is put on the same scale by its own threshold; the worst of the three counts. A marking
//! rate is never worse than a queue at K_max: every packet that meets a queue above K_min is marked, so even a rate of 100 %
//! only shows that the queue stayed above K_min.

use std::time::Duration;

use canopy_model::instruction::{Action, Metric, Percent};
use canopy_model::node_spec::PortThresholds;
use canopy_model::topology::DEFAULT_V_ECN_PERMILLE;
use canopy_units::{Octets, nanos};

/// Level at K_min, at K_max, and at twice K_max.
const LEVELS: [u64; 3] = [42, 177, 255];
/// The second of them.
pub(super) const AT_K_MAX: u8 = 177;

/// One reading of a port, over one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Queue depth (QD) at its end.
    pub queue: Octets,
    /// ECN marking rate (EMR): packets marked CE per thousand (0..=1000).
    pub emr_permille: u16,
    /// Queue growth rate (QGR) in octets per millisecond; 0 when the queue shrank.
    pub qgr_per_ms: Octets,
}

/// Thresholds of an egress port and the round-trip time behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// K_min, below K_max.
    pub k_min: Octets,
    /// K_max.
    pub k_max: Octets,
    /// V_ecn in packets per thousand.
    pub v_ecn_permille: u16,
    /// V_growth in octets per millisecond.
    pub v_growth_per_ms: Octets,
    /// RTT_est (at least 1 ns).
    pub rtt: Duration,
}

impl From<PortThresholds> for Limits {
    fn from(thresholds: PortThresholds) -> Self {
        let PortThresholds { k_min, k_max, rtt, v_ecn_permille, v_growth_per_ms, .. } = thresholds;
        Self { k_min, k_max, v_ecn_permille, v_growth_per_ms, rtt }
    }
}

impl Limits {
    /// Limits with the defaults of V_ecn and V_growth.
    pub fn new(k_min: Octets, k_max: Octets, rtt: Duration) -> Self {
        let v_growth_per_ms = PortThresholds::default_v_growth(k_min, k_max, rtt);
        Self { k_min, k_max, v_ecn_permille: DEFAULT_V_ECN_PERMILLE, v_growth_per_ms, rtt }
    }

    /// Compares a reading with the thresholds.
    pub fn assess(&self, reading: Reading) -> Assessment {
        let emr = (u64::from(reading.emr_permille), u64::from(self.v_ecn_permille));
        let qgr = (reading.qgr_per_ms.get(), self.v_growth_per_ms.get());
        let level = level(reading.queue.get(), self.k_min.get(), self.k_max.get())
            .max(level(emr.0, emr.1 / 2, emr.1).min(AT_K_MAX))
            .max(level(qgr.0, qgr.1 / 2, qgr.1));
        Assessment {
            reading,
            level,
            first: reading.queue > self.k_min,
            depth: reading.queue > self.k_max,
            marking: emr.0 > emr.1,
            growth: qgr.0 > qgr.1,
            twice: u128::from(reading.queue.get()) > 2 * u128::from(self.k_max.get()),
        }
    }
}

/// A reading compared with the thresholds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assessment {
    /// The reading.
    pub reading: Reading,
    /// Congestion Level: 0 is none, 255 the worst.
    pub level: u8,
    /// First level: QD > K_min, packets are to be marked.
    pub first: bool,
    /// QD > K_max.
    pub depth: bool,
    /// EMR > V_ecn.
    pub marking: bool,
    /// QGR > V_growth.
    pub growth: bool,
    /// QD > 2 K_max.
    pub twice: bool,
}

impl Assessment {
    /// Second level: send Long-haul CNPs.
    pub fn second(&self) -> bool {
        self.depth || self.marking || self.growth
    }

    /// The action for a level: Notify while the queue is not above K_min (only the marking or growth rate triggered), else
    /// Rate Reduce, stronger with the level; Pause above 2 K_max. An escalation uses the next stricter action.
    pub fn action(&self, level: u8, escalate: bool, rtt: Duration) -> Action {
        let pause = Action::Pause { micros: u16::try_from(nanos(rtt).div_ceil(1_000)).unwrap_or(u16::MAX) };
        let reduce = Action::RateReduce(Percent::saturating((u64::from(level) * 2).saturating_sub(270) / 3));
        match (self.twice, self.first, escalate) {
            (true, ..) | (false, true, true) => pause,
            (false, true, false) | (false, false, true) => reduce,
            (false, false, false) => Action::Notify,
        }
    }

    /// The metric to send: the queue depth, unless only the growth rate or the marking rate triggered.
    pub fn metric(&self) -> Metric {
        let clip = |value: u64| value.min(0xff_ffff) as u32;
        match (self.depth, self.growth, self.marking) {
            (false, true, _) => Metric::QueueGrowthRate(clip(self.reading.qgr_per_ms.get() / 1_000)),
            (false, false, true) => {
                Metric::EcnMarkingRate(Percent::saturating(u64::from(self.reading.emr_permille) / 10))
            }
            _ => Metric::QueueDepth(clip(self.reading.queue.get() / 1_000)),
        }
    }
}

/// Congestion Level of a value with the given lower and upper threshold, on the scale of the module documentation.
fn level(value: u64, lower: u64, upper: u64) -> u8 {
    let [at_lower, at_upper, most] = LEVELS;
    let line = |from: u64, width: u64, low: u64, high: u64| {
        let part = u128::from(value - from) * u128::from(high - low) / u128::from(width.max(1));
        (u128::from(low) + part).min(u128::from(most)) as u8
    };
    if value <= lower {
        line(0, lower, 0, at_lower)
    } else if value <= upper {
        line(lower, upper - lower, at_lower, at_upper)
    } else {
        line(upper, upper, at_upper, most)
    }
}
