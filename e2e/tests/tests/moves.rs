// SPDX-License-Identifier: Apache-2.0
//! The tree moves while agents are late (decisions 3.9, 3.14): data that a receiver lacks is not acknowledged, and the tree in force stays
//! until the next one is made.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;
use std::time::Duration;

use canopy_e2e::capture::{ACKS, Capture, check_no_false_ack};
use canopy_e2e::moves::connects;
use canopy_e2e::{Bed, Paused, up};
use canopy_lab::TransferSpec;
use serde_json::{Value, json};

/// n2, with r3 behind it, has two possible parents.
const MOVES: &str = "n2";
const PARENTS: [&str; 2] = ["n4", "n5"];
const ROOT: &str = "n6";

/// The node that sends n2 its copies.
fn parent(bed: &Bed) -> String {
    bed.parent("g", MOVES).unwrap()
}

/// Drains the link of `parent` and n2, and no other.
fn drain(bed: &Bed, parent: &str) {
    bed.change_links(|link| link["drained"] = json!(connects(link, parent, MOVES))).unwrap();
}

/// The port of a parent that leads to n2.
fn port_to_n2(parent: &str) -> &'static str {
    if parent == "n4" { "eth3" } else { "eth2" }
}

/// Deletes a node's interface, and with it the other end of its link.
fn remove(bed: &Bed, port: &str) {
    let (device, interface) = port.split_once('/').unwrap();
    let namespace = bed.lab.state().instance.namespace(device);
    let done = Command::new("ip").args(["-n", &namespace, "link", "del", interface]).status().unwrap();
    assert!(done.success(), "{port}");
}

fn node(bed: &Bed, name: &str) -> Value {
    bed.lab.rest("GET", &format!("/api/v1/nodes/{name}"), None).unwrap().1
}

fn sent_by_source(bed: &Bed) -> u64 {
    let links = bed.lab.link_counters().unwrap();
    links.iter().find(|l| l.a.device == "s1").unwrap().a_to_b.passed_octets.get()
}

/// The old parent has adopted the new program and no longer counts n2; the new parent and the headend have not, and r3 receives
/// nothing. The headend must not count the old parent's feedback, which would acknowledge data that r3 lacks.
#[test]
fn a_link_lost_while_two_agents_are_paused_acknowledges_nothing_that_a_receiver_lacks() {
    let bed = up("figure1").unwrap();
    bed.lab.create_group("g", json!({"pathMtu": 1024})).unwrap();
    let start = bed.group("g").unwrap()["connection"]["startPsn"].as_u64().unwrap();
    let tap = |host: &str, filter: String| Capture::start(&bed.lab, host, "eth0", &filter).unwrap();
    let receiver = tap("r3", format!("{ACKS} and src host 2001:db8:0:3::1"));
    let source = tap("s1", format!("{ACKS} and dst host 2001:db8:0:100::1"));
    let mut spec = TransferSpec {
        timeout: Duration::from_secs(240),
        leave: false,
        ..TransferSpec::new("g", "s1", &["r1", "r2", "r3", "r4", "r5"], 64 << 20)
    };
    spec.args.insert("s1".into(), ["--timeout", "100ms", "--retries", "0"].map(Into::into).into());
    let transfer = bed.lab.start_transfer(spec).unwrap();
    bed.lab.wait("the transfer to be under way", |_| Ok(sent_by_source(&bed) > 1 << 20)).unwrap();
    let old = parent(&bed);
    let new = PARENTS.into_iter().find(|p| *p != old).unwrap();
    let epoch = bed.group("g").unwrap()["epoch"].as_u64();

    let paused = Paused::new(&bed, &[new, ROOT]).unwrap();
    bed.lab.set_loss("r3/eth0", "100%".parse().unwrap()).unwrap();
    // Both ends of the link are gone: the tree moves at once, because the old one cannot carry data to n2.
    remove(&bed, &format!("{old}/{}", port_to_n2(&old)));
    bed.lab
        .wait("the old parent to adopt the new program", |_| {
            let at = node(&bed, &old);
            let synced = at["status"]["observedGeneration"] == at["spec"]["generation"];
            Ok(synced && parent(&bed) == new && bed.group("g")?["epoch"].as_u64() > epoch)
        })
        .unwrap();
    // Retransmissions only: the source sends on as long as it gets no ACK of r3's data.
    let before = sent_by_source(&bed);
    bed.lab.wait("the source to send more", |_| Ok(sent_by_source(&bed) > before + (256 << 10))).unwrap();
    bed.lab.set_loss("r3/eth0", "0%".parse().unwrap()).unwrap();
    drop(paused);

    let report = transfer.finish(&bed.lab).unwrap();
    assert!(report.mismatches().is_empty(), "{:?}", report.mismatches());
    let acks = check_no_false_ack(start, &source.stop().unwrap(), &[receiver.stop().unwrap()]).unwrap();
    println!("{acks} acknowledgements at s1, none of them false");
    let ahead = |drop: &(String, String, u64)| drop.0 == ROOT && drop.1 == "epoch_ahead" && drop.2 > 0;
    let counted = || Ok(bed.drops("g")?.iter().any(ahead));
    bed.lab.wait("the refused feedback to be counted", |_| counted()).unwrap();
}

/// The agent of the new parent is stopped: the drained tree carries the data, the move is given up with the reason, and takes place when
/// the agent continues.
#[test]
fn a_drained_tree_stays_in_force_until_the_next_one_is_made() {
    let bed = up("figure1").unwrap();
    bed.lab.create_group("g", json!({"pathMtu": 1024})).unwrap();
    let transfer = |leave| {
        let spec = TransferSpec { leave, ..TransferSpec::new("g", "s1", &["r1", "r3", "r4"], 8 << 20) };
        let report = bed.lab.start_transfer(spec).unwrap().finish(&bed.lab).unwrap();
        assert!(report.mismatches().is_empty(), "{:?}", report.mismatches());
    };
    // Its members stay.
    transfer(false);
    bed.wait_phase("g", "Ready").unwrap();
    let old = parent(&bed);
    let new = PARENTS.into_iter().find(|p| *p != old).unwrap();
    let epoch = bed.group("g").unwrap()["epoch"].as_u64().unwrap();

    let paused = Paused::new(&bed, &[new]).unwrap();
    drain(&bed, &old);
    let moved = || bed.moved("g").unwrap();
    let making = moved();
    assert!(!making.holds && making.reason == "Making", "{making:?}");
    assert!(making.message.contains(&format!("node {new} ")), "{making:?}");
    // A receiver joins on the tree in force, late.
    let spec = json!({"host": "r5", "role": "receiver", "qpn": 77});
    let member = json!({"apiVersion": "canopy/v1", "kind": "Member", "metadata": {"name": "r5"}, "spec": spec});
    let (status, body) = bed.lab.rest("POST", "/api/v1/groups/g/members", Some(&member)).unwrap();
    assert_eq!(status, 201, "{body}");
    bed.lab.wait("the move to be given up", |_| Ok(moved().reason == "GivenUp")).unwrap();
    let message = moved().message;
    println!("{message}");
    // The controller may have noticed by then that the agent does not answer.
    let reasons = [format!("node {new} has not confirmed its program"), format!("the agent on {new} is not connected")];
    assert!(reasons.iter().any(|reason| message.contains(reason)), "{message}");
    let group = bed.group("g").unwrap();
    assert_eq!((parent(&bed).as_str(), group["epoch"].as_u64()), (old.as_str(), Some(epoch + 1)), "r5's join");
    assert_eq!(group["phase"], "Degraded");
    let (_, events) = bed.lab.rest("GET", "/api/v1/events", None).unwrap();
    let given_up = |e: &Value| e["code"] == "MoveGivenUp" && e["node"] == new && e["group"] == "g";
    assert!(events["items"].as_array().unwrap().iter().any(given_up), "{events}");

    drop(paused);
    bed.lab.wait("the tree to move", |_| Ok(moved().holds && parent(&bed) == new)).unwrap();
    bed.wait_phase("g", "Ready").unwrap();
}

#[test]
fn a_drain_moves_the_tree_under_load_and_an_applied_topology_keeps_it() {
    let bed = up("figure1").unwrap();
    bed.lab.create_group("g", json!({"pathMtu": 1024})).unwrap();
    bed.limit("s1", 100).unwrap();
    let spec = TransferSpec {
        timeout: Duration::from_secs(240),
        leave: false,
        ..TransferSpec::new("g", "s1", &["r1", "r2", "r3", "r4", "r5"], 96 << 20)
    };
    let transfer = bed.lab.start_transfer(spec).unwrap();
    bed.lab.wait("data to flow", |_| Ok(sent_by_source(&bed) > 1 << 20)).unwrap();
    let old = parent(&bed);
    let end = format!("{old}/{}", port_to_n2(&old));
    let drained = bed.canopyctl(&["drain", "link", &end, "--reason", "optics", "--wait", "60s"]).unwrap();
    assert!(drained.ends_with("no group uses its 1 links any more\n"), "{drained}");
    assert_ne!(parent(&bed), old);
    // Another operator applies the topology of before, which drains nothing.
    bed.lab.apply_topology().unwrap();
    bed.lab.wait("the topology to be in force", |_| Ok(bed.moved("g")?.holds)).unwrap();
    assert_ne!(parent(&bed), old);
    let list = bed.canopyctl(&["get", "drains"]).unwrap();
    assert!(list.contains("optics") && list.contains(&old), "{list}");
    // A node that serves receivers is refused, with their names.
    let refused = bed.canopyctl(&["drain", "node", MOVES, "--reason", "kernel"]).unwrap_err().to_string();
    assert!(refused.contains("r3") && refused.contains("--accept-loss"), "{refused}");
    assert!(bed.canopyctl(&["undrain", &end]).unwrap().contains("deleted"));
    bed.lab.wait("the tree to return", |_| Ok(parent(&bed) == old)).unwrap();
    // The controller ends one by itself.
    let drained = bed.canopyctl(&["drain", "link", &end, "--reason", "fans", "--for", "5s"]).unwrap();
    assert!(drained.contains("it ends by itself at 20"), "{drained}");
    bed.lab.wait("the drain to end", |_| Ok(!bed.canopyctl(&["get", "drains"])?.contains("fans"))).unwrap();
    bed.lab.wait("the tree to return again", |_| Ok(bed.moved("g")?.holds && parent(&bed) == old)).unwrap();
    let audit = bed.canopyctl(&["audit", "--kind", "drain", "-n", "1"]).unwrap();
    assert!(audit.contains("the controller"), "{audit}");
    let report = transfer.finish(&bed.lab).unwrap();
    assert!(report.mismatches().is_empty(), "{:?}", report.mismatches());
}
