// SPDX-License-Identifier: Apache-2.0
//! The physical network: devices, and the links between their ports.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use canopy_model::topology::TopologySpec;

/// A device: the nodes in the order of their declaration, then the hosts.
pub type Place = usize;
/// A port: twice its link's number, plus 1 at end b.
pub type PortId = usize;

/// Devices, links and ports.
pub struct Fabric {
    /// Number of nodes.
    pub nodes: usize,
    /// Number of links.
    pub links: usize,
    names: Vec<String>,
    places: BTreeMap<String, Place>,
    owners: Vec<Place>,
    by_name: BTreeMap<(Place, String), PortId>,
    addresses: BTreeMap<Place, Ipv6Addr>,
}

impl Fabric {
    /// The network that `spec` declares.
    pub fn new(spec: &TopologySpec) -> Self {
        let devices = spec.nodes.iter().map(|n| &n.name).chain(spec.hosts.iter().map(|h| &h.name));
        let names: Vec<String> = devices.cloned().collect();
        let places: BTreeMap<String, Place> = names.iter().cloned().zip(0..).collect();
        let ends = || spec.links.iter().flat_map(|link| [&link.a, &link.b]);
        let owners: Vec<Place> = ends().map(|end| places[&end.device]).collect();
        let by_name = ends().zip(0..).map(|(end, id)| ((places[&end.device], end.port.clone()), id)).collect();
        let addresses = spec.hosts.iter().map(|h| (places[&h.name], h.address)).collect();
        Self { nodes: spec.nodes.len(), links: spec.links.len(), names, places, owners, by_name, addresses }
    }

    /// Name of a device.
    pub fn name(&self, place: Place) -> &str {
        &self.names[place]
    }

    /// The device with this name.
    pub fn place(&self, name: &str) -> Option<Place> {
        self.places.get(name).copied()
    }

    /// The device that a port belongs to.
    pub fn owner(&self, port: PortId) -> Place {
        self.owners[port]
    }

    /// The port of a device by its name.
    pub fn port(&self, place: Place, name: &str) -> Option<PortId> {
        self.by_name.get(&(place, name.to_owned())).copied()
    }

    /// Moves end a of a link, with its port, to another device.
    pub fn rewire(&mut self, link: usize, to: Place) {
        let name = self.port_name(2 * link);
        self.by_name.remove(&(self.owners[2 * link], name.clone()));
        self.by_name.insert((to, name), 2 * link);
        self.owners[2 * link] = to;
    }

    /// Name of a port.
    pub fn port_name(&self, port: PortId) -> String {
        let named = self.by_name.iter().find(|(_, id)| **id == port);
        named.map_or(String::new(), |((_, name), _)| name.clone())
    }

    /// The only port of a host.
    pub fn host_port(&self, host: Place) -> PortId {
        self.owners.iter().position(|owner| *owner == host).unwrap_or(0)
    }

    /// The address of a host.
    pub fn address(&self, host: Place) -> Option<Ipv6Addr> {
        self.addresses.get(&host).copied()
    }
}

/// The port at the far end of its link.
pub fn far(port: PortId) -> PortId {
    port ^ 1
}
