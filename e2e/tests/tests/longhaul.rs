// SPDX-License-Identifier: Apache-2.0
//! Long-haul CNPs in the lab: real queues, real packets, a real source that is paced in the kernel. `make bench`
//! measures the gain; here there must be one.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::Ipv6Addr;

use canopy_e2e::capture::Capture;
use canopy_e2e::longhaul::{GROUP, Path, median, node_addresses, start_pacer, thresholds, transfer};
use canopy_e2e::up_changed;
use canopy_lab::{Lab, TransferSpec};
use serde_json::json;

#[test]
fn the_source_reacts_sooner_the_nearer_the_congestion_is() {
    let mut path = Path::up().unwrap();
    println!("   d ms  reaction by CNPs  with Long-haul CNPs  sooner     above K_max: by CNPs  with Long-haul CNPs");
    let mut gains = Vec::new();
    for ms in [0.0, 10.0] {
        path.move_bottleneck(ms).unwrap();
        let of = |notified| (0..3).map(|_| path.trial(notified).unwrap()).collect::<Vec<_>>();
        let (plain, notified) = (of(false), of(true));
        assert!(plain.iter().all(|t| t.caused_by == "peer"), "{plain:?}");
        let reaction = [&plain, &notified].map(|all| median(all.iter().map(|t| t.reaction_ms).collect()));
        let above = [&plain, &notified].map(|all| median(all.iter().map(|t| t.above_ms).collect()));
        let gain = reaction[0] / reaction[1];
        println!(
            "{ms:7.1} {:14.2} ms {:17.2} ms {gain:7.1} {:22.1} ms {:16.1} ms",
            reaction[0], reaction[1], above[0], above[1]
        );
        gains.push((reaction, above, notified));
    }
    let (near, far) = (&gains[0], &gains[1]);
    assert!(near.2.iter().all(|t| t.caused_by == path.nodes[1]), "{:?}", near.2);
    assert!(near.0[1] * 2.0 < near.0[0], "next to the source, by CNPs and with Long-haul CNPs: {:?} ms", near.0);
    assert!(
        near.0[1] < far.0[1],
        "the reaction time grows with the distance of the node: {:.1} ms near, {:.1} ms far",
        near.0[1],
        far.0[1]
    );
    assert!(near.1[1] < near.1[0] / 2.0, "above K_max {:?} ms", near.1);
}

/// RTT_est of every port of the chain: that of the path, so that no node sends a second Long-haul CNP before the
/// source can have applied the first.
const PATH_RTT_NS: u64 = 20_000_000;

/// n1, n2 and n3 each have less rate than the one before: traffic that n1 forwards congests n2, and traffic that n2
/// forwards congests n3.
#[test]
fn three_nodes_in_a_chain_leave_it_to_the_first() {
    let ports = ["n1/eth1", "n2/eth2", "n3/eth2"];
    let bed = up_changed("longhaul", |file| {
        file.spec.defaults.rate = None;
        for link in &mut file.spec.links {
            let (delay, rate) = match link.a.to_string().as_str() {
                "n1/eth1" => (Some("5ms"), Some("40Mbit")),
                "n2/eth2" => (Some("5ms"), Some("20Mbit")),
                "n3/eth2" => (None, Some("10Mbit")),
                _ => (None, None),
            };
            link.rate = rate.map(|r| r.parse().unwrap());
            link.delay = delay.map(|d| d.parse().unwrap());
        }
        Ok(())
    })
    .unwrap();
    let (_, mut topology) = bed.lab.rest("GET", "/api/v1/topology", None).unwrap();
    for link in topology["spec"]["links"].as_array_mut().unwrap() {
        if ports.iter().any(|port| link["a"] == *port) {
            link["rttUs"] = json!(PATH_RTT_NS / 1_000);
        }
    }
    let (status, body) = bed.lab.rest("PUT", "/api/v1/topology", Some(&topology)).unwrap();
    assert_eq!(status, 200, "{body}");
    bed.lab.wait("thresholds", |_| Ok(ports.iter().all(|port| matches!(thresholds(&bed, port), Ok(Some(_)))))).unwrap();
    bed.lab.wait_synced().unwrap();
    bed.lab.create_group(GROUP, json!({"pathMtu": 4096, "cnpWindowUs": 1000})).unwrap();
    let nodes = node_addresses(&bed).unwrap();
    let pacer = start_pacer(&bed, &nodes).unwrap();
    let capture = Capture::start(&bed.lab, "s1", "eth0", "icmp6 and ip6[40] == 200").unwrap();
    let report = bed.lab.transfer(TransferSpec { bytes: 2 << 20, ..transfer(&["r1"]) }).unwrap();
    assert_eq!(report.mismatches(), Vec::<&str>::new());
    // The sender of each Long-haul CNP, and its time after the first one.
    let packets = capture.stop().unwrap();
    let received: Vec<(usize, u64)> = packets
        .iter()
        .map(|p| {
            let from = Ipv6Addr::from(<[u8; 16]>::try_from(&p.bytes[8..24]).unwrap()).to_string();
            (nodes.iter().position(|node| *node == from).unwrap(), p.time_ns - packets[0].time_ns)
        })
        .collect();
    let soon = |node| received.iter().filter(|(from, at)| *from == node && *at < 2 * PATH_RTT_NS).count();
    let suppressed = ports.map(|port| {
        let congestion = canopy_e2e::longhaul::link(&bed, port).unwrap()["status"]["congestion"].clone();
        congestion["suppressed"].as_u64().unwrap_or_else(|| panic!("{congestion}"))
    });
    println!("within two RTTs n1, n2 and n3 sent {:?} Long-haul CNPs, suppressed {suppressed:?}", [0, 1, 2].map(soon));
    assert_eq!(received.first().map(|(from, _)| *from), Some(0), "n1 is the first: {received:?}");
    // n2 and n3 may each send one before the effect of n1's reaches them.
    assert!(soon(1) <= 1 && soon(2) <= 1, "{received:?}");
    assert!(suppressed[1] > 0 && suppressed[2] > 0, "{suppressed:?}");
    drop(pacer);
}

/// Counter of ICMPv6 messages of a type at `host`, as its kernel counted.
fn icmpv6(lab: &Lab, host: &str, counter: &str) -> u64 {
    let out = lab.command(host, "cat").unwrap().arg("/proc/self/net/snmp6").output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let mut fields = text.lines().filter_map(|line| line.split_once(char::is_whitespace));
    fields.find(|(name, _)| *name == counter).map_or(0, |(_, value)| value.trim().parse().unwrap())
}

#[test]
fn a_source_without_support_discards_long_haul_cnps_and_applies_cnps() {
    let path = Path::up().unwrap();
    let lab = &path.bed.lab;
    let mut spec = TransferSpec::new(GROUP, "s1", &["r1", "r2"], 8 << 20);
    spec.args.insert("s1".into(), ["--window", "2048", "--timeout", "1s"].map(String::from).into());
    let report = lab.transfer(spec).unwrap();
    assert_eq!(report.mismatches(), Vec::<&str>::new());
    let received = icmpv6(lab, "s1", "Icmp6InType200");
    let cnps = report.source.more["cnps_received"].as_u64().unwrap();
    println!("{received} Long-haul CNPs discarded, {cnps} CNPs applied, {:.1} s", report.source.seconds);
    assert!(received > 0 && cnps > 0);
    for answer in ["Icmp6OutDestUnreachs", "Icmp6OutParmProblems", "Icmp6InErrors"] {
        assert_eq!(icmpv6(lab, "s1", answer), 0, "{answer}");
    }
}
