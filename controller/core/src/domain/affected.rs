// SPDX-License-Identifier: Apache-2.0
//! Groups that another use of links concerns: all others have the same trees over both states of the network.
//!
//! A tree follows from the shortest paths from its root to its receivers' nodes. A link that is lost and that the tree does not lead over was
//! on such a path or not; the choice among the others is the same without it. A link that is gained changes the choice only if it is on a
//! shortest path from the root to a node of the tree, and then the root is nearer to one of its ends, and that node to the other.

use std::collections::{BTreeMap, BTreeSet};

use canopy_model::ids::GroupId;

use super::state::State;
use crate::resource::Group;
use crate::topology::{Difference, Network, NodeIx};

/// Hop counts from a node to all others.
type Distances = Vec<u32>;

/// The groups that have to be planned over `new` as it differs from the present network. What this costs: these groups, and for each link
/// that is gained a search from both ends and those groups with a node on that side of it where there are fewer nodes.
pub(super) fn affected(state: &State, new: &Network, difference: &Difference) -> BTreeSet<GroupId> {
    let trees = state.groups.trees();
    let mut found: BTreeSet<GroupId> = trees.unsettled().collect();
    found.extend(difference.lost.iter().flat_map(|link| trees.over(*link)));
    let mut distances: BTreeMap<NodeIx, Distances> = BTreeMap::new();
    for ends in difference.gained.iter().filter_map(|link| new.ends(*link)) {
        for end in ends {
            distances.entry(end).or_insert_with(|| new.sound_distances(end, |_| false).0);
        }
        let of_ends = ends.map(|end| distances[&end].as_slice());
        for id in beside(state, of_ends) {
            if !found.contains(&id) && state.groups.by_id(id).is_some_and(|group| is_on_the_way(group, of_ends)) {
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
    smaller.iter().flat_map(|node| state.nodes[*node].spec.groups.keys().copied()).collect()
}

/// Whether a link with these distances from its ends is on a shortest path from the root of the group's tree to a node of it.
fn is_on_the_way(group: &Group, [a, b]: [&[u32]; 2]) -> bool {
    let Some(plan) = group.plan() else { return false };
    let root = plan.tree.nodes[0].node;
    let mut depths: Vec<u32> = Vec::with_capacity(plan.tree.nodes.len());
    for t in &plan.tree.nodes {
        let depth = t.parent.map_or(0, |up| depths[up.position] + 1);
        depths.push(depth);
        let over = |near: &[u32], far: &[u32]| near[root].saturating_add(1).saturating_add(far[t.node]) <= depth;
        if over(a, b) || over(b, a) {
            return true;
        }
    }
    false
}
