// SPDX-License-Identifier: Apache-2.0
//! Simulated time, frames, and links that delay, reorder, repeat, lose and fail.

use std::cmp::Ordering;
use std::collections::{BTreeSet, BinaryHeap};
use std::net::Ipv6Addr;
use std::sync::Arc;

use canopy_controller_core::LateNews;
use canopy_model::node_spec::NodeSpec;
use canopy_model::status::NodeStatus;

use crate::action::Action;
use crate::chance::Chance;
use crate::fabric::{Place, PortId, far};

/// The receivers (address, QPN) of an edge, by the edge's node address: the End.MT TLVs of a packet.
pub type Lists = Vec<(Ipv6Addr, Vec<(Ipv6Addr, u32)>)>;

/// How a frame to a node is addressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// The source's packet to the Proxy Address.
    Proxy,
    /// Encapsulated, to a Replication-SID (true) or an End.MT SID, with the headend's lists.
    Sid(bool, Arc<Lists>),
    /// A copy for the queue pair with this number.
    Qp(u32),
}

/// Consecutive data packets: only the first may start a message, only the last ends one or has AckReq.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Burst {
    /// PSN of the first, as this copy has it.
    pub psn: u32,
    /// Number of the first packet in the transfer: what its payload contains.
    pub number: u64,
    /// Number of packets.
    pub count: u32,
    /// The first is FIRST or ONLY.
    pub begins: bool,
    /// The last is LAST or ONLY.
    pub ends: bool,
    /// The last has AckReq.
    pub ask: bool,
    /// Where it goes.
    pub to: Address,
}

/// An ACK or a NAK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feedback {
    /// Source Address.
    pub from: Ipv6Addr,
    /// AETH syndrome.
    pub syndrome: u8,
    /// BTH PSN.
    pub psn: u32,
    /// AETH MSN.
    pub msn: u32,
    /// Epoch of the node that sent it; 0 from a receiver.
    pub epoch: u32,
}

impl Feedback {
    /// An ACK, not a NAK.
    pub fn is_ack(&self) -> bool {
        self.syndrome < 0x20
    }
}

/// A frame on a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Downwards.
    Data(Burst),
    /// Upwards.
    Feedback(Feedback),
}

/// What an agent reports about its late receivers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The node.
    pub place: Place,
    /// Epoch of its program.
    pub epoch: u32,
    /// By address.
    pub receivers: Vec<(Ipv6Addr, LateNews)>,
}

/// A simulated event.
#[derive(Clone, Debug)]
pub enum Event {
    /// A frame arrives at a port.
    Arrives(PortId, Frame),
    /// The source may send its next packet.
    SourceSends,
    /// The source's timer may have expired.
    SourceTimer,
    /// A spec arrives at a node's agent.
    Spec(Place, Arc<NodeSpec>),
    /// An agent carries out the next step of its work, if it is still the agent's life with this number.
    Step(Place, u64),
    /// An agent polls: repeats the last feedback, acknowledges for pending branches.
    Poll(Place, u64),
    /// A report arrives at the controller's life with this term.
    Report(Box<NodeStatus>, u64),
    /// An agent samples its late receivers.
    Sample(Place, u64),
    /// Such a sample arrives at the controller's life with this term.
    Late(Box<Sample>, u64),
    /// A fault, or a command to the controller.
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
    /// Links that carry nothing, by number.
    pub down: BTreeSet<usize>,
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

    /// Sends `frame` out of `port` at `now`.
    pub fn send(&mut self, chance: &mut Chance, now: u64, port: PortId, mut frame: Frame) {
        let loss = match frame {
            Frame::Data(_) => self.links.loss_down,
            Frame::Feedback(_) => self.links.loss_up,
        };
        if self.down.contains(&(port / 2)) {
            return;
        }
        if chance.happens(loss) {
            // Of a burst, the first packets arrive.
            match &mut frame {
                Frame::Data(burst) if burst.count > 1 => {
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
            self.at(now + self.links.delay + jitter, Event::Arrives(far(port), frame.clone()));
        }
    }
}
