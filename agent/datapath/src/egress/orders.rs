// SPDX-License-Identifier: Apache-2.0
//! What the node is to watch: its ports with their limits, and the flows whose source QP is known.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use canopy_agent_core::congestion::{FlowKey, FourTuple, Limits};
use canopy_model::ids::PortIndex;
use canopy_model::node_spec::{BranchKind, NodeSpec};

use crate::egress_skel::types;

/// Events of a port in user space: as many a second as the node may speak, a few at once.
const EVENT_NS: u64 = 1_000_000;
const EVENTS_AT_ONCE: u64 = 64;

/// A port to watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WatchedPort {
    pub(crate) ifindex: u32,
    pub(crate) limits: Limits,
}

/// A flow whose source QP is provisioned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownFlow {
    /// The flow, as its packets show it where they leave this node, and its source QP.
    pub(crate) flow: FourTuple,
    /// Who is to be told: the flow's source address, or the source host where packets carry a Proxy Address.
    pub(crate) tell: Ipv6Addr,
    /// The source's endpoint is registered as accepting the RoCEv2 format.
    pub(crate) accepts_roce: bool,
}

/// Everything that the controller decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Orders {
    /// SA of what the node says.
    pub(crate) node_address: Ipv6Addr,
    /// Device Identifier.
    pub(crate) device: String,
    pub(crate) ports: BTreeMap<PortIndex, WatchedPort>,
    pub(crate) flows: BTreeMap<FlowKey, KnownFlow>,
}

impl Orders {
    /// From a spec; `ifindexes` are those of ports that exist. Ports without thresholds mark nothing and complain of nothing.
    pub(crate) fn new(spec: &NodeSpec, ifindexes: &BTreeMap<PortIndex, u32>) -> Self {
        let ports = spec.base.ports.iter().filter_map(|port| {
            let t = port.thresholds?;
            let limits = Limits::new(t.k_min_bytes, t.k_max_bytes, t.rtt_ns);
            Some((port.index, WatchedPort { ifindex: *ifindexes.get(&port.index)?, limits }))
        });
        Self {
            node_address: spec.base.node_address,
            device: spec.base.name.clone(),
            ports: ports.collect(),
            flows: group_flows(spec).into_iter().map(|known| (known.flow.key, known)).collect(),
        }
    }

    /// The limits as the program wants them.
    pub(crate) fn kernel_limits(&self) -> BTreeMap<u32, types::canopy_limits> {
        let render = |l: &Limits| types::canopy_limits {
            k_min: l.k_min_bytes,
            k_max: l.k_max_bytes,
            rtt_ns: l.rtt_ns,
            event_ns: EVENT_NS,
            event_burst_ns: EVENT_NS * EVENTS_AT_ONCE,
        };
        self.ports.values().map(|port| (port.ifindex, render(&port.limits))).collect()
    }
}

/// Multicast groups are flows whose source QP the spec has: on the tree to the Proxy Address, behind an edge from it.
fn group_flows(spec: &NodeSpec) -> Vec<KnownFlow> {
    let mut flows = Vec::new();
    for g in spec.groups.values() {
        let mut add = |key| {
            let flow = FourTuple { key, src_qp: g.source.qpn };
            flows.push(KnownFlow { flow, tell: g.source.address, accepts_roce: g.source.accepts_roce });
        };
        add(FlowKey { src: g.source.address, dst: g.proxy, dst_qp: g.designated_qpn });
        for b in &g.branches {
            if let BranchKind::Receiver { qpn, .. } = b.kind {
                add(FlowKey { src: g.proxy, dst: b.address, dst_qp: qpn });
            }
        }
    }
    flows
}
