// SPDX-License-Identifier: Apache-2.0
//! What the store holds after commands, byte for byte: a controller of another version must read it, and this version
//! what an earlier one wrote. Catches a renamed field, a changed default and another order of keys.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use canopy_controller_actor::{Running, start};
use canopy_controller_core::Command;
use canopy_controller_core::metadata::Labels;
use canopy_model::group::{GroupSpec, StallPolicy};
use canopy_model::member::MemberSpec;
use canopy_store::{MemStore, Op, Store};
use serde_json::json;

/// The records, one `key value` per line. `UPDATE_RECORDS=1` rewrites it, which needs a reason: stores exist.
const WRITTEN: &str = include_str!("records.txt");

fn records(store: &MemStore) -> String {
    let entries = store.scan("").unwrap().entries.into_iter();
    entries.map(|(key, value)| format!("{key} {}\n", String::from_utf8(value).unwrap())).collect()
}

fn group(name: &str, labels: &[(&str, &str)], spec: GroupSpec) -> Command {
    let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    Command::PutGroup { name: name.into(), labels, spec, if_match: None, create_only: true }
}

fn join(group: &str, spec: serde_json::Value) -> Command {
    let spec: MemberSpec = serde_json::from_value(spec).unwrap();
    Command::PutMember { group: group.into(), spec, create_only: true }
}

/// Every kind of record with every field: labels, a port without carrier, a moved tree, memory, an evicted receiver,
/// a failed group.
fn commands() -> Vec<Command> {
    let spec = json!({
        "nodes": [{"name": "n1", "id": 1}, {"name": "n2", "id": 2}, {"name": "n3", "id": 3}],
        "hosts": [
            {"name": "s1", "prefix": "2001:db8:1::/64", "address": "2001:db8:1::1"},
            {"name": "r1", "prefix": "2001:db8:2::/64", "address": "2001:db8:2::1", "longHaulCnp": "rocev2"},
            {"name": "r2", "prefix": "2001:db8:3::/64", "address": "2001:db8:3::1"},
        ],
        "links": [
            {"a": "n1/eth1", "b": "n2/eth1", "rateBps": 1000, "rttUs": 10, "bufferBytes": {"a": 9000}, "alpha": 900, "kBaseBytes": 5000},
            {"a": "n1/eth2", "b": "n3/eth1"},
            {"a": "n3/eth2", "b": "n2/eth2", "drained": true},
            {"a": "n1/eth9", "b": "s1/eth0"},
            {"a": "n2/eth8", "b": "r1/eth0", "mtu": 5000},
            {"a": "n2/eth9", "b": "r2/eth0"},
        ],
    });
    let labels = Labels::from([("site".to_owned(), "a".to_owned())]);
    let evict = GroupSpec { stall_policy: StallPolicy::Evict, ..GroupSpec::default() };
    vec![
        Command::PutTopology { labels, spec: serde_json::from_value(spec).unwrap(), if_match: None },
        group("gone", &[], GroupSpec::default()),
        group("g1", &[("job", "llm"), ("team", "a")], evict),
        group("g2", &[], GroupSpec { path_mtu: 1024, ..GroupSpec::default() }),
        Command::DeleteGroup { name: "gone".into() },
        join("g1", json!({"host": "s1", "role": "source", "qpn": 17})),
        join(
            "g1",
            json!({"host": "r1", "role": "receiver", "qpn": 18, "address": "2001:db8:2::5", "memory": {"va": 4096, "rkey": 7, "length": 64}}),
        ),
        join("g1", json!({"host": "r2", "role": "receiver", "qpn": 19})),
        join("g2", json!({"host": "s1", "role": "source", "qpn": 20})),
        join("g2", json!({"host": "r1", "role": "receiver", "qpn": 21})),
        Command::PortsDown { node: "n1".into(), ports: ["eth1".to_owned()].into() },
        Command::EvictMember { group: "g1".into(), host: "r2".into(), reason: "acknowledged nothing".into() },
        Command::PortsDown { node: "n1".into(), ports: ["eth2".to_owned()].into() },
        Command::FailGroup { name: "g2".into(), reason: "a receiver failed".into() },
    ]
}

#[tokio::test]
async fn records_are_what_stores_hold() {
    let store = Arc::new(MemStore::new());
    let Running { controller, .. } = start(store.clone(), Default::default()).await.unwrap();
    for command in commands() {
        controller.execute(command, None, false).await.unwrap();
    }
    let now = records(&store);
    if std::env::var_os("UPDATE_RECORDS").is_some() {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/records.txt"), &now).unwrap();
    }
    assert_eq!(now, WRITTEN);
}

#[tokio::test]
async fn a_controller_starts_on_records_of_an_earlier_one_and_leaves_them() {
    let store = Arc::new(MemStore::new());
    let entries = WRITTEN.lines().map(|line| line.split_once(' ').unwrap());
    let ops: Vec<Op> = entries.map(|(k, v)| Op::Put { key: k.into(), value: v.as_bytes().to_vec() }).collect();
    store.commit(0, &ops).unwrap();
    let Running { controller, .. } = start(store.clone(), Default::default()).await.unwrap();
    let g1 = controller.read(|d| d.group("g1")).unwrap();
    assert_eq!((g1.metadata.labels["job"].as_str(), g1.status.receivers), ("llm", 1));
    assert_eq!(g1.status.evicted[0].host, "r2");
    let reason = controller.read(|d| d.group("g2")).unwrap().status.reason;
    assert!(reason.contains("a receiver failed"), "{reason}");
    let without_term =
        |text: &str| text.lines().filter(|l| !l.starts_with("controller/term")).collect::<Vec<_>>().join("\n");
    assert_eq!(without_term(&records(&store)), without_term(WRITTEN));
}
