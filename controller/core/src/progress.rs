// SPDX-License-Identifier: Apache-2.0
//! Which branch of a node holds the minimum, and for how long data waits for its acknowledgement, over the last seconds.
//!
//! A node counts for each branch the PSNs by which that branch's feedback raised the minimum (`completed_min`): all other branches had
//! acknowledged them before. The counters rise from when the branch joined; what they rose by in two spans of [`SPAN`] is kept, of which
//! the older one is dropped as a whole. So a share covers the last 5 to 10 seconds.
//!
//! How long data waits follows from Little's law: the PSNs that a branch has not acknowledged, on average, divided by those that the
//! minimum passes in a second.

use std::cell::LazyCell;
use std::collections::{BTreeMap, HashSet};
use std::net::Ipv6Addr;
use std::time::Duration;

use canopy_model::telemetry::GroupTelemetry;
use canopy_units::Monotonic;

/// Half of what is kept.
pub(crate) const SPAN: Duration = Duration::from_secs(5);
/// A branch holds the minimum if it raised it by so many of a thousand PSNs...
const HOLDS_PERMILLE: u64 = 900;
/// ...and in fewer PSNs than these nothing is seen.
const FEWEST_PSNS: u64 = 32;
/// A branch is late if data waits this long for its acknowledgement...
const LATE_FROM: Duration = Duration::from_millis(20);
/// ...until it waits for less than this.
const LATE_UNTIL: Duration = Duration::from_millis(10);

/// The progress of a group at a node, by branch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    branches: BTreeMap<Ipv6Addr, Counter>,
    present: Span,
    before: Span,
    holder: Option<Holder>,
}

/// The branch that holds the minimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) branch: Ipv6Addr,
    /// Its data waits long for acknowledgement.
    pub(crate) is_late: bool,
}

/// What a branch did of a node's progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) branch: Ipv6Addr,
    /// PSNs by which it raised the minimum.
    pub(crate) psns: u64,
    /// How long data waited for its acknowledgement, on average; `None` if the minimum was not raised.
    pub(crate) wait: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
struct Counter {
    last: u64,
    present: Sums,
    before: Sums,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    psns: u64,
    unacknowledged: u64,
}

/// A time in which samples arrived.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    from: Monotonic,
    until: Monotonic,
    samples: u64,
}

impl Progress {
    /// Adds a sample, which arrived at `now`, of a node whose program has these `branches`; what it has of others is ignored. True if
    /// [`Progress::holder`] is another one now.
    pub(crate) fn add(&mut self, branches: &[Ipv6Addr], sample: &GroupTelemetry, now: Monotonic) -> bool {
        self.turn(now);
        // Needed when branches come or go, and for an agent that reports others.
        let of_program = LazyCell::new(|| branches.iter().copied().collect::<HashSet<_>>());
        let high = sample.high.get();
        for branch in &sample.branches {
            let Some(completed) = branch.completed_min else {
                self.branches.remove(&branch.address);
                continue;
            };
            if !self.branches.contains_key(&branch.address) && !of_program.contains(&branch.address) {
                continue;
            }
            let (present, before) = Default::default();
            let new = Counter { last: completed, present, before };
            let counter = self.branches.entry(branch.address).or_insert(new);
            // A branch that left and joined again counts from 0.
            counter.present.psns = counter.present.psns.saturating_add(completed.saturating_sub(counter.last));
            counter.last = completed;
            let unacknowledged = branch.next.map_or(0, |next| high.saturating_sub(next.get()));
            counter.present.unacknowledged = counter.present.unacknowledged.saturating_add(unacknowledged);
        }
        self.present.until = now;
        self.present.samples += 1;
        if self.branches.len() > branches.len() {
            self.branches.retain(|address, _| of_program.contains(address));
        }
        let holder = self.find_holder();
        std::mem::replace(&mut self.holder, holder) != holder
    }

    /// The branch that raised the minimum by nearly all PSNs, as of the newest sample.
    pub(crate) fn holder(&self) -> Option<Holder> {
        self.holder
    }

    /// Every branch's part, as of the newest sample.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Part> + '_ {
        let rate = self.psns_per_sample();
        self.branches.iter().map(move |(address, counter)| Part {
            branch: *address,
            psns: counter.psns(),
            wait: rate.map(|(psns, lasted)| {
                let seconds = lasted.as_secs_f64() * (counter.unacknowledged() as f64 / psns as f64);
                Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
            }),
        })
    }

    /// PSNs by which all branches raised the minimum. An agent may report any numbers.
    pub(crate) fn psns(&self) -> u64 {
        self.branches.values().map(Counter::psns).fold(0, u64::saturating_add)
    }

    /// The time that the samples cover.
    pub(crate) fn covers(&self) -> Duration {
        self.present.lasted() + self.before.lasted()
    }

    /// Time of the newest sample.
    pub(crate) fn newest(&self) -> Monotonic {
        self.present.until
    }

    fn turn(&mut self, now: Monotonic) {
        if self.present.samples == 0 {
            self.present = Span { from: now, until: now, samples: 0 };
        } else if now.since(self.present.from) >= SPAN {
            // What a silence of the node hides belongs to no span.
            let is_continued = now.since(self.present.until) < SPAN;
            self.before = if is_continued { Span { until: now, ..self.present } } else { Span::default() };
            self.present = Span { from: now, until: now, samples: 0 };
            for counter in self.branches.values_mut() {
                counter.before = if is_continued { counter.present } else { Sums::default() };
                counter.present = Sums::default();
            }
        }
    }

    fn find_holder(&self) -> Option<Holder> {
        let total = self.psns();
        let holds = |counter: &Counter| counter.psns().saturating_mul(1000) >= total.saturating_mul(HOLDS_PERMILLE);
        let part = self.parts().find(|part| self.branches.get(&part.branch).is_some_and(holds))?;
        let was_late = self.holder.is_some_and(|before| before.branch == part.branch && before.is_late);
        let limit = if was_late { LATE_UNTIL } else { LATE_FROM };
        let is_late = part.wait.is_some_and(|wait| wait >= limit);
        (total >= FEWEST_PSNS).then_some(Holder { branch: part.branch, is_late })
    }

    /// PSNs that the minimum passed, times the number of samples, and the time in which it did; `None` if it passed none.
    fn psns_per_sample(&self) -> Option<(u64, Duration)> {
        let total = self.psns();
        let samples = self.present.samples + self.before.samples;
        let psns = total.saturating_mul(samples);
        (psns > 0).then(|| (psns, self.covers()))
    }
}

impl Counter {
    fn psns(&self) -> u64 {
        self.present.psns.saturating_add(self.before.psns)
    }

    fn unacknowledged(&self) -> u64 {
        self.present.unacknowledged.saturating_add(self.before.unacknowledged)
    }
}

impl Span {
    fn lasted(&self) -> Duration {
        self.until.since(self.from)
    }
}

#[cfg(test)]
mod tests;
