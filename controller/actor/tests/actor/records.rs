// SPDX-License-Identifier: Apache-2.0
//! What the store holds after commands, byte for byte: a controller of another version must read it, and this version
//! what an earlier one wrote. Catches a renamed field, a changed default and another order of keys.

use std::sync::Arc;
use std::time::Duration;

use canopy_controller_actor::{Order, Running, start};
use canopy_controller_core::Command;
use canopy_controller_core::metadata::Labels;
use canopy_controller_core::principal::Principal;
use canopy_model::group::{GroupSpec, StallPolicy};
use canopy_model::ids::PortIndex;
use canopy_model::member::MemberSpec;
use canopy_model::retirement::RetireSpec;
use canopy_model::telemetry::LinkRtt;
use canopy_store::{MemStore, Op, Store};
use serde_json::json;

/// The records, one `key value` per line. `UPDATE_RECORDS=1` rewrites it, which needs a reason: stores exist.
const WRITTEN: &str = include_str!("records.txt");
/// The same of a version that knew moves of trees alone, not receivers with other edges.
const BEFORE_DISPLACEMENTS: &str = include_str!("records_before_displacements.txt");
/// The same of a version whose identifiers ascended and whose groups had one session.
const BEFORE_SESSIONS: &str = include_str!("records_before_sessions.txt");
/// The same of a version that did not record the trees in force.
const BEFORE_TREES: &str = include_str!("records_before_trees.txt");
/// The same of a version whose resources had no uid, and whose records did not have who wrote them.
const BEFORE_UIDS: &str = include_str!("records_before_uids.txt");
/// The key that identifiers follow from; another one is drawn where the store has none.
const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

fn records(store: &MemStore) -> String {
    let entries = store.scan("").unwrap().entries.into_iter();
    entries.map(|(key, value)| format!("{key} {}\n", timeless(&String::from_utf8(value).unwrap()))).collect()
}

/// With 7 for every time.
fn timeless(record: &str) -> String {
    let mut parts = record.split("\"at\":");
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |text, part| text + "\"at\":7" + part.trim_start_matches(|c: char| c.is_ascii_digit()))
}

fn group(name: &str, labels: &[(&str, &str)], spec: GroupSpec) -> Command {
    let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    Command::PutGroup { tenant: None, name: name.into(), labels, spec, if_match: None, create_only: true }
}

fn join(group: &str, spec: serde_json::Value) -> Command {
    let spec: MemberSpec = serde_json::from_value(spec).unwrap();
    Command::PutMember { group: group.into(), spec, create_only: true, instance: None, lease: None }
}

fn drain(name: &str, until: Option<&str>) -> Command {
    let spec = json!({"node": "n3", "reason": "fans", "until": until});
    Command::PutDrain {
        name: name.into(),
        labels: Labels::new(),
        spec: serde_json::from_value(spec).unwrap(),
        if_match: None,
        create_only: true,
    }
}

fn silence(name: &str, spec: serde_json::Value) -> Command {
    let spec = serde_json::from_value(spec).unwrap();
    Command::PutSilence { name: name.into(), labels: Labels::new(), spec, create_only: true }
}

/// Every kind of record with every field: labels, a port without carrier, a moved tree, memory, an evicted receiver,
/// a failed group, a receiver of a session that has ended, a measured link, a drain without and with an end, a silence of an object and of a problem, a node
/// that leaves.
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
            {"a": "n1/eth2", "b": "n3/eth1", "rateBps": 1_000_000_000},
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
        Command::EvictMember { group: "g1".into(), host: "r2".into(), since: 4, reason: "acknowledged nothing".into() },
        Command::PortsDown { node: "n1".into(), ports: ["eth2".to_owned()].into() },
        Command::FailGroup { name: "g2".into(), host: "r1".into(), since: 3, reason: "a receiver failed".into() },
        group("g3", &[], GroupSpec::default()),
        join("g3", json!({"host": "s1", "role": "source", "qpn": 22, "startPsn": 77})),
        join("g3", json!({"host": "r1", "role": "receiver", "qpn": 23})),
        Command::DeleteMember { group: "g3".into(), host: "s1".into() },
        drain("d1", None),
        // So late that no test ends it.
        drain("d2", Some("2500-01-01T00:00:00Z")),
        silence(
            "s1",
            json!({"node": "n3", "note": "fans", "from": "2499-01-01T00:00:00Z", "until": "2500-01-01T00:00:00Z"}),
        ),
        silence("s2", json!({"problem": "0123456789abcdef", "note": "known"})),
        Command::Retire { node: "n3".into(), spec: RetireSpec { reason: "old".into(), ..RetireSpec::default() } },
    ]
}

#[tokio::test]
async fn records_are_what_stores_hold() {
    let store = Arc::new(MemStore::new());
    store.commit(0, &[Op::Put { key: "controller/key".into(), value: KEY.into() }]).unwrap();
    let Running { controller, .. } = start(store.clone(), Default::default()).await.unwrap();
    for command in commands() {
        controller.execute(command, None, false).await.unwrap();
    }
    let rtt = Some(Duration::from_micros(700));
    controller.link_rtts("n1", &[LinkRtt { port: PortIndex::new("port", 2).unwrap(), rtt, samples: 1, lost: 0 }]);
    controller.execute(Command::PushThresholds, None, false).await.unwrap();
    let now = records(&store);
    if std::env::var_os("UPDATE_RECORDS").is_some() {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/actor/records.txt"), &now).unwrap();
    }
    assert_eq!(now, WRITTEN);
}

/// The records of the domain, which a start leaves as they are.
fn of_domain(text: &str) -> Vec<&str> {
    text.lines().filter(|l| !l.starts_with("controller/")).collect()
}

async fn start_on(written: &str) -> (Running, Arc<MemStore>) {
    let store = Arc::new(MemStore::new());
    let entries = written.lines().map(|line| line.split_once(' ').unwrap());
    let ops: Vec<Op> = entries.map(|(k, v)| Op::Put { key: k.into(), value: v.as_bytes().to_vec() }).collect();
    store.commit(0, &ops).unwrap();
    (start(store.clone(), Default::default()).await.unwrap(), store)
}

#[tokio::test]
async fn a_controller_starts_on_records_of_an_earlier_one_and_leaves_them() {
    for written in [WRITTEN, BEFORE_DISPLACEMENTS, BEFORE_UIDS, BEFORE_TREES, BEFORE_SESSIONS] {
        let (Running { controller, .. }, store) = start_on(written).await;
        let g1 = controller.read(|d| d.group("g1")).unwrap();
        assert_eq!((g1.metadata.labels["job"].as_str(), g1.status.receivers), ("llm", 1));
        assert_eq!(g1.status.evicted[0].host, "r2");
        let reason = controller.read(|d| d.group("g2")).unwrap().status.reason;
        assert!(reason.contains("a receiver failed"), "{reason}");
        let now = records(&store);
        assert_eq!(of_domain(&now), of_domain(written));
        let key = |text: &str| text.lines().find_map(|l| Some(l.strip_prefix("controller/key ")?.to_owned()));
        assert!(key(&now).is_some_and(|now| key(written).is_none_or(|before| before == now)));
    }
}

/// Catches a uid that changes with a restart, or that two resources share, until the resource's next change has stored it.
#[tokio::test]
async fn a_resource_of_an_earlier_version_gets_a_uid_that_stays() {
    let uids = |controller: &canopy_controller_actor::Controller| {
        controller.read(|d| {
            let groups = ["g1", "g2", "g3"].map(|g| d.group(g).unwrap().metadata.uid);
            [d.topology().unwrap().metadata.uid, d.member("g1", "r1").unwrap().metadata.uid]
                .into_iter()
                .chain(groups)
                .collect::<Vec<_>>()
        })
    };
    let (Running { controller, task }, store) = start_on(BEFORE_UIDS).await;
    let before = uids(&controller);
    let different: std::collections::BTreeSet<_> = before.iter().collect();
    assert_eq!(different.len(), before.len());
    let relabelled = controller.read(|d| d.group("g1")).unwrap();
    assert_eq!((relabelled.metadata.created.as_ref(), relabelled.metadata.written()), (None, None));
    let labels = Labels::from([("job".to_owned(), "other".to_owned())]);
    let change = Command::PutGroup {
        tenant: None,
        name: "g1".into(),
        labels,
        spec: relabelled.spec,
        if_match: None,
        create_only: false,
    };
    let order = Order::new(change, Principal::operator("alice", Some(1000)));
    controller.carry_out(order).await.unwrap();
    controller.stop().await;
    task.await.unwrap().unwrap();
    let Running { controller, .. } = start(store, Default::default()).await.unwrap();
    assert_eq!(uids(&controller), before);
    let metadata = controller.read(|d| d.group("g1")).unwrap().metadata;
    assert_eq!((metadata.created, metadata.changed.map(|w| w.by.to_string())), (None, Some("alice".to_owned())));
}

#[tokio::test]
async fn a_group_of_an_earlier_version_keeps_its_numbers_until_its_session_ends() {
    let (Running { controller, .. }, _) = start_on(BEFORE_SESSIONS).await;
    let connection = || controller.read(|d| d.connection("g1")).unwrap();
    let before = connection();
    assert_eq!((before.proxy_address.to_string().as_str(), before.session), ("fcfe::2", 0));
    let leave = Command::DeleteMember { group: "g1".into(), host: "s1".into() };
    controller.execute(leave, None, false).await.unwrap();
    let after = connection();
    assert_eq!(after.proxy_address, before.proxy_address);
    assert!(after.designated_qpn != before.designated_qpn && after.start_psn != before.start_psn);
    // A new group gets numbers that no group has, although an earlier version counted from 1.
    for i in 0..20 {
        controller.execute(group(&format!("new{i}"), &[], GroupSpec::default()), None, false).await.unwrap();
    }
}

#[tokio::test]
async fn a_damaged_key_is_refused_and_left() {
    let store = Arc::new(MemStore::new());
    store.commit(0, &[Op::Put { key: "controller/key".into(), value: b"00ff".to_vec() }]).unwrap();
    let refused = start(store.clone(), Default::default()).await.err().unwrap().to_string();
    assert!(refused.contains("controller/key") && refused.contains("backup"), "{refused}");
    assert_eq!(records(&store), "controller/key 00ff\n");
}

#[tokio::test]
async fn numbers_given_after_a_backup_are_not_given_after_its_restore() {
    let store = Arc::new(MemStore::new());
    let running = start(store.clone(), Default::default()).await.unwrap();
    let backup = store.scan("").unwrap();
    let numbers = |controller: &canopy_controller_actor::Controller, name: &str| {
        let status = controller.read(|d| d.group(name)).unwrap().status;
        (status.tree_id, status.connection.proxy_address, status.connection.designated_qpn)
    };
    let mut given = Vec::new();
    for i in 0..30 {
        let name = format!("g{i}");
        running.controller.execute(group(&name, &[], GroupSpec::default()), None, false).await.unwrap();
        given.push(numbers(&running.controller, &name));
    }
    let restored = Arc::new(MemStore::new());
    restored.import(&backup).unwrap();
    // Also when the first controller after the restore gives none.
    drop(start(restored.clone(), Default::default()).await.unwrap());
    let again = start(restored.clone(), Default::default()).await.unwrap();
    for i in 0..30 {
        let name = format!("h{i}");
        again.controller.execute(group(&name, &[], GroupSpec::default()), None, false).await.unwrap();
        let (tree, proxy, qpn) = numbers(&again.controller, &name);
        assert!(given.iter().all(|(t, p, q)| *t != tree && *p != proxy && *q != qpn), "{name}");
    }
}

/// Data may have passed since the backup was made: who joins now does not have it, and would hold up the group as one that counts from
/// the start.
#[tokio::test]
async fn a_group_of_a_restored_backup_counts_as_open_if_it_has_a_source() {
    let (_running, store) = start_on(WRITTEN).await;
    let restored = Arc::new(MemStore::new());
    restored.import(&store.scan("").unwrap()).unwrap();
    // Also when the first controller after the restore is asked nothing.
    drop(start(restored.clone(), Default::default()).await.unwrap());
    for (store, late) in [(store, false), (restored, true)] {
        let Running { controller, .. } = start(store.clone(), Default::default()).await.unwrap();
        controller
            .execute(join("g1", json!({"host": "r2", "role": "receiver", "qpn": 99})), None, false)
            .await
            .unwrap();
        // No source is there: its session begins closed.
        controller.execute(join("g3", json!({"host": "s1", "role": "source", "qpn": 98})), None, false).await.unwrap();
        controller
            .execute(join("g3", json!({"host": "r2", "role": "receiver", "qpn": 99})), None, false)
            .await
            .unwrap();
        let now = records(&store);
        let of = |key: &str| now.lines().find(|l| l.starts_with(key)).unwrap().contains("\"late\":true");
        assert_eq!((of("member/g1/r2 "), of("member/g3/r2 ")), (late, false));
    }
}
