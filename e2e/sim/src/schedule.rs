// SPDX-License-Identifier: Apache-2.0
//! The schedule of faults and of commands to the controller, drawn before the run. Places are drawn as numbers that are
//! taken modulo the number of places when the event occurs.

use crate::action::Action;
use crate::chance::Chance;
use crate::config::{Config, Setup, Window};

/// All events, by time.
pub fn draw(config: &Config, setup: &Setup, chance: &mut Chance) -> Vec<(u64, Action)> {
    if config.no_faults {
        return Vec::new();
    }
    let end = setup.calm;
    let mut all = vec![(end, Action::Calm)];
    let outages = if config.late == Some(Window::Awaited) { 0 } else { chance.below(4) };
    for _ in 0..outages {
        outage(end, chance, &mut all);
    }
    if config.only_links {
        return all;
    }
    for _ in 0..chance.below(4) {
        let (at, lasts) = (chance.below(end), chance.between(1, end));
        all.push((at, Action::Pause(chance.below(1 << 32), lasts)));
    }
    if let Some(window) = config.late {
        late(window, end, chance, &mut all);
        return all;
    }
    all.extend((1..=setup.ages).map(|n| (end * n / (setup.ages + 1), Action::Ages)));
    for _ in 0..chance.below(20) {
        let at = chance.below(end * 3 / 4);
        let n = chance.below(1 << 32);
        let lasts = chance.between(1, end.min(1_000_000_000));
        match chance.below(15) {
            0 => all.push((at, Action::AgentRestarts(n, lasts))),
            1 => all.push((at, Action::PinsLost(n, lasts))),
            2 => all.push((at, Action::ControllerRestarts)),
            3 => all.push((at, Action::Refuses(n, chance.between(1, 3) as u32))),
            4 | 5 => all.push((at, Action::Join(n))),
            6 => all.push((at, Action::Leave(n))),
            7 => {
                all.push((at, Action::Dies(n, chance.below(2) == 0)));
                all.push((chance.between(at, end - 1), Action::Evict));
            }
            8 => {
                all.push((at, Action::Mtu(n)));
                all.push((chance.between(at, end - 1), Action::Mtu(n)));
            }
            9 => all.push((at, Action::Encoding(n))),
            10..12 => all.push((at, Action::LinkDown(n, true))),
            12 => all.push((at, Action::Rewire(n, chance.below(1 << 32), chance.below(2) == 0))),
            _ => {
                all.push((at, Action::Drain(n)));
                all.push((chance.between(at, end - 1), Action::Drain(n)));
            }
        }
    }
    all
}

/// Receivers join in a window, several times. Times before the first packet are relative to the opening of the group.
fn late(window: Window, end: u64, chance: &mut Chance, all: &mut Vec<(u64, Action)>) {
    let at = chance.below(end * 3 / 4);
    let (n, lasts) = (chance.below(1 << 32), chance.between(1, end.min(100_000_000)));
    match window {
        Window::BeforeFirst | Window::Awaited | Window::WhileFirst => return,
        Window::AfterFirst => {}
        Window::ControllerRestarted => all.push((at, Action::ControllerRestarts)),
        Window::AgentRestarted => all.push((at, Action::AgentRestarts(n, lasts))),
        Window::PinsLost => all.push((at, Action::PinsLost(n, lasts))),
    }
    for _ in 0..chance.between(1, 3) {
        let after = chance.below((end - at).min(2 * lasts) + 1);
        all.push((at + after, Action::Join(chance.below(1 << 32))));
    }
}

/// Links of a random set fail one by one in random order and come back in another; or all at once, a partition.
fn outage(end: u64, chance: &mut Chance, all: &mut Vec<(u64, Action)>) {
    let at = chance.below(end);
    let lasts = chance.between(1, (end - at).min(10_000_000));
    let together = chance.below(3) == 0;
    for _ in 0..chance.between(1, 8) {
        let n = chance.below(1 << 32);
        let (from, to) = if together { (0, lasts) } else { (chance.below(lasts), lasts + chance.below(lasts)) };
        all.push((at + from, Action::LinkDown(n, false)));
        all.push((at + to, Action::LinkUp(n)));
    }
}
