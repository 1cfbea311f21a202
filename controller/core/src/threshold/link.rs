// SPDX-License-Identifier: Apache-2.0
//! When new thresholds are pushed to a node.
//!
//! Two goals conflict: a real change of the path must be followed within 5 s, and a link at rest gets at most one
//! change in 10 s, whatever its samples are. A link is at rest while K_max changes by less than the factor
//! [`STEP_FACTOR`]. Therefore:
//!
//! - less than 5 % from what was pushed: never pushed;
//! - less than twofold: pushed when the last push is 10 s ago;
//! - twofold or more, up or down: pushed at once, which the filter's window makes 2.4 s after a rise; compared with what was
//!   pushed last, and with what was in force before a push of the last 2.4 s: a sample that is part of a step (a packet that
//!   was on its way when the path changed) would else be pushed as the step, and the rest of the step held back;
//! - RTT_est changed twofold or more but K_max did not, because K_base or the buffer bounds it: pushed when the last
//!   push is 10 s ago;
//! - new settings, another port or another configured RTT: pushed at once, independent of samples.

use super::{
    MAX_RTT_NS, PortLimits, RttFilter, ThresholdError, ThresholdSettings, Thresholds, WINDOW_NS, check, compute,
};

/// Changes of K_max below this many thousandths are not pushed.
pub const MIN_CHANGE_PERMILLE: u64 = 50;
/// Time between two pushes at rest: 10 s.
pub const HOLD_NS: u64 = 10_000_000_000;
/// A change of K_max by this factor is a step: the link is not at rest.
pub const STEP_FACTOR: u64 = 2;

/// The thresholds of one direction of one link: samples and the time in, thresholds to push out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkThresholds {
    settings: ThresholdSettings,
    port: PortLimits,
    configured_ns: Option<u64>,
    filter: RttFilter,
    pushed: Option<Pushed>,
    pushes: u64,
    moving: Option<Move>,
}

/// The path is changing: a push that is more recent than the filter's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Move {
    /// K_max in force before it.
    k_max_bytes: u64,
    /// Its first push, nanoseconds.
    since_ns: u64,
}

/// Thresholds as last pushed to the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// The thresholds.
    pub thresholds: Thresholds,
    /// RTT_est that they were computed from, nanoseconds.
    pub rtt_ns: u64,
    /// Port rate that they were computed from, bits per second.
    pub rate_bps: u64,
    /// When, on the clock of the samples, nanoseconds.
    pub at_ns: u64,
}

impl LinkThresholds {
    /// A direction without a round-trip time, so without thresholds. Fails, naming the field, when an input is out of its
    /// range.
    pub fn new(settings: ThresholdSettings, port: PortLimits) -> Result<Self, ThresholdError> {
        check(settings, port)?;
        Ok(Self {
            settings,
            port,
            configured_ns: None,
            filter: RttFilter::default(),
            pushed: None,
            pushes: 0,
            moving: None,
        })
    }

    /// Processes a round-trip time sample at `now_ns` on any monotonic clock, and returns the thresholds to push. A
    /// sample of 0 or above [`MAX_RTT_NS`] is refused.
    pub fn observe(&mut self, rtt_ns: u64, now_ns: u64) -> Result<Option<Thresholds>, ThresholdError> {
        super::within("rttNs", rtt_ns, 1, MAX_RTT_NS)?;
        let measured = self.filter.observe(rtt_ns, now_ns);
        let rtt_ns = self.configured_ns.unwrap_or(measured);
        let new = compute(self.settings, self.port, rtt_ns)?;
        let before = self.pushed.map(|old| old.thresholds.k_max_bytes);
        let due = self.pushed.is_none_or(|old| {
            let of_rtt = match change(old.rtt_ns, rtt_ns) {
                // A node uses the RTT for its timing even where K_base or the buffer bounds K_max.
                Change::Step => Change::Small,
                _ => Change::None,
            };
            match change(old.thresholds.k_max_bytes, new.k_max_bytes).max(of_rtt) {
                Change::None => false,
                Change::Small => self.is_step(new.k_max_bytes) || now_ns.saturating_sub(old.at_ns) >= HOLD_NS,
                Change::Step => true,
            }
        });
        if let (true, None, Some(k_max_bytes)) = (due, self.moving, before) {
            self.moving = Some(Move { k_max_bytes, since_ns: now_ns });
        }
        // The first estimate without samples from before the first push still belongs to the move.
        self.moving = self.moving.filter(|m| now_ns.saturating_sub(m.since_ns) < WINDOW_NS);
        Ok(due.then(|| self.push(new, rtt_ns, now_ns)))
    }

    /// Applies other settings, another port, or another configured round-trip time (1..=[`MAX_RTT_NS`]; `None` uses the
    /// samples), and returns the thresholds to push if they change. Fails, and changes nothing, when an input is out of
    /// its range.
    pub fn configure(
        &mut self,
        settings: ThresholdSettings,
        port: PortLimits,
        configured_ns: Option<u64>,
        now_ns: u64,
    ) -> Result<Option<Thresholds>, ThresholdError> {
        check(settings, port)?;
        super::within("rttNs", configured_ns.unwrap_or(1), 1, MAX_RTT_NS)?;
        let same = (settings, port, configured_ns) == (self.settings, self.port, self.configured_ns);
        let rtt_ns = configured_ns.or(self.filter.estimate_ns());
        let new = rtt_ns.map(|rtt_ns| Ok((compute(settings, port, rtt_ns)?, rtt_ns))).transpose()?;
        (self.settings, self.port, self.configured_ns) = (settings, port, configured_ns);
        self.moving = None;
        let before = self.pushed.map(|old| (old.thresholds, old.rtt_ns, old.rate_bps));
        let new = new.filter(|(new, rtt_ns)| !same && before != Some((*new, *rtt_ns, port.rate_bps)));
        Ok(new.map(|(new, rtt_ns)| self.push(new, rtt_ns, now_ns)))
    }

    /// The last pushed thresholds.
    pub fn pushed(&self) -> Option<Pushed> {
        self.pushed
    }

    /// Number of pushed changes.
    pub fn pushes(&self) -> u64 {
        self.pushes
    }

    /// The smallest sample of the last 2.4 s, nanoseconds; `None` before the first.
    pub fn measured_ns(&self) -> Option<u64> {
        self.filter.estimate_ns()
    }

    /// RTT_est in nanoseconds: the configured value, else the measured one; `None` if neither is known.
    pub fn estimate_ns(&self) -> Option<u64> {
        self.configured_ns.or(self.measured_ns())
    }

    /// True if the path is changing, and by this K_max twofold or more in all.
    fn is_step(&self, k_max_bytes: u64) -> bool {
        self.moving.is_some_and(|m| change(m.k_max_bytes, k_max_bytes) == Change::Step)
    }

    fn push(&mut self, thresholds: Thresholds, rtt_ns: u64, at_ns: u64) -> Thresholds {
        self.pushed = Some(Pushed { thresholds, rtt_ns, rate_bps: self.port.rate_bps, at_ns });
        self.pushes += 1;
        thresholds
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
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
