// SPDX-License-Identifier: Apache-2.0
//! The resources of Kubernetes. Their specs are those of the REST API, so that there is one description of each field.

use canopy_model::group::GroupSpec;
use canopy_model::topology::TopologySpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// A group as a platform team declares it; its namespace is its tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq, CustomResource, Serialize, Deserialize)]
#[kube(
    group = "canopy.dev",
    version = "v1alpha1",
    kind = "MulticastGroup",
    plural = "multicastgroups",
    namespaced,
    status = "MulticastGroupStatus",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub struct MulticastGroupSpec {
    /// What becomes of the group with this resource.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
    /// The group.
    #[serde(flatten)]
    pub group: GroupSpec,
}

/// What becomes of what is declared at the controller when its resource is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeletionPolicy {
    /// It is deleted once it has no members; the resource waits for that.
    #[default]
    Delete,
    /// It stays, without a manager.
    Orphan,
}

impl DeletionPolicy {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Delete, Self::Orphan];
}

/// State of a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MulticastGroupStatus {
    /// Generation of the resource that the rest is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Phase of the group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// Why, for people; empty when it is ready.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Host of the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Number of receivers.
    #[serde(default)]
    pub receivers: u32,
    /// `Reconciled`, `Ready`, and those of the controller.
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

/// The network, one for the cluster, named `default`.
#[derive(Clone, Debug, Default, PartialEq, Eq, CustomResource, Serialize, Deserialize)]
#[kube(
    group = "canopy.dev",
    version = "v1alpha1",
    kind = "Topology",
    plural = "topologies",
    status = "TopologyStatus",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub struct TopologyResourceSpec {
    /// What becomes of the topology with this resource.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
    /// The network.
    #[serde(flatten)]
    pub topology: TopologySpec,
}

/// State of the network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TopologyStatus {
    /// Generation of the resource that the rest is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Declared nodes.
    #[serde(default)]
    pub nodes: u32,
    /// Of these, nodes whose agent is connected.
    #[serde(default)]
    pub connected_nodes: u32,
    /// Of these, nodes that run exactly their desired state.
    #[serde(default)]
    pub synced_nodes: u32,
    /// Declared hosts.
    #[serde(default)]
    pub hosts: u32,
    /// Declared links.
    #[serde(default)]
    pub links: u32,
    /// `Reconciled`, and those of the controller.
    #[serde(default)]
    pub conditions: Vec<Condition>,
}
