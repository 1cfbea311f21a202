// SPDX-License-Identifier: Apache-2.0
//! Simulated time, and links that delay, reorder, repeat, lose and fail.

use std::cmp::Ordering;
use std::collections::{BTreeSet, BinaryHeap};

use crate::action::Action;
use crate::chance::Chance;

/// A place: 0 is the source, then the nodes, then the receivers. It is also the branch number.
pub type Place = u32;
/// The place of the source.
pub const SOURCE: Place = 0;

/// Consecutive data packets: only the first may start a message, only the last ends one or has AckReq.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// PSN of the first, as this copy has it.
    pub psn: u32,
    /// Number of the first packet in the transfer. Only the oracle uses it.
    pub number: u64,
    /// Number of packets.
    pub count: u32,
    /// The first is FIRST or ONLY.
    pub begins: bool,
    /// The last is LAST or ONLY.
    pub ends: bool,
    /// The last has AckReq.
    pub ask: bool,
}

/// An ACK or a NAK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feedback {
    /// AETH syndrome.
    pub syndrome: u8,
    /// BTH PSN.
    pub psn: u32,
    /// AETH MSN.
    pub msn: u32,
    /// Epoch of the node that sent it; 0 from a receiver.
    pub epoch: u32,
}

/// What is on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet {
    /// Downwards.
    Data(Burst),
    /// Upwards.
    Feedback(Feedback),
}

/// A simulated event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A packet arrives.
    Arrives {
        /// From where.
        from: Place,
        /// Where.
        to: Place,
        /// What.
        packet: Packet,
    },
    /// The source may send its next packet.
    SourceSends,
    /// The source's timer may have expired.
    SourceTimer,
    /// A fault, or a change by the controller.
    Acts(Action),
}

struct Due {
    at: u64,
    order: u64,
    event: Event,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Due {}
impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Due {
    /// Reversed for the heap: the earliest event is the greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

/// Properties of links.
#[derive(Clone, Copy, Debug, Default)]
pub struct Links {
    /// Every packet takes this long, ns.
    pub delay: u64,
    /// And up to this much more, ns: a jitter above the packet interval reorders packets.
    pub jitter: u64,
    /// Lost downwards, millionths.
    pub loss_down: u64,
    /// Lost upwards, millionths.
    pub loss_up: u64,
    /// Repeated, millionths.
    pub repeat: u64,
}

/// Events in the future, and the links.
pub struct Net {
    heap: BinaryHeap<Due>,
    order: u64,
    /// The current properties of links.
    pub links: Links,
    /// Links that are down, by their lower end: a place loses all its uplinks at once.
    pub down: BTreeSet<Place>,
}

impl Net {
    /// No events.
    pub fn new(links: Links) -> Self {
        Self { heap: BinaryHeap::new(), order: 0, links, down: BTreeSet::new() }
    }

    /// Schedules `event` at `at`.
    pub fn at(&mut self, at: u64, event: Event) {
        self.order += 1;
        self.heap.push(Due { at, order: self.order, event });
    }

    /// Removes and returns the next event.
    pub fn take_next(&mut self) -> Option<(u64, Event)> {
        self.heap.pop().map(|due| (due.at, due.event))
    }

    /// Puts `packet` on the link `from` - `to` at `now`.
    pub fn send(&mut self, chance: &mut Chance, now: u64, (from, to): (Place, Place), mut packet: Packet) {
        let (lower, loss) = match packet {
            Packet::Data(_) => (to, self.links.loss_down),
            Packet::Feedback(_) => (from, self.links.loss_up),
        };
        if self.down.contains(&lower) {
            return;
        }
        if chance.happens(loss) {
            // Of a burst, the first packets arrive.
            match &mut packet {
                Packet::Data(burst) if burst.count > 1 => {
                    burst.count = chance.below(u64::from(burst.count)) as u32;
                    (burst.ends, burst.ask) = (false, false);
                    if burst.count == 0 {
                        return;
                    }
                }
                _ => return,
            }
        }
        let copies = 1 + u32::from(chance.happens(self.links.repeat));
        for _ in 0..copies {
            let jitter = if self.links.jitter > 0 { chance.below(self.links.jitter) } else { 0 };
            self.at(now + self.links.delay + jitter, Event::Arrives { from, to, packet });
        }
    }
}
