// SPDX-License-Identifier: Apache-2.0
//! Groups that another use of links concerns: all others have the same trees over both states of the network.
//!
//! A node's parent in a tree is chosen among its neighbours that are one hop nearer to the root. What the tree does not lead over can be
//! lost without another choice. A link that is gained is a choice for the node at its far end alone, if that node is as far from the root as
//! before; if it is nearer now, for every node that has a shortest path over the link.

use std::collections::{BTreeMap, BTreeSet};

use canopy_model::ids::GroupId;

use super::state::State;
use crate::resource::Group;
use crate::topology::{Difference, Network, NodeIx};
use crate::tree::{Tree, preference};

/// Hop counts to all nodes.
type Distances = Vec<u32>;

/// Of one end of a link that is gained.
struct End<'a> {
    node: NodeIx,
    /// Hop counts over the network with the link.
    now: &'a [u32],
    /// Hop counts over the network before.
    before: &'a [u32],
}

/// The groups that have to be planned over `new` as it differs from the present network. What this costs: these groups, and for each link
/// that is gained two searches from both ends and those groups with a node on that side of it where there are fewer nodes.
pub(super) fn affected(state: &State, old: &Network, new: &Network, difference: &Difference) -> BTreeSet<GroupId> {
    let trees = state.groups.trees();
    let mut found: BTreeSet<GroupId> = trees.unsettled().collect();
    found.extend(difference.lost.iter().flat_map(|link| trees.over(*link)));
    let search = |network: &Network, from| network.sound_distances(from, |_| false).0;
    let mut distances: BTreeMap<NodeIx, [Distances; 2]> = BTreeMap::new();
    for (link, ends) in difference.gained.iter().filter_map(|link| Some((*link, new.ends(*link)?))) {
        for end in ends {
            distances.entry(end).or_insert_with(|| [search(new, end), search(old, end)]);
        }
        let [a, b] = ends.map(|node| {
            let [now, before] = &distances[&node];
            End { node, now, before }
        });
        for id in beside(state, [a.now, b.now]) {
            if !found.contains(&id)
                && let Some(group) = state.groups.by_id(id)
                && (is_chosen(state, new, group, link, &a, &b) || is_chosen(state, new, group, link, &b, &a))
            {
                found.insert(id);
            }
        }
    }
    found
}

/// The groups with a node on the smaller side of a link, that is nearer to one of its ends than to the other.
fn beside(state: &State, [a, b]: [&[u32]; 2]) -> BTreeSet<GroupId> {
    let side = |near: &[u32], far: &[u32]| -> Vec<NodeIx> { (0..near.len()).filter(|n| near[*n] < far[*n]).collect() };
    let sides = [side(a, b), side(b, a)];
    let [of_a, of_b] = &sides;
    let smaller = if of_a.len() <= of_b.len() { of_a } else { of_b };
    smaller.iter().flat_map(|node| state.nodes[*node].spec.groups.ids()).collect()
}

/// Whether the group's tree may lead over a link that is gained, from the end `near` to the end `far`.
fn is_chosen(state: &State, network: &Network, group: &Group, link: usize, near: &End<'_>, far: &End<'_>) -> bool {
    let Some(tree) = group.plan().map(|plan| &plan.tree) else { return false };
    let root = tree.root();
    let level = near.now[root];
    if level.checked_add(1) != Some(far.now[root]) {
        return false;
    }
    if far.before[root] == far.now[root] {
        return is_preferred(state, network, group, (link, level), far.node);
    }
    // On a shortest path to a node of the tree.
    depths(tree).zip(tree.nodes()).any(|(depth, t)| far.now[root].saturating_add(far.now[t.node]) <= depth)
}

/// Whether `child` is in the group's tree and would rather have its parent over this link, which is so many hops from the root, than where
/// it has it.
fn is_preferred(state: &State, network: &Network, group: &Group, of: (usize, u32), child: NodeIx) -> bool {
    let Some(program) = state.program(group, child) else { return false };
    let (link, level) = of;
    let mut ways = network.sound(child);
    let preference = |a| preference(network, group.allocation.tree_id, level, child, a);
    let present = ways.clone().find(|a| a.port == program.upstream_port()).map(preference);
    ways.any(|a| a.link == link && present.is_none_or(|present| preference(a) < present))
}

/// How many hops each node of a tree is from its root, in the tree's order.
fn depths(tree: &Tree) -> impl Iterator<Item = u32> {
    let mut depths: Vec<u32> = Vec::with_capacity(tree.len());
    for t in tree.nodes() {
        depths.push(t.parent.map_or(0, |up| depths[up.position] + 1));
    }
    depths.into_iter()
}
