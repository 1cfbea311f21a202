// SPDX-License-Identifier: Apache-2.0
//! When new thresholds are pushed to a node.
//!
//! Two goals conflict: a real change of the path must be followed within 5 s, and a link at rest gets no change at all, whatever
//! its samples are. A sample is the path's own time and what delayed the packet; so a smaller sample is always news, and a larger one is
//! news only if it is a step that no delay in a node explains, or if no smaller one came for long. Therefore, compared with what was pushed
//! last:
//!
//! - K_max less than 5 % from it: never pushed;
//! - less than twofold: by the settled estimate, the smallest sample of the last 10 min. A fall is pushed when the last push is 10 s
//!   ago; a rise when samples have come for 10 min too;
//! - twofold or more, by the newest estimate, the smallest sample of the last 2.4 s: pushed at once, a rise only if it is 1 ms or more of
//!   the round-trip time. It is compared also with what was in force before a push of the last 2.4 s: a sample that is part of a step (a
//!   packet that was on its way when the path changed) would else be pushed as the step, and the rest of the step held back;
//! - RTT_est changed like that but K_max did not, because the buffer bounds it: pushed when the last push is 10 s ago. Where K_base
//!   bounds it, the time in which K_base is sent stands for RTT_est, and nothing is pushed;
//! - new settings, another port or another configured RTT: pushed at once, independent of samples, with the RTT in force.

use std::time::Duration;

use canopy_model::node_spec::PortThresholds;
use canopy_units::{Monotonic, Octets, Rate, nanos};

#[cfg(doc)]
use super::MAX_RTT;
use super::{
    PortLimits, RttFilter, ThresholdError, ThresholdSettings, Thresholds, WINDOW, check, compute, drain_time,
    rtt_within,
};

/// Changes of K_max below this many thousandths are not pushed.
pub const MIN_CHANGE_PERMILLE: u64 = 50;
/// Time between two pushes at rest: 10 s.
pub const HOLD: Duration = Duration::from_secs(10);
/// The shortest round-trip time of a sample.
const LEAST_RTT: Duration = Duration::from_nanos(1);
/// A change of K_max by this factor is a step: the link is not at rest.
pub const STEP_FACTOR: u64 = 2;
/// A rise of the round-trip time by less is no step: a busy node may delay each test packet so long.
pub const MIN_STEP: Duration = Duration::from_millis(1);

/// The thresholds of one direction of one link: samples and the time in, thresholds to push out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkThresholds {
    settings: ThresholdSettings,
    port: PortLimits,
    source: RttSource,
    newest: RttFilter,
    settled: RttFilter,
    /// The measured round-trip time that the pushed thresholds were computed from.
    in_force: Option<Duration>,
    pushed: Option<Pushed>,
    pushes: u64,
    moving: Option<Move>,
}

/// Source of a link direction's round-trip time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RttSource {
    /// The samples.
    Measured,
    /// The topology, 1..=[`MAX_RTT`].
    Configured(Duration),
    /// None: the far end does not answer. K_max is K_base, and the time in which that is sent stands for RTT_est.
    Unknown,
}

impl RttSource {
    /// The configured round-trip time.
    pub fn configured(self) -> Option<Duration> {
        match self {
            Self::Configured(rtt) => Some(rtt),
            Self::Measured | Self::Unknown => None,
        }
    }
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
    /// RTT_est that they were computed from; without one, the time in which K_max is sent.
    pub rtt: Duration,
    /// Port rate that they were computed from.
    pub rate: Rate,
    /// V_ecn in packets per thousand.
    pub v_ecn_permille: u16,
    /// V_growth in octets per millisecond, as configured or computed.
    pub v_growth_per_ms: Octets,
    /// When, on the clock of the samples.
    pub at: Monotonic,
}

impl LinkThresholds {
    /// A direction without a sample, so without thresholds, unless `in_force` is a measured round-trip time of an earlier controller
    /// (1..=[`MAX_RTT`]): its thresholds count as pushed at `now`. Fails, naming the field, when an input is out of its range.
    pub fn new(
        settings: ThresholdSettings,
        port: PortLimits,
        in_force: Option<Duration>,
        now: Monotonic,
    ) -> Result<Self, ThresholdError> {
        check(settings, port)?;
        rtt_within(in_force.unwrap_or(LEAST_RTT), LEAST_RTT)?;
        let mut new = Self {
            settings,
            port,
            source: RttSource::Measured,
            newest: RttFilter::default(),
            settled: RttFilter::settled(),
            in_force,
            pushed: None,
            pushes: 0,
            moving: None,
        };
        if let Some(rtt) = in_force {
            let thresholds = compute(settings, port, rtt)?;
            new.pushed = Some(new.with(thresholds, rtt, now));
        }
        Ok(new)
    }

    /// Processes a round-trip time sample at `now` on any monotonic clock, and returns the thresholds to push. A
    /// sample of 0 or above [`MAX_RTT`] is refused.
    pub fn observe(&mut self, rtt: Duration, now: Monotonic) -> Result<Option<Thresholds>, ThresholdError> {
        rtt_within(rtt, LEAST_RTT)?;
        let newest = self.newest.observe(rtt, now);
        let settled = self.settled.observe(rtt, now);
        if self.source != RttSource::Measured {
            return Ok(None);
        }
        let before = self.pushed.map(|old| old.thresholds.k_max);
        let due = match self.pushed {
            None => Some(newest),
            Some(old) => self.due(old, newest, settled, now)?,
        };
        if let (Some(_), None, Some(k_max)) = (due, self.moving, before) {
            self.moving = Some(Move { k_max, since: now });
        }
        // The first estimate without samples from before the first push still belongs to the move.
        self.moving = self.moving.filter(|m| now.since(m.since) < WINDOW);
        due.map(|rtt| self.take(rtt, now)).transpose()
    }

    /// The round-trip time to push, if one is due.
    fn due(
        &self,
        old: Pushed,
        newest: Duration,
        settled: Duration,
        now: Monotonic,
    ) -> Result<Option<Duration>, ThresholdError> {
        let new = compute(self.settings, self.port, newest)?;
        let held = now.since(old.at) < HOLD;
        let is_news = newest < old.rtt || newest - old.rtt >= MIN_STEP;
        let of_k_max = change(old.thresholds.k_max.get(), new.k_max.get());
        let is_step = of_k_max == Change::Step || of_k_max == Change::Small && self.is_step(new.k_max);
        if is_news && is_step {
            return Ok(Some(newest));
        }
        // A node uses the RTT for its timing even where the buffer bounds K_max.
        let timing = |rtt: Duration| nanos(rtt.max(drain_time(old.thresholds.k_max, self.port.rate)));
        if is_news && !held && change(timing(old.rtt), timing(newest)) == Change::Step {
            return Ok(Some(newest));
        }
        let new = compute(self.settings, self.port, settled)?;
        let is_known = settled < old.rtt || self.settled.is_full();
        let is_due = is_known && !held && change(old.thresholds.k_max.get(), new.k_max.get()) != Change::None;
        Ok(is_due.then_some(settled))
    }

    /// Pushes the thresholds of a measured round-trip time.
    fn take(&mut self, rtt: Duration, now: Monotonic) -> Result<Thresholds, ThresholdError> {
        let new = compute(self.settings, self.port, rtt)?;
        if self.in_force.is_some_and(|old| rtt > old) && self.settled.estimate().is_some_and(|least| least < rtt) {
            // Samples of the former path are no measure of this one.
            self.settled = RttFilter::settled();
            self.settled.observe(rtt, now);
        }
        self.in_force = Some(rtt);
        Ok(self.push(new, rtt, now))
    }

    /// Applies other settings, another port, or another source of the round-trip time, and returns the thresholds to push if they change.
    /// Fails, and changes nothing, when an input is out of its range.
    pub fn configure(
        &mut self,
        settings: ThresholdSettings,
        port: PortLimits,
        source: RttSource,
        now: Monotonic,
    ) -> Result<Option<Thresholds>, ThresholdError> {
        check(settings, port)?;
        rtt_within(source.configured().unwrap_or(LEAST_RTT), LEAST_RTT)?;
        let in_force = match source {
            RttSource::Measured => self.in_force.or(self.newest.estimate()),
            RttSource::Configured(_) | RttSource::Unknown => None,
        };
        let new = match source {
            RttSource::Measured => in_force.map(|rtt| Ok((compute(settings, port, rtt)?, rtt))).transpose()?,
            RttSource::Configured(rtt) => Some((compute(settings, port, rtt)?, rtt)),
            RttSource::Unknown => {
                let new = compute(settings, port, Duration::ZERO)?;
                Some((new, drain_time(new.k_max, port.rate)))
            }
        };
        (self.settings, self.port, self.source, self.in_force) = (settings, port, source, in_force);
        self.moving = None;
        let Some((new, rtt)) = new else {
            self.pushed = None;
            return Ok(None);
        };
        let is_same = self.pushed.is_some_and(|old| old == Pushed { at: old.at, ..self.with(new, rtt, now) });
        Ok((!is_same).then(|| self.push(new, rtt, now)))
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
        self.newest.estimate()
    }

    /// The measured round-trip time that the pushed thresholds were computed from; `None` where they were not computed from one.
    pub fn in_force(&self) -> Option<Duration> {
        self.in_force
    }

    /// RTT_est: the configured value, else the measured one, before the first sample that of an earlier controller; `None` if none is
    /// known.
    pub fn estimate(&self) -> Option<Duration> {
        self.source.configured().or(self.measured()).or(self.in_force)
    }

    /// True if the path is changing, and by this K_max twofold or more in all.
    fn is_step(&self, k_max: Octets) -> bool {
        self.moving.is_some_and(|m| change(m.k_max.get(), k_max.get()) == Change::Step)
    }

    fn push(&mut self, thresholds: Thresholds, rtt: Duration, at: Monotonic) -> Thresholds {
        self.pushed = Some(self.with(thresholds, rtt, at));
        self.pushes += 1;
        thresholds
    }

    /// What a node gets with these thresholds.
    fn with(&self, thresholds: Thresholds, rtt: Duration, at: Monotonic) -> Pushed {
        let computed = || PortThresholds::default_v_growth(thresholds.k_min, thresholds.k_max, rtt);
        let ThresholdSettings { v_ecn_permille, v_growth, .. } = self.settings;
        let v_growth_per_ms = v_growth.unwrap_or_else(computed);
        Pushed { thresholds, rtt, rate: self.port.rate, v_ecn_permille, v_growth_per_ms, at }
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
