// SPDX-License-Identifier: Apache-2.0
//! Query parameters. Those of a stream are in every list that has one: `deny_unknown_fields` excludes `flatten`.

use std::net::Ipv6Addr;

use canopy_model::status::GroupPhase;
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use crate::health::{Severity, SubjectKind};
use crate::history::{Action, IntentKind};
use crate::path::PathStyle;

/// Parameters of every write.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct WriteQuery {
    /// Check everything and change nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// Conditions of a write.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub struct WriteHeaders {
    /// Carry the write out only if the resource has this ETag, or with `*` only if it exists; 412 otherwise.
    #[param(rename = "If-Match")]
    pub if_match: Option<String>,
    /// With `*`: carry the write out only if the resource does not exist; 412 otherwise.
    #[param(rename = "If-None-Match")]
    pub if_none_match: Option<String>,
    /// Carry the write out only if its changes and effects are those of the dry run with this `plan`; 412 otherwise.
    #[param(rename = "If-Plan-Match")]
    pub if_plan_match: Option<String>,
    /// Id of the pending commit that the write is a part of; 409 if that is not pending. While one is pending, writes without it are refused
    /// with 409.
    #[param(rename = "Canopy-Commit")]
    pub canopy_commit: Option<String>,
    /// Manager that sends the write. A resource with the label `canopy/managed-by` is written by the manager of that name alone; others are
    /// refused with 409. `take-over` writes it without the label: it has no manager from then on.
    #[param(rename = "Canopy-Manager")]
    pub canopy_manager: Option<String>,
    /// Names this write, so that it can be sent again when its answer was lost; a key for each write, kept for 24 h.
    #[param(rename = "Idempotency-Key")]
    pub idempotency_key: Option<String>,
}

/// Key of an action.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub struct KeyHeader {
    /// Names this action, so that it can be sent again when its answer was lost; a key for each action, kept for 24 h.
    #[param(rename = "Idempotency-Key")]
    pub idempotency_key: Option<String>,
}

/// Manager of an action on several resources.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub struct ManagerHeader {
    /// Manager that sends the resources. One with the label `canopy/managed-by` is written by the manager of that name alone; `take-over`
    /// writes it without the label.
    #[param(rename = "Canopy-Manager")]
    pub canopy_manager: Option<String>,
}

/// Filter and page of the audit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct AuditQuery {
    /// Number of entries, 1..=1000; 100 when absent.
    pub limit: Option<usize>,
    /// Token from the previous page.
    #[serde(rename = "continue")]
    #[param(rename = "continue")]
    pub next: Option<String>,
    /// Only writes of resources of this kind.
    #[param(inline)]
    pub kind: Option<IntentKind>,
    /// Only writes of resources of this name; a member's is `group/host`.
    pub name: Option<String>,
    /// Only writes of the principal with this name.
    pub by: Option<String>,
    /// Only this kind of write: `create`, `update`, `delete` or `rotate`; of a commit `begin`, `confirm`, `extend`, `cancel` or `expire`.
    #[param(value_type = Option<String>)]
    pub action: Option<Action>,
    /// Only writes of the last so many seconds, on the controller's clock.
    pub within_seconds: Option<u64>,
    /// Only what the request with this id wrote, 32 hexadecimal digits; with that of a change set, its resources.
    #[param(pattern = "^(?!0{32})[0-9a-f]{32}$")]
    pub request: Option<String>,
    /// The joins and leaves of hosts, instead of what operators wrote.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hosts: bool,
    /// Send changes as server-sent events instead of a list.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub watch: bool,
    /// With `watch`: id of the last event that was received; without it, the stream begins with the newest 1,000 entries.
    pub after: Option<String>,
    /// With `watch`: how long the stream lasts, 1..=3600 seconds; 300 when absent.
    pub timeout_seconds: Option<u64>,
}

/// A resource whose versions are wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct VersionQuery {
    /// `Topology`, `Drain` or `Group`.
    #[param(inline)]
    pub kind: IntentKind,
    /// Its name; the topology's is `default`.
    pub name: String,
}

/// Parameters of a stream of changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct WatchQuery {
    /// Send changes as server-sent events instead of a list.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub watch: bool,
    /// With `watch`: id of the last event that was received; without it, the stream begins with the present state.
    pub after: Option<String>,
    /// With `watch`: how long the stream lasts, 1..=3600 seconds; 300 when absent.
    pub timeout_seconds: Option<u64>,
}

impl WatchQuery {
    /// A stream that continues after this id, or begins with the present state.
    pub fn new(after: Option<String>) -> Self {
        Self { watch: true, after, timeout_seconds: None }
    }
}

/// Parameters of the stream of several kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct TopicsQuery {
    /// Kinds, separated by commas: `groups`, `nodes`, `problems`, `events`, `topology`, `drains`, `commits`, `audit`.
    pub topics: String,
    /// How long the stream lasts, 1..=3600 seconds; 300 when absent.
    pub timeout_seconds: Option<u64>,
}

/// Filter and page of groups.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct ListQuery {
    /// Groups on this page, 1..=500; 100 when absent.
    pub limit: Option<usize>,
    /// Token from the previous page.
    #[serde(rename = "continue")]
    #[param(rename = "continue")]
    pub next: Option<String>,
    /// Only groups whose name begins with this.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name_prefix: String,
    /// `key=value`, `key!=value`, `key in (a,b)`, `key notin (a,b)`, `key` or `!key`, separated by commas; all must hold.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label_selector: String,
    /// `field=value,field!=value`; all must hold. The fields are `name`, `phase`, `source` and `tenant`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field_selector: String,
    /// Only groups in this phase; the same as `fieldSelector=phase=...`.
    #[param(inline)]
    pub phase: Option<GroupPhase>,
    /// Send changes as server-sent events instead of a list.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub watch: bool,
    /// With `watch`: id of the last event that was received; without it, the stream begins with the present state.
    pub after: Option<String>,
    /// With `watch`: how long the stream lasts, 1..=3600 seconds; 300 when absent.
    pub timeout_seconds: Option<u64>,
}

/// Filter and page of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct NodeQuery {
    /// Nodes on this page, 1..=500; 100 when absent.
    pub limit: Option<usize>,
    /// Token from the previous page.
    #[serde(rename = "continue")]
    #[param(rename = "continue")]
    pub next: Option<String>,
    /// `key=value`, `key!=value`, `key in (a,b)`, `key notin (a,b)`, `key` or `!key`, separated by commas; all must hold.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label_selector: String,
    /// `field=value,field!=value`; all must hold. The fields are `connected`, `name`, `state` and `synced`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field_selector: String,
    /// Only nodes whose name contains this.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name_contains: String,
    /// Without the ports of each node, of which there may be hundreds: `portCount` has how many.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub summary: bool,
    /// Send changes as server-sent events instead of a list.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub watch: bool,
    /// With `watch`: id of the last event that was received; without it, the stream begins with the present state.
    pub after: Option<String>,
    /// With `watch`: how long the stream lasts, 1..=3600 seconds; 300 when absent.
    pub timeout_seconds: Option<u64>,
}

/// Filter and page of link directions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct LinkQuery {
    /// Directions on this page, 1..=500; 100 when absent.
    pub limit: Option<usize>,
    /// Token from the previous page.
    #[serde(rename = "continue")]
    #[param(rename = "continue")]
    pub next: Option<String>,
    /// `field=value,field!=value`; all must hold. The fields are `drained`, `link`, `name`, `node`, `queue`, `state` and `to`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field_selector: String,
}

/// Filter of drains.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct DrainQuery {
    /// `key=value`, `key!=value`, `key in (a,b)`, `key notin (a,b)`, `key` or `!key`, separated by commas; all must hold.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label_selector: String,
    /// `field=value,field!=value`; all must hold. The fields are `link`, `name` and `node`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field_selector: String,
    /// Send changes as server-sent events instead of a list.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub watch: bool,
    /// With `watch`: id of the last event that was received; without it, the stream begins with the present state.
    pub after: Option<String>,
    /// With `watch`: how long the stream lasts, 1..=3600 seconds; 300 when absent.
    pub timeout_seconds: Option<u64>,
}

/// Filter and page of hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct HostQuery {
    /// Hosts on this page, 1..=500; 100 when absent.
    pub limit: Option<usize>,
    /// Token from the previous page.
    #[serde(rename = "continue")]
    #[param(rename = "continue")]
    pub next: Option<String>,
    /// `field=value,field!=value`; all must hold. The fields are `name`, `node` and `port`, the state of the node's port.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field_selector: String,
    /// Only hosts whose name contains this.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name_contains: String,
}

/// A page of tenants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct TenantQuery {
    /// Tenants on this page, 1..=500; 100 when absent.
    pub limit: Option<usize>,
    /// Token from the previous page.
    #[serde(rename = "continue")]
    #[param(rename = "continue")]
    pub next: Option<String>,
}

/// Filter for events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct EventQuery {
    /// Number of newest events, 1..=4096; 200 when absent.
    pub limit: Option<usize>,
    /// Only events of this group.
    pub group: Option<String>,
    /// Only events of this node.
    pub node: Option<String>,
    /// Only events with this code.
    pub code: Option<String>,
    /// Only events with a smaller sequence number: those before a list, by its first one.
    pub before: Option<String>,
    /// Only events of the last so many seconds, on the controller's clock.
    pub within_seconds: Option<u64>,
    /// Only events with a larger sequence number; with `watch`, the id of the last event that was received.
    pub after: Option<String>,
    /// Send changes as server-sent events instead of a list.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub watch: bool,
    /// With `watch`: how long the stream lasts, 1..=3600 seconds; 300 when absent.
    pub timeout_seconds: Option<u64>,
}

/// Filter for problems.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct ProblemQuery {
    /// Number of problems, 1..=5000; 200 when absent.
    pub limit: Option<usize>,
    /// Only problems that no other open problem explains.
    #[serde(default)]
    pub root: bool,
    /// Only problems of this severity.
    #[param(inline)]
    pub severity: Option<Severity>,
    /// With `name`: only problems of this object, and those that affect it.
    #[param(inline)]
    pub kind: Option<SubjectKind>,
    /// The object's name.
    pub name: Option<String>,
    /// `field=value,field!=value`; all must hold. The fields are `code`, `kind`, `name`, `root` and `severity`; kind and name of the object itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field_selector: String,
    /// Send changes as server-sent events instead of a list.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub watch: bool,
    /// With `watch`: id of the last event that was received; without it, the stream begins with the present state.
    pub after: Option<String>,
    /// With `watch`: how long the stream lasts, 1..=3600 seconds; 300 when absent.
    pub timeout_seconds: Option<u64>,
}

/// Filter of incidents.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct IncidentQuery {
    /// Number of incidents, 1..=200; 50 when absent.
    pub limit: Option<usize>,
    /// Only those of the problem with this id.
    pub problem: Option<String>,
}

/// Number of receivers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct LimitQuery {
    /// Number of receivers, 1..=1000; 10 when absent.
    pub limit: Option<usize>,
}

/// A pair of hosts, and a page of its paths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct PathQuery {
    /// The source.
    pub from: String,
    /// The destination.
    pub to: String,
    /// Which uSIDs name the paths: `nodes` (when absent), or `links`.
    #[param(inline)]
    pub style: Option<PathStyle>,
    /// Paths on this page, 1..=500; 100 when absent.
    pub limit: Option<usize>,
    /// Token from the previous page.
    #[serde(rename = "continue")]
    #[param(rename = "continue")]
    pub next: Option<String>,
}

/// A captured outer header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct DecodeQuery {
    /// Destination Address.
    #[param(value_type = String)]
    pub address: Ipv6Addr,
    /// Segment List of the SRH in the order of the wire, separated by commas, if it has one.
    pub segments: Option<String>,
    /// Segments Left of the SRH.
    pub segments_left: Option<u8>,
    /// The node that the packet was captured at; required if the first uSID is a uA.
    pub at: Option<String>,
}

/// Filter for flows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct FlowQuery {
    /// Number of flows, 1..=4096; 200 when absent.
    pub limit: Option<usize>,
    /// Only flows through this node.
    pub node: Option<String>,
    /// Only flows that leave through this port; requires `node`.
    pub port: Option<String>,
}

/// What of a layer of the map is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct LayerQuery {
    /// `revision` of the values that the caller has: only what changed since is sent, if that is known.
    pub since: Option<String>,
}

/// Charts that are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct ChartQuery {
    /// `fleet`, `group/G`, `branch/G/NODE/ADDRESS`, `link/NODE/PORT` or `node/NODE`.
    pub object: String,
    /// Only this series; all of the object when absent.
    pub series: Option<String>,
    /// Seconds since the Unix epoch; 5 minutes before `to` when absent.
    pub from: Option<u64>,
    /// Seconds since the Unix epoch; now when absent.
    pub to: Option<u64>,
    /// Seconds per point; the finest that is kept since `from` when absent. All series of an answer have at most 3600 points together.
    pub step: Option<u64>,
}
