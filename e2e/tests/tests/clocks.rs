// SPDX-License-Identifier: Apache-2.0
//! Wall clocks that are wrong, and set under load: no decision depends on them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use canopy_e2e::{Bed, clock, up};
use canopy_host::{Client, JoinOptions};
use canopy_lab::TransferSpec;
use serde_json::{Value, json};

const MIB: u64 = 1 << 20;
const HOUR: i64 = 3600;
const NODES: [&str; 6] = ["n1", "n2", "n3", "n4", "n5", "n6"];
/// Events of these kinds would be wrong here.
const WRONG: [&str; 9] = [
    "MemberEvicted",
    "GroupFailed",
    "BranchStalled",
    "LinkLossy",
    "LinkSilent",
    "AgentDisconnected",
    "MoveGivenUp",
    "PolicyNotCarriedOut",
    "LateStartNotStored",
];

fn events(bed: &Bed) -> Vec<Value> {
    bed.lab.rest("GET", "/api/v1/events?limit=1000", None).unwrap().1["items"].as_array().unwrap().clone()
}

/// How far the controller's clock is off by its newest event, in seconds.
fn controller_is_off(bed: &Bed) -> i64 {
    let newest = events(bed).iter().max_by_key(|e| e["sequence"].as_u64()).unwrap()["timeUnixNs"].as_u64().unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    (newest / 1_000_000_000).cast_signed() - now.cast_signed()
}

#[test]
fn clocks_that_are_set_by_an_hour_under_load_end_nothing() {
    let mut bed = up("figure1").unwrap();
    for program in std::iter::once(None).chain(NODES.map(Some)) {
        clock::start(&mut bed, program, 0).unwrap();
    }
    bed.lab.wait_synced().unwrap();
    bed.lab.create_group("g", json!({"pathMtu": 1024, "stallPolicy": "evict", "stallAfterMs": 1000})).unwrap();
    bed.lab.create_group("leases", json!({})).unwrap();
    // A membership that lives as long as its lease.
    let client = Client::connect(bed.lab.host_socket("n1")).unwrap();
    let leased = client.join(JoinOptions::receiver("leases", "r2", 0x99)).unwrap();
    bed.limit("s1", 50).unwrap();
    let spec = TransferSpec {
        timeout: Duration::from_secs(300),
        ..TransferSpec::new("g", "s1", &["r1", "r3", "r4"], 96 * MIB)
    };
    let transfer = bed.lab.start_transfer(spec).unwrap();
    bed.wait_phase("g", "Ready").unwrap();
    let before = events(&bed).iter().filter_map(|e| e["sequence"].as_u64()).max().unwrap();
    // libfaketime takes a step to 0 for none.
    for (step, (controller, agents)) in
        [(HOUR, 0), (HOUR, -HOUR), (-HOUR, -HOUR), (-HOUR, HOUR), (1, 1)].into_iter().enumerate()
    {
        clock::set(&bed, None, controller).unwrap();
        for (i, node) in NODES.iter().enumerate() {
            // Neighbours disagree, too.
            clock::set(&bed, Some(node), if i % 2 == 0 { agents } else { -agents }).unwrap();
        }
        let name = format!("at{step}");
        bed.lab.create_group(&name, json!({})).unwrap();
        let member = json!({"apiVersion": "canopy/v1", "kind": "Member", "metadata": {"name": "r5"},
            "spec": {"host": "r5", "role": "source", "qpn": 0x500}});
        let set_clock = |_: &canopy_lab::Lab| {
            // Another reason of a group is an event.
            for method in ["POST", "DELETE"] {
                let path = if method == "POST" { "" } else { "/r5" };
                let body = (method == "POST").then_some(&member);
                bed.lab.rest(method, &format!("/api/v1/groups/{name}/members{path}"), body)?;
            }
            Ok((controller_is_off(&bed) - controller).abs() < 60)
        };
        bed.lab.wait("the controller's clock to be off", set_clock).unwrap();
        // Longer than every period after which something is evicted, ended or given up without news.
        let then = bed.sent_by("s1").unwrap();
        println!("controller {controller} s, agents {agents} s off; {} MiB sent", then / MIB);
        bed.lab.wait("data to flow", |_| Ok(bed.sent_by("s1")? > then + 10 * MIB)).unwrap();
        let group = bed.group("g").unwrap();
        assert_eq!((&group["phase"], &group["evicted"]), (&json!("Ready"), &json!([])), "{controller} {agents}");
    }
    let wrong: Vec<_> = events(&bed)
        .into_iter()
        .filter(|e| e["sequence"].as_u64() > Some(before) && WRONG.iter().any(|code| e["code"] == *code))
        .collect();
    assert_eq!(wrong, Vec::<Value>::new());
    assert_eq!(bed.group("leases").unwrap()["receivers"], 1, "a lease has ended");
    let report = transfer.finish(&bed.lab).unwrap();
    assert!(report.mismatches().is_empty(), "{:?}", report.mismatches());
    assert_eq!(report.source.more.get("false_acks"), Some(&json!(0)));
    leased.leave().unwrap();
}
