// SPDX-License-Identifier: Apache-2.0
//! The tree: the data paths from parent to child, and the feedback paths back.

use std::collections::BTreeMap;
use std::time::Duration;

use canopy_reference::aggregate::{Entry, Params};

use crate::chance::Chance;
use crate::config::Setup;
use crate::machine::{Machine, Mutant};
use crate::net::{Place, SOURCE};
use crate::receiver::Receiver;

/// Branches that a node may have.
pub const MAX_BRANCHES: usize = 128;
/// The node that receives the source's packets.
pub const ROOT: Place = 1;

/// A node of the tree.
pub struct Node {
    /// Its aggregation.
    pub machine: Machine,
    /// The epoch that its feedback carries.
    pub epoch: u32,
    /// The node or source that receives its feedback.
    pub parent: Place,
    /// Its branches in the controller's configuration: the start of a node that lost its state.
    pub branches: BTreeMap<Place, Entry>,
    /// Some branch waits for a message boundary.
    pub has_pending: bool,
    /// Number of the packet with which a late branch started: older packets are not for it.
    pub floors: BTreeMap<Place, u64>,
    /// It is inactive until it is up again.
    pub is_down: bool,
}

/// Nodes 1.., then receivers.
pub struct Tree {
    /// Nodes; the root is the first.
    pub nodes: Vec<Node>,
    /// Receivers, including late ones.
    pub receivers: Vec<Receiver>,
    /// Parameters of every aggregation.
    pub params: Params,
    /// The aggregation variant.
    pub mutant: Mutant,
}

impl Tree {
    /// Draws a tree: any node may have receivers. Nodes without branches are not in the tree.
    pub fn draw(setup: &Setup, mutant: Mutant, chance: &mut Chance) -> Self {
        let params = Params {
            start: (1 << 24) + u64::from(setup.start_psn),
            window: (1 << 22) - 1,
            reack: Duration::from_micros(200),
            nak_merge: Duration::from_micros(500),
            psn_bits: 24,
        };
        let mut tree = Self { nodes: Vec::new(), receivers: Vec::new(), params, mutant };
        let big = setup.receivers > 100;
        let edges = if big { setup.receivers.div_ceil(64) } else { chance.between(1, 7) as u32 };
        let middle = if big { edges.div_ceil(8) } else { 0 };
        for place in 1..=1 + middle + edges {
            let parent = match place {
                ROOT => SOURCE,
                _ if big && place <= 1 + middle => ROOT,
                _ if big => 2 + place % middle,
                _ => chance.between(1, u64::from(place) - 1) as Place,
            };
            let epoch = setup.epoch;
            let machine = Machine::new(params, mutant, epoch);
            let (branches, floors) = (BTreeMap::new(), BTreeMap::new());
            tree.nodes.push(Node { machine, epoch, parent, branches, has_pending: false, floors, is_down: false });
        }
        for i in 0..setup.receivers {
            let edge = if big { 2 + middle + i % edges } else { chance.between(1, u64::from(edges) + 1) as Place };
            let mut receiver = Receiver::new(setup.start_psn, edge);
            receiver.started = Some(0);
            tree.receivers.push(receiver);
            // Nothing was sent before they joined: their feedback must arrive before anything is acknowledged.
            tree.graft(tree.receiver_place(i as usize), edge, setup.epoch);
        }
        tree
    }

    /// Joins `branch` at `node`, and `node` at its ancestors if it was not in the tree, before data.
    fn graft(&mut self, branch: Place, node: Place, since: u32) {
        let entry =
            Entry { at_boundary: false, receiver: self.receiver_index(branch).is_some(), since, ..Entry::default() };
        let joins = self.node_mut(node);
        let first = joins.branches.is_empty();
        joins.branches.insert(branch, entry);
        let _ = joins.machine.handle(canopy_reference::aggregate::Input::Join(branch, entry), since, 1);
        if first && node != ROOT {
            let parent = self.node(node).parent;
            self.graft(node, parent, since);
        }
    }

    /// The node at `place`.
    pub fn node(&self, place: Place) -> &Node {
        &self.nodes[place as usize - 1]
    }

    /// The node at `place`.
    pub fn node_mut(&mut self, place: Place) -> &mut Node {
        &mut self.nodes[place as usize - 1]
    }

    /// Index of the receiver at `place`; `None` for a node or the source.
    pub fn receiver_index(&self, place: Place) -> Option<usize> {
        (place as usize).checked_sub(self.nodes.len() + 1)
    }

    /// Place of receiver `index`.
    pub fn receiver_place(&self, index: usize) -> Place {
        (index + self.nodes.len() + 1) as Place
    }

    /// The parent, to which a place sends its feedback.
    pub fn parent(&self, place: Place) -> Place {
        match self.receiver_index(place) {
            Some(index) => self.receivers[index].parent,
            None if place == SOURCE => SOURCE,
            None => self.node(place).parent,
        }
    }

    /// `node` and its ancestors, up to the root.
    pub fn upwards(&self, node: Place) -> Vec<Place> {
        std::iter::successors(Some(node), |n| Some(self.parent(*n)).filter(|p| *p != SOURCE)).collect()
    }

    /// `node` receives data: it is the root, or a branch of its parent, and so on up to the root.
    pub fn is_attached(&self, node: Place) -> bool {
        let up = self.upwards(node);
        !self.node(node).branches.is_empty()
            && up.windows(2).all(|pair| self.node(pair[1]).branches.contains_key(&pair[0]))
    }
}
