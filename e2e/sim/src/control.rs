// SPDX-License-Identifier: Apache-2.0
//! Changes of the tree: faults, and the controller's changes of membership in the order that preserves I1.

use canopy_reference::aggregate::{Entry, Input, Nak};

use crate::action::Action;
use crate::machine::Machine;
use crate::net::{Event, Links, Place};
use crate::receiver::Receiver;
use crate::run::{TIMEOUTS, World};
use crate::tree::{MAX_BRANCHES, ROOT};

/// Interval, ns, and number of repetitions of a node's last feedback after it has adopted a program (3.9).
const REPEAT_INTERVAL: u64 = 10_000_000;
const REPEATS: u32 = 200;

impl World<'_> {
    pub(crate) fn act(&mut self, action: Action, now: u64) {
        match action {
            Action::LinkDown(n) => drop(self.net.down.insert((n % self.places) as Place + 1)),
            Action::LinkUp(n) => drop(self.net.down.remove(&((n % self.places) as Place + 1))),
            Action::AgentRestarts(n) => self.agent_restarts(n, now),
            Action::NodeDown(n) => self.node_down(n, now),
            Action::NodeUp(place) => self.node_up(place, now),
            Action::Leave(n) if self.moving.is_none() => {
                if let Some(index) = self.draw_receiver(n) {
                    self.report.leaves += 1;
                    self.receiver_leaves(index, now);
                }
            }
            Action::Dies(n) => {
                if let Some(index) = self.draw_receiver(n) {
                    self.tree.receivers[index].dead = true;
                    self.remark(now, || format!("receiver {index} dies"));
                }
            }
            Action::Evict if self.moving.is_none() => self.evict(now),
            Action::Join(n) if self.moving.is_none() => self.join_late(n, now),
            Action::Move { who, to, pace } if self.moving.is_none() => self.begin_move(who, to, pace, now),
            Action::Move { .. } => {}
            Action::Adopt(place) => self.adopt_move(place, now),
            Action::Answers { who, to } => self.answers(who, to, now),
            Action::Repeat(place, left) => self.repeat(place, left, now),
            Action::Calm if self.moving.is_none() => self.calm_down(now),
            // The controller makes one change at a time.
            Action::Join(_) | Action::Leave(_) | Action::Evict | Action::Calm => {
                self.net.at(now + 10_000, Event::Acts(action));
            }
        }
    }

    fn calm_down(&mut self, now: u64) {
        self.evict(now);
        for place in 1..=self.tree.nodes.len() as Place {
            if self.tree.node(place).is_down {
                self.node_up(place, now);
            }
        }
        self.net.links = Links { delay: self.net.links.delay, ..Links::default() };
        self.net.down.clear();
        self.setup.rnr = (0, 1);
        self.report.timeouts = self.source.counters().timeouts;
        self.calm = Some((now, now + TIMEOUTS * self.source.timer.max(self.setup.timeout)));
    }

    /// Resets a node's aggregation in its current epoch.
    pub(crate) fn forget_all(&mut self, node: Place) {
        let (params, mutant, epoch) = (self.tree.params, self.tree.mutant, self.tree.node(node).epoch);
        self.tree.node_mut(node).machine = Machine::new(params, mutant, epoch);
    }

    /// A node adopts the program of `epoch`; its agent repeats the last feedback for a while (3.9).
    pub(crate) fn adopt(&mut self, node: Place, epoch: u32, now: u64) {
        self.remark(now, || format!("{node}: adopts epoch {epoch}"));
        self.tree.node_mut(node).epoch = epoch;
        self.feed(node, Input::Adopt(epoch), now);
        if node != ROOT {
            self.net.at(now + REPEAT_INTERVAL, Event::Acts(Action::Repeat(node, REPEATS - 1)));
        }
    }

    fn repeat(&mut self, node: Place, left: u32, now: u64) {
        if !self.tree.node(node).is_down {
            self.feed(node, Input::Repeat, now);
        }
        if left > 0 {
            self.net.at(now + REPEAT_INTERVAL, Event::Acts(Action::Repeat(node, left - 1)));
        }
    }

    /// A branch joins, or is reset: first in the configuration, then at the node if it is up.
    pub(crate) fn join(&mut self, node: Place, branch: Place, entry: Entry, now: u64) {
        let at = self.tree.node_mut(node);
        at.branches.insert(branch, entry);
        at.floors.remove(&branch);
        at.has_pending |= entry.at_boundary;
        self.remark(now, || format!("{node}: join {branch} {entry:?}"));
        if !self.tree.node(node).is_down {
            self.feed(node, Input::Join(branch, entry), now);
        }
    }

    /// A branch leaves; if it was the last branch of its node, the node leaves too.
    pub(crate) fn leave(&mut self, node: Place, branch: Place, now: u64) {
        self.forget(node, branch, now);
        if self.tree.node(node).branches.is_empty() && node != ROOT {
            self.forget_all(node);
            self.leave(self.tree.parent(node), node, now);
        }
    }

    /// Removes a branch from one node.
    pub(crate) fn forget(&mut self, node: Place, branch: Place, now: u64) {
        let forgets = self.tree.node_mut(node);
        forgets.branches.remove(&branch);
        forgets.floors.remove(&branch);
        self.remark(now, || format!("{node}: leave {branch}"));
        if !self.tree.node(node).is_down {
            self.feed(node, Input::Leave(branch), now);
        }
    }

    /// Whether branches may join late at `node`: a node that does not know what was acknowledged would let them start
    /// with a packet that is never sent again.
    fn takes_late(&self, node: Place) -> bool {
        let node = self.tree.node(node);
        self.careless || (!node.is_down && (node.machine.inner.minimum().is_some() || node.branches.is_empty()))
    }

    /// After data at a message boundary: records the branches that have started.
    pub(crate) fn note_started(&mut self, place: Place, number: u64, now: u64) {
        let node = self.tree.node_mut(place);
        let mut started = Vec::new();
        for (branch, shift) in node.machine.inner.copies() {
            if let Some(entry) = node.branches.get_mut(&branch).filter(|e| e.at_boundary) {
                entry.at_boundary = false;
                started.push((branch, shift));
            }
        }
        node.has_pending = node.branches.values().any(|e| e.at_boundary);
        node.floors.extend(started.iter().map(|(branch, _)| (*branch, number)));
        for (branch, shift) in started {
            let Some(index) = self.tree.receiver_index(branch) else { continue };
            self.tree.receivers[index].started = Some(number);
            self.remark(now, || format!("receiver {index} starts at packet {number}"));
            if (shift ^ number) & 0xFF_FFFF != 0 {
                self.oracle.violated(now, &format!("receiver {index} starts at packet {number} shifted by {shift}"));
            }
        }
    }

    fn agent_restarts(&mut self, n: u64, now: u64) {
        let place = (n % self.tree.nodes.len() as u64) as Place + 1;
        if self.tree.node(place).is_down {
            return;
        }
        let before = self.tree.node(place).machine.inner.clone();
        let branches = self.tree.node(place).branches.clone();
        branches.into_iter().for_each(|(branch, entry)| self.feed(place, Input::Join(branch, entry), now));
        if self.tree.node(place).machine.inner != before {
            self.oracle.violated(now, &format!("node {place} changed because its agent restarted"));
        }
    }

    /// Not at a node that has late receivers: their PSN shift is not part of the configuration. Nor at a node with a
    /// branch that waits for a message boundary, unless careless: see [`World::takes_late`].
    fn node_down(&mut self, n: u64, now: u64) {
        let place = (n % self.tree.nodes.len() as u64) as Place + 1;
        let late = |branch: &Place| {
            self.tree.receiver_index(*branch).is_some_and(|i| self.tree.receivers[i].started.is_some_and(|s| s > 0))
        };
        let waiting = self.tree.node(place).has_pending && !self.careless;
        if waiting || self.tree.node(place).is_down || self.tree.node(place).branches.keys().any(late) {
            return;
        }
        self.tree.node_mut(place).is_down = true;
        let lasts = self.chance.between(1, 3_000_000);
        self.net.at(now + lasts, Event::Acts(Action::NodeUp(place)));
    }

    fn node_up(&mut self, place: Place, now: u64) {
        if !std::mem::take(&mut self.tree.node_mut(place).is_down) {
            return;
        }
        self.forget_all(place);
        self.report.states_lost += 1;
        let branches = self.tree.node(place).branches.clone();
        branches.into_iter().for_each(|(branch, entry)| self.feed(place, Input::Join(branch, entry), now));
    }

    fn join_late(&mut self, n: u64, now: u64) {
        let edge = (n % self.tree.nodes.len() as u64) as Place + 1;
        let above = self.tree.upwards(edge);
        let full = above.iter().any(|node| self.tree.node(*node).branches.len() >= MAX_BRANCHES);
        let unsafe_now = above.iter().any(|node| !self.takes_late(*node));
        if full || unsafe_now {
            return;
        }
        self.report.joins += 1;
        self.epoch += 1;
        let since = self.epoch;
        self.tree.receivers.push(Receiver::new(self.setup.start_psn, edge));
        let mut branch = self.tree.receiver_place(self.tree.receivers.len() - 1);
        for node in above {
            let first = self.tree.node(node).branches.is_empty();
            let receiver = self.tree.receiver_index(branch).is_some();
            self.join(node, branch, Entry { at_boundary: true, receiver, since, ..Entry::default() }, now);
            if receiver {
                // Its queue pair is new, and answers the probe at once.
                let psn = self.setup.start_psn;
                self.feed(node, Input::Nak { branch, epoch: 0, psn, msn: 0, nak: Nak::Sequence }, now);
            }
            if !first {
                break;
            }
            branch = node;
        }
        for node in 1..=self.tree.nodes.len() as Place {
            self.adopt(node, since, now);
        }
    }

    /// A receiver that may leave: never the first one, so that the group is never empty.
    fn draw_receiver(&self, n: u64) -> Option<usize> {
        let index = 1 + (n % (self.tree.receivers.len() as u64 - 1).max(1)) as usize;
        self.tree.receivers.get(index).filter(|r| !r.gone && !r.dead).map(|_| index)
    }

    fn receiver_leaves(&mut self, index: usize, now: u64) {
        self.tree.receivers[index].gone = true;
        self.leave(self.tree.receivers[index].parent, self.tree.receiver_place(index), now);
    }

    fn evict(&mut self, now: u64) {
        for index in 0..self.tree.receivers.len() {
            if self.tree.receivers[index].dead && !self.tree.receivers[index].gone {
                self.report.evictions += 1;
                self.receiver_leaves(index, now);
            }
        }
    }
}
