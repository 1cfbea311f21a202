// SPDX-License-Identifier: Apache-2.0
//! Transitions of the model.

use stateright::{Model, Property};

use crate::network::{Fate, LINKS, Packet, Place, is_down, link, take};
use crate::properties;
use crate::scenario::{Change, Scenario};
use crate::state::{Node, State};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    Send,
    /// The source retransmits. Early: packets were still in flight or could be sent.
    Timeout {
        early: bool,
    },
    Packet(Place, Place, Fate),
    Change(Change),
    /// A node loses its state.
    Crash(Place),
}

impl Model for Scenario {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self)]
    }

    fn actions(&self, s: &State, out: &mut Vec<Action>) {
        if s.finished(self) || s.history.idle == properties::HOPELESS {
            return;
        }
        let waiting = |l: &usize| !s.links[*l].is_empty();
        let instant = |l: &usize| self.instant & 1 << l != 0 && self.free(s, *l);
        if let Some(first) = (0..LINKS.len()).filter(waiting).find(instant) {
            return self.fates(s, first, out);
        }
        let src = s.source;
        let may_send = src.next < self.packets && src.next - src.una < self.outstanding;
        if may_send && s.links[0].len() < self.room {
            out.push(Action::Send);
        }
        let quiet = s.links.iter().all(Vec::is_empty);
        if src.next > src.una && ((quiet && !may_send) || s.faults > 0) {
            out.push(Action::Timeout { early: !quiet || may_send });
        }
        (0..LINKS.len()).filter(waiting).for_each(|l| self.fates(s, l, out));
        out.extend(self.changes.get(s.changed).map(|c| Action::Change(*c)));
        if s.crashes > 0 {
            out.extend(self.crashing.iter().map(|p| Action::Crash(*p)));
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut s = last.clone();
        match action {
            Action::Send => {
                let number = s.source.next;
                s.source.next += 1;
                s.source.sent = s.source.sent.max(s.source.next);
                s.links[0].push(Packet::Data { psn: self.wire(self.start() + u64::from(number)), number });
            }
            Action::Timeout { early } => {
                s.source.next = s.source.una;
                s.faults -= u8::from(early);
                s.history.idle = if early { 0 } else { s.history.idle + 1 };
            }
            Action::Packet(from, to, fate) => {
                if fate != Fate::Arrives {
                    s.faults -= 1;
                    s.history.idle = 0;
                }
                if let Some(packet) = take(&mut s.links[link(from, to)], fate) {
                    self.arrives(&mut s, from, to, packet);
                }
            }
            Action::Change(change) => {
                s.changed += 1;
                s.history.idle = 0;
                self.change(&mut s, change);
            }
            Action::Crash(place) => {
                s.crashes -= 1;
                s.history.idle = 0;
                let node = s.node(place);
                *node = Node::new(self, node.program.clone(), node.group.epoch(), true);
                self.probe(&mut s, place, true);
            }
        }
        // Between the first change and the last one, the group may make no progress.
        if (1..self.changes.len()).contains(&s.changed) {
            s.history.idle = 0;
        }
        Some(s)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::of(self)
    }
}

impl Scenario {
    /// Whether every queue that a packet of link `l` could be forwarded into has room.
    fn free(&self, s: &State, l: usize) -> bool {
        let to = LINKS[l].1;
        let onward = |i: &usize| LINKS[*i].0 == to && (is_down(*i) == is_down(l) || matches!(to, Place::Receiver(_)));
        (0..LINKS.len()).filter(onward).all(|i| s.links[i].len() < self.room)
    }

    fn fates(&self, s: &State, l: usize, out: &mut Vec<Action>) {
        let (from, to) = LINKS[l];
        let free = self.free(s, l);
        if free {
            out.push(Action::Packet(from, to, Fate::Arrives));
        }
        if s.faults > 0 && self.faulty & 1 << l != 0 {
            out.push(Action::Packet(from, to, Fate::Lost));
            if free {
                out.push(Action::Packet(from, to, Fate::Repeated));
            }
            if free && s.links[l].len() > 1 {
                out.push(Action::Packet(from, to, Fate::Overtaken));
            }
        }
    }
}
