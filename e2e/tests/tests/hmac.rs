// SPDX-License-Identifier: Apache-2.0
//! The SRH HMAC TLV in a lab: its keys come into use, are replaced and given up under traffic, through restarts of the controller and
//! late agents, and no packet is dropped for it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::time::Duration;

use canopy_e2e::capture::Capture;
use canopy_e2e::{Bed, Paused, up};
use canopy_lab::TransferSpec;
use canopy_packet::srh::Srh;
use serde_json::{Value, json};

const RECEIVERS: [&str; 5] = ["r1", "r2", "r3", "r4", "r5"];
const BYTES: u64 = 64 << 20;
/// Rate of the source while keys change, so that it sends all the time.
const MBIT: u64 = 16;

fn hmac(bed: &Bed) -> Value {
    let (status, body) = bed.lab.rest("GET", "/api/v1/hmac", None).unwrap();
    assert_eq!(status, 200, "{body}");
    body
}

fn wait_phase(bed: &Bed, phase: &str) {
    bed.lab.wait(&format!("phase {phase}"), |_| Ok(hmac(bed)["phase"] == phase)).unwrap();
}

/// Restarts the controller with these settings, as after a crash.
fn restart(bed: &mut Bed, enabled: bool) {
    bed.lab.kill_controller().unwrap();
    let enabled = if enabled { "true" } else { "false" };
    bed.lab.set_environment(None, &[("CANOPY__HMAC__ENABLED", enabled), ("CANOPY__HMAC__FLAG_BIT", "linux")]);
    bed.lab.start_controller().unwrap();
}

fn ids(bed: &Bed) -> Vec<u64> {
    hmac(bed)["keys"].as_array().unwrap().iter().map(|k| k["id"].as_u64().unwrap()).collect()
}

/// The controller shows a phase that the late agent `node` holds, also after a restart, and continues once it is no longer late.
fn held(bed: &mut Bed, node: &str, phase: &str, paused: Paused) {
    let waits_for = |bed: &Bed| {
        let now = hmac(bed);
        now["phase"] == phase && now["unconfirmed"] == 1 && now["waiting"][0]["node"] == node
    };
    bed.lab.wait(&format!("{phase} to wait for {node} alone"), |_| Ok(waits_for(bed))).unwrap();
    let keys = ids(bed);
    restart(bed, true);
    bed.lab.wait(&format!("{phase} to wait for {node} alone after a restart"), |_| Ok(waits_for(bed))).unwrap();
    assert_eq!(ids(bed), keys);
    drop(paused);
}

#[test]
fn keys_come_into_use_and_rotate_under_traffic_and_no_packet_is_dropped() {
    let mut bed = up("figure1").unwrap();
    bed.lab.create_group("g", json!({"pathMtu": 1024, "minReceivers": RECEIVERS.len()})).unwrap();
    bed.limit("s1", MBIT).unwrap();
    let spec = TransferSpec {
        timeout: Duration::from_secs(400),
        leave: false,
        ..TransferSpec::new("g", "s1", &RECEIVERS, BYTES)
    };
    let transfer = bed.lab.start_transfer(spec).unwrap();
    bed.lab.wait("the transfer to be under way", |_| Ok(bed.sent_by("s1")? > 1 << 20)).unwrap();
    // Behind a node that copies to another one.
    let tap = Capture::start(&bed.lab, "n4", "eth1", "ip6 proto 43").unwrap();
    assert_eq!(hmac(&bed), json!({"phase": "Off", "keys": [], "unconfirmed": 0, "waiting": []}));
    restart(&mut bed, true);
    wait_phase(&bed, "On");
    let first = ids(&bed);
    let (status, body) = bed.lab.rest("POST", "/api/v1/hmac/rotate", None).unwrap();
    assert_eq!((status, body["phase"].as_str()), (200, Some("Accepting")), "{body}");
    wait_phase(&bed, "On");
    let second = ids(&bed);
    assert_ne!(first, second);

    // A late agent holds each phase, and the controller restarts in the middle of it.
    let paused = Paused::new(&bed, &["n2"]).unwrap();
    bed.lab.rest("POST", "/api/v1/hmac/rotate", None).unwrap();
    assert_eq!(bed.lab.rest("POST", "/api/v1/hmac/rotate", None).unwrap().0, 409);
    held(&mut bed, "n2", "Accepting", paused);
    wait_phase(&bed, "On");
    let third = ids(&bed);
    assert_ne!(second, third);

    // Off again: first nothing is required, then nothing is sent.
    restart(&mut bed, false);
    wait_phase(&bed, "Off");
    assert!(bed.sent_by("s1").unwrap() < BYTES, "all of this was under traffic");
    bed.limit("s1", 1000).unwrap();
    let report = transfer.finish(&bed.lab).unwrap();
    assert!(report.mismatches().is_empty(), "{:?}", report.mismatches());

    let signed: Vec<_> = tap.stop().unwrap().iter().map(|p| Srh::parse(&p.bytes[40..]).unwrap()).collect();
    let used: BTreeSet<Option<u64>> = signed.iter().map(|s| s.hmac.as_ref().map(|h| h.key_id.into())).collect();
    let wanted: BTreeSet<_> = [first, second, third].iter().map(|ids| Some(ids[0])).chain([None]).collect();
    assert_eq!(used, wanted, "packets with every key, and without one");
    assert!(signed.iter().all(|s| s.flags == if s.hmac.is_some() { 8 } else { 0 }));
    let drops: Vec<_> = bed.drops("g").unwrap().into_iter().filter(|(_, name, _)| name.starts_with("hmac")).collect();
    assert_eq!(drops, [], "no packet was dropped");
    println!(
        "{} encapsulated packets, {} without a TLV",
        signed.len(),
        signed.iter().filter(|s| s.hmac.is_none()).count()
    );
}
