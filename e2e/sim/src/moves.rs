// SPDX-License-Identifier: Apache-2.0
//! A receiver or a node moves to another parent: every node adopts its new program at a different time.

// Circle: the methods of World are in several files, and this one also defines what World holds of a move.

use std::collections::BTreeMap;

use canopy_reference::aggregate::Entry;

use crate::action::Action;
use crate::net::{Event, Place};
use crate::run::World;
use crate::tree::{MAX_BRANCHES, ROOT};

/// The changes at a node by its program of the new epoch.
#[derive(Default)]
struct Program {
    joins: Vec<(Place, Entry)>,
    leaves: Vec<Place>,
    /// The node sends its feedback to this parent.
    parent: Option<Place>,
    /// The node has no branches left.
    empty: bool,
}

/// A move in progress.
pub(crate) struct Move {
    epoch: u32,
    /// Nodes that have not adopted their program yet.
    programs: BTreeMap<Place, Program>,
    /// The receiver still sends its feedback to the old parent.
    receiver: bool,
}

impl World<'_> {
    /// Movable are receivers that count from the group's start, and nodes of the tree with everything behind them.
    /// Nodes adopt their programs in any order within `pace`, as agents do.
    pub(crate) fn begin_move(&mut self, who: u64, to: u64, pace: u64, now: u64) {
        let tree = &self.tree;
        let (nodes, receivers) = (tree.nodes.len() as u64, tree.receivers.len() as u64);
        let who = (who % (nodes + receivers)) as Place + 1;
        let index = tree.receiver_index(who);
        let movable = match index {
            Some(index) => !tree.receivers[index].gone && tree.receivers[index].started == Some(0),
            // Feedback of a receiver that waits for its message boundary is refused before that: its new parent would
            // wait forever.
            None => {
                let confirmed = self.careless || tree.node(who).machine.inner.minimum().is_some();
                who != ROOT && tree.is_attached(who) && confirmed
            }
        };
        let from = tree.parent(who);
        let fits = |to: &Place| {
            let has_room = tree.is_attached(*to) && tree.node(*to).branches.len() < MAX_BRANCHES;
            // A new node that has received no data would let its late receivers start with a message that is only
            // retransmitted.
            let settled = self.careless || tree.node(*to).machine.inner.minimum().is_some();
            has_room && settled && from != *to && !tree.upwards(*to).contains(&who)
        };
        let Some(to) = (0..nodes).map(|n| ((to + n) % nodes) as Place + 1).find(fits).filter(|_| movable) else {
            return;
        };
        self.report.moves += 1;
        self.epoch += 1;
        let epoch = self.epoch;
        let mut programs = self.programs((who, from, to), epoch);
        if index.is_none() {
            programs.entry(who).or_default().parent = Some(to);
        }
        for node in programs.keys() {
            let after = self.chance.between(1, pace);
            self.net.at(now + after, Event::Acts(Action::Adopt(*node)));
        }
        if index.is_some() {
            let after = self.chance.between(1, pace);
            self.net.at(now + after, Event::Acts(Action::Answers { who, to }));
        }
        self.moving = Some(Move { epoch, programs, receiver: index.is_some() });
    }

    /// A program for every node: the new parent and its ancestors up to the old tree join `who` anew, the old parent
    /// removes it, and nodes that lose their last branch leave too.
    fn programs(&self, (who, from, to): (Place, Place, Place), since: u32) -> BTreeMap<Place, Program> {
        let tree = &self.tree;
        let mut programs: BTreeMap<Place, Program> =
            (1..=tree.nodes.len() as Place).map(|node| (node, Program::default())).collect();
        let entry = |branch| Entry {
            at_boundary: false,
            receiver: tree.receiver_index(branch).is_some(),
            since,
            ..Entry::default()
        };
        let had = tree.upwards(from);
        let path = tree.upwards(to);
        let mut way = vec![(to, who)];
        way.extend(path.windows(2).take_while(|pair| !had.contains(&pair[0])).map(|pair| (pair[1], pair[0])));
        for (node, branch) in way {
            programs.entry(node).or_default().joins.push((branch, entry(branch)));
        }
        let (mut node, mut gone) = (from, who);
        loop {
            let program = programs.entry(node).or_default();
            program.leaves.push(gone);
            program.empty = program.joins.is_empty() && tree.node(node).branches.len() == 1 && node != ROOT;
            if !program.empty {
                return programs;
            }
            (gone, node) = (node, tree.parent(node));
        }
    }

    /// A node adopts its program in the order of the agent: branches join, then the epoch is in force, then branches
    /// leave.
    pub(crate) fn adopt_move(&mut self, node: Place, now: u64) {
        let Some(moving) = &mut self.moving else { return };
        let (epoch, program) = (moving.epoch, moving.programs.remove(&node).unwrap_or_default());
        for (branch, entry) in program.joins {
            self.join(node, branch, entry, now);
        }
        self.adopt(node, epoch, now);
        for branch in program.leaves {
            self.forget(node, branch, now);
        }
        if program.empty {
            self.forget_all(node);
        }
        if let Some(parent) = program.parent {
            self.tree.node_mut(node).parent = parent;
        }
        self.end_move();
    }

    /// A receiver sends its feedback to its new parent from now on.
    pub(crate) fn answers(&mut self, who: Place, to: Place, now: u64) {
        self.remark(now, || format!("{who} answers to {to}"));
        if let Some(index) = self.tree.receiver_index(who) {
            self.tree.receivers[index].parent = to;
        }
        if let Some(moving) = &mut self.moving {
            moving.receiver = false;
        }
        self.end_move();
    }

    fn end_move(&mut self) {
        if self.moving.as_ref().is_some_and(|m| m.programs.is_empty() && !m.receiver) {
            self.moving = None;
        }
    }
}
