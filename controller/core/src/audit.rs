// SPDX-License-Identifier: Apache-2.0
//! What an operator has written: one entry per write, stored in the same transaction as the write.

use canopy_model::ids::Generation;
use canopy_units::UnixTime;
use serde::{Deserialize, Serialize};

use crate::principal::Written;
use crate::tenant::{recorded, to_record};
use crate::uid::Uid;

/// Fields that one entry names, at most.
pub const MAX_FIELDS: usize = 20;

/// What operators write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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
    /// The certificates of an agent, or a token; its name is `node/NAME`, `host/NAME` or `token/NAME`; or a step of the replacement
    /// of the authority, `authority/STEP`.
    Identity,
    /// A filter of log lines; its name is `controller` or `agent/node`.
    LogLevel,
}

impl IntentKind {
    /// Whether it belongs to a tenant: a group, or a member of one.
    pub const fn is_of_tenant(self) -> bool {
        matches!(self, Self::Group | Self::Member)
    }

    /// The tenant that a record about it belongs to, with what the record has of the tenant; `None`: it is the domain's.
    pub fn tenant_in(self, record: Option<&str>) -> Option<&str> {
        match self {
            Self::Group | Self::Member => Some(recorded(record)),
            // Of the callers of a tenant, or of the domain.
            Self::ChangeSet => record,
            Self::Topology
            | Self::Drain
            | Self::Silence
            | Self::Hmac
            | Self::Commit
            | Self::Identity
            | Self::LogLevel => None,
        }
    }

    /// What a record about it has of its tenant.
    pub fn recorded_tenant(self, tenant: Option<&str>) -> Option<String> {
        match self {
            Self::ChangeSet => tenant.map(str::to_owned),
            _ => tenant.and_then(to_record),
        }
    }
}

impl std::fmt::Display for IntentKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The variants' names are the API's.
        write!(f, "{self:?}")
    }
}

impl std::str::FromStr for IntentKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [
            Self::Topology,
            Self::Drain,
            Self::Silence,
            Self::Group,
            Self::Member,
            Self::Hmac,
            Self::Commit,
            Self::ChangeSet,
            Self::Identity,
            Self::LogLevel,
        ];
        let found = all.into_iter().find(|kind| kind.to_string() == text);
        found.ok_or_else(|| {
            format!("{text:?} is not a kind: use Topology, Drain, Silence, Group, Member, Hmac, Commit, ChangeSet, Identity or LogLevel")
        })
    }
}

/// What a write did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// A resource was created.
    Create,
    /// Labels or spec were replaced.
    Update,
    /// A resource was deleted.
    Delete,
    /// A rotation of keys was begun, or a token got another secret.
    Rotate,
    /// A confirmed commit, or a change set, was begun.
    Begin,
    /// It was confirmed: its changes stay.
    Confirm,
    /// It got more time.
    Extend,
    /// It was rolled back because an operator wanted it; or a retirement or a change set was taken back.
    Cancel,
    /// It was rolled back because its time had passed.
    Expire,
    /// A token was made, with which an agent gets its first certificate.
    Enroll,
    /// The certificates of an agent, or a token, were revoked.
    Revoke,
    /// A node is retired: it is drained, cleaned up and revoked.
    Retire,
    /// A host joined a group.
    Join,
    /// A host left a group.
    Leave,
}

impl Action {
    /// Every action, for filters.
    pub const ALL: [Self; 14] = [
        Self::Create,
        Self::Update,
        Self::Delete,
        Self::Rotate,
        Self::Begin,
        Self::Confirm,
        Self::Extend,
        Self::Cancel,
        Self::Expire,
        Self::Enroll,
        Self::Revoke,
        Self::Retire,
        Self::Join,
        Self::Leave,
    ];
}

/// One write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// Grows with every entry.
    pub sequence: u64,
    /// Who wrote, and when.
    pub written: Written,
    /// What it did.
    pub action: Action,
    /// To a resource of which kind.
    pub kind: IntentKind,
    /// To the resource of which name.
    pub name: String,
    /// Which resource of that name; absent for what is not a resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<Uid>,
    /// Its generation from then on; of a deleted one, the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<Generation>,
    /// JSON pointers (RFC 6901) of the fields that have other values, [`MAX_FIELDS`] at most; empty where all or none of it is new.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
    /// How many more there are.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_fields: usize,
    /// The tenant of the group: see [`AuditEntry::tenant`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// How many more of the same followed within a minute, of joins and leaves.
    #[serde(default, skip_serializing_if = "is_none")]
    pub more: u64,
    /// When the last of these came; absent if there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<UnixTime>,
}

impl AuditEntry {
    /// The tenant that it belongs to; `None`: it is the domain's.
    pub fn tenant(&self) -> Option<&str> {
        self.kind.tenant_in(self.tenant.as_deref())
    }
}

fn is_none(n: &u64) -> bool {
    *n == 0
}

fn is_zero(n: &usize) -> bool {
    *n == 0
}
