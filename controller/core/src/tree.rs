// SPDX-License-Identifier: Apache-2.0
//! The replication tree of a group: shortest paths from the source's node to every receiver's node, sharing links.
//!
//! Of the neighbours that are one hop nearer to the root, a node's parent is the one with the least hash of tree, level and neighbour
//! (rendezvous hashing). So it does not depend on who else receives: who joins adds the rest of one path, who leaves takes it away, and
//! what fails moves only what leads over it. Nodes of a level that have the same neighbours have the same parent: in a Clos the tree is
//! about as small as one that is made of as few nodes as possible. Every hop is a tree node, so each branch has a known port.
//!
//! What it costs: a search from the root to the farthest receiver, and the links of the tree's nodes.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};

use canopy_model::ids::{PortIndex, TreeId};
use canopy_model::topology::Endpoint;

use crate::hash::mix;
use crate::topology::{Adjacent, Network, NodeIx};

mod covering;

/// A tree over a network's nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tree {
    /// Root first, parents before children, levels in order of node number.
    pub(crate) nodes: Vec<TreeNode>,
}

/// One node of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TreeNode {
    pub(crate) node: NodeIx,
    /// `None` at the root.
    pub(crate) parent: Option<ParentLink>,
    /// Positions in [`Tree::nodes`], ascending.
    pub(crate) children: Vec<usize>,
}

/// The link to a node's parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ParentLink {
    /// Parent's position in [`Tree::nodes`].
    pub(crate) position: usize,
    /// Port at the child.
    pub(crate) port: PortIndex,
    /// Port at the parent.
    pub(crate) parent_port: PortIndex,
    /// Index in the topology's links.
    pub(crate) link: usize,
}

impl Tree {
    /// The tree from `root` to all `targets` over links that carry packets.
    ///
    /// # Errors
    /// A target to which no such links lead.
    pub(crate) fn build(
        network: &Network,
        tree: TreeId,
        root: NodeIx,
        targets: impl IntoIterator<Item = NodeIx>,
    ) -> Result<Self, NodeIx> {
        let Search { distance, found } = search(network, root, targets)?;
        let mut levels: Vec<Vec<NodeIx>> = vec![vec![root]];
        let mut up: Vec<Option<Adjacent>> = vec![None; network.len()];
        for target in found {
            let mut at = target;
            while at != root && up[at].is_none() {
                let depth = distance[at] as usize;
                levels.resize_with(levels.len().max(depth + 1), Vec::new);
                levels[depth].push(at);
                // Each node that was reached has a neighbour that was reached before.
                let Some(parent) = parent(network, tree, &distance, at) else { return Err(target) };
                up[at] = Some(parent);
                at = parent.to;
            }
        }
        Ok(Self::arrange(network, levels, |node| up[node]))
    }

    /// The tree that earlier versions led from `root` to all `targets`: what is known of a running group may be its digest alone.
    ///
    /// # Errors
    /// A target to which no links that carry packets lead.
    pub(crate) fn covering(
        network: &Network,
        tree: TreeId,
        root: NodeIx,
        targets: impl IntoIterator<Item = NodeIx>,
    ) -> Result<Self, NodeIx> {
        covering::build(network, tree, root, targets)
    }

    /// The tree from `root` to all `targets` over these ports of nodes towards the root, whether their links carry packets or not; a
    /// target that they do not reach is added by the shortest path to one of their nodes. `None` if there is none.
    pub(crate) fn keep(
        network: &Network,
        root: NodeIx,
        targets: impl IntoIterator<Item = NodeIx>,
        uplinks: &[Endpoint],
    ) -> Option<Self> {
        let targets: BTreeSet<NodeIx> = targets.into_iter().collect();
        let mut up: HashMap<NodeIx, Adjacent> = uplinks.iter().filter_map(|port| network.across(port)).collect();
        up.remove(&root);
        let mut depth = HashMap::from([(root, 0usize)]);
        for start in up.keys() {
            let (mut path, mut at) = (Vec::new(), *start);
            while let (None, Some(next), true) = (depth.get(&at), up.get(&at), path.len() <= up.len()) {
                path.push(at);
                at = next.to;
            }
            let Some(&known) = depth.get(&at) else { continue };
            depth.extend(path.into_iter().rev().enumerate().map(|(i, node)| (node, known + 1 + i)));
        }
        up.retain(|node, _| depth.contains_key(node));
        let mut level: Vec<NodeIx> = depth.keys().copied().collect();
        while targets.iter().any(|t| !depth.contains_key(t)) {
            level.sort_unstable_by_key(|&n| network.id(n));
            let mut next = Vec::new();
            for &node in &level {
                for a in network.sound(node) {
                    if !depth.contains_key(&a.to) {
                        depth.insert(a.to, depth[&node] + 1);
                        up.insert(a.to, Adjacent { to: node, port: a.far_port, far_port: a.port, ..*a });
                        next.push(a.to);
                    }
                }
            }
            if next.is_empty() {
                return None;
            }
            level = next;
        }
        let mut levels: Vec<Vec<NodeIx>> = vec![vec![root]];
        let mut needed = HashSet::from([root]);
        for target in targets {
            let mut at = target;
            while needed.insert(at) {
                let deep = depth[&at];
                levels.resize_with(levels.len().max(deep + 1), Vec::new);
                levels[deep].push(at);
                at = up[&at].to;
            }
        }
        Some(Self::arrange(network, levels, |node| up.get(&node).copied()))
    }

    /// The ports of its nodes towards the root, in the tree's order.
    pub(crate) fn uplinks(&self, network: &Network) -> Vec<Endpoint> {
        self.nodes.iter().filter_map(|t| Some(network.endpoint(t.node, t.parent?.port))).collect()
    }

    /// Equal for equal trees, in every version.
    pub(crate) fn digest(&self, network: &Network) -> u64 {
        let octets = self.uplinks(network).into_iter().flat_map(|port| format!("{port}\n").into_bytes());
        octets.fold(self.nodes.len() as u64, |digest, octet| mix(digest, octet.into()))
    }

    fn arrange(network: &Network, levels: Vec<Vec<NodeIx>>, up: impl Fn(NodeIx) -> Option<Adjacent>) -> Self {
        let mut position = vec![0; network.len()];
        let mut nodes: Vec<TreeNode> = Vec::with_capacity(levels.iter().map(Vec::len).sum());
        for mut level in levels {
            level.sort_unstable_by_key(|&n| network.id(n));
            for node in level {
                let at = nodes.len();
                position[node] = at;
                let up = up(node).map(|a| ParentLink {
                    position: position[a.to],
                    port: a.port,
                    parent_port: a.far_port,
                    link: a.link,
                });
                nodes.push(TreeNode { node, parent: up, children: Vec::new() });
                if let Some(up) = up {
                    nodes[up.position].children.push(at);
                }
            }
        }
        Self { nodes }
    }
}

/// What trees from a root to targets are made of.
struct Search {
    /// From the root, of all nodes that are as near as the farthest target.
    distance: Vec<u32>,
    /// The targets, nearest first.
    found: Vec<NodeIx>,
}

/// Searches from `root` until all `targets` are reached over links that carry packets.
///
/// # Errors
/// A target that is not reached.
fn search(network: &Network, root: NodeIx, targets: impl IntoIterator<Item = NodeIx>) -> Result<Search, NodeIx> {
    // By node, because every node that is searched is asked for.
    let mut is_target = vec![false; network.len()];
    let mut missing = 0;
    for target in targets {
        missing += usize::from(!std::mem::replace(&mut is_target[target], true));
    }
    let (distance, order) = network.sound_distances(root, |level| {
        missing -= level.iter().filter(|n| is_target[**n]).count();
        missing == 0
    });
    if missing > 0 {
        let unreached = |n: &NodeIx| is_target[*n] && distance[*n] == u32::MAX;
        return Err((0..network.len()).find(unreached).unwrap_or(root));
    }
    Ok(Search { distance, found: order.into_iter().filter(|node| is_target[*node]).collect() })
}

/// The link to the parent of `child`, which is at this distance.
fn parent(network: &Network, tree: TreeId, distance: &[u32], child: NodeIx) -> Option<Adjacent> {
    let level = distance[child].checked_sub(1)?;
    let nearer = network.sound(child).filter(|a| distance[a.to] == level);
    nearer.min_by_key(|a| preference(network, tree, level, child, a)).copied()
}

/// Of links from `child` to neighbours at `level`, a tree leads over the one with the least of these. Of parallel links that is one with
/// the largest MTU; ties are broken by hash, so that trees spread.
pub(crate) fn preference(
    network: &Network,
    tree: TreeId,
    level: u32,
    child: NodeIx,
    a: &Adjacent,
) -> (u64, Reverse<u32>, u64, PortIndex) {
    let of = |node| u64::from(network.id(node).get());
    let of_tree = u64::from(tree.get());
    // Different neighbours have different hashes: `mix` is one to one.
    let neighbour = mix(mix(of_tree, u64::from(level)), of(a.to));
    (neighbour, Reverse(a.mtu), mix(of_tree, mix(of(child), u64::from(a.port.get()))), a.port)
}

#[cfg(test)]
mod tests;
