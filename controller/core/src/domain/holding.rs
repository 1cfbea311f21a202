// SPDX-License-Identifier: Apache-2.0
//! Memberships as the agents of hosts hold them: which end with their agent, and how the packets of sources leave.

use std::net::Ipv6Addr;

use canopy_model::member::{Role, SourceFlow};

use super::{Domain, connection};
use crate::resource::Group;

impl Domain {
    /// How the packets of the source `host` leave it; `None` if it is not the group's source, or there is no tree.
    pub fn source_flow(&self, group: &str, host: &str) -> Option<SourceFlow> {
        let group = self.state.groups.get(group)?;
        let member = group.members.get(host).filter(|m| m.role == Role::Source)?;
        group.plan()?;
        let connection = connection::connection(&self.state.addresses, group)?;
        let mut nodes: Vec<Ipv6Addr> = group.nodes().map(|at| self.state.nodes[at].spec.base.node_address).collect();
        nodes.sort_unstable();
        nodes.dedup();
        Some(SourceFlow { qpn: member.qpn, peer: connection.proxy_address, dest_qpn: connection.designated_qpn, nodes })
    }

    /// Whether `host` is a member whose membership ends when its agent is gone.
    pub fn has_lease(&self, group: &str, host: &str) -> bool {
        self.lease(group, host).is_some()
    }

    /// Epoch in which `host` joined; `None` unless it is a member whose membership ends when its agent is gone.
    pub fn lease(&self, group: &str, host: &str) -> Option<u32> {
        self.state.groups.get(group)?.members.get(host).filter(|m| m.lease).map(|m| m.since)
    }

    /// The node that `host` is attached to.
    pub fn edge(&self, host: &str) -> Option<&str> {
        let network = &self.state.topology.as_ref()?.network;
        Some(network.name(network.host(host)?.node))
    }

    /// Group and host of every membership of [`Domain::has_lease`]; goes through all members, for the start.
    pub fn leases(&self) -> Vec<(String, String)> {
        let of_group = |(group, g): (&str, &Group)| {
            let leased = g.members.iter().filter(|m| m.lease);
            leased.map(|m| (group.to_owned(), m.host.to_string())).collect::<Vec<_>>()
        };
        self.state.groups.iter().flat_map(of_group).collect()
    }
}
