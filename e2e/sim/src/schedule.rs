// SPDX-License-Identifier: Apache-2.0
//! The schedule of faults and of changes by the controller, drawn before the run. Places are drawn as numbers that
//! are taken modulo the number of places when the event occurs.

use crate::action::Action;
use crate::chance::Chance;
use crate::config::{Config, Setup};

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
