// SPDX-License-Identifier: Apache-2.0
//! Section 8: nodes and sources that never heard of Long-haul CNPs are on the path.

use crate::fluid::MS;
use crate::spec::{Hears, HopSpec, Kind, PathSpec, SourceSpec};
use crate::world::World;

const GBPS: u64 = 1_000_000_000;
const RTT: u64 = 20 * MS;
const LENGTH: u64 = 60 * RTT;

/// Two sources of 10 Gb/s, and three nodes of which the second is the tightest.
fn path(kinds: [Kind; 3], hears: [Hears; 2]) -> PathSpec {
    let rates = [16, 12, 14];
    let hops = kinds.iter().zip(rates).map(|(kind, rate)| HopSpec { kind: *kind, ..HopSpec::new(rate * GBPS, RTT) });
    let sources = hears.map(|hears| SourceSpec { hears, ..SourceSpec::new(10 * GBPS, RTT) });
    PathSpec {
        sources: sources.into(),
        hops: hops.collect(),
        delays_ns: vec![MS, 4 * MS, 2 * MS, 3 * MS],
        cnp_interval_ns: MS / 20,
    }
}

const KINDS: [Kind; 3] = [Kind::LongHaul, Kind::Ecn, Kind::Plain];

#[test]
fn whatever_mixture_of_nodes_and_sources_the_queues_stay_bounded() {
    let mut deepest = 0;
    let mut least = u64::MAX;
    for first in KINDS {
        for second in [Kind::LongHaul, Kind::Ecn] {
            for third in KINDS {
                for hears in [[Hears::Everything; 2], [Hears::Everything, Hears::Cnps], [Hears::Cnps; 2]] {
                    let spec = path([first, second, third], hears);
                    let world = World::run(&spec, LENGTH);
                    let name = format!("{first:?} {second:?} {third:?} {hears:?}");
                    let plain = |hop: usize| spec.hops[hop].kind != Kind::LongHaul;
                    assert!(world.record.told.iter().all(|t| !plain(t.hop)), "{name}");
                    let half = world.record.depths.len() / 2;
                    for hop in 0..3 {
                        let depth = world.record.depths[half..].iter().map(|d| d[hop]).max().unwrap();
                        assert_eq!(world.hops[hop].dropped, 0, "{name}");
                        let of_k_max = depth * 100 / spec.hops[hop].limits.k_max_bytes;
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
    let course = |kinds, hears| {
        let world = World::run(&path(kinds, hears), LENGTH);
        let heard: Vec<_> = world.record.heard.iter().filter(|h| h.outcome.is_some()).copied().collect();
        (world.record.depths, world.record.rates, world.record.carried, heard, world.receiver.received)
    };
    let pure = course([Kind::Ecn; 3], [Hears::Cnps; 2]);
    assert!(!pure.3.is_empty() && pure.1.iter().any(|rates| rates[0] < 10 * GBPS), "there is congestion");
    assert!(course([Kind::Ecn; 3], [Hears::Everything; 2]) == pure, "sources that support it, on a path that does not");
    assert!(course([Kind::LongHaul; 3], [Hears::Cnps; 2]) == pure, "plain sources on a path that supports it");
    assert!(course([Kind::LongHaul; 3], [Hears::Everything; 2]) != pure, "and if both do, it is another");
}
