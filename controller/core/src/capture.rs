// SPDX-License-Identifier: Apache-2.0
//! One packet of a group, as every node of its tree saw it: where its frames are to be seen, those that were, and what each node changed.

mod anatomy;
mod expected;
mod pcapng;

use std::net::Ipv6Addr;
use std::num::NonZeroU32;
use std::time::Duration;

use canopy_model::capture::{CaptureDirection, CapturedFrame};
use canopy_model::ids::{GroupId, Psn};
use canopy_units::{Monotonic, UnixTime};

use crate::principal::Principal;

pub use anatomy::{CapturedField, FieldChange, InnerHeaders, OuterHeaders};
pub use expected::{Difference, ExpectedField, Headers, Outer};

/// Places and frames of one capture that are kept: what a larger tree has besides is counted.
pub const MAX_FRAMES: usize = 4096;

/// Where a group's packet is to be seen, and who can see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturePlan {
    /// The group.
    pub group_id: GroupId,
    /// Its name.
    pub group: String,
    /// The node of its source.
    pub headend: String,
    /// First PSN of the session.
    pub start: Psn,
    /// In the order of the tree: at each node the arrival, then its copies.
    pub places: Vec<Place>,
    /// Nodes whose agent captures.
    pub able: Vec<String>,
    /// The others: their agent is not connected, or of an earlier version.
    pub unable: Vec<String>,
    /// Places that are left out: those of the nodes behind the first [`MAX_FRAMES`] places.
    pub left_out: u64,
}

/// Where a frame is to be seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The node.
    pub node: String,
    /// Its port.
    pub port: String,
    /// The node or host at the far end.
    pub peer: String,
    /// What is seen there.
    pub seen: Seen,
    /// The place of the same packet before this one; `None` at the headend's arrival.
    pub before: Option<usize>,
    /// Its headers as they have to be; `None` where they are not known.
    pub expected: Option<Headers>,
}

/// What is seen at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The packet as it arrives.
    Arrival,
    /// A copy to a child node, whose SID is the outer Destination Address.
    ToNode {
        /// The SID.
        sid: Ipv6Addr,
    },
    /// A receiver's copy.
    ToReceiver {
        /// Its address.
        address: Ipv6Addr,
        /// Where the node knows it from.
        listed: Listed,
    },
}

/// Where a node knows a receiver from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// The entry with this number, from 1 on, of the End.MT TLVs for the node.
    Tlv(usize),
    /// The list that the controller provisioned.
    Provisioned,
}

impl Place {
    /// Whether it is seen before the node changed it, or after.
    pub fn direction(&self) -> CaptureDirection {
        match self.seen {
            Seen::Arrival => CaptureDirection::In,
            Seen::ToNode { .. } | Seen::ToReceiver { .. } => CaptureDirection::Out,
        }
    }

    fn has(&self, node: &str, frame: &CapturedFrame) -> bool {
        self.node == node
            && self.direction() == frame.direction
            && match self.seen {
                // A node that moves has two parents.
                Seen::Arrival => true,
                Seen::ToNode { sid } => {
                    self.port == frame.port && anatomy::outer(frame).is_some_and(|o| o.destination == sid)
                }
                Seen::ToReceiver { address, .. } => {
                    self.port == frame.port && anatomy::inner(frame).destination == address
                }
            }
    }
}

/// How far a capture is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureState {
    /// Frames are waited for.
    Armed,
    /// Every frame is here.
    Complete,
    /// The time has passed, and frames are missing.
    Expired,
}

/// A capture under way, or a past one.
#[derive(Clone, Debug)]
pub struct Capture {
    /// Names it.
    pub id: NonZeroU32,
    /// PSN of the packet, as the source sends it.
    pub psn: Psn,
    /// How long it is waited for.
    pub within: Duration,
    /// When it was armed.
    pub armed: UnixTime,
    /// When it ends, on the controller's clock.
    pub ends: Monotonic,
    /// Who armed it.
    pub by: Principal,
    /// Where it is to be seen.
    pub plan: CapturePlan,
    /// At the places of the plan.
    frames: Vec<Option<CapturedFrame>>,
    /// Frames that are at none of them, with their node: the tree has changed meanwhile.
    elsewhere: Vec<(String, CapturedFrame)>,
    /// Frames that are not kept, and places that are left out.
    pub left_out: u64,
}

/// A frame at its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The node.
    pub node: String,
    /// Whether it arrived there or left.
    pub direction: CaptureDirection,
    /// The port.
    pub port: String,
    /// The node or host at the far end; `None` where the plan has no such frame.
    pub peer: Option<String>,
    /// What was seen; `None` if nothing was.
    pub frame: Option<HopFrame>,
}

/// A frame that was seen, and what it shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HopFrame {
    /// As the node reported it.
    pub raw: CapturedFrame,
    /// The encapsulation; `None` of a plain frame.
    pub outer: Option<OuterHeaders>,
    /// The headers of the source's packet.
    pub inner: InnerHeaders,
    /// What is different from the place before; nothing where that was not seen.
    pub changes: Vec<FieldChange>,
    /// Where it is not as it has to be.
    pub unexpected: Vec<Difference>,
}

impl CapturePlan {
    /// The fields of a packet at each place as they have to be, in the order of the places.
    pub fn expected(&self) -> impl Iterator<Item = (&Place, Vec<ExpectedField>)> {
        self.places.iter().map(|place| (place, expected::fields(self, place)))
    }
}

impl Capture {
    /// A capture that is armed now.
    pub fn new(
        id: NonZeroU32,
        plan: CapturePlan,
        psn: Psn,
        within: Duration,
        (armed, now): (UnixTime, Monotonic),
        by: Principal,
    ) -> Self {
        let (frames, left_out) = (vec![None; plan.places.len()], plan.left_out);
        Self { id, psn, within, armed, ends: now + within, by, plan, frames, elsewhere: Vec::new(), left_out }
    }

    /// Takes a frame of a node. The first one at a place stays.
    pub fn add(&mut self, node: &str, frame: CapturedFrame) {
        let at = self.plan.places.iter().position(|place| place.has(node, &frame));
        let known = self.frames.iter().flatten().count() + self.elsewhere.len();
        match at {
            Some(at) if self.frames[at].is_some() => {}
            _ if known >= MAX_FRAMES => self.left_out += 1,
            Some(at) => self.frames[at] = Some(frame),
            None => self.elsewhere.push((node.to_owned(), frame)),
        }
    }

    /// How far it is.
    pub fn state(&self, now: Monotonic) -> CaptureState {
        if self.frames.iter().all(Option::is_some) {
            CaptureState::Complete
        } else if now >= self.ends {
            CaptureState::Expired
        } else {
            CaptureState::Armed
        }
    }

    /// At how many places the packet was seen.
    pub fn seen(&self) -> usize {
        self.frames.iter().flatten().count() + self.elsewhere.len()
    }

    /// Every place in order, then frames that are at none.
    pub fn hops(&self) -> Vec<Hop> {
        let sent = self.frames.first().and_then(Option::as_ref);
        let planned = self.plan.places.iter().zip(&self.frames).map(|(place, frame)| {
            let before = place.before.and_then(|at| self.frames.get(at)?.as_ref());
            let frame = frame.as_ref().map(|frame| HopFrame {
                changes: before.map(|before| anatomy::changes(before, frame, &self.plan, place)).unwrap_or_default(),
                unexpected: expected::differences(place, frame, sent, self.psn.get()),
                ..seen(frame)
            });
            let (node, port, peer) = (place.node.clone(), place.port.clone(), Some(place.peer.clone()));
            Hop { node, direction: place.direction(), port, peer, frame }
        });
        let elsewhere = self.elsewhere.iter().map(|(node, frame)| Hop {
            node: node.clone(),
            direction: frame.direction,
            port: frame.port.clone(),
            peer: None,
            frame: Some(seen(frame)),
        });
        planned.chain(elsewhere).collect()
    }

    /// The frames as pcapng, with an interface for each node, port and direction.
    pub fn pcapng(&self) -> Vec<u8> {
        pcapng::write(&self.hops())
    }
}

fn seen(frame: &CapturedFrame) -> HopFrame {
    let (outer, inner) = (anatomy::outer(frame), anatomy::inner(frame));
    HopFrame { raw: frame.clone(), outer, inner, changes: Vec::new(), unexpected: Vec::new() }
}

/// The PSN to wait for of a source whose next one is `next` and that sends `rate` packets per second: what it will have reached in `lead`,
/// so that every node waits for it before it is sent. A source that sends nothing is waited for at its next packet.
pub fn psn_ahead(next: Psn, rate: f64, lead: Duration) -> Psn {
    // As many as half of all PSNs would be taken for one that has been sent.
    let ahead = (rate * lead.as_secs_f64()).clamp(0.0, f64::from(1 << 22)) as u32;
    Psn::new("psn", ((next.get() + ahead) & 0xFF_FFFF).into()).unwrap_or(next)
}
