// SPDX-License-Identifier: Apache-2.0
//! Notifications sent to the host, and their effect on its packets, with a pacing method. The tests compare octets of concurrent flows,
//! never times.

use crate::support::packets::{icmp, roce};
use crate::support::{Daemon, LINE_BPS, N1, N2, Settings, Wire, at, monotonic_ns, wait};
use canopy_host::pacing::LimitedBy;
use canopy_packet::long_haul_cnp::Action;

/// Longer than any test: rates do not increase by timers, and all reductions fall into one interval.
pub(crate) const LONG_MS: u64 = 10_000;
pub(crate) const QP: u32 = 0x11;
pub(crate) const DEST: u32 = 0x71;
/// Another QP for comparison.
pub(crate) const OTHER: u32 = 0x12;
pub(crate) const OTHER_DEST: u32 = 0x72;

pub(crate) fn reduce(percent: u8) -> Action {
    Action::RateReduce { percent }
}

pub(crate) fn daemon(wire: &Wire, pacing: &str) -> Daemon {
    let more = ["--node", N1, "--node", N2].map(str::to_owned).to_vec();
    Daemon::start(wire, &Settings { pacing, more })
}

/// A Rate Reduce in either format is what the packets do.
pub(crate) fn rate_reduce(wire: &Wire, pacing: &str) {
    let daemon = daemon(wire, pacing);
    daemon.open(QP, DEST, LONG_MS);
    daemon.open(OTHER, OTHER_DEST, LONG_MS);
    wire.to_host(&[icmp(N1, QP, reduce(80)), roce(N2, OTHER, reduce(60))]);
    wait("both rates fell", || (daemon.actions("reduce") == 2).then_some(()));
    let rates = [QP, OTHER].map(|qpn| daemon.qp(qpn).unwrap());
    assert_eq!(rates.each_ref().map(|qp| qp.rate.bps()), [LINE_BPS / 5, LINE_BPS * 2 / 5]);
    assert_eq!(rates.map(|qp| qp.limited_by), [N1, N2].map(|node| Some(LimitedBy::Node(at(node)))));

    let arrivals = wire.arrivals();
    let _floods = [wire.flood(DEST), wire.flood(OTHER_DEST)];
    let octets = |dest, since| arrivals.octets(dest, since) as f64;
    wait("packets flow", || (octets(DEST, 0) > 100_000.0).then_some(()));
    let since = monotonic_ns();
    wait("enough to compare", || (octets(DEST, since) > 400_000.0).then_some(()));
    let ratio = octets(DEST, since) / octets(OTHER_DEST, since);
    assert!((0.4..0.6).contains(&ratio), "{pacing}: a fifth and two fifths of the line rate are as {ratio}");
    assert!(daemon.outcome("paced_packets") > 400, "it is this program that paces them");
}

/// A Pause stops one queue pair, and ends by itself.
pub(crate) fn pause(wire: &Wire, pacing: &str) {
    let daemon = daemon(wire, pacing);
    daemon.open(QP, DEST, LONG_MS);
    daemon.open(OTHER, OTHER_DEST, LONG_MS);
    // Both have the same rate, so that the other one shows how many packets this one would have sent.
    wire.to_host(&[icmp(N1, QP, reduce(50)), icmp(N1, OTHER, reduce(50))]);
    wait("both rates fell", || (daemon.actions("reduce") == 2).then_some(()));
    let arrivals = wire.arrivals();
    let _floods = [wire.flood(DEST), wire.flood(OTHER_DEST)];
    wait("packets flow", || (arrivals.octets(OTHER_DEST, 0) > 100_000).then_some(()));
    let mut watch = daemon.watch(2);
    wire.to_host(&[icmp(N1, QP, Action::Pause { micros: 60_000 })]);
    let [begin, end] = ["pause", "pause-end"].map(|action| {
        let line = watch.next().unwrap();
        assert_eq!((&line["action"], &line["qpn"]), (&action.into(), &QP.into()), "{line}");
        line
    });
    assert_eq!((&begin["paused"], &end["paused"]), (&true.into(), &false.into()));
    let paused = begin["appliedNs"].as_u64().unwrap()..end["appliedNs"].as_u64().unwrap();
    assert!(begin["receivedNs"].as_u64().unwrap() <= paused.start);
    wait("it continues", || (arrivals.octets(DEST, paused.end) > 20_000).then_some(()));
    let during = |dest| arrivals.times(dest).iter().filter(|at| paused.contains(at)).count();
    let (stopped, other) = (during(DEST), during(OTHER_DEST));
    // Packets queued in fq have their departure times already: no more than a socket holds. Where timers are late, as in an emulated guest,
    // some of those that were due before the pause leave in it: up to an eighth of its time.
    let left = if pacing == "htb" { 3 } else { 16 + other / 8 };
    assert!(stopped <= left && other > 2 * left, "{pacing}: {stopped} packets in the pause, {other} of the other QP");
    // The cost of the pause's debt in HTB if it outlived the pause: the same time again.
    let first = arrivals.times(DEST).into_iter().find(|at| *at >= paused.end).unwrap();
    let others = arrivals.times(OTHER_DEST).iter().filter(|at| (paused.end..first).contains(at)).count();
    assert!(others < other / 2, "{pacing}: {others} packets of the other QP before this one continued");
}

/// A Resume restores the rate once.
pub(crate) fn resume(wire: &Wire, pacing: &str) {
    let daemon = daemon(wire, pacing);
    daemon.open(QP, DEST, 400);
    let mut watch = daemon.watch(1);
    wire.to_host(&[icmp(N1, QP, reduce(80))]);
    assert_eq!(watch.next().unwrap()["rateBps"], LINE_BPS / 5);
    // Refused until the queue of the node has been low for an RTT.
    let line = wait("the Resume counts", || {
        wire.to_host(&[icmp(N1, QP, Action::Resume { percent: 100 })]);
        (daemon.actions("resume") > 0).then(|| watch.next().unwrap())
    });
    assert!(daemon.outcome("too_early") > 0);
    // At most a quarter of the line rate.
    assert_eq!((&line["action"], &line["rateBps"]), (&"resume".into(), &(LINE_BPS / 5 + LINE_BPS / 4).into()));
    let before = daemon.outcome("absorbed");
    wire.to_host(&[icmp(N1, QP, Action::Resume { percent: 100 }), icmp(N1, QP, Action::Resume { percent: 0 })]);
    wait("both were received", || (daemon.outcome("absorbed") == before + 2).then_some(()));
    assert_eq!(daemon.actions("resume"), 1);
    // Without further notifications the rate increases up to the line rate.
    wait("line rate", || daemon.qp(QP).filter(|qp| qp.rate.bps() == LINE_BPS && qp.limited_by.is_none()));
    assert!(daemon.actions("increase") > 2);
}
