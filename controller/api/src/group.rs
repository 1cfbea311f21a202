// SPDX-License-Identifier: Apache-2.0
//! Multicast groups.

use std::net::Ipv6Addr;

use canopy_controller_core::{encoding, view};
use canopy_model::group::{EncodingMode, GroupSpec};
use canopy_model::ids::{Generation, GroupId, Qpn, TreeId};
use canopy_model::member::Connection;
use canopy_model::status::{GroupPhase, ItemError};
use canopy_units::Octets;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::condition::{Condition, conditions};
use crate::health::Delivery;
use crate::metadata::Metadata;
use crate::resource::resource;
use crate::{ApiVersion, Kind};

resource!(
    /// A multicast group.
    GroupResource, Metadata, GroupSpec, GroupStatus
);

impl From<view::GroupView> for GroupResource {
    fn from(v: view::GroupView) -> Self {
        let view::GroupView { metadata, spec, status } = v;
        Self { api_version: ApiVersion, kind: Kind::Group, metadata: metadata.into(), spec, status: status.into() }
    }
}

/// Observed state of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupStatus {
    /// Phase of its life cycle.
    pub phase: GroupPhase,
    /// Why, as text for operators: names the node, the cause and what to do. Empty when `Ready`.
    pub reason: String,
    /// Whether the source's data is acknowledged, as the headend reported last; absent before its first report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Delivery>,
    /// `Planned`, `Programmed`, `Open`, `Healthy`, `AgentsConnected`, `Delivering`, `Stalled`, `Lossy`; the last two name the receivers or nodes
    /// that stall the group, and the links of its tree that lose packets.
    pub conditions: Vec<Condition>,
    /// Generation of the group that the rest of this status reflects.
    pub observed_generation: Generation,
    /// Compact identifier in node state and telemetry.
    pub group_id: GroupId,
    /// Replication tree (RFC 9524).
    pub tree_id: TreeId,
    /// Grows with every change of tree or membership.
    pub epoch: u32,
    /// The remote side that members configure into their QPs.
    pub connection: Connection,
    /// Host of the source, if one joined.
    pub source: Option<String>,
    /// Number of receivers.
    pub receivers: u32,
    /// Hosts of receivers that joined late and get no data yet: their queue pairs have not answered a probe.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probing: Vec<String>,
    /// Receivers that the stall policy removed since the source joined and that have not joined again, oldest first.
    pub evicted: Vec<Evicted>,
    /// How receiver lists are distributed; `None` while there is no tree.
    pub encoding: Option<EncodingReport>,
    /// The tree, root first, every parent before its children; empty while there is none.
    pub tree: Vec<TreeNodeView>,
    /// Progress of each tree node, in the tree's order.
    pub nodes: Vec<NodeProgress>,
}

from_fields!(view::GroupStatus {
    phase, reason, observed_generation, group_id, tree_id, epoch, connection, source, receivers, probing,
} {
    delivery = delivery.map(Into::into),
    conditions = self::conditions(conditions),
    evicted = evicted.into_iter().map(Into::into).collect(),
    encoding = encoding.map(Into::into),
    tree = tree.into_iter().map(Into::into).collect(),
    nodes = nodes.into_iter().map(Into::into).collect(),
});

/// A receiver that the stall policy removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Evicted {
    /// Its host.
    pub host: String,
    /// Why, as text for operators.
    pub reason: String,
}

from_fields!(view::Evicted { host, reason });

/// The encoding chosen for a group, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EncodingReport {
    /// The mode in force.
    pub mode: EncodingMode,
    /// Why, with the numbers that decided it.
    pub reason: String,
    /// Size of the SRH in bytes, TLVs and padding included.
    pub srh_bytes: u32,
    /// Bytes that encapsulation adds to each packet: the outer IPv6 header and the SRH.
    pub overhead_bytes: u32,
    /// Segment List in wire order: `[0]` the Proxy Address, `[1]` the tree's first SID.
    #[schema(value_type = Vec<String>)]
    pub segments: Vec<Ipv6Addr>,
    /// Edge nodes whose receiver lists are in End.MT TLVs, in the tree's order.
    pub in_band_edges: Vec<String>,
    /// Edge nodes that hold their receivers as provisioned state, in the tree's order.
    pub provisioned_edges: Vec<String>,
}

from_fields!(encoding::EncodingReport {
    mode,
    reason,
    segments,
    in_band_edges,
    provisioned_edges,
} [srh, overhead] {
    srh_bytes = octets(srh),
    overhead_bytes = octets(overhead),
});

/// The sizes of headers are far below 2^32.
fn octets(size: Octets) -> u32 {
    u32::try_from(size.get()).unwrap_or(u32::MAX)
}

/// One node of a tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TreeNodeView {
    /// Node name.
    pub node: String,
    /// Parent node; `None` at the root.
    pub parent: Option<String>,
    /// Its roles, in the order headend, transit, edge.
    pub roles: Vec<TreeRole>,
    /// SID that copies for this node are addressed to.
    #[schema(value_type = String)]
    pub sid: Ipv6Addr,
    /// Interface toward the parent; at the root, toward the source.
    pub upstream_port: String,
    /// Branches, child nodes first.
    pub branches: Vec<BranchView>,
}

from_fields!(view::TreeNodeView { node, parent, sid, upstream_port } {
    roles = roles.into_iter().map(Into::into).collect(),
    branches = branches.into_iter().map(Into::into).collect(),
});

/// A node's role in a tree; a node may have several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum TreeRole {
    /// Encapsulates the source's packets (decisions 2.1).
    Headend,
    /// Replicates to other nodes (RFC 9524 End.Replicate).
    Transit,
    /// Runs End.MT for receivers on its own ports.
    Edge,
}

impl From<view::TreeRole> for TreeRole {
    fn from(role: view::TreeRole) -> Self {
        match role {
            view::TreeRole::Headend => Self::Headend,
            view::TreeRole::Transit => Self::Transit,
            view::TreeRole::Edge => Self::Edge,
        }
    }
}

/// One branch of a tree node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BranchView {
    /// Child node or receiver host.
    pub name: String,
    /// `node` or `receiver`.
    pub kind: BranchRole,
    /// Address that identifies the branch on the reverse path.
    #[schema(value_type = String)]
    pub address: Ipv6Addr,
    /// Receiver's QPN.
    pub qpn: Option<Qpn>,
    /// Interface that the branch is attached to.
    pub port: String,
}

from_fields!(view::BranchView { name, address, qpn, port } { kind = kind.into() });

/// Kind of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum BranchRole {
    /// A child node.
    Node,
    /// A receiver.
    Receiver,
}

impl From<view::BranchRole> for BranchRole {
    fn from(role: view::BranchRole) -> Self {
        match role {
            view::BranchRole::Node => Self::Node,
            view::BranchRole::Receiver => Self::Receiver,
        }
    }
}

/// Progress of one tree node with a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeProgress {
    /// Node name.
    pub node: String,
    /// Generation of the node's spec that first carried the group's present program.
    pub desired_generation: Generation,
    /// Generation of the present term that the agent last reconciled; `None` before its first report of one.
    pub observed_generation: Option<Generation>,
    /// The agent has a live connection.
    pub connected: bool,
    /// Errors at this node that affect this group.
    pub errors: Vec<ItemError>,
}

from_fields!(view::NodeProgress { node, desired_generation, observed_generation, connected, errors });
