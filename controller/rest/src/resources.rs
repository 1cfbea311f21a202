// SPDX-License-Identifier: Apache-2.0
//! JSON representation of resources: `{apiVersion, kind, metadata, spec, status}`, as in Kubernetes.

use std::net::Ipv6Addr;

use canopy_controller_core::Outcome;
use canopy_controller_core::metadata::{DEFAULT_TENANT, Labels, Metadata};
use canopy_controller_core::view::{
    GroupStatus, GroupView, LinkDesired, LinkObserved, LinkView, MemberStatus, MemberView, NodeDesired, NodeObserved,
    NodeView, TopologyStatus, TopologyView,
};
use canopy_model::FieldErrors;
use canopy_model::group::GroupSpec;
use canopy_model::ids::Generation;
use canopy_model::member::MemberSpec;
use canopy_model::telemetry::{DropCount, GroupTelemetry};
use canopy_model::topology::TopologySpec;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::error::ApiError;

/// The only version of this API.
pub const API_VERSION: &str = "canopy/v1";

/// A resource as a client sends it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Input<S> {
    /// `canopy/v1`.
    pub api_version: String,
    /// Kind of resource.
    pub kind: String,
    /// Identity.
    pub metadata: MetadataInput,
    /// Desired configuration.
    pub spec: S,
    /// Accepted and ignored, so that a resource that was read can be sent back.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub status: Option<IgnoredAny>,
}

/// Identity of a resource as a client sends it.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct MetadataInput {
    /// Unique among resources of its kind, a DNS-1123 label. A member's is its host's name and may be left out.
    #[serde(default)]
    pub name: Option<String>,
    /// Members: the group. May be left out, the path names it.
    #[serde(default)]
    pub group: Option<String>,
    /// `default`, or left out.
    #[serde(default)]
    pub tenant: Option<String>,
    /// For selecting and for people; members carry none.
    #[serde(default)]
    #[schema(value_type = std::collections::BTreeMap<String, String>)]
    pub labels: Labels,
    /// Accepted and ignored: use If-Match to make a change conditional.
    #[serde(default)]
    #[schema(value_type = Option<u64>)]
    pub generation: Option<Generation>,
}

impl<S> Input<S> {
    /// Checks the fields that all kinds share; `name` is the one in the path, if there is one.
    ///
    /// # Errors
    /// Every invalid field.
    pub fn check(&self, kind: &str, name: Option<&str>) -> Result<(), ApiError> {
        let mut errors = FieldErrors::default();
        if self.api_version != API_VERSION {
            errors.push("apiVersion", format!("{:?} is not served here: use {API_VERSION:?}", self.api_version));
        }
        if self.kind != kind {
            errors.push("kind", format!("{:?} does not belong here: use {kind:?}", self.kind));
        }
        if let Some(tenant) = self.metadata.tenant.as_deref().filter(|t| *t != DEFAULT_TENANT) {
            errors
                .push("metadata.tenant", format!("{tenant:?} does not exist: leave it out or use {DEFAULT_TENANT:?}"));
        }
        match (self.metadata.name.as_deref(), name) {
            (Some(have), Some(want)) if have != want => {
                errors.push("metadata.name", format!("{have:?} is not the name in the path, {want:?}"))
            }
            (None, _) if kind != "Member" => errors.push("metadata.name", "is missing"),
            _ => {}
        }
        if kind != "Member" && self.metadata.group.is_some() {
            errors.push("metadata.group", "belongs to members only");
        }
        errors.into_result().map_err(ApiError::invalid)
    }
}

impl Input<MemberSpec> {
    /// [`Input::check`] for a member of `group`.
    ///
    /// # Errors
    /// Every invalid field.
    pub fn check_member(&self, group: &str, host: Option<&str>) -> Result<(), ApiError> {
        let host = host.unwrap_or(&self.spec.host);
        self.check("Member", Some(host))?;
        let mut errors = FieldErrors::default();
        if self.spec.host != host {
            errors.push("spec.host", format!("{:?} is not the host in the path, {host:?}", self.spec.host));
        }
        if let Some(other) = self.metadata.group.as_deref().filter(|g| *g != group) {
            errors.push("metadata.group", format!("{other:?} is not the group in the path, {group:?}"));
        }
        if !self.metadata.labels.is_empty() {
            errors.push("metadata.labels", "members carry no labels: put them on the group");
        }
        errors.into_result().map_err(ApiError::invalid)
    }
}

/// A resource as it is sent to clients. Not one generic type: the API description needs a name for each.
macro_rules! resource {
    ($(#[$doc:meta])* $name:ident, $metadata:ty, $spec:ty, $status:ty) => {
        $(#[$doc])*
        #[derive(Debug, Serialize, ToSchema)]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            /// `canopy/v1`.
            pub api_version: &'static str,
            /// Kind of resource.
            pub kind: &'static str,
            /// Identity.
            pub metadata: $metadata,
            /// As declared, or as derived from declared resources.
            pub spec: $spec,
            /// Observed state.
            pub status: $status,
        }
    };
}

resource!(
    /// The network.
    TopologyResource, Metadata, TopologySpec, TopologyStatus
);
resource!(
    /// A forwarding node.
    NodeResource, Metadata, NodeDesired, NodeObserved
);
resource!(
    /// One direction of a link; its name is the sending port, its generation the topology's.
    LinkResource, Metadata, LinkDesired, LinkObserved
);
resource!(
    /// A multicast group.
    GroupResource, Metadata, GroupSpec, GroupStatus
);
resource!(
    /// A host's membership of a group.
    MemberResource, MemberMetadata, MemberSpec, MemberStatus
);

/// Identity of a membership.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberMetadata {
    /// The group.
    pub group: String,
    /// Name (the host's), tenant, generation.
    #[serde(flatten)]
    pub metadata: Metadata,
}

impl From<TopologyView> for TopologyResource {
    fn from(v: TopologyView) -> Self {
        Self { api_version: API_VERSION, kind: "Topology", metadata: v.metadata, spec: v.spec, status: v.status }
    }
}

impl From<NodeView> for NodeResource {
    fn from(v: NodeView) -> Self {
        let metadata = Metadata {
            name: v.name,
            tenant: DEFAULT_TENANT.into(),
            labels: Labels::new(),
            generation: v.spec.generation,
        };
        Self { api_version: API_VERSION, kind: "Node", metadata, spec: v.spec, status: v.status }
    }
}

impl From<LinkView> for LinkResource {
    fn from(v: LinkView) -> Self {
        let metadata =
            Metadata { name: v.name, tenant: DEFAULT_TENANT.into(), labels: Labels::new(), generation: v.generation };
        Self { api_version: API_VERSION, kind: "Link", metadata, spec: v.spec, status: v.status }
    }
}

impl From<GroupView> for GroupResource {
    fn from(v: GroupView) -> Self {
        Self { api_version: API_VERSION, kind: "Group", metadata: v.metadata, spec: v.spec, status: v.status }
    }
}

impl From<MemberView> for MemberResource {
    fn from(v: MemberView) -> Self {
        let metadata = MemberMetadata { group: v.group, metadata: v.metadata };
        Self { api_version: API_VERSION, kind: "Member", metadata, spec: v.spec, status: v.status }
    }
}

/// Several resources.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct List<T> {
    /// `canopy/v1`.
    pub api_version: &'static str,
    /// The items' kind and `List`.
    pub kind: &'static str,
    /// Start of the next page.
    pub metadata: ListMetadata,
    /// The resources.
    pub items: Vec<T>,
}

/// Start of the next page of a list.
#[derive(Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListMetadata {
    /// Send as `continue` to get the next page; absent on the last one.
    #[serde(rename = "continue", skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl<T> List<T> {
    /// A whole list.
    pub fn new(kind: &'static str, items: Vec<T>) -> Self {
        Self { api_version: API_VERSION, kind, metadata: ListMetadata::default(), items }
    }
}

/// Result of a dry run: the request would have succeeded.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DryRun {
    /// `canopy/v1`.
    pub api_version: &'static str,
    /// `DryRun`.
    pub kind: &'static str,
    /// `created`, `updated`, `unchanged` or `deleted`.
    pub outcome: &'static str,
}

impl DryRun {
    /// The result for an outcome of the domain.
    pub fn new(outcome: Outcome) -> Self {
        Self { api_version: API_VERSION, kind: "DryRun", outcome: outcome_word(outcome) }
    }
}

/// `created`, `updated`, `unchanged`, `deleted`.
pub fn outcome_word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Created => "created",
        Outcome::Updated => "updated",
        Outcome::Unchanged => "unchanged",
        Outcome::Deleted => "deleted",
    }
}

/// One group's counters at one node.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupSample {
    /// Node that reported.
    pub node: String,
    /// Group's name.
    pub group: String,
    /// The node's clock at the sample, nanoseconds since the Unix epoch.
    pub time_unix_ns: u64,
    /// The counters.
    #[serde(flatten)]
    pub counters: GroupTelemetry,
}

/// Counters of one node.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeSample {
    /// `canopy/v1`.
    pub api_version: &'static str,
    /// `NodeTelemetry`.
    pub kind: &'static str,
    /// Node that reported.
    pub node: String,
    /// The node's clock at its last sample; `null` = the node never sent one.
    pub time_unix_ns: Option<u64>,
    /// Drops that belong to no group.
    pub drops: Vec<DropCount>,
    /// Per group.
    pub groups: Vec<GroupSample>,
}

/// An event.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventItem {
    /// Grows by one with every event since the controller started.
    pub sequence: u64,
    /// Nanoseconds since the Unix epoch.
    pub time_unix_ns: u64,
    /// Stable code.
    pub code: String,
    /// Node concerned.
    pub node: Option<String>,
    /// Group concerned.
    pub group: Option<String>,
    /// Branch concerned.
    #[schema(value_type = Option<String>)]
    pub branch: Option<Ipv6Addr>,
    /// Text for operators.
    pub detail: String,
}
