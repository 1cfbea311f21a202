// SPDX-License-Identifier: Apache-2.0
//! Checks that change nothing: a dry run of one write, and the validation of several resources.

use canopy_controller_core::effect;
pub use canopy_controller_core::effect::EffectKind;
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
    /// Changes and effects in one sentence.
    #[serde(default)]
    pub summary: String,
    /// Fields of the resource that would have other values.
    #[serde(default)]
    pub changes: Vec<FieldChange>,
    /// What that does to nodes, groups and paths, the worst first; 1000 at most.
    #[serde(default)]
    pub effects: Vec<Effect>,
    /// How many more effects there are.
    #[serde(default)]
    pub more_effects: u64,
    /// Names these changes and effects. A write with `If-Plan-Match` and this is refused (412) if it would have others by then.
    #[serde(default)]
    pub plan: String,
}

/// A field that would have another value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldChange {
    /// JSON pointer (RFC 6901): in the new resource, or, of what is gone, in the old one. Empty for the whole resource.
    pub pointer: String,
    /// Absent where there was nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    pub old: Option<Value>,
    /// Absent where there is nothing any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    pub new: Option<Value>,
}

/// What a write does to a node, a group, or the paths between edges.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Effect {
    /// `nodeAdded`, `nodeChanged`, `nodeRemoved`, `treeStarts`, `treeMoves`, `treeStays` (on drained links, for want of others), `treeStops`,
    /// `groupDeleted`, `pathsMore`, `pathsFewer`, `pathsStay` (none in service: on drained links), `pathsStop` or `pathsNotCounted`.
    #[serde(rename = "type")]
    #[schema(value_type = String)]
    pub kind: effect::EffectKind,
    /// `Node`, `Group` or `Pairs`: pairs of nodes with hosts of which one may send path programs.
    #[schema(value_type = String)]
    pub object: effect::EffectObject,
    /// Its name. Of pairs the node that all of them have, or one of them: `leaf1 - leaf2`; empty for those that were not counted.
    pub name: String,
    /// What is no longer: of a tree the ports towards the root that only the old one has; of pairs how many paths each had in service.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub from: String,
    /// What is instead; of a tree that stops, why; of pairs how many paths each then has in service.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub to: String,
    /// How many pairs; absent for other objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pairs: Option<u64>,
    /// Whether no packet is lost by it.
    pub lossless: bool,
}

from_fields!(effect::Effect { kind, object, name, from, to, pairs, lossless });

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
