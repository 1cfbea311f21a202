// SPDX-License-Identifier: Apache-2.0
//! Checks that change nothing: a dry run of one write, and the validation of several resources.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::{ApiVersion, Kind};

/// What a write does to its resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// The resource is created.
    Created,
    /// The resource is replaced.
    Updated,
    /// The resource is already as requested.
    Unchanged,
    /// The resource is deleted.
    Deleted,
}

impl From<canopy_controller_core::Outcome> for Outcome {
    fn from(outcome: canopy_controller_core::Outcome) -> Self {
        use canopy_controller_core::Outcome as O;
        match outcome {
            O::Created => Self::Created,
            O::Updated => Self::Updated,
            O::Unchanged => Self::Unchanged,
            O::Deleted => Self::Deleted,
        }
    }
}

/// Result of a dry run: the request would have succeeded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DryRun {
    /// `canopy/v1`.
    #[schema(value_type = String)]
    pub api_version: ApiVersion,
    /// `DryRun`.
    #[schema(value_type = String)]
    pub kind: Kind,
    /// `created`, `updated`, `unchanged` or `deleted`.
    #[schema(value_type = String)]
    pub outcome: Outcome,
}

impl DryRun {
    /// The result for an outcome of the domain.
    pub fn new(outcome: impl Into<Outcome>) -> Self {
        Self { api_version: ApiVersion, kind: Kind::DryRun, outcome: outcome.into() }
    }
}

/// Resources to check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Validate {
    /// `Topology`, `Drain`, `Group` and `Member` resources in the order in which they would be applied.
    #[schema(value_type = Vec<Object>)]
    pub items: Vec<Value>,
}

/// All would be accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Validated {
    /// `canopy/v1`.
    #[schema(value_type = String)]
    pub api_version: ApiVersion,
    /// `Validated`.
    #[schema(value_type = String)]
    pub kind: Kind,
    /// For each item `created`, `updated` or `unchanged`.
    #[schema(value_type = Vec<String>)]
    pub outcomes: Vec<Outcome>,
}

impl Validated {
    /// The answer for the outcomes of the domain.
    pub fn new(outcomes: Vec<canopy_controller_core::Outcome>) -> Self {
        let outcomes = outcomes.into_iter().map(Into::into).collect();
        Self { api_version: ApiVersion, kind: Kind::Validated, outcomes }
    }
}
