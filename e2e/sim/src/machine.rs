// SPDX-License-Identifier: Apache-2.0
//! The aggregation of a node, or a deliberately wrong one: each must violate an invariant, which tests the oracle.

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
}

/// A node's aggregation.
#[derive(Clone)]
pub struct Machine {
    /// The aggregation under test.
    pub inner: Aggregation,
    mutant: Mutant,
    /// Epoch at the start.
    first: u32,
    acked: u64,
}

impl Machine {
    /// Nothing sent, no branches, the program of `epoch` in force.
    pub fn new(params: Params, mutant: Mutant, epoch: u32) -> Self {
        Self { inner: Aggregation::new(params, epoch), mutant, first: epoch, acked: 0 }
    }

    /// As [`Aggregation::handle`], at simulated nanoseconds; `since` is the epoch of the branch that sent the feedback.
    ///
    /// # Errors
    /// Why nothing changed.
    pub fn handle(&mut self, input: Input, since: u32, now: u64) -> Result<Option<Feedback>, Refusal> {
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
            (Mutant::NoEpoch, Input::Ack { branch, psn, msn, credits, .. }) => {
                self.inner.handle(Input::Ack { branch, epoch: since, psn, msn, credits }, now)
            }
            (Mutant::NoEpoch, Input::Nak { branch, psn, msn, nak, .. }) => {
                self.inner.handle(Input::Nak { branch, epoch: since, psn, msn, nak }, now)
            }
            (Mutant::NoBound, Input::Ack { branch, epoch, psn, msn, credits }) => {
                let epoch = self.inner.epoch().min(epoch);
                self.inner.handle(Input::Ack { branch, epoch, psn, msn, credits }, now)
            }
            (Mutant::NoBound, Input::Nak { branch, epoch, psn, msn, nak }) => {
                let epoch = self.inner.epoch().min(epoch);
                self.inner.handle(Input::Nak { branch, epoch, psn, msn, nak }, now)
            }
            (Mutant::NoReset, Input::Join(branch, entry)) => {
                // Known already: it keeps its first epoch, so that its feedback is still accepted.
                if self.inner.active().all(|b| b != branch) {
                    return self.inner.handle(Input::Join(branch, Entry { since: self.first, ..entry }), now);
                }
                Ok(None)
            }
            (Mutant::NoReset, Input::Ack { branch, psn, msn, credits, .. }) => {
                self.inner.handle(Input::Ack { branch, epoch: self.first, psn, msn, credits }, now)
            }
            (Mutant::NoReset, Input::Nak { branch, psn, msn, nak, .. }) => {
                self.inner.handle(Input::Nak { branch, epoch: self.first, psn, msn, nak }, now)
            }
            (Mutant::NoReack, Input::Ack { .. }) => {
                let before = self.acked;
                let feedback = self.inner.handle(input, now)?;
                self.acked = self.inner.minimum().unwrap_or(before);
                Ok(feedback.filter(|_| self.acked > before))
            }
            (Mutant::Unconfirmed, Input::Join(branch, entry)) if self.inner.high().is_none() => {
                self.inner.handle(Input::Join(branch, Entry { at_boundary: true, ..entry }), now)
            }
            _ => self.inner.handle(input, now),
        }
    }
}
