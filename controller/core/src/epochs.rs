// SPDX-License-Identifier: Apache-2.0
//! Epochs per (parent, child) (decisions 3.15): a change re-programs the nodes that it concerns, and not the whole tree.
//!
//! A node's program has an epoch, which is also what its feedback carries, and its parent counts that since an epoch of the child. Both
//! become the group's present epoch where
//!
//! - the node comes into the tree of an open group, or gets another parent: nothing of before counts there;
//! - a receiver that stays moves to behind the node, or away from there: no other node may count it yet that a node has stopped counting,
//!   and what a node acknowledged before does not cover a receiver that it counts from now on;
//! - a receiver joins late behind it: where it starts may be before what the node has acknowledged, if the edge is new or lost its state;
//! - it would be 2,048 epochs old or more, because feedback carries 14 bits of it;
//!
//! and at all nodes above such a node, so that no node has a smaller epoch than its children: an agent counts no feedback of a newer epoch
//! than its own program's, in every version.
//!
//! Who joins before the group is open changes none of them: no data passes before every node has confirmed its program, so nothing can be
//! acknowledged that it lacks; a node that comes into the tree then has the epoch of its parent. Nor does a receiver that leaves: what its
//! edge acknowledges without it is true.
//!
//! The epochs are durable with the tree. Those of a version that had one epoch per tree follow from that one.

use std::collections::BTreeMap;

use canopy_model::ids::NodeId;
use canopy_model::topology::Endpoint;

use crate::content::Joined;
use crate::receivers_by_edge::{REFRESHED_EVERY, ReceiversByEdge, counts_since, without};
use crate::topology::Network;
use crate::tree::Tree;

/// The epochs of a tree's nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Epochs {
    root: u32,
    /// In the order of the nodes, each once.
    below: Box<[(NodeId, BelowRoot)]>,
}

/// The epochs of a node that has a parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BelowRoot {
    parent: NodeId,
    epoch: u32,
    since: u32,
}

/// A tree that comes into force in an epoch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planning<'a> {
    pub(crate) network: &'a Network,
    pub(crate) tree: &'a Tree,
    pub(crate) behind: &'a ReceiversByEdge,
    /// Of the group.
    pub(crate) epoch: u32,
    /// See [`GroupPlan::moved`](crate::plan::GroupPlan).
    pub(crate) moved: u32,
    /// The headend takes data: something may have been acknowledged.
    pub(crate) is_open: bool,
}

impl Epochs {
    /// Every node starts over, as far as a receiver joined or moved behind it; in a tree of which nothing is known.
    pub(crate) fn of_tree(planning: &Planning<'_>) -> Self {
        let Planning { network, tree, behind, epoch, moved, .. } = *planning;
        let below = tree.nodes().filter_map(|t| {
            let (node, parent) = (network.id(t.node), network.id(tree.node(t.parent?.position).node));
            let since = counts_since(behind.at((parent, node)), moved, epoch);
            Some((node, BelowRoot { parent, epoch, since }))
        });
        Self::new(epoch, below.collect())
    }

    fn new(root: u32, mut below: Vec<(NodeId, BelowRoot)>) -> Self {
        below.sort_unstable_by_key(|(node, _)| *node);
        Self { root, below: below.into() }
    }

    fn below(&self, node: NodeId) -> Option<&BelowRoot> {
        self.below.binary_search_by_key(&node, |(node, _)| *node).ok().map(|found| &self.below[found].1)
    }

    /// Those of the tree that follows this one, in which the nodes start over that the change concerns. `before`: the receivers behind
    /// each child in this one; `None` if they are the same. `receivers`: all of the next one.
    pub(crate) fn next(
        &self,
        planning: &Planning<'_>,
        before: Option<&ReceiversByEdge>,
        receivers: impl Iterator<Item = Joined>,
    ) -> Self {
        let Planning { network, tree, behind, epoch, is_open, .. } = *planning;
        let refreshed = epoch - epoch % REFRESHED_EVERY;
        let mut present: Vec<Joined> = receivers.collect();
        present.sort();
        let arrives = |r: &Joined| r.late && r.since == epoch;
        let id = |at: usize| network.id(tree.node(at).node);
        let mut changes = vec![false; tree.len()];
        changes[0] = self.root < refreshed || (before.is_some() && present.iter().any(arrives));
        // Parents come before their children.
        for (at, t) in tree.nodes().enumerate().rev() {
            let Some(up) = t.parent else { continue };
            let (node, parent) = (id(at), id(up.position));
            let concerns = |before: &ReceiversByEdge| {
                let [was, is] = [before, behind].map(|of| of.at((parent, node)));
                let gains = without(is, was).any(|r| r.since < epoch || arrives(r));
                gains || without(was, is).any(|r| present.binary_search(r).is_ok())
            };
            changes[at] |= match self.below(node) {
                Some(known) => known.parent != parent || known.since < refreshed,
                None => is_open,
            };
            changes[at] |= before.is_some_and(concerns);
            changes[up.position] |= changes[at];
        }
        let root = if changes[0] { epoch } else { self.root };
        let (mut at_nodes, mut below) = (vec![root; tree.len()], Vec::with_capacity(tree.len()));
        for (at, t) in tree.nodes().enumerate() {
            let Some(up) = t.parent else { continue };
            let (node, parent) = (id(at), id(up.position));
            let of_parent = at_nodes[up.position];
            let of_node = match self.below(node) {
                _ if changes[at] => BelowRoot { parent, epoch, since: epoch },
                Some(known) => *known,
                None => BelowRoot { parent, epoch: of_parent, since: of_parent },
            };
            at_nodes[at] = of_node.epoch;
            below.push((node, of_node));
        }
        Self::new(root, below)
    }

    /// Of a node's program.
    pub(crate) fn of(&self, node: NodeId) -> u32 {
        self.below(node).map_or(self.root, |below| below.epoch)
    }

    /// From which epoch on a node's feedback counts at its parent.
    pub(crate) fn since(&self, node: NodeId) -> u32 {
        self.below(node).map_or(self.root, |below| below.since)
    }

    /// As a record has them: in the order of the tree's nodes.
    pub(crate) fn recorded(&self, network: &Network, tree: &Tree) -> Vec<(u32, u32)> {
        let ids = tree.nodes().map(|t| network.id(t.node));
        ids.map(|node| (self.of(node), self.since(node))).collect()
    }

    /// Those of a record, of a tree with these ports of nodes towards the root; `None` if it is of a version that had one epoch per tree, or
    /// its links are not there any longer.
    pub(crate) fn read(recorded: &[(u32, u32)], uplinks: &[Endpoint], network: &Network) -> Option<Self> {
        let ((root, _), below) = recorded.split_first()?;
        let nodes = uplinks.iter().zip(below).map(|(port, (epoch, since))| {
            let (node, up) = network.across(port)?;
            let parent = network.id(up.to);
            Some((network.id(node), BelowRoot { parent, epoch: *epoch, since: *since }))
        });
        let nodes = nodes.collect::<Option<BTreeMap<_, _>>>()?;
        (nodes.len() == below.len()).then(|| Self::new(*root, nodes.into_iter().collect()))
    }
}
