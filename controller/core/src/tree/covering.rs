// SPDX-License-Identifier: Apache-2.0
//! Trees of as few nodes as a greedy choice finds, as earlier versions made them.
//!
//! A controller that takes over from such a version, and knows of a running group no more than the digest of its tree, finds the tree by
//! these, and moves the group to its own one by make before break (decisions 3.14).
//!
//! The tree is built from the farthest level to the root. Each level's nodes need parents one hop nearer; the smallest
//! set of parents is a set cover, solved greedily: nodes that are already in the tree first, then always the one that
//! covers most. Ties are broken by a hash of tree and node. Linear in the links around the tree, but for the heap's logarithm.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use canopy_model::ids::TreeId;

use super::Tree;
use crate::hash::mix;
use crate::topology::{Adjacent, Network, NodeIx};

/// See [`Tree::covering`].
pub(super) fn build(
    network: &Network,
    tree: TreeId,
    root: NodeIx,
    targets: impl IntoIterator<Item = NodeIx>,
) -> Result<Tree, NodeIx> {
    let Search { distance, found } = search(network, root, targets)?;
    let mut levels: Vec<Vec<NodeIx>> = Vec::new();
    for node in found.into_iter().filter(|node| *node != root).chain([root]) {
        let level = distance[node] as usize;
        levels.resize_with(levels.len().max(level + 1), Vec::new);
        levels[level].push(node);
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
    Ok(Tree::arrange(network, root, levels, up))
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
