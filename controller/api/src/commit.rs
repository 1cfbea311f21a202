// SPDX-License-Identifier: Apache-2.0
//! Confirmed commits: changes that are taken back unless they are confirmed in time.

use canopy_controller_core::audit;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::history::IntentKind;
use crate::metadata::Principal;
use crate::{ApiVersion, Kind};

/// The commit that is pending, or the last one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommitResource {
    /// `canopy/v1`.
    #[schema(value_type = String)]
    pub api_version: ApiVersion,
    /// `Commit`.
    #[schema(value_type = String)]
    pub kind: Kind,
    /// 16 hexadecimal digits. Writes of operators name it in the header `Canopy-Commit` while it is pending.
    pub id: String,
    /// How far it is.
    pub phase: CommitPhase,
    /// Who began it.
    pub by: Principal,
    /// When, nanoseconds since 1970.
    pub begun_unix_ns: u64,
    /// When it is rolled back unless it is confirmed, nanoseconds since 1970.
    pub deadline_unix_ns: u64,
    /// Present time of the controller, nanoseconds since 1970.
    pub time_unix_ns: u64,
    /// Who ended it; absent while it is pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<Principal>,
    /// When it ended, nanoseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_unix_ns: Option<u64>,
    /// What a rollback would do; empty once it has ended.
    pub changes: Vec<CommitChange>,
    /// Resources that could not be put back, 100 at most: of the rollback that was made, or, with `check`, of one that was tried on a
    /// copy.
    pub refused: Vec<RollbackRefusal>,
}

/// How far a commit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum CommitPhase {
    /// It waits to be confirmed.
    Pending,
    /// Its changes stay.
    Confirmed,
    /// An operator had it rolled back.
    Cancelled,
    /// It was rolled back because it was not confirmed in time.
    Expired,
}

/// A resource that a commit has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommitChange {
    /// Its kind.
    #[schema(value_type = String)]
    pub kind: IntentKind,
    /// Its name; a member's is `group/host`.
    pub name: String,
    /// What a rollback does with it.
    pub rollback: RollbackAction,
}

/// What a rollback does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum RollbackAction {
    /// Deletes what the commit has created.
    Delete,
    /// Writes again what was there before.
    PutBack,
}

/// A resource that could not be put back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RollbackRefusal {
    /// Its kind.
    #[schema(value_type = String)]
    pub kind: IntentKind,
    /// Its name; a member's is `group/host`.
    pub name: String,
    /// Why not.
    pub detail: String,
}

/// Begins a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CommitBegin {
    /// Time until it is rolled back unless it is confirmed: 1 to 86,400 seconds.
    pub timeout_seconds: u64,
}

/// Names the pending commit, so that none but this one is confirmed or rolled back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CommitEnd {
    /// Its id.
    pub id: String,
}

/// Gives the pending commit more, or less, time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CommitExtend {
    /// Its id.
    pub id: String,
    /// Time from now until it is rolled back: 1 to 86,400 seconds.
    pub timeout_seconds: u64,
}

/// Parameters of reading a commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct CommitQuery {
    /// Try the rollback on a copy of the domain, and list in `refused` what could not be put back now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub check: bool,
}

/// The pending commit, in the domain's status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingCommit {
    /// Its id.
    pub id: String,
    /// Who began it.
    pub by: Principal,
    /// When it is rolled back, nanoseconds since 1970.
    pub deadline_unix_ns: u64,
    /// Resources that it has changed.
    pub changes: u64,
}

impl CommitChange {
    /// A change of a resource that was there before, or not.
    pub fn new(kind: audit::IntentKind, name: String, existed: bool) -> Self {
        let rollback = if existed { RollbackAction::PutBack } else { RollbackAction::Delete };
        Self { kind: kind.into(), name, rollback }
    }
}
