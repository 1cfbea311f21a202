// SPDX-License-Identifier: Apache-2.0
//! Counters and aggregation state as nodes last reported them.

use canopy_model::telemetry::{DropCount, GroupTelemetry};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{ApiVersion, Kind};

/// One group's counters at one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupSample {
    /// Node that reported.
    pub node: String,
    /// Group's name.
    pub group: String,
    /// The node's clock at the sample, nanoseconds since the Unix epoch.
    pub time_unix_ns: u64,
    /// The counters.
    #[serde(flatten)]
    pub counters: GroupTelemetry,
}

/// Counters of one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeSample {
    /// `canopy/v1`.
    #[schema(value_type = String)]
    pub api_version: ApiVersion,
    /// `NodeTelemetry`.
    #[schema(value_type = String)]
    pub kind: Kind,
    /// Node that reported.
    pub node: String,
    /// The node's clock at its last sample; `null` = the node never sent one.
    pub time_unix_ns: Option<u64>,
    /// Drops that belong to no group.
    pub drops: Vec<DropCount>,
    /// Per group.
    pub groups: Vec<GroupSample>,
}
