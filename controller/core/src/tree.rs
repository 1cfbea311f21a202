// SPDX-License-Identifier: Apache-2.0
//! The replication tree of a group: shortest paths from the source's node to every receiver's node, sharing links.
//!
//! Of the neighbours that are one hop nearer to the root, a node's parent is the one with the least hash of tree, level and neighbour
//! (rendezvous hashing). So it does not depend on who else receives: who joins adds the rest of one path, who leaves takes it away, and
//! what fails moves only what leads over it. Nodes of a level that have the same neighbours have the same parent: in a Clos the tree is
//! about as small as one that is made of as few nodes as possible. Every hop is a tree node, so each branch has a known port.
//!
//! What it costs: the links of the tree's nodes, and for the first tree from a root a search of the network.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeSet, HashMap, HashSet};

use canopy_model::ids::{NodeId, PortIndex, TreeId};
use canopy_model::topology::Endpoint;

use crate::hash::mix;
use crate::hops::UNREACHED;
use crate::topology::{Adjacent, Network, NodeIx};

mod covering;

/// A tree over a network's nodes. A position is a node's place in it: root first, parents before children, levels in order of node number.
/// It takes 24 octets a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tree {
    root: u32,
    below: Box<[Below]>,
    /// Positions of each node's children, ascending: first the root's, then those of the node behind it, and so on.
    children: Box<[u32]>,
    /// By position: where the children end there.
    ends: Box<[u32]>,
}

/// A node that has a parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Below {
    node: u32,
    parent: u32,
    link: u32,
    port: PortIndex,
    parent_port: PortIndex,
}

/// One node of a tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TreeNode<'a> {
    pub(crate) node: NodeIx,
    /// `None` at the root.
    pub(crate) parent: Option<ParentLink>,
    children: &'a [u32],
}

impl<'a> TreeNode<'a> {
    /// Positions of its children, ascending.
    pub(crate) fn children(self) -> impl ExactSizeIterator<Item = usize> + use<'a> {
        self.children.iter().map(|at| *at as usize)
    }
}

/// The link to a node's parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ParentLink {
    /// The parent's position.
    pub(crate) position: usize,
    /// Port at the child.
    pub(crate) port: PortIndex,
    /// Port at the parent.
    pub(crate) parent_port: PortIndex,
    /// Index in the topology's links.
    pub(crate) link: usize,
}

impl Tree {
    /// Number of nodes, at least 1.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn root(&self) -> NodeIx {
        self.root as NodeIx
    }

    /// The node at a position.
    pub(crate) fn node(&self, at: usize) -> TreeNode<'_> {
        let below = at.checked_sub(1).map(|at| self.below[at]);
        let parent = below.map(|of| ParentLink {
            position: of.parent as usize,
            port: of.port,
            parent_port: of.parent_port,
            link: of.link as usize,
        });
        let first = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        let children = &self.children[first as usize..self.ends[at] as usize];
        TreeNode { node: below.map_or(self.root, |of| of.node) as NodeIx, parent, children }
    }

    /// All nodes by position.
    pub(crate) fn nodes(&self) -> impl ExactSizeIterator<Item = TreeNode<'_>> + DoubleEndedIterator {
        (0..self.len()).map(|at| self.node(at))
    }

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
        let hops = network.hops_from(root);
        // By their distance from the root; of the targets at first, and of what is on the way to them.
        let mut levels: Vec<Vec<Placed>> = vec![Vec::new()];
        let mut unreached = None;
        for target in targets {
            let depth = hops[target];
            if depth == UNREACHED {
                unreached = unreached.into_iter().chain([target]).min();
                continue;
            }
            levels.resize_with(levels.len().max(usize::from(depth) + 1), Vec::new);
            levels[usize::from(depth)].push(Placed::new(network, target));
        }
        if let Some(target) = unreached {
            return Err(target);
        }
        for at in (1..levels.len()).rev() {
            let (nearer, level) = levels.split_at_mut(at);
            let (nearer, level) = (&mut nearer[at - 1], &mut level[0]);
            level.sort_unstable_by_key(|placed| placed.id);
            level.dedup_by_key(|placed| placed.id);
            for placed in level {
                // Each node that was reached has a neighbour that was reached before.
                let parent = parent(network, tree, &hops, placed.node).ok_or(placed.node)?;
                placed.up = Some(parent);
                nearer.push(Placed::new(network, parent.to));
            }
        }
        levels[0] = vec![Placed::new(network, root)];
        Ok(Self::of_levels(network, root, &levels))
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
        Some(Self::arrange(network, root, levels, |node| up.get(&node).copied()))
    }

    /// The ports of its nodes towards the root, in the tree's order.
    pub(crate) fn uplinks(&self, network: &Network) -> Vec<Endpoint> {
        self.nodes().filter_map(|t| Some(network.endpoint(t.node, t.parent?.port))).collect()
    }

    /// Equal for equal trees, in every version.
    pub(crate) fn digest(&self, network: &Network) -> u64 {
        let octets = self.uplinks(network).into_iter().flat_map(|port| format!("{port}\n").into_bytes());
        octets.fold(self.len() as u64, |digest, octet| mix(digest, octet.into()))
    }

    fn arrange(
        network: &Network,
        root: NodeIx,
        levels: Vec<Vec<NodeIx>>,
        up: impl Fn(NodeIx) -> Option<Adjacent>,
    ) -> Self {
        let placed = |node: NodeIx| Placed { up: up(node), ..Placed::new(network, node) };
        let mut levels: Vec<Vec<Placed>> =
            levels.into_iter().map(|level| level.into_iter().map(placed).collect()).collect();
        levels.iter_mut().for_each(|level| level.sort_unstable_by_key(|placed| placed.id));
        Self::of_levels(network, root, &levels)
    }

    /// Of nodes by their distance from the root, each level in order of node number, with each node's parent in the level before.
    fn of_levels(network: &Network, root: NodeIx, levels: &[Vec<Placed>]) -> Self {
        let mut below = Vec::with_capacity(levels.iter().skip(1).map(Vec::len).sum());
        // Position of the first node of the level before.
        let mut first = 0;
        for (nearer, level) in levels.iter().zip(levels.iter().skip(1)) {
            let begin = below.len() + 1;
            for placed in level {
                debug_assert!(placed.up.is_some(), "a node below the root without a parent");
                let Some(up) = placed.up else { continue };
                let Ok(at) = nearer.binary_search_by_key(&network.id(up.to), |placed| placed.id) else { continue };
                // A topology has at most MAX_NODES and MAX_LINKS.
                below.push(Below {
                    node: placed.node as u32,
                    parent: (first + at) as u32,
                    link: up.link as u32,
                    port: up.port,
                    parent_port: up.far_port,
                });
            }
            first = begin;
        }
        Self::new(root as u32, below.into())
    }

    /// Of the nodes below the root, by position.
    fn new(root: u32, below: Box<[Below]>) -> Self {
        let mut ends = vec![0; below.len() + 1];
        below.iter().for_each(|of| ends[of.parent as usize] += 1);
        let mut end = 0;
        for children in &mut ends {
            end += *children;
            // Where they begin, until they are entered.
            *children = end - *children;
        }
        let mut children = vec![0; below.len()];
        for (of, at) in below.iter().zip(1..) {
            let next = &mut ends[of.parent as usize];
            children[*next as usize] = at;
            *next += 1;
        }
        Self { root, below, children: children.into(), ends: ends.into() }
    }
}

/// A node of a tree that is being built.
#[derive(Clone, Copy)]
struct Placed {
    id: NodeId,
    node: NodeIx,
    up: Option<Adjacent>,
}

impl Placed {
    fn new(network: &Network, node: NodeIx) -> Self {
        Self { id: network.id(node), node, up: None }
    }
}

/// The link to the parent of `child`, which is at this distance.
fn parent(network: &Network, tree: TreeId, hops: &[u16], child: NodeIx) -> Option<Adjacent> {
    let level = hops[child].checked_sub(1)?;
    let of_level = of_level(tree, level.into());
    let nearer = network.sound(child).filter(|a| hops[a.to] == level);
    let mut best: Option<(u64, &Adjacent)> = None;
    for a in nearer {
        let neighbour = mix(of_level, network.id(a.to).get().into());
        let is_better = best.is_none_or(|(least, other)| match neighbour.cmp(&least) {
            Ordering::Equal => among_parallel(network, tree, child, a) < among_parallel(network, tree, child, other),
            order => order.is_lt(),
        });
        if is_better {
            best = Some((neighbour, a));
        }
    }
    best.map(|(_, a)| *a)
}

/// Of links from `child` to neighbours at `level`, a tree leads over the one with the least of these.
pub(crate) fn preference(
    network: &Network,
    tree: TreeId,
    level: u32,
    child: NodeIx,
    a: &Adjacent,
) -> (u64, Reverse<u32>, u64, PortIndex) {
    // Different neighbours have different hashes: `mix` is one to one.
    let neighbour = mix(of_level(tree, level), network.id(a.to).get().into());
    let (mtu, hash, port) = among_parallel(network, tree, child, a);
    (neighbour, mtu, hash, port)
}

fn of_level(tree: TreeId, level: u32) -> u64 {
    mix(tree.get().into(), level.into())
}

/// Of parallel links from `child`, a tree leads over the one with the least of these: one with the largest MTU; ties are broken by hash, so
/// that trees spread.
fn among_parallel(network: &Network, tree: TreeId, child: NodeIx, a: &Adjacent) -> (Reverse<u32>, u64, PortIndex) {
    let hash = mix(tree.get().into(), mix(network.id(child).get().into(), a.port.get().into()));
    (Reverse(a.mtu), hash, a.port)
}

#[cfg(test)]
mod tests;
