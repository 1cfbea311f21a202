// SPDX-License-Identifier: Apache-2.0
//! Kills of agents and controller, failing interfaces, and two hundred groups in sequence.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;
use std::time::Duration;

use canopy_e2e::{deep, up};
use canopy_lab::TransferSpec;
use serde_json::json;

const RECEIVERS: [&str; 5] = ["r1", "r2", "r3", "r4", "r5"];
const NODES: [&str; 6] = ["n1", "n2", "n3", "n4", "n5", "n6"];

#[test]
fn killing_every_agent_and_the_controller_in_turn_loses_nothing() {
    let mut bed = up("figure1").unwrap();
    bed.lab.create_group("g", json!({"pathMtu": 1024})).unwrap();
    let bytes = 96 << 20;
    let mut spec = TransferSpec {
        timeout: Duration::from_secs(300),
        leave: false,
        ..TransferSpec::new("g", "s1", &RECEIVERS, bytes)
    };
    // A timeout of one second: a busy machine must not cause a retransmission, so every retransmission means that a
    // packet or an ACK was lost.
    spec.args.insert("s1".into(), vec!["--timeout".into(), "1s".into()]);
    let transfer = bed.lab.start_transfer(spec).unwrap();
    bed.wait_phase("g", "Ready").unwrap();
    let moved = |bed: &canopy_e2e::Bed| {
        bed.lab.link_counters().unwrap().iter().find(|l| l.a.device == "s1").unwrap().a_to_b.passed_octets.get()
    };
    let step = bytes / 10;
    let (some, others) = NODES.split_at(3);
    // The controller takes longest to restart: not last.
    let victims: Vec<Option<&str>> =
        some.iter().map(|n| Some(*n)).chain([None]).chain(others.iter().map(|n| Some(*n))).collect();
    for (i, victim) in victims.into_iter().enumerate() {
        // Each at another point of the transfer.
        bed.lab.wait("the transfer to continue", |_| Ok(moved(&bed) > step * (i as u64 + 1))).unwrap();
        match victim {
            Some(node) => bed.lab.kill_agent(node).unwrap(),
            None => bed.lab.kill_controller().unwrap(),
        }
        assert!(moved(&bed) < bytes, "the transfer was over before the kill of {victim:?}: this proves nothing");
        match victim {
            Some(node) => bed.lab.start_agent(node).unwrap(),
            None => bed.lab.start_controller().unwrap(),
        }
    }
    let report = transfer.finish(&bed.lab).unwrap();
    assert!(report.mismatches().is_empty(), "{:?}", report.mismatches());
    assert_eq!(report.source.more.get("retransmitted"), Some(&json!(0)), "a packet was lost");
    // A sample from after the end: at every node all branches have acknowledged everything that was sent.
    let over = |n: &serde_json::Value| n["dataPackets"].as_u64() > Some(0) && n["minNext"] == n["high"];
    let sampled = |bed: &canopy_e2e::Bed| {
        let (_, body) = bed.lab.rest("GET", "/api/v1/groups/g/telemetry", None)?;
        Ok(body["items"].as_array().is_some_and(|a| a.len() == NODES.len() && a.iter().all(over)))
    };
    bed.lab.wait("telemetry of every node", |_| sampled(&bed)).unwrap();
    let drops = bed.drops("g").unwrap();
    assert!(drops.is_empty(), "drops were counted for the group: {drops:?}");
    // A drop would have been counted: data from a receiver is not feedback of any branch.
    let status = bed.group("g").unwrap();
    let peer = format!(
        "{},{},100",
        status["connection"]["proxyAddress"].as_str().unwrap(),
        status["connection"]["designatedQpn"]
    );
    let mut forger = bed.lab.command("r1", bed.lab.binary("canopy-rc").unwrap()).unwrap();
    forger.args(["send", "--unicast", &peer, "--address", "2001:db8:0:1::1", "--bytes", "64", "--deadline", "200ms"]);
    assert!(!forger.output().unwrap().status.success(), "a forged request must not be answered");
    let counted = |d: &(String, String, u64)| d.0 == "n1" && d.1 == "feedback_malformed" && d.2 > 0;
    bed.lab.wait("the forged packets to be counted", |_| Ok(bed.drops("g")?.iter().any(counted))).unwrap();
}

#[test]
fn an_interface_that_is_gone_degrades_the_group_and_is_named() {
    let bed = up("figure1").unwrap();
    bed.lab.create_group("g", json!({})).unwrap();
    for (i, host) in ["s1", "r1", "r4"].iter().enumerate() {
        let role = if i == 0 { "source" } else { "receiver" };
        let member = json!({"apiVersion": "canopy/v1", "kind": "Member", "metadata": {"name": host}, "spec": {"host": host, "role": role, "qpn": 0x100 + i}});
        let (status, body) = bed.lab.rest("POST", "/api/v1/groups/g/members", Some(&member)).unwrap();
        assert_eq!(status, 201, "{body}");
    }
    bed.wait_phase("g", "Ready").unwrap();
    let ns = bed.lab.state().instance.namespace("n3");
    let ip = |args: &[&str]| assert!(Command::new("ip").args(["-n", &ns]).args(args).status().unwrap().success());
    ip(&["link", "set", "eth1", "mtu", "1400"]);
    bed.wait_phase("g", "Degraded").unwrap();
    let reason = bed.group("g").unwrap()["reason"].to_string();
    println!("{reason}");
    assert!(reason.contains("n3") && reason.contains("eth1") && reason.contains("MTU 1400"), "{reason}");
    ip(&["link", "set", "eth1", "mtu", "9000"]);
    bed.wait_phase("g", "Ready").unwrap();
    ip(&["link", "del", "eth2"]);
    bed.wait_phase("g", "Degraded").unwrap();
    let reason = bed.group("g").unwrap()["reason"].as_str().unwrap().to_owned();
    println!("{reason}");
    assert!(reason.contains("n3") && reason.contains("eth2"), "{reason}");
}

#[test]
fn two_hundred_lives_leave_nothing_behind() {
    let bed = up("figure1").unwrap();
    let lives = if deep() { 200 } else { 40 };
    let routes = |node: &str| {
        let ns = bed.lab.state().instance.namespace(node);
        Command::new("ip").args(["-n", &ns, "-6", "route", "show", "proto", "201"]).output().unwrap().stdout
    };
    let before: Vec<_> = NODES.iter().map(|n| routes(n)).collect();
    let (mut groups, mut qpns) = (std::collections::BTreeSet::new(), std::collections::BTreeSet::new());
    for life in 0..lives {
        bed.lab.create_group("g", json!({"pathMtu": 1024})).unwrap();
        let status = bed.group("g").unwrap();
        groups.insert(status["groupId"].as_u64().unwrap());
        qpns.insert(status["connection"]["designatedQpn"].as_u64().unwrap());
        let spec = TransferSpec { leave: false, ..TransferSpec::new("g", "s1", &RECEIVERS, 64 << 10) };
        let report = bed.lab.transfer(spec).unwrap_or_else(|e| panic!("life {life}: {e:#}"));
        assert!(report.mismatches().is_empty());
        for host in RECEIVERS.iter().chain(&["s1"]) {
            bed.lab.rest("DELETE", &format!("/api/v1/groups/g/members/{host}"), None).unwrap();
        }
        assert_eq!(bed.lab.rest("DELETE", "/api/v1/groups/g", None).unwrap().0 / 100, 2);
    }
    assert_eq!(qpns.len(), lives, "a Designated QPN came back while late feedback could still name it");
    for node in NODES {
        bed.lab
            .wait("the maps to be empty", |_| Ok(bed.map_entries(node)? == 0))
            .unwrap_or_else(|e| panic!("{node}: {e:#}, {} entries", bed.map_entries(node).unwrap()));
    }
    let after: Vec<_> = NODES.iter().map(|n| routes(n)).collect();
    assert_eq!(before, after, "routes were left behind");
    let (_, list) = bed.lab.rest("GET", "/api/v1/groups", None).unwrap();
    assert_eq!(list["items"], json!([]));
}
