// SPDX-License-Identifier: Apache-2.0
//! A session of a source ends when it leaves: the next one has another Designated QPN and start PSN, and what is left of the first
//! changes nothing (decisions 3.11, 6.5).
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use canopy_e2e::{Bed, up};
use canopy_lab::TransferSpec;
use serde_json::{Value, json};

const MIB: u64 = 1 << 20;
/// Rounds of every packet of the earlier session.
const COUNT: u64 = 20;
/// A source and two receivers: address, node and port.
const HOSTS: [(&str, &str, &str, &str); 3] = [
    ("s1", "2001:db8:0:100::1", "n6", "eth1"),
    ("r1", "2001:db8:0:1::1", "n1", "eth2"),
    ("r3", "2001:db8:0:3::1", "n2", "eth3"),
];

fn transfer(bytes: u64) -> TransferSpec {
    TransferSpec { timeout: Duration::from_secs(300), ..TransferSpec::new("g", "s1", &["r1", "r2", "r3"], bytes) }
}

/// MAC address of the node's port that the host is attached to.
fn mac(bed: &Bed, node: &str, port: &str) -> Value {
    let out = bed.lab.command(node, "ip").unwrap().args(["-j", "link", "show", "dev", port]).output().unwrap();
    let links: Value = serde_json::from_slice(&out.stdout).unwrap();
    links[0]["address"].clone()
}

/// Sends what is left of a session from a host; returns the number of packets.
fn leftovers(bed: &Bed, host: &str, what: &Value) -> u64 {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("attacks/sessions.py");
    let mut scapy = bed.lab.command(host, "python3").unwrap();
    scapy.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = scapy.spawn().unwrap();
    child.stdin.take().unwrap().write_all(what.to_string().as_bytes()).unwrap();
    let out = child.wait_with_output().unwrap();
    assert!(out.status.success(), "scapy: {}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

#[test]
fn packets_of_an_earlier_session_change_nothing() {
    let bed = up("figure1").unwrap();
    bed.lab.create_group("g", json!({"pathMtu": 1024})).unwrap();
    let first = bed.group("g").unwrap()["connection"].clone();
    let report = bed.lab.transfer(transfer(4 * MIB)).unwrap();
    assert!(report.mismatches().is_empty(), "{:?}", report.mismatches());
    let ended = bed.group("g").unwrap();
    assert!(ended["reason"].as_str().unwrap().starts_with("waiting for a source"), "{ended}");

    // Who stays keeps the group's counters.
    let spec = TransferSpec { leave: false, ..transfer(128 * MIB) };
    let running = bed.lab.start_transfer(spec).unwrap();
    bed.wait_phase("g", "Ready").unwrap();
    let second = bed.group("g").unwrap()["connection"].clone();
    assert_eq!(second["proxyAddress"], first["proxyAddress"]);
    for number in ["designatedQpn", "startPsn", "session", "writeRkey"] {
        assert_ne!(second[number], first[number], "{number}");
    }
    // Where they would do the most harm: among the packets in flight, and ahead of all.
    let psns: Vec<u64> =
        [0, 1, 50, 5_000, 60_000, 130_000].map(|i| (second["startPsn"].as_u64().unwrap() + i) % (1 << 24)).into();
    let mut sent = BTreeMap::new();
    for (host, address, node, port) in HOSTS {
        let what = json!({
            "role": if host == "s1" { "source" } else { "receiver" },
            "host": address,
            "proxy": first["proxyAddress"],
            "dqpn": first["designatedQpn"],
            "psns": psns,
            "mac": mac(&bed, node, port),
            "interface": "eth0",
            "count": COUNT,
        });
        let packets = leftovers(&bed, host, &what);
        assert!(packets > 400, "{packets}");
        let reason = if host == "s1" { "source_unregistered" } else { "feedback_malformed" };
        sent.insert((node.to_owned(), reason.to_owned()), packets);
    }
    let mut drops = BTreeMap::new();
    let counted = bed.lab.wait("the packets to be counted", |_| {
        drops = bed.drops("g")?.into_iter().map(|(node, reason, packets)| ((node, reason), packets)).collect();
        Ok(drops == sent)
    });
    assert!(counted.is_ok(), "dropped {drops:?}, sent {sent:?}");

    let report = running.finish(&bed.lab).unwrap();
    assert!(report.mismatches().is_empty(), "{:?}", report.mismatches());
    for counter in ["false_acks", "ghost_naks", "cnps_received"] {
        assert_eq!(report.source.more.get(counter), Some(&json!(0)), "{counter}");
    }
}

#[test]
fn receivers_of_an_ended_session_get_nothing_until_they_join_again() {
    let bed = up("figure1").unwrap();
    bed.lab.create_group("g", json!({"pathMtu": 1024})).unwrap();
    let join = |host: &str, role: &str, qpn: u32| {
        let member = json!({"apiVersion": "canopy/v1", "kind": "Member", "metadata": {"name": host},
            "spec": {"host": host, "role": role, "qpn": qpn}});
        let (status, body) = bed.lab.rest("PUT", &format!("/api/v1/groups/g/members/{host}"), Some(&member)).unwrap();
        assert!(status < 300, "{body}");
    };
    // One that stays when its source goes, and never joins again.
    join("r5", "receiver", 0x222);
    join("s1", "source", 0x111);
    bed.wait_phase("g", "Ready").unwrap();
    let (status, body) = bed.lab.rest("DELETE", "/api/v1/groups/g/members/s1", None).unwrap();
    assert!(status < 300, "{body}");
    // It does not stall the group: its session has ended.
    let report = bed.lab.transfer(transfer(8 * MIB)).unwrap();
    assert!(report.mismatches().is_empty(), "{:?}", report.mismatches());
    let (_, member) = bed.lab.rest("GET", "/api/v1/groups/g/members/r5", None).unwrap();
    assert_eq!(member["status"]["ended"], json!(true), "{member}");
    let links = bed.lab.link_counters().unwrap();
    let to_r5 = links.iter().find(|l| l.b.device == "r5").map(|l| l.a_to_b.passed_octets.get()).unwrap();
    assert!(to_r5 < 64 << 10, "r5 was sent {to_r5} octets");
}

/// `canopy-rc` at a host: `verb` and more arguments, separated by spaces; no membership ends with it.
fn rc(bed: &Bed, host: &str, args: &str) -> Child {
    let mut c = bed.lab.command(host, bed.lab.binary("canopy-rc").unwrap()).unwrap();
    c.args(args.split(' ')).args(["--controller", &format!("unix:{}/controller.sock", bed.lab.dir().display())]);
    c.args(["--group", "g", "--host", host, "--json"]);
    c.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap()
}

/// The report of a program that has ended.
fn last_report(child: Child) -> Value {
    let out = child.wait_with_output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    serde_json::from_str(text.lines().last().unwrap_or_default()).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// Its queue pair has the same QPN again, and would begin at the same PSN: receivers would take its data for retransmissions of what they
/// have, and acknowledge it.
#[test]
fn a_source_that_reset_its_queue_pair_gets_no_answer_of_the_session_before() {
    const SEND: &str = "send --qpn 0x111 --bytes 65536 --wait-receivers 2 --deadline 60s --ready-timeout 60s";
    let bed = up("figure1").unwrap();
    bed.lab.create_group("g", json!({"pathMtu": 1024})).unwrap();
    let receive = |more: &str| ["r1", "r3"].map(|host| rc(&bed, host, &format!("receive --bytes {more}")));
    // They expect more than the first source sends, so that they are there when the second one does.
    let mut first = receive("131072");
    let sent = last_report(rc(&bed, "s1", SEND));
    assert_eq!((&sent["event"], &sent["false_acks"]), (&json!("complete"), &json!(0)), "{sent}");
    let before = bed.group("g").unwrap()["connection"].clone();

    let second = rc(&bed, "s1", &format!("{SEND} --seed 2"));
    let ended = |host: &str| {
        let (_, member) = bed.lab.rest("GET", &format!("/api/v1/groups/g/members/{host}"), None).unwrap();
        member["status"]["ended"] == json!(true)
    };
    let ends = bed.lab.wait("the session to end", |_| Ok(ended("r1") && ended("r3")));
    if ends.is_err() {
        panic!("r1 and r3 expect more, and the source reports {}", last_report(second));
    }
    for receiver in &mut first {
        receiver.kill().unwrap();
        receiver.wait().unwrap();
    }
    let receivers = receive("65536 --linger 2s");
    let sent = last_report(second);
    assert_eq!((&sent["event"], &sent["false_acks"]), (&json!("complete"), &json!(0)), "{sent}");
    let after = bed.group("g").unwrap()["connection"].clone();
    for number in ["designatedQpn", "startPsn", "session"] {
        assert_ne!(after[number], before[number], "{number}");
    }
    for receiver in receivers {
        let got = last_report(receiver);
        assert_eq!((&got["complete"], &got["sha256"]), (&json!(true), &sent["sha256"]), "{got}");
    }
}
