// SPDX-License-Identifier: Apache-2.0
//! Packet arrival: data passes down the tree, answers pass up, feedback reaches the source.

use canopy_reference::aggregate::{Input, Nak};

use crate::forge;
use crate::net::{Burst, Feedback, Packet, Place, SOURCE};
use crate::run::World;

impl World<'_> {
    pub(crate) fn arrives(&mut self, from: Place, to: Place, packet: Packet, now: u64) {
        match packet {
            Packet::Feedback(feedback) if to == SOURCE => {
                let number = self.source.number(feedback.psn);
                self.oracle.judge(&self.tree, feedback, number, now);
                match feedback.syndrome < 0x20 {
                    true => self.report.acks += 1,
                    false => self.report.naks.push(now),
                }
                self.source.handle(feedback, now);
                self.wake_source(now);
            }
            Packet::Feedback(feedback) => self.node_receives(from, to, feedback, now),
            Packet::Data(burst) => match self.tree.receiver_index(to) {
                None => self.node_passes(to, burst, now),
                Some(index) => {
                    let Self { tree, chance, net, setup, .. } = self;
                    let receiver = &mut tree.receivers[index];
                    let (parent, mut answers) = (receiver.parent, Vec::new());
                    receiver.handle(burst, setup.rnr, chance, |feedback| answers.push(feedback));
                    for feedback in answers {
                        net.send(chance, now, (to, parent), Packet::Feedback(feedback));
                    }
                }
            },
        }
    }

    /// A node forwards data to its branches.
    fn node_passes(&mut self, place: Place, burst: Burst, now: u64) {
        let node = self.tree.node_mut(place);
        if node.is_down {
            return;
        }
        for i in 0..burst.count {
            let psn = burst.psn.wrapping_add(i) & 0xFF_FFFF;
            let input = Input::Data { psn, begins: burst.begins && i == 0 };
            if let Err(why) = node.machine.handle(input, 0, now) {
                self.report.refusals.count(why);
                return;
            }
        }
        if self.tree.node(place).has_pending {
            self.note_started(place, burst.number, now);
            // The agent polls occasionally.
            if burst.psn.is_multiple_of(3) {
                self.feed(place, Input::PendingOnly, now);
            }
        }
        let Self { tree, chance, net, careless, .. } = self;
        let node = tree.node(place);
        for (branch, shift) in node.machine.inner.copies() {
            // A child node that has received no data yet would let its late receivers start with this packet.
            if !*careless && node.floors.get(&branch).is_some_and(|floor| burst.number < *floor) {
                continue;
            }
            let psn = u64::from(burst.psn).wrapping_sub(shift) as u32 & 0xFF_FFFF;
            net.send(chance, now, (place, branch), Packet::Data(Burst { psn, ..burst }));
        }
    }

    /// A node handles the feedback of a branch.
    fn node_receives(&mut self, from: Place, place: Place, feedback: Feedback, now: u64) {
        if self.tree.node(place).is_down {
            return;
        }
        self.report.feedback_events += 1;
        let Feedback { syndrome, psn, msn, epoch } = feedback;
        let input = match syndrome {
            0..0x20 => Input::Ack { branch: from, epoch, psn, msn, credits: syndrome },
            0x20..0x40 => Input::Nak { branch: from, epoch, psn, msn, nak: Nak::Rnr(syndrome & 0x1F) },
            _ => Input::Nak { branch: from, epoch, psn, msn, nak: Nak::Sequence },
        };
        self.feed(place, input, now);
        for _ in 0..self.forged {
            let Self { tree, chance, oracle, report, .. } = self;
            forge::forge(tree.node_mut(place), chance, oracle, &mut report.forged, now);
        }
    }

    /// Passes `input` to a node, and sends the feedback that results upstream.
    pub(crate) fn feed(&mut self, place: Place, input: Input, now: u64) {
        let Self { tree, chance, net, report, .. } = self;
        let node = tree.node_mut(place);
        let since = match input {
            Input::Ack { branch, .. } | Input::Nak { branch, .. } => node.branches.get(&branch).map_or(0, |e| e.since),
            _ => 0,
        };
        match node.machine.handle(input, since, now) {
            Ok(Some(feedback)) => {
                let (syndrome, psn, msn) = (feedback.syndrome, feedback.psn, feedback.msn);
                let packet = Packet::Feedback(Feedback { syndrome, psn, msn, epoch: node.epoch });
                let up = node.parent;
                net.send(chance, now, (place, up), packet);
            }
            Ok(None) => {}
            Err(why) => report.refusals.count(why),
        }
    }
}
