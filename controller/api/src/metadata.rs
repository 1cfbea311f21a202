// SPDX-License-Identifier: Apache-2.0
//! Identity of resources.

pub use canopy_controller_core::metadata::{DEFAULT_TENANT, Labels};

use canopy_controller_core::metadata;
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
}

from_fields!(metadata::Metadata { name, tenant, labels, generation });

impl Metadata {
    /// Metadata of a resource that is derived from declared ones.
    pub(crate) fn derived(name: String, generation: Generation) -> Self {
        Self { name, tenant: DEFAULT_TENANT.to_owned(), labels: Labels::new(), generation }
    }
}
