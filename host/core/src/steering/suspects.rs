// SPDX-License-Identifier: Apache-2.0
//! Which link explains the faults of ways best: the one under which the losses of all ways are most likely.
//!
//! For each link that a way with a fault crosses, the hypothesis is that this link alone loses packets. Ways over it lose the same part of
//! their probes, which is estimated; others lose [`BASE`]. Its score is the logarithm of how much more likely the losses of late are than
//! without any fault, so that a sound way over the link counts against it as its probes do. Links are equally likely before.
//!
//! [`OWN`] stands for what all ways cross: this host's link, its edge, its own queues. It is the explanation if the losses of all ways are more
//! likely under it than under the links together, each further one of which makes them [`FURTHER`] less likely.

use std::collections::{BTreeMap, BTreeSet};

/// Loss of a sound way.
const BASE: f64 = 0.001;
/// A logarithm: that two links fail at a time is a thousand times less likely than that one does.
const FURTHER: f64 = 7.0;
/// Less likely explanations are left out.
const LEAST: f64 = 0.1;

/// The link of this host, and its edge.
pub(super) const OWN: usize = usize::MAX;

/// A way with what its probes have shown of late.
#[derive(Clone, Debug)]
pub(super) struct Evidence {
    /// Links between nodes.
    pub(super) links: BTreeSet<usize>,
    pub(super) has_fault: bool,
    /// Probes, of which older ones count less.
    pub(super) lost: f64,
    pub(super) back: f64,
}

/// A link that explains faults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ranked {
    pub(super) link: usize,
    /// Ways with a fault over it.
    pub(super) faulty: usize,
    /// Ways with a fault that the links before it do not explain.
    pub(super) of: usize,
    /// Among the links that explain the same faults, 0 ..= 1.
    pub(super) confidence: f64,
}

/// The best explanation first.
pub(super) fn rank(ways: Vec<Evidence>) -> Vec<Ranked> {
    let (lost, back) = ways.iter().fold((0.0, 0.0), |(lost, back), way| (lost + way.lost, back + way.back));
    let of = ways.iter().filter(|way| way.has_fault).count();
    let own = score(lost, back);
    let (ranked, all) = by_links(ways);
    // Where links explain it as well, they do.
    if of == 0 || own <= all + 1e-9 {
        return ranked;
    }
    vec![Ranked { link: OWN, faulty: of, of, confidence: 1.0 / (1.0 + (all - own).exp()) }]
}

/// As long as ways with a fault are left, the link with the best score explains those that cross it; ways over it are left out of what comes
/// after. Returns the links, and the score of all together.
fn by_links(mut ways: Vec<Evidence>) -> (Vec<Ranked>, f64) {
    let (mut ranked, mut together) = (Vec::new(), 0.0);
    loop {
        let of = ways.iter().filter(|way| way.has_fault).count();
        let mut links: BTreeMap<usize, (usize, f64, f64)> = BTreeMap::new();
        let faulty = ways.iter().filter(|way| way.has_fault);
        faulty.flat_map(|way| &way.links).for_each(|link| links.entry(*link).or_default().0 += 1);
        for way in &ways {
            for link in &way.links {
                if let Some((_, lost, back)) = links.get_mut(link) {
                    (*lost, *back) = (*lost + way.lost, *back + way.back);
                }
            }
        }
        let scores: Vec<(usize, usize, f64)> =
            links.into_iter().map(|(link, (faulty, lost, back))| (link, faulty, score(lost, back))).collect();
        let Some(&(best_link, _, best)) = scores.iter().max_by(|a, b| a.2.total_cmp(&b.2)).filter(|best| best.2 > 0.0)
        else {
            return (ranked, together);
        };
        together += if ranked.is_empty() { best } else { best - FURTHER };
        // Other explanations of the same faults.
        let of_best = ways.iter().filter(|way| way.has_fault && way.links.contains(&best_link));
        let beside: BTreeSet<usize> = of_best.flat_map(|way| way.links.iter().copied()).collect();
        let alike = || scores.iter().filter(|(link, ..)| beside.contains(link));
        let all: f64 = alike().map(|(_, _, score)| (score - best).exp()).sum();
        let mut round: Vec<Ranked> = alike()
            .map(|&(link, faulty, score)| Ranked { link, faulty, of, confidence: (score - best).exp() / all })
            .filter(|ranked| ranked.confidence >= LEAST)
            .collect();
        round.sort_by(|a, b| b.confidence.total_cmp(&a.confidence));
        ranked.extend(round);
        ways.retain(|way| !way.links.contains(&best_link));
    }
}

/// How much more likely these losses are at the part that is lost than at [`BASE`], as a logarithm.
fn score(lost: f64, back: f64) -> f64 {
    let part = lost / (lost + back);
    if part.is_nan() || part <= BASE {
        return 0.0;
    }
    let sound = if back > 0.0 { back * ((1.0 - part) / (1.0 - BASE)).ln() } else { 0.0 };
    lost * (part / BASE).ln() + sound
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Links, and of 100 probes how many are lost; a fault from 5 on.
    fn ranked(ways: &[(&[usize], u32)]) -> Vec<(usize, usize, usize, u32)> {
        let way = |(links, lost): &(&[usize], u32)| Evidence {
            links: links.iter().copied().collect(),
            has_fault: *lost >= 5,
            lost: f64::from(*lost),
            back: f64::from(100 - lost),
        };
        let ranked = rank(ways.iter().map(way).collect());
        ranked.into_iter().map(|of| (of.link, of.faulty, of.of, (of.confidence * 100.0).round() as u32)).collect()
    }

    #[test]
    fn the_link_under_which_all_losses_are_most_likely_explains_them() {
        // From one leaf over two spines to three leaves: links 0 and 1 up, 10 and 11, 20 and 21, 30 and 31 down.
        let sound: [(&[usize], u32); 3] = [(&[0, 10], 0), (&[0, 20], 0), (&[0, 30], 0)];
        let with = |more: [(&'static [usize], u32); 3]| ranked(&[sound, more].concat());
        assert_eq!(with([(&[1, 11], 100), (&[1, 21], 100), (&[1, 31], 100)]), [(1, 3, 3, 100)]);
        assert_eq!(with([(&[1, 11], 0), (&[1, 21], 100), (&[1, 31], 0)]), [(21, 1, 1, 100)]);
        // One of three has a fault already, the others lose as much: the link of all three.
        assert_eq!(with([(&[1, 11], 4), (&[1, 21], 6), (&[1, 31], 4)]), [(1, 1, 1, 100)]);
        // Two faults at once: one link, or two.
        let both = with([(&[1, 11], 100), (&[1, 21], 100), (&[1, 31], 0)]);
        assert_eq!(both.iter().map(|of| of.0).collect::<Vec<_>>(), [1]);
        let both = ranked(
            &[&sound[..], &[(&[1, 11], 100), (&[1, 21], 0), (&[1, 31], 0), (&[1, 41], 0), (&[2, 42], 50)]].concat(),
        );
        assert_eq!(both, [(11, 1, 2, 100), (2, 1, 1, 50), (42, 1, 1, 50)]);
        // The one path to a leaf: either link.
        assert_eq!(ranked(&[(&[1, 11], 100)]), [(1, 1, 1, 50), (11, 1, 1, 50)]);
        assert_eq!(ranked(&sound), []);
        // All lose the same: what they have in common, though each link is crossed by ways with a fault alone.
        let first = |ways: &[(&[usize], u32)]| ranked(ways)[0].0;
        assert_eq!(first(&[(&[0, 10], 6), (&[0, 20], 3), (&[1, 11], 4), (&[1, 21], 5)]), OWN);
        assert_eq!(first(&[(&[0, 10], 99), (&[0, 20], 100), (&[1, 11], 100), (&[1, 21], 100)]), OWN);
        assert_eq!(first(&[(&[0, 10], 0), (&[0, 20], 1), (&[1, 11], 9), (&[1, 21], 8)]), 1);
        // Two holes, and an edge that is gone, are nothing in common.
        let two: [(&[usize], u32); 6] =
            [(&[0, 10], 0), (&[0, 20], 100), (&[0, 30], 0), (&[1, 11], 0), (&[1, 21], 0), (&[1, 31], 100)];
        assert!([20, 31].contains(&first(&two)));
        let gone: [(&[usize], u32); 6] =
            [(&[0, 10], 0), (&[0, 20], 100), (&[0, 30], 0), (&[1, 11], 0), (&[1, 21], 100), (&[1, 31], 0)];
        assert!([20, 21].contains(&first(&gone)));
        assert_eq!(ranked(&[(&[], 100)]), [(OWN, 1, 1, 100)]);
        assert_eq!(score(0.05, 100.0), 0.0, "less than a sound way loses");
        assert!(score(3.0, 0.0) > 20.0);
    }
}
