// SPDX-License-Identifier: Apache-2.0
//! Change sets: many resources that are sent at once, and taken back as a whole.

use canopy_controller_core::audit;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::history::IntentKind;
use crate::metadata::Principal;
use crate::{ApiVersion, Kind};

/// A change set, and how far it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangeSetResource {
    /// `canopy/v1`.
    #[schema(value_type = String)]
    pub api_version: ApiVersion,
    /// `ChangeSet`.
    #[schema(value_type = String)]
    pub kind: Kind,
    /// 16 hexadecimal digits.
    pub id: String,
    /// How far it is.
    pub phase: ChangeSetPhase,
    /// Who sent it.
    pub by: Principal,
    /// When, nanoseconds since 1970.
    pub begun_unix_ns: u64,
    /// Id of the request that sent it, which the entries of the audit of its resources have, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Resources that it has.
    pub items: u64,
    /// Those that were written or are already as they should be, from the first one on.
    pub done: u64,
    /// Of these: created.
    pub created: u64,
    /// Of these: changed.
    pub updated: u64,
    /// Why it does not continue now: a commit that is pending, a full store, the changes that a tenant may make in a second. Absent while it
    /// does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// Who takes it back, or has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undone_by: Option<Principal>,
    /// When that was begun, nanoseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undone_unix_ns: Option<u64>,
    /// Resources that were put back.
    pub put_back: u64,
    /// When there was nothing more to do, nanoseconds since 1970; absent before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_unix_ns: Option<u64>,
    /// Of a set that stopped, the resource that did it; of one that was taken back, what could not be put back, 100 at most.
    pub refused: Vec<ChangeSetRefusal>,
}

/// How far a change set is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum ChangeSetPhase {
    /// Its resources are written, in their order.
    Applying,
    /// All are written.
    Applied,
    /// One was refused: those before it are written.
    Stopped,
    /// What it has written is taken back, the last first.
    Undoing,
    /// It was taken back.
    Undone,
}

/// A resource that was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangeSetRefusal {
    /// Its kind; of a set that cannot be read, `ChangeSet`.
    #[schema(value_type = String)]
    pub kind: IntentKind,
    /// Its name; a member's is `group/host`.
    pub name: String,
    /// Why.
    pub detail: String,
}

/// Resources to write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeSetInput {
    /// `Topology`, `Drain`, `Silence`, `Group` and `Member` resources in the order in which they are written. One with `metadata.uid` and
    /// `metadata.generation` replaces that version and no later one.
    #[schema(value_type = Vec<Object>)]
    pub items: Vec<Value>,
}

impl ChangeSetPhase {
    /// There is something to do.
    pub const fn is_active(self) -> bool {
        matches!(self, Self::Applying | Self::Undoing)
    }
}

impl ChangeSetRefusal {
    /// From the domain's kind.
    pub fn new(kind: audit::IntentKind, name: String, detail: String) -> Self {
        Self { kind: kind.into(), name, detail }
    }
}
