// SPDX-License-Identifier: Apache-2.0
//! When new thresholds are worth pushing to a node.
//!
//! Two things are wanted that pull apart: a real change of the path is followed within 5 s, and a link at rest is left
//! alone, at most one change in 10 s whatever its samples do. A link is at rest while K_max moves by less than the factor
//! [`STEP_FACTOR`]. So
//!
//! - less than 5 % from what was pushed: never pushed;
//! - less than twofold: pushed when the last push is 10 s ago;
//! - twofold or more, up or down: pushed at once, which the filter's window makes 4 s after a rise;
//! - new settings or another port: pushed at once, it is no matter of samples.

use serde::{Deserialize, Serialize};

use super::{MAX_RTT_NS, PortLimits, RttFilter, ThresholdError, ThresholdSettings, Thresholds, check, compute};

/// Changes of K_max below this many thousandths are not pushed.
pub const MIN_CHANGE_PERMILLE: u64 = 50;
/// Time between two pushes at rest: 10 s.
pub const HOLD_NS: u64 = 10_000_000_000;
/// A change of K_max by this factor is a step: the link is not at rest.
pub const STEP_FACTOR: u64 = 2;

/// The thresholds of one direction of one link: samples and the time come in, what is to be pushed goes out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkThresholds {
    settings: ThresholdSettings,
    port: PortLimits,
    filter: RttFilter,
    pushed: Option<(Thresholds, u64)>,
}

/// One direction of one link as people see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThresholdView {
    /// Device and port that send in this direction, as in the topology.
    pub from: String,
    /// Device and port at the other end.
    pub to: String,
    /// What was set.
    pub settings: ThresholdSettings,
    /// The sending port.
    pub port: PortLimits,
    /// The filtered round-trip time in nanoseconds; `None` before the first sample.
    pub rtt_ns: Option<u64>,
    /// What the node was told; `None` before the first sample.
    pub thresholds: Option<Thresholds>,
}

impl LinkThresholds {
    /// A direction without samples, so without thresholds. Fails, naming the field, when an input is out of its range.
    pub fn new(settings: ThresholdSettings, port: PortLimits) -> Result<Self, ThresholdError> {
        check(settings, port)?;
        Ok(Self { settings, port, filter: RttFilter::default(), pushed: None })
    }

    /// Takes in a sample of the round-trip time at `now_ns` on any steady clock, and returns what is to be pushed. A sample
    /// of 0 or above [`MAX_RTT_NS`] measures nothing and is refused.
    pub fn observe(&mut self, rtt_ns: u64, now_ns: u64) -> Result<Option<Thresholds>, ThresholdError> {
        super::within("rttNs", rtt_ns, 1, MAX_RTT_NS)?;
        let estimate = self.filter.observe(rtt_ns, now_ns);
        let new = compute(self.settings, self.port, estimate)?;
        let due = self.pushed.is_none_or(|(old, at)| match change(old.k_max_bytes, new.k_max_bytes) {
            Change::None => false,
            Change::Small => now_ns.saturating_sub(at) >= HOLD_NS,
            Change::Step => true,
        });
        Ok(due.then(|| self.push(new, now_ns)))
    }

    /// Takes in other settings or another port, and returns what is to be pushed if that changes anything. Fails, and
    /// changes nothing, when an input is out of its range.
    pub fn configure(
        &mut self,
        settings: ThresholdSettings,
        port: PortLimits,
        now_ns: u64,
    ) -> Result<Option<Thresholds>, ThresholdError> {
        check(settings, port)?;
        let new = self.filter.estimate_ns().map(|rtt_ns| compute(settings, port, rtt_ns)).transpose()?;
        let same = (settings, port) == (self.settings, self.port);
        (self.settings, self.port) = (settings, port);
        let old = self.pushed.map(|(old, _)| old);
        Ok(new.filter(|new| !same && old != Some(*new)).map(|new| self.push(new, now_ns)))
    }

    /// What was pushed last.
    pub fn pushed(&self) -> Option<Thresholds> {
        self.pushed.map(|(thresholds, _)| thresholds)
    }

    /// The direction as people see it, from and to the named ports.
    pub fn view(&self, from: String, to: String) -> ThresholdView {
        let (settings, port, thresholds) = (self.settings, self.port, self.pushed());
        ThresholdView { from, to, settings, port, rtt_ns: self.filter.estimate_ns(), thresholds }
    }

    fn push(&mut self, new: Thresholds, now_ns: u64) -> Thresholds {
        self.pushed = Some((new, now_ns));
        new
    }
}

enum Change {
    None,
    Small,
    Step,
}

fn change(old: u64, new: u64) -> Change {
    let (low, high) = (u128::from(old.min(new)), u128::from(old.max(new)));
    if (high - low) * 1_000 < u128::from(old) * u128::from(MIN_CHANGE_PERMILLE) || high == low {
        Change::None
    } else if high < low * u128::from(STEP_FACTOR) {
        Change::Small
    } else {
        Change::Step
    }
}
