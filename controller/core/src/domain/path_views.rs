// SPDX-License-Identifier: Apache-2.0
//! Paths by uSIDs with the names of the topology, and with the marks of their links. They follow from the topology alone: a link that is
//! out of service, dead or lossy is marked, and the path over it is there.

use std::collections::BTreeSet;

use canopy_model::ids::NodeId;
use canopy_model::topology::{Endpoint, LinkDecl};
use canopy_model::{host_programs, usid};
use canopy_paths::decode::{End, Step, decode};
use canopy_paths::fabric::PortOf;
use canopy_paths::host;
use canopy_paths::pair::{Paths, Ranked};
use canopy_paths::path::{Attachment, Style};
use canopy_paths::program::Header;

use super::state::State;
use crate::path::{DecodedEnd, DecodedStep, DecodedView, LinkMarks, PathLink, PathView, PathsView};
use crate::topology::{HostLink, Network, NodeIx};

/// Views of a state.
pub(super) struct PathViews<'a>(pub(super) &'a State);

impl PathViews<'_> {
    /// See [`super::Domain::paths`].
    pub(super) fn paths(&self, from: &str, to: &str, style: Style) -> Option<PathsView> {
        let network = self.0.network()?;
        network.host(to)?;
        let attached = |host: &str| -> Vec<Attachment> {
            let edge = |at: &HostLink| PortOf { node: network.id(at.node), port: at.port };
            network.host_links(host).map(|at| Attachment { edge: edge(&at), link: at.link }).collect()
        };
        let paths = Paths::between(network.fabric()?, &attached(from), &attached(to));
        let list = paths.list.iter().filter_map(|ranked| self.path(network, ranked, from, style)).collect();
        let nodes: BTreeSet<NodeId> = paths.list.iter().flat_map(|ranked| ranked.path.nodes()).collect();
        let forwarded = self.reported(network, nodes, host_programs::MINOR_VERSION);
        let permitted = network.host(from)?.sends_programs;
        Some(PathsView { list, total: paths.total, method: paths.method, permitted, forwarded })
    }

    /// Whether each of these nodes has reported this version of the southbound contract, or a later one.
    fn reported(&self, network: &Network, nodes: impl IntoIterator<Item = NodeId>, least: u32) -> bool {
        let reported = |node: NodeId| Some(self.0.node(&name(network, node))?.status.as_ref()?.minor_version);
        nodes.into_iter().all(|node| reported(node).is_some_and(|minor| minor >= least))
    }

    fn path(
        &self,
        network: &Network,
        Ranked { path, disjoint }: &Ranked,
        from: &str,
        style: Style,
    ) -> Option<PathView> {
        let fabric = network.fabric()?;
        // A path of more links than a program may have is no path that a source can use.
        let headers = path.headers(fabric, style, None).ok()?;
        let program = path.program(style, None).ok()?;
        let header = headers.first()?.clone();
        let destinations = headers.iter().map(|header| Some(header.destination)).chain([None]);
        let mut device = from.to_owned();
        let links = path.links().zip(destinations).map(|(link, destination)| {
            let ends = &network.spec.links[link];
            let next = far_end(ends, &device).device.clone();
            let before = std::mem::replace(&mut device, next);
            PathLink { link: ends.label(), from: before, destination, marks: self.marks(network, link) }
        });
        Some(PathView {
            links: links.collect(),
            program: program.usids().iter().map(ToString::to_string).collect(),
            mtu: path.mtu(fabric, &header),
            disjoint: *disjoint,
            refused: host::check(&program, &header, host::most_nodes(fabric)).err(),
            header,
        })
    }

    fn marks(&self, network: &Network, link: usize) -> LinkMarks {
        let ends = &network.spec.links[link];
        let lossy = |end: &Endpoint| Some(self.0.node(&end.device)?.lossy.get(&end.port)?.permille);
        let has_left = |end: &Endpoint| network.node(&end.device).is_some_and(|node| network.has_left(node));
        LinkMarks {
            drained: network.is_drained(link),
            dead: network.is_broken(link) || [&ends.a, &ends.b].into_iter().any(has_left),
            lossy_permille: lossy(&ends.a).max(lossy(&ends.b)),
        }
    }

    /// See [`super::Domain::decode_path`].
    pub(super) fn decoded(&self, header: &Header, at: Option<&str>) -> Option<DecodedView> {
        let network = self.0.network()?;
        let at = match at {
            Some(node) => Some(network.id(network.node(node)?)),
            None => None,
        };
        let decoded = decode(network.fabric()?, header, at);
        let end = decoded.end.map(|end| named(network, end)).map_err(|e| e.to_string());
        let nodes = decoded.steps.iter().map(|step| step.node);
        let forwarded = !decoded.steps.is_empty() && self.reported(network, nodes, usid::MINOR_VERSION);
        Some(DecodedView { steps: decoded.steps.iter().map(|step| step_of(network, step)).collect(), end, forwarded })
    }
}

/// The end of a link that is not `device`.
fn far_end<'a>(link: &'a LinkDecl, device: &str) -> &'a Endpoint {
    if link.a.device == device { &link.b } else { &link.a }
}

fn name(network: &Network, node: NodeId) -> String {
    // The fabric was made of this network's nodes.
    network.node_with(node).map(|node: NodeIx| network.name(node).to_owned()).unwrap_or_default()
}

fn step_of(network: &Network, step: &Step) -> DecodedStep {
    DecodedStep {
        place: step.place.to_string(),
        usid: step.usid.to_string(),
        node: name(network, step.node),
        link: step.crossing.map(|crossing| network.spec.links[crossing.link].label()),
    }
}

fn named(network: &Network, end: End) -> DecodedEnd {
    match end {
        End::Node(node) => DecodedEnd::Node { node: name(network, node) },
        End::Port { port, link, .. } => {
            let node = name(network, port.node);
            let ends = &network.spec.links[link];
            DecodedEnd::Port { to: far_end(ends, &node).device.clone(), link: ends.label(), node }
        }
        End::Service(node, service) => DecodedEnd::Service { node: name(network, node), usid: service.get() },
        End::EndMt(node) => DecodedEnd::EndMt { node: name(network, node) },
        End::Replicate(node, tree) => DecodedEnd::Replicate { node: name(network, node), tree: tree.get() },
    }
}
