// SPDX-License-Identifier: Apache-2.0
//! Arrival of frames: data passes down the tree, answers pass up, feedback reaches the source.

use crate::action::Action;
use crate::config::Window;
use crate::fabric::{Place, PortId, far};
use crate::forge;
use crate::kernel::Drop;
use crate::net::{Address, Burst, Event, Feedback, Frame};
use crate::receiver::Reaction;
use crate::run::World;

impl World<'_> {
    pub(crate) fn arrives(&mut self, port: PortId, frame: Frame, now: u64) {
        let place = self.fabric.owner(port);
        match frame {
            Frame::Data(burst) if place < self.nodes.len() => self.node_forwards(place, port, &burst, now),
            Frame::Feedback(feedback) if place < self.nodes.len() => self.node_receives(place, port, &feedback, now),
            Frame::Data(burst) => self.host_receives(place, &burst, now),
            Frame::Feedback(feedback) => self.source_receives(&feedback, now),
        }
    }

    fn source_receives(&mut self, feedback: &Feedback, now: u64) {
        let number = self.source.number(feedback.psn);
        self.oracle.judge(feedback, number, now);
        match feedback.is_ack() {
            true => self.report.acks += 1,
            false => self.report.naks.push(now),
        }
        self.source.handle(feedback, now);
        self.wake_source(now);
    }

    fn host_receives(&mut self, place: Place, burst: &Burst, now: u64) {
        let Address::Qp(qpn) = burst.to else { return };
        let Some(index) = self.members.get(&place).copied().filter(|i| self.receivers[*i].qpn == qpn) else { return };
        let Self { receivers, oracle, chance, net, setup, .. } = self;
        let receiver = &mut receivers[index];
        let (port, mut reactions) = (receiver.port, Vec::new());
        receiver.handle(burst, setup.habits, chance, |reaction| reactions.push(reaction));
        for reaction in reactions {
            match reaction {
                Reaction::Delivered(number) => oracle.delivered(index, number, now),
                Reaction::Sends(feedback) => {
                    oracle.answers(index, &feedback);
                    net.send(chance, now, port, Frame::Feedback(feedback));
                }
            }
        }
    }

    /// A node forwards data to its branches.
    fn node_forwards(&mut self, place: Place, port: PortId, burst: &Burst, now: u64) {
        let node = &mut self.nodes[place];
        if node.is_down {
            return;
        }
        let copies = match node.kernel.data(node.address, port, burst, now) {
            Ok(copies) => copies,
            Err(why) => return self.dropped(place, why, now),
        };
        if burst.to == Address::Proxy
            && !std::mem::replace(&mut self.has_first, true)
            && self.late == Some(Window::WhileFirst)
        {
            let within = 4 * self.report.round_trip;
            let after = self.chance.below(within);
            let n = self.chance.below(1 << 32);
            self.net.at(now + after, Event::Acts(Action::Join(n)));
        }
        for (port, frame) in copies {
            // Nothing is connected where a host was.
            if self.fabric.owner(port) != place {
                continue;
            }
            let to = self.fabric.owner(far(port));
            if let (Frame::Data(copy), Some(index)) = (&frame, self.members.get(&to).copied())
                && copy.to == Address::Qp(self.receivers[index].qpn)
            {
                self.oracle.sent_to(index, (copy.number, copy.psn, copy.count), now);
            }
            self.net.send(&mut self.chance, now, port, frame);
        }
        self.polls(place, now);
    }

    /// A node handles the feedback of a branch.
    fn node_receives(&mut self, place: Place, port: PortId, feedback: &Feedback, now: u64) {
        let node = &mut self.nodes[place];
        if node.is_down {
            return;
        }
        self.report.feedback_events += 1;
        match node.kernel.feedback(port, feedback, now) {
            Ok(Some((port, frame))) => self.net.send(&mut self.chance, now, port, frame),
            Ok(None) => {}
            Err(why) => self.dropped(place, why, now),
        }
        for _ in 0..self.setup.forged {
            let Self { nodes, chance, oracle, report, .. } = self;
            forge::forge(&mut nodes[place], chance, oracle, &mut report.forged, now);
        }
    }

    fn dropped(&mut self, place: Place, why: Drop, now: u64) {
        self.report.refusals.count(why);
        self.remark(now, || format!("node {place}: drops it: {why:?}"));
    }
}
