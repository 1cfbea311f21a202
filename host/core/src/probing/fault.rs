// SPDX-License-Identifier: Apache-2.0
//! When a way has a fault, and when it has none any more.
//!
//! Two detectors, on the same probes:
//! - **black hole**: [`IN_A_ROW`] losses in a row;
//! - **loss**: Page's test (cumulative sum of log-likelihood ratios, not below zero) of a loss of 5 % against one of 0.1 %. Its bound is 13.8:
//!   with a loss of 0.1 % the mean time between two alarms is at least e^13.8, 10^6 probes. 5 % are found after 98 probes in the mean, in
//!   99 of 100 cases within 300; 1 % after some 2,500.
//!
//! A black hole is one only until a probe comes back: then it is a loss, until 20 in a row are lost again. A way comes back when as many probes in a row as show that it loses
//! less than 5 % have come back: Wald's test with a chance of 1 % for each such row to take 5 % for none, which are 92. A loss begins it anew.

use std::time::Duration;

use canopy_units::Monotonic;

/// Losses in a row that are a black hole.
pub(super) const IN_A_ROW: u32 = 3;
/// The same for a way that loses some already: it does not go to and fro between the two.
const IN_A_ROW_AFTER_LOSS: u32 = 20;
/// Loss of a way without a fault, and of one with one.
const GOOD: f64 = 0.001;
const BAD: f64 = 0.05;
/// ln(10^6).
const ALARM: f64 = 13.816;
/// ln(100).
const PROOF: f64 = 4.605;
/// A way without a fault for so long has had no relapse.
const STEADY: Duration = Duration::from_secs(60);

/// What is wrong with a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// It loses some packets.
    Loss,
    /// It passes none.
    BlackHole,
}

/// The judgement about one way.
#[derive(Clone, Debug)]
pub(super) struct Health {
    in_a_row: u32,
    /// Evidence of a fault, or with a fault evidence of none.
    evidence: f64,
    fault: Option<Fault>,
    /// Since the fault, or since there is none.
    pub(super) since: Option<Monotonic>,
    relapses: u32,
}

/// The fault has changed to this.
pub(super) type Change = Option<Fault>;

impl Health {
    pub(super) fn new() -> Self {
        Self { in_a_row: 0, evidence: 0.0, fault: None, since: None, relapses: 0 }
    }

    pub(super) fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// Faults before the present one, each less than [`STEADY`] after the one before it.
    pub(super) fn relapses(&self) -> u32 {
        self.relapses
    }

    /// One more loss makes a black hole of a way without a fault.
    pub(super) fn is_one_from_black_hole(&self) -> bool {
        self.fault.is_none() && self.in_a_row + 1 == IN_A_ROW
    }

    /// A probe has come back.
    pub(super) fn answered(&mut self, now: Monotonic) -> Option<Change> {
        self.in_a_row = 0;
        let for_good = ((1.0 - GOOD) / (1.0 - BAD)).ln();
        match self.fault {
            None => {
                self.evidence = (self.evidence - for_good).max(0.0);
                None
            }
            Some(before) => {
                self.evidence += for_good;
                let is_hole = before == Fault::BlackHole;
                if is_hole {
                    self.fault = Some(Fault::Loss);
                }
                if self.evidence >= PROOF { Some(self.set(None, now)) } else { is_hole.then_some(self.fault) }
            }
        }
    }

    /// A probe is lost.
    pub(super) fn lost(&mut self, now: Monotonic) -> Option<Change> {
        self.in_a_row = self.in_a_row.saturating_add(1);
        let is_black_hole = self.in_a_row >= IN_A_ROW;
        match self.fault {
            None => {
                self.evidence += (BAD / GOOD).ln();
                let found = if is_black_hole { Some(Fault::BlackHole) } else { Some(Fault::Loss) };
                (is_black_hole || self.evidence >= ALARM).then(|| self.set(found, now))
            }
            Some(before) => {
                self.evidence = 0.0;
                (self.in_a_row >= IN_A_ROW_AFTER_LOSS && before == Fault::Loss).then(|| {
                    self.fault = Some(Fault::BlackHole);
                    self.fault
                })
            }
        }
    }

    /// A probe that was taken for lost has come back: what stood on it falls.
    pub(super) fn late(&mut self, now: Monotonic) -> Option<Change> {
        self.in_a_row = 0;
        match self.fault {
            // It was slow for some time, and no black hole.
            Some(Fault::BlackHole) => {
                let relapses = self.relapses;
                let change = self.set(None, now);
                self.relapses = relapses;
                Some(change)
            }
            Some(Fault::Loss) => None,
            None => {
                self.evidence = (self.evidence - (BAD / GOOD).ln()).max(0.0);
                None
            }
        }
    }

    fn set(&mut self, fault: Option<Fault>, now: Monotonic) -> Change {
        if fault.is_some() {
            let was_steady = self.since.is_none_or(|since| now.since(since) >= STEADY);
            self.relapses = if was_steady { 0 } else { self.relapses.saturating_add(1) };
        }
        (self.fault, self.evidence, self.since) = (fault, 0.0, Some(now));
        fault
    }
}
