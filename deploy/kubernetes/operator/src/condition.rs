// SPDX-License-Identifier: Apache-2.0
//! Conditions of a status, as Kubernetes has them: with the instant at which each changed last.

use canopy_controller_api::condition::{Condition as Canopys, ConditionStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Whether the controller has what the resource declares.
pub const RECONCILED: &str = "Reconciled";

/// A condition as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Now {
    /// Which aspect.
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: &'static str,
    /// Why, in one word.
    pub reason: String,
    /// Why, for people.
    pub message: String,
}

impl Now {
    /// [`RECONCILED`].
    pub fn reconciled(status: &'static str, reason: &str, message: impl Into<String>) -> Self {
        Self { kind: RECONCILED.into(), status, reason: reason.into(), message: message.into() }
    }
}

impl From<&Canopys> for Now {
    fn from(of: &Canopys) -> Self {
        let status = match of.status {
            ConditionStatus::True => "True",
            ConditionStatus::False => "False",
            ConditionStatus::Unknown => "Unknown",
        };
        // The variants' names are the API's.
        let (kind, reason) = (format!("{:?}", of.kind), format!("{:?}", of.reason));
        Self { kind, status, reason, message: of.message.clone() }
    }
}

/// The conditions with their instants: one whose status is the one before keeps its own.
pub fn settle(before: &[Condition], now: Vec<Now>, generation: Option<i64>, at: &Time) -> Vec<Condition> {
    let one = |Now { kind, status, reason, message }| {
        let kept = before.iter().find(|old| old.type_ == kind && old.status == status);
        Condition {
            last_transition_time: kept.map_or_else(|| at.clone(), |old| old.last_transition_time.clone()),
            message,
            observed_generation: generation,
            reason,
            status: status.to_owned(),
            type_: kind,
        }
    };
    now.into_iter().map(one).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_condition_has_the_instant_at_which_its_status_changed() {
        let at = |text: &str| Time(text.parse().unwrap());
        let (first, later) = (at("2026-01-01T00:00:00Z"), at("2026-01-02T00:00:00Z"));
        let before = settle(&[], vec![Now::reconciled("False", "Invalid", "a")], Some(1), &first);
        let same = settle(&before, vec![Now::reconciled("False", "Conflict", "b")], Some(2), &later);
        assert_eq!((&same[0].last_transition_time, same[0].reason.as_str()), (&first, "Conflict"));
        assert_eq!(same[0].observed_generation, Some(2));
        let other = settle(&same, vec![Now::reconciled("True", "Declared", "")], Some(2), &later);
        assert_eq!(other[0].last_transition_time, later);
    }
}
