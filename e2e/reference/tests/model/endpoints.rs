// SPDX-License-Identifier: Apache-2.0
//! The endpoints: a go-back-N RC requester, and RC responders with the behaviour of the kernel's.

/// Signed distance from `from` to `to` in a PSN space of `bits`.
fn distance(from: u32, to: u32, bits: u32) -> i32 {
    (to.wrapping_sub(from) << (32 - bits)) as i32 >> (32 - bits)
}

/// The requester; it numbers packets from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Source {
    /// Everything below is acknowledged.
    pub(crate) una: u8,
    pub(crate) next: u8,
    /// Highest packet sent + 1.
    pub(crate) sent: u8,
}

/// Effect of feedback on the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Nothing,
    Progress,
    /// It goes back to the same packet again.
    Again,
}

impl Source {
    /// Processes feedback; `psn` is the first unacknowledged PSN, `base` the PSN of packet 0. Also returns the packet with
    /// `psn`, unless it was not sent.
    pub(crate) fn receive(&mut self, psn: u32, nak: bool, base: u32, bits: u32) -> (Effect, Option<u8>) {
        let d = distance(base + u32::from(self.una), psn, bits);
        if d < 0 || d > i32::from(self.sent - self.una) {
            return (Effect::Nothing, None);
        }
        let at = self.una + d as u8;
        let effect = match (d, nak && at < self.next) {
            (0, false) => Effect::Nothing,
            (0, true) => Effect::Again,
            _ => Effect::Progress,
        };
        self.una = at;
        self.next = if nak { at } else { self.next.max(at) };
        (effect, Some(at))
    }
}

/// Sends one NAK per gap; acknowledges duplicates with its latest PSN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Responder {
    /// Packets that it accepted, the first one with the group's start PSN.
    pub(crate) taken: u8,
    pub(crate) nak_sent: bool,
    /// The source's packet that is its first, once known.
    pub(crate) first: Option<u8>,
    pub(crate) alive: bool,
    /// In the group.
    pub(crate) member: bool,
    /// The edge that it sends feedback to.
    pub(crate) parent: usize,
}

impl Responder {
    /// It holds the source's packets below this one, apart from those before its first.
    pub(crate) fn holds_below(&self) -> Option<u8> {
        self.first.map(|f| f + self.taken)
    }

    /// Processes a packet; returns its feedback: a PSN and whether it is a NAK.
    pub(crate) fn take(&mut self, psn: u32, ack_req: bool, base: u32, bits: u32) -> Option<(u32, bool)> {
        let expected = base + u32::from(self.taken);
        match distance(expected, psn, bits) {
            0 => {
                self.taken += 1;
                self.nak_sent = false;
                ack_req.then_some((expected, false))
            }
            d if d < 0 => Some((expected - 1, false)),
            _ if self.nak_sent => None,
            _ => {
                self.nak_sent = true;
                Some((expected, true))
            }
        }
    }
}
