// SPDX-License-Identifier: Apache-2.0
//! What is said to the host, and what its packets do then. Octets of flows that run at the same time are compared, never
//! times.

use crate::support::say::{cnp, icmp, roce};
use crate::support::{Daemon, LINE_BPS, N1, N2, PEER, Settings, Wire, at, has_fq, monotonic_ns, wait};
use canopy_host::pacing::Blamed;
use canopy_packet::long_haul_cnp::Action;

/// Longer than any test: rates do not rise by themselves, and all reductions are one.
const LONG_MS: u64 = 10_000;
const QP: u32 = 0x11;
const DEST: u32 = 0x71;
/// Another QP, to compare with.
const OTHER: u32 = 0x12;
const OTHER_DEST: u32 = 0x72;

fn reduce(percent: u8) -> Action {
    Action::RateReduce { percent }
}

fn daemon(wire: &Wire, pacing: &str) -> Daemon {
    let more = ["--node", N1, "--node", N2].map(str::to_owned).to_vec();
    Daemon::start(wire, &Settings { pacing, more })
}

/// Runs `test` with each means of pacing that this kernel has.
fn by_each_means(test: impl Fn(&Wire, &str)) {
    let wire = Wire::new();
    test(&wire, "htb");
    if has_fq(&wire) {
        test(&wire, "edt");
    } else {
        println!("not run with edt: no fq in this kernel");
    }
}

#[test]
fn a_rate_reduce_in_either_format_is_what_the_packets_do() {
    by_each_means(|wire, pacing| {
        let daemon = daemon(wire, pacing);
        daemon.open(QP, DEST, LONG_MS);
        daemon.open(OTHER, OTHER_DEST, LONG_MS);
        wire.to_host(&[icmp(N1, QP, reduce(80)), roce(N2, OTHER, reduce(60))]);
        wait("both rates fell", || (daemon.actions("reduce") == 2).then_some(()));
        let rates = [QP, OTHER].map(|qpn| daemon.qp(qpn).unwrap());
        assert_eq!(rates.each_ref().map(|qp| qp.rate_bps), [LINE_BPS / 5, LINE_BPS * 2 / 5]);
        assert_eq!(rates.map(|qp| qp.blamed), [N1, N2].map(|node| Some(Blamed::Node(at(node)))));

        let arrivals = wire.arrivals();
        let _floods = [wire.flood(DEST), wire.flood(OTHER_DEST)];
        let octets = |dest, since| arrivals.octets(dest, since) as f64;
        wait("packets flow", || (octets(DEST, 0) > 100_000.0).then_some(()));
        let since = monotonic_ns();
        wait("enough to compare", || (octets(DEST, since) > 400_000.0).then_some(()));
        let ratio = octets(DEST, since) / octets(OTHER_DEST, since);
        assert!((0.4..0.6).contains(&ratio), "{pacing}: a fifth and two fifths of the line rate are as {ratio}");
        assert!(daemon.outcome("paced_packets") > 400, "it is this program that paces them");
    });
}

#[test]
fn a_pause_stops_one_queue_pair_and_ends_by_itself() {
    by_each_means(|wire, pacing| {
        let daemon = daemon(wire, pacing);
        daemon.open(QP, DEST, LONG_MS);
        daemon.open(OTHER, OTHER_DEST, LONG_MS);
        // Both at one rate, so that the one says how many packets the other would have sent.
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
        wait("it goes on", || (arrivals.octets(DEST, paused.end) > 20_000).then_some(()));
        let during = |dest| arrivals.times(dest).iter().filter(|at| paused.contains(at)).count();
        let (stopped, other) = (during(DEST), during(OTHER_DEST));
        // What waits in fq has its departure times already: no more than a socket holds.
        let left = if pacing == "htb" { 3 } else { 16 };
        assert!(
            stopped <= left && other > 2 * left,
            "{pacing}: {stopped} packets in the pause, {other} of the other QP"
        );
        // What the pause's debt in HTB would cost if it outlived the pause: as long again.
        let first = arrivals.times(DEST).into_iter().find(|at| *at >= paused.end).unwrap();
        let others = arrivals.times(OTHER_DEST).iter().filter(|at| (paused.end..first).contains(at)).count();
        assert!(others < other / 2, "{pacing}: {others} packets of the other QP before this one went on");
    });
}

#[test]
fn a_resume_gives_back_once() {
    by_each_means(|wire, pacing| {
        let daemon = daemon(wire, pacing);
        daemon.open(QP, DEST, 400);
        let mut watch = daemon.watch(1);
        wire.to_host(&[icmp(N1, QP, reduce(80))]);
        assert_eq!(watch.next().unwrap()["rateBps"], LINE_BPS / 5);
        // Refused until the node has seen its queue low for an RTT.
        let line = wait("the Resume counts", || {
            wire.to_host(&[icmp(N1, QP, Action::Resume { percent: 100 })]);
            (daemon.actions("resume") > 0).then(|| watch.next().unwrap())
        });
        assert!(daemon.outcome("too_early") > 0);
        // A quarter of the line rate at most.
        assert_eq!((&line["action"], &line["rateBps"]), (&"resume".into(), &(LINE_BPS / 5 + LINE_BPS / 4).into()));
        let before = daemon.outcome("absorbed");
        wire.to_host(&[icmp(N1, QP, Action::Resume { percent: 100 }), icmp(N1, QP, Action::Resume { percent: 0 })]);
        wait("both were heard", || (daemon.outcome("absorbed") == before + 2).then_some(()));
        assert_eq!(daemon.actions("resume"), 1);
        // Without more news the rate rises by itself, all the way.
        wait("line rate", || daemon.qp(QP).filter(|qp| qp.rate_bps == LINE_BPS && qp.blamed.is_none()));
        assert!(daemon.actions("increase") > 2);
    });
}

#[test]
fn a_cnp_of_the_peer_and_a_long_haul_cnp_in_one_rtt_are_one_reduction() {
    let wire = Wire::new();
    let daemon = daemon(&wire, "");
    daemon.open(QP, DEST, LONG_MS);
    daemon.open(OTHER, OTHER_DEST, LONG_MS);
    wire.to_host(&[icmp(N1, QP, reduce(30)), cnp(PEER, QP), cnp(PEER, OTHER), roce(N2, OTHER, reduce(30))]);
    wait("all four were heard", || (daemon.outcome("applied") + daemon.outcome("absorbed") == 4).then_some(()));
    let seventy = (LINE_BPS * 7 / 10, Some(Blamed::Node(at(N1))));
    assert_eq!(daemon.qp(QP).map(|qp| (qp.rate_bps, qp.blamed)).unwrap(), seventy);
    // The stricter counts, whatever comes first.
    let seventy = (LINE_BPS * 7 / 10, Some(Blamed::Node(at(N2))));
    assert_eq!(daemon.qp(OTHER).map(|qp| (qp.rate_bps, qp.blamed)).unwrap(), seventy);
    daemon.open(0x13, 0x73, LONG_MS);
    wire.to_host(&[cnp(PEER, 0x13)]);
    let qp = wait("a CNP alone", || daemon.qp(0x13).filter(|qp| qp.rate_bps < LINE_BPS));
    assert_eq!((qp.rate_bps, qp.blamed), (LINE_BPS * 3 / 4, Some(Blamed::Peer(at(PEER)))));
}
