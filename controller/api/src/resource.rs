// SPDX-License-Identifier: Apache-2.0
//! What all resources and lists have in common.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The only version of this API.
pub const API_VERSION: &str = "canopy/v1";

/// [`API_VERSION`] in an answer; another one is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub struct ApiVersion;

impl From<ApiVersion> for &'static str {
    fn from(_: ApiVersion) -> Self {
        API_VERSION
    }
}

impl TryFrom<String> for ApiVersion {
    type Error = String;

    fn try_from(version: String) -> Result<Self, String> {
        if version == API_VERSION { Ok(Self) } else { Err(format!("{version:?} is not {API_VERSION:?}")) }
    }
}

/// Kind of a resource, of a list, or of another answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Kind {
    /// [`crate::TopologyResource`].
    Topology,
    /// [`crate::DrainResource`].
    Drain,
    /// [`crate::SilenceResource`].
    Silence,
    /// [`crate::NodeResource`].
    Node,
    /// [`crate::LinkResource`].
    Link,
    /// [`crate::HostResource`].
    Host,
    /// [`crate::GroupResource`].
    Group,
    /// [`crate::MemberResource`].
    Member,
    /// [`crate::controller::ControllerResource`].
    Controller,
    /// A list of controllers.
    ControllerList,
    /// A list of [`crate::log_level::LogLevelItem`].
    LogLevelList,
    /// A list of drains.
    DrainList,
    /// A list of silences.
    SilenceList,
    /// A list of nodes.
    NodeList,
    /// A list of link directions.
    LinkList,
    /// A list of hosts.
    HostList,
    /// A list of [`crate::link::FlowView`].
    FlowList,
    /// A list of groups.
    GroupList,
    /// A list of members.
    MemberList,
    /// A list of [`crate::event::EventItem`].
    EventList,
    /// A list of [`crate::history::AuditItem`].
    AuditList,
    /// A confirmed commit.
    Commit,
    /// [`crate::change_set::ChangeSetResource`].
    ChangeSet,
    /// A list of [`crate::change_set::ChangeSetResource`].
    ChangeSetList,
    /// A list of [`crate::history::VersionItem`].
    VersionList,
    /// A list of [`crate::identity::Revocation`].
    RevocationList,
    /// A list of [`crate::tenant::TenantItem`].
    TenantList,
    /// A list of [`crate::token::TokenItem`].
    TokenList,
    /// A list of [`crate::sign_in::SessionItem`].
    SessionList,
    /// A list of [`crate::telemetry::GroupSample`].
    GroupTelemetryList,
    /// [`crate::telemetry::NodeSample`].
    NodeTelemetry,
    /// [`crate::chart::Charts`].
    Charts,
    /// [`crate::map::Map`].
    Map,
    /// [`crate::map::MapLayer`].
    MapLayer,
    /// [`crate::waited::WaitedFor`].
    WaitedFor,
    /// [`crate::waited::WaitedStrip`].
    WaitedStrip,
    /// [`crate::path::Paths`].
    Paths,
    /// [`crate::path::DecodedPath`].
    DecodedPath,
    /// [`crate::capture::Capture`].
    Capture,
    /// List of [`crate::capture::CaptureItem`].
    CaptureList,
    /// [`crate::capture::ExpectedPacket`].
    ExpectedPacket,
    /// A list of [`crate::health::ProblemItem`].
    ProblemList,
    /// A list of [`crate::health::ProblemCodeItem`].
    ProblemCodeList,
    /// A list of [`crate::incident::IncidentItem`].
    IncidentList,
    /// [`crate::incident::Incident`].
    Incident,
    /// [`crate::health::DomainStatus`].
    DomainStatus,
    /// [`crate::check::DryRun`].
    DryRun,
    /// [`crate::check::Validated`].
    Validated,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The variants' names are the API's.
        write!(f, "{self:?}")
    }
}

/// A resource as it is sent to clients. Not one generic type: the API description needs a name for each.
macro_rules! resource {
    ($(#[$doc:meta])* $name:ident, $metadata:ty, $spec:ty, $status:ty) => {
        $crate::resource::resource!($(#[$doc])* $name, $metadata, $spec as $spec, $status);
    };
    ($(#[$doc:meta])* $name:ident, $metadata:ty, $spec:ty as $described:ty, $status:ty) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            /// `canopy/v1`.
            #[schema(value_type = String)]
            pub api_version: $crate::ApiVersion,
            /// Kind of resource.
            #[schema(value_type = String)]
            pub kind: $crate::Kind,
            /// Identity.
            pub metadata: $metadata,
            /// As declared, or as derived from declared resources.
            #[schema(value_type = $described)]
            pub spec: $spec,
            /// Observed state.
            pub status: $status,
        }
    };
}
pub(crate) use resource;

/// Several resources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct List<T> {
    /// `canopy/v1`.
    #[schema(value_type = String)]
    pub api_version: ApiVersion,
    /// The items' kind and `List`.
    #[schema(value_type = String)]
    pub kind: Kind,
    /// Start of the next page.
    pub metadata: ListMetadata,
    /// The resources.
    pub items: Vec<T>,
}

/// Start of the next page of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListMetadata {
    /// Send as `continue` to get the next page; absent on the last one.
    #[serde(rename = "continue", skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl<T> List<T> {
    /// A whole list.
    pub fn new(kind: Kind, items: Vec<T>) -> Self {
        Self { api_version: ApiVersion, kind, metadata: ListMetadata::default(), items }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a kind that is called otherwise in JSON than in messages, and an answer of another version that is read
    /// as one of this version.
    #[test]
    fn kinds_are_called_as_in_json_and_another_version_is_refused() {
        for kind in [Kind::Topology, Kind::GroupTelemetryList, Kind::DryRun] {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.to_string());
        }
        assert_eq!(serde_json::to_value(ApiVersion).unwrap(), API_VERSION);
        assert!(serde_json::from_value::<ApiVersion>(API_VERSION.into()).is_ok());
        let e = serde_json::from_value::<ApiVersion>("canopy/v9".into()).unwrap_err();
        assert!(e.to_string().contains("canopy/v9"), "{e}");
    }
}
