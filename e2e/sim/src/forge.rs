// SPDX-License-Identifier: Apache-2.0
//! Forged answers: by I3 they change no state.

use canopy_reference::aggregate::{Input, Nak, Refusal};

use crate::chance::Chance;
use crate::oracle::Oracle;
use crate::tree::Node;

/// Refusals by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// Not from an active branch.
    pub inactive: u64,
    /// Outside the window.
    pub window: u64,
    /// A NAK of a packet that was acknowledged since.
    pub ghost: u64,
    /// Of an old epoch.
    pub epoch_old: u64,
    /// Of a newer program than the node's own.
    pub epoch_ahead: u64,
    /// A fatal NAK of a child node.
    pub malformed: u64,
}

impl Refusals {
    /// Counts one refusal.
    pub fn count(&mut self, why: Refusal) {
        *match why {
            Refusal::Inactive => &mut self.inactive,
            Refusal::Window => &mut self.window,
            Refusal::Ghost => &mut self.ghost,
            Refusal::EpochOld => &mut self.epoch_old,
            Refusal::EpochAhead => &mut self.epoch_ahead,
            Refusal::Malformed => &mut self.malformed,
        } += 1;
    }

    /// The sum of all reasons.
    pub fn total(&self) -> u64 {
        self.inactive + self.window + self.ghost + self.epoch_old + self.epoch_ahead + self.malformed
    }
}

/// Forges one answer to `node`, passes it to the node, and counts the reason of its refusal; `None` if nothing can be
/// forged.
pub fn forge(node: &mut Node, chance: &mut Chance, oracle: &mut Oracle, counts: &mut Refusals, now: u64) -> Option<()> {
    let (input, since, expected) = draw(node, chance)?;
    let before = node.machine.inner.clone();
    let result = node.machine.handle(input, since, now);
    match result {
        Err(why) if why == expected => counts.count(why),
        other => oracle.violated(now, &format!("I3: {input:?} should be refused as {expected:?}, was {other:?}")),
    }
    if node.machine.inner != before {
        oracle.violated(now, &format!("I3: {input:?} changed state"));
    }
    Some(())
}

fn draw(node: &Node, chance: &mut Chance) -> Option<(Input, u32, Refusal)> {
    let active: Vec<(u32, u64)> = node.machine.inner.copies().collect();
    let (branch, shift) = chance.pick(&active)?;
    let entry = node.branches.get(&branch)?;
    let (high, epoch) = (node.machine.inner.high(), entry.since);
    let ack = chance.below(2) == 0;
    let answer = |branch: u32, epoch: u32, psn: u64| {
        let psn = psn.wrapping_sub(shift) as u32 & 0xFF_FFFF;
        match ack {
            true => Input::Ack { branch, epoch, psn, msn: 1, credits: 31 },
            false => Input::Nak { branch, epoch, psn, msn: 1, nak: Nak::Sequence },
        }
    };
    let far = chance.below(1 << 21);
    Some(match chance.below(5) {
        0 => (answer(1 << 20, epoch, high.unwrap_or(0)), 0, Refusal::Inactive),
        // Above the highest PSN sent down, or before any packet was sent.
        1 => (answer(branch, epoch, high.unwrap_or(0) + 1 + far), epoch, Refusal::Window),
        2 if !entry.receiver => {
            let old = epoch.wrapping_sub(1 + far as u32 % 0x1FFF);
            (answer(branch, old, high?.wrapping_sub(1)), epoch, Refusal::EpochOld)
        }
        3 if !entry.receiver => {
            let ahead = node.epoch.wrapping_add(1 + far as u32 % 0x1000);
            (answer(branch, ahead, high?.wrapping_sub(1)), epoch, Refusal::EpochAhead)
        }
        2 | 3 => (answer(branch, epoch, high?.wrapping_sub((1 << 22) + (1 << 21) + far)), epoch, Refusal::Window),
        _ => {
            let psn = node.machine.inner.minimum()?.wrapping_sub(1 + far);
            let psn = psn.wrapping_sub(shift) as u32 & 0xFF_FFFF;
            (Input::Nak { branch, epoch, psn, msn: 1, nak: Nak::Sequence }, epoch, Refusal::Ghost)
        }
    })
}
