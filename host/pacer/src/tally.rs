// SPDX-License-Identifier: Apache-2.0
//! Counters of inputs and outcomes, by name. The names are a closed set.

use std::collections::BTreeMap;

use canopy_control::pb;
use canopy_host_core::pacing::{Outcome, Refusal};

/// Names of outcomes that start at zero, so that a metric exists before its first event.
const OUTCOMES: [&str; 14] = [
    "applied",
    "absorbed",
    "unknown_issuer",
    "unknown_qp",
    "too_early",
    "stale",
    "malformed",
    "checksum",
    "icrc",
    "too_long",
    "not_understood",
    "pauses",
    "kernel_errors",
    "nodes_file_errors",
];

/// Counters by name.
#[derive(Clone, Debug)]
pub struct Tally {
    received: BTreeMap<&'static str, u64>,
    outcomes: BTreeMap<&'static str, u64>,
    actions: BTreeMap<&'static str, u64>,
}

impl Default for Tally {
    fn default() -> Self {
        let received = ["icmpv6", "rocev2", "cnp"].map(|name| (name, 0)).into();
        Self { received, outcomes: OUTCOMES.map(|name| (name, 0)).into(), actions: BTreeMap::new() }
    }
}

impl Tally {
    pub(crate) fn received(&mut self, format: &'static str) {
        *self.received.entry(format).or_default() += 1;
    }

    pub(crate) fn count(&mut self, outcome: &'static str) {
        *self.outcomes.entry(outcome).or_default() += 1;
    }

    pub(crate) fn action(&mut self, name: &'static str) {
        *self.actions.entry(name).or_default() += 1;
    }

    /// Sets a counter that is maintained elsewhere.
    pub(crate) fn set(&mut self, outcome: &'static str, value: u64) {
        self.outcomes.insert(outcome, value);
    }

    /// The value of a counter; 0 for a name that was never counted.
    pub fn outcome(&self, name: &str) -> u64 {
        self.outcomes.get(name).copied().unwrap_or(0)
    }

    /// Received, outcomes, actions.
    pub(crate) fn wire(&self) -> [Vec<pb::Counter>; 3] {
        let list = |of: &BTreeMap<&'static str, u64>| {
            of.iter().map(|(name, value)| pb::Counter { name: (*name).to_owned(), value: *value }).collect()
        };
        [list(&self.received), list(&self.outcomes), list(&self.actions)]
    }
}

/// An outcome's name.
pub(crate) fn name(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Applied => "applied",
        Outcome::Absorbed => "absorbed",
        Outcome::Refused(Refusal::UnknownIssuer) => "unknown_issuer",
        Outcome::Refused(Refusal::UnknownQp) => "unknown_qp",
        Outcome::Refused(Refusal::TooEarly) => "too_early",
        Outcome::Refused(Refusal::Stale) => "stale",
        Outcome::Refused(Refusal::OutOfRange) => "out_of_range",
        Outcome::Refused(Refusal::TooMany) => "too_many",
    }
}
