// SPDX-License-Identifier: Apache-2.0
//! Writes that are sent again with their key are carried out once, also by a controller that restarts in between.

use std::sync::Arc;
use std::time::Duration;

use canopy_controller_actor::commit::Act;
use canopy_controller_actor::{AuditFilter, CommandError, Controller, Done, Order, start};
use canopy_controller_core::metadata::Labels;
use canopy_controller_core::{Command, Outcome};
use canopy_model::group::GroupSpec;

use crate::support::{Failing, alice, bob, stop};

fn create(name: &str) -> Command {
    let (labels, spec) = (Labels::new(), GroupSpec::default());
    Command::PutGroup { tenant: None, name: name.into(), labels, spec, if_match: None, create_only: true }
}

fn delete(name: &str) -> Command {
    Command::DeleteGroup { name: name.into() }
}

async fn send(controller: &Controller, command: Command, key: &str) -> Result<Done, CommandError> {
    controller.carry_out(Order { key: Some(key.into()), ..Order::new(command, alice()) }).await
}

async fn audited(controller: &Controller) -> usize {
    controller.audit(AuditFilter::default(), None, 100).await.unwrap().0.len()
}

#[tokio::test]
async fn a_write_that_is_sent_again_is_carried_out_once_also_after_a_restart() {
    let store = Failing::new();
    let running = start(store.clone(), Default::default()).await.unwrap();
    let first = send(&running.controller, create("g"), "k1").await.unwrap();
    assert_eq!((first.outcome, first.replayed), (Outcome::Created, None));
    let again = send(&running.controller, create("g"), "k1").await.unwrap();
    assert_eq!((again.outcome, again.applied), (Outcome::Created, None));
    assert!(again.replayed.is_some());
    let refused = send(&running.controller, create("other"), "k1").await.unwrap_err();
    assert!(matches!(refused, CommandError::KeyReused { .. }), "{refused}");
    // Another principal's key of the same name: it finds the group there.
    let order = Order { key: Some("k1".into()), ..Order::new(create("g"), bob()) };
    let unchanged = running.controller.carry_out(order).await;
    assert!(matches!(unchanged, Err(CommandError::Domain(_))), "{unchanged:?}");
    stop(running).await;

    let running = start(store.clone(), Default::default()).await.unwrap();
    let controller = &running.controller;
    assert_eq!(controller.keys_kept(), 1);
    assert!(send(controller, create("g"), "k1").await.unwrap().replayed.is_some());
    // Deleted by its owner, who does not get the answer and asks again; another one has created it anew meanwhile.
    assert_eq!(send(controller, delete("g"), "k2").await.unwrap().outcome, Outcome::Deleted);
    controller.carry_out(Order::new(create("g"), bob())).await.unwrap();
    let again = send(controller, delete("g"), "k2").await.unwrap();
    assert_eq!((again.outcome, again.replayed.is_some()), (Outcome::Deleted, true));
    assert!(controller.read(|d| d.declared_group("g").is_some()), "that of the other one stays");
    let outlived = send(controller, create("g"), "k1").await.unwrap_err();
    assert!(matches!(outlived, CommandError::Outlived { .. }), "{outlived}");
    assert_eq!((audited(controller).await, controller.writes_replayed()), (3, 2));
    stop(running).await;
}

#[tokio::test]
async fn a_write_that_changes_nothing_has_a_key_too_and_one_that_is_refused_has_none() {
    let store = Failing::new();
    let running = start(store.clone(), Default::default()).await.unwrap();
    let controller = &running.controller;
    let put = || Command::PutGroup {
        tenant: None,
        name: "g".into(),
        labels: Labels::new(),
        spec: GroupSpec::default(),
        if_match: None,
        create_only: false,
    };
    let refused = send(controller, delete("g"), "k0").await.unwrap_err();
    assert!(matches!(refused, CommandError::Domain(_)), "{refused}");
    send(controller, create("g"), "k1").await.unwrap();
    assert_eq!(send(controller, put(), "k2").await.unwrap().outcome, Outcome::Unchanged);
    let spec = GroupSpec { path_mtu: 4096, ..GroupSpec::default() };
    let changed = Command::PutGroup {
        tenant: None,
        name: "g".into(),
        labels: Labels::new(),
        spec,
        if_match: None,
        create_only: false,
    };
    controller.carry_out(Order::new(changed, bob())).await.unwrap();
    // Carried out now, it would undo what the other one has written since.
    let again = send(controller, put(), "k2").await.unwrap();
    assert_eq!((again.outcome, again.replayed.is_some()), (Outcome::Unchanged, true));
    assert_eq!(controller.read(|d| d.declared_group("g").unwrap().1.path_mtu), 4096);
    // What was refused has done nothing: it is tried anew.
    assert_eq!(send(controller, delete("g"), "k0").await.unwrap().replayed, None);
    stop(running).await;
}

/// All of them wait in one batch: what the first one has done is not durable yet when the others are checked.
#[tokio::test]
async fn fifty_at_the_same_time_are_one() {
    let store = Failing::new();
    let running = start(store.clone(), Default::default()).await.unwrap();
    let controller = Arc::new(running.controller.clone());
    let sent = (0..50).map(|_| {
        let controller = controller.clone();
        tokio::spawn(async move { send(&controller, create("g"), "k").await.unwrap() })
    });
    let mut carried_out = 0;
    for sent in sent.collect::<Vec<_>>() {
        let done = sent.await.unwrap();
        assert_eq!(done.outcome, Outcome::Created);
        carried_out += usize::from(done.replayed.is_none());
    }
    assert_eq!((carried_out, audited(&controller).await, store.keys("once/")), (1, 1, 1));
    stop(running).await;
}

#[tokio::test]
async fn acts_on_a_commit_are_carried_out_once() {
    let store = Failing::new();
    let running = start(store.clone(), Default::default()).await.unwrap();
    let controller = running.controller.clone();
    let act = async |act: Act, key: &str| controller.do_once_with_commit(act, alice(), None, Some(key.into())).await;
    let hour = Duration::from_secs(3600);
    let (begun, first) = act(Act::Begin(hour), "k1").await.unwrap();
    let (again, second) = act(Act::Begin(hour), "k1").await.unwrap();
    assert_eq!((&begun, first.is_none(), second.is_some()), (&again, true, true));
    let id = begun.state.id;
    let confirmed = act(Act::Confirm(id.clone()), "k2").await.unwrap().0;
    let (again, replayed) = act(Act::Confirm(id.clone()), "k2").await.unwrap();
    assert_eq!((confirmed.state, replayed.is_some()), (again.state, true));
    let reused = act(Act::Cancel(id.clone()), "k2").await.unwrap_err();
    assert!(matches!(reused, CommandError::KeyReused { .. }), "{reused}");
    let (second, _) = act(Act::Begin(hour), "k3").await.unwrap();
    let outlived = act(Act::Confirm(id), "k2").await.unwrap_err();
    assert!(matches!(outlived, CommandError::Outlived { .. }), "{outlived}");
    let cancel = || Act::Cancel(second.state.id.clone());
    assert!(act(cancel(), "k4").await.unwrap().1.is_none());
    assert!(act(cancel(), "k4").await.unwrap().1.is_some());
    stop(running).await;
}
