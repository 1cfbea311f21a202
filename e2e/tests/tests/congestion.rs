// SPDX-License-Identifier: Apache-2.0
//! CNPs on their way to the source: counted per branch, merged per window, at most one per window at the source.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use canopy_e2e::up;
use canopy_lab::TransferSpec;
use serde_json::{Value, json};

#[test]
fn receivers_send_many_cnps_and_the_source_receives_one_a_window() {
    let bed = up("figure1").unwrap();
    let window = Duration::from_millis(5);
    bed.lab.create_group("g", json!({"pathMtu": 1024, "cnpWindowUs": window.as_micros() as u64})).unwrap();
    let mut spec = TransferSpec {
        timeout: Duration::from_secs(120),
        ..TransferSpec::new("g", "s1", &["r1", "r2", "r3", "r4", "r5"], 8 << 20)
    };
    // Every packet leaves the source marked CE: every receiver sends CNPs at its maximum rate.
    spec.args.insert("s1".into(), vec!["--traffic-class".into(), "3".into(), "--timeout".into(), "1s".into()]);
    let report = bed.lab.transfer(spec).unwrap();
    assert!(report.mismatches().is_empty());
    let count = |v: &Value| v["cnps_sent"].as_u64().unwrap();
    let sent: u64 = report.receivers.iter().map(|r| count(&r.exit)).sum();
    let got = report.source.more["cnps_received"].as_u64().unwrap();
    let windows = (report.source.seconds / window.as_secs_f64()).ceil() as u64 + 1;
    println!("{sent} CNPs sent by five receivers, {got} reached s1 in {windows} windows");
    assert!(got > 0, "the source received no CNP");
    assert!(got <= windows, "{got} CNPs in {windows} windows");
    assert!(sent > 2 * got, "{sent} sent, {got} received: nothing was merged");
    assert_eq!(report.source.more["bad_icrc"], json!(0), "a CNP of the network has a wrong ICRC");
}

#[test]
fn cnps_reach_the_source_while_every_agent_is_dead() {
    let mut bed = up("figure1").unwrap();
    let window = Duration::from_millis(5);
    bed.lab.create_group("g", json!({"pathMtu": 1024, "cnpWindowUs": window.as_micros() as u64})).unwrap();
    let bytes = 48 << 20;
    let mut spec = TransferSpec {
        timeout: Duration::from_secs(300),
        leave: false,
        ..TransferSpec::new("g", "s1", &["r1", "r2", "r3", "r4", "r5"], bytes)
    };
    spec.args.insert("s1".into(), vec!["--traffic-class".into(), "3".into(), "--timeout".into(), "1s".into()]);
    let transfer = bed.lab.start_transfer(spec).unwrap();
    let moved = |bed: &canopy_e2e::Bed| {
        bed.lab.link_counters().unwrap().iter().find(|l| l.a.device == "s1").unwrap().a_to_b.passed_octets.get()
    };
    bed.lab.wait("data", |_| Ok(moved(&bed) > bytes / 16)).unwrap();
    for node in ["n1", "n2", "n3", "n4", "n5", "n6"] {
        bed.lab.kill_agent(node).unwrap();
    }
    let left = 1.0 - moved(&bed) as f64 / bytes as f64;
    let report = transfer.finish(&bed.lab).unwrap();
    assert!(report.mismatches().is_empty());
    let got = report.source.more["cnps_received"].as_u64().unwrap();
    let windows = report.source.seconds / window.as_secs_f64();
    println!("{got} CNPs reached s1 in {windows:.0} windows; {:.0} % of the data passed without agents", 100.0 * left);
    assert!(left > 0.5, "the agents were there for most of the transfer: this proves nothing");
    assert!(got as f64 > windows / 4.0, "{got} CNPs in {windows} windows");
    assert!(got as f64 <= windows.ceil() + 1.0, "{got} CNPs in {windows} windows");
    assert_eq!(report.source.more["bad_icrc"], json!(0), "a CNP composed by the programs has a wrong ICRC");
}
