// SPDX-License-Identifier: Apache-2.0
//! The trace of a change in the lab: from the request to what every kernel has, as a collector receives it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use canopy_e2e::up;
use canopy_testkit::collector::{Collector, check_change};
use serde_json::json;

const DEADLINE: Duration = Duration::from_secs(60);
const JOIN: &str = "POST /api/v1/groups/{group}/members";

/// Real agents measure what they write and read back. The join of the last member makes the group: it concerns every node of the tree.
#[test]
fn a_group_is_one_tree_of_spans_from_the_request_to_every_kernel() {
    let mut bed = up("figure1").unwrap();
    let mut collector = Collector::start(false);
    bed.lab.set_environment(None, &[("CANOPY__TRACES__ENDPOINT", collector.endpoint())]);
    bed.lab.kill_controller().unwrap();
    bed.lab.start_controller().unwrap();
    bed.lab.wait_synced().unwrap();
    bed.lab.create_group("g", json!({"pathMtu": 1024})).unwrap();
    let join = |host: &str, role: &str, qpn: u32| {
        let member = json!({"apiVersion": "canopy/v1", "kind": "Member", "metadata": {"group": "g"}, "spec": {"host": host, "role": role, "qpn": qpn}});
        let (status, answer) = bed.lab.rest("POST", "/api/v1/groups/g/members", Some(&member)).unwrap();
        assert_eq!(status, 201, "{answer}");
    };
    join("s1", "source", 17);
    join("r1", "receiver", 18);
    bed.wait_phase("g", "Ready").unwrap();
    let tree = bed.group("g").unwrap()["tree"].clone();
    let nodes: Vec<String> = tree.as_array().unwrap().iter().map(|n| n["node"].as_str().unwrap().to_owned()).collect();
    assert!(nodes.len() > 1, "{nodes:?}");
    let named: Vec<&str> = nodes.iter().map(String::as_str).collect();
    let is_complete = |spans: &std::collections::BTreeMap<String, _>| {
        spans.contains_key(JOIN) && named.iter().all(|node| spans.contains_key(&format!("read back {node}")))
    };
    let spans = collector.trace(DEADLINE, is_complete);
    check_change(&spans, JOIN, &named);
    for node in named {
        let wrote = &spans[&format!("apply {node}")];
        assert!(wrote.end_time_unix_nano > wrote.start_time_unix_nano, "{node} has measured nothing");
    }
}
