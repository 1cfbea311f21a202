// SPDX-License-Identifier: Apache-2.0
//! The replication tree of a group: shortest paths from the source's node to every receiver's node, sharing links.
//!
//! The tree is built from the farthest level to the root. Each level's nodes need parents one hop nearer; the smallest
//! set of parents is a set cover, solved greedily: nodes that are already in the tree first, then always the one that
//! covers most. Ties are broken by a hash of tree and node, so that groups spread over equal spines. Every hop is a
//! tree node, so each branch has a known port. Linear in the links around the tree, but for the heap's logarithm.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, HashSet};

use canopy_model::ids::{PortIndex, TreeId};
use canopy_model::topology::Endpoint;

use crate::hash::mix;
use crate::topology::{Adjacent, Network, NodeIx};

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
        let mut levels: Vec<Vec<NodeIx>> = Vec::new();
        for node in order {
            if node == root || is_target[node] {
                let level = distance[node] as usize;
                levels.resize_with(levels.len().max(level + 1), Vec::new);
                levels[level].push(node);
            }
        }
        let mut up: Vec<(NodeIx, Adjacent)> = Vec::new();
        for level in (1..levels.len()).rev() {
            let (nearer, farther) = levels.split_at_mut(level);
            let present = &mut nearer[level - 1];
            present.sort_unstable();
            let chosen = cover(network, tree, &distance, &farther[0], present);
            up.extend(chosen.iter().filter_map(|&(child, p)| Some((child, best_link(network, tree, child, p)?))));
            let parents: BTreeSet<NodeIx> = chosen.into_iter().map(|(_, parent)| parent).collect();
            let new: Vec<NodeIx> = parents.into_iter().filter(|p| present.binary_search(p).is_err()).collect();
            present.extend(new);
        }
        up.sort_unstable_by_key(|(child, _)| *child);
        let up = |node: NodeIx| Some(up[up.binary_search_by_key(&node, |(child, _)| *child).ok()?].1);
        Ok(Self::arrange(network, levels, up))
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

/// A parent one hop nearer for each of `children`, from as few nodes as the greedy choice finds; nodes in `present`, which are in order,
/// cost nothing.
fn cover(
    network: &Network,
    tree: TreeId,
    distance: &[u32],
    children: &[NodeIx],
    present: &[NodeIx],
) -> Vec<(NodeIx, NodeIx)> {
    let rank = |node: NodeIx| mix(u64::from(tree.get()), u64::from(network.id(node).get()));
    let nearer = |child: NodeIx| {
        let mut last = None;
        // Rows are sorted by neighbour, so parallel links are next to each other.
        network.sound(child).filter_map(move |a| {
            let new = distance[a.to].checked_add(1) == Some(distance[child]) && last.replace(a.to) != Some(a.to);
            new.then_some(a.to)
        })
    };
    let mut chosen = Vec::with_capacity(children.len());
    let mut is_open = vec![false; children.len()];
    // Each candidate with the positions of the children that it covers.
    let mut covers: Vec<(NodeIx, usize)> = Vec::new();
    for (at, &child) in children.iter().enumerate() {
        match nearer(child).filter(|p| present.binary_search(p).is_ok()).min_by_key(|&p| (rank(p), p)) {
            Some(parent) => chosen.push((child, parent)),
            None => {
                is_open[at] = true;
                covers.extend(nearer(child).map(|p| (p, at)));
            }
        }
    }
    covers.sort_unstable();
    let candidates: Vec<&[(NodeIx, usize)]> = covers.chunk_by(|a, b| a.0 == b.0).collect();
    let ranked = candidates.iter().enumerate().map(|(i, covered)| {
        let candidate = covered[0].0;
        (covered.len(), Reverse((rank(candidate), candidate, i)))
    });
    let mut heap: BinaryHeap<_> = ranked.collect();
    while let Some((count, Reverse((hash, candidate, i)))) = heap.pop() {
        let now = candidates[i].iter().filter(|(_, at)| is_open[*at]).count();
        if now == 0 {
            continue;
        }
        if now < count {
            // Other candidates covered some of its children since; it may still be the best one later.
            heap.push((now, Reverse((hash, candidate, i))));
            continue;
        }
        for &(_, at) in candidates[i] {
            if std::mem::take(&mut is_open[at]) {
                chosen.push((children[at], candidate));
            }
        }
    }
    chosen
}

/// Of parallel links, one with the largest MTU; ties are broken by hash, so that trees spread.
fn best_link(network: &Network, tree: TreeId, child: NodeIx, parent: NodeIx) -> Option<Adjacent> {
    let rank =
        |a: &Adjacent| mix(u64::from(tree.get()), mix(u64::from(network.id(child).get()), u64::from(a.port.get())));
    network.sound(child).filter(|a| a.to == parent).min_by_key(|a| (Reverse(a.mtu), rank(a), a.port)).copied()
}

#[cfg(test)]
mod tests;
