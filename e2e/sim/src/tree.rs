// SPDX-License-Identifier: Apache-2.0
//! The tree: who sends data to whom, and who answers to whom.

use std::collections::BTreeMap;

use canopy_agent_core::aggregate::{Entry, Params};

use crate::chance::Chance;
use crate::config::Setup;
use crate::machine::{Machine, Mutant};
use crate::net::{Place, SOURCE};
use crate::receiver::Receiver;

/// Branches that a node may have.
pub const MAX_BRANCHES: usize = 128;
/// The node that the source's packets come to.
pub const ROOT: Place = 1;

/// A node of the tree.
pub struct Node {
    /// Its aggregation.
    pub machine: Machine,
    /// The epoch that its feedback carries.
    pub epoch: u32,
    /// Where its feedback goes.
    pub parent: Place,
    /// Its branches as the controller has configured them: what a node that lost its state starts from.
    pub branches: BTreeMap<Place, Entry>,
    /// Some branch waits for a message boundary.
    pub has_pending: bool,
    /// The packet with which a late branch began, by number: what is older is not for it.
    pub floors: BTreeMap<Place, u64>,
    /// It does nothing until it is up again.
    pub is_down: bool,
}

/// Nodes 1.., then receivers.
pub struct Tree {
    /// Nodes; the root is the first.
    pub nodes: Vec<Node>,
    /// Receivers, those that come later too.
    pub receivers: Vec<Receiver>,
    /// What every aggregation is told.
    pub params: Params,
    /// Which aggregation.
    pub mutant: Mutant,
}

impl Tree {
    /// A tree as the generator has it: any node may have receivers. Nodes without branches are in no tree.
    pub fn draw(setup: &Setup, mutant: Mutant, chance: &mut Chance) -> Self {
        let params = Params {
            start: (1 << 24) + u64::from(setup.start_psn),
            window: (1 << 22) - 1,
            reack_ns: 200_000,
            nak_merge_ns: 500_000,
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
            // What was sent before, which is nothing, is not theirs to skip: they are heard before anything is said.
            tree.graft(tree.receiver_place(i as usize), edge, setup.epoch);
        }
        tree
    }

    /// Joins `branch` at `node`, and `node` upwards where it was in no tree, before data.
    fn graft(&mut self, branch: Place, node: Place, since: u32) {
        let entry = Entry { at_boundary: false, receiver: self.receiver_index(branch).is_some(), since };
        let joins = self.node_mut(node);
        let first = joins.branches.is_empty();
        joins.branches.insert(branch, entry);
        let _ = joins.machine.handle(canopy_agent_core::aggregate::Input::Join(branch, entry), since, 1);
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

    /// Which receiver is at `place`; `None` for a node or the source.
    pub fn receiver_index(&self, place: Place) -> Option<usize> {
        (place as usize).checked_sub(self.nodes.len() + 1)
    }

    /// Where receiver `index` is.
    pub fn receiver_place(&self, index: usize) -> Place {
        (index + self.nodes.len() + 1) as Place
    }

    /// Who answers to whom.
    pub fn parent(&self, place: Place) -> Place {
        match self.receiver_index(place) {
            Some(index) => self.receivers[index].parent,
            None if place == SOURCE => SOURCE,
            None => self.node(place).parent,
        }
    }

    /// `node` and everything above it, up to the root.
    pub fn upwards(&self, node: Place) -> Vec<Place> {
        std::iter::successors(Some(node), |n| Some(self.parent(*n)).filter(|p| *p != SOURCE)).collect()
    }

    /// Data comes to `node`: it is the root, or its parent's branch, and so on upwards.
    pub fn is_attached(&self, node: Place) -> bool {
        let up = self.upwards(node);
        !self.node(node).branches.is_empty()
            && up.windows(2).all(|pair| self.node(pair[1]).branches.contains_key(&pair[0]))
    }
}
