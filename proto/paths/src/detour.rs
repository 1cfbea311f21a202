// SPDX-License-Identifier: Apache-2.0
//! Some paths between two edges of a plane that is not a Clos: a heuristic with bounds.
//!
//! Each path is the cheapest one of at most [`DETOUR`] links more than the shortest, where it costs most to use a link of an earlier path,
//! then to pass a node of one, then to be longer; equal costs are decided by the numbers of nodes and ports. The list ends at [`MAX_PATHS`],
//! or with a path that it has already: every further one would share more. Work is at most [`MAX_PATHS`] times the length of a path times the
//! links of the plane.
//!
//! The cheapest path passes no node twice, since the same path without the circle would be cheaper.

use std::collections::{BTreeMap, BTreeSet};

use crate::fabric::{Fabric, NodeIx, Port};

/// Paths of one pair of edges, at most.
pub(crate) const MAX_PATHS: usize = 16;
/// Links that a path may have more than the shortest one.
pub(crate) const DETOUR: usize = 2;

/// What earlier paths use, by how many of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Used {
    links: BTreeMap<usize, u32>,
    nodes: BTreeMap<NodeIx, u32>,
}

impl Used {
    fn add(&mut self, path: &[(NodeIx, Port)]) {
        for (node, port) in path {
            *self.links.entry(port.link).or_default() += 1;
            *self.nodes.entry(*node).or_default() += 1;
        }
    }
}

/// In the order of what counts: uses of links, uses of nodes, links.
type Cost = (u32, u32, usize);
/// The cheapest way to a node: its cost, and the last step.
type Way = (Cost, Option<(NodeIx, Port)>);

/// Paths from one edge to another one, as the ports by which they leave their nodes; `used` is what they should not share.
pub(crate) fn detours(fabric: &Fabric, from: NodeIx, to: NodeIx, used: &mut Used) -> Vec<Vec<(NodeIx, Port)>> {
    let distances = distances(fabric, to);
    if from == to {
        return vec![Vec::new()];
    }
    if distances[from] == usize::MAX {
        return Vec::new();
    }
    let longest = distances[from] + DETOUR;
    let (mut paths, mut known) = (Vec::new(), BTreeSet::new());
    while paths.len() < MAX_PATHS {
        let path = cheapest(fabric, from, to, &distances, longest, used);
        if !known.insert(path.iter().map(|(_, port)| port.link).collect::<Vec<_>>()) {
            break;
        }
        used.add(&path);
        paths.push(path);
    }
    paths
}

fn cheapest(
    fabric: &Fabric,
    from: NodeIx,
    to: NodeIx,
    distances: &[usize],
    longest: usize,
    used: &Used,
) -> Vec<(NodeIx, Port)> {
    // By number of links: the nodes that so many lead to, from where the last edge is still near enough.
    let mut layers: Vec<BTreeMap<NodeIx, Way>> = vec![BTreeMap::from([(from, ((0, 0, 0), None))])];
    for links in 1..=longest {
        let mut layer: BTreeMap<NodeIx, Way> = BTreeMap::new();
        for (&node, &((of_links, of_nodes, _), _)) in layers[links - 1].iter().filter(|(node, _)| **node != to) {
            for (port, far) in fabric.neighbours(node) {
                if distances[far].saturating_add(links) > longest {
                    continue;
                }
                let uses = |of: Option<&u32>| of.copied().unwrap_or(0);
                let nodes = if far == to { 0 } else { uses(used.nodes.get(&far)) };
                let cost = (of_links + uses(used.links.get(&port.link)), of_nodes + nodes, links);
                let way = (cost, Some((node, port)));
                layer
                    .entry(far)
                    .and_modify(|known| {
                        if cost < known.0 {
                            *known = way
                        }
                    })
                    .or_insert(way);
            }
        }
        layers.push(layer);
    }
    let ends = layers.iter().enumerate().filter_map(|(links, layer)| Some((layer.get(&to)?.0, links)));
    let (mut at, mut links) = (to, ends.min().map_or(0, |(_, links)| links));
    let mut path = Vec::new();
    while let Some((node, port)) = layers[links].get(&at).and_then(|way| way.1) {
        path.push((node, port));
        (at, links) = (node, links - 1);
    }
    path.reverse();
    path
}

/// Links from each node to `to`, `usize::MAX` where none lead.
fn distances(fabric: &Fabric, to: NodeIx) -> Vec<usize> {
    let mut distances = vec![usize::MAX; fabric.len()];
    distances[to] = 0;
    let mut order = vec![to];
    let mut next = 0;
    while let Some(&node) = order.get(next) {
        for (_, far) in fabric.neighbours(node) {
            if distances[far] == usize::MAX {
                distances[far] = distances[node] + 1;
                order.push(far);
            }
        }
        next += 1;
    }
    distances
}
