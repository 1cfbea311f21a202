// SPDX-License-Identifier: Apache-2.0
//! What hosts compose path programs from, as the state has it.

use canopy_model::host_programs::MINOR_VERSION;

use super::Domain;
use crate::fabric_now::FabricNow;
use crate::resource::Node;

impl Domain {
    /// What hosts get from now on. A few instructions per node.
    pub fn fabric_now(&self) -> FabricNow {
        let minor = |node: &Node| node.status.as_ref().map(|status| status.minor_version);
        let nodes = self.state.nodes.iter().enumerate();
        let early = nodes.filter_map(|(at, node)| Some((at, minor(node).filter(|minor| *minor < MINOR_VERSION)?)));
        FabricNow::new(self.state.topology.as_ref().map(|t| t.network.clone()), early.collect())
    }

    /// Whether that is of the present network, with the links in and out of service as they are. Constant time: contracts of agents are not
    /// compared.
    pub fn is_fabric_of(&self, now: &FabricNow) -> bool {
        now.is_of(self.state.topology.as_ref().map(|t| &t.network))
    }

    /// The minor version of the contract of a node's agent, if by that version it drops programs of hosts.
    pub fn early_contract(&self, node: &str) -> Option<u32> {
        let minor = self.state.node(node)?.status.as_ref()?.minor_version;
        (minor < MINOR_VERSION).then_some(minor)
    }
}
