// SPDX-License-Identifier: Apache-2.0
//! Typed conditions: a status that programs can test and people can read.

use serde::{Deserialize, Serialize};

/// One aspect of a resource's status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Which aspect, for example `Programmed`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// One CamelCase word for programs.
    pub reason: String,
    /// A sentence for people.
    pub message: String,
}

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not.
    False,
    /// Nobody can tell yet.
    Unknown,
}

impl Condition {
    /// A condition that holds, or does not.
    pub(crate) fn new(kind: &str, holds: bool, reason: &str, message: impl Into<String>) -> Self {
        let status = if holds { ConditionStatus::True } else { ConditionStatus::False };
        Self { kind: kind.to_owned(), status, reason: reason.to_owned(), message: message.into() }
    }

    /// True when it holds.
    pub(crate) fn holds(&self) -> bool {
        self.status == ConditionStatus::True
    }

    /// A condition that nobody can tell yet.
    pub(crate) fn unknown(kind: &str, reason: &str, message: impl Into<String>) -> Self {
        Self {
            kind: kind.to_owned(),
            status: ConditionStatus::Unknown,
            reason: reason.to_owned(),
            message: message.into(),
        }
    }
}
