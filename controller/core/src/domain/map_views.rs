// SPDX-License-Identifier: Apache-2.0
//! The map and its layers as the northbound API shows them. A layer is one pass over all directions: callers keep what they read.

use std::collections::HashMap;

use canopy_model::topology::{Endpoint, LinkDecl};

use super::link_views::LinkViews;
use super::state::State;
use crate::map::{self, Layer, LayerView, MapHost, MapLink, MapNode, MapView, NOT_MEASURED, Version};
use crate::resource::Node;
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
pub(super) fn layer(views: &LinkViews<'_>, layer: Layer, problems: &HashMap<String, u8>) -> Option<LayerView> {
    let topology = views.state.topology.as_ref()?;
    let network = &topology.network;
    let values = match layer {
        Layer::Nodes => network.spec.nodes.iter().map(|node| of_node(views.state, &node.name)).collect(),
        Layer::State => states(views.state, network, problems),
        Layer::Load | Layer::Loss | Layer::Queue => {
            let ends = network.spec.links.iter().flat_map(|link| [(link, &link.a), (link, &link.b)]);
            ends.map(|(link, from)| measured(views, layer, link, from).unwrap_or(NOT_MEASURED)).collect()
        }
    };
    Some(LayerView { version: Version::new(topology.metadata.uid, topology.metadata.generation), values })
}

/// Whether a node has what it was given: see [`Layer::Nodes`].
fn of_node(state: &State, name: &str) -> u8 {
    let Some(node) = state.node(name) else { return 3 };
    let is_leaving = state.retirements.get(name).is_some_and(|retirement| !retirement.enrolled);
    match (&node.status, node.observed()) {
        _ if is_leaving || node.is_restarting() => 1,
        _ if !node.connected => 3,
        (Some(status), Some(observed)) if observed >= node.spec.generation => 2 * u8::from(!status.errors.is_empty()),
        _ => 1,
    }
}

fn states(state: &State, network: &Network, problems: &HashMap<String, u8>) -> Vec<u8> {
    // What an agent that is away reported is history; while it restarts, that is what holds.
    let is_known = |node: &Node| node.status.is_some() && (node.connected || node.is_restarting());
    let is_reported = |end: &Endpoint| state.node(&end.device).is_none_or(is_known);
    // A healthy fabric has no problems: then no name of a link or port is made.
    let worst = |name: &dyn Fn() -> String| match problems.is_empty() {
        true => 0,
        false => problems.get(&name()).copied().unwrap_or_default(),
    };
    let one = |link: usize, decl: &LinkDecl| {
        let is_pending = network.is_drained(link) || ![&decl.a, &decl.b].into_iter().all(is_reported);
        let of_link = worst(&|| decl.label()).max(is_pending.into());
        [&decl.a, &decl.b].map(|from| worst(&|| from.to_string()).max(of_link))
    };
    network.spec.links.iter().enumerate().flat_map(|(link, decl)| one(link, decl)).collect()
}

/// What was measured at the port `from`; `None`: nothing, as at a port of a host.
fn measured(views: &LinkViews<'_>, layer: Layer, link: &LinkDecl, from: &Endpoint) -> Option<u8> {
    if layer == Layer::Loss {
        views.links.direction(from)?.losses.newest()?;
        let lossy = views.state.node(&from.device)?.lossy.get(&from.port);
        return Some(map::loss(lossy.map_or(0, |lossy| lossy.permille)));
    }
    let (queue, _) = views.fresh_queue(from)?;
    if layer == Layer::Load {
        return Some(map::load(queue.load.rate, link.rate));
    }
    let thresholds = views.links.direction(from)?.machine.as_ref()?.pushed()?.thresholds;
    Some(map::queue(queue.report.queue.queue.max(queue.report.queue.peak_queue), thresholds))
}
