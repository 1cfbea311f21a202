// SPDX-License-Identifier: Apache-2.0

use super::*;

mod random;
mod table;

const MS: u64 = 1_000_000;
const RTT: u64 = 10 * MS;
const LINE: u64 = 100_000;
const MIN: u64 = 1_000;

/// A time of a test, in nanoseconds.
fn instant(ns: u64) -> Monotonic {
    Monotonic::from_nanos(ns)
}

/// The same for a span.
fn span(ns: u64) -> Duration {
    Duration::from_nanos(ns)
}

fn qp(n: u64) -> Qpn {
    Qpn::new("qp", n).unwrap()
}

fn node(n: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfcff, 0, 0, n, 0, 0, 0, 1)
}

fn peer() -> Ipv6Addr {
    "fcfe::1".parse().unwrap()
}

fn percent(value: u8) -> Percent {
    Percent::new(value).unwrap()
}

fn long_haul(n: u16, action: Action) -> Input {
    Input::LongHaul { from: node(n), qp: qp(100), action, timestamp: None }
}

fn cut(n: u16, by: u8) -> Input {
    long_haul(n, Action::RateReduce(percent(by)))
}

fn resume(n: u16, by: u8) -> Input {
    long_haul(n, Action::Resume(percent(by)))
}

fn pause(n: u16, micros: u16) -> Input {
    long_haul(n, Action::Pause { micros })
}

fn cnp(from: Ipv6Addr) -> Input {
    Input::Cnp { from, qp: qp(100) }
}

/// Nodes 1 to 3 are provisioned, QP 100 is live at 100000 bit/s, RTT 10 ms.
fn source() -> Pacing {
    let mut source = Pacing::new(Settings::default());
    assert_eq!(source.handle(Input::Nodes([1, 2, 3].map(node).into()), instant(0)), Outcome::Applied);
    let spec = QpSpec { peer: peer(), line: Rate::from_bps(LINE), min: Rate::from_bps(MIN), rtt: span(RTT) };
    assert_eq!(source.handle(Input::Open(qp(100), spec), instant(0)), Outcome::Applied);
    assert_eq!(source.next_command().map(|c| c.rate.bps()), Some(LINE));
    assert_eq!(source.next_command(), None);
    source
}

fn now(source: &Pacing) -> Command {
    source.state(qp(100)).unwrap()
}

#[test]
fn an_unknown_issuer_leaves_no_state() {
    let mut source = source();
    let before = format!("{:?}", source.qps);
    let refused = Outcome::Refused(Refusal::UnknownIssuer);
    for unknown in [cut(9, 100), pause(9, u16::MAX), resume(9, 0), cnp(node(9))] {
        assert_eq!(source.handle(unknown, instant(RTT)), refused);
    }
    let of_peer = Input::LongHaul { from: peer(), qp: qp(100), action: Action::Pause { micros: 9 }, timestamp: None };
    assert_eq!(source.handle(of_peer, instant(RTT)), refused, "a peer may send CNPs only");
    let elsewhere = Input::LongHaul { from: node(1), qp: qp(7), action: Action::Notify, timestamp: None };
    assert_eq!(source.handle(elsewhere, instant(RTT)), Outcome::Refused(Refusal::UnknownQp));
    assert_eq!(
        source.handle(Input::Cnp { from: peer(), qp: qp(7) }, instant(RTT)),
        Outcome::Refused(Refusal::UnknownQp)
    );
    assert_eq!((format!("{:?}", source.qps), source.next_command(), source.poll_timeout()), (before, None, None));
}

#[test]
fn provisioning_is_limited() {
    let mut source = source();
    let many = (0..=MAX_NODES as u128).map(Ipv6Addr::from_bits).collect();
    assert_eq!(source.handle(Input::Nodes(many), instant(0)), Outcome::Refused(Refusal::TooMany));
    assert_eq!(source.handle(cut(1, 30), instant(0)), Outcome::Applied, "the old nodes stay");
    let spec = QpSpec { peer: peer(), line: Rate::from_bps(LINE), min: Rate::from_bps(MIN), rtt: span(RTT) };
    for bad in [
        QpSpec { min: Rate::ZERO, ..spec },
        QpSpec { min: Rate::from_bps(LINE + 1), ..spec },
        QpSpec { rtt: Duration::ZERO, ..spec },
        QpSpec { line: Rate::from_bps(0), ..spec },
    ] {
        assert_eq!(source.handle(Input::Open(qp(8), bad), instant(0)), Outcome::Refused(Refusal::OutOfRange));
    }
    let opened = (1_000..).take(MAX_QPS).map(|n| source.handle(Input::Open(qp(n), spec), instant(0)));
    assert_eq!(opened.filter(|o| *o == Outcome::Applied).count(), MAX_QPS - 1);
    assert_eq!(source.handle(Input::Open(qp(5), spec), instant(0)), Outcome::Refused(Refusal::TooMany));
    assert_eq!(source.handle(Input::Open(qp(100), spec), instant(0)), Outcome::Applied, "an open QP may change");
    assert_eq!(source.handle(Input::Close(qp(1_000)), instant(0)), Outcome::Applied);
    assert_eq!(source.handle(Input::Open(qp(5), spec), instant(0)), Outcome::Applied);
}

/// The issuer sends Pause and fails.
#[test]
fn a_pause_expires_and_a_command_ends_it() {
    let mut source = source();
    assert_eq!(source.handle(pause(1, 5_000), instant(RTT)), Outcome::Applied);
    let command = source.next_command().unwrap();
    assert_eq!((command.paused_until, command.rate.bps()), (Some(instant(RTT + 5 * MS)), LINE));
    assert_eq!(source.poll_timeout(), Some(instant(RTT + 5 * MS)));
    source.handle_timeout(instant(RTT + 5 * MS - 1));
    assert_eq!(source.next_command(), None);
    source.handle_timeout(instant(RTT + 5 * MS));
    assert_eq!(source.next_command().unwrap().paused_until, None);
    assert_eq!((source.poll_timeout(), source.next_command()), (None, None));
}

/// 100 ms at once, then a quarter of the time; a pause beyond the budget becomes a reduction.
#[test]
fn pauses_draw_on_a_budget() {
    let mut source = source();
    assert_eq!(source.handle(pause(1, 60_000), instant(0)), Outcome::Applied);
    assert_eq!(source.handle(pause(2, 60_000), instant(0)), Outcome::Absorbed, "overlapping pauses are charged once");
    assert_eq!(now(&source).rate.bps(), LINE);
    let at = 60 * MS;
    // 40 ms are left, and 15 ms were earned.
    assert_eq!(source.handle(pause(1, 60_000), instant(at)), Outcome::Applied);
    assert_eq!(now(&source).paused_until, Some(instant(at + 55 * MS)));
    assert_eq!(now(&source).rate.bps(), LINE - LINE / 4, "the rest became the default reduction");
    let at = at + 55 * MS;
    assert_eq!(source.handle(pause(1, 60_000), instant(at)), Outcome::Applied);
    assert_eq!(now(&source).paused_until, Some(instant(at + 13_750_000)), "a quarter of 55 ms");
}

/// A lost Resume: two RTTs without an instruction, then 5 % of the line rate per RTT.
#[test]
fn without_instructions_the_rate_increases_additively_to_line_rate() {
    let mut source = source();
    source.handle(cut(1, 30), instant(0));
    assert_eq!(source.poll_timeout(), Some(instant(2 * RTT)));
    let mut rates = Vec::new();
    while let Some(at) = source.poll_timeout() {
        source.handle_timeout(instant(at.nanos() - 1));
        let before = now(&source).rate.bps();
        source.handle_timeout(at);
        rates.push((at.nanos() / RTT, before, now(&source).rate.bps()));
    }
    let expected = (0..6).map(|n| (2 + n, 70_000 + 5_000 * n, 75_000 + 5_000 * n)).collect::<Vec<_>>();
    assert_eq!(rates, expected);
    assert_eq!(now(&source).limited_by, None);
    assert!(source.qps[&qp(100)].timer().is_none() && format!("{:?}", source.qps).contains("ledger: {}"));
}

#[test]
fn an_instruction_delays_the_increase_and_a_resume_without_effect_does_not() {
    let mut source = source();
    source.handle(cut(1, 30), instant(0));
    source.handle(cut(1, 30), instant(RTT - 1));
    assert_eq!(
        source.poll_timeout(),
        Some(instant(3 * RTT - 1)),
        "an absorbed reduction shows that congestion continues"
    );
    assert_eq!(source.handle(resume(1, 50), instant(2 * RTT)), Outcome::Applied);
    assert_eq!(source.poll_timeout(), Some(instant(4 * RTT)));
    assert_eq!(source.handle(resume(1, 50), instant(3 * RTT)), Outcome::Absorbed);
    assert_eq!(source.handle(resume(2, 0), instant(3 * RTT)), Outcome::Absorbed);
    assert_eq!(source.poll_timeout(), Some(instant(4 * RTT)));
}

#[test]
fn removed_nodes_are_refused_and_their_reductions_expire() {
    let mut source = source();
    source.handle(cut(1, 30), instant(0));
    source.handle(Input::Nodes([2].map(node).into()), instant(1));
    assert_eq!(source.handle(resume(1, 0), instant(2 * RTT - 1)), Outcome::Refused(Refusal::UnknownIssuer));
    assert_eq!(now(&source).rate.bps(), 70_000);
    while let Some(at) = source.poll_timeout() {
        source.handle_timeout(at);
    }
    assert_eq!(now(&source).rate.bps(), LINE);
}

#[test]
fn a_closed_qp_leaves_no_state_and_a_reopened_one_starts_anew() {
    let mut source = source();
    source.handle(cut(1, 30), instant(0));
    source.handle(pause(1, 9_000), instant(0));
    assert_eq!(source.handle(Input::Close(qp(100)), instant(1)), Outcome::Applied);
    assert_eq!(source.handle(Input::Close(qp(100)), instant(1)), Outcome::Refused(Refusal::UnknownQp));
    assert_eq!((source.poll_timeout(), source.next_command(), source.state(qp(100))), (None, None, None));
    let spec = QpSpec { peer: peer(), line: Rate::from_bps(LINE), min: Rate::from_bps(MIN), rtt: span(RTT) };
    source.handle(Input::Open(qp(100), spec), instant(2));
    assert_eq!((now(&source).rate.bps(), now(&source).paused_until), (LINE, None));
    source.handle(cut(1, 30), instant(3));
    source.handle(Input::Open(qp(100), QpSpec { line: Rate::from_bps(50_000), ..spec }), instant(4));
    assert_eq!(
        (now(&source).rate.bps(), now(&source).limited_by),
        (50_000, None),
        "the cap is above the new line rate"
    );
    source.handle(Input::Open(qp(100), QpSpec { line: Rate::from_bps(200_000), ..spec }), instant(5));
    assert_eq!(now(&source).rate.bps(), 200_000);
}
