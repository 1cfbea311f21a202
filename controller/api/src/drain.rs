// SPDX-License-Identifier: Apache-2.0
//! Links and nodes that operators take out of service.

use canopy_controller_core::view;
use canopy_model::drain::DrainSpec;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::metadata::Metadata;
use crate::resource::resource;
use crate::{ApiVersion, Kind};

resource!(
    /// A link or node that an operator takes out of service.
    DrainResource, Metadata, DrainSpec, DrainStatus
);

impl From<view::DrainView> for DrainResource {
    fn from(v: view::DrainView) -> Self {
        let view::DrainView { metadata, spec, status } = v;
        Self { api_version: ApiVersion, kind: Kind::Drain, metadata: metadata.into(), spec, status: status.into() }
    }
}

/// How far a drain is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DrainStatus {
    /// The links that it takes out of service; none if the topology no longer has the target.
    pub links: Vec<String>,
    /// Groups that still use them: they move away, or there is no other way. Of a node, those that do not serve hosts behind it.
    pub groups: u32,
    /// Hosts behind a drained node that are members of groups.
    pub hosts: Vec<String>,
}

from_fields!(view::DrainStatus { links, groups, hosts });
