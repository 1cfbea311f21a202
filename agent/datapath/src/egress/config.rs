// SPDX-License-Identifier: Apache-2.0
//! Configuration of the watcher: the ports with their limits, and the flows whose source QP is known.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use canopy_agent_core::congestion::{FlowKey, FourTuple, Limits};
use canopy_bpf::node::types;
use canopy_model::ids::PortIndex;
use canopy_model::node_spec::{BranchKind, NodeSpec};

/// A watched port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortConfig {
    pub(crate) ifindex: u32,
    pub(crate) limits: Limits,
}

/// A flow whose source QP is provisioned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownFlow {
    /// The flow by the headers of its packets when they leave this node, and its source QP.
    pub(crate) flow: FourTuple,
    /// Destination of CNPs: the source address of the flow, or the source host if the packets carry a Proxy Address.
    pub(crate) notify: Ipv6Addr,
    /// The source's endpoint is registered as accepting the RoCEv2 format.
    pub(crate) accepts_roce: bool,
}

/// Configuration of the watcher, from the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WatcherConfig {
    /// Source address of CNPs.
    pub(crate) node_address: Ipv6Addr,
    /// Device Identifier in CNPs.
    pub(crate) device: String,
    pub(crate) ports: BTreeMap<PortIndex, PortConfig>,
    pub(crate) flows: BTreeMap<FlowKey, KnownFlow>,
}

impl WatcherConfig {
    /// The configuration of a spec; `ifindexes` are those of existing ports. For ports without thresholds, packets are not marked and no
    /// CNPs are sent.
    pub(crate) fn new(spec: &NodeSpec, ifindexes: &BTreeMap<PortIndex, u32>) -> Self {
        let ports = spec.base.ports.iter().filter_map(|port| {
            let t = port.thresholds?;
            let limits = Limits::new(t.k_min_bytes, t.k_max_bytes, t.rtt_ns);
            Some((port.index, PortConfig { ifindex: *ifindexes.get(&port.index)?, limits }))
        });
        Self {
            node_address: spec.base.node_address,
            device: spec.base.name.clone(),
            ports: ports.collect(),
            flows: group_flows(spec).into_iter().map(|known| (known.flow.key, known)).collect(),
        }
    }

    /// The limits in the form of the program's map.
    pub(crate) fn kernel_limits(&self) -> BTreeMap<u32, types::canopy_limits> {
        let render = |l: &Limits| types::canopy_limits { k_min: l.k_min_bytes, rtt_ns: l.rtt_ns };
        self.ports.values().map(|port| (port.ifindex, render(&port.limits))).collect()
    }
}

/// The flows of the multicast groups, whose source QP is in the spec: on the tree to the Proxy Address, after an edge from it.
fn group_flows(spec: &NodeSpec) -> Vec<KnownFlow> {
    let mut flows = Vec::new();
    for g in spec.groups.values() {
        let mut add = |key| {
            let flow = FourTuple { key, src_qp: g.source.qpn };
            flows.push(KnownFlow { flow, notify: g.source.address, accepts_roce: g.source.accepts_roce });
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
