// SPDX-License-Identifier: Apache-2.0
//! What nodes observe, and the phases of groups.

use serde::{Deserialize, Serialize};

use crate::digest::SpecDigest;
use crate::ids::{Generation, GroupId};

/// A node's report after each reconciliation: applied means read back from the kernel and equal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct NodeStatus {
    /// Node name.
    pub node: String,
    /// Term of the spec that was reconciled.
    #[serde(default)]
    pub observed_term: u64,
    /// Generation of the spec that was reconciled. Another controller's life may have the same number: with term and digest it
    /// names the spec.
    pub observed_generation: Generation,
    /// Digest of the spec that was reconciled.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub observed_digest: SpecDigest,
    /// Items that are not as desired; empty means that the kernel state matches the whole spec.
    pub errors: Vec<ItemError>,
    /// Agent version.
    pub agent_version: String,
    /// Kernel release.
    pub kernel: String,
    /// Minor version of the southbound contract that agent and controller agreed on.
    #[serde(default)]
    pub minor_version: u32,
}

/// One desired item that is not in the kernel as asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ItemError {
    /// `port`, `link` (a port without a carrier), `route`, `neighbour`, `program`, `group`.
    pub kind: String,
    /// Which one, for example `eth2`.
    pub name: String,
    /// The group that suffers, if only one does; `None` = every group that uses the item.
    pub group: Option<GroupId>,
    /// What is wrong and what to do, for a person.
    pub detail: String,
}

/// Where a group is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum GroupPhase {
    /// No source or no receiver yet.
    #[default]
    Pending,
    /// At least one node has not confirmed the program of the current epoch.
    Programming,
    /// Every node read its kernel state back and it matched.
    Ready,
    /// At least one node cannot do its part; the reason names it.
    Degraded,
    /// The stall policy `fail` stopped it; the reason names the receiver. Nothing is forwarded until every member has left.
    Failed,
}
