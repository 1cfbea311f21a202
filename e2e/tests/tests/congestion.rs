// SPDX-License-Identifier: Apache-2.0
//! CNPs on their way to the source: counted per branch, merged per window, at most one per window at the source.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::Ipv6Addr;
use std::time::Duration;

use canopy_e2e::cnps::{CnpTaps, Cnps, now_ns};
use canopy_e2e::{Bed, up};
use canopy_lab::{Transfer, TransferSpec};
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

const WINDOW: Duration = Duration::from_millis(5);
const NODES: [&str; 6] = ["n1", "n2", "n3", "n4", "n5", "n6"];

/// A group with this window, whose source's packets are all marked CE, slowly: every receiver answers each with a CNP. Its Proxy Address.
fn start(bed: &Bed, group: &str, receivers: &[&str], bytes: u64) -> (Ipv6Addr, Transfer) {
    bed.lab.create_group(group, json!({"pathMtu": 1024, "cnpWindowUs": WINDOW.as_micros() as u64})).unwrap();
    let mut spec = TransferSpec {
        timeout: Duration::from_secs(300),
        leave: false,
        ..TransferSpec::new(group, "s1", receivers, bytes)
    };
    let args = ["--traffic-class", "3", "--timeout", "1s", "--ignore-cnps"];
    spec.args.insert("s1".into(), args.map(Into::into).into());
    let before = bed.sent_by("s1").unwrap();
    let transfer = bed.lab.start_transfer(spec).unwrap();
    bed.lab.wait("data", |_| Ok(bed.sent_by("s1")? > before + (1 << 20))).unwrap();
    (bed.group(group).unwrap()["connection"]["proxyAddress"].as_str().unwrap().parse().unwrap(), transfer)
}

/// One CNP per window in which receivers sent any: never more in a second, and not less in all.
fn one_per_window(cnps: &Cnps, what: &str, from: u64, to: u64) {
    const SECOND: u64 = 1_000_000_000;
    let per_second = SECOND / WINDOW.as_nanos() as u64;
    let seconds: Vec<(u64, u64)> =
        (from..to).step_by(SECOND as usize).map(|at| cnps.between(at, at + SECOND, WINDOW)).collect();
    println!("{what}: CNPs at the source of windows with CNPs of receivers, by second: {seconds:?}");
    // At either end of a second there is a part of a window.
    assert!(seconds.iter().all(|(received, _)| *received <= per_second + 2), "{what}: {seconds:?}");
    let (received, sent) = cnps.between(from, to, WINDOW);
    assert!(sent > (to - from) / SECOND * per_second / 2, "{what}: receivers sent in {sent} windows only");
    assert!(received as f64 >= 0.9 * sent as f64, "{what}: {received} CNPs of {sent} windows");
}

/// The programs alone carry congestion to the source (decisions 3.12), and a chain of windows of three nodes loses none.
#[test]
fn one_cnp_a_window_reaches_the_source_while_agents_are_dead() {
    let mut bed = up("figure1").unwrap();
    bed.limit("s1", 20).unwrap();
    let (proxy, transfer) = start(&bed, "g", &["r1", "r3"], 112 << 20);
    let taps = CnpTaps::start(&bed.lab, proxy, "s1", &["r1", "r3"]).unwrap();
    let mut spans = Vec::new();
    for dead in [&NODES[..1], &NODES[..]] {
        for node in dead {
            bed.lab.kill_agent(node).unwrap();
        }
        let from = now_ns().unwrap();
        std::thread::sleep(Duration::from_secs(10));
        spans.push((format!("{} agents dead", dead.len()), from, now_ns().unwrap()));
        let from = now_ns().unwrap();
        for node in dead {
            bed.lab.start_agent(node).unwrap();
        }
        bed.lab.wait_synced().unwrap();
        std::thread::sleep(Duration::from_secs(3));
        spans.push((format!("{} agents started", dead.len()), from, now_ns().unwrap()));
    }
    assert!(bed.sent_by("s1").unwrap() < 112 << 20, "the transfer ended too early: this proves nothing");
    bed.limit("s1", 1000).unwrap();
    let report = transfer.finish(&bed.lab).unwrap();
    let cnps = taps.stop().unwrap();
    for (what, from, to) in &spans {
        one_per_window(&cnps, what, *from, *to);
    }
    assert!(report.mismatches().is_empty());
    assert_eq!(report.source.more["bad_icrc"], json!(0), "a CNP composed by the programs has a wrong ICRC");
}

/// Fatal NAKs of a receiver of another group, at the edge that both groups have in common: they are state of that receiver's branch, and
/// neither fill a ring buffer nor delay a CNP.
#[test]
fn a_flood_of_fatal_naks_in_one_group_takes_no_cnp_of_another() {
    const RATE: u64 = 25_000;
    const SECONDS: u64 = 6;
    let bed = up("figure1").unwrap();
    bed.limit("s1", 20).unwrap();
    // r5 has no queue pair, so nothing confirms its branch, and the source of g stalls.
    bed.lab.create_group("g", json!({"pathMtu": 1024})).unwrap();
    let member = json!({"apiVersion": "canopy/v1", "kind": "Member", "metadata": {"name": "r5"},
        "spec": {"host": "r5", "role": "receiver", "qpn": 0x222}});
    let (status, body) = bed.lab.rest("POST", "/api/v1/groups/g/members", Some(&member)).unwrap();
    assert_eq!(status, 201, "{body}");
    let mut stalled =
        TransferSpec { timeout: Duration::from_secs(300), ..TransferSpec::new("g", "s1", &["r2"], 1 << 20) };
    // It sends few packets again, and not often: h has the link.
    stalled.args.insert("s1".into(), ["--window", "16", "--timeout", "1s"].map(Into::into).into());
    let stalled = bed.lab.start_transfer(stalled).unwrap();
    bed.wait_phase("g", "Ready").unwrap();
    let (proxy, transfer) = start(&bed, "h", &["r1", "r4"], 96 << 20);
    let taps = CnpTaps::start(&bed.lab, proxy, "s1", &["r1", "r4"]).unwrap();

    let begun = now_ns().unwrap();
    std::thread::sleep(Duration::from_secs(SECONDS));
    let flooded = now_ns().unwrap();
    let g = bed.group("g").unwrap()["connection"].clone();
    let what = json!({
        "host": "2001:db8:0:5::1", "proxy": g["proxyAddress"], "dqpn": g["designatedQpn"], "psn": g["startPsn"],
        "mac": bed.mac("n3", "eth3").unwrap(), "interface": "eth0", "rate": RATE, "seconds": SECONDS,
    });
    let flood = bed.attack("r5", "fatal.py", &what).unwrap();
    let ended = now_ns().unwrap();
    bed.limit("s1", 1000).unwrap();
    assert!(transfer.finish(&bed.lab).unwrap().mismatches().is_empty());
    let cnps = taps.stop().unwrap();
    let sent = flood["sent"].as_u64().unwrap();
    let mut drops = Vec::new();
    let of_flood = |drop: &(String, String, u64)| drop.0 == "n3" && drop.1 == "nak_fatal";
    let counted = bed.lab.wait("the flood to be counted", |_| {
        drops = bed.drops("g")?;
        Ok(drops.iter().find(|d| of_flood(d)).is_some_and(|d| d.2 == sent))
    });
    assert!(counted.is_ok(), "{sent} sent, dropped {drops:?}");
    let rate = sent as f64 / flood["seconds"].as_f64().unwrap();
    let (alone, beside) = (cnps.between(begun, flooded, WINDOW), cnps.between(flooded, ended, WINDOW));
    println!("{rate:.0} fatal NAKs a second; CNPs of windows with CNPs: {alone:?} before, {beside:?} with the flood");
    assert!(rate > 0.95 * RATE as f64, "{rate:.0} fatal NAKs a second are no flood of {RATE}");
    assert!(alone.1 > 200 && beside.1 > 200, "too few windows: {alone:?} {beside:?}");
    let share = |(received, sent): (u64, u64)| received as f64 / sent as f64;
    assert!(share(alone) >= 0.9 && share(beside) >= 0.9 * share(alone), "{alone:?} {beside:?}");
    for group in ["g", "h"] {
        let drops = bed.drops(group).unwrap();
        assert!(!drops.iter().any(|d| d.1 == "event_lost"), "{drops:?}");
    }
    let (_, events) = bed.lab.rest("GET", "/api/v1/events", None).unwrap();
    let fatal: Vec<_> = events["items"].as_array().unwrap().iter().filter(|e| e["code"] == "FatalNak").collect();
    assert_eq!(fatal.len(), 1, "{fatal:?}");
    assert_eq!((&fatal[0]["node"], &fatal[0]["group"]), (&json!("n3"), &json!("g")));
    drop(stalled);
}
