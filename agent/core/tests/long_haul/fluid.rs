// SPDX-License-Identifier: Apache-2.0
//! Octets in transit: batches, FIFO queues, links.

use std::collections::VecDeque;
use std::time::Duration;

use canopy_units::Monotonic;

/// One step of the model: 100 us.
pub(crate) const STEP: u64 = 100_000;
pub(crate) const MS: u64 = 1_000_000;

/// The instant that a number of nanoseconds stands for.
pub(crate) fn instant(ns: u64) -> Monotonic {
    Monotonic::from_nanos(ns)
}

/// The same for a span.
pub(crate) fn span(ns: u64) -> Duration {
    Duration::from_nanos(ns)
}

/// Octets of one flow that move together; flow `None` is background traffic, which is not RDMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) flow: Option<usize>,
    pub(crate) bytes: u64,
    pub(crate) ce: bool,
    /// Number of Long-haul CNPs that the flow's source had received when it was sent.
    pub(crate) era: u32,
}

/// Adds octets to those of the same flow and mark.
pub(crate) fn merge(batches: &mut Vec<Batch>, new: Batch) {
    match batches.iter_mut().find(|old| (old.flow, old.ce, old.era) == (new.flow, new.ce, new.era)) {
        Some(old) => old.bytes += new.bytes,
        None => batches.push(new),
    }
}

/// Octets that a rate carries in one step.
pub(crate) fn per_step(rate_bps: u64) -> u64 {
    (u128::from(rate_bps) * u128::from(STEP) / 8_000_000_000) as u64
}

/// A queue from which octets that arrived in the same step leave in proportion.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fifo {
    slots: VecDeque<(u64, Vec<Batch>)>,
    pub(crate) depth: u64,
}

impl Fifo {
    pub(crate) fn push(&mut self, slot: Vec<Batch>) {
        let sum = slot.iter().map(|b| b.bytes).sum();
        if sum > 0 {
            self.depth += sum;
            self.slots.push_back((sum, slot));
        }
    }

    pub(crate) fn pull(&mut self, mut budget: u64) -> Vec<Batch> {
        let mut out = Vec::new();
        while budget > 0 {
            let Some((sum, slot)) = self.slots.front_mut() else { break };
            let whole = *sum;
            let take = whole.min(budget);
            let mut left = take;
            for batch in slot.iter_mut() {
                let share = (u128::from(batch.bytes) * u128::from(take)).div_ceil(u128::from(whole)) as u64;
                let bytes = share.min(left);
                left -= bytes;
                batch.bytes -= bytes;
                merge(&mut out, Batch { bytes, ..*batch });
            }
            *sum -= take;
            budget -= take;
            self.depth -= take;
            if *sum == 0 {
                self.slots.pop_front();
            }
        }
        out
    }
}

/// A link with a propagation delay.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) delay_ns: u64,
    in_flight: VecDeque<(u64, Vec<Batch>)>,
}

impl Link {
    pub(crate) fn new(delay_ns: u64) -> Self {
        Self { delay_ns, in_flight: VecDeque::new() }
    }

    pub(crate) fn enter(&mut self, batches: Vec<Batch>, now: u64) {
        if !batches.is_empty() {
            self.in_flight.push_back((now + self.delay_ns, batches));
        }
    }

    pub(crate) fn leave(&mut self, now: u64) -> Vec<Batch> {
        let mut out = Vec::new();
        while self.in_flight.front().is_some_and(|(due, _)| *due <= now) {
            let (_, batches) = self.in_flight.pop_front().unwrap_or_default();
            batches.into_iter().for_each(|batch| merge(&mut out, batch));
        }
        out
    }
}
