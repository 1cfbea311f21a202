// SPDX-License-Identifier: Apache-2.0
//! The schedule of faults and of changes by the controller, drawn before the run. Places are drawn as numbers that
//! are taken modulo the number of places when the event occurs.

use crate::chance::Chance;
use crate::config::{Config, Setup};

/// A fault, or a change by the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// All uplinks of a place fail.
    LinkDown(u64),
    /// The links are up again.
    LinkUp(u64),
    /// The agent of a node restarts; kernel state stays.
    AgentRestarts(u64),
    /// A node goes down and loses its state.
    NodeDown(u64),
    /// The node is up again.
    NodeUp(u32),
    /// A receiver joins late.
    Join(u64),
    /// A receiver leaves.
    Leave(u64),
    /// A receiver dies.
    Dies(u64),
    /// The controller evicts the dead.
    Evict,
    /// A receiver or a node moves to another parent: every node adopts its program within the time `pace`.
    Move {
        /// The receiver or node that moves.
        who: u64,
        /// The new parent.
        to: u64,
        /// ns.
        pace: u64,
    },
    /// A node adopts its program of the move in progress.
    Adopt(u32),
    /// A receiver that moves sends its feedback to its new parent.
    Answers {
        /// The receiver.
        who: u32,
        /// Its new parent.
        to: u32,
    },
    /// A node repeats its last feedback, and again this many times.
    Repeat(u32, u32),
    /// Faults stop.
    Calm,
}

/// All events, by time.
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
                // At the time scale of a round trip, or far slower.
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
