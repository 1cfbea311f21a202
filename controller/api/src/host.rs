// SPDX-License-Identifier: Apache-2.0
//! Hosts of the topology, with the state of their port and their groups.

use std::net::Ipv6Addr;

use canopy_controller_core::view;
use canopy_model::member::Role;
use ipnet::Ipv6Net;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::metadata::Metadata;
use crate::resource::resource;
use crate::{ApiVersion, Kind};

resource!(
    /// A host; its generation is the topology's.
    HostResource, Metadata, HostDesired, HostObserved
);

impl From<view::HostView> for HostResource {
    fn from(v: view::HostView) -> Self {
        let view::HostView { name, generation, spec, status } = v;
        let metadata = Metadata::derived(name, generation);
        Self { api_version: ApiVersion, kind: Kind::Host, metadata, spec: spec.into(), status: status.into() }
    }
}

/// Where a host is attached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostDesired {
    /// The node of its first link, or of its only one.
    pub node: String,
    /// Port of that node.
    pub port: String,
    /// The prefix routed to its links; members' addresses lie in it.
    #[schema(value_type = String)]
    pub prefix: Ipv6Net,
    /// The host's default address.
    #[schema(value_type = String)]
    pub address: Ipv6Addr,
    /// IPv6 MTU of the first link in bytes.
    pub mtu: u32,
    /// The host may send path programs.
    #[serde(default)]
    pub path_programs: bool,
    /// All its links, the first one too: packets of groups take that one.
    #[serde(default)]
    pub links: Vec<HostLink>,
}

from_fields!(view::HostDesired { node, port, prefix, address, mtu, path_programs } [links] {
    links = links.into_iter().map(Into::into).collect(),
});

/// A link of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostLink {
    /// Its node.
    pub node: String,
    /// Port of that node.
    pub port: String,
    /// IPv6 MTU in bytes.
    pub mtu: u32,
}

from_fields!(view::HostLink { node, port, mtu });

/// A node's port to a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostPort {
    /// The node.
    pub node: String,
    /// Its port.
    pub port: String,
    /// State of the port.
    pub state: PortState,
    /// What is wrong with it, or why its state is not known; empty otherwise.
    pub reason: String,
}

from_fields!(view::HostPort { node, port, reason } [state] {
    state = state.into(),
});

/// What is known of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostObserved {
    /// State of the node's port at its first link.
    pub port: PortState,
    /// What is wrong with that port, or why its state is not known; empty otherwise.
    pub reason: String,
    /// The nodes' ports at all its links, in the order of `spec.links`.
    #[serde(default)]
    pub links: Vec<HostPort>,
    /// By which agent its applications join groups.
    #[serde(default)]
    pub agent: HostAgent,
    /// Groups that it sends to.
    pub sources: u32,
    /// Groups that it receives from.
    pub receivers: u32,
    /// These groups, in name order, the first 1,000; empty in a list of hosts.
    pub groups: Vec<HostGroup>,
}

from_fields!(view::HostObserved { reason, sources, receivers } [port, links, groups] {
    port = port.into(),
    links = links.into_iter().map(Into::into).collect(),
    agent = HostAgent::default(),
    groups = groups.into_iter().map(Into::into).collect(),
});

/// Which agent the applications of a host reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum HostAgent {
    /// That of its node: none of its own is enrolled.
    #[default]
    OfNode,
    /// Its own, which is connected to the controller.
    Connected,
    /// Its own, which is not: applications of the host can neither join nor leave.
    NotConnected,
}

/// State of a port that leads to a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum PortState {
    /// It has an interface with a carrier.
    Up,
    /// Its interface or its carrier is missing.
    Down,
    /// The agent of its node is not connected, or has not reported.
    Unknown,
}

impl From<view::PortState> for PortState {
    fn from(of: view::PortState) -> Self {
        match of {
            view::PortState::Up => Self::Up,
            view::PortState::Down => Self::Down,
            view::PortState::Unknown => Self::Unknown,
        }
    }
}

/// A group that a host is a member of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostGroup {
    /// Name of the group.
    pub name: String,
    /// The host's role in it.
    pub role: Role,
    /// The host belongs to a session that has ended: its queue pair is no longer part of the group.
    pub ended: bool,
}

from_fields!(view::HostGroup { name, role, ended });
