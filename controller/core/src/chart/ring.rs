// SPDX-License-Identifier: Apache-2.0
//! The points of one series at one resolution: the newest replace the oldest.

use std::time::Duration;

use canopy_units::Monotonic;
use serde::{Deserialize, Serialize};

/// What was measured in one step; in JSON `[mean, max]`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "[f32; 2]", into = "[f32; 2]")]
pub struct Point {
    /// Mean, weighted by time.
    pub mean: f32,
    /// The largest.
    pub max: f32,
}

impl From<[f32; 2]> for Point {
    fn from([mean, max]: [f32; 2]) -> Self {
        Self { mean, max }
    }
}

impl From<Point> for [f32; 2] {
    fn from(point: Point) -> Self {
        [point.mean, point.max]
    }
}

/// A resolution and how many steps of it are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tier {
    /// Seconds per step.
    pub step: u64,
    /// Steps kept.
    pub steps: usize,
}

impl Tier {
    /// Octets of its ring on the heap.
    pub const fn octets(self) -> usize {
        self.steps * size_of::<Bucket>()
    }

    /// Time that it covers.
    pub const fn covers(self) -> Duration {
        Duration::from_secs(self.step * self.steps as u64)
    }
}

/// One step. A weight of 0 is a gap.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    mean: f32,
    max: f32,
    /// Seconds of the step that were measured.
    weight: f32,
}

/// A ring of steps; step `n` is from `n` times the tier's step on.
#[derive(Clone, Debug)]
pub(crate) struct Ring {
    tier: Tier,
    /// The newest step that was written to.
    newest: Option<u64>,
    buckets: Box<[Bucket]>,
}

const NANOS: u64 = 1_000_000_000;

impl Ring {
    pub(crate) fn new(tier: Tier) -> Self {
        Self { tier, newest: None, buckets: vec![Bucket::default(); tier.steps].into() }
    }

    pub(crate) fn tier(&self) -> Tier {
        self.tier
    }

    /// Adds a value that held from `start` to `end`, in as many steps, and at most all that are kept.
    pub(crate) fn add(&mut self, start: Monotonic, end: Monotonic, value: f64, max: f64) {
        let step = self.tier.step * NANOS;
        let (start, end) = (start.nanos(), end.nanos());
        if start >= end {
            return;
        }
        let (first, last) = (start / step, (end - 1) / step);
        self.open(last);
        let oldest = self.newest.unwrap_or(0).saturating_sub(self.buckets.len() as u64 - 1);
        for number in first.max(oldest)..=last {
            let (from, to) = (start.max(number * step), end.min((number + 1) * step));
            let weight = (to - from) as f32 / NANOS as f32;
            let at = self.at(number);
            let bucket = &mut self.buckets[at];
            let mean = (f64::from(bucket.mean) * f64::from(bucket.weight) + value * f64::from(weight))
                / (f64::from(bucket.weight) + f64::from(weight));
            bucket.max = if bucket.weight > 0.0 { bucket.max.max(max as f32) } else { max as f32 };
            bucket.mean = mean as f32;
            bucket.weight += weight;
        }
    }

    /// The point of one step; `None` for a gap, and outside what is kept.
    pub(crate) fn get(&self, number: u64) -> Option<Point> {
        let newest = self.newest?;
        if number > newest || newest - number >= self.buckets.len() as u64 {
            return None;
        }
        let Bucket { mean, max, weight } = self.buckets[self.at(number)];
        (weight > 0.0).then_some(Point { mean, max })
    }

    /// Empties the steps up to `last`.
    fn open(&mut self, last: u64) {
        let Some(newest) = self.newest else {
            self.newest = Some(last);
            return;
        };
        let stale = last.saturating_sub(newest).min(self.buckets.len() as u64);
        for number in 0..stale {
            let at = self.at(last - number);
            self.buckets[at] = Bucket::default();
        }
        self.newest = Some(newest.max(last));
    }

    fn at(&self, number: u64) -> usize {
        (number % self.buckets.len() as u64) as usize
    }
}
