// SPDX-License-Identifier: Apache-2.0
//! The map and its layers as the northbound API shows them. A layer is one pass over all directions: callers keep what they read.

use std::collections::HashMap;

use canopy_model::topology::{Endpoint, LinkDecl};

use super::link_views::LinkViews;
use super::node_views::NodeViews;
use super::state::State;
use crate::map::{self, Layer, LayerView, MapHost, MapLink, MapNode, MapView, NOT_MEASURED, Version};
use crate::states::LinkState;
use crate::topology::Network;

/// See [`super::Domain::map`].
pub(super) fn map(state: &State) -> Option<MapView> {
    let topology = state.topology.as_ref()?;
    let network = &topology.network;
    let spec = &network.spec;
    let nodes = spec.nodes.iter().zip(map::tiers(network)).map(|(node, tier)| MapNode {
        name: node.name.clone(),
        id: node.id.get(),
        tier,
        site: node.site.clone(),
    });
    let of_hosts: HashMap<&str, usize> =
        spec.hosts.iter().enumerate().map(|(at, host)| (host.name.as_str(), spec.nodes.len() + at)).collect();
    let place = |name: &str| network.node(name).or_else(|| of_hosts.get(name).copied()).unwrap_or_default() as u32;
    let hosts = spec
        .hosts
        .iter()
        .map(|host| MapHost { name: host.name.clone(), node: network.host(&host.name).map_or(0, |at| at.node as u32) });
    let links = spec.links.iter().map(|link| MapLink {
        a: place(&link.a.device),
        a_port: link.a.port.clone(),
        b: place(&link.b.device),
        b_port: link.b.port.clone(),
    });
    Some(MapView {
        version: Version::new(topology.metadata.uid, topology.metadata.generation),
        nodes: nodes.collect(),
        hosts: hosts.collect(),
        links: links.collect(),
    })
}

/// See [`super::Domain::map_layer`].
pub(super) fn layer(views: &LinkViews<'_>, layer: Layer) -> Option<LayerView> {
    let topology = views.state.topology.as_ref()?;
    let network = &topology.network;
    let values = match layer {
        Layer::Nodes => network.spec.nodes.iter().map(|node| of_node(views.state, &node.name)).collect(),
        Layer::State => states(views, network),
        Layer::Load | Layer::Loss | Layer::Queue => {
            let ends = network.spec.links.iter().flat_map(|link| [(link, &link.a), (link, &link.b)]);
            ends.map(|(link, from)| measured(views, layer, link, from).unwrap_or(NOT_MEASURED)).collect()
        }
    };
    Some(LayerView { version: Version::new(topology.metadata.uid, topology.metadata.generation), values })
}

/// Whether a node has what it was given: see [`Layer::Nodes`].
fn of_node(state: &State, name: &str) -> u8 {
    state.node(name).map_or(3, |node| map::node(NodeViews(state).state(node)))
}

/// A direction has its own problems; where the agent of either end is not known, both directions are uncertain.
fn states(views: &LinkViews<'_>, network: &Network) -> Vec<u8> {
    let one = |link: usize, decl: &LinkDecl| {
        let ends = [&decl.a, &decl.b];
        let is_pending = ends.iter().any(|from| views.service(link, from) != LinkState::InService);
        let worst = |from| views.trouble(link, from).map_or(0, |trouble| map::severity(trouble.severity));
        ends.map(|from| worst(from).max(is_pending.into()))
    };
    network.spec.links.iter().enumerate().flat_map(|(link, decl)| one(link, decl)).collect()
}

/// What was measured at the port `from`; `None`: nothing, as at a port of a host.
fn measured(views: &LinkViews<'_>, layer: Layer, link: &LinkDecl, from: &Endpoint) -> Option<u8> {
    if layer == Layer::Loss {
        views.links.direction(from)?.reported().losses.newest()?;
        let lossy = views.state.node(&from.device)?.lossy.get(&from.port);
        return Some(map::loss(lossy.map_or(0, |lossy| lossy.permille)));
    }
    let (queue, _) = views.fresh_queue(from)?;
    if layer == Layer::Load {
        return Some(map::load(queue.load.rate, link.rate));
    }
    let thresholds = views.thresholds(from)?;
    Some(map::queue(queue.report.queue.queue.max(queue.report.queue.peak_queue), thresholds))
}
