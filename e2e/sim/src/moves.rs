// SPDX-License-Identifier: Apache-2.0
//! A receiver or a node moves to another parent, make before break.

use canopy_agent_core::aggregate::Entry;

use crate::net::{Event, Place};
use crate::run::World;
use crate::schedule::Action;
use crate::tree::{MAX_BRANCHES, ROOT};

/// A move under way, make before break.
pub(crate) struct Move {
    steps: std::vec::IntoIter<Step>,
    pace: u64,
}

/// One step of a move.
#[derive(Clone, Copy)]
enum Step {
    /// A node is told that receivers moved behind a branch of it, and says so in its own feedback unless it had them
    /// before.
    Resets { node: Place, branch: Place, receiver: bool, since: u32, adopts: bool },
    /// What moves answers to its new parent.
    Answers { who: Place, to: Place },
    /// The old parent forgets it.
    Forgets { node: Place, branch: Place },
}

impl World<'_> {
    /// What may move: receivers that count from the group's start, and nodes of the tree with all behind them.
    pub(crate) fn begin_move(&mut self, who: u64, to: u64, leaves_first: bool, pace: u64, now: u64) {
        let tree = &self.tree;
        let (nodes, receivers) = (tree.nodes.len() as u64, tree.receivers.len() as u64);
        let who = (who % (nodes + receivers)) as Place + 1;
        let index = tree.receiver_index(who);
        let movable = match index {
            Some(index) => !tree.receivers[index].gone && tree.receivers[index].started == Some(0),
            // One that waits for its message boundary is not heard before: its new parent would wait for ever.
            None => {
                let speaks = self.careless || tree.node(who).machine.inner.minimum().is_some();
                who != ROOT && tree.is_attached(who) && speaks
            }
        };
        let from = tree.parent(who);
        let fits = |to: &Place| {
            let has_room = tree.is_attached(*to) && tree.node(*to).branches.len() < MAX_BRANCHES;
            // A new node that has seen nothing would let its late receivers begin with a message that is only sent again.
            let settled = self.careless || tree.node(*to).machine.inner.minimum().is_some();
            has_room && settled && from != *to && !tree.upwards(*to).contains(&who)
        };
        let Some(to) = (0..nodes).map(|n| ((to + n) % nodes) as Place + 1).find(fits).filter(|_| movable) else {
            return;
        };
        let path = tree.upwards(to);
        self.report.moves += 1;
        self.epoch += 1;
        let (since, old) = (self.epoch, self.tree.upwards(from));
        if index.is_none() {
            self.tree.node_mut(who).epoch = since;
        }
        let had = |node: Place| old.contains(&node);
        let mut steps =
            vec![Step::Resets { node: to, branch: who, receiver: index.is_some(), since, adopts: !had(to) }];
        for pair in path.windows(2).take_while(|pair| !had(pair[0])) {
            let (branch, node) = (pair[0], pair[1]);
            steps.push(Step::Resets { node, branch, receiver: false, since, adopts: !had(node) });
        }
        steps.push(Step::Answers { who, to });
        steps.push(Step::Forgets { node: from, branch: who });
        if leaves_first {
            let last = steps.len() - 1;
            steps.swap(last - 1, last);
        }
        self.moving = Some(Move { steps: steps.into_iter(), pace });
        self.move_on(now);
    }

    pub(crate) fn move_on(&mut self, now: u64) {
        let Some(moving) = &mut self.moving else { return };
        let (step, pace) = (moving.steps.next(), moving.pace);
        match step {
            Some(Step::Resets { node, branch, receiver, since, adopts }) => {
                if adopts {
                    self.tree.node_mut(node).epoch = since;
                }
                self.join(node, branch, Entry { at_boundary: false, receiver, since }, now);
            }
            Some(Step::Answers { who, to }) => {
                self.remark(now, || format!("{who} answers to {to}"));
                match self.tree.receiver_index(who) {
                    Some(index) => self.tree.receivers[index].parent = to,
                    None => self.tree.node_mut(who).parent = to,
                }
            }
            Some(Step::Forgets { node, branch }) => self.leave(node, branch, now),
            None => {
                self.moving = None;
                return;
            }
        }
        let after = self.chance.between(1, pace);
        self.net.at(now + after, Event::Acts(Action::MoveOn));
    }
}
