// SPDX-License-Identifier: Apache-2.0
//! The stretch of time that a reading stands for. Its length is by the clock of the node that sent it, since messages are delayed by
//! the network and arrive in bursts; its place is on the controller's clock.

use std::time::Duration;

use canopy_units::{Monotonic, UnixTime};

/// Readings further apart have a gap between them.
pub const MAX_SPAN: Duration = Duration::from_secs(5);
/// A node's readings are placed anew when they would else be placed further than this from their arrival.
const MAX_SHIFT: Duration = Duration::from_secs(1);

/// From the reading before to this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Number of the sample; one more than that of the sample before, if there is no gap between them. No other node's has it.
    pub sample: u64,
    /// When the sample before was taken; `end` if there is a gap between them.
    pub start: Monotonic,
    /// When this one was taken.
    pub end: Monotonic,
}

/// Samples of one node that follow each other, with gaps or without, and of which each has all of the node that is not at rest: what it does
/// not have is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rest {
    first: u64,
    before: Option<Sampled>,
    last: Sampled,
}

/// Number of a sample, and when it was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sampled {
    pub(crate) number: u64,
    pub(crate) end: Monotonic,
}

impl Rest {
    /// Those that end with this one.
    pub(crate) fn with(known: Option<Self>, span: Span) -> Self {
        let last = Sampled { number: span.sample, end: span.end };
        let follows = |rest: &Self| {
            let distance = span.sample - rest.last.number.min(span.sample);
            distance == 1 || distance == 2 && span.start == span.end
        };
        match known {
            Some(rest) if rest.last.number == span.sample => rest,
            Some(rest) if follows(&rest) => Self { before: Some(rest.last), last, ..rest },
            // Behind a gap a number is left out.
            _ => Self { first: span.sample.saturating_sub((span.start == span.end).into()), before: None, last },
        }
    }

    /// The newest of them before sample `next`, if it and all others since sample `read` are of these.
    pub(crate) fn between(&self, read: u64, next: u64) -> Option<Sampled> {
        let newest = Some(self.last).filter(|last| last.number < next).or(self.before)?;
        (self.first <= read + 1 && read < newest.number).then_some(newest)
    }
}

/// The samples of one node.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    /// Number of the first sample.
    first: u64,
    /// The last sample: when it was taken on the node's clock, and its span.
    last: Option<(UnixTime, Span)>,
}

/// The node that a sample with this number is of, as in [`Pace::new`].
pub(crate) fn node_of(sample: u64) -> u32 {
    (sample >> 32) as u32
}

impl Pace {
    /// The samples of a node that has had none. Each `node` has 2^32 numbers of its own: the same series of two nodes, such as that of a
    /// group whose headend is another one now, do not continue each other.
    pub fn new(node: u32) -> Self {
        Self { first: u64::from(node) << 32, last: None }
    }

    /// The span of a sample that was taken at `taken` on the node's clock, and arrived at `now`. Parts of one sample have the same.
    pub fn next(&mut self, taken: UnixTime, now: Monotonic) -> Span {
        let span = match self.last {
            Some((last, span)) if last == taken => span,
            Some((last, before)) => {
                let length = taken.nanos().checked_sub(last.nanos()).map(Duration::from_nanos);
                match length.filter(|length| *length <= MAX_SPAN && now.since(before.end) <= 2 * MAX_SPAN) {
                    Some(length) => follow(before, length, now),
                    // A number is left out: no series continues.
                    None => Span { sample: before.sample + 2, start: now, end: now },
                }
            }
            None => Span { sample: self.first, start: now, end: now },
        };
        self.last = Some((taken, span));
        span
    }

    /// The number of the node.
    pub fn node(&self) -> u32 {
        node_of(self.first)
    }

    /// End of the last span; `None` before the first.
    pub fn last(&self) -> Option<Monotonic> {
        self.last.map(|(_, span)| span.end)
    }

    /// The next sample is behind a gap: the agent, whose counters it has, is another one.
    pub fn interrupt(&mut self) {
        if let Some((last, span)) = &mut self.last {
            // Of no time that follows.
            (*last, span.sample) = (UnixTime::from_nanos(u64::MAX), span.sample + 2);
        }
    }
}

fn follow(before: Span, length: Duration, now: Monotonic) -> Span {
    let end = before.end + length;
    let is_near = now.since(end) <= MAX_SHIFT && end.since(now) <= MAX_SHIFT;
    let end = if is_near { end } else { now };
    let length = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
    Span { sample: before.sample + 1, start: Monotonic::from_nanos(end.nanos().saturating_sub(length)), end }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn next(pace: &mut Pace, taken: u64, now: u64) -> (u64, u64, u64) {
        let span = pace.next(UnixTime::from_nanos(taken), Monotonic::from_nanos(now));
        (span.sample, span.start.nanos(), span.end.nanos())
    }

    #[test]
    fn delayed_samples_keep_their_length_and_gaps_interrupt_the_numbers() {
        let mut pace = Pace::default();
        assert_eq!(next(&mut pace, 100 * S, 10 * S), (0, 10 * S, 10 * S));
        assert_eq!(next(&mut pace, 101 * S, 11 * S), (1, 10 * S, 11 * S));
        // Delayed by 900 ms, then both at once.
        assert_eq!(next(&mut pace, 102 * S, 12 * S + S / 10 * 9), (2, 11 * S, 12 * S));
        assert_eq!(next(&mut pace, 103 * S, 12 * S + S / 10 * 9), (3, 12 * S, 13 * S));
        // A part of the same sample.
        assert_eq!(next(&mut pace, 103 * S, 13 * S), (3, 12 * S, 13 * S));
        // The node's clock drifted away.
        assert_eq!(next(&mut pace, 104 * S, 16 * S), (4, 15 * S, 16 * S));
        // Missing, back in time, far ahead, another agent.
        assert_eq!(next(&mut pace, 110 * S, 21 * S), (6, 21 * S, 21 * S));
        assert_eq!(next(&mut pace, 109 * S, 22 * S), (8, 22 * S, 22 * S));
        assert_eq!(next(&mut pace, 200 * S, 23 * S), (10, 23 * S, 23 * S));
        pace.interrupt();
        let (sample, start, end) = next(&mut pace, 201 * S, 24 * S);
        assert!(sample > 11 && start == end);
    }
}
