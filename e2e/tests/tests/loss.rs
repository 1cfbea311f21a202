// SPDX-License-Identifier: Apache-2.0
//! Links that lose packets although their carriers are up (decisions 3.14).
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use canopy_e2e::{Bed, deep, up};
use canopy_lab::TransferSpec;
use serde_json::{Value, json};

/// n2 has two possible parents; the port of each that leads there.
const TO_N2: [(&str, &str); 2] = [("n4", "eth3"), ("n5", "eth2")];

fn parent(bed: &Bed) -> String {
    let status = bed.group("g").unwrap();
    let tree = status["tree"].as_array().unwrap().iter().find(|n| n["node"] == "n2").cloned();
    tree.unwrap()["parent"].as_str().unwrap().to_owned()
}

fn events(bed: &Bed, code: &str) -> Vec<Value> {
    let (_, events) = bed.lab.rest("GET", "/api/v1/events", None).unwrap();
    events["items"].as_array().unwrap().iter().filter(|e| e["code"] == code).cloned().collect()
}

/// Data flows on once the tree has left the link, and agents that are all restarted one after the other report no link down.
#[test]
fn a_link_that_loses_every_packet_is_named_and_left_and_taken_back() {
    let mut bed = up("figure1").unwrap();
    bed.lab.create_group("g", json!({"pathMtu": 1024, "stallAfterMs": 60_000})).unwrap();
    let mut spec = TransferSpec {
        timeout: Duration::from_secs(120),
        leave: false,
        ..TransferSpec::new("g", "s1", &["r1", "r2", "r3", "r4", "r5"], 192 << 20)
    };
    spec.args.insert("s1".into(), ["--timeout", "100ms", "--retries", "0"].map(Into::into).into());
    let transfer = bed.lab.start_transfer(spec).unwrap();
    let octets = || {
        let links = bed.lab.link_counters().unwrap();
        links.iter().find(|l| l.a.device == "s1").unwrap().a_to_b.passed_octets.get()
    };
    bed.lab.wait("the transfer to be under way", |_| Ok(octets() > 1 << 20)).unwrap();
    let old = parent(&bed);
    let (_, port) = TO_N2.into_iter().find(|(node, _)| *node == old).unwrap();
    let link = format!("{old}/{port}");
    assert_eq!(events(&bed, "LinkDown"), Vec::<Value>::new());

    bed.lab.set_loss(&link, "100%".parse().unwrap()).unwrap();
    let from = Instant::now();
    bed.lab.wait("the tree to leave the link", |_| Ok(parent(&bed) != old)).unwrap();
    println!("left {:?} after the loss began", from.elapsed());
    let named = |e: &Value| {
        let detail = e["detail"].as_str().unwrap();
        (e["node"] == old || e["node"] == "n2") && detail.contains("loses every packet")
    };
    let down = events(&bed, "LinkDown");
    println!("{}", down[0]["detail"]);
    assert!(!down.is_empty() && down.iter().all(named), "{down:?}");
    let report = transfer.finish(&bed.lab).unwrap();
    assert!(report.mismatches().is_empty(), "{:?}", report.mismatches());

    bed.lab.set_loss(&link, "0%".parse().unwrap()).unwrap();
    bed.lab.wait("the tree to return", |_| Ok(parent(&bed) == old)).unwrap();
    bed.wait_phase("g", "Ready").unwrap();

    let before = events(&bed, "LinkDown").len();
    for n in 1..=6 {
        let node = format!("n{n}");
        bed.lab.kill_agent(&node).unwrap();
        bed.lab.start_agent(&node).unwrap();
    }
    bed.wait_phase("g", "Ready").unwrap();
    assert_eq!(events(&bed, "LinkDown").len(), before, "{:?}", events(&bed, "LinkDown"));
}

fn lossy(bed: &Bed) -> Value {
    let status = bed.group("g").unwrap();
    status["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "Lossy").cloned().unwrap()
}

/// One packet in twenty, in one direction: the group continues, more slowly, and operators know which link to inspect.
#[test]
fn a_link_that_loses_a_twentieth_is_named_in_an_event_the_group_and_the_link() {
    let bed = up("figure1").unwrap();
    bed.lab.create_group("g", json!({"pathMtu": 1024, "stallAfterMs": 60_000})).unwrap();
    let mut spec = TransferSpec {
        timeout: Duration::from_secs(240),
        leave: false,
        ..TransferSpec::new("g", "s1", &["r1", "r2", "r3", "r4", "r5"], 384 << 20)
    };
    spec.args.insert("s1".into(), ["--timeout", "100ms", "--retries", "0"].map(Into::into).into());
    let transfer = bed.lab.start_transfer(spec).unwrap();
    let octets = || {
        let links = bed.lab.link_counters().unwrap();
        links.iter().find(|l| l.a.device == "s1").unwrap().a_to_b.passed_octets.get()
    };
    bed.lab.wait("the transfer to be under way", |_| Ok(octets() > 96 << 20)).unwrap();
    assert_eq!(events(&bed, "LinkLossy"), Vec::<Value>::new(), "nothing is lost yet");
    let parent = parent(&bed);
    let (_, port) = TO_N2.into_iter().find(|(node, _)| *node == parent).unwrap();
    let end = format!("{parent}/{port}");

    bed.lab.set_loss_from(&end, "5%".parse().unwrap()).unwrap();
    let from = Instant::now();
    bed.lab.wait("an event", |_| Ok(!events(&bed, "LinkLossy").is_empty())).unwrap();
    println!("named {:?} after the loss began", from.elapsed());
    bed.lab.wait("the condition", |_| Ok(lossy(&bed)["status"] == "True")).unwrap();
    let found = events(&bed, "LinkLossy");
    println!("{}\n{}", found[0]["detail"], lossy(&bed)["message"]);
    assert!(found.len() == 1 && found[0]["detail"].as_str().unwrap().contains(&end), "{found:?}");
    assert!(lossy(&bed)["message"].as_str().unwrap().contains(&end), "{}", lossy(&bed));
    assert_eq!(bed.group("g").unwrap()["phase"], "Ready");
    let (_, link) = bed.lab.rest("GET", &format!("/api/v1/links/{end}"), None).unwrap();
    assert!(link["status"]["loss"]["permille"].as_u64().unwrap() >= 20, "{link}");
    assert_eq!(events(&bed, "LinkDown"), Vec::<Value>::new());

    bed.lab.set_loss_from(&end, "0%".parse().unwrap()).unwrap();
    bed.lab
        .wait("its end", |_| Ok(events(&bed, "LinkLossEnded").len() == 1 && lossy(&bed)["status"] == "False"))
        .unwrap();
    let report = transfer.finish(&bed.lab).unwrap();
    assert!(report.mismatches().is_empty(), "{:?}", report.mismatches());
    assert_eq!(events(&bed, "LinkLossy").len(), 1, "one alarm, no flapping");
}

/// Full load and agents that are restarted all the time, for half a minute; with `CANOPY_DEEP` for half an hour.
#[test]
fn a_link_that_loses_nothing_is_never_named() {
    let mut bed = up("figure1").unwrap();
    bed.lab.create_group("g", json!({"pathMtu": 1024, "stallAfterMs": 60_000})).unwrap();
    let lasts = Duration::from_secs(if deep() { 1800 } else { 30 });
    let alarms = |bed: &Bed| [events(bed, "LinkLossy"), events(bed, "LinkDown")].concat();
    let (from, mut transfers, mut restarts) = (Instant::now(), 0, 0);
    while from.elapsed() < lasts {
        let mut spec = TransferSpec {
            timeout: Duration::from_secs(240),
            ..TransferSpec::new("g", "s1", &["r1", "r2", "r3", "r4", "r5"], 96 << 20)
        };
        spec.args.insert("s1".into(), ["--timeout", "100ms", "--retries", "0"].map(Into::into).into());
        let transfer = bed.lab.start_transfer(spec).unwrap();
        let node = format!("n{}", restarts % 6 + 1);
        bed.lab.kill_agent(&node).unwrap();
        bed.lab.start_agent(&node).unwrap();
        restarts += 1;
        let report = transfer.finish(&bed.lab).unwrap();
        assert!(report.mismatches().is_empty(), "{:?}", report.mismatches());
        transfers += 1;
        assert_eq!(alarms(&bed), Vec::<Value>::new(), "after {:?}", from.elapsed());
    }
    println!("{transfers} transfers, {restarts} restarts in {:?}: no alarm", from.elapsed());
    let (_, links) = bed.lab.rest("GET", "/api/v1/links", None).unwrap();
    let requests = |l: &Value| l["status"]["loss"]["requests"].as_u64();
    let judged: Vec<u64> = links["items"].as_array().unwrap().iter().filter_map(requests).collect();
    assert!(judged.len() >= 10 && judged.iter().any(|n| *n > 100), "the agents measured too little: {judged:?}");
}
