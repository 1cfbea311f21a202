// SPDX-License-Identifier: Apache-2.0
//! Typed conditions: machine-readable status with a message for people.

/// One aspect of a resource's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Which aspect, for example `Programmed`.
    pub kind: String,
    /// Whether the condition is met.
    pub status: ConditionStatus,
    /// CamelCase reason code.
    pub reason: String,
    /// Text for operators.
    pub message: String,
}

/// Whether a condition is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionStatus {
    /// The condition is met.
    True,
    /// The condition is not met.
    False,
    /// Not known yet.
    Unknown,
}

impl Condition {
    /// A condition with status True or False.
    pub(crate) fn new(kind: &str, holds: bool, reason: &str, message: impl Into<String>) -> Self {
        let status = if holds { ConditionStatus::True } else { ConditionStatus::False };
        Self { kind: kind.to_owned(), status, reason: reason.to_owned(), message: message.into() }
    }

    /// True when the status is True.
    pub(crate) fn holds(&self) -> bool {
        self.status == ConditionStatus::True
    }

    /// A condition whose status is not known yet.
    pub(crate) fn unknown(kind: &str, reason: &str, message: impl Into<String>) -> Self {
        Self {
            kind: kind.to_owned(),
            status: ConditionStatus::Unknown,
            reason: reason.to_owned(),
            message: message.into(),
        }
    }
}
