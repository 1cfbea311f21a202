// SPDX-License-Identifier: Apache-2.0
//! Section 5.7: control by a node upstream fails, and a node downstream escalates.

use canopy_agent_core::congestion::Action;
use canopy_units::nanos;

use crate::fluid::MS;
use crate::host::Message;
use crate::record::Instruction;
use crate::spec::{Accepts, Burst, HopSpec, PathSpec, SourceSpec};
use crate::world::World;

const GBPS: u64 = 1_000_000_000;

/// Pause is stricter than Rate Reduce, Rate Reduce than Notify.
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

/// A 10 Gb/s source, a receiver that sends no CNPs, and background traffic at the nodes from the given times on.
fn path(delays_ns: &[u64], rtt_ns: u64, background: [(u64, u64); 3]) -> PathSpec {
    let hops = background.map(|(rate_bps, from_ns)| {
        let mut hop = HopSpec::new(10 * GBPS, rtt_ns.max(2 * MS));
        hop.bursts = vec![Burst { rate_bps, from_ns, until_ns: u64::MAX }];
        hop
    });
    let source = SourceSpec::new(10 * GBPS, rtt_ns.max(2 * MS));
    PathSpec { sources: vec![source], hops: hops.into(), delays_ns: delays_ns.to_vec(), cnp_interval_ns: 0 }
}

fn escalation(world: &World, hop: usize) -> Option<Instruction> {
    world.record.sent.iter().find(|i| i.hop == hop && i.escalated).copied()
}

/// The Long-haul CNPs of the first node are lost or sent to a wrong source. The second or third node receives marked packets
/// while its own queue grows.
#[test]
fn a_node_downstream_escalates_within_two_rtts_when_the_packets_of_the_first_are_lost() {
    let mut most = 0;
    for (delays_ns, rtt) in sweep() {
        for second in [1, 2] {
            // Marks of the first node arrive after half an RTT in its queue.
            let late = 10 * MS + 4 * rtt;
            let mut background = [(3 * GBPS, 10 * MS), (0, 0), (0, 0)];
            background[second] = (6 * GBPS, late);
            let mut spec = path(&delays_ns, rtt, background);
            spec.hops[0].cnps_lost = true;
            let est = nanos(spec.hops[0].limits.rtt);
            let world = World::run(&spec, late + 12 * est);
            let first = world.record.sent.iter().find(|i| i.hop == 0 && i.reduces()).unwrap();
            let there_and_back = 2 * delays_ns[0] + delays_ns[1..=second].iter().sum::<u64>();
            let congested = (0..world.record.depths.len())
                .find(|ms| world.record.depths[*ms][second] > spec.hops[second].limits.k_min.get())
                .map(|ms| (ms as u64 + 1) * MS);
            // When the first node's control should have worked, and the second node was congested.
            let due = (first.at_ns + there_and_back).max(congested.unwrap());
            let sent: Vec<_> = world.record.sent.iter().filter(|i| i.hop == second && i.reduces()).collect();
            let stricter = escalation(&world, second).unwrap_or_else(|| panic!("{delays_ns:?} {second}: {sent:?}"));
            assert_eq!(sent[0].at_ns, stricter.at_ns, "it deferred before: {delays_ns:?} {sent:?}");
            let took = stricter.at_ns.saturating_sub(due);
            assert!(took <= 2 * est + 2 * MS, "{delays_ns:?} node {second}: {} us of {est}", took / 1_000);
            assert!(
                stricter.level > first.level && strictness(stricter.action) > strictness(first.action),
                "{stricter:?} {first:?}"
            );
            let escalated = Message::Node(second, stricter.action);
            let received = world.record.received.iter().find(|r| r.message == escalated).unwrap();
            assert_eq!(received.at_ns, stricter.at_ns + delays_ns[..=second].iter().sum::<u64>());
            most = most.max(if est >= 10 * MS { took * 100 / est } else { 0 });
        }
    }
    println!("packets of the first node lost: escalation after at most {most} hundredths of RTT_est");
}

/// The rate of a source that accepts no messages dips for an RTT, and a queue continues to grow.
#[test]
fn a_node_escalates_within_two_rtts_when_a_fall_does_not_last() {
    let mut most = 0;
    for (delays_ns, rtt) in sweep() {
        for phase in 0..8 {
            let start = 10 * MS;
            let mut spec = path(&delays_ns, rtt, [(0, 0), (6 * GBPS, start), (0, 0)]);
            let est = nanos(spec.hops[1].limits.rtt);
            let dip = start + est * 5 / 4 + phase * est / 8 + 4 * MS;
            spec.sources[0].accepts = Accepts::Nothing;
            spec.sources[0].dip_ns = (dip, dip + est * 3 / 4);
            let world = World::run(&spec, dip + 6 * est);
            let due = dip + delays_ns[..=1].iter().sum::<u64>();
            let sent = |from: u64, until: u64| {
                let reductions = world.record.sent.iter().filter(move |i| i.hop == 1 && i.reduces());
                reductions.filter(move |i| (from..until).contains(&i.at_ns))
            };
            let last = sent(0, due).next_back().unwrap();
            // If RTT_est is two samples long, a fall may have ended before the node may send again.
            let stricter =
                |i: &&Instruction| i.escalated || est < 5 * MS && strictness(i.action) >= strictness(last.action);
            let next = sent(due, u64::MAX).find(stricter);
            let next = next.unwrap_or_else(|| panic!("{delays_ns:?} {phase}: {:?}", world.record.sent));
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
