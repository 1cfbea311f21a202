// SPDX-License-Identifier: Apache-2.0
//! Nodes that leave for good.

use canopy_controller_core::{retirement, view};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::metadata::Principal;

/// A node that leaves for good, or has left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Retirement {
    /// How far it is.
    pub step: RetireStep,
    /// When this step was reached, nanoseconds since the Unix epoch.
    pub since_unix_ns: u64,
    /// What the step waits for, for people; empty once it has ended.
    pub waits_for: String,
    /// Why.
    pub reason: String,
    /// Hosts behind the node are removed from their groups.
    pub accept_loss: bool,
    /// It continues without the report of the node's agent.
    pub without_agent: bool,
    /// Seconds after which it is a problem that it is not over.
    pub timeout_seconds: u64,
    /// Who began it.
    pub by: Principal,
    /// When it began, nanoseconds since the Unix epoch.
    pub begun_unix_ns: u64,
    /// The drain that it has made; absent if the node was drained before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<String>,
    /// What its agent has removed from the kernel, for people; empty before that, and without the agent.
    pub removed: Vec<String>,
    /// Why its agent could not remove everything, as it last reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// How far a retirement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum RetireStep {
    /// The node is drained; trees and routes leave it. It can be taken back.
    Draining,
    /// Nothing uses it: its agent removes what it programmed into the kernel.
    CleaningUp,
    /// Its certificates are being revoked.
    Revoking,
    /// It has left.
    Retired,
}

impl From<retirement::RetireStep> for RetireStep {
    fn from(of: retirement::RetireStep) -> Self {
        match of {
            retirement::RetireStep::Draining => Self::Draining,
            retirement::RetireStep::CleaningUp => Self::CleaningUp,
            retirement::RetireStep::Revoking => Self::Revoking,
            retirement::RetireStep::Retired => Self::Retired,
        }
    }
}

impl std::fmt::Display for RetireStep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The variants' names are the API's.
        write!(f, "{self:?}")
    }
}

impl From<view::RetirementView> for Retirement {
    fn from(view::RetirementView { retirement, waits_for }: view::RetirementView) -> Self {
        let retirement::Retirement { spec, begun, reached, drain, removed, failed, .. } = retirement;
        Self {
            step: reached.step.into(),
            since_unix_ns: reached.at.nanos(),
            waits_for,
            reason: spec.reason,
            accept_loss: spec.accept_loss,
            without_agent: spec.without_agent,
            timeout_seconds: spec.timeout_seconds,
            by: begun.by.into(),
            begun_unix_ns: begun.at.nanos(),
            drain,
            removed,
            failed,
        }
    }
}
