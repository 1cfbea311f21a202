// SPDX-License-Identifier: Apache-2.0
//! The aggregation of a node, or a deliberately wrong one, or a wrong agent: each must violate an invariant, which tests the
//! oracle.

use canopy_reference::aggregate::{Aggregation, Entry, Feedback, Input, Params, Refusal};
use canopy_units::Monotonic;

/// The defect of an aggregation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Mutant {
    /// No defect.
    #[default]
    None,
    /// Every ACK is forwarded upstream unchanged: the fastest branch acknowledges for all.
    Max,
    /// Every NAK is forwarded upstream unchanged, though another branch may be lower (3.6).
    OwnNak,
    /// Feedback of an old epoch counts (3.9).
    NoEpoch,
    /// Feedback of a newer program than the node's own counts (3.9).
    NoBound,
    /// A branch behind which receivers moved keeps the feedback from before the move (3.9).
    NoReset,
    /// An acknowledged packet is never acknowledged again (3.5).
    NoReack,
    /// Lost state counts as acknowledged: unconfirmed branches do not hold back feedback (3.9).
    Unconfirmed,
    /// A late branch starts with the next packet, within a message (3.9).
    NoBoundary,
    /// The MSN of an ACK is that of the branch that sent it, not the minimum (3.2).
    OwnMsn,
    /// The credits of an ACK are those of the branch that sent it, not the minimum (3.2).
    OwnCredits,
    /// Late branches wait for a message after the session's first one where another branch was there before (3.13).
    NoFirst,
    /// An agent puts the epoch of a program into force before the branches of that epoch count (3.9).
    EpochFirst,
}

/// A node's aggregation.
#[derive(Clone, PartialEq)]
pub struct Machine {
    /// The aggregation under test.
    pub inner: Aggregation,
    mutant: Mutant,
    acked: u64,
}

impl Machine {
    /// Nothing sent, no branches, the program of `epoch` in force.
    pub fn new(params: Params, mutant: Mutant, epoch: u32) -> Self {
        let lost = params.lost || mutant == Mutant::NoFirst;
        Self { inner: Aggregation::new(Params { lost, ..params }, epoch), mutant, acked: 0 }
    }

    /// As [`Aggregation::handle`], at simulated nanoseconds.
    ///
    /// # Errors
    /// Why nothing changed.
    pub fn handle(&mut self, input: Input, now: u64) -> Result<Option<Feedback>, Refusal> {
        let now = Monotonic::from_nanos(now);
        match (self.mutant, input) {
            (Mutant::None, _) => self.inner.handle(input, now),
            (Mutant::Max, Input::Ack { psn, msn, credits, .. }) => {
                self.inner.handle(input, now)?;
                Ok(Some(Feedback { syndrome: credits, psn, msn }))
            }
            (Mutant::OwnNak, Input::Nak { psn, msn, nak, .. }) => {
                self.inner.handle(input, now)?;
                Ok(Some(Feedback { syndrome: nak.syndrome(), psn, msn }))
            }
            (Mutant::OwnMsn, Input::Ack { msn, .. }) => {
                Ok(self.inner.handle(input, now)?.map(|out| Feedback { msn, ..out }))
            }
            (Mutant::OwnCredits, Input::Ack { credits, .. }) => {
                Ok(self.inner.handle(input, now)?.map(|out| Feedback { syndrome: credits, ..out }))
            }
            (Mutant::NoEpoch, Input::Ack { branch, epoch, .. } | Input::Nak { branch, epoch, .. }) => {
                let epoch = self.inner.since(branch).map_or(epoch, |since| epoch.max(since));
                self.inner.handle(in_epoch(input, epoch), now)
            }
            (Mutant::NoBound, Input::Ack { epoch, .. } | Input::Nak { epoch, .. }) => {
                self.inner.handle(in_epoch(input, self.inner.epoch().min(epoch)), now)
            }
            // Known already.
            (Mutant::NoReset, Input::Join(branch, _)) if self.inner.active().any(|b| b == branch) => Ok(None),
            (Mutant::NoReack, Input::Ack { .. }) => {
                let before = self.acked;
                let feedback = self.inner.handle(input, now)?;
                self.acked = self.inner.minimum().unwrap_or(before);
                Ok(feedback.filter(|_| self.acked > before))
            }
            (Mutant::Unconfirmed, Input::Join(branch, entry)) if self.inner.high().is_none() => {
                self.inner.handle(Input::Join(branch, Entry { at_boundary: true, ..entry }), now)
            }
            (Mutant::NoBoundary, Input::Data { psn, .. }) => self.inner.handle(Input::Data { psn, begins: true }, now),
            _ => self.inner.handle(input, now),
        }
    }
}

/// The same feedback in another epoch.
fn in_epoch(input: Input, epoch: u32) -> Input {
    match input {
        Input::Ack { branch, psn, msn, credits, .. } => Input::Ack { branch, epoch, psn, msn, credits },
        Input::Nak { branch, psn, msn, nak, .. } => Input::Nak { branch, epoch, psn, msn, nak },
        other => other,
    }
}
