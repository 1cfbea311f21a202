// SPDX-License-Identifier: Apache-2.0
//! Deletion of a group in steps, also over power cuts, a full disk and a restart.

use std::sync::Arc;

use canopy_controller_actor::{AuditFilter, Controller, Order, Running, Target, start};
use canopy_controller_core::audit::{Action, IntentKind};
use canopy_controller_core::metadata::Labels;
use canopy_controller_core::{Command, Outcome};
use canopy_model::status::GroupPhase;
use serde_json::json;

use crate::support::{Failing, alice, stop, until};

const MEMBERS: usize = 300;
/// The mark, two steps with 117 members each, and the last one.
const COMMITS: usize = 4;

/// A group with 300 receivers that wait for a source.
async fn fabric(store: &Arc<Failing>) -> Running {
    let running = start(store.clone(), Default::default()).await.unwrap();
    let host = |h: usize| json!({"name": format!("h{h}"), "prefix": format!("2001:db8:{h:x}::/64"), "address": format!("2001:db8:{h:x}::1")});
    let link = |h: usize| json!({"a": format!("n1/eth{h}"), "b": format!("h{h}/eth0")});
    let spec = json!({
        "nodes": [{"name": "n1", "id": 1}],
        "hosts": (1..=MEMBERS).map(host).collect::<Vec<_>>(),
        "links": (1..=MEMBERS).map(link).collect::<Vec<_>>(),
    });
    let topology =
        Command::PutTopology { labels: Labels::new(), spec: serde_json::from_value(spec).unwrap(), if_match: None };
    write(&running.controller, topology).await;
    write(&running.controller, put("g")).await;
    for h in 1..=MEMBERS {
        running.controller.execute(join(h), None, false).await.unwrap();
    }
    running
}

fn put(name: &str) -> Command {
    Command::PutGroup {
        tenant: None,
        name: name.into(),
        labels: Labels::new(),
        spec: Default::default(),
        if_match: None,
        create_only: true,
    }
}

fn join(host: usize) -> Command {
    let spec = json!({"host": format!("h{host}"), "role": "receiver", "qpn": 17});
    Command::PutMember {
        group: "g".into(),
        spec: serde_json::from_value(spec).unwrap(),
        create_only: true,
        instance: None,
        lease: None,
    }
}

fn delete() -> Command {
    Command::DeleteGroup { name: "g".into() }
}

async fn write(controller: &Controller, command: Command) {
    controller.carry_out(Order::new(command, alice())).await.unwrap();
}

async fn gone(controller: &Controller, store: &Failing) {
    until("the group to be gone", || controller.read(|d| d.group("g").is_none())).await;
    controller.settled().await.unwrap();
    assert_eq!((store.keys("member/"), store.keys("group/")), (0, 0));
}

/// What operators and the controller in their place did with groups, the newest first.
async fn audited(controller: &Controller) -> Vec<(Action, String)> {
    let filter = AuditFilter { kind: Some(IntentKind::Group), ..AuditFilter::default() };
    let (entries, _) = controller.audit(filter, None, 100).await.unwrap();
    entries.into_iter().map(|e| (e.action, e.written.by.to_string())).collect()
}

fn by_alice() -> [(Action, String); 2] {
    [Action::Delete, Action::Create].map(|action| (action, "alice".to_owned()))
}

#[tokio::test]
async fn a_large_group_is_removed_with_one_entry_and_one_version() {
    let store = Failing::new();
    let running = fabric(&store).await;
    let controller = &running.controller;
    let mut changes = controller.group_changes("g");
    let shown = |d: &canopy_controller_core::Domain| d.group("g").map(|g| (g.status.phase, g.status.reason));
    let (done, shown) = controller.carry_out_and_show(Order::new(delete(), alice()), shown).await.unwrap();
    assert_eq!(done.outcome, Outcome::Deleted);
    let reason = format!("it is being deleted: {MEMBERS} members are left");
    assert_eq!(shown.unwrap(), Some((GroupPhase::Deleting, reason)));
    changes.changed().await;
    gone(controller, &store).await;
    assert_eq!(audited(controller).await, by_alice());
    let versions = controller.versions(Target { kind: IntentKind::Group, name: "g".into() }).await.unwrap();
    assert_eq!((versions.len(), versions[0].deleted), (1, true));
    write(controller, put("g")).await;
    stop(running).await;
}

/// Whatever was acknowledged happens, and nothing else.
#[tokio::test]
async fn a_deletion_continues_where_the_power_was_cut() {
    for commits in 0..=COMMITS {
        let store = Failing::new();
        let Running { controller, task } = fabric(&store).await;
        store.fail_after(commits);
        let acknowledged = controller.carry_out(Order::new(delete(), alice())).await.is_ok();
        assert_eq!(acknowledged, commits > 0);
        if commits == COMMITS {
            gone(&controller, &store).await;
            controller.stop().await;
        }
        assert_eq!(task.await.unwrap().is_err(), commits < COMMITS, "after {commits} commits");
        let left = [300, 300, 183, 66, 0][commits];
        assert_eq!(store.keys("member/"), left, "after {commits} commits");

        store.fail_after(usize::MAX);
        let running = start(store.clone(), Default::default()).await.unwrap();
        if commits == 0 {
            assert_eq!(running.controller.read(|d| d.group("g")).unwrap().status.phase, GroupPhase::Pending);
            write(&running.controller, delete()).await;
        }
        gone(&running.controller, &store).await;
        assert_eq!(audited(&running.controller).await, by_alice());
        stop(running).await;
    }
}

#[tokio::test]
async fn a_full_disk_delays_a_deletion_and_joins_are_refused_meanwhile() {
    let store = Failing::new();
    let running = fabric(&store).await;
    let controller = &running.controller;
    store.full_after(2);
    write(controller, delete()).await;
    until("the store to be full", || {
        store.keys("member/") == 183 && !store.is_full.load(std::sync::atomic::Ordering::SeqCst)
    })
    .await;
    let refused = controller.execute(join(1), None, false).await.unwrap_err().to_string();
    // The next command finds room, and one step is taken before it.
    assert!(refused.contains("it is being deleted, and 66 members are left"), "{refused}");
    gone(controller, &store).await;
    stop(running).await;
}
