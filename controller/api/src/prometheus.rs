// SPDX-License-Identifier: Apache-2.0
//! Targets in the form of Prometheus' HTTP service discovery.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An agent that serves metrics.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TargetGroup {
    /// One address, `host:port`.
    pub targets: Vec<String>,
    /// Labels that its series get.
    pub labels: TargetLabels,
}

/// Labels of an agent's series.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TargetLabels {
    /// Name of the node in the topology.
    pub node: String,
}
