// SPDX-License-Identifier: Apache-2.0
//! Memberships.

use std::net::Ipv6Addr;

use canopy_controller_core::view;
use canopy_model::group::EncodingMode;
use canopy_model::member::{LateStart, MemberSpec};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::metadata::Metadata;
use crate::resource::resource;
use crate::{ApiVersion, Kind};

resource!(
    /// A host's membership of a group.
    MemberResource, MemberMetadata, MemberSpec, MemberStatus
);

impl From<view::MemberView> for MemberResource {
    fn from(v: view::MemberView) -> Self {
        let view::MemberView { group, metadata, spec, status } = v;
        let metadata = MemberMetadata { group, metadata: metadata.into() };
        Self { api_version: ApiVersion, kind: Kind::Member, metadata, spec, status: status.into() }
    }
}

/// Identity of a membership.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberMetadata {
    /// The group.
    pub group: String,
    /// Name (the host's), tenant, generation.
    #[serde(flatten)]
    pub metadata: Metadata,
}

/// Where a member is attached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberStatus {
    /// Address of the QP: the declared one, or the host's default.
    #[schema(value_type = String)]
    pub address: Ipv6Addr,
    /// Node that the host is attached to.
    pub node: String,
    /// That node's interface.
    pub port: String,
    /// How a receiver is distributed to its edge: `inBand` or `provisioned`; `None` for a source or while there is no
    /// tree.
    pub encoding: Option<EncodingMode>,
    /// The session that it joined has ended with its source: it gets no data until its queue pair is reset and it joins again.
    pub ended: bool,
    /// It joined after the group was open, and gets data from a later message on.
    pub late: bool,
    /// Where it started then, once its edge has reported it: its edge needs that if it loses its state.
    pub start: Option<LateStart>,
}

from_fields!(view::MemberStatus { address, node, port, encoding, ended, late, start });
