// SPDX-License-Identifier: Apache-2.0
//! Creation and removal of queue pairs, the operator's program, and leftovers.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;

use canopy_host::pacing::{Means, OpenOptions, Origin};
use canopy_packet::long_haul_cnp::Action;

use crate::support::packets::{ack, icmp};
use crate::support::{Daemon, LINE_BPS, N1, PEER, Settings, Wire, at, monotonic_ns, request, wait};

const QP: u32 = 0x11;
const DEST: u32 = 0x71;
const REDUCE: Action = Action::RateReduce { percent: 50 };

fn settings(more: &[&str]) -> Settings<'static> {
    let more = ["--node", N1].iter().chain(more).map(|s| (*s).to_owned()).collect();
    Settings { pacing: "", more }
}

#[test]
fn a_queue_pair_is_learned_from_its_packets_measured_and_forgotten() {
    let wire = Wire::new();
    let daemon = Daemon::start(&wire, &settings(&["--idle", "3s", "--rtt", "5s"]));
    wire.out_of_host(&[request(DEST, 0)]);
    wire.to_host(&[ack(QP, 0)]);
    let qp = wait("it is learned", || daemon.qp(QP));
    assert_eq!((qp.origin, qp.peer, qp.dest_qpn, qp.rtt_is_measured), (Origin::Learned, at(PEER), DEST, false));
    // The answer to a packet from before it was known gives no RTT; the next one does.
    let begin = monotonic_ns();
    for psn in [1, 2] {
        wire.out_of_host(&[request(DEST, psn)]);
        wire.to_host(&[ack(QP, psn)]);
    }
    let most = monotonic_ns() - begin;
    let qp = wait("it is measured", || daemon.qp(QP).filter(|qp| qp.rtt_is_measured));
    assert!(qp.rtt.as_nanos() <= u128::from(most.max(100_000)), "{:?} of {most} ns", qp.rtt);
    wire.to_host(&[icmp(N1, QP, REDUCE)]);
    wait("the node's notification is applied", || (daemon.actions("reduce") == 1).then_some(()));
    wait("it is forgotten", || daemon.qp(QP).is_none().then_some(()));
    assert_eq!((daemon.actions("open"), daemon.actions("close")), (1, 1));
}

#[test]
fn two_flows_to_one_peer_are_not_guessed_at() {
    let wire = Wire::new();
    let daemon = Daemon::start(&wire, &settings(&[]));
    wire.out_of_host(&[request(DEST, 0), request(DEST + 1, 0)]);
    wire.to_host(&[ack(QP, 0), ack(QP + 1, 0)]);
    // One is registered, so the other is unambiguous.
    daemon.open(QP, DEST, 1_000);
    let qp = wait("the other is learned", || daemon.qp(QP + 1));
    assert_eq!((qp.dest_qpn, qp.origin), (DEST + 1, Origin::Learned));
    assert_eq!(daemon.actions("open"), 2, "nothing was learned before");
    let taken = daemon.client().open(OpenOptions::new(0x99, at(PEER), DEST)).unwrap_err();
    assert!(taken.to_string().contains("QP 17 is registered"), "{taken}");
    // A registration replaces a learned queue pair.
    daemon.open(0x99, DEST + 1, 1_000);
    assert!(daemon.qp(QP + 1).is_none());
    daemon.command(&["close", "--qpn", "0x99"]);
    assert!(daemon.qp(0x99).is_none());
}

#[test]
fn the_interface_is_afterwards_as_it_was_before() {
    let wire = Wire::new();
    let before = wire.on_host("tc qdisc show dev eth0").unwrap();
    let root = "tc qdisc show dev eth0 root";
    let daemon = Daemon::start(&wire, &settings(&[]));
    daemon.open(QP, DEST, 10_000);
    wire.to_host(&[icmp(N1, QP, REDUCE)]);
    wait("it paces", || (daemon.actions("reduce") == 1).then_some(()));
    assert_ne!(wire.on_host("tc qdisc show dev eth0").unwrap(), before);
    let log = daemon.stop();
    assert!(log.contains("the interface is as it was"), "{log}");
    assert_eq!(wire.on_host("tc qdisc show dev eth0").unwrap(), before);
    // A daemon that was killed leaves its state to the next one.
    let daemon = Daemon::start(&wire, &settings(&["--pacing", "htb"]));
    daemon.open(QP, DEST, 10_000);
    daemon.kill();
    assert!(wire.on_host(root).unwrap().contains("htb ca9a:"));
    let daemon = Daemon::start(&wire, &settings(&[]));
    assert!(daemon.status().qps.is_empty(), "nothing outlives a daemon");
    daemon.stop();
    assert_eq!(wire.on_host(root).unwrap(), before);
}

#[test]
fn a_dead_daemon_paces_no_packet() {
    let wire = Wire::new();
    let daemon = Daemon::start(&wire, &settings(&[]));
    daemon.open(QP, DEST, 10_000);
    wire.to_host(&[icmp(N1, QP, Action::RateReduce { percent: 100 })]);
    wait("it paces", || (daemon.actions("reduce") == 1).then_some(()));
    let arrivals = wire.arrivals();
    let _flood = wire.flood(DEST);
    wait("packets flow", || (arrivals.octets(DEST, 0) > 5_000).then_some(()));
    daemon.kill();
    // At the minimum rate, 200 kbit/s, the deadline would expire first.
    let since = monotonic_ns();
    wait("packets flow freely", || (arrivals.octets(DEST, since) > 2_000_000).then_some(()));
}

/// Catches an end that takes the programs of canopy-steer, or of anyone who came later, off the interface.
#[test]
fn filters_of_another_program_outlive_the_daemon() {
    let wire = Wire::new();
    let daemon = Daemon::start(&wire, &settings(&[]));
    let filters = "tc filter show dev eth0 egress";
    let program = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(program.path(), "1,6 0 0 0,").unwrap();
    let add = format!("tc filter add dev eth0 egress prio 61 bpf bytecode-file {}", program.path().display());
    wire.on_host(&add).unwrap();
    assert!(wire.on_host(filters).unwrap().contains("direct-action"), "the daemon has none of its own");
    daemon.stop();
    let left = wire.on_host(filters).unwrap();
    assert!(left.contains("pref 61 bpf") && !left.contains("direct-action"), "{left}");
}

#[test]
fn an_administrators_qdisc_is_not_replaced_unless_wanted_and_comes_back() {
    let wire = Wire::new();
    wire.on_host("tc qdisc add dev eth0 root handle 5: tbf rate 20mbit burst 10kb limit 100kb").unwrap();
    let before = wire.on_host("tc qdisc show dev eth0").unwrap();
    let log = Daemon::spawn(&wire, &settings(&[])).failure();
    assert!(log.contains("tbf") && log.contains("--replace-qdisc"), "{log}");
    assert_eq!(wire.on_host("tc qdisc show dev eth0").unwrap(), before);
    let daemon = Daemon::start(&wire, &settings(&["--replace-qdisc"]));
    assert!(!wire.on_host("tc qdisc show dev eth0").unwrap().contains("tbf"));
    daemon.stop();
    assert_eq!(wire.on_host("tc qdisc show dev eth0").unwrap(), before);
}

#[test]
fn an_operators_program_gets_each_change_and_its_failures_are_counted() {
    let wire = Wire::new();
    let dir = tempfile::tempdir().unwrap();
    let (program, output) = (dir.path().join("act"), dir.path().join("output"));
    let script = format!(
        "#!/bin/sh\necho $CANOPY_QPN $CANOPY_PEER $CANOPY_DEST_QPN $CANOPY_ACTION $CANOPY_RATE_BPS $CANOPY_LIMITED_BY $1 >> {}\n[ $CANOPY_ACTION != close ]\n",
        output.display()
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let hook = format!("{} argument", program.display());
    let daemon = Daemon::start(&wire, &settings(&["--no-kernel-pacing", "--on-action", &hook]));
    assert_eq!(daemon.status().pacing, Means::None);
    let lines = |n: usize| {
        wait("the program ran", || {
            let text = std::fs::read_to_string(&output).unwrap_or_default();
            (text.lines().count() >= n).then(|| text.lines().map(str::to_owned).collect::<Vec<_>>())
        })
    };
    daemon.open(QP, DEST, 10_000);
    assert_eq!(lines(1), [format!("17 {PEER} 113 open {LINE_BPS} argument")]);
    wire.to_host(&[icmp(N1, QP, REDUCE)]);
    assert_eq!(lines(2)[1], format!("17 {PEER} 113 reduce {} {N1} argument", LINE_BPS / 2));
    daemon.client().close(QP).unwrap();
    assert!(lines(3)[2].contains(" close "));
    wait("its failure is counted", || (daemon.outcome("hook_failures") == 1).then_some(()));
    assert!(wire.on_host("tc qdisc show dev eth0 root").unwrap().contains("noqueue"), "the kernel does not pace");
}

#[test]
fn nodes_come_from_a_file_that_may_change() {
    let wire = Wire::new();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("nodes");
    std::fs::write(&file, "# none yet\n").unwrap();
    let more = ["--nodes-file", file.to_str().unwrap()].map(str::to_owned).to_vec();
    let daemon = Daemon::start(&wire, &Settings { pacing: "", more });
    daemon.open(QP, DEST, 10_000);
    wire.to_host(&[icmp(N1, QP, REDUCE)]);
    wait("its notification is refused", || (daemon.outcome("unknown_issuer") == 1).then_some(()));
    std::fs::write(&file, format!("{N1} # the first\n")).unwrap();
    wait("the file is read", || (daemon.status().nodes == 1).then_some(()));
    std::fs::write(&file, "nonsense\n").unwrap();
    wait("it is read again", || (daemon.outcome("nodes_file_errors") > 0).then_some(()));
    wire.to_host(&[icmp(N1, QP, REDUCE)]);
    wait("its notification is applied", || daemon.qp(QP).filter(|qp| qp.rate.bps() == LINE_BPS / 2));
    let log = daemon.stop();
    assert!(log.contains("the last good list stays") && log.contains("line 1"), "{log}");
}

#[test]
fn metrics_match_status() {
    let wire = Wire::new();
    wire.on_host("ip link set lo up").unwrap();
    let daemon = Daemon::start(&wire, &settings(&["--metrics", "[::1]:9410"]));
    daemon.open(QP, DEST, 10_000);
    wire.to_host(&[icmp(N1, QP, REDUCE)]);
    wait("the notification is applied", || (daemon.actions("reduce") == 1).then_some(()));
    let text = wire.within_host(|| {
        let mut stream = TcpStream::connect("[::1]:9410").unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    });
    for line in [
        "canopy_pacer_received_total{format=\"icmpv6\"} 1".to_owned(),
        "canopy_pacer_outcomes_total{reason=\"applied\"} 1".to_owned(),
        "canopy_pacer_actions_total{action=\"reduce\"} 1".to_owned(),
        format!("canopy_pacer_qp_rate_bits_per_second{{qpn=\"17\",peer=\"{PEER}\"}} {}", LINE_BPS / 2),
    ] {
        assert!(text.contains(&line), "{line} is not in {text}");
    }
    assert!(text.contains("canopy_pacer_means{pacing=\"") && text.contains("interface=\"eth0\"} 1"), "{text}");
    let table = daemon.command(&["status"]);
    assert!(table.contains("QPN") && table.contains("10 Mbit/s") && table.contains(N1), "{table}");
}
