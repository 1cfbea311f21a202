// SPDX-License-Identifier: Apache-2.0
//! Section 5.7: upstream control fails, and the node downstream escalates.

use canopy_agent_core::congestion::Action;

use crate::fluid::MS;
use crate::host::Word;
use crate::record::Told;
use crate::spec::{Burst, Hears, HopSpec, PathSpec, SourceSpec};
use crate::world::World;

const GBPS: u64 = 1_000_000_000;

/// Pause is stricter than Rate Reduce, and that is than Notify.
fn strictness(action: Action) -> u8 {
    match action {
        Action::Resume(_) => 0,
        Action::Notify => 1,
        Action::RateReduce(by) => 1 + by.get(),
        Action::Pause { .. } => 102,
    }
}

/// One-way delays in tenths of a millisecond: to the first node, the second, the third, the receiver.
fn sweep() -> impl Iterator<Item = (Vec<u64>, u64)> {
    let splits = [[1, 1, 1, 1], [0, 1, 4, 1], [4, 1, 0, 1], [1, 4, 1, 0], [0, 0, 1, 5]];
    let delays = [10, 25, 50, 100, 200, 400_u64];
    let all = splits.into_iter().flat_map(move |split| delays.map(|ms10| (split, ms10)));
    all.map(|(split, ms10)| {
        let parts = split.iter().sum::<u64>();
        let delays_ns: Vec<_> = split.iter().map(|part| (ms10 * part / parts).max(1) * (MS / 10)).collect();
        let rtt_ns = 2 * delays_ns.iter().sum::<u64>();
        (delays_ns, rtt_ns)
    })
}

/// 10 Gb/s of a source, a receiver that echoes nothing, and background at the nodes from those times on.
fn path(delays_ns: &[u64], rtt_ns: u64, background: [(u64, u64); 3]) -> PathSpec {
    let hops = background.map(|(rate_bps, from_ns)| {
        let mut hop = HopSpec::new(10 * GBPS, rtt_ns.max(2 * MS));
        hop.bursts = vec![Burst { rate_bps, from_ns, until_ns: u64::MAX }];
        hop
    });
    let source = SourceSpec::new(10 * GBPS, rtt_ns.max(2 * MS));
    PathSpec { sources: vec![source], hops: hops.into(), delays_ns: delays_ns.to_vec(), cnp_interval_ns: 0 }
}

fn escalation(world: &World, hop: usize) -> Option<Told> {
    world.record.told.iter().find(|t| t.hop == hop && t.escalated).copied()
}

/// The first node complains, and nobody hears it: what it says is lost, or goes to a wrong source. The second or third sees
/// packets that came in marked, and its own queue grow.
#[test]
fn a_node_downstream_escalates_within_two_rtts_when_the_first_is_not_heard() {
    let mut most = 0;
    for (delays_ns, rtt) in sweep() {
        for second in [1, 2] {
            // Marks of the first node come through after half an RTT in its queue.
            let late = 10 * MS + 4 * rtt;
            let mut background = [(3 * GBPS, 10 * MS), (0, 0), (0, 0)];
            background[second] = (6 * GBPS, late);
            let mut spec = path(&delays_ns, rtt, background);
            spec.hops[0].unheard = true;
            let est = spec.hops[0].limits.rtt_ns;
            let world = World::run(&spec, late + 12 * est);
            let first = world.record.told.iter().find(|t| t.hop == 0 && t.asks()).unwrap();
            let there_and_back = 2 * delays_ns[0] + delays_ns[1..=second].iter().sum::<u64>();
            let congested = (0..world.record.depths.len())
                .find(|ms| world.record.depths[*ms][second] > spec.hops[second].limits.k_min_bytes)
                .map(|ms| (ms as u64 + 1) * MS);
            // When the first node's control should have worked, and there was something to work against.
            let due = (first.at_ns + there_and_back).max(congested.unwrap());
            let said: Vec<_> = world.record.told.iter().filter(|t| t.hop == second && t.asks()).collect();
            let told = escalation(&world, second).unwrap_or_else(|| panic!("{delays_ns:?} {second}: {said:?}"));
            assert_eq!(said[0].at_ns, told.at_ns, "it was silent before: {delays_ns:?} {said:?}");
            let took = told.at_ns.saturating_sub(due);
            assert!(took <= 2 * est + 2 * MS, "{delays_ns:?} node {second}: {} us of {est}", took / 1_000);
            assert!(
                told.level > first.level && strictness(told.action) > strictness(first.action),
                "{told:?} {first:?}"
            );
            let heard = world.record.heard.iter().find(|h| h.word == Word::Node(second, told.action)).unwrap();
            assert_eq!(heard.at_ns, told.at_ns + delays_ns[..=second].iter().sum::<u64>());
            most = most.max(if est >= 10 * MS { took * 100 / est } else { 0 });
        }
    }
    println!("the first node unheard: escalation after at most {most} hundredths of RTT_est");
}

/// The rate of a source that obeys nobody dips for an RTT, and a queue grows on.
#[test]
fn a_node_escalates_within_two_rtts_when_a_fall_does_not_last() {
    let mut most = 0;
    for (delays_ns, rtt) in sweep() {
        for phase in 0..8 {
            let start = 10 * MS;
            let mut spec = path(&delays_ns, rtt, [(0, 0), (6 * GBPS, start), (0, 0)]);
            let est = spec.hops[1].limits.rtt_ns;
            let dip = start + est * 5 / 4 + phase * est / 8 + 4 * MS;
            spec.sources[0].hears = Hears::Nothing;
            spec.sources[0].dip_ns = (dip, dip + est * 3 / 4);
            let world = World::run(&spec, dip + 6 * est);
            let due = dip + delays_ns[..=1].iter().sum::<u64>();
            let told = |from: u64, until: u64| {
                let said = world.record.told.iter().filter(move |t| t.hop == 1 && t.asks());
                said.filter(move |t| (from..until).contains(&t.at_ns))
            };
            let last = told(0, due).next_back().unwrap();
            // Where an RTT_est is two readings long, a fall may be over before the node may speak again.
            let stricter = |t: &&Told| t.escalated || est < 5 * MS && strictness(t.action) >= strictness(last.action);
            let next = told(due, u64::MAX).find(stricter);
            let next = next.unwrap_or_else(|| panic!("{delays_ns:?} {phase}: {:?}", world.record.told));
            let took = next.at_ns - due;
            assert!(took <= 2 * est + 2 * MS, "{delays_ns:?} {phase}: {} us of {est}", took / 1_000);
            assert!(
                next.level >= last.level && strictness(next.action) >= strictness(last.action),
                "{last:?} {next:?}"
            );
            assert!(next.level == u8::MAX || next.level > last.level, "{last:?} {next:?}");
            most = most.max(if est >= 10 * MS { took * 100 / est } else { 0 });
        }
    }
    println!("a fall that did not last: escalation after at most {most} hundredths of RTT_est");
}
