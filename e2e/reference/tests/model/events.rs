// SPDX-License-Identifier: Apache-2.0
//! Effects of an arriving packet, and of a change.

use std::sync::Arc;

use canopy_reference::aggregate::{Feedback, Input, Nak, Refusal};

use crate::endpoints::Effect;
use crate::network::{Packet, Place, link};
use crate::properties;
use crate::scenario::{Change, Scenario};
use crate::state::{NOW, State};

impl Scenario {
    pub(crate) fn arrives(&self, s: &mut State, from: Place, to: Place, packet: Packet) {
        match (to, packet) {
            (Place::Source, Packet::Feedback { psn, nak, .. }) => self.feedback(s, psn, nak),
            (Place::Receiver(r), Packet::Data { psn, number }) => self.taken(s, r, psn, number),
            (node, Packet::Data { psn, number }) => self.down(s, node, psn, number),
            (node, Packet::Feedback { psn, nak, epoch }) => {
                let branch = match from {
                    Place::Edge(i) | Place::Receiver(i) => i as u32,
                    Place::Source | Place::Root => return,
                };
                let input = match nak {
                    true => Input::Nak { branch, epoch, psn, msn: 0, nak: Nak::Sequence },
                    false => Input::Ack { branch, epoch, psn, msn: 0, credits: 31 },
                };
                let unknown = !s.node(node).is_active(branch);
                let before = Arc::clone(&s.node(node).group);
                let result = self.handle(s, node, input);
                let changed = *before != *s.node(node).group;
                s.history.unknown_accepted |=
                    (unknown && result != Err(Refusal::Inactive)) || (result.is_err() && changed);
            }
        }
    }

    /// The node processes an input and sends the resulting feedback upstream.
    fn handle(&self, s: &mut State, place: Place, input: Input) -> Result<(), Refusal> {
        let node = s.node(place);
        let mut group = (*node.group).clone();
        let feedback = group.handle(input, NOW)?;
        node.group = Arc::new(group.canonical());
        if let Some(Feedback { syndrome, psn, .. }) = feedback {
            let up = if place == Place::Root { Place::Source } else { Place::Root };
            let packet = Packet::Feedback { psn, nak: syndrome == Nak::Sequence.syndrome(), epoch: node.group.epoch() };
            s.links[link(place, up)].push(packet);
        }
        Ok(())
    }

    fn down(&self, s: &mut State, place: Place, psn: u32, number: u8) {
        let begins = number.is_multiple_of(self.message);
        if self.handle(s, place, Input::Data { psn, begins }).is_err() {
            return;
        }
        for (branch, shift) in s.node(place).group.clone().copies() {
            let to = if place == Place::Root { Place::Edge(branch as usize) } else { Place::Receiver(branch as usize) };
            if let Place::Receiver(r) = to {
                s.receivers[r].first.get_or_insert(shift as u8);
            }
            let psn = self.wire(u64::from(psn).wrapping_sub(shift));
            s.links[link(place, to)].push(Packet::Data { psn, number });
        }
    }

    fn taken(&self, s: &mut State, r: usize, psn: u32, number: u8) {
        let receiver = &mut s.receivers[r];
        if !receiver.alive {
            return;
        }
        let (before, expected) = (receiver.taken, receiver.holds_below());
        let ack_req = (number + 1).is_multiple_of(self.message);
        let answer = receiver.take(psn, ack_req, self.start() as u32, self.psn_bits);
        s.history.corrupt |= receiver.taken > before && Some(number) != expected;
        let parent = receiver.parent;
        if let Some((psn, nak)) = answer {
            let packet = Packet::Feedback { psn: self.wire(psn.into()), nak, epoch: 0 };
            s.links[link(Place::Receiver(r), Place::Edge(parent))].push(packet);
        }
    }

    fn feedback(&self, s: &mut State, psn: u32, nak: bool) {
        let first_missing = if nak { psn } else { psn.wrapping_add(1) };
        let (effect, at) = s.source.receive(first_missing, nak, self.start() as u32, self.psn_bits);
        s.history.idle = match effect {
            Effect::Nothing => s.history.idle,
            Effect::Progress => 0,
            Effect::Again => s.history.idle + 1,
        };
        if let (true, Some(at)) = (nak, at) {
            s.history.false_nak |= !properties::all_hold_below(s, at);
            let at_gap = s.receivers.iter().filter(|r| r.nak_sent && r.holds_below() == Some(at)).count();
            if at_gap > 1 && self.seen.contains(&properties::MERGED) {
                s.history.shared_naks = (s.history.shared_naks + 1).min(2);
            }
        }
    }

    pub(crate) fn change(&self, s: &mut State, change: Change) {
        if s.changed == 1 && self.seen.contains(&properties::MOVED) {
            s.history.changed_amid = (1..self.packets).contains(&s.source.una);
        }
        match change {
            Change::Join { node, branch, entry } => {
                let n = s.node(node);
                n.program.retain(|(b, _)| *b != branch);
                n.program.push((branch, entry));
                n.program.sort_by_key(|(b, _)| *b);
                if let (Place::Edge(e), true) = (node, entry.receiver) {
                    let receiver = &mut s.receivers[branch as usize];
                    (receiver.parent, receiver.member) = (e, true);
                }
                assert_eq!(self.handle(s, node, Input::Join(branch, entry)), Ok(()));
                self.probe(s, node, false);
            }
            Change::Leave { node, branch } => {
                s.node(node).program.retain(|(b, _)| *b != branch);
                assert_eq!(self.handle(s, node, Input::Leave(branch)), Ok(()));
            }
            Change::Epoch { node, epoch } => assert_eq!(self.handle(s, node, Input::Adopt(epoch)), Ok(())),
            Change::Dies(r) => s.receivers[r].alive = false,
            Change::Evicted(r) => s.receivers[r].member = false,
        }
    }

    /// Queue pairs that an edge probes answer, behind the copies that are on their way to them. One that is not fresh is removed from
    /// the group, and so is every one that the edge may have started before it lost its state.
    pub(crate) fn probe(&self, s: &mut State, edge: Place, lost: bool) {
        let probed: Vec<u32> = s.node(edge).group.probing().collect();
        for branch in probed {
            let r = branch as usize;
            let to = Place::Receiver(r);
            for packet in std::mem::take(&mut s.links[link(edge, to)]) {
                self.arrives(s, edge, to, packet);
            }
            let receiver = &mut s.receivers[r];
            if lost || receiver.taken > 0 {
                receiver.member = false;
                s.node(edge).program.retain(|(b, _)| *b != branch);
                assert_eq!(self.handle(s, edge, Input::Leave(branch)), Ok(()));
            } else if receiver.alive {
                (receiver.first, receiver.nak_sent) = (None, true);
                let psn = self.wire(self.start());
                let proof = Input::Nak { branch, epoch: 0, psn, msn: 0, nak: Nak::Sequence };
                assert_eq!(self.handle(s, edge, proof), Ok(()));
            }
        }
    }
}
