// SPDX-License-Identifier: Apache-2.0
//! An agent is replaced by one whose maps have another layout, under traffic.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use canopy_e2e::{Bed, up};
use canopy_lab::TransferSpec;
use serde_json::{Value, json};

const RECEIVERS: [&str; 5] = ["r1", "r2", "r3", "r4", "r5"];
const NODES: [&str; 6] = ["n1", "n2", "n3", "n4", "n5", "n6"];

/// Branches of the group at a node whose next PSN is unknown, read from the kernel's map.
fn unconfirmed(bed: &Bed, node: &str) -> Vec<Value> {
    let map = bed.pins(node).unwrap().join("states");
    let out = std::process::Command::new("bpftool").args(["-j", "map", "dump", "pinned"]).arg(map).output().unwrap();
    let entries: Value = serde_json::from_slice(&out.stdout).unwrap();
    let state = &entries[0]["formatted"]["value"];
    assert!(state["high"].as_u64().unwrap() > 0 && state["carrying"] == 0, "{node}: {state}");
    state["unconfirmed"]["word"].as_array().unwrap().iter().filter(|word| **word != json!(0)).cloned().collect()
}

#[test]
fn agents_with_another_map_layout_take_over_without_losing_a_packet() {
    let mut bed = up("figure1").unwrap();
    bed.lab.create_group("g", json!({"pathMtu": 1024})).unwrap();
    let bytes = 256 << 20;
    let mut spec = TransferSpec {
        timeout: Duration::from_secs(600),
        leave: false,
        ..TransferSpec::new("g", "s1", &RECEIVERS, bytes)
    };
    // Every retransmission means that a packet or an ACK was lost.
    spec.args.insert("s1".into(), vec!["--timeout".into(), "1s".into()]);
    let transfer = bed.lab.start_transfer(spec).unwrap();
    bed.wait_phase("g", "Ready").unwrap();
    let moved = |bed: &Bed| {
        bed.lab.link_counters().unwrap().iter().find(|l| l.a.device == "s1").unwrap().a_to_b.passed_octets.get()
    };
    for (i, node) in NODES.iter().enumerate() {
        bed.lab.wait("the transfer to continue", |_| Ok(moved(&bed) > bytes / 8 * (i as u64 + 1))).unwrap();
        let (own, all) = (bed.pins(node).unwrap(), bed.pins(node).unwrap().parent().unwrap().to_owned());
        bed.lab.kill_agent(node).unwrap();
        let mut other = bed.lab.command(node, env!("CARGO_BIN_EXE_other-agent")).unwrap();
        let out = other.arg(&all).output().unwrap();
        assert!(out.status.success(), "{node}: {}", String::from_utf8_lossy(&out.stderr));
        assert_ne!(bed.pins(node).unwrap(), own, "{node}");
        let before = moved(&bed);
        bed.lab.wait("the other programs to forward", |_| Ok(moved(&bed) > before + (1 << 20))).unwrap();
        bed.lab.start_agent(node).unwrap();
        bed.lab.wait("the agent to take over", |_| Ok(bed.pins(node).is_ok_and(|pins| pins == own))).unwrap();
        assert_eq!(unconfirmed(&bed, node), Vec::<Value>::new(), "{node}");
        assert!(moved(&bed) < bytes, "the transfer ended before {node} was done: this proves nothing");
    }
    let report = transfer.finish(&bed.lab).unwrap();
    assert!(report.mismatches().is_empty(), "{:?}", report.mismatches());
    assert_eq!(report.source.more.get("retransmitted"), Some(&json!(0)), "a packet was lost");
    let over = |n: &Value| n["dataPackets"].as_u64() > Some(0) && n["minNext"] == n["high"];
    bed.lab
        .wait("telemetry of every node", |_| {
            let (_, body) = bed.lab.rest("GET", "/api/v1/groups/g/telemetry", None)?;
            Ok(body["items"].as_array().is_some_and(|a| a.len() == NODES.len() && a.iter().all(over)))
        })
        .unwrap();
    let drops = bed.drops("g").unwrap();
    assert!(drops.is_empty(), "drops were counted for the group: {drops:?}");
}
