// SPDX-License-Identifier: Apache-2.0
//! The network as hosts get it, to compose path programs from.

use std::sync::Arc;

use canopy_model::fabric::{FabricHost, FabricLink, FabricNode, HostFabric};

use super::{Far, LinkEnd, Network, NodeIx};

/// The links between nodes that are drained or dead, each by its `a` end, then those of hosts that have several, by their nodes.
pub(super) fn unusable(network: &Network) -> Arc<[LinkEnd]> {
    let is_unusable = |link: usize| {
        let ends = network.ends(link)?;
        (network.is_dead(link) || network.is_drained(link)).then_some(ends[0])
    };
    // The port of a link is found among those of its node.
    let end = |link: usize| {
        let node = is_unusable(link)?;
        let port = network.ports(node).iter().find(|port| port.link == link && port.is_a)?;
        Some((network.id(node), port.index))
    };
    let of_hosts =
        network.multi_homed.values().flatten().filter(|at| network.is_broken(at.link) || network.is_drained(at.link));
    let of_hosts = of_hosts.map(|at| (network.id(at.node), at.port));
    (0..network.spec.links.len()).filter_map(end).chain(of_hosts).collect()
}

/// By number, with each link at its smaller end.
pub(super) fn host_fabric(network: &Network) -> HostFabric {
    let node = |at: NodeIx| {
        let near = network.id(at);
        let (mut links, mut hosts) = (Vec::new(), Vec::new());
        for port in network.ports(at) {
            let mtu = network.spec.links[port.link].mtu;
            match port.far {
                Far::Node { node, port: far_port } => {
                    let far = network.id(node);
                    if (near, port.index) < (far, far_port) {
                        links.push(FabricLink { port: port.index, far, far_port, mtu });
                    }
                }
                Far::Host(host) => {
                    hosts.push(FabricHost { port: port.index, prefix: network.spec.hosts[host].prefix, mtu });
                }
            }
        }
        (near, FabricNode { name: network.name(at).to_owned(), links, hosts })
    };
    HostFabric { nodes: (0..network.len()).map(node).collect() }
}
