// SPDX-License-Identifier: Apache-2.0
//! Make-before-break (decisions 3.9, 3.14): a tree moves in two steps.
//!
//! First the next tree is programmed beside the one in force, in its epoch: new parents send copies to children whose feedback still
//! goes to their old parents, and children accept data from both. Once every node of the next tree has confirmed that without an error,
//! it alone is put into force in a new epoch, and every child sends its state again. If a node does not, the next tree is taken away
//! again. A restarted controller finds the tree in force in the records, and continues.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use canopy_model::group::Replication;

use super::state::State;
use crate::plan::GroupPlan;
use crate::program::TreePrograms;
use crate::resource::{Group, Making, Step};
use crate::status::lacking;
use crate::topology::NodeIx;
use crate::tree::Tree;

/// Most copies of a packet that a node receives while two trees are in force; beyond that, the move costs more than it
/// saves.
const MAX_COPIES: u32 = 4;

/// A group's move that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Names this move among those of the group.
    pub since: u64,
    /// Every node of the next tree has confirmed it without an error.
    pub is_made: bool,
}

/// The first step of a move of `group` from the plan in force to `next`; no step if there is nothing to move. `None` if the group must move
/// at once, because the tree in force is broken or the two do not go together. It is begun at revision `since`, unless it is under way
/// already.
pub(super) fn stage(
    group: &Group,
    since: u64,
    present: TreePrograms<'_>,
    next: &Arc<GroupPlan>,
) -> Option<Option<Step>> {
    let (network, plan) = (present.network, present.plan);
    if present.are_same(&TreePrograms { plan: next, ..present }) {
        return Some(None);
    }
    let is_whole = plan.tree.nodes().filter_map(|t| t.parent).all(|up| !network.is_broken(up.link));
    let same_lists = [true, false].into_iter().all(|in_band| next.edges(in_band).eq(plan.edges(in_band)));
    // The kernel's multicast route accepts packets from one port only.
    let by_kernel = group.spec.replication == Replication::Multicast;
    if by_kernel || !is_whole || !same_lists || most_copies(&plan.tree, &next.tree)? > MAX_COPIES {
        return None;
    }
    let uplinks = next.tree.uplinks(network);
    let since = match group.behind.as_ref().map(|behind| &behind.step) {
        // What changed elsewhere gives no node more time, nor another try.
        Some(step @ Step::GivenUp(given_up)) if given_up.next == uplinks => return Some(Some(step.clone())),
        Some(Step::Making(making)) if making.next == uplinks => making.since,
        _ => since,
    };
    let (present, next_nodes) = (nodes(&plan.tree), nodes(&next.tree));
    let added = next.tree.nodes().map(|t| t.node).filter(|node| !present.contains(node)).collect();
    let leaving = present.difference(&next_nodes).copied().collect();
    Some(Some(Step::Making(Making { since, added, leaving, next: uplinks, plan: Some(Arc::clone(next)) })))
}

fn nodes(tree: &Tree) -> BTreeSet<NodeIx> {
    tree.nodes().map(|t| t.node).collect()
}

/// See [`super::Domain::moving`].
pub(super) fn moving(state: &State, group: &str) -> Option<Move> {
    let group = state.groups.get(group)?;
    let since = group.making()?.since;
    Some(Move { since, is_made: lacking(group, state.on_ground()).is_none() })
}

/// The largest number of paths from the root to a node over the edges of both trees; `None` if the edges form a cycle
/// or the trees have different roots.
fn most_copies(a: &Tree, b: &Tree) -> Option<u32> {
    let root = a.root();
    if b.root() != root {
        return None;
    }
    let edges = |t: &Tree| -> Vec<(NodeIx, NodeIx)> {
        t.nodes().filter_map(|n| Some((t.node(n.parent?.position).node, n.node))).collect()
    };
    let edges: BTreeSet<(NodeIx, NodeIx)> = edges(a).into_iter().chain(edges(b)).collect();
    // A node is counted after all edges to it are counted.
    let mut waits: BTreeMap<NodeIx, usize> = BTreeMap::new();
    edges.iter().for_each(|(_, child)| *waits.entry(*child).or_default() += 1);
    let (mut copies, mut most) = (BTreeMap::from([(root, 1u32)]), 1);
    let (mut counted, mut next) = (vec![root].into_iter().filter(|n| !waits.contains_key(n)).collect::<Vec<_>>(), 0);
    while let Some(&up) = counted.get(next) {
        next += 1;
        let through = copies[&up];
        for &(_, child) in edges.range((up, NodeIx::MIN)..=(up, NodeIx::MAX)) {
            let sum = copies.entry(child).or_default();
            *sum = sum.saturating_add(through);
            most = most.max(*sum);
            let left = waits.entry(child).or_default();
            *left -= 1;
            if *left == 0 {
                counted.push(child);
            }
        }
    }
    (counted.len() == waits.len() + 1).then_some(most)
}
