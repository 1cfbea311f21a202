// SPDX-License-Identifier: Apache-2.0
//! Agents that are stopped or killed under traffic, and come back or stay away.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::time::{Duration, Instant};

use canopy_e2e::{Bed, up, up_managed};
use canopy_lab::{Transfer, TransferSpec};
use serde_json::{Value, json};

const NODES: [&str; 6] = ["n1", "n2", "n3", "n4", "n5", "n6"];
/// An agent that was started is ready within this long.
const READY_WITHIN: Duration = Duration::from_secs(10);

fn node(bed: &Bed, name: &str) -> Value {
    bed.lab.rest("GET", &format!("/api/v1/nodes/{name}"), None).unwrap().1
}

/// Why the agent of a node is connected, or is not.
fn connection(bed: &Bed, name: &str) -> String {
    let node = node(bed, name);
    let conditions = node["status"]["conditions"].as_array().unwrap();
    conditions.iter().find(|c| c["type"] == "Connected").unwrap()["reason"].as_str().unwrap().to_owned()
}

fn restarts(bed: &Bed, name: &str) {
    bed.lab.wait("the node to restart", |_| Ok(connection(bed, name) == "Restarting")).unwrap();
}

/// The agent is connected, and its node runs what it has to.
fn is_ready(bed: &Bed, name: &str) -> bool {
    let node = node(bed, name);
    let conditions = node["status"]["conditions"].as_array().unwrap();
    let holds = |kind: &str| conditions.iter().any(|c| c["type"] == kind && c["status"] == "True");
    holds("Connected") && holds("Synced")
}

fn ready(bed: &Bed, name: &str) {
    bed.lab.wait("the node to be ready", |_| Ok(is_ready(bed, name))).unwrap();
}

/// The kernel of a node answers no Echo Request from now on, or answers them again. It forwards all the same.
fn mute(bed: &Bed, name: &str, muted: bool) {
    let mut sysctl = bed.lab.command(name, "sysctl").unwrap();
    let setting = format!("net.ipv6.icmp.echo_ignore_all={}", u8::from(muted));
    assert!(sysctl.args(["-q", "-w", &setting]).status().unwrap().success());
}

/// Whether a node reports links that do not answer.
fn reports_silence(bed: &Bed, name: &str) -> bool {
    let node = node(bed, name);
    node["status"]["errors"].as_array().unwrap().iter().any(|e| e["kind"] == "silence")
}

fn epoch(bed: &Bed) -> u64 {
    bed.group("g").unwrap()["epoch"].as_u64().unwrap()
}

fn members(bed: &Bed) -> Value {
    bed.lab.rest("GET", "/api/v1/groups/g/members", None).unwrap().1["items"].clone()
}

fn events(bed: &Bed, code: &str) -> Vec<Value> {
    let (_, events) = bed.lab.rest("GET", "/api/v1/events", None).unwrap();
    events["items"].as_array().unwrap().iter().filter(|e| e["code"] == code).cloned().collect()
}

fn transfer(bytes: u64, receivers: &[&str]) -> TransferSpec {
    let mut spec = TransferSpec {
        timeout: Duration::from_secs(3000),
        leave: false,
        ..TransferSpec::new("g", "s1", receivers, bytes)
    };
    // Every retransmission means that a packet or an ACK was lost.
    spec.args.insert("s1".into(), vec!["--timeout".into(), "1s".into()]);
    spec
}

/// Lets the source send what is left, and checks that it sent nothing twice.
fn lost_nothing(bed: &Bed, transfer: Transfer) {
    bed.limit("s1", 900).unwrap();
    let report = transfer.finish(&bed.lab).unwrap();
    assert!(report.mismatches().is_empty(), "{:?}", report.mismatches());
    assert_eq!(report.source.more.get("retransmitted"), Some(&json!(0)), "a packet was lost");
    let drops = bed.drops("g").unwrap();
    assert!(drops.is_empty(), "drops were counted for the group: {drops:?}");
}

/// The tree to r3 leads over n4 or n5, and either of them and the edge n2 are stopped and killed; then the first stays away.
#[test]
fn a_tree_stays_while_agents_restart_and_leaves_a_node_whose_agent_stays_away() {
    let mut bed = up("figure1").unwrap();
    bed.lab.create_group("g", json!({"pathMtu": 1024})).unwrap();
    bed.limit("s1", 20).unwrap();
    let bytes = 96 << 20;
    let transfer = bed.lab.start_transfer(transfer(bytes, &["r3"])).unwrap();
    bed.wait_phase("g", "Ready").unwrap();
    let (transit, edge) = (bed.parent("g", "n2").unwrap(), "n2");
    let (before, members) = (epoch(&bed), members(&bed));

    // The transit node's last, whose silence has no meaning for 10 s.
    for victim in [edge, &transit] {
        bed.lab.stop_agent(victim).unwrap();
        restarts(&bed, victim);
    }
    let list = bed.canopyctl(&["get", "nodes"]).unwrap();
    assert_eq!(list.lines().filter(|row| row.contains("Restarting")).count(), 2, "{list}");
    // n6 is above the transit node, which is above the edge.
    mute(&bed, &transit, true);
    bed.lab.wait("its neighbour to miss it", |_| Ok(reports_silence(&bed, "n6"))).unwrap();
    mute(&bed, &transit, false);
    bed.lab.wait("its neighbour to have answers", |_| Ok(!reports_silence(&bed, "n6"))).unwrap();
    for victim in [&transit, edge] {
        bed.lab.start_agent(victim).unwrap();
        ready(&bed, victim);
    }
    bed.lab.kill_agent(&transit).unwrap();
    restarts(&bed, &transit);
    bed.lab.start_agent(&transit).unwrap();
    ready(&bed, &transit);
    assert!(
        bed.sent_by("s1").unwrap() < bytes,
        "the transfer was over before the agents were back: this proves nothing"
    );
    assert_eq!((epoch(&bed), self::members(&bed)), (before, members));
    assert_eq!(events(&bed, "LinkDown"), Vec::<Value>::new());
    let opened = events(&bed, "ProblemOpened");
    assert!(!opened.iter().any(|e| e["detail"].as_str().unwrap().contains("Agent")), "{opened:?}");
    lost_nothing(&bed, transfer);

    bed.lab.kill_agent(&transit).unwrap();
    restarts(&bed, &transit);
    mute(&bed, &transit, true);
    bed.lab.wait("its neighbour to miss it", |_| Ok(reports_silence(&bed, "n6"))).unwrap();
    bed.lab.wait("the tree to leave it", |_| Ok(bed.parent("g", edge)? != transit)).unwrap();
    // By the controller's clock, so that a busy machine changes nothing.
    let at = |code: &str| {
        let of_it = |e: &&Value| code != "AgentDisconnected" || e["node"] == json!(transit);
        events(&bed, code).iter().filter(of_it).map(|e| e["timeUnixNs"].as_u64().unwrap()).max().unwrap()
    };
    assert!(at("LinkDown") >= at("AgentDisconnected") + 10_000_000_000, "silence counted before 10 s had passed");
    assert_eq!(connection(&bed, &transit), "AgentNotConnected");
}

/// Each agent in turn is killed a hundred times in all, and stopped for another version, which takes its maps over, fifty times.
#[test]
#[ignore = "about ten minutes: `make test-deep`"]
fn a_hundred_kills_and_fifty_upgrades_lose_no_packet_and_move_no_tree() {
    let mut bed = up("figure1").unwrap();
    bed.lab.create_group("g", json!({"pathMtu": 1024})).unwrap();
    bed.limit("s1", 8).unwrap();
    let bytes = 1 << 30;
    let receivers = ["r1", "r2", "r3", "r4", "r5"];
    let transfer = bed.lab.start_transfer(transfer(bytes, &receivers)).unwrap();
    bed.wait_phase("g", "Ready").unwrap();
    let before = epoch(&bed);
    let (mut slowest, mut total) = (Duration::ZERO, Duration::ZERO);
    let mut start = |bed: &mut Bed, victim: &str| {
        let begun = Instant::now();
        bed.lab.start_agent(victim).unwrap();
        ready(bed, victim);
        let took = begun.elapsed();
        assert!(took < READY_WITHIN, "{victim} was ready after {took:?}");
        (slowest, total) = (slowest.max(took), total + took);
    };
    let (kills, upgrades) = (100, 50);
    for (_, victim) in (0..kills).zip(NODES.iter().cycle()) {
        bed.lab.kill_agent(victim).unwrap();
        restarts(&bed, victim);
        start(&mut bed, victim);
    }
    // An upgrade, and the way back: the agent itself takes over what the other version has left.
    for (_, victim) in (0..upgrades).zip(NODES.iter().cycle()) {
        let (own, all) = (bed.pins(victim).unwrap(), bed.pins(victim).unwrap().parent().unwrap().to_owned());
        bed.lab.stop_agent(victim).unwrap();
        restarts(&bed, victim);
        let mut other = bed.lab.command(victim, env!("CARGO_BIN_EXE_other-agent")).unwrap();
        let out = other.arg(&all).output().unwrap();
        assert!(out.status.success(), "{victim}: {}", String::from_utf8_lossy(&out.stderr));
        assert_ne!(bed.pins(victim).unwrap(), own, "{victim}");
        start(&mut bed, victim);
        bed.lab.wait("the agent to take over", |_| Ok(bed.pins(victim).is_ok_and(|pins| pins == own))).unwrap();
    }
    assert!(bed.sent_by("s1").unwrap() < bytes, "the transfer was over before the last restart: this proves nothing");
    assert_eq!(epoch(&bed), before, "a tree moved");
    assert_eq!(events(&bed, "LinkDown"), Vec::<Value>::new());
    println!("{kills} kills, {upgrades} upgrades: ready after {:?}, at most {slowest:?}", total / (kills + upgrades));
    lost_nothing(&bed, transfer);
}

/// Controller and agents become those of the previous release and this one's again, in the order of docs/upgrades.md.
#[test]
#[ignore = "needs the previous release, which is built once: `make test-deep`"]
fn fifty_upgrades_from_the_previous_release_and_back_lose_no_packet_and_move_no_tree() {
    let previous =
        std::env::var_os("CANOPY_PREVIOUS").expect("set CANOPY_PREVIOUS to what scripts/previous-release.sh prints");
    let previous = Path::new(&previous);
    let mut bed = up_managed("figure1").unwrap();
    bed.lab.create_group("g", json!({"pathMtu": 1024})).unwrap();
    bed.limit("s1", 8).unwrap();
    let bytes = 1 << 30;
    let transfer = bed.lab.start_transfer(transfer(bytes, &["r1", "r2", "r3", "r4", "r5"])).unwrap();
    bed.wait_phase("g", "Ready").unwrap();
    let before = epoch(&bed);
    let (mut slowest, mut exchanges) = (Duration::ZERO, 0);
    let exchange_agents = |bed: &mut Bed, to: Option<&Path>, slowest: &mut Duration| {
        for node in NODES {
            bed.lab.stop_agent(node).unwrap();
            restarts(bed, node);
            bed.lab.set_directory(Some(node), to);
            let begun = Instant::now();
            bed.lab.start_agent(node).unwrap();
            ready(bed, node);
            let took = begun.elapsed();
            assert!(took < READY_WITHIN, "{node} was ready after {took:?}");
            *slowest = took.max(*slowest);
        }
    };
    let exchange_controller = |bed: &mut Bed, to: Option<&Path>| {
        bed.lab.kill_controller().unwrap();
        bed.lab.set_directory(None, to);
        bed.lab.start_controller().unwrap();
        bed.lab.wait_synced().unwrap();
    };
    let contracts = |bed: &Bed| {
        let of = |name: &&str| node(bed, name)["status"]["contract"].as_str().unwrap().to_owned();
        NODES.iter().map(of).collect::<std::collections::BTreeSet<_>>()
    };
    let newest = contracts(&bed);
    assert_eq!(newest.len(), 1, "{newest:?}");
    // A node has the contract of its agent once that has reported; until then the first one.
    let all_of_one = |bed: &Bed, is_newest: bool| {
        let is_it = |now: &std::collections::BTreeSet<String>| {
            now.len() == 1 && !now.contains("1.0") && (*now == newest) == is_newest
        };
        bed.lab.wait("every agent to have reported its contract", |_| Ok(is_it(&contracts(bed)))).unwrap();
    };
    while exchanges < 50 {
        exchange_agents(&mut bed, Some(previous), &mut slowest);
        all_of_one(&bed, false);
        exchange_controller(&mut bed, Some(previous));
        exchange_controller(&mut bed, None);
        exchange_agents(&mut bed, None, &mut slowest);
        all_of_one(&bed, true);
        exchanges += 2 * (NODES.len() + 1);
    }
    assert!(bed.sent_by("s1").unwrap() < bytes, "the transfer was over before the last exchange: this proves nothing");
    assert_eq!(epoch(&bed), before, "a tree moved");
    assert_eq!(events(&bed, "LinkDown"), Vec::<Value>::new());
    println!("{exchanges} exchanges with the release in {}: ready after at most {slowest:?}", previous.display());
    lost_nothing(&bed, transfer);
}
