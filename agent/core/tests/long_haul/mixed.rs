// SPDX-License-Identifier: Apache-2.0
//! Section 8: paths with nodes and sources that do not support Long-haul CNP.

use crate::fluid::MS;
use crate::spec::{Accepts, HopSpec, Kind, PathSpec, SourceSpec};
use crate::world::World;

const GBPS: u64 = 1_000_000_000;
const RTT: u64 = 20 * MS;
const LENGTH: u64 = 60 * RTT;

/// Two sources of 10 Gb/s, and three nodes of which the second has the lowest rate.
fn path(kinds: [Kind; 3], accepts: [Accepts; 2]) -> PathSpec {
    let rates = [16, 12, 14];
    let hops = kinds.iter().zip(rates).map(|(kind, rate)| HopSpec { kind: *kind, ..HopSpec::new(rate * GBPS, RTT) });
    let sources = accepts.map(|accepts| SourceSpec { accepts, ..SourceSpec::new(10 * GBPS, RTT) });
    PathSpec {
        sources: sources.into(),
        hops: hops.collect(),
        delays_ns: vec![MS, 4 * MS, 2 * MS, 3 * MS],
        cnp_interval_ns: MS / 20,
    }
}

const KINDS: [Kind; 3] = [Kind::LongHaul, Kind::Ecn, Kind::Plain];

#[test]
fn with_any_mixture_of_nodes_and_sources_the_queues_stay_bounded() {
    let mut deepest = 0;
    let mut least = u64::MAX;
    for first in KINDS {
        for second in [Kind::LongHaul, Kind::Ecn] {
            for third in KINDS {
                for accepts in [[Accepts::Everything; 2], [Accepts::Everything, Accepts::Cnps], [Accepts::Cnps; 2]] {
                    let spec = path([first, second, third], accepts);
                    let world = World::run(&spec, LENGTH);
                    let name = format!("{first:?} {second:?} {third:?} {accepts:?}");
                    let plain = |hop: usize| spec.hops[hop].kind != Kind::LongHaul;
                    assert!(world.record.sent.iter().all(|t| !plain(t.hop)), "{name}");
                    let half = world.record.depths.len() / 2;
                    for hop in 0..3 {
                        let depth = world.record.depths[half..].iter().map(|d| d[hop]).max().unwrap();
                        assert_eq!(world.hops[hop].dropped, 0, "{name}");
                        let of_k_max = depth * 100 / spec.hops[hop].limits.k_max.get();
                        assert!(of_k_max < 200, "{name}: node {hop} at {of_k_max} % of K_max");
                        deepest = deepest.max(of_k_max);
                    }
                    let carried = world.record.carried.last().unwrap()[1] - world.record.carried[half][1];
                    let used = carried * 8_000 / ((world.record.carried.len() - 1 - half) as u64 * 12 * (GBPS / 100));
                    let received = &world.receiver.received;
                    let share = received[0].min(received[1]) * 100 / (received[0] + received[1]);
                    assert!(used >= 70 && share >= 40, "{name}: used {used} %, the smaller share {share} %");
                    least = least.min(used);
                }
            }
        }
    }
    println!("mixed paths: deepest queue {deepest} % of K_max, least use {least} %");
}

/// The same octets at the same times.
#[test]
fn all_plain_is_ecn_and_cnps_byte_for_byte() {
    let course = |kinds, accepts| {
        let world = World::run(&path(kinds, accepts), LENGTH);
        let received: Vec<_> = world.record.received.iter().filter(|h| h.outcome.is_some()).copied().collect();
        (world.record.depths, world.record.rates, world.record.carried, received, world.receiver.received)
    };
    let pure = course([Kind::Ecn; 3], [Accepts::Cnps; 2]);
    assert!(!pure.3.is_empty() && pure.1.iter().any(|rates| rates[0] < 10 * GBPS), "there is congestion");
    assert!(course([Kind::Ecn; 3], [Accepts::Everything; 2]) == pure, "sources with support, on a path without");
    assert!(course([Kind::LongHaul; 3], [Accepts::Cnps; 2]) == pure, "sources without support, on a path with it");
    assert!(course([Kind::LongHaul; 3], [Accepts::Everything; 2]) != pure, "with support on both, the run differs");
}
