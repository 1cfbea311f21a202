// SPDX-License-Identifier: Apache-2.0
//! The headend takes data once every node has confirmed and the receivers are there (decisions 3.13).
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use canopy_e2e::capture::{ACKS, Capture, Way, check_no_false_ack};
use canopy_e2e::{Bed, Paused, up};
use canopy_lab::{TransferReport, TransferSpec};
use serde_json::json;

const MIB: u64 = 1 << 20;
const HEADEND: &str = "n6";

/// A source that starts to send at once.
fn at_once(receivers: &[&str]) -> TransferSpec {
    let mut spec =
        TransferSpec { timeout: Duration::from_secs(120), ..TransferSpec::new("g", "s1", receivers, 16 * MIB) };
    spec.args.insert("s1".into(), vec!["--at-once".into()]);
    spec
}

/// Waits until the headend has dropped data that came too early.
fn dropped_early(bed: &Bed) {
    let early =
        |(node, reason, packets): &(String, String, u64)| node == HEADEND && reason == "not_open" && *packets > 0;
    bed.lab.wait("data that comes too early", |_| Ok(bed.drops("g").is_ok_and(|d| d.iter().any(early)))).unwrap();
}

/// Octets that the headend sent towards the receivers.
fn sent_by_headend(bed: &Bed) -> u64 {
    let links = bed.lab.link_counters().unwrap();
    links.iter().filter(|l| l.a.device == HEADEND).map(|l| l.a_to_b.passed_octets.get()).sum()
}

fn condition(bed: &Bed) -> (String, String) {
    let status = bed.group("g").unwrap();
    let all = status["conditions"].as_array().unwrap();
    let open = all.iter().find(|c| c["type"] == "Open").unwrap();
    (open["status"].as_str().unwrap().into(), open["message"].as_str().unwrap().into())
}

fn is_true(report: &TransferReport) {
    assert!(report.mismatches().is_empty(), "{:?}", report.mismatches());
    assert_eq!(report.source.more.get("false_acks"), Some(&json!(0)));
}

#[test]
fn data_waits_until_every_node_has_confirmed_and_no_receiver_misses_the_first_packet() {
    let bed = up("figure1").unwrap();
    bed.lab.create_group("g", json!({"pathMtu": 1024})).unwrap();
    let late = Paused::new(&bed, &["n1"]).unwrap();
    let before = sent_by_headend(&bed);
    let transfer = bed.lab.start_transfer(at_once(&["r1", "r3", "r5"])).unwrap();
    dropped_early(&bed);
    let (open, message) = condition(&bed);
    assert_eq!((open.as_str(), message.as_str()), ("False", "the headend takes data once every node has confirmed"));
    // Feedback, neighbour discovery and STAMP only.
    assert!(sent_by_headend(&bed) - before < 64 << 10, "data passed the headend");
    drop(late);
    is_true(&transfer.finish(&bed.lab).unwrap());
}

#[test]
fn data_waits_for_as_many_receivers_as_the_group_asks_for_also_over_a_restart_of_the_controller() {
    let mut bed = up("figure1").unwrap();
    bed.lab.create_group("g", json!({"pathMtu": 1024, "minReceivers": 3})).unwrap();
    let join = |host: &str, qpn: u32| {
        let member = json!({"apiVersion": "canopy/v1", "kind": "Member", "metadata": {"name": host},
            "spec": {"host": host, "role": "receiver", "qpn": qpn}});
        let (status, body) = bed.lab.rest("POST", "/api/v1/groups/g/members", Some(&member)).unwrap();
        assert_eq!(status, 201, "{body}");
    };
    // A receiver that never answers: it is there for its place in the tree.
    join("r2", 0x222);
    let transfer = bed.lab.start_transfer(at_once(&["r1"])).unwrap();
    dropped_early(&bed);
    assert_eq!(condition(&bed).1, "2 of 3 receivers have joined; data is dropped until then (spec.minReceivers)");
    bed.lab.kill_controller().unwrap();
    bed.lab.start_controller().unwrap();
    bed.wait_phase("g", "Programming").unwrap();
    assert_eq!(condition(&bed).0, "False");
    let (status, body) = bed.lab.rest("DELETE", "/api/v1/groups/g/members/r2", None).unwrap();
    assert!(status < 300, "{body}");
    let group = json!({"apiVersion": "canopy/v1", "kind": "Group", "metadata": {"name": "g"},
        "spec": {"pathMtu": 1024, "minReceivers": 1}});
    let (status, body) = bed.lab.rest("PUT", "/api/v1/groups/g", Some(&group)).unwrap();
    assert!(status < 300, "{body}");
    is_true(&transfer.finish(&bed.lab).unwrap());
}

#[test]
fn data_that_no_receiver_gets_is_not_acknowledged() {
    let bed = up("figure1").unwrap();
    bed.lab.create_group("g", json!({"pathMtu": 1024})).unwrap();
    bed.limit("s1", 50).unwrap();
    let acks = |host: &str, way| Capture::start_one_way(&bed.lab, host, "eth0", way, ACKS).unwrap();
    let (at_source, at_r1) = (acks("s1", Way::In), acks("r1", Way::Out));
    let spec = TransferSpec { timeout: Duration::from_secs(300), ..TransferSpec::new("g", "s1", &["r1"], 256 * MIB) };
    let transfer = bed.lab.start_transfer(TransferSpec { lost: vec!["r1".into()], ..spec }).unwrap();
    bed.wait_phase("g", "Ready").unwrap();
    bed.lab.wait("data to flow", |_| Ok(bed.sent_by("s1")? > 4 * MIB)).unwrap();

    // An application that never connects its queue pair, and then the only receiver.
    let member = json!({"apiVersion": "canopy/v1", "kind": "Member", "metadata": {"name": "r5"},
        "spec": {"host": "r5", "role": "receiver", "qpn": 0x222}});
    let (status, body) = bed.lab.rest("POST", "/api/v1/groups/g/members", Some(&member)).unwrap();
    assert_eq!(status, 201, "{body}");
    bed.wait_phase("g", "Ready").unwrap();
    assert_eq!(bed.group("g").unwrap()["probing"], json!(["r5"]));
    let (status, body) = bed.lab.rest("DELETE", "/api/v1/groups/g/members/r1", None).unwrap();
    assert!(status < 300, "{body}");
    bed.wait_phase("g", "Pending").unwrap();
    let (open, message) = condition(&bed);
    assert_eq!(open, "False");
    assert!(message.contains("r5 joined late and has not answered a probe"), "{message}");
    // The source repeats what is not acknowledged.
    let refused = |d: &(String, String, u64)| (d.0.as_str(), d.1.as_str()) == (HEADEND, "no_receiver") && d.2 > 100;
    bed.lab.wait("data to be dropped", |_| Ok(bed.drops("g")?.iter().any(refused))).unwrap();
    let start = bed.group("g").unwrap()["connection"]["startPsn"].as_u64().unwrap();
    let checked = check_no_false_ack(start, &at_source.stop().unwrap(), &[at_r1.stop().unwrap()]).unwrap();
    println!("{checked} ACKs at the source, none of them false");

    // One that does connect it: the source continues, and the first one holds no other up.
    let mut late = bed.lab.command("r4", bed.lab.binary("canopy-rc").unwrap()).unwrap();
    late.args(["receive", "--controller", &format!("unix:{}/controller.sock", bed.lab.dir().display())]);
    late.args(["--group", "g", "--host", "r4", "--bytes", "4MiB", "--linger", "0ms", "--deadline", "60s", "--json"]);
    let late = late.output().unwrap();
    assert!(
        late.status.success(),
        "{}{}",
        String::from_utf8_lossy(&late.stdout),
        String::from_utf8_lossy(&late.stderr)
    );
    drop(transfer);
}
