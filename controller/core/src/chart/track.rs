// SPDX-License-Identifier: Apache-2.0
//! One series at all its resolutions. Counters become rates; a reading without the one before it, and a counter that fell, are gaps. What
//! is at rest is in no sample, and charted as it was.

use std::borrow::Cow;

use canopy_units::Monotonic;

use super::ring::{Point, Ring, Tier};
use super::series::Series;
use super::span::{Rest, Span};

/// What is read of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reading {
    /// A counter of things of which each counts `each`: the rate per second is charted.
    Counter {
        /// Its value.
        count: u64,
        /// What one counts.
        each: f64,
    },
    /// Two counters: how much of the rise of `whole` is a rise of `part` is charted; a gap where `whole` did not rise.
    Share {
        /// The part.
        part: u64,
        /// The whole.
        whole: u64,
    },
    /// A value since the reading before, and its peak.
    Level {
        /// The value.
        value: f64,
        /// The largest value.
        peak: f64,
    },
}

impl Reading {
    /// A counter of ones.
    pub fn count(count: u64) -> Self {
        Self::Counter { count, each: 1.0 }
    }

    /// A value that is its own peak.
    pub fn level(value: f64) -> Self {
        Self::Level { value, peak: value }
    }
}

/// One series.
#[derive(Clone, Debug)]
pub(crate) struct Track {
    pub(crate) series: Series,
    /// The reading before.
    last: Option<Last>,
    rings: Vec<Ring>,
}

/// A reading, its sample and when that was taken.
#[derive(Clone, Copy, Debug)]
struct Last {
    sample: u64,
    end: Monotonic,
    reading: Reading,
}

impl Track {
    pub(crate) fn new(series: Series, tiers: &[Tier]) -> Self {
        Self { series, last: None, rings: tiers.iter().copied().map(Ring::new).collect() }
    }

    /// Octets of a track with these tiers, on the heap and in its object's list.
    pub(crate) fn octets(tiers: &[Tier]) -> usize {
        let rings: usize = tiers.iter().map(|tier| tier.octets() + size_of::<Ring>()).sum();
        rings + size_of::<Self>()
    }

    /// Takes a reading. Samples of `rest` that did not have one are charted like the reading before. Returns whether anything is charted that
    /// is not zero.
    pub(crate) fn read(&mut self, span: Span, reading: Reading, rest: Option<&Rest>) -> bool {
        if self.last.is_some_and(|last| last.sample == span.sample) {
            // Another part of the same sample: what it has more is in the next one.
            return false;
        }
        let before = self.last.replace(Last { sample: span.sample, end: span.end, reading });
        let Some(Last { mut sample, end, reading: before }) = before else { return false };
        if let Some(rested) = rest.and_then(|rest| rest.between(sample, span.sample)) {
            self.rest(before, end, rested.end);
            sample = rested.number;
        }
        if sample + 1 != span.sample || span.start >= span.end {
            return false;
        }
        let seconds = span.end.since(span.start).as_secs_f64();
        let Some((value, peak)) = charted(before, reading, seconds) else { return false };
        for ring in &mut self.rings {
            ring.add(span.start, span.end, value, peak);
        }
        peak != 0.0
    }

    /// With what the samples of `rest` since the last reading did not have.
    pub(crate) fn rested(&self, rest: Option<&Rest>) -> Cow<'_, Self> {
        let rested = self.last.zip(rest).and_then(|(last, rest)| Some((last, rest.between(last.sample, u64::MAX)?)));
        let Some((Last { end, reading, .. }, rested)) = rested else { return Cow::Borrowed(self) };
        let mut all = self.clone();
        all.rest(reading, end, rested.end);
        Cow::Owned(all)
    }

    /// No reading continues the last one.
    pub(crate) fn end(&mut self) {
        self.last = None;
    }

    /// Number of the last reading's sample.
    pub(crate) fn last(&self) -> Option<u64> {
        self.last.map(|last| last.sample)
    }

    /// What was read does not change from `start` to `end`.
    fn rest(&mut self, reading: Reading, start: Monotonic, end: Monotonic) {
        let value = match reading {
            Reading::Counter { .. } => 0.0,
            Reading::Level { value, .. } if value.is_finite() => value,
            Reading::Level { .. } | Reading::Share { .. } => return,
        };
        for ring in &mut self.rings {
            ring.add(start, end, value, value);
        }
    }

    pub(crate) fn tiers(&self) -> impl Iterator<Item = Tier> + '_ {
        self.rings.iter().map(Ring::tier)
    }

    /// The mean and maximum of `count` steps from step `first` on, each of as many seconds as `step`, a multiple of the tier's.
    pub(crate) fn points(&self, tier: Tier, first: u64, step: u64, count: usize) -> Vec<Option<Point>> {
        let Some(ring) = self.rings.iter().find(|ring| ring.tier() == tier) else { return vec![None; count] };
        let each = step / tier.step;
        let merged = |number: u64| merge((number * each..(number + 1) * each).filter_map(|n| ring.get(n)));
        (first..first + count as u64).map(merged).collect()
    }
}

/// What is charted of two readings that follow each other, and its peak.
fn charted(before: Reading, now: Reading, seconds: f64) -> Option<(f64, f64)> {
    let value = match (before, now) {
        (Reading::Counter { count: before, .. }, Reading::Counter { count, each }) => {
            count.checked_sub(before)? as f64 * each / seconds
        }
        (Reading::Share { part: p, whole: w }, Reading::Share { part, whole }) => {
            let (part, whole) = (part.checked_sub(p)?, whole.checked_sub(w).filter(|whole| *whole > 0)?);
            part as f64 / whole as f64
        }
        (_, Reading::Level { value, peak }) => return (value.is_finite() && peak.is_finite()).then_some((value, peak)),
        _ => return None,
    };
    value.is_finite().then_some((value, value))
}

/// One point of several: the mean of their means.
fn merge(points: impl Iterator<Item = Point>) -> Option<Point> {
    let (mut sum, mut count, mut max) = (0.0, 0u32, f32::MIN);
    for point in points {
        (sum, count, max) = (sum + f64::from(point.mean), count + 1, max.max(point.max));
    }
    (count > 0).then(|| Point { mean: (sum / f64::from(count)) as f32, max })
}
