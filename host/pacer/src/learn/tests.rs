// SPDX-License-Identifier: Apache-2.0

use std::collections::BTreeSet;

use canopy_units::Rate;

use super::*;
use crate::engine::Defaults;

const RULES: Rules = Rules { idle: Duration::from_micros(1), measure_rtt: true };

/// A time of a test, in nanoseconds.
fn instant(ns: u64) -> Monotonic {
    Monotonic::from_nanos(ns)
}

/// The same for a span.
fn span(ns: u64) -> Duration {
    Duration::from_nanos(ns)
}

fn flow(peer: u16, qpn: u32) -> Flow {
    Flow { peer: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, peer), qpn }
}

fn seen(first_ns: u64, last_ns: u64) -> Seen {
    Seen { first: instant(first_ns), last: instant(last_ns), rtt: None }
}

fn sighted(flows: &[(Flow, Seen)], answers: &[(Flow, Seen)]) -> Sighted {
    Sighted { flows: flows.iter().copied().collect(), answers: answers.iter().copied().collect() }
}

fn engine() -> Engine {
    Engine::new(Defaults { line: Rate::from_bps(1_000), min: Rate::from_bps(1), rtt: span(10_000_000) })
}

fn known(engine: &Engine) -> BTreeSet<(u32, Flow)> {
    engine.live().iter().map(|(qpn, live)| (qpn.get(), live.flow)).collect()
}

#[test]
fn one_flow_and_one_answered_qp_belong_together_for_each_peer() {
    let mut engine = engine();
    let flows = [(flow(1, 70), seen(0, 10)), (flow(2, 71), seen(0, 10))];
    let answers = [(flow(1, 17), seen(5, 10)), (flow(2, 18), seen(5, 10))];
    learn(&mut engine, &sighted(&flows, &answers), RULES, instant(20));
    assert_eq!(known(&engine), BTreeSet::from([(17, flow(1, 70)), (18, flow(2, 71))]));
    assert!(engine.live().values().all(|live| live.origin == Origin::Learned));
}

#[test]
fn an_ambiguous_pair_is_not_learned() {
    let (one, other) = ((flow(1, 70), seen(0, 10)), (flow(1, 71), seen(0, 10)));
    let (answer, more) = ((flow(1, 17), seen(5, 10)), (flow(1, 18), seen(5, 10)));
    for (flows, answers) in [
        (vec![one, other], vec![answer]),
        (vec![one], vec![answer, more]),
        (vec![one], vec![]),
        (vec![], vec![answer]),
        (vec![one], vec![(flow(2, 17), seen(5, 10))]),
        (vec![(flow(1, 70), seen(8, 10))], vec![(flow(1, 17), seen(5, 7))]),
        (vec![one], vec![(flow(1, 1), seen(5, 10))]),
    ] {
        let mut engine = engine();
        learn(&mut engine, &sighted(&flows, &answers), RULES, instant(20));
        assert_eq!(known(&engine), BTreeSet::new(), "{flows:?} {answers:?}");
    }
}

#[test]
fn an_idle_learned_queue_pair_is_removed_and_a_registered_one_is_not() {
    let mut engine = engine();
    let registered = Open { qpn: Qpn::new("qpn", 30).unwrap(), flow: flow(3, 80), line: None, min: None, rtt: None };
    engine.open(registered, Origin::Registered, instant(0)).unwrap();
    let flows = [(flow(1, 70), seen(0, 10))];
    let answers = [(flow(1, 17), seen(5, 500))];
    learn(&mut engine, &sighted(&flows, &answers), RULES, instant(20));
    learn(&mut engine, &sighted(&flows, &answers), RULES, instant(1_499));
    assert_eq!(known(&engine).len(), 2, "the answers continue");
    learn(&mut engine, &sighted(&flows, &answers), RULES, instant(1_500));
    assert_eq!(known(&engine), BTreeSet::from([(30, flow(3, 80))]));
}

#[test]
fn an_rtt_counts_when_it_is_the_first_or_a_tenth_off() {
    let mut engine = engine();
    let measured = |engine: &mut Engine, rtt| {
        let flows = [(flow(1, 70), seen(0, 10))];
        let answers = [(flow(1, 17), Seen { rtt: Some(span(rtt)), ..seen(5, 10) })];
        learn(engine, &sighted(&flows, &answers), RULES, instant(20));
        engine.live().values().map(|live| nanos(live.spec.rtt)).collect::<Vec<_>>()
    };
    assert_eq!(measured(&mut engine, 10_500_000), [10_500_000], "as good as assumed, but measured");
    assert_eq!(measured(&mut engine, 11_000_000), [10_500_000]);
    assert_eq!(measured(&mut engine, 12_000_000), [12_000_000]);
    assert_eq!(measured(&mut engine, 5), [nanos(LEAST_RTT)]);
}
