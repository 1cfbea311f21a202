// SPDX-License-Identifier: Apache-2.0
//! Confirmed commits: what is not confirmed in time is taken back, also by a controller that restarts meanwhile.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use canopy_controller_actor::commit::{Act, End};
use canopy_controller_actor::{AuditFilter, CommandError, Controller, Order, Running, start};
use canopy_controller_core::Command;
use canopy_controller_core::audit::{Action, IntentKind};
use canopy_controller_core::metadata::Labels;
use canopy_controller_core::principal::Principal;
use canopy_model::group::GroupSpec;
use canopy_store::StoreError;

use crate::support::{Failing, alice, bob, stop, until};

const LONG: Duration = Duration::from_secs(3600);

fn put(name: &str, mtu: u32) -> Command {
    let spec = GroupSpec { path_mtu: mtu, ..GroupSpec::default() };
    Command::PutGroup {
        tenant: None,
        name: name.into(),
        labels: Labels::new(),
        spec,
        if_match: None,
        create_only: false,
    }
}

fn delete(name: &str) -> Command {
    Command::DeleteGroup { name: name.into() }
}

async fn write(controller: &Controller, command: Command, by: Principal, id: Option<&str>) -> Result<(), CommandError> {
    let commit = id.map(str::to_owned);
    controller.carry_out(Order { commit, ..Order::new(command, by) }).await.map(drop)
}

async fn begin(controller: &Controller, timeout: Duration) -> String {
    controller.do_with_commit(Act::Begin(timeout), alice(), None).await.unwrap().state.id
}

/// Path MTU of the groups `a` to `d`; 0 of those that are not there.
fn groups(controller: &Controller) -> [u32; 4] {
    let mtu = |name: &str| controller.read(|d| d.declared_group(name).map_or(0, |(_, spec)| spec.path_mtu));
    ["a", "b", "c", "d"].map(mtu)
}

/// `a` changes twice, `b` goes and comes back as another one, `c` goes, `d` comes.
async fn change(controller: &Controller, id: &str) {
    for command in [put("a", 2048), put("a", 4096), delete("b"), put("b", 4096), delete("c"), put("d", 1024)] {
        write(controller, command, bob(), Some(id)).await.unwrap();
    }
}

const BEFORE: [u32; 4] = [1024, 1024, 1024, 0];
const AFTER: [u32; 4] = [4096, 4096, 0, 1024];

async fn with_groups(store: &Arc<Failing>) -> Running {
    let running = start(store.clone(), Default::default()).await.unwrap();
    for name in ["a", "b", "c"] {
        write(&running.controller, put(name, 1024), alice(), None).await.unwrap();
    }
    running
}

#[tokio::test]
async fn what_is_not_confirmed_in_time_is_taken_back_and_others_wait() {
    let store = Failing::new();
    let running = with_groups(&store).await;
    let controller = &running.controller;
    let id = begin(controller, Duration::from_secs(1)).await;
    change(controller, &id).await;
    until("the rollback", || !controller.commit().unwrap().is_pending()).await;
    assert_eq!(groups(controller), BEFORE);
    let ended = controller.commit().unwrap().state.ended.unwrap();
    assert_eq!((ended.how, ended.refused, ended.written.by), (End::Expired, vec![], Principal::default().into()));
    assert_eq!(store.keys("commit/before/"), 0);
    // Who did what: the rollback is the controller's, and undoes in the order of the last to the first.
    let (entries, _) = controller.audit(AuditFilter::default(), None, 6).await.unwrap();
    let listed: Vec<_> = entries.iter().map(|e| (e.action, e.kind, e.written.by.to_string())).collect();
    let own = |action, kind| (action, kind, "the controller".to_owned());
    let expected = [
        own(Action::Expire, IntentKind::Commit),
        own(Action::Update, IntentKind::Group),
        own(Action::Update, IntentKind::Group),
        own(Action::Create, IntentKind::Group),
        own(Action::Delete, IntentKind::Group),
        (Action::Create, IntentKind::Group, "bob".to_owned()),
    ];
    assert_eq!(listed, expected);
    stop(running).await;
}

#[tokio::test]
async fn while_one_is_pending_operators_wait_and_the_controller_does_not() {
    let store = Failing::new();
    let running = with_groups(&store).await;
    let controller = &running.controller;
    let id = begin(controller, LONG).await;
    let refused = write(controller, put("a", 2048), bob(), None).await.unwrap_err();
    assert!(matches!(&refused, CommandError::CommitPending { id: of, by } if *of == id && by == "alice"), "{refused}");
    let refused = write(controller, put("a", 2048), bob(), Some("0123")).await.unwrap_err();
    assert!(matches!(refused, CommandError::CommitEnded { .. }), "{refused}");
    let refused = controller.do_with_commit(Act::Begin(LONG), bob(), None).await.unwrap_err();
    assert!(matches!(refused, CommandError::CommitPending { .. }), "{refused}");
    let refused = controller.do_with_commit(Act::Confirm("0123".into()), bob(), None).await.unwrap_err();
    assert!(matches!(refused, CommandError::CommitEnded { .. }), "{refused}");
    for timeout in [Duration::ZERO, LONG * 25] {
        let refused = controller.do_with_commit(Act::Extend(id.clone(), timeout), bob(), None).await.unwrap_err();
        assert!(matches!(refused, CommandError::CommitTimeout(_)), "{refused}");
    }
    // What changes nothing, a dry run, and what the controller itself does.
    write(controller, put("a", 1024), bob(), None).await.unwrap();
    controller.carry_out(Order { dry_run: true, ..Order::new(put("a", 2048), bob()) }).await.unwrap();
    write(controller, put("own", 1024), Principal::default(), None).await.unwrap();
    change(controller, &id).await;
    let confirmed = controller.do_with_commit(Act::Confirm(id.clone()), bob(), None).await.unwrap();
    assert_eq!(confirmed.state.ended.unwrap().how, End::Confirmed);
    assert_eq!((groups(controller), store.keys("commit/before/")), (AFTER, 0));
    // It has ended: nothing can be added to it, and nothing waits for it.
    let refused = write(controller, put("a", 1024), bob(), Some(&id)).await.unwrap_err();
    assert!(matches!(refused, CommandError::CommitEnded { .. }), "{refused}");
    write(controller, put("a", 2048), bob(), None).await.unwrap();
    stop(running).await;
}

#[tokio::test]
async fn a_cancelled_commit_is_taken_back_at_once_and_an_extended_one_later() {
    let store = Failing::new();
    let running = with_groups(&store).await;
    let controller = &running.controller;
    let id = begin(controller, Duration::from_secs(1)).await;
    change(controller, &id).await;
    controller.do_with_commit(Act::Extend(id.clone(), LONG), bob(), None).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(groups(controller), AFTER);
    assert_eq!(controller.try_rollback().await.unwrap(), []);
    assert_eq!(groups(controller), AFTER, "a rollback that is tried changes nothing");
    let cancelled = controller.do_with_commit(Act::Cancel(id), bob(), None).await.unwrap();
    assert_eq!((cancelled.state.ended.unwrap().how, groups(controller)), (End::Cancelled, BEFORE));
    stop(running).await;
}

/// Catches a rollback that a restart forgets, or carries out behind the first command of an operator.
#[tokio::test]
async fn a_restarted_controller_takes_it_back_before_it_serves() {
    for has_ended in [true, false] {
        let store = Failing::new();
        let running = with_groups(&store).await;
        let id = begin(&running.controller, if has_ended { Duration::from_secs(1) } else { LONG }).await;
        change(&running.controller, &id).await;
        stop(running).await;
        if has_ended {
            tokio::time::sleep(Duration::from_millis(1100)).await;
        }
        let running = start(store.clone(), Default::default()).await.unwrap();
        let own = write(&running.controller, put("own", 1024), bob(), None).await;
        assert_eq!(own.is_ok(), has_ended, "{own:?}");
        assert_eq!(groups(&running.controller), if has_ended { BEFORE } else { AFTER });
        if !has_ended {
            running.controller.do_with_commit(Act::Cancel(id), bob(), None).await.unwrap();
            assert_eq!(groups(&running.controller), BEFORE);
        }
        stop(running).await;
    }
}

/// Cuts the power after each commit of a rollback, and of a confirmation.
#[tokio::test]
async fn a_rollback_continues_where_the_power_was_cut() {
    for confirms in [false, true] {
        let mut finished = false;
        for survives in 0..20 {
            let store = Failing::new();
            let running = with_groups(&store).await;
            let id = begin(&running.controller, Duration::from_secs(2)).await;
            change(&running.controller, &id).await;
            store.fail_after(survives);
            let act = if confirms { Act::Confirm(id.clone()) } else { Act::Cancel(id.clone()) };
            let acted = running.controller.do_with_commit(act, bob(), None).await;
            finished = acted.is_ok();
            if finished {
                stop(running).await;
            } else {
                assert!(running.task.await.unwrap().is_err(), "the store failed");
            }
            store.fail_after(usize::MAX);
            let running = start(store.clone(), Default::default()).await.unwrap();
            let controller = &running.controller;
            until("the end of the commit", || !controller.commit().unwrap().is_pending()).await;
            // A confirmation holds from its first commit on.
            let is_confirmed = confirms && survives > 0;
            assert_eq!(groups(controller), if is_confirmed { AFTER } else { BEFORE }, "after {survives} commits");
            write(controller, put("own", 1024), bob(), None).await.unwrap();
            assert_eq!(store.keys("commit/before/"), 0, "after {survives} commits");
            stop(running).await;
            if finished {
                break;
            }
        }
        assert!(finished, "no power cut hit it in the middle");
    }
}

/// Fills the disk before each commit of a rollback, and of a confirmation: it continues, and leaves nothing that the next commit would take back.
#[tokio::test]
async fn a_full_disk_delays_a_rollback_and_leaves_nothing_to_the_next_commit() {
    for confirms in [false, true] {
        let mut was_hit = 0;
        for survives in 0..12 {
            let store = Failing::new();
            let running = with_groups(&store).await;
            let controller = &running.controller;
            let id = begin(controller, LONG).await;
            change(controller, &id).await;
            store.full_after(survives);
            let act = if confirms { Act::Confirm(id.clone()) } else { Act::Cancel(id.clone()) };
            let mut acted = controller.do_with_commit(act.clone(), bob(), None).await;
            was_hit += usize::from(!store.is_full.load(Ordering::SeqCst));
            if acted.is_err() {
                assert!(matches!(acted, Err(CommandError::Store(StoreError::Full { .. }))), "{acted:?}");
                // A part of it may be back: what changes now is a change of the commit again.
                write(controller, put("a", 512), bob(), Some(&id)).await.unwrap();
                write(controller, put("a", 4096), bob(), Some(&id)).await.unwrap();
                acted = controller.do_with_commit(act, bob(), None).await;
            }
            assert!(!acted.unwrap().is_pending());
            store.is_full.store(false, Ordering::SeqCst);
            store.fail_after(usize::MAX);
            let expected = if confirms { AFTER } else { BEFORE };
            assert_eq!(groups(controller), expected, "after {survives} commits");
            let next = begin(controller, LONG).await;
            controller.do_with_commit(Act::Cancel(next), bob(), None).await.unwrap();
            assert_eq!((groups(controller), store.keys("commit/before/")), (expected, 0), "after {survives} commits");
            stop(running).await;
        }
        assert!(was_hit > usize::from(!confirms), "{was_hit} full disks hit it");
    }
}
