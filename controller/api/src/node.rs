// SPDX-License-Identifier: Apache-2.0
//! Forwarding nodes.

use std::net::Ipv6Addr;

use canopy_controller_core::{states, view};
use canopy_model::ids::{Generation, NodeId, PortIndex};
use canopy_model::status::ItemError;
use ipnet::Ipv6Net;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::condition::{Condition, conditions};
use crate::metadata::Metadata;
use crate::resource::resource;
use crate::retirement::Retirement;
use crate::{ApiVersion, Kind};

resource!(
    /// A forwarding node.
    NodeResource, Metadata, NodeDesired, NodeObserved
);

impl From<view::NodeView> for NodeResource {
    fn from(v: view::NodeView) -> Self {
        let view::NodeView { name, labels, spec, status } = v;
        let metadata = Metadata { labels, ..Metadata::derived(name, spec.generation) };
        Self { api_version: ApiVersion, kind: Kind::Node, metadata, spec: spec.into(), status: status.into() }
    }
}

/// A node's desired state, without the groups' programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeDesired {
    /// Number in the locator.
    pub id: NodeId,
    /// The node's own address.
    #[schema(value_type = String)]
    pub node_address: Ipv6Addr,
    /// uN, the node's locator.
    #[schema(value_type = String)]
    pub un: Ipv6Net,
    /// End.MT SID.
    #[schema(value_type = String)]
    pub end_mt: Ipv6Addr,
    /// Term of the controller that desires it.
    pub term: u64,
    /// Generation of the node's desired state, within the term.
    pub generation: Generation,
    /// Ports in index order; empty in a list with `summary`.
    pub ports: Vec<PortView>,
    /// Number of ports.
    #[serde(default)]
    pub port_count: u32,
    /// Number of unicast routes.
    pub routes: u32,
    /// Number of groups with a program at this node.
    pub groups: u32,
}

from_fields!(view::NodeDesired { id, node_address, un, end_mt, term, generation, port_count, routes, groups } {
    ports = ports.into_iter().map(Into::into).collect(),
});

/// One port of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PortView {
    /// Index on the node.
    pub index: PortIndex,
    /// Interface name.
    pub name: String,
    /// Node or host at the far end.
    pub peer: String,
    /// IPv6 MTU in bytes.
    pub mtu: u32,
    /// Link-local address of this end.
    #[schema(value_type = String)]
    pub link_local: Ipv6Addr,
    /// Queue thresholds in the node's desired state; `null` where the rate is not known, or the round-trip time to
    /// another node.
    pub thresholds: Option<PortThresholdsView>,
}

from_fields!(view::PortView { index, name, peer, mtu, link_local } { thresholds = thresholds.map(Into::into) });

/// Queue thresholds in a node's desired state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PortThresholdsView {
    /// K_min in octets.
    pub k_min_bytes: u64,
    /// K_max in octets.
    pub k_max_bytes: u64,
    /// RTT_est in nanoseconds.
    pub rtt_ns: u64,
    /// R_port in bits per second.
    pub port_rate_bps: u64,
    /// V_ecn in packets per thousand: a higher ECN marking rate is second-level congestion.
    pub v_ecn: u16,
    /// V_growth in octets per millisecond: a queue that grows faster is second-level congestion.
    pub v_growth_bytes_per_ms: u64,
}

from_fields!(view::PortThresholdsView { v_ecn } [k_min, k_max, rtt, port_rate, v_growth] {
    k_min_bytes = k_min.get(),
    k_max_bytes = k_max.get(),
    rtt_ns = canopy_units::nanos(rtt),
    port_rate_bps = port_rate.bps(),
    v_growth_bytes_per_ms = v_growth.get(),
});

/// State that a node's agent last reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeObserved {
    /// Whether it has what it was given; of a controller of an earlier version, `NotReported`.
    #[serde(default)]
    pub state: NodeState,
    /// The agent has a live connection to this controller.
    pub connected: bool,
    /// Term of what the agent last reconciled; `None` before its first report.
    pub observed_term: Option<u64>,
    /// Generation, within that term, that the agent last reconciled; `None` before its first report.
    pub observed_generation: Option<Generation>,
    /// Digest of what the agent last reconciled, 64 hexadecimal digits; empty before its first report.
    pub observed_digest: String,
    /// Version of the southbound contract that agent and controller agreed on, such as `1.2`; empty before its first report.
    pub contract: String,
    /// Items that are not in the kernel as desired.
    pub errors: Vec<ItemError>,
    /// Agent version, empty before the first report.
    pub agent_version: String,
    /// Kernel release, empty before the first report.
    pub kernel: String,
    /// Where Prometheus finds the agent's metrics, `host:port`; empty if it serves none.
    #[serde(default)]
    pub metrics_address: String,
    /// `Connected`, `Synced`, `Healthy`.
    pub conditions: Vec<Condition>,
    /// Present while the node leaves for good, and once it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retirement: Option<Retirement>,
}

from_fields!(view::NodeObserved {
    connected, observed_term, observed_generation, observed_digest, contract, errors, agent_version, kernel, metrics_address,
} { state = state.into(), conditions = self::conditions(conditions), retirement = retirement.map(Into::into) });

words!(
    /// Whether a node has what it was given.
    states::NodeState, NotReported {
        /// Its kernel has the desired state.
        InSync,
        /// It has the desired generation, but for some items.
        ItemErrors,
        /// It has an earlier generation, or one of another term.
        Behind,
        /// Its agent is connected, and has not reported yet.
        NotReported,
        /// Its agent is away and is to be back soon.
        Restarting,
        /// It is leaving for good.
        Retiring,
        /// It has left for good.
        Retired,
        /// Its agent is not connected.
        NotConnected,
    }
);
