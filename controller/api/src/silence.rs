// SPDX-License-Identifier: Apache-2.0
//! Problems that operators know of: acknowledged, or of an object under maintenance.

use canopy_controller_core::view;
use canopy_model::silence::SilenceSpec;
use canopy_units::UnixTime;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::metadata::{Metadata, Principal};
use crate::resource::resource;
use crate::{ApiVersion, Kind};

resource!(
    /// Problems that an operator knows of.
    SilenceResource, Metadata, SilenceSpec, SilenceStatus
);

impl SilenceResource {
    /// A silence with its state at this time.
    pub fn new(view: view::SilenceView, now: UnixTime) -> Self {
        let view::SilenceView { metadata, spec } = view;
        let status = SilenceStatus { active: spec.is_active(now) };
        Self { api_version: ApiVersion, kind: Kind::Silence, metadata: metadata.into(), spec, status }
    }
}

/// State of a silence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SilenceStatus {
    /// It is in force now; false before `spec.from`.
    pub active: bool,
}

/// The silence that is in force for a problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SilenceRef {
    /// Its name.
    pub name: String,
    /// Why, for other operators.
    pub note: String,
    /// Who wrote it last; absent if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Principal>,
    /// When it ends, nanoseconds since the Unix epoch; absent of an acknowledgement that ends with its problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_unix_ns: Option<u64>,
}

impl From<view::SilenceView> for SilenceRef {
    fn from(view: view::SilenceView) -> Self {
        let by = view.metadata.written().map(|written| written.by.clone().into());
        let view::SilenceView { metadata, spec } = view;
        Self { name: metadata.name, note: spec.note, by, until_unix_ns: spec.until.map(UnixTime::nanos) }
    }
}
