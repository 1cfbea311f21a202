// SPDX-License-Identifier: Apache-2.0

use super::*;

mod random;
mod table;

const MS: u64 = 1_000_000;
const RTT: u64 = 10 * MS;
const LINE: u64 = 100_000;
const MIN: u64 = 1_000;

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
    assert_eq!(source.handle(Input::Nodes([1, 2, 3].map(node).into()), 0), Outcome::Applied);
    let spec = QpSpec { peer: peer(), line_bps: LINE, min_bps: MIN, rtt_ns: RTT };
    assert_eq!(source.handle(Input::Open(qp(100), spec), 0), Outcome::Applied);
    assert_eq!(source.next_command().map(|c| c.rate_bps), Some(LINE));
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
        assert_eq!(source.handle(unknown, RTT), refused);
    }
    let of_peer = Input::LongHaul { from: peer(), qp: qp(100), action: Action::Pause { micros: 9 }, timestamp: None };
    assert_eq!(source.handle(of_peer, RTT), refused, "a peer may send CNPs only");
    let elsewhere = Input::LongHaul { from: node(1), qp: qp(7), action: Action::Notify, timestamp: None };
    assert_eq!(source.handle(elsewhere, RTT), Outcome::Refused(Refusal::UnknownQp));
    assert_eq!(source.handle(Input::Cnp { from: peer(), qp: qp(7) }, RTT), Outcome::Refused(Refusal::UnknownQp));
    assert_eq!((format!("{:?}", source.qps), source.next_command(), source.poll_timeout()), (before, None, None));
}

#[test]
fn provisioning_is_limited() {
    let mut source = source();
    let many = (0..=MAX_NODES as u128).map(Ipv6Addr::from_bits).collect();
    assert_eq!(source.handle(Input::Nodes(many), 0), Outcome::Refused(Refusal::TooMany));
    assert_eq!(source.handle(cut(1, 30), 0), Outcome::Applied, "the old nodes stay");
    let spec = QpSpec { peer: peer(), line_bps: LINE, min_bps: MIN, rtt_ns: RTT };
    for bad in [
        QpSpec { min_bps: 0, ..spec },
        QpSpec { min_bps: LINE + 1, ..spec },
        QpSpec { rtt_ns: 0, ..spec },
        QpSpec { line_bps: 0, ..spec },
    ] {
        assert_eq!(source.handle(Input::Open(qp(8), bad), 0), Outcome::Refused(Refusal::OutOfRange));
    }
    let opened = (1_000..).take(MAX_QPS).map(|n| source.handle(Input::Open(qp(n), spec), 0));
    assert_eq!(opened.filter(|o| *o == Outcome::Applied).count(), MAX_QPS - 1);
    assert_eq!(source.handle(Input::Open(qp(5), spec), 0), Outcome::Refused(Refusal::TooMany));
    assert_eq!(source.handle(Input::Open(qp(100), spec), 0), Outcome::Applied, "an open QP may change");
    assert_eq!(source.handle(Input::Close(qp(1_000)), 0), Outcome::Applied);
    assert_eq!(source.handle(Input::Open(qp(5), spec), 0), Outcome::Applied);
}

/// The issuer sends Pause and fails.
#[test]
fn a_pause_expires_and_a_command_ends_it() {
    let mut source = source();
    assert_eq!(source.handle(pause(1, 5_000), RTT), Outcome::Applied);
    let command = source.next_command().unwrap();
    assert_eq!((command.paused_until_ns, command.rate_bps), (Some(RTT + 5 * MS), LINE));
    assert_eq!(source.poll_timeout(), Some(RTT + 5 * MS));
    source.handle_timeout(RTT + 5 * MS - 1);
    assert_eq!(source.next_command(), None);
    source.handle_timeout(RTT + 5 * MS);
    assert_eq!(source.next_command().unwrap().paused_until_ns, None);
    assert_eq!((source.poll_timeout(), source.next_command()), (None, None));
}

/// 100 ms at once, then a quarter of the time; a pause beyond the budget becomes a reduction.
#[test]
fn pauses_draw_on_a_budget() {
    let mut source = source();
    assert_eq!(source.handle(pause(1, 60_000), 0), Outcome::Applied);
    assert_eq!(source.handle(pause(2, 60_000), 0), Outcome::Absorbed, "overlapping pauses are charged once");
    assert_eq!(now(&source).rate_bps, LINE);
    let at = 60 * MS;
    // 40 ms are left, and 15 ms were earned.
    assert_eq!(source.handle(pause(1, 60_000), at), Outcome::Applied);
    assert_eq!(now(&source).paused_until_ns, Some(at + 55 * MS));
    assert_eq!(now(&source).rate_bps, LINE - LINE / 4, "the rest became the default reduction");
    let at = at + 55 * MS;
    assert_eq!(source.handle(pause(1, 60_000), at), Outcome::Applied);
    assert_eq!(now(&source).paused_until_ns, Some(at + 13_750_000), "a quarter of 55 ms");
}

/// A lost Resume: two RTTs without an instruction, then 5 % of the line rate per RTT.
#[test]
fn without_instructions_the_rate_increases_additively_to_line_rate() {
    let mut source = source();
    source.handle(cut(1, 30), 0);
    assert_eq!(source.poll_timeout(), Some(2 * RTT));
    let mut rates = Vec::new();
    while let Some(at) = source.poll_timeout() {
        source.handle_timeout(at - 1);
        let before = now(&source).rate_bps;
        source.handle_timeout(at);
        rates.push((at / RTT, before, now(&source).rate_bps));
    }
    let expected = (0..6).map(|n| (2 + n, 70_000 + 5_000 * n, 75_000 + 5_000 * n)).collect::<Vec<_>>();
    assert_eq!(rates, expected);
    assert_eq!(now(&source).limited_by, None);
    assert!(source.qps[&qp(100)].timer().is_none() && format!("{:?}", source.qps).contains("ledger: {}"));
}

#[test]
fn an_instruction_delays_the_increase_and_a_resume_without_effect_does_not() {
    let mut source = source();
    source.handle(cut(1, 30), 0);
    source.handle(cut(1, 30), RTT - 1);
    assert_eq!(source.poll_timeout(), Some(3 * RTT - 1), "an absorbed reduction shows that congestion continues");
    assert_eq!(source.handle(resume(1, 50), 2 * RTT), Outcome::Applied);
    assert_eq!(source.poll_timeout(), Some(4 * RTT));
    assert_eq!(source.handle(resume(1, 50), 3 * RTT), Outcome::Absorbed);
    assert_eq!(source.handle(resume(2, 0), 3 * RTT), Outcome::Absorbed);
    assert_eq!(source.poll_timeout(), Some(4 * RTT));
}

#[test]
fn removed_nodes_are_refused_and_their_reductions_expire() {
    let mut source = source();
    source.handle(cut(1, 30), 0);
    source.handle(Input::Nodes([2].map(node).into()), 1);
    assert_eq!(source.handle(resume(1, 0), 2 * RTT - 1), Outcome::Refused(Refusal::UnknownIssuer));
    assert_eq!(now(&source).rate_bps, 70_000);
    while let Some(at) = source.poll_timeout() {
        source.handle_timeout(at);
    }
    assert_eq!(now(&source).rate_bps, LINE);
}

#[test]
fn a_closed_qp_leaves_no_state_and_a_reopened_one_starts_anew() {
    let mut source = source();
    source.handle(cut(1, 30), 0);
    source.handle(pause(1, 9_000), 0);
    assert_eq!(source.handle(Input::Close(qp(100)), 1), Outcome::Applied);
    assert_eq!(source.handle(Input::Close(qp(100)), 1), Outcome::Refused(Refusal::UnknownQp));
    assert_eq!((source.poll_timeout(), source.next_command(), source.state(qp(100))), (None, None, None));
    let spec = QpSpec { peer: peer(), line_bps: LINE, min_bps: MIN, rtt_ns: RTT };
    source.handle(Input::Open(qp(100), spec), 2);
    assert_eq!((now(&source).rate_bps, now(&source).paused_until_ns), (LINE, None));
    source.handle(cut(1, 30), 3);
    source.handle(Input::Open(qp(100), QpSpec { line_bps: 50_000, ..spec }), 4);
    assert_eq!((now(&source).rate_bps, now(&source).limited_by), (50_000, None), "the cap is above the new line rate");
    source.handle(Input::Open(qp(100), QpSpec { line_bps: 200_000, ..spec }), 5);
    assert_eq!(now(&source).rate_bps, 200_000);
}
