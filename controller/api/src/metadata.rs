// SPDX-License-Identifier: Apache-2.0
//! Identity of resources.

pub use canopy_controller_core::metadata::{DEFAULT_TENANT, Labels, MANAGED_BY};

use std::sync::Arc;

use canopy_controller_core::principal::{PrincipalKind, Via};
use canopy_controller_core::uid::Uid;
use canopy_controller_core::{metadata, principal};
use canopy_model::ids::Generation;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Identity and bookkeeping of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// Unique among resources of its kind.
    pub name: String,
    /// Owner; `default` unless tenants are in use.
    pub tenant: String,
    /// For selectors and for people.
    #[serde(default)]
    pub labels: Labels,
    /// 1 at creation, grows by one with every change of labels or spec.
    pub generation: Generation,
    /// Names this resource for ever; one that is deleted and created again has another. Absent from resources that are derived from
    /// declared ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub uid: Option<Uid>,
    /// When it was created, nanoseconds since 1970; absent if an earlier version of the controller created it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_unix_ns: Option<u64>,
    /// When labels or spec were last written, nanoseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_unix_ns: Option<u64>,
    /// Who wrote them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_by: Option<Principal>,
}

impl From<metadata::Metadata> for Metadata {
    fn from(m: metadata::Metadata) -> Self {
        let written = m.written().cloned();
        let metadata::Metadata { name, tenant, labels, generation, uid, created, changed: _ } = m;
        let created_unix_ns = created.map(|c| c.at.nanos()).filter(|at| *at != 0);
        let written_unix_ns = written.as_ref().map(|w| w.at.nanos()).filter(|at| *at != 0);
        let written_by = written.map(|w| w.by.into());
        Self { name, tenant, labels, generation, uid: Some(uid), created_unix_ns, written_unix_ns, written_by }
    }
}

/// Who makes changes, as far as the socket or the session shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Principal {
    /// `operator`, `host` or `controller`.
    #[schema(value_type = String)]
    pub kind: PrincipalKind,
    /// An operator's login name, a host's name; absent for the controller, and where the name is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Numeric user id on the caller's machine, where it is known: the controller's, or that of a host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// `ui`: through the web UI. Absent for `canopyctl` and scripts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub via: Option<Via>,
    /// Name of the token that acted for an operator; absent where the operator did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Service account of the pod that joined at the host, `NAMESPACE/NAME`; absent for users of hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
}

from_fields!(principal::Principal { kind, name, uid, via, token, account });

impl From<Arc<principal::Principal>> for Principal {
    fn from(by: Arc<principal::Principal>) -> Self {
        Arc::unwrap_or_clone(by).into()
    }
}

/// As the domain's: `alice`, `alice (UI)`, `alice (token ci)`, `uid 1000`, `host r1`, `uid 1000 of host r1`, `default/trainer of host r1`, `the controller`.
impl std::fmt::Display for Principal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kind, name, uid, via, token, account } = self.clone();
        principal::Principal { kind, name, uid, via, token, account }.fmt(f)
    }
}

impl Metadata {
    /// Metadata of a resource that is derived from declared ones.
    pub(crate) fn derived(name: String, generation: Generation) -> Self {
        let (tenant, labels) = (DEFAULT_TENANT.to_owned(), Labels::new());
        Self {
            name,
            tenant,
            labels,
            generation,
            uid: None,
            created_unix_ns: None,
            written_unix_ns: None,
            written_by: None,
        }
    }
}
