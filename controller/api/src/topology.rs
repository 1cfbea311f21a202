// SPDX-License-Identifier: Apache-2.0
//! The network.

use std::sync::Arc;

use canopy_controller_core::view;
use canopy_model::topology::TopologySpec;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::condition::{Condition, conditions};
use crate::metadata::Metadata;
use crate::resource::resource;
use crate::{ApiVersion, Kind};

resource!(
    /// The network.
    TopologyResource, Metadata, Arc<TopologySpec> as TopologySpec, TopologyStatus
);

impl From<view::TopologyView> for TopologyResource {
    fn from(v: view::TopologyView) -> Self {
        let view::TopologyView { metadata, spec, status } = v;
        Self { api_version: ApiVersion, kind: Kind::Topology, metadata: metadata.into(), spec, status: status.into() }
    }
}

/// Observed state of the network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopologyStatus {
    /// Declared nodes.
    pub nodes: u32,
    /// Of these, nodes whose agent is connected.
    pub connected_nodes: u32,
    /// Of these, nodes that run exactly their desired state.
    pub synced_nodes: u32,
    /// Declared hosts.
    pub hosts: u32,
    /// Declared links.
    pub links: u32,
    /// Of these, links of hosts.
    #[serde(default)]
    pub host_links: u32,
    /// Summary.
    pub conditions: Vec<Condition>,
}

from_fields!(view::TopologyStatus { nodes, connected_nodes, synced_nodes, hosts, links, host_links } { conditions = self::conditions(conditions) });
