// SPDX-License-Identifier: Apache-2.0
//! How much of a destination's packets each of its paths gets, by the congestion that probes have met (decisions 5.6).
//!
//! The paths to one edge are compared with each other: a path gets less only by how much more often its probes met congestion than those of
//! the others did. Congestion of what all have in common so moves nothing. As in DCTCP (RFC 8257 section 3.3) the weight falls by a part of
//! that excess, and rises by a constant amount while there is none. The largest weight is always 1, so that they do not all sink together.

use std::collections::BTreeMap;
use std::time::Duration;

use canopy_paths::program::Header;
use canopy_units::Monotonic;

use crate::probing::Counts;

/// Probes of a path that have come back, before it is compared.
const ENOUGH: u64 = 16;
/// Least weight of a path: it has to show when it is free again.
const LEAST: f64 = 1.0 / 16.0;
/// Part of the excess by which a weight falls.
const FALL: f64 = 1.0 / 4.0;
/// By how much a weight rises.
const RISE: f64 = 1.0 / 32.0;
/// A fault that has ended so soon was none.
const BRIEF: Duration = Duration::from_millis(50);
/// Standard deviations by which a path has to differ from the others.
const SIGNIFICANT: f64 = 2.0;

/// Weights of ways; one that is not there has 1.
#[derive(Debug, Default)]
pub(super) struct Balance {
    ways: BTreeMap<Header, Way>,
}

#[derive(Debug)]
struct Way {
    weight: f64,
    /// When it was compared last; `None`: never.
    counts: Option<Counts>,
    /// Since when it has a fault, and its weight before.
    fault: Option<(Monotonic, f64)>,
}

/// The probes of a way since it was compared last.
struct Met {
    /// How many of them met congestion, 0 ..= 1, with the variance of that.
    share: f64,
    variance: f64,
}

impl Balance {
    /// The weight of a way: above 0, at most 1.
    pub(super) fn weight(&self, way: &Header) -> f64 {
        self.ways.get(way).map_or(1.0, |way| way.weight)
    }

    /// Compares those of the ways to one edge that have had enough probes since the last time. Returns those whose weights have changed.
    pub(super) fn compare<'a>(&mut self, ways: &[(&'a Header, Counts)]) -> Vec<&'a Header> {
        let met: Vec<Option<Met>> = ways.iter().map(|(way, counts)| self.met(way, counts)).collect();
        let known = || met.iter().flatten();
        let others = known().count() as f64 - 1.0;
        if others < 1.0 {
            return Vec::new();
        }
        let (sum, variances) = known().fold((0.0, 0.0), |(sum, all), met| (sum + met.share, all + met.variance));
        let mut weights: Vec<f64> = ways.iter().map(|(way, _)| self.weight(way)).collect();
        for (weight, Met { share, variance }) in
            weights.iter_mut().zip(&met).filter_map(|(w, met)| Some((w, met.as_ref()?)))
        {
            let excess = share - (sum - share) / others;
            let deviation = (variance + (variances - variance).max(0.0) / (others * others)).sqrt();
            let is_significant = excess > SIGNIFICANT * deviation;
            *weight = if is_significant { *weight * (1.0 - excess * FALL) } else { (*weight + RISE).min(1.0) };
        }
        let largest = weights.iter().copied().fold(LEAST, f64::max);
        let mut changed = Vec::new();
        for (((way, counts), weight), met) in ways.iter().zip(weights).zip(&met) {
            let Some(of) = self.ways.get_mut(*way) else { continue };
            if met.is_some() {
                of.counts = Some(*counts);
            }
            let weight = (weight / largest).max(LEAST);
            if std::mem::replace(&mut of.weight, weight) != weight {
                changed.push(*way);
            }
        }
        changed
    }

    /// `None`: too few probes have come back.
    fn met(&mut self, way: &Header, counts: &Counts) -> Option<Met> {
        let before = self.way(way).counts.get_or_insert(*counts);
        // A way that was removed and is back counts from zero.
        if counts.back < before.back {
            *before = Counts::default();
        }
        let back = counts.back - before.back;
        let share = counts.congested.saturating_sub(before.congested) as f64 / back as f64;
        (back >= ENOUGH).then(|| Met { share, variance: share * (1.0 - share) / back as f64 })
    }

    /// A way that has a fault begins with the least weight when packets take it again.
    pub(super) fn begin_fault(&mut self, way: &Header, now: Monotonic) {
        let way = self.way(way);
        way.fault.get_or_insert((now, way.weight));
        way.weight = LEAST;
    }

    /// After a brief fault, such as one that a late probe takes back, it has its former weight.
    pub(super) fn end_fault(&mut self, way: &Header, now: Monotonic) {
        let way = self.way(way);
        if let Some((since, weight)) = way.fault.take()
            && now.since(since) < BRIEF
        {
            way.weight = weight;
        }
    }

    fn way(&mut self, way: &Header) -> &mut Way {
        self.ways.entry(way.clone()).or_insert(Way { weight: 1.0, counts: None, fault: None })
    }

    /// Forgets a way.
    pub(super) fn forget(&mut self, way: &Header) {
        self.ways.remove(way);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(n: usize) -> Header {
        let destination = format!("5f00:0:1:{n:x}:2:{n:x}:1::").parse().unwrap();
        Header { destination, segments: Vec::new(), segments_left: 0 }
    }

    /// Ways with the probes of all rounds before, of which so many met congestion.
    struct Bed {
        balance: Balance,
        counts: Vec<Counts>,
    }

    impl Bed {
        fn new(ways: usize) -> Self {
            let mut bed = Self { balance: Balance::default(), counts: vec![Counts::default(); ways] };
            assert_eq!(bed.round(0, |_| 0), 0);
            bed
        }

        /// Returns how many weights have changed.
        fn round(&mut self, back: u64, congested: impl Fn(usize) -> u64) -> usize {
            for (n, counts) in self.counts.iter_mut().enumerate() {
                counts.back += back;
                counts.congested += congested(n);
            }
            let ways: Vec<Header> = (0..self.counts.len()).map(way).collect();
            let counted: Vec<(&Header, Counts)> = ways.iter().zip(self.counts.iter().copied()).collect();
            self.balance.compare(&counted).len()
        }

        fn weights(&self) -> Vec<f64> {
            (0..self.counts.len()).map(|n| self.balance.weight(&way(n))).collect()
        }
    }

    /// Catches a congested path that keeps its share, a share that never returns, and a path that gets no packets any more.
    #[test]
    fn a_congested_path_gets_less_and_gets_it_back() {
        let mut bed = Bed::new(4);
        bed.round(16, |n| if n == 2 { 16 } else { 0 });
        assert_eq!(bed.weights(), [1.0, 1.0, 0.75, 1.0]);
        bed.round(16, |n| if n == 2 { 8 } else { 0 });
        assert_eq!(bed.weights(), [1.0, 1.0, 0.75 * 0.875, 1.0]);
        (0..20).for_each(|_| _ = bed.round(16, |n| if n == 2 { 16 } else { 0 }));
        assert_eq!(bed.weights(), [1.0, 1.0, LEAST, 1.0]);
        (0..30).for_each(|_| assert_eq!(bed.round(16, |_| 0), 1));
        assert_eq!((bed.weights(), bed.round(16, |_| 0)), (vec![1.0; 4], 0));
    }

    /// Incast: catches a comparison with nothing instead of with the other paths.
    #[test]
    fn congestion_of_all_paths_moves_nothing() {
        let mut bed = Bed::new(4);
        (0..100).for_each(|_| assert_eq!(bed.round(16, |_| 16), 0));
        (0..100).for_each(|_| assert_eq!(bed.round(32, |n| 16 + n as u64), 0));
        assert_eq!(bed.weights(), [1.0; 4]);
    }

    /// Numbers from 0 to 1.
    fn numbers() -> impl FnMut() -> f64 {
        let mut seed = 0x9E37_79B9_7F4A_7C15u64;
        move || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            (seed >> 11) as f64 / (1u64 << 53) as f64
        }
    }

    /// 1,000 comparisons of eight paths that are all congested alike, half of the time. Catches chance that is taken for a difference.
    #[test]
    fn chance_moves_little() {
        let (mut bed, mut number) = (Bed::new(8), numbers());
        let mut low = 0;
        for _ in 0..1000 {
            let met: Vec<u64> = (0..8).map(|_| (0..16).filter(|_| number() < 0.5).count() as u64).collect();
            bed.round(16, |n| met[n]);
            low += bed.weights().iter().filter(|weight| **weight < 0.75).count();
        }
        assert!(low < 8 * 1000 / 20, "{low} of 8000 weights are below 0.75");
    }

    /// What the paths pass of a load of all their capacities together, in the mean, when loads vary from probe to probe by a fifth, and with
    /// equal shares.
    fn passed(capacities: &[f64], load: f64) -> (f64, f64) {
        let (mut bed, mut number) = (Bed::new(capacities.len()), numbers());
        let all = load * capacities.iter().sum::<f64>();
        let (mut weighted, mut equal) = (0.0, 0.0);
        for _ in 0..2000 {
            let weights = bed.weights();
            let sum: f64 = weights.iter().sum();
            let parts: Vec<f64> = weights.iter().map(|weight| all * weight / sum).collect();
            let met = parts
                .iter()
                .zip(capacities)
                .map(|(part, capacity)| (0..16).filter(|_| part * (0.8 + 0.4 * number()) > *capacity).count() as u64);
            let met: Vec<u64> = met.collect();
            bed.round(16, |n| met[n]);
            let even = all / capacities.len() as f64;
            weighted += parts.iter().zip(capacities).map(|(part, capacity)| part.min(*capacity)).sum::<f64>();
            equal += capacities.iter().map(|capacity| even.min(*capacity)).sum::<f64>();
        }
        (weighted / all / 2000.0, equal / all / 2000.0)
    }

    /// Catches weights that chase each other where all paths are nearly full, and weights that do not find what a smaller path takes.
    #[test]
    fn weights_pass_more_where_paths_differ_and_no_less_where_they_do_not() {
        for (capacities, load) in [(vec![1.0; 4], 0.95), (vec![1.0; 16], 0.95), (vec![1.0; 4], 0.8)] {
            let (weighted, equal) = passed(&capacities, load);
            assert!(weighted > equal - 0.01, "{capacities:?} at {load}: {weighted} of {equal}");
        }
        for (smallest, load) in [(0.5, 0.85), (0.1, 0.7)] {
            let (weighted, equal) = passed(&[1.0, 1.0, smallest, 1.0], load);
            assert!(weighted > 0.98 && weighted > equal + 0.03, "{smallest} at {load}: {weighted} of {equal}");
        }
    }

    #[test]
    fn too_few_probes_change_nothing_and_are_not_forgotten() {
        let mut bed = Bed::new(2);
        assert_eq!(bed.round(15, |n| 15 * n as u64), 0);
        assert_eq!(bed.round(1, |n| n as u64), 1);
        assert_eq!(bed.weights(), [1.0, 0.75]);
        // The second one begins again.
        bed.counts[1] = Counts::default();
        assert_eq!(bed.round(8, |n| 8 * n as u64), 0);
        assert_eq!(bed.round(8, |n| 8 * n as u64), 1);
        assert_eq!(bed.weights(), [1.0, 0.75 * 0.75]);
        let at = |ms| Monotonic::START + Duration::from_millis(ms);
        bed.balance.begin_fault(&way(1), at(0));
        assert_eq!(bed.weights(), [1.0, LEAST]);
        bed.balance.end_fault(&way(1), at(10));
        assert_eq!(bed.weights(), [1.0, 0.75 * 0.75], "a late probe has taken it back");
        bed.balance.begin_fault(&way(1), at(20));
        bed.balance.begin_fault(&way(1), at(90));
        bed.balance.end_fault(&way(1), at(100));
        assert_eq!(bed.weights(), [1.0, LEAST]);
        bed.balance.forget(&way(1));
        assert_eq!(bed.weights(), [1.0; 2]);
    }

    /// Catches a path whose probes do not come back and which has its group never compared.
    #[test]
    fn a_silent_path_holds_up_no_other_one() {
        let mut bed = Bed::new(3);
        let ways: Vec<Header> = (0..3).map(way).collect();
        let counts = |back, congested| Counts { back, congested, ..Counts::default() };
        let counted = [(&ways[0], counts(0, 0)), (&ways[1], counts(16, 16)), (&ways[2], counts(16, 0))];
        assert_eq!(bed.balance.compare(&counted), [&ways[1]]);
        assert_eq!(bed.weights(), [1.0, 0.75, 1.0]);
        // What it has had counts when it is enough.
        let next = |back, congested| {
            [(&ways[0], counts(back, congested)), (&ways[1], counts(32, 16)), (&ways[2], counts(32, 0))]
        };
        bed.balance.compare(&next(8, 8));
        assert_eq!(bed.weights()[0], 1.0);
        let next = [(&ways[0], counts(16, 16)), (&ways[1], counts(48, 16)), (&ways[2], counts(48, 0))];
        assert_eq!(bed.balance.compare(&next)[0], &ways[0]);
        assert_eq!(bed.weights()[0], 0.75);
    }

    /// Catches weights that all stay small, so that one which falls has nowhere to fall to.
    #[test]
    fn the_largest_weight_is_1() {
        let mut bed = Bed::new(2);
        (0..2).for_each(|n| bed.balance.begin_fault(&way(n), Monotonic::START));
        assert_eq!(bed.weights(), [LEAST; 2]);
        bed.round(16, |_| 0);
        assert_eq!(bed.weights(), [1.0; 2]);
    }
}
