// SPDX-License-Identifier: Apache-2.0
//! Gain of Long-haul CNPs over CNPs of the receiver, by the distance of the bottleneck from the source.

use crate::fluid::{MS, STEP};
use crate::spec::{Burst, HopSpec, Kind, PathSpec, SourceSpec};
use crate::world::World;

const GBPS: u64 = 1_000_000_000;
const RTT: u64 = 20 * MS;
/// Start of the background traffic.
const ONSET: u64 = 50 * MS;
/// Rates of the background traffic.
const LOADS: [u64; 3] = [3, 5, 8];

/// A 10 Gb/s source and one node at that distance, where background traffic takes a share from 50 ms on.
fn path(kind: Kind, away_ns: u64, background_bps: u64, phase_ns: u64) -> PathSpec {
    let bursts = vec![Burst { rate_bps: background_bps, from_ns: ONSET, until_ns: u64::MAX }];
    let hop = HopSpec { kind, phase_ns, bursts, ..HopSpec::new(10 * GBPS, RTT) };
    PathSpec {
        sources: vec![SourceSpec::new(10 * GBPS, RTT)],
        hops: vec![hop],
        delays_ns: vec![away_ns, RTT / 2 - away_ns],
        cnp_interval_ns: MS / 20,
    }
}

/// Nanoseconds, summed over runs.
#[derive(Clone, Copy, Debug, Default)]
struct Course {
    /// From a queue above K_min to the first reduction at the source.
    reaction: u64,
    /// Time with the queue above K_max.
    above: u64,
}

fn course(spec: &PathSpec) -> Course {
    let (limits, line) = (spec.hops[0].limits, spec.sources[0].line_bps);
    let mut world = World::new(spec);
    let (mut congested, mut slower, mut above) = (None, None, 0);
    while world.now < ONSET + 20 * RTT {
        world.step();
        let depth = world.hops[0].fifo.depth;
        if depth > limits.k_min.get() {
            congested = congested.or(Some(world.now));
        }
        if world.sources[0].rates(world.now)[0].1 < line {
            slower = slower.or(Some(world.now));
        }
        above += if depth > limits.k_max.get() { STEP } else { 0 };
    }
    let (Some(congested), Some(slower)) = (congested, slower) else { panic!("no queue, or no reaction: {spec:?}") };
    // A growth trigger may come before.
    Course { reaction: slower.saturating_sub(congested).max(STEP), above }
}

#[test]
fn the_gain_falls_with_the_distance_of_the_bottleneck() {
    println!("one way | reaction ms, Long-haul, CNP, ratio | above K_max ms, Long-haul, CNP");
    let mut ratios = Vec::new();
    for away in [0, 2_500_000, 5_000_000, 7_500_000, 10_000_000] {
        let mut sums = [Course::default(); 2];
        let runs = LOADS.iter().flat_map(|load| (0..10).map(move |phase| (*load, phase)));
        for (load, phase) in runs.clone() {
            for (sum, kind) in sums.iter_mut().zip([Kind::LongHaul, Kind::Ecn]) {
                let one = course(&path(kind, away, load * GBPS, phase * STEP));
                *sum = Course { reaction: sum.reaction + one.reaction, above: sum.above + one.above };
            }
        }
        let count = runs.count() as u64;
        let ms = |sum: u64| format!("{}.{}", sum / count / MS, sum / count % MS / STEP);
        let [ours, cnp] = sums;
        let ratio = cnp.reaction * 10 / ours.reaction;
        println!(
            "{} us | {} {} {}.{} | {} {}",
            away / 1_000,
            ms(ours.reaction),
            ms(cnp.reaction),
            ratio / 10,
            ratio % 10,
            ms(ours.above),
            ms(cnp.above)
        );
        if away == 0 {
            assert!(ours.above * 4 <= cnp.above, "{ours:?} {cnp:?}");
        }
        assert!(ours.above <= cnp.above, "{ours:?} {cnp:?}");
        ratios.push(ratio);
    }
    assert!(ratios[0] >= 100, "{ratios:?}");
    assert!(ratios.is_sorted_by(|near, far| near > far), "{ratios:?}");
    assert!((10..20).contains(&ratios[4]), "{ratios:?}");
}
