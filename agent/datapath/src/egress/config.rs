// SPDX-License-Identifier: Apache-2.0
//! Configuration of the watcher: the ports with their limits, and the flows whose source QP is known.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use canopy_agent_core::congestion::{FlowKey, FourTuple, Limits};
use canopy_bpf::node::types;
use canopy_model::ids::PortIndex;
use canopy_model::node_spec::{BranchKind, GroupProgram, NodeBase};
use canopy_model::programs::Programs;
use canopy_units::nanos;
use imbl::OrdMap;

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
    pub(crate) flows: KnownFlows,
}

/// Flows by the headers of their packets; two versions share what they have in common.
pub(crate) type KnownFlows = OrdMap<FlowKey, KnownFlow>;

impl WatcherConfig {
    /// The configuration of a node; `ifindexes` are those of existing ports. For ports without thresholds, packets are not marked and no
    /// CNPs are sent.
    pub(crate) fn new(base: &NodeBase, flows: KnownFlows, ifindexes: &BTreeMap<PortIndex, u32>) -> Self {
        let ports = base.ports.iter().filter_map(|port| {
            let limits = Limits::from(port.thresholds?);
            Some((port.index, PortConfig { ifindex: *ifindexes.get(&port.index)?, limits }))
        });
        Self { node_address: base.node_address, device: base.name.clone(), ports: ports.collect(), flows }
    }

    /// The limits in the form of the program's map.
    pub(crate) fn kernel_limits(&self) -> BTreeMap<u32, types::canopy_limits> {
        let render = |l: &Limits| types::canopy_limits { k_min: l.k_min.get(), rtt_ns: nanos(l.rtt) };
        self.ports.values().map(|port| (port.ifindex, render(&port.limits))).collect()
    }
}

/// The flows of the multicast groups, whose source QP is in the spec: on the tree to the Proxy Address, after an edge from it. A change
/// costs the groups that changed.
#[derive(Default)]
pub(crate) struct GroupFlows {
    programs: Programs,
    flows: KnownFlows,
}

impl GroupFlows {
    /// Follows the groups to `programs`; returns their flows.
    pub(crate) fn follow(&mut self, programs: &Programs) -> KnownFlows {
        let before = std::mem::replace(&mut self.programs, programs.clone());
        let changed = || programs.changed_since(&before);
        for (id, _) in changed() {
            before.get(&id).into_iter().flat_map(flows_of).for_each(|known| _ = self.flows.remove(&known.flow.key));
        }
        for (_, program) in changed() {
            program.into_iter().flat_map(flows_of).for_each(|known| _ = self.flows.insert(known.flow.key, known));
        }
        self.flows.clone()
    }
}

fn flows_of(g: &GroupProgram) -> impl Iterator<Item = KnownFlow> + '_ {
    let receivers = g.branches.iter().filter_map(|b| match b.kind {
        BranchKind::Receiver { qpn, .. } => Some(FlowKey { src: g.proxy, dst: b.address, dst_qp: qpn }),
        BranchKind::Node { .. } => None,
    });
    let tree = FlowKey { src: g.source.address, dst: g.proxy, dst_qp: g.designated_qpn };
    std::iter::once(tree).chain(receivers).map(|key| KnownFlow {
        flow: FourTuple { key, src_qp: g.source.qpn },
        notify: g.source.address,
        accepts_roce: g.source.accepts_roce,
    })
}
