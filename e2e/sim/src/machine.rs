// SPDX-License-Identifier: Apache-2.0
//! The aggregation of a node, or one that is wrong on purpose: an oracle that never objects proves nothing.

use canopy_agent_core::aggregate::{Aggregation, Entry, Input, Params, Refusal, Speech};

/// What is wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Mutant {
    /// Nothing.
    #[default]
    None,
    /// Every ACK goes upstream as it is: the fastest branch speaks for all.
    Max,
    /// Every NAK goes upstream as it is, though another branch may be lower (3.6).
    OwnNak,
    /// Feedback of an old epoch counts (3.9).
    NoEpoch,
    /// Feedback of a newer program than the node's own counts (3.9).
    NoBound,
    /// A branch behind which receivers moved keeps what it said without them (3.9).
    NoReset,
    /// What was acknowledged is never acknowledged again (3.5).
    NoReack,
    /// State that was lost is taken for acknowledged: branches need not be heard (3.9).
    Unheard,
}

/// A node's aggregation.
#[derive(Clone)]
pub struct Machine {
    /// The real one.
    pub inner: Aggregation,
    mutant: Mutant,
    /// Epoch that it began with.
    first: u32,
    said: u64,
}

impl Machine {
    /// Nothing sent, nobody joined, the program of `epoch` in force.
    pub fn new(params: Params, mutant: Mutant, epoch: u32) -> Self {
        Self { inner: Aggregation::new(params, epoch), mutant, first: epoch, said: 0 }
    }

    /// As [`Aggregation::handle`]; `since` is the epoch of the branch that speaks.
    ///
    /// # Errors
    /// Why nothing changed.
    pub fn handle(&mut self, input: Input, since: u32, now: u64) -> Result<Option<Speech>, Refusal> {
        match (self.mutant, input) {
            (Mutant::None, _) => self.inner.handle(input, now),
            (Mutant::Max, Input::Ack { psn, msn, credits, .. }) => {
                self.inner.handle(input, now)?;
                Ok(Some(Speech { syndrome: credits, psn, msn }))
            }
            (Mutant::OwnNak, Input::Nak { psn, msn, nak, .. }) => {
                self.inner.handle(input, now)?;
                Ok(Some(Speech { syndrome: nak.syndrome(), psn, msn }))
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
                // Known already: it keeps its first epoch, so that its feedback goes on to count.
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
                let before = self.said;
                let said = self.inner.handle(input, now)?;
                self.said = self.inner.minimum().unwrap_or(before);
                Ok(said.filter(|_| self.said > before))
            }
            (Mutant::Unheard, Input::Join(branch, entry)) if self.inner.high().is_none() => {
                self.inner.handle(Input::Join(branch, Entry { at_boundary: true, ..entry }), now)
            }
            _ => self.inner.handle(input, now),
        }
    }
}
