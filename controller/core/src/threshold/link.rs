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

use std::time::Duration;

use canopy_units::{Monotonic, Octets, Rate, nanos};

#[cfg(doc)]
use super::MAX_RTT;
use super::{PortLimits, RttFilter, ThresholdError, ThresholdSettings, Thresholds, WINDOW, check, compute, rtt_within};

/// Changes of K_max below this many thousandths are not pushed.
pub const MIN_CHANGE_PERMILLE: u64 = 50;
/// Time between two pushes at rest: 10 s.
pub const HOLD: Duration = Duration::from_secs(10);
/// The shortest round-trip time of a sample.
const LEAST_RTT: Duration = Duration::from_nanos(1);
/// A change of K_max by this factor is a step: the link is not at rest.
pub const STEP_FACTOR: u64 = 2;

/// The thresholds of one direction of one link: samples and the time in, thresholds to push out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkThresholds {
    settings: ThresholdSettings,
    port: PortLimits,
    configured: Option<Duration>,
    filter: RttFilter,
    pushed: Option<Pushed>,
    pushes: u64,
    moving: Option<Move>,
}

/// The path is changing: a push that is more recent than the filter's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Move {
    /// K_max in force before it.
    k_max: Octets,
    /// Its first push.
    since: Monotonic,
}

/// Thresholds as last pushed to the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// The thresholds.
    pub thresholds: Thresholds,
    /// RTT_est that they were computed from.
    pub rtt: Duration,
    /// Port rate that they were computed from.
    pub rate: Rate,
    /// When, on the clock of the samples.
    pub at: Monotonic,
}

impl LinkThresholds {
    /// A direction without a round-trip time, so without thresholds. Fails, naming the field, when an input is out of its
    /// range.
    pub fn new(settings: ThresholdSettings, port: PortLimits) -> Result<Self, ThresholdError> {
        check(settings, port)?;
        Ok(Self {
            settings,
            port,
            configured: None,
            filter: RttFilter::default(),
            pushed: None,
            pushes: 0,
            moving: None,
        })
    }

    /// Processes a round-trip time sample at `now` on any monotonic clock, and returns the thresholds to push. A
    /// sample of 0 or above [`MAX_RTT`] is refused.
    pub fn observe(&mut self, rtt: Duration, now: Monotonic) -> Result<Option<Thresholds>, ThresholdError> {
        rtt_within(rtt, LEAST_RTT)?;
        let measured = self.filter.observe(rtt, now);
        let rtt = self.configured.unwrap_or(measured);
        let new = compute(self.settings, self.port, rtt)?;
        let before = self.pushed.map(|old| old.thresholds.k_max);
        let due = self.pushed.is_none_or(|old| {
            let of_rtt = match change(nanos(old.rtt), nanos(rtt)) {
                // A node uses the RTT for its timing even where K_base or the buffer bounds K_max.
                Change::Step => Change::Small,
                _ => Change::None,
            };
            match change(old.thresholds.k_max.get(), new.k_max.get()).max(of_rtt) {
                Change::None => false,
                Change::Small => self.is_step(new.k_max) || now.since(old.at) >= HOLD,
                Change::Step => true,
            }
        });
        if let (true, None, Some(k_max)) = (due, self.moving, before) {
            self.moving = Some(Move { k_max, since: now });
        }
        // The first estimate without samples from before the first push still belongs to the move.
        self.moving = self.moving.filter(|m| now.since(m.since) < WINDOW);
        Ok(due.then(|| self.push(new, rtt, now)))
    }

    /// Applies other settings, another port, or another configured round-trip time (1..=[`MAX_RTT`]; `None` uses the
    /// samples), and returns the thresholds to push if they change. Fails, and changes nothing, when an input is out of
    /// its range.
    pub fn configure(
        &mut self,
        settings: ThresholdSettings,
        port: PortLimits,
        configured: Option<Duration>,
        now: Monotonic,
    ) -> Result<Option<Thresholds>, ThresholdError> {
        check(settings, port)?;
        rtt_within(configured.unwrap_or(LEAST_RTT), LEAST_RTT)?;
        let same = (settings, port, configured) == (self.settings, self.port, self.configured);
        let rtt = configured.or(self.filter.estimate());
        let new = rtt.map(|rtt| Ok((compute(settings, port, rtt)?, rtt))).transpose()?;
        (self.settings, self.port, self.configured) = (settings, port, configured);
        self.moving = None;
        let before = self.pushed.map(|old| (old.thresholds, old.rtt, old.rate));
        let new = new.filter(|(new, rtt)| !same && before != Some((*new, *rtt, port.rate)));
        Ok(new.map(|(new, rtt)| self.push(new, rtt, now)))
    }

    /// The last pushed thresholds.
    pub fn pushed(&self) -> Option<Pushed> {
        self.pushed
    }

    /// Number of pushed changes.
    pub fn pushes(&self) -> u64 {
        self.pushes
    }

    /// The smallest sample of the last 2.4 s; `None` before the first.
    pub fn measured(&self) -> Option<Duration> {
        self.filter.estimate()
    }

    /// RTT_est: the configured value, else the measured one; `None` if neither is known.
    pub fn estimate(&self) -> Option<Duration> {
        self.configured.or(self.measured())
    }

    /// True if the path is changing, and by this K_max twofold or more in all.
    fn is_step(&self, k_max: Octets) -> bool {
        self.moving.is_some_and(|m| change(m.k_max.get(), k_max.get()) == Change::Step)
    }

    fn push(&mut self, thresholds: Thresholds, rtt: Duration, at: Monotonic) -> Thresholds {
        self.pushed = Some(Pushed { thresholds, rtt, rate: self.port.rate, at });
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
