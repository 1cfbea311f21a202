// SPDX-License-Identifier: Apache-2.0
//! Frames of strangers: by I3 they change no state.

use std::net::Ipv6Addr;
use std::sync::Arc;

use canopy_reference::aggregate::Refusal;

use crate::agent::Node;
use crate::chance::Chance;
use crate::fabric::PortId;
use crate::kernel::Drop;
use crate::net::{Address, Burst, Feedback, Frame, Lists};
use crate::oracle::Oracle;

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
    /// On another port than the one towards its sender.
    pub port: u64,
    /// The group is unknown, not open, or the packet's list of receivers is not as provisioned.
    pub group: u64,
}

impl Refusals {
    /// Counts one refusal.
    pub fn count(&mut self, why: Drop) {
        *match why {
            Drop::BranchUnknown | Drop::Refused(Refusal::Inactive) => &mut self.inactive,
            Drop::Refused(Refusal::Window) => &mut self.window,
            Drop::Refused(Refusal::Ghost) => &mut self.ghost,
            Drop::Refused(Refusal::EpochOld) => &mut self.epoch_old,
            Drop::Refused(Refusal::EpochAhead) => &mut self.epoch_ahead,
            Drop::Refused(Refusal::Malformed) => &mut self.malformed,
            Drop::WrongPort => &mut self.port,
            Drop::GroupUnknown | Drop::NotOpen | Drop::NoList | Drop::Unprovisioned => &mut self.group,
        } += 1;
    }
}

/// Forges one frame to `node`, passes it to the node, and counts the reason of its refusal; `None` if nothing can be
/// forged.
pub fn forge(node: &mut Node, chance: &mut Chance, oracle: &mut Oracle, counts: &mut Refusals, now: u64) -> Option<()> {
    let (port, frame, expected) = draw(node, chance)?;
    let before = node.kernel.clone();
    let result = match &frame {
        Frame::Data(burst) => node.kernel.data(node.address, port, burst, now).map(|_| ()),
        Frame::Feedback(feedback) => node.kernel.feedback(port, feedback, now).map(|_| ()),
    };
    match result {
        Err(why) if why == expected => counts.count(why),
        other => oracle.violated(now, &format!("I3: {frame:?} should be refused as {expected:?}, was {other:?}")),
    }
    if node.kernel != before {
        oracle.violated(now, &format!("I3: {frame:?} changed state"));
    }
    Some(())
}

/// A frame, where it arrives, and why it must be refused.
fn draw(node: &Node, chance: &mut Chance) -> Option<(PortId, Frame, Drop)> {
    let kernel = &node.kernel;
    let (conf, machine) = (kernel.conf.as_ref()?, &kernel.machine.as_ref()?.inner);
    let kind = chance.below(12);
    let mut active: Vec<(u32, u64)> = machine.copies().collect();
    // What only a child node can be refused for.
    if (3..=7).contains(&kind) && active.iter().any(|(slot, _)| conf.children.contains(slot)) {
        active.retain(|(slot, _)| conf.children.contains(slot));
    }
    let (slot, shift) = chance.pick(&active)?;
    let branch = kernel.branches.get(&slot)?;
    let port = kernel.peers.get(&branch.address)?.port?;
    let (high, since, own) = (machine.high()?, machine.since(slot)?, conf.epoch);
    // Between two steps of the agent the branch may be of an epoch that is not in force yet.
    if since > own {
        return None;
    }
    let child = branch.qpn.is_none();
    let far = chance.below(1 << 21);
    let wire = |psn: u64| psn.wrapping_sub(shift) as u32 & 0xFF_FFFF;
    let syndrome = if chance.below(2) == 0 { 31 } else { 0x60 };
    let feedback = |from: Ipv6Addr, epoch: u32, psn: u64, syndrome: u8| {
        Frame::Feedback(Feedback { from, syndrome, psn: wire(psn), msn: 1, epoch })
    };
    let from = branch.address;
    let refused = |why| Drop::Refused(why);
    Some(match kind {
        0 | 1 => {
            let stranger = Ipv6Addr::from(u128::from(from) ^ (1 + u128::from(far)) << 16);
            (port, feedback(stranger, own, high - 1, syndrome), Drop::BranchUnknown)
        }
        // Above the highest PSN sent down.
        2 => (port, feedback(from, own, high + 1 + far, syndrome), refused(Refusal::Window)),
        3 | 4 if child => {
            let old = since.wrapping_sub(1 + far as u32 % 0x1FFF);
            (port, feedback(from, old, high - 1, syndrome), refused(Refusal::EpochOld))
        }
        5 | 6 if child => {
            let ahead = own.wrapping_add(1 + far as u32 % 0x1000);
            (port, feedback(from, ahead, high - 1, syndrome), refused(Refusal::EpochAhead))
        }
        7 if child => {
            let fatal = chance.between(0x61, 0x64) as u8;
            (port, feedback(from, own, high - 1, fatal), refused(Refusal::Malformed))
        }
        7 => {
            let fatal = chance.between(0x61, 0x64) as u8;
            (port, feedback(from, own, high + 1 + far, fatal), refused(Refusal::Window))
        }
        3..=6 => {
            let psn = high.wrapping_sub((1 << 22) + (1 << 21) + far);
            (port, feedback(from, own, psn, syndrome), refused(Refusal::Window))
        }
        // Any other port, at both ends of links.
        8 => (port ^ 1, feedback(from, own, high - 1, syndrome), Drop::WrongPort),
        9 | 10 => {
            let psn = machine.minimum()?.wrapping_sub(1 + far);
            (port, feedback(from, own, psn, 0x60), refused(Refusal::Ghost))
        }
        _ => {
            let (to, why, at) = match (conf.headend, chance.below(2)) {
                (Some((_, true)), _) => (Address::Proxy, Drop::WrongPort, port),
                (None, 0) => (Address::Sid(false, Arc::new(Lists::new())), Drop::WrongPort, port),
                (None, _) if conf.receivers.is_empty() => {
                    (Address::Sid(false, Arc::new(Lists::new())), refused(Refusal::Window), conf.up)
                }
                _ => return None,
            };
            if at == conf.up && why == Drop::WrongPort || Some(at) == conf.alternate {
                return None;
            }
            let psn = (high + (1 << 22) + far) as u32 & 0xFF_FFFF;
            let data = Burst { psn, number: u64::MAX, count: 1, begins: true, ends: true, ask: true, to };
            (at, Frame::Data(data), why)
        }
    })
}
