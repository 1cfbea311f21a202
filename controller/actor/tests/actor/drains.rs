// SPDX-License-Identifier: Apache-2.0
//! Drains that end by themselves, also over a restart, a full disk, a power cut and a pending commit.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use canopy_controller_actor::commit::Act;
use canopy_controller_actor::events::Code;
use canopy_controller_actor::{AuditFilter, Controller, Order, Running, Target, start};
use canopy_controller_core::Command;
use canopy_controller_core::audit::{Action, IntentKind};
use canopy_controller_core::fields::FieldSelector;
use canopy_controller_core::metadata::Labels;
use canopy_controller_core::principal::Principal;
use canopy_model::drain::DrainSpec;
use canopy_model::rfc3339;
use canopy_store::{Op, Store};
use canopy_units::UnixTime;
use serde_json::json;

use crate::support::{Failing, alice, bob, stop, until};

const HOUR: Duration = Duration::from_secs(3600);
/// An instant long before every test.
const PAST: &str = "2020-01-01T00:00:00Z";

fn soon() -> UnixTime {
    UnixTime::now() + Duration::from_millis(200)
}

async fn fabric(store: &Arc<Failing>) -> Running {
    let running = start(store.clone(), Default::default()).await.unwrap();
    let spec = json!({
        "nodes": [{"name": "n1", "id": 1}, {"name": "n2", "id": 2}],
        "links": [{"a": "n1/eth1", "b": "n2/eth1"}, {"a": "n1/eth2", "b": "n2/eth2"}],
    });
    let topology =
        Command::PutTopology { labels: Labels::new(), spec: serde_json::from_value(spec).unwrap(), if_match: None };
    write(&running.controller, topology, None).await;
    running
}

async fn write(controller: &Controller, command: Command, commit: Option<&str>) {
    let commit = commit.map(str::to_owned);
    controller.carry_out(Order { commit, ..Order::new(command, alice()) }).await.unwrap();
}

fn drain(name: &str, port: &str, until: Option<UnixTime>) -> Command {
    let spec = DrainSpec { link: Some(format!("n1/{port}")), reason: "optics".into(), until, ..DrainSpec::default() };
    Command::PutDrain { name: name.into(), labels: Labels::new(), spec, if_match: None, create_only: false }
}

fn names(controller: &Controller) -> Vec<String> {
    controller.read(|d| d.drains().into_iter().map(|drain| drain.metadata.name).collect())
}

fn drained(controller: &Controller) -> Vec<String> {
    let fields = FieldSelector::parse("fields", "drained=true").unwrap();
    let links = controller.links(&fields, None, 1000).items.into_iter();
    links.map(|link| link.name).filter(|name| name.starts_with("n1/")).collect()
}

fn events(controller: &Controller, code: Code) -> Vec<String> {
    controller.events().newest(100, |e| e.code == code).into_iter().map(|e| e.detail).collect()
}

/// Who did what with drains, the newest first.
async fn audited(controller: &Controller) -> Vec<(Action, String, String)> {
    let filter = AuditFilter { kind: Some(IntentKind::Drain), ..AuditFilter::default() };
    let (entries, _) = controller.audit(filter, None, 100).await.unwrap();
    entries.into_iter().map(|e| (e.action, e.name, e.written.by.to_string())).collect()
}

fn by_controller(name: &str) -> (Action, String, String) {
    (Action::Delete, name.to_owned(), Principal::default().to_string())
}

#[tokio::test]
async fn drains_end_in_the_order_of_their_times_and_others_stay() {
    let store = Failing::new();
    let running = fabric(&store).await;
    let controller = &running.controller;
    let first = soon();
    let second = first + Duration::from_millis(200);
    for (name, port, until) in [
        ("by-hand", "eth1", None),
        ("late", "eth1", Some(second + HOUR)),
        ("b", "eth1", Some(second)),
        ("a", "eth2", Some(first)),
    ] {
        write(controller, drain(name, port, until), None).await;
    }
    until("two drains to end", || names(controller) == ["by-hand", "late"]).await;
    assert!(UnixTime::now() >= second);
    assert_eq!(drained(controller), ["n1/eth1"]);
    let ended =
        [("a", first), ("b", second)].map(|(name, at)| format!("drain {name} ended at {}", rfc3339::format(at)));
    assert_eq!(events(controller, Code::DrainEnded), ended);
    let own: Vec<_> = audited(controller).await.into_iter().filter(|(_, _, by)| by != "alice").collect();
    assert_eq!(own, [by_controller("b"), by_controller("a")]);
    // As if an operator had removed it: its last version can be put back.
    let versions = controller.versions(Target { kind: IntentKind::Drain, name: "a".into() }).await.unwrap();
    assert_eq!((versions.len(), versions[0].deleted), (1, true));
    assert_eq!(versions[0].spec.clone().into_json()["until"], json!(rfc3339::format(first)));
    stop(running).await;
    let running = start(store, Default::default()).await.unwrap();
    assert_eq!(names(&running.controller), ["by-hand", "late"]);
    stop(running).await;
}

/// The records of a store that was stopped for a long time.
fn age(store: &Failing) {
    for (key, value) in store.inner.scan("drain/").unwrap().entries {
        let mut record: serde_json::Value = serde_json::from_slice(&value).unwrap();
        assert!(record["until"].is_string(), "{record}");
        record["until"] = json!(PAST);
        let revision = store.inner.revision().unwrap();
        store.inner.commit(revision, &[Op::Put { key, value: record.to_string().into_bytes() }]).unwrap();
    }
}

#[tokio::test]
async fn a_controller_that_starts_late_ends_them_at_once() {
    let store = Failing::new();
    let running = fabric(&store).await;
    for (name, port) in [("a", "eth1"), ("b", "eth2")] {
        write(&running.controller, drain(name, port, Some(UnixTime::now() + HOUR)), None).await;
    }
    stop(running).await;
    age(&store);
    let running = start(store.clone(), Default::default()).await.unwrap();
    until("the drains to end", || names(&running.controller).is_empty()).await;
    assert_eq!((drained(&running.controller), store.keys("drain/")), (vec![], 0));
    assert_eq!(audited(&running.controller).await[..2], [by_controller("b"), by_controller("a")]);
    stop(running).await;
}

/// The disk is full when the drain ends; the next try finds room.
#[tokio::test]
async fn a_full_disk_delays_the_end() {
    let store = Failing::new();
    let running = fabric(&store).await;
    let controller = &running.controller;
    // After the write of the drain.
    store.full_after(1);
    write(controller, drain("a", "eth1", Some(soon())), None).await;
    until("the disk to be full", || !store.is_full.load(Ordering::SeqCst)).await;
    until("the drain to end", || names(controller).is_empty()).await;
    assert_eq!(events(controller, Code::StoreReadOnly).len(), 1);
    assert_eq!((events(controller, Code::DrainEnded).len(), events(controller, Code::DrainNotEnded).len()), (1, 0));
    stop(running).await;
}

#[tokio::test]
async fn a_power_cut_at_the_end_leaves_it_to_the_next_start() {
    let store = Failing::new();
    let running = fabric(&store).await;
    // After the write of the drain.
    store.fail_after(1);
    write(&running.controller, drain("a", "eth1", Some(soon())), None).await;
    assert!(running.task.await.unwrap().is_err(), "the store failed");
    assert_eq!(store.keys("drain/"), 1);
    store.fail_after(usize::MAX);
    let running = start(store.clone(), Default::default()).await.unwrap();
    until("the drain to end", || names(&running.controller).is_empty()).await;
    let removed = audited(&running.controller).await.into_iter().filter(|entry| *entry == by_controller("a"));
    assert_eq!((removed.count(), store.keys("drain/")), (1, 0));
    stop(running).await;
}

/// A drain ends within a pending commit; a rollback puts back what an operator had declared before, and nothing else.
#[tokio::test]
async fn a_pending_commit_does_not_keep_a_drain() {
    let store = Failing::new();
    let running = fabric(&store).await;
    let controller = &running.controller;
    write(controller, drain("kept", "eth1", None), None).await;
    write(controller, drain("other", "eth2", Some(UnixTime::now() + Duration::from_secs(1))), None).await;
    let id = controller.do_with_commit(Act::Begin(HOUR), bob(), None).await.unwrap().state.id;
    write(controller, drain("kept", "eth1", Some(soon())), Some(&id)).await;
    write(controller, drain("new", "eth1", Some(soon())), Some(&id)).await;
    until("all drains to end", || names(controller).is_empty()).await;
    controller.do_with_commit(Act::Cancel(id), bob(), None).await.unwrap();
    assert_eq!(names(controller), ["kept"]);
    assert!(controller.read(|d| d.next_drain_end().is_none()));
    stop(running).await;
}
