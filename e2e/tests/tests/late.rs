// SPDX-License-Identifier: Apache-2.0
//! Receivers that join while data flows, and an edge that loses its state (decisions 3.13).
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "late/windows.rs"]
mod windows;

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use canopy_e2e::{Bed, up};
use canopy_lab::{Transfer, TransferSpec};
use serde_json::{Value, json};

const MIB: u64 = 1 << 20;
const MESSAGE: usize = 64 << 10;
/// The edge of the late receiver, and of r4.
const EDGE: &str = "n3";

/// A transfer to r1 and r3, and r4 behind the edge of the late receiver; r1 writes what it receives.
fn transfer(bed: &Bed, bytes: u64) -> Transfer {
    let timeout = Duration::from_secs(300);
    let mut spec = TransferSpec { timeout, ..TransferSpec::new("g", "s1", &["r1", "r3", "r4"], bytes) };
    spec.args.insert("s1".into(), ["--message-size", "64KiB", "--timeout", "50ms"].map(Into::into).into());
    spec.args.insert("r1".into(), vec!["--out".into(), out(bed, "r1").display().to_string()]);
    let transfer = bed.lab.start_transfer(spec).unwrap();
    bed.wait_phase("g", "Ready").unwrap();
    transfer
}

fn out(bed: &Bed, host: &str) -> PathBuf {
    bed.lab.dir().join(format!("{host}.out"))
}

/// A receiver that joins now and leaves after so many octets.
fn join(bed: &Bed, host: &str, bytes: u64) -> Child {
    let mut c = bed.lab.command(host, bed.lab.binary("canopy-rc").unwrap()).unwrap();
    c.args(["receive", "--controller", &format!("unix:{}/controller.sock", bed.lab.dir().display())]);
    c.args(["--group", "g", "--host", host, "--bytes", &bytes.to_string(), "--linger", "0ms", "--deadline", "120s"]);
    c.args(["--out", &out(bed, host).display().to_string(), "--leave", "--json"]);
    let log = fs::File::create(bed.lab.dir().join(format!("log/late-{host}.log"))).unwrap();
    c.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
}

fn member(bed: &Bed, host: &str) -> Value {
    bed.lab.rest("GET", &format!("/api/v1/groups/g/members/{host}"), None).unwrap().1
}

/// Starts the node's agent on nothing: no pins, as after a reboot.
fn lose_state(bed: &mut Bed, node: &str) {
    bed.lab.kill_agent(node).unwrap();
    fs::remove_dir_all(bed.lab.state().instance.agent_pins().join(node)).unwrap();
    bed.lab.start_agent(node).unwrap();
}

fn is_true(bed: &Bed, transfer: Transfer) {
    let report = transfer.finish(&bed.lab).unwrap();
    assert!(report.mismatches().is_empty(), "{:?}", report.mismatches());
    assert_eq!(report.source.more.get("false_acks"), Some(&json!(0)));
}

#[test]
fn an_edge_that_loses_its_state_continues_its_late_receiver_where_it_is() {
    let mut bed = up("figure1").unwrap();
    bed.lab.create_group("g", json!({"pathMtu": 1024})).unwrap();
    let transfer = transfer(&bed, 192 * MIB);
    let mut late = join(&bed, "r5", 64 * MIB);
    bed.lab.wait("where r5 started", |_| Ok(member(&bed, "r5")["status"]["start"].is_object())).unwrap();
    let known = member(&bed, "r5")["status"].clone();
    assert_eq!(known["late"], json!(true));
    assert!(known["start"]["shift"].as_u64() > Some(0), "{known}");
    // Its program has it.
    let synced = |_: &canopy_lab::Lab| Ok(bed.group("g")?["phase"] == "Ready");
    bed.lab.wait("the edge to have it", synced).unwrap();
    assert!(late.try_wait().unwrap().is_none(), "r5 was done before the edge lost its state: this proves nothing");
    lose_state(&mut bed, EDGE);
    assert!(late.wait().unwrap().success(), "r5 did not get its octets");
    is_true(&bed, transfer);
    // From a message on, octet by octet.
    let (all, got) = (fs::read(out(&bed, "r1")).unwrap(), fs::read(out(&bed, "r5")).unwrap());
    assert!(got.len() as u64 >= 64 * MIB);
    let starts = (0..=all.len() - got.len()).step_by(MESSAGE);
    let at =
        starts.into_iter().find(|at| all[*at..at + 64] == got[..64]).expect("its first message is one of the source's");
    assert!(at > 0 && all[at..at + got.len()] == got[..]);
}

#[test]
fn a_late_receiver_whose_start_is_lost_is_asked_to_join_again_and_the_others_continue() {
    let mut bed = up("figure1").unwrap();
    bed.lab.create_group("g", json!({"pathMtu": 1024})).unwrap();
    let transfer = transfer(&bed, 96 * MIB);
    // An application that joined and has not connected its queue pair yet.
    let body = json!({"apiVersion": "canopy/v1", "kind": "Member", "metadata": {"name": "r5"},
        "spec": {"host": "r5", "role": "receiver", "qpn": 0x222}});
    let (status, answer) = bed.lab.rest("POST", "/api/v1/groups/g/members", Some(&body)).unwrap();
    assert_eq!(status, 201, "{answer}");
    let state = |bed: &Bed| {
        let (_, telemetry) = bed.lab.rest("GET", "/api/v1/groups/g/telemetry", None).unwrap();
        let nodes = telemetry["items"].as_array().unwrap().clone();
        let branches = nodes.iter().flat_map(|n| n["branches"].as_array().cloned().unwrap_or_default());
        let of_r5 = branches.into_iter().find(|b| b["address"] == "2001:db8:0:5::1");
        of_r5.map_or(Value::Null, |b| b["late"].clone())
    };
    bed.lab.wait("r5 to be probed", |_| Ok(state(&bed) == "probing")).unwrap();
    lose_state(&mut bed, EDGE);
    let evicted = |_: &canopy_lab::Lab| Ok(bed.group("g")?["evicted"][0]["host"] == "r5");
    bed.lab.wait("r5 to be removed", evicted).unwrap();
    let reason = bed.group("g").unwrap()["evicted"][0]["reason"].as_str().unwrap().to_owned();
    println!("{reason}");
    assert!(
        reason.contains("node n3 lost its state") && reason.contains("reset the queue pair, then join"),
        "{reason}"
    );
    // It joins again, with a queue pair that expects the start PSN.
    let mut late = join(&bed, "r5", 4 * MIB);
    assert!(late.wait().unwrap().success(), "r5 did not get its octets");
    is_true(&bed, transfer);
}
