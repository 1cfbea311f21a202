// SPDX-License-Identifier: Apache-2.0
//! Properties of every run: rates within their limits (each step, by `Source::rates`), full rate again after congestion, and a
//! utilised bottleneck.

use crate::duplicates::{Estimate, scenario};
use crate::fluid::MS;
use crate::seeds::{Dice, seeds};
use crate::spec::{HopSpec, Kind, PathSpec, SourceSpec};
use crate::world::World;

const GBPS: u64 = 1_000_000_000;

/// Two RTTs without an instruction and 20 additive increases from the minimum, after queues of at most four times K_max drained.
const BACK_RTTS: u64 = 30;

#[test]
fn every_source_returns_to_line_rate_when_the_background_ends() {
    let mut times = Vec::new();
    for seed in seeds(100) {
        let (spec, _) = scenario(seed, Estimate::Path);
        let Some(end) = spec.hops.iter().flat_map(|hop| &hop.bursts).map(|b| b.until_ns).max() else { continue };
        let mut world = World::run(&spec, end);
        let full = |world: &mut World| {
            let now = world.now;
            world.sources.iter_mut().all(|s| s.rates(now).iter().all(|(_, rate)| *rate == s.spec.line_bps))
        };
        while !full(&mut world) {
            assert!(world.now < end + BACK_RTTS * spec.rtt_ns(), "seed {seed}: {:?}", world.record.rates.last());
            world.step();
        }
        times.push((world.now - end) * 10 / spec.rtt_ns());
    }
    times.sort_unstable();
    let (median, most) = (times[times.len() / 2], times[times.len() - 1]);
    println!("back at line rate after tenths of the RTT: median {median}, most {most}, of {} runs", times.len());
}

/// One to four sources that offer more than the rate of one bottleneck.
fn bottleneck(seed: u64, kind: Kind) -> PathSpec {
    let mut dice = Dice::new(seed);
    let one_way = dice.range(10, 400) * (MS / 10);
    let first = dice.range(0, one_way / (MS / 10)) * (MS / 10);
    let rtt_ns = 2 * one_way;
    let sources: Vec<_> = (0..dice.range(1, 4)).map(|_| SourceSpec::new(dice.range(2, 10) * GBPS, rtt_ns)).collect();
    let offered: u64 = sources.iter().map(|s| s.line_bps).sum();
    let rate_bps = offered / 100 * dice.range(30, 95);
    let hop = HopSpec { kind, phase_ns: dice.range(0, 9) * (MS / 10), ..HopSpec::new(rate_bps, rtt_ns) };
    PathSpec { sources, hops: vec![hop], delays_ns: vec![first, one_way - first], cnp_interval_ns: MS / 20 }
}

/// An RTT of three samples of the queue: below it, an action takes effect before two samples could show the one before.
const THREE_SAMPLES: u64 = 3 * MS;

/// In the second half of 80 RTTs: utilisation of the bottleneck, and its deepest queue in percent of K_max. Never drops a packet.
fn converged(spec: &PathSpec) -> (u64, u64) {
    let world = World::run(spec, 80 * spec.rtt_ns());
    let (carried, depths) = (&world.record.carried, &world.record.depths);
    let half = carried.len() / 2;
    let bits = (carried[carried.len() - 1][0] - carried[half][0]) * 8;
    let most = spec.hops[0].rate_bps / 1_000 * (carried.len() - 1 - half) as u64;
    let deepest = depths[half..].iter().map(|d| d[0]).max().unwrap();
    let plain = spec.hops[0].kind != Kind::LongHaul;
    assert!(plain || world.hops[0].dropped == 0);
    (bits * 100 / most, deepest * 100 / spec.hops[0].limits.k_max.get())
}

#[test]
fn a_bottleneck_is_used_and_its_queue_bounded_once_converged() {
    let [ours, cnps] = [Kind::LongHaul, Kind::Ecn].map(|kind| {
        let paths: Vec<_> = seeds(40).map(|seed| bottleneck(seed, kind)).collect();
        let runs: Vec<_> = paths.iter().map(converged).collect();
        let deepest = runs.iter().map(|(_, depth)| *depth).max().unwrap();
        let used = |of: &dyn Fn(&PathSpec) -> bool| {
            let mut used: Vec<_> = paths.iter().zip(&runs).filter(|(path, _)| of(path)).map(|(_, run)| run.0).collect();
            used.sort_unstable();
            used
        };
        let (all, long) = (used(&|_| true), used(&|path| path.rtt_ns() >= THREE_SAMPLES));
        let of_kind = Used { least: all[0], least_long: long[0], median: all[all.len() / 2], deepest };
        println!("{kind:?}: {of_kind:?}");
        of_kind
    });
    assert!(ours.least >= 78 && ours.least_long >= 79 && ours.median >= 88, "{ours:?}");
    assert!(ours.deepest < 150, "{ours:?}");
    assert!(cnps.median <= 80 && ours.median > cnps.median, "CNPs alone are as good: {cnps:?}");
}

/// How much of a bottleneck the paths of one kind use, in percent: at least, with an RTT of three samples and more, and at the median; the deepest queue, in percent of K_max.
#[derive(Debug)]
struct Used {
    least: u64,
    least_long: u64,
    median: u64,
    deepest: u64,
}
