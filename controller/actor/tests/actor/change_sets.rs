// SPDX-License-Identifier: Apache-2.0
//! Change sets: many resources at once, in small transactions, continued after a crash and taken back as a whole.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use canopy_controller_actor::change_sets::{AT_ONCE, Act, ChangeOrder, ChangeSet, MAX_SETS, Stage, State};
use canopy_controller_actor::commit::{self, End};
use canopy_controller_actor::{
    AuditFilter, CommandError, Controller, Manager, Order, Precondition, Running, Target, start,
};
use canopy_controller_core::audit::{Action, IntentKind};
use canopy_controller_core::metadata::Labels;
use canopy_controller_core::principal::Principal;
use canopy_controller_core::quota::Quotas;
use canopy_controller_core::tenant::Scope;
use canopy_controller_core::{Command, DomainError};
use canopy_model::group::GroupSpec;
use canopy_store::{Op, StoreError};

use crate::support::{Failing, alice, bob, stop, until};

fn put(name: &str, mtu: u32) -> Command {
    put_in(None, name, mtu)
}

fn put_in(tenant: Option<&str>, name: &str, mtu: u32) -> Command {
    Command::PutGroup {
        tenant: tenant.map(str::to_owned),
        name: name.into(),
        labels: Labels::new(),
        spec: GroupSpec { path_mtu: mtu, ..GroupSpec::default() },
        if_match: None,
        create_only: false,
    }
}

/// Groups `g000` and so on, each in a resource of its own.
fn many(n: usize) -> Vec<(Command, Precondition)> {
    (0..n).map(|i| (put(&format!("g{i:03}"), 2048), Precondition::None)).collect()
}

fn order(act: Act) -> ChangeOrder {
    ChangeOrder { act, by: alice(), request: None, key: None, scope: Scope::Domain, manager: Manager::None }
}

async fn begin(controller: &Controller, commands: Vec<(Command, Precondition)>) -> String {
    controller.do_with_change_set(order(Act::Apply(commands))).await.unwrap().0.state.id
}

async fn undo(controller: &Controller, id: &str) -> Result<ChangeSet, CommandError> {
    let order = ChangeOrder { by: bob(), ..order(Act::Undo(id.into())) };
    controller.do_with_change_set(order).await.map(|(set, _)| set)
}

fn state(controller: &Controller, id: &str) -> State {
    controller.change_set(id, &Scope::Domain).unwrap().state
}

async fn ended(controller: &Controller, id: &str) -> State {
    until("the end of the change set", || !state(controller, id).stage.is_active()).await;
    state(controller, id)
}

async fn write(controller: &Controller, command: Command, by: Principal) {
    controller.carry_out(Order::new(command, by)).await.unwrap();
}

/// Path MTU of a group; 0 if it is not there.
fn mtu(controller: &Controller, name: &str) -> u32 {
    controller.read(|d| d.declared_group(name).map_or(0, |(_, spec)| spec.path_mtu))
}

fn tag(controller: &Controller, name: &str) -> String {
    controller.read(|d| d.declared_group(name).map(|(metadata, _)| metadata.tag())).unwrap()
}

/// Entries of the audit about groups, and about change sets.
async fn audited(controller: &Controller, kind: IntentKind) -> Vec<(Action, String, String)> {
    let filter = AuditFilter { kind: Some(kind), ..AuditFilter::default() };
    let (entries, _) = controller.audit(filter, None, 1000).await.unwrap();
    entries.into_iter().map(|e| (e.action, e.name, e.written.by.to_string())).collect()
}

/// `g000` and `g001` are there before, with other content.
async fn with_groups(store: &Arc<Failing>) -> Running {
    let running = start(store.clone(), Default::default()).await.unwrap();
    for name in ["g000", "g001"] {
        write(&running.controller, put(name, 1024), bob()).await;
    }
    running
}

/// Catches a set of which a step is larger than it may be, one that is not audited, and an undo that leaves or takes too much.
#[tokio::test]
async fn a_set_is_written_in_small_steps_and_taken_back_as_a_whole() {
    let store = Failing::new();
    let running = with_groups(&store).await;
    let controller = &running.controller;
    let transactions = store.watch();
    let id = begin(controller, many(100)).await;
    let set = ended(controller, &id).await;
    assert_eq!((set.stage, set.items, set.done, set.created, set.updated), (Stage::Applied, 100, 100, 98, 2));
    assert!(set.ended.is_some() && set.refused.is_empty());
    assert_eq!([mtu(controller, "g000"), mtu(controller, "g099")], [2048, 2048]);
    let mut written = 0;
    while let Ok(ops) = transactions.try_recv() {
        let groups = ops.iter().filter(|op| matches!(op, Op::Put { key, .. } if key.starts_with("group/"))).count();
        assert!(groups <= AT_ONCE, "{groups} in one transaction");
        written += groups;
    }
    assert_eq!(written, 100);
    let sets = audited(controller, IntentKind::ChangeSet).await;
    assert_eq!(sets, [(Action::Begin, id.clone(), "alice".to_owned())]);
    let groups = audited(controller, IntentKind::Group).await;
    assert_eq!(groups.iter().filter(|(_, _, by)| by == "alice").count(), 100);
    assert_eq!(controller.read(|d| d.declared_group("g050").unwrap().0.written().unwrap().by.clone()), alice().into());

    undo(controller, &id).await.unwrap();
    let set = ended(controller, &id).await;
    assert_eq!((set.stage, set.put_back, set.refused), (Stage::Undone, 100, vec![]));
    assert_eq!(["g000", "g001", "g002", "g099"].map(|name| mtu(controller, name)), [1024, 1024, 0, 0]);
    let refused = undo(controller, &id).await.unwrap_err();
    assert!(matches!(&refused, CommandError::ChangeSetUndone { by, .. } if by == "bob"), "{refused}");
    let sets = audited(controller, IntentKind::ChangeSet).await;
    assert_eq!(sets[0], (Action::Cancel, id, "bob".to_owned()));
    until("nothing but the state is left", || store.keys("change-set/") == 1).await;
    stop(running).await;
}

/// Cuts the power after each commit of a set, and of its undo: it continues, writes every resource once, and leaves nothing behind.
#[tokio::test]
async fn a_set_and_its_undo_continue_where_the_power_was_cut() {
    for undoes in [false, true] {
        let mut finished = false;
        for survives in 0..40 {
            let store = Failing::new();
            let running = with_groups(&store).await;
            let mut id = None;
            if undoes {
                let begun = begin(&running.controller, many(70)).await;
                ended(&running.controller, &begun).await;
                id = Some(begun);
            }
            store.fail_after(survives);
            match &id {
                Some(id) => _ = undo(&running.controller, id).await,
                None => _ = running.controller.do_with_change_set(order(Act::Apply(many(70)))).await,
            }
            let known = || running.controller.change_sets(&Scope::Domain).first().map(|set| set.state.clone());
            let has_ended = || known().is_some_and(|set| !set.stage.is_active() && set.undone.is_some() == undoes);
            until("the end of it, or of the power", || has_ended() || running.task.is_finished()).await;
            finished = !running.task.is_finished();
            if finished {
                stop(running).await;
            }
            store.fail_after(usize::MAX);
            let running = start(store.clone(), Default::default()).await.unwrap();
            let controller = &running.controller;
            let Some(set) = controller.change_sets(&Scope::Domain).into_iter().next() else {
                // It was never begun: what was stored of it goes.
                until("the rest of it is gone", || store.keys("change-set/") == 0).await;
                assert_eq!(["g000", "g069"].map(|name| mtu(controller, name)), [1024, 0]);
                stop(running).await;
                continue;
            };
            let set = ended(controller, &set.state.id).await;
            let of_alice = audited(controller, IntentKind::Group).await.iter().filter(|(.., by)| by == "alice").count();
            assert_eq!((set.created, set.updated, of_alice), (68, 2, 70), "after {survives} commits");
            let expected = match set.stage {
                Stage::Applied => [2048, 2048, 2048],
                Stage::Undone => [1024, 0, 0],
                other => panic!("{other:?}"),
            };
            // An undo that was not begun is not carried out.
            assert!(undoes || set.stage == Stage::Applied);
            assert!(!undoes || survives == 0 || set.stage == Stage::Undone, "after {survives} commits");
            assert_eq!(
                ["g000", "g002", "g069"].map(|name| mtu(controller, name)),
                expected,
                "after {survives} commits"
            );
            until("no item is left", || store.keys("change-set/0000000000000000/item/") == 0).await;
            stop(running).await;
            if finished {
                break;
            }
        }
        assert!(finished, "no power cut hit it in the middle");
    }
}

/// Catches a set that overwrites what another operator wrote since its file was read, and an undo that overwrites what was written since.
#[tokio::test]
async fn a_resource_that_changed_meanwhile_stops_the_set_and_is_left_by_its_undo() {
    let store = Failing::new();
    let running = with_groups(&store).await;
    let controller = &running.controller;
    let read = tag(controller, "g001");
    write(controller, put("g001", 512), bob()).await;
    let mut commands = many(100);
    commands.swap(1, 50);
    commands[50].1 = Precondition::Tag(read);
    let id = begin(controller, commands).await;
    let set = ended(controller, &id).await;
    assert_eq!((set.stage, set.done, set.created, set.updated), (Stage::Stopped, 50, 49, 1));
    let [refused] = &set.refused[..] else { panic!("{:?}", set.refused) };
    assert_eq!((refused.kind, refused.name.as_str()), (IntentKind::Group, "g001"));
    assert!(refused.detail.contains("the precondition asks for"), "{}", refused.detail);
    assert_eq!(["g000", "g001", "g049", "g051"].map(|name| mtu(controller, name)), [2048, 512, 2048, 0]);
    until("what it does not write is gone", || store.keys("change-set/0000000000000000/item/") == 0).await;

    write(controller, put("g002", 256), bob()).await;
    controller.carry_out(Order::new(Command::DeleteGroup { name: "g003".into() }, bob())).await.unwrap();
    undo(controller, &id).await.unwrap();
    let set = ended(controller, &id).await;
    let named: Vec<&str> = set.refused.iter().map(|refused| refused.name.as_str()).collect();
    assert_eq!((set.stage, set.put_back, named), (Stage::Undone, 48, vec!["g003", "g002"]));
    assert_eq!(["g000", "g001", "g002", "g004"].map(|name| mtu(controller, name)), [1024, 512, 256, 0]);
    stop(running).await;
}

/// Catches a set that a pending commit ends, one that a commit would take back, and one that is taken back only once it is done.
#[tokio::test]
async fn a_set_waits_for_a_commit_and_is_taken_back_while_it_is_written() {
    let store = Failing::new();
    let running = with_groups(&store).await;
    let controller = &running.controller;
    let begun = |timeout| controller.do_with_commit(commit::Act::Begin(timeout), bob(), None);
    let pending = begun(Duration::from_secs(3600)).await.unwrap().state.id;
    let refused = controller.do_with_change_set(order(Act::Apply(many(3)))).await.unwrap_err();
    assert!(matches!(refused, CommandError::CommitPending { .. }), "{refused}");
    controller.do_with_commit(commit::Act::Cancel(pending), bob(), None).await.unwrap();

    // One message after the other, so that the commit is there before the second step.
    let (set, commit) =
        tokio::join!(controller.do_with_change_set(order(Act::Apply(many(100)))), begun(Duration::from_secs(3600)));
    let (id, pending) = (set.unwrap().0.state.id, commit.unwrap().state.id);
    let waits = || controller.change_set(&id, &Scope::Domain).unwrap().waits;
    until("the set waits", || waits().is_some_and(|why| why.contains(&pending))).await;
    let done = state(controller, &id).done;
    assert!(done < 100, "{done}");
    // Nothing of the set is a change of the commit.
    let cancelled = controller.do_with_commit(commit::Act::Cancel(pending), bob(), None).await.unwrap();
    assert_eq!(cancelled.state.ended.unwrap().how, End::Cancelled);
    let set = ended(controller, &id).await;
    assert_eq!((set.stage, set.created), (Stage::Applied, 98));

    let again: Vec<_> = (0..100).map(|i| (put(&format!("g{i:03}"), 4096), Precondition::None)).collect();
    let (set, commit) =
        tokio::join!(controller.do_with_change_set(order(Act::Apply(again))), begun(Duration::from_secs(3600)));
    let (id, pending) = (set.unwrap().0.state.id, commit.unwrap().state.id);
    let refused = controller.do_with_change_set(order(Act::Apply(many(3)))).await.unwrap_err();
    assert!(matches!(refused, CommandError::CommitPending { .. }), "{refused}");
    controller.do_with_commit(commit::Act::Cancel(pending), bob(), None).await.unwrap();
    undo(controller, &id).await.unwrap();
    let set = ended(controller, &id).await;
    assert_eq!((set.stage, set.put_back), (Stage::Undone, set.updated));
    assert_eq!([mtu(controller, "g000"), mtu(controller, "g099")], [2048, 2048]);
    stop(running).await;
}

fn of_tenants(tenants: &[&str]) -> Scope {
    Scope::Tenants(tenants.iter().map(|tenant| (*tenant).to_owned()).collect())
}

/// Catches a tenant whose set is faster than the tenant may be, reaches into another tenant, or is seen there.
#[tokio::test]
async fn a_set_of_a_tenant_keeps_to_what_the_tenant_may_do() {
    let store = Failing::new();
    let running = start(store.clone(), Default::default()).await.unwrap();
    let controller = &running.controller;
    let commands = |tenant: &str, n: usize| -> Vec<_> {
        (0..n).map(|i| (put_in(Some(tenant), &format!("{tenant}-{i}"), 1024), Precondition::None)).collect()
    };
    controller.limit_tenants(Quotas { max_groups: 25, max_changes_per_second: 10, ..Quotas::default() });
    let send = |scope: Scope, act: Act| controller.do_with_change_set(ChangeOrder { scope, ..order(act) });
    let both = of_tenants(&["acme", "other"]);
    let begun = std::time::Instant::now();
    let id = send(both.clone(), Act::Apply(commands("acme", 20))).await.unwrap().0.state.id;
    // Others have their turn meanwhile.
    let others = send(of_tenants(&["other"]), Act::Apply(commands("other", 3))).await.unwrap().0.state.id;
    assert_eq!(ended(controller, &others).await.created, 3);
    let set = ended(controller, &id).await;
    assert_eq!((set.stage, set.created), (Stage::Applied, 20));
    assert!(begun.elapsed() >= Duration::from_secs(1), "20 and their begin, of 10 at once and 10 a second");

    // It is about one tenant alone, and seen there.
    let seen = |scope: &Scope| controller.change_sets(scope).into_iter().map(|set| set.state.id).collect::<Vec<_>>();
    assert_eq!(seen(&Scope::Domain), [others.clone(), id.clone()]);
    assert_eq!(seen(&of_tenants(&["acme"])), std::slice::from_ref(&id));
    assert_eq!(seen(&of_tenants(&["third"])), [""; 0]);
    let refused = send(of_tenants(&["other"]), Act::Undo(id)).await.unwrap_err();
    assert!(matches!(refused, CommandError::Domain(DomainError::NotFound { .. })), "{refused}");
    let filter = |scope| AuditFilter { kind: Some(IntentKind::ChangeSet), scope, ..AuditFilter::default() };
    let entries = controller.audit(filter(of_tenants(&["other"])), None, 10).await.unwrap().0;
    assert_eq!(entries.iter().map(|e| e.name.clone()).collect::<Vec<_>>(), std::slice::from_ref(&others));

    // Beyond its quota, and in another tenant: as of single writes.
    controller.limit_tenants(Quotas { max_groups: 25, ..Quotas::default() });
    let more: Vec<_> = (0..6).map(|i| (put_in(Some("acme"), &format!("more-{i}"), 1024), Precondition::None)).collect();
    let id = send(of_tenants(&["acme"]), Act::Apply(more)).await.unwrap().0.state.id;
    let set = ended(controller, &id).await;
    assert_eq!((set.stage, set.created, set.refused.len()), (Stage::Stopped, 5, 1));
    let foreign = vec![(put("acme-0", 4096), Precondition::None)];
    let id = send(of_tenants(&["other"]), Act::Apply(foreign)).await.unwrap().0.state.id;
    let set = ended(controller, &id).await;
    assert_eq!((set.stage, mtu(controller, "acme-0")), (Stage::Stopped, 1024));
    // What it is about is none of the sender's, and it is the sender's all the same: not the domain's, and not for all to see.
    assert_eq!((set.author.scope, seen(&of_tenants(&["third"]))), (of_tenants(&["other"]), Vec::new()));
    stop(running).await;
}

/// Catches sets that fill the store, and one that leaves while it is written.
#[tokio::test]
async fn the_last_sets_are_kept_and_what_left_leaves_nothing() {
    let store = Failing::new();
    let running = start(store.clone(), Default::default()).await.unwrap();
    let controller = &running.controller;
    let mut ids = Vec::new();
    for _ in 0..MAX_SETS + 2 {
        let mtu = if ids.len() % 2 == 0 { 1024 } else { 2048 };
        let id = begin(controller, vec![(put("g", mtu), Precondition::None)]).await;
        ended(controller, &id).await;
        ids.push(id);
    }
    let kept: Vec<String> = controller.change_sets(&Scope::Domain).into_iter().map(|set| set.state.id).collect();
    assert_eq!(kept, ids[2..].iter().rev().cloned().collect::<Vec<_>>());
    until("what was before is gone with its set", || store.keys("change-set/") == 2 * MAX_SETS).await;
    let gone = undo(controller, &ids[0]).await.unwrap_err();
    assert!(matches!(gone, CommandError::Domain(DomainError::NotFound { .. })), "{gone}");
    // One after the other: what follows a set is refused until it has ended, and so is the undo of another one.
    let (first, second, third) = tokio::join!(
        controller.do_with_change_set(order(Act::Apply(many(100)))),
        controller.do_with_change_set(order(Act::Apply(many(1)))),
        undo(controller, &ids[17])
    );
    let id = first.unwrap().0.state.id;
    for refused in [second.map(|(set, _)| set), third] {
        let is_active = matches!(&refused, Err(CommandError::ChangeSetActive { id: active }) if *active == id);
        assert!(is_active, "{refused:?}");
    }
    ended(controller, &id).await;
    let kept: Vec<String> = controller.change_sets(&Scope::Domain).into_iter().map(|set| set.state.id).collect();
    let empty = controller.do_with_change_set(order(Act::Apply(Vec::new()))).await.unwrap_err();
    assert!(matches!(empty, CommandError::Domain(DomainError::Limit(_))), "{empty}");
    stop(running).await;
    // The same after a restart, and a number is never given again.
    let running = start(store.clone(), Default::default()).await.unwrap();
    let again: Vec<String> = running.controller.change_sets(&Scope::Domain).into_iter().map(|s| s.state.id).collect();
    assert_eq!(again, kept);
    let id = begin(&running.controller, many(1)).await;
    assert_eq!(running.controller.change_sets(&Scope::Domain)[0].state.id, id);
    stop(running).await;
}

/// Catches a set that is carried out twice because the answer to its begin was lost.
#[tokio::test]
async fn a_set_with_a_key_is_begun_once() {
    let store = Failing::new();
    let running = start(store.clone(), Default::default()).await.unwrap();
    let controller = &running.controller;
    let send = |n| controller.do_with_change_set(ChangeOrder { key: Some("k".into()), ..order(Act::Apply(many(n))) });
    let (first, replayed) = send(40).await.unwrap();
    assert_eq!(replayed, None);
    let (again, replayed) = send(40).await.unwrap();
    assert!(replayed.is_some() && again.state.id == first.state.id);
    let other = send(41).await.unwrap_err();
    assert!(matches!(other, CommandError::KeyReused { .. }), "{other}");
    ended(controller, &first.state.id).await;
    assert_eq!(controller.change_sets(&Scope::Domain).len(), 1);
    let is_there = controller.read(|d| Target { kind: IntentKind::Group, name: "g039".into() }.declared(d).is_some());
    assert!(is_there);
    stop(running).await;
}

/// Catches a set that is begun in part on a full disk, and whose rest another one takes for its own.
#[tokio::test]
async fn a_full_disk_takes_no_set_or_all_of_it() {
    for survives in 0..3 {
        let store = Failing::new();
        let running = with_groups(&store).await;
        let controller = &running.controller;
        store.full_after(survives);
        let begun = controller.do_with_change_set(order(Act::Apply(many(100)))).await;
        let is_full = matches!(begun, Err(CommandError::Store(StoreError::Full { .. })));
        assert_eq!(is_full, survives < 2, "{begun:?}");
        store.is_full.store(false, Ordering::SeqCst);
        store.fail_after(usize::MAX);
        if is_full {
            let id = begin(controller, many(40)).await;
            assert_eq!(ended(controller, &id).await.created, 38);
            until("what was not begun is gone", || store.keys("change-set/0000000000000000/") == 0).await;
            assert_eq!(mtu(controller, "g099"), 0);
            stop(running).await;
        }
    }
}
