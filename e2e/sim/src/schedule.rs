// SPDX-License-Identifier: Apache-2.0
//! Which faults happen and what the controller does, and when: drawn before time passes. Places are drawn as numbers
//! that are taken modulo what is there when the time comes.

use crate::chance::Chance;
use crate::config::{Config, Setup};

/// A fault, or what the controller does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Every way up of a place fails.
    LinkDown(u64),
    /// It is up again.
    LinkUp(u64),
    /// The agent of a node restarts; what the kernel holds stays.
    AgentRestarts(u64),
    /// A node goes down and forgets all.
    NodeDown(u64),
    /// It is up again.
    NodeUp(u32),
    /// A receiver joins late.
    Join(u64),
    /// A receiver leaves.
    Leave(u64),
    /// A receiver dies.
    Dies(u64),
    /// The controller evicts the dead.
    Evict,
    /// A receiver or a node moves to another parent: every node adopts its program within so much time.
    Move {
        /// What moves.
        who: u64,
        /// To where.
        to: u64,
        /// ns.
        pace: u64,
    },
    /// A node adopts its program of the move under way.
    Adopt(u32),
    /// What moves, a receiver, answers to its new parent.
    Answers {
        /// The receiver.
        who: u32,
        /// Its new parent.
        to: u32,
    },
    /// A node repeats its last feedback, and so many times more.
    Repeat(u32, u32),
    /// Faults stop.
    Calm,
}

/// All of them, by time.
pub fn draw(config: &Config, setup: &Setup, chance: &mut Chance) -> Vec<(u64, Action)> {
    if config.no_faults {
        return Vec::new();
    }
    let mut all = vec![(setup.calm, Action::Calm)];
    let end = setup.calm;
    for _ in 0..chance.below(4) {
        outage(end, chance, &mut all);
    }
    if config.only_links {
        return all;
    }
    for _ in 0..chance.below(10) {
        let at = chance.below(end * 3 / 4);
        let who = chance.below(1 << 32);
        match chance.below(10) {
            0 => all.push((at, Action::AgentRestarts(who))),
            1 | 2 => all.push((at, Action::NodeDown(who))),
            3 | 4 => all.push((at, Action::Join(who))),
            5 => all.push((at, Action::Leave(who))),
            6 => {
                all.push((at, Action::Dies(who)));
                all.push((chance.between(at, end - 1), Action::Evict));
            }
            _ => {
                // As fast as answers travel, or far slower.
                let slowest = if chance.below(2) == 0 { 50_000 } else { end / 4 };
                let (to, pace) = (chance.below(1 << 32), chance.between(5_000, slowest));
                all.push((at, Action::Move { who, to, pace }));
            }
        }
    }
    all.push((end - 1, Action::Evict));
    all
}

/// Links of a random set fail one by one in random order and come back in another; or all at once, a partition.
fn outage(end: u64, chance: &mut Chance, all: &mut Vec<(u64, Action)>) {
    let at = chance.below(end);
    let lasts = chance.between(1, (end - at).min(10_000_000));
    let together = chance.below(3) == 0;
    for _ in 0..chance.between(1, 8) {
        let who = chance.below(1 << 32);
        let (from, to) = if together { (0, lasts) } else { (chance.below(lasts), lasts + chance.below(lasts)) };
        all.push((at + from, Action::LinkDown(who)));
        all.push((at + to, Action::LinkUp(who)));
    }
}
