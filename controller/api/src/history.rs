// SPDX-License-Identifier: Apache-2.0
//! What operators wrote: the audit, and the versions of resources.

pub use canopy_controller_core::audit::Action;

use canopy_controller_core::audit;
use canopy_controller_core::uid::Uid;
use canopy_model::ids::Generation;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::metadata::{Labels, Principal};

/// What operators write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum IntentKind {
    /// The network.
    Topology,
    /// A link or node out of service.
    Drain,
    /// Problems that an operator knows of.
    Silence,
    /// A multicast group.
    Group,
    /// A membership; its name is `group/host`.
    Member,
    /// The keys of the SRH HMAC TLV.
    Hmac,
    /// A confirmed commit; its name is its id.
    Commit,
    /// Resources that were sent at once; its name is its id.
    ChangeSet,
    /// The certificates of an agent; its name is `node/NAME` or `host/NAME`.
    Identity,
    /// A filter of log lines; its name is `controller` or `agent/node`.
    LogLevel,
}

macro_rules! same {
    ($($kind:ident),*) => {
        impl From<audit::IntentKind> for IntentKind {
            fn from(kind: audit::IntentKind) -> Self {
                match kind { $(audit::IntentKind::$kind => Self::$kind),* }
            }
        }

        impl From<IntentKind> for audit::IntentKind {
            fn from(kind: IntentKind) -> Self {
                match kind { $(IntentKind::$kind => Self::$kind),* }
            }
        }
    };
}
same!(Topology, Drain, Silence, Group, Member, Hmac, Commit, ChangeSet, Identity, LogLevel);

/// One write of an operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditItem {
    /// Grows with every entry.
    pub sequence: u64,
    /// When, nanoseconds since 1970.
    pub time_unix_ns: u64,
    /// Who did.
    pub by: Principal,
    /// `create`, `update`, `delete` or `rotate`; of a commit `begin`, `confirm`, `extend`, `cancel` or `expire`; of a change set `begin` or `cancel`; of a host `join` or `leave`; of an identity `enroll` or `revoke`.
    #[schema(value_type = String)]
    pub action: audit::Action,
    /// Kind of the resource.
    #[schema(value_type = String)]
    pub kind: IntentKind,
    /// Its name; a member's is `group/host`.
    pub name: String,
    /// Which resource of that name; absent for what is not a resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub uid: Option<Uid>,
    /// Its generation from then on; of a deleted one, the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<Generation>,
    /// JSON pointers of the fields that have other values since, 20 at most.
    #[serde(default)]
    pub fields: Vec<String>,
    /// How many more there are.
    #[serde(default)]
    pub more_fields: u64,
    /// Id of the request, 32 hexadecimal digits; absent if the controller wrote without one, or an earlier version did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// How many of the same this entry is: joins, or leaves, of one principal and group within a minute.
    #[serde(default = "one")]
    pub count: u64,
    /// When the last of them came, nanoseconds since 1970; absent if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_unix_ns: Option<u64>,
}

const fn one() -> u64 {
    1
}

impl From<audit::AuditEntry> for AuditItem {
    fn from(entry: audit::AuditEntry) -> Self {
        let audit::AuditEntry {
            sequence,
            written,
            action,
            kind,
            name,
            uid,
            generation,
            fields,
            more_fields,
            tenant: _,
            more,
            last,
        } = entry;
        let request_id = written.request.map(|id| id.to_string());
        let (time_unix_ns, by, kind) = (written.at.nanos(), written.by.into(), kind.into());
        Self {
            sequence,
            time_unix_ns,
            by,
            action,
            kind,
            name,
            uid,
            generation,
            fields,
            more_fields: more_fields as u64,
            request_id,
            count: more + 1,
            last_unix_ns: last.map(|at| at.nanos()),
        }
    }
}

/// A version of a resource: the one in force, or one that was replaced or deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct VersionItem {
    /// The tenant of a group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Which resource of this name.
    #[schema(value_type = String)]
    pub uid: Uid,
    /// Its generation.
    pub generation: Generation,
    /// Its labels.
    pub labels: Labels,
    /// Its spec.
    #[schema(value_type = Object)]
    pub spec: Value,
    /// When it was written, nanoseconds since 1970; absent if an earlier version of the controller wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_unix_ns: Option<u64>,
    /// Who did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_by: Option<Principal>,
    /// When it was replaced or deleted; absent for the one in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_unix_ns: Option<u64>,
    /// Who did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<Principal>,
    /// It was deleted, not replaced.
    pub deleted: bool,
}
