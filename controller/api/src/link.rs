// SPDX-License-Identifier: Apache-2.0
//! Directions of links, their queues and the flows through them.

use canopy_controller_core::{states, threshold, view};
use canopy_model::congestion::{FlowTelemetry, QueueTelemetry};
use canopy_units::{Octets, Rate, nanos};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::health::Severity;
use crate::metadata::Metadata;
use crate::resource::resource;
use crate::{ApiVersion, Kind};

resource!(
    /// One direction of a link; its name is the sending port, its generation the topology's.
    LinkResource, Metadata, LinkDesired, LinkObserved
);

impl From<view::LinkView> for LinkResource {
    fn from(v: view::LinkView) -> Self {
        let view::LinkView { name, generation, spec, status } = v;
        let metadata = Metadata::derived(name, generation);
        Self { api_version: ApiVersion, kind: Kind::Link, metadata, spec: spec.into(), status: status.into() }
    }
}

/// Inputs of a link direction's thresholds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LinkDesired {
    /// The link, `a--b`.
    pub link: String,
    /// Device and port at the far end.
    pub to: String,
    /// The topology or a drain takes the link out of service.
    #[serde(default)]
    pub drained: bool,
    /// R_port in bits per second; 0 = not known.
    pub rate_bps: u64,
    /// Octets that the sending port can queue; `null` = not known.
    pub buffer_bytes: Option<u64>,
    /// alpha in thousandths, the link's or the controller's.
    pub alpha: u16,
    /// K_base in octets, the link's or the controller's.
    pub k_base_bytes: u64,
    /// V_ecn of the sending port in packets per thousand, the link's or the controller's.
    pub v_ecn: u16,
    /// V_growth of the sending port in octets per millisecond, the link's or the controller's; `null`: from K_min to K_max in one RTT_est.
    pub v_growth_bytes_per_ms: Option<u64>,
    /// The link's configured round-trip time in microseconds.
    pub rtt_us: Option<u64>,
}

from_fields!(view::LinkDesired { link, to, drained, alpha, v_ecn } [rate, buffer, k_base, v_growth, rtt] {
    rate_bps = rate.bps(),
    buffer_bytes = buffer.map(Octets::get),
    k_base_bytes = k_base.get(),
    v_growth_bytes_per_ms = v_growth.map(Octets::get),
    rtt_us = rtt.map(|rtt| nanos(rtt) / 1_000),
});

/// Measurements of a link direction and the resulting thresholds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LinkObserved {
    /// Whether it carries what it is asked to; of a controller of an earlier version, `NotReported`.
    #[serde(default)]
    pub state: LinkState,
    /// The worst open problem of the link or of its sending port; `null` if there is none.
    #[serde(default)]
    pub problem: Option<LinkProblem>,
    /// Round-trip times.
    pub rtt: LinkRttView,
    /// Thresholds pushed to the node; `null` while there are none.
    pub thresholds: Option<Thresholds>,
    /// Why there are no thresholds, and what to do; empty if there are.
    pub reason: String,
    /// Changes since the controller started or the link was declared.
    pub pushes: u64,
    /// Nanoseconds since the last change.
    pub pushed_ago_ns: Option<u64>,
    /// RTT_est that the thresholds were computed from, nanoseconds; without one, the time in which K_max is sent.
    pub pushed_rtt_ns: Option<u64>,
    /// State of the sending port's queue; `null` while there are no thresholds, the node's agent is not connected, or
    /// it reported nothing for a minute.
    pub congestion: Option<LinkCongestion>,
    /// Loss of packets; `null` before the first report, and for links to hosts.
    pub loss: Option<LinkLossView>,
}

from_fields!(view::LinkObserved { reason, pushes } [state, trouble, rtt, thresholds, congestion, loss, pushed_ago, pushed_rtt] {
    state = state.into(),
    problem = trouble.map(Into::into),
    pushed_ago_ns = pushed_ago.map(nanos),
    pushed_rtt_ns = pushed_rtt.map(nanos),
    rtt = rtt.into(),
    thresholds = thresholds.map(Into::into),
    congestion = congestion.map(Into::into),
    loss = loss.map(Into::into),
});

words!(
    /// Whether a link direction carries what it is asked to.
    states::LinkState, NotReported {
        /// Nothing is known to be wrong.
        InService,
        /// A problem of the link or of its sending port is open.
        Problem,
        /// The topology or a drain takes the link out of service.
        Drained,
        /// What is known of it is old: the agent of its sending node is not connected any more.
        AgentNotConnected,
        /// The agent of its sending node has not reported yet.
        NotReported,
    }
);

/// An open problem of a link or port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LinkProblem {
    /// Stable code; `canopyctl explain CODE` prints what is known of it.
    pub code: String,
    /// How bad it is.
    pub severity: Severity,
}

impl From<states::Trouble> for LinkProblem {
    fn from(of: states::Trouble) -> Self {
        Self { code: of.code.to_string(), severity: of.severity.into() }
    }
}

/// What a link direction loses: by ICMPv6 Echo Requests of the agent at the sending port, and by the data of groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LinkLossView {
    /// Requests whose fate is known, since the agent started.
    pub requests: u64,
    /// Those without a reply: the request or the reply was lost.
    pub lost: u64,
    /// Packets that the port's own queue dropped.
    pub queue_drops: u64,
    /// Data packets of groups that had to arrive at the other end, without retransmissions, since the controller started or the topology
    /// declared the link.
    pub data_packets: u64,
    /// Those that did not arrive in their turn.
    pub data_lost: u64,
    /// Packets of a thousand that the link lost when it was found to lose packets (event `LinkLossy`); `null` while it does not.
    pub permille: Option<u16>,
}

from_fields!(view::LinkLossView { requests, lost, queue_drops, data_packets, data_lost, permille });

/// Round-trip times of a link, nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LinkRttView {
    /// As configured.
    pub configured_ns: Option<u64>,
    /// The newest that the node's STAMP session measured.
    pub measured_ns: Option<u64>,
    /// The smallest measured in the last 2.4 s.
    pub filtered_ns: Option<u64>,
    /// RTT_est: as configured, else filtered, else as before the controller's restart.
    pub estimate_ns: Option<u64>,
    /// Test packets answered since the agent started.
    pub samples: u64,
    /// Test packets lost since the agent started.
    pub lost: u64,
    /// Measurements that the controller refused since the link was declared: shorter than `thresholds.min_rtt`.
    pub refused: u64,
    /// Nanoseconds since the agent last reported.
    pub reported_ago_ns: Option<u64>,
}

from_fields!(view::LinkRttView { samples, lost, refused } [configured, measured, filtered, estimate, reported_ago] {
    configured_ns = configured.map(nanos),
    measured_ns = measured.map(nanos),
    filtered_ns = filtered.map(nanos),
    estimate_ns = estimate.map(nanos),
    reported_ago_ns = reported_ago.map(nanos),
});

/// Thresholds of one link direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Thresholds {
    /// K_max in octets: above it, second-level response.
    pub k_max_bytes: u64,
    /// K_min in octets, below K_max: above it, first-level response (ECN marking).
    pub k_min_bytes: u64,
    /// What decided K_max.
    pub bound: Bound,
}

from_fields!(threshold::Thresholds {} [k_max, k_min, bound] {
    k_max_bytes = k_max.get(),
    k_min_bytes = k_min.get(),
    bound = bound.into(),
});

/// What decided K_max.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", tag = "by")]
pub enum Bound {
    /// The bandwidth-delay product, times alpha.
    BandwidthDelay,
    /// K_base: the product is smaller.
    Base,
    /// The port's buffer: the formula asks for more. With this bound a queue that the formula calls harmless overflows.
    Buffer {
        /// What the formula gives, in octets.
        // By name: utoipa ignores `rename_all_fields`.
        #[serde(rename = "wantedBytes")]
        wanted_bytes: u64,
    },
}

impl From<threshold::Bound> for Bound {
    fn from(bound: threshold::Bound) -> Self {
        match bound {
            threshold::Bound::BandwidthDelay => Self::BandwidthDelay,
            threshold::Bound::Base => Self::Base,
            threshold::Bound::Buffer { wanted } => Self::Buffer { wanted_bytes: wanted.get() },
        }
    }
}

/// The queue of a link direction's sending port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LinkCongestion {
    /// As reported by the node's agent.
    #[serde(flatten)]
    pub queue: QueueTelemetry,
    /// Its largest depth compared with the thresholds; of a controller of an earlier version, `Unknown`.
    #[serde(default)]
    pub state: QueueState,
    /// Bits per second of data packets between the agent's last two reports, from the Ethernet header on; `null` before the second.
    #[serde(default)]
    pub load_bps: Option<u64>,
    /// Nanoseconds since the report.
    pub reported_ago_ns: u64,
}

from_fields!(view::LinkCongestion { queue } [state, reported_ago, load] {
    state = state.into(),
    reported_ago_ns = nanos(reported_ago),
    load_bps = load.map(Rate::bps),
});

words!(
    /// The queue of a sending port, by its largest depth in this window and the one before.
    states::QueueState, Unknown {
        /// It was above K_max.
        AboveKMax,
        /// It was above K_min: packets are marked.
        AboveKMin,
        /// It was below K_min, after packets had been marked or sources notified.
        Marked,
        /// Nothing has been marked there.
        Quiet,
        /// The port has no thresholds, or its agent reported nothing lately.
        Unknown,
    }
);

/// A flow that leaves through a node's port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FlowView {
    /// The node.
    pub node: String,
    /// Its port.
    pub port: String,
    /// As reported by the node's agent.
    #[serde(flatten)]
    pub flow: FlowTelemetry,
    /// Host that sends it, also of copies for its receivers; `null` if the source address is of no host.
    #[serde(default)]
    pub host: Option<String>,
    /// Group whose data or copies it is; `null` for other traffic.
    #[serde(default)]
    pub group: Option<String>,
    /// Nanoseconds since the report.
    pub reported_ago_ns: u64,
}

from_fields!(view::FlowView { node, port, flow, host, group } [reported_ago] { reported_ago_ns = nanos(reported_ago) });
