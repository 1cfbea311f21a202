// SPDX-License-Identifier: Apache-2.0

use canopy_host_core::pacing::Issuer;
use canopy_model::instruction::Percent;

use super::*;

const RTT: u64 = 10_000_000;
const LINE: u64 = 100_000;

/// A time of a test, in nanoseconds.
fn instant(ns: u64) -> Monotonic {
    Monotonic::from_nanos(ns)
}

/// The same for a span.
fn span(ns: u64) -> Duration {
    Duration::from_nanos(ns)
}

fn node() -> Ipv6Addr {
    "fcff::1".parse().unwrap()
}

fn qpn(n: u64) -> Qpn {
    Qpn::new("qpn", n).unwrap()
}

fn flow(dest: u32) -> Flow {
    Flow { peer: "fd00::2".parse().unwrap(), qpn: dest }
}

fn open(n: u64, dest: u32) -> Open {
    Open { qpn: qpn(n), flow: flow(dest), line: None, min: None, rtt: None }
}

fn engine() -> Engine {
    let mut engine = Engine::new(Defaults { line: Rate::from_bps(LINE), min: Rate::from_bps(1_000), rtt: span(RTT) });
    engine.set_nodes(BTreeSet::from([node()]), instant(0)).unwrap();
    engine.open(open(17, 113), Origin::Registered, instant(0)).unwrap();
    assert_eq!(causes(&mut engine), [(Cause::Open, LINE)]);
    engine
}

fn causes(engine: &mut Engine) -> Vec<(Cause, u64)> {
    std::iter::from_fn(|| engine.next_change()).map(|c| (c.cause, c.live.command.rate.bps())).collect()
}

fn from_node(action: Action) -> Result<Notification, (Format, Invalid)> {
    let content = Content::LongHaul { action, timestamp: None };
    Ok(Notification { from: node(), qpn: 17, format: Format::Icmpv6, content })
}

fn reduce(percent: u8) -> Result<Notification, (Format, Invalid)> {
    from_node(Action::RateReduce(Percent::new(percent).unwrap()))
}

#[test]
fn every_change_has_its_cause_and_receive_time() {
    let mut engine = engine();
    engine.receive(reduce(30), instant(5), instant(7));
    let change = engine.next_change().unwrap();
    assert_eq!(
        (change.cause, change.received_at, change.live.command.rate.bps()),
        (Cause::Reduce, Some(instant(5)), 70_000)
    );
    assert_eq!(change.live.command.limited_by, Some(Issuer::Node(node())));
    engine.receive(from_node(Action::Pause { micros: 1_000 }), instant(8), instant(9));
    assert_eq!(causes(&mut engine), [(Cause::Pause, 70_000)]);
    engine.timeout(instant(9 + 1_000_000));
    assert_eq!(causes(&mut engine), [(Cause::PauseEnd, 70_000)]);
    // Changes by timers in between come first, with their own cause.
    engine.receive(reduce(50), instant(0), instant(9 + 2 * RTT + 1));
    assert_eq!(causes(&mut engine), [(Cause::Increase, 75_000), (Cause::Reduce, 37_500)]);
    assert_eq!((engine.tally.outcome("applied"), engine.tally.outcome("pauses")), (3, 1));
}

#[test]
fn what_changes_nothing_is_counted_by_its_reason() {
    let mut engine = engine();
    engine.receive(Err((Format::Rocev2, Invalid::Icrc)), instant(0), instant(1));
    let Ok(good) = reduce(30) else { panic!() };
    engine.receive(Ok(Notification { from: Ipv6Addr::LOCALHOST, ..good }), instant(0), instant(1));
    // QPN 1 is not a valid QP; the issuer is checked before that.
    engine.receive(Ok(Notification { qpn: 1, ..good }), instant(0), instant(1));
    engine.receive(Ok(Notification { qpn: 1, from: Ipv6Addr::LOCALHOST, ..good }), instant(0), instant(1));
    engine.receive(Ok(Notification { qpn: 18, ..good }), instant(0), instant(1));
    assert_eq!(causes(&mut engine), []);
    let count = |name| engine.tally.outcome(name);
    assert_eq!((count("icrc"), count("unknown_issuer"), count("unknown_qp"), count("applied")), (1, 2, 2, 0));
}

#[test]
fn opening_again_keeps_what_was_asked_for_unless_the_flow_is_another() {
    let mut engine = engine();
    engine.receive(reduce(30), instant(0), instant(1));
    assert_eq!(causes(&mut engine).len(), 1);
    engine.open(open(17, 113), Origin::Registered, instant(2)).unwrap();
    assert_eq!(causes(&mut engine), [], "the same");
    engine.open(Open { rtt: Some(span(RTT / 2)), ..open(17, 113) }, Origin::Registered, instant(3)).unwrap();
    assert_eq!(causes(&mut engine), [(Cause::Open, 70_000)]);
    engine.open(open(17, 114), Origin::Registered, instant(4)).unwrap();
    assert_eq!(causes(&mut engine), [(Cause::Close, LINE), (Cause::Open, LINE)]);
    assert_eq!((engine.of_flow(flow(113)), engine.of_flow(flow(114))), (None, Some(qpn(17))));
}

#[test]
fn a_registration_wins_over_a_learned_queue_pair() {
    let mut engine = engine();
    let taken = Err(OpenError::FlowTaken(qpn(17)));
    assert_eq!(engine.open(open(18, 113), Origin::Learned, instant(0)), taken);
    assert_eq!(engine.open(open(18, 113), Origin::Registered, instant(0)), taken);
    engine.open(open(19, 115), Origin::Learned, instant(0)).unwrap();
    assert_eq!(causes(&mut engine), [(Cause::Open, LINE)]);
    engine.open(open(20, 115), Origin::Registered, instant(0)).unwrap();
    assert_eq!(causes(&mut engine), [(Cause::Close, LINE), (Cause::Open, LINE)]);
    let bad = Open { min: Some(Rate::from_bps(LINE + 1)), ..open(20, 116) };
    assert_eq!(engine.open(bad, Origin::Registered, instant(0)), Err(OpenError::Refused(Refusal::OutOfRange)));
    assert_eq!(engine.of_flow(flow(115)), Some(qpn(20)), "a refused one changes nothing");
}

#[test]
fn a_given_rtt_stays_and_an_assumed_one_is_measured() {
    let mut engine = engine();
    engine.measured(qpn(17), span(5), instant(0));
    assert_eq!((engine.live()[&qpn(17)].spec.rtt, causes(&mut engine)), (span(5), vec![(Cause::Adjust, LINE)]));
    engine.open(Open { rtt: Some(span(RTT)), ..open(17, 113) }, Origin::Registered, instant(0)).unwrap();
    engine.measured(qpn(17), span(5), instant(0));
    assert_eq!(engine.live()[&qpn(17)].spec.rtt, span(RTT));
}

/// Catches a source's queue pair that an operator closes and that sends at line rate until the agent reports again.
#[test]
fn a_queue_pair_of_the_agent_is_paced_after_an_operator_closes_it() {
    let mut engine = engine();
    let now = instant(1);
    let given = Open { rtt: Some(span(RTT)), line: Some(Rate::from_bps(LINE / 2)), ..open(17, 113) };
    engine.open(given, Origin::Registered, now).unwrap();
    // 18 has the flow of one that the operator registered under another number.
    engine.open(open(30, 118), Origin::Registered, now).unwrap();
    let list = BTreeMap::from([(qpn(17), flow(113)), (qpn(18), flow(118))]);
    assert_eq!(engine.open_of_agent(&list, now), [(qpn(18), OpenError::FlowTaken(qpn(30)))]);
    engine.receive(reduce(50), now, now);
    let rate = |engine: &Engine, n| engine.live().get(&qpn(n)).map(|live| (live.origin, live.command.rate.bps()));
    assert_eq!(rate(&engine, 17), Some((Origin::Registered, LINE / 4)));
    causes(&mut engine);

    assert_eq!(engine.close_registered(qpn(17), now), Closed::Ended);
    assert_eq!(rate(&engine, 17), Some((Origin::Agent, LINE / 4)), "it was released for a moment");
    assert_eq!(causes(&mut engine), [(Cause::Adjust, LINE / 4)]);
    assert_eq!(engine.live()[&qpn(17)].spec.line, Rate::from_bps(LINE), "the operator's limit is gone with it");
    assert_eq!(engine.close_registered(qpn(17), now), Closed::OfAgent);
    assert_eq!((rate(&engine, 17), causes(&mut engine)), (Some((Origin::Agent, LINE / 4)), vec![]));

    assert_eq!(engine.close_registered(qpn(30), now), Closed::Ended);
    assert_eq!(rate(&engine, 18), Some((Origin::Agent, LINE)));
    assert_eq!(engine.close_registered(qpn(30), now), Closed::Unknown);
    // What the agent has no more ends when an operator closes it.
    engine.open(open(18, 118), Origin::Registered, now).unwrap();
    assert_eq!(engine.open_of_agent(&BTreeMap::new(), now), []);
    assert_eq!(engine.close_registered(qpn(18), now), Closed::Ended);
    assert!(engine.live().is_empty());
}

/// Catches the queue pair of a source that has left, or joined again with another, and one that an operator registered and the agent changes.
#[test]
fn queue_pairs_of_the_agent_come_and_go_with_its_list() {
    let mut engine = engine();
    let now = instant(1);
    let origins = |engine: &Engine| {
        let all = engine.live().iter().map(|(qpn, live)| (qpn.get(), live.flow.qpn, live.origin));
        all.collect::<Vec<_>>()
    };
    let registered = (17, 113, Origin::Registered);
    engine.open(open(30, 300), Origin::Learned, now).unwrap();
    let list = |of: &[(u64, u32)]| of.iter().map(|(n, dest)| (qpn(*n), flow(*dest))).collect::<BTreeMap<_, _>>();
    // 17 is an operator's, 113 its flow, and 300 was learned for another queue pair.
    let refused = engine.open_of_agent(&list(&[(17, 114), (18, 113), (19, 200), (20, 300)]), now);
    assert_eq!(refused, [(qpn(18), OpenError::FlowTaken(qpn(17)))]);
    assert_eq!(origins(&engine), [registered, (19, 200, Origin::Agent), (20, 300, Origin::Agent)]);
    // The first begins another session, and the second leaves.
    assert_eq!(engine.open_of_agent(&list(&[(19, 201)]), now), []);
    assert_eq!(origins(&engine), [registered, (19, 201, Origin::Agent)]);
    // What it has for a flow moves to another queue pair.
    engine.open_of_agent(&list(&[(21, 201)]), now);
    assert_eq!(origins(&engine), [registered, (21, 201, Origin::Agent)]);
    // An operator takes it over.
    engine.open(open(21, 201), Origin::Registered, now).unwrap();
    engine.open_of_agent(&list(&[]), now);
    assert_eq!(origins(&engine), [registered, (21, 201, Origin::Registered)]);
}
