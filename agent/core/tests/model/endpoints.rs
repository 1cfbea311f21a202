// SPDX-License-Identifier: Apache-2.0
//! The two ends: an RC requester that goes back N, and RC responders as the kernel's.

/// Signed distance from `from` to `to` in a PSN space of `bits`.
fn distance(from: u32, to: u32, bits: u32) -> i32 {
    (to.wrapping_sub(from) << (32 - bits)) as i32 >> (32 - bits)
}

/// Counts packets from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Source {
    /// Everything below is acknowledged.
    pub(crate) una: u8,
    pub(crate) next: u8,
    /// One more than the highest that was ever sent.
    pub(crate) sent: u8,
}

/// What feedback meant to the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Nothing,
    Progress,
    /// It goes back to where it was before.
    Again,
}

impl Source {
    /// `psn` is the first that is not acknowledged, `base` the PSN of packet 0. Also returns the packet `psn` means,
    /// unless it is out of what was sent.
    pub(crate) fn hear(&mut self, psn: u32, nak: bool, base: u32, bits: u32) -> (Heard, Option<u8>) {
        let d = distance(base + u32::from(self.una), psn, bits);
        if d < 0 || d > i32::from(self.sent - self.una) {
            return (Heard::Nothing, None);
        }
        let at = self.una + d as u8;
        let heard = match (d, nak && at < self.next) {
            (0, false) => Heard::Nothing,
            (0, true) => Heard::Again,
            _ => Heard::Progress,
        };
        self.una = at;
        self.next = if nak { at } else { self.next.max(at) };
        (heard, Some(at))
    }
}

/// Answers one NAK per gap, then is silent; acknowledges duplicates with its latest PSN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Responder {
    /// Packets that it took, the first one with the group's start PSN.
    pub(crate) taken: u8,
    pub(crate) nak_said: bool,
    /// The source's packet that was its first, once it has one to expect.
    pub(crate) first: Option<u8>,
    pub(crate) alive: bool,
    /// In the group.
    pub(crate) member: bool,
    /// The edge that it answers.
    pub(crate) parent: usize,
}

impl Responder {
    /// The source's packets below are held, or were never owed.
    pub(crate) fn holds_below(&self) -> Option<u8> {
        self.first.map(|f| f + self.taken)
    }

    /// Returns what it says: a PSN and whether it is a NAK.
    pub(crate) fn take(&mut self, psn: u32, ack_req: bool, base: u32, bits: u32) -> Option<(u32, bool)> {
        let expected = base + u32::from(self.taken);
        match distance(expected, psn, bits) {
            0 => {
                self.taken += 1;
                self.nak_said = false;
                ack_req.then_some((expected, false))
            }
            d if d < 0 => Some((expected - 1, false)),
            _ if self.nak_said => None,
            _ => {
                self.nak_said = true;
                Some((expected, true))
            }
        }
    }
}
