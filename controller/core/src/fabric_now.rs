// SPDX-License-Identifier: Apache-2.0
//! What hosts compose path programs from: the fabric of a topology, which of its links are not to be used, and what each host may send.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use canopy_model::fabric::{HostFabric, Sender};
use canopy_model::host_programs::{MINOR_VERSION, MOST_NODES};
use canopy_paths::host::most_nodes;

pub use crate::topology::LinkEnd;
use crate::topology::{Network, NodeIx};

/// What hosts get from now on. Clones share it.
#[derive(Clone, Debug)]
pub struct FabricNow {
    /// `None` without a topology.
    network: Option<Arc<Network>>,
    /// Nodes whose agents have reported a contract by which they drop programs of hosts, with its minor version.
    early: Arc<BTreeMap<NodeIx, u32>>,
    /// Made when it is first asked for, once for all hosts.
    unusable: Arc<OnceLock<Arc<[LinkEnd]>>>,
}

impl FabricNow {
    pub(crate) fn new(network: Option<Arc<Network>>, early: BTreeMap<NodeIx, u32>) -> Self {
        Self { network, early: Arc::new(early), unusable: Arc::default() }
    }

    /// Shares with `before` what follows from the same network.
    #[must_use]
    pub fn share(mut self, before: &Self) -> Self {
        if self.is_of(before.network.as_ref()) {
            self.unusable = Arc::clone(&before.unusable);
        }
        self
    }

    /// Whether it was made of this state of the network.
    pub(crate) fn is_of(&self, network: Option<&Arc<Network>>) -> bool {
        match (&self.network, network) {
            (None, None) => true,
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            _ => false,
        }
    }

    /// The fabric; `None` without a topology. The same `Arc` as long as the topology is the same; work is in the order of links, once.
    pub fn fabric(&self) -> Option<&Arc<HostFabric>> {
        self.network.as_ref().map(|network| network.host_fabric())
    }

    /// The links between nodes that are drained or dead, each by its `a` end, and those of hosts with several links, by their nodes. Work is in the order of links, once.
    pub fn unusable(&self) -> &Arc<[LinkEnd]> {
        self.unusable.get_or_init(|| self.network.as_ref().map(|network| network.unusable()).unwrap_or_default())
    }

    /// What a host may send, without the links that are [not to be used](Self::unusable); `None`: the topology has no such host.
    pub fn sender(&self, host: &str) -> Option<Sender> {
        let network = self.network.as_ref()?;
        let at = network.host(host)?;
        Some(Sender {
            block: network.block(),
            permitted: at.sends_programs,
            reason: self.reason(network, host)?,
            edge: network.id(at.node),
            edge_port: at.port,
            most_nodes: network.fabric().map_or(MOST_NODES, most_nodes),
            address: at.address,
            unusable: Vec::new(),
        })
    }

    /// Why programs of the host would be dropped. Other nodes than its edge are not named, so that an upgrade of all agents is no change for
    /// each of their hosts.
    fn reason(&self, network: &Network, host: &str) -> Option<String> {
        let at = network.host(host)?;
        let of_topology =
            (!at.sends_programs).then(|| format!("the topology has no `pathPrograms: true` for host {host}"));
        let of_edge = self.early.get(&at.node).map(|minor| {
            let edge = network.name(at.node);
            format!("the agent of its edge {edge} has contract 1.{minor}: it lets in programs of hosts from 1.{MINOR_VERSION} on")
        });
        let of_others = self.early.keys().any(|node| *node != at.node).then(|| {
            format!(
                "agents of nodes have contracts before 1.{MINOR_VERSION}, by which they drop programs of hosts: `canopyctl get nodes` shows them"
            )
        });
        Some([of_topology, of_edge, of_others].into_iter().flatten().collect::<Vec<_>>().join("; "))
    }
}
