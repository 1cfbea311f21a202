// SPDX-License-Identifier: Apache-2.0
//! Ports that lose or regain their carrier: the declared network without its broken links.

use std::collections::BTreeSet;

use canopy_model::status::ItemKind;
use canopy_model::topology::Endpoint;

use super::Domain;
use crate::command::{Outcome, Prepared};
use crate::error::DomainError;
use crate::topology::Network;

impl Domain {
    pub(super) fn prepare_ports_down(&self, node: &str, ports: BTreeSet<String>) -> Result<Prepared, DomainError> {
        let unknown = || DomainError::NotFound { kind: "node", name: node.to_owned() };
        let topology = self.topology.as_ref().ok_or_else(unknown)?;
        let index = topology.network.node(node).ok_or_else(unknown)?;
        let own = |p: &&crate::topology::PortInfo| ports.contains(topology.network.port_name(index, p.index));
        let endpoint = |p: &crate::topology::PortInfo| Endpoint {
            device: node.to_owned(),
            port: topology.network.port_name(index, p.index).to_owned(),
        };
        let mut down: BTreeSet<Endpoint> = topology.down.iter().filter(|p| p.device != node).cloned().collect();
        down.extend(topology.network.ports(index).iter().filter(own).map(endpoint));
        if down == topology.down {
            return Ok(self.noop(topology.metadata.generation));
        }
        let network = Network::build_around(topology.network.spec.clone(), &self.addresses, &down)?;
        // A broken link must not take down groups that do not use it.
        let replans = self.replan_all(&network, |_, _, e| Ok(e.to_string()))?;
        Ok(self.prepared_topology(topology.metadata.clone(), network, down, replans, Outcome::Updated))
    }

    /// Ports of `node` that are treated as without carrier, and those that its agent last reported without carrier;
    /// `None` if the topology has no such node or its agent has not reported yet.
    pub fn ports_down(&self, node: &str) -> Option<(BTreeSet<String>, BTreeSet<String>)> {
        let entry = self.node_entry(node)?;
        let reported =
            entry.status.as_ref()?.errors.iter().filter(|e| e.kind == ItemKind::Link).map(|e| e.name.clone());
        let known = self.down().iter().filter(|p| p.device == node).map(|p| p.port.clone()).collect();
        let ports: BTreeSet<&str> = entry.spec.base.ports.iter().map(|p| p.name.as_str()).collect();
        Some((known, reported.filter(|name| ports.contains(name.as_str())).collect()))
    }
}
