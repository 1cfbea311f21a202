// SPDX-License-Identifier: Apache-2.0
//! Typed conditions: machine-readable status with a message for people.

use canopy_controller_core::condition;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One aspect of a resource's status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Which aspect, for example `Programmed`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether the condition is met.
    pub status: ConditionStatus,
    /// CamelCase reason code.
    pub reason: String,
    /// Text for operators.
    pub message: String,
}

from_fields!(condition::Condition { kind, reason, message } { status = status.into() });

/// Whether a condition is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum ConditionStatus {
    /// The condition is met.
    True,
    /// The condition is not met.
    False,
    /// Not known yet.
    Unknown,
}

impl From<condition::ConditionStatus> for ConditionStatus {
    fn from(status: condition::ConditionStatus) -> Self {
        match status {
            condition::ConditionStatus::True => Self::True,
            condition::ConditionStatus::False => Self::False,
            condition::ConditionStatus::Unknown => Self::Unknown,
        }
    }
}

pub(crate) fn conditions(all: Vec<condition::Condition>) -> Vec<Condition> {
    all.into_iter().map(Into::into).collect()
}
