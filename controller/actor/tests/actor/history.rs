// SPDX-License-Identifier: Apache-2.0
//! What operators wrote is stored with what they wrote, and read again after a restart.

use std::sync::{Arc, Mutex};

use canopy_controller_actor::{AuditFilter, CommandError, Controller, Order, Running, Target, start};
use canopy_controller_core::Command;
use canopy_controller_core::audit::{Action, IntentKind};
use canopy_controller_core::metadata::Labels;
use canopy_controller_core::principal::Principal;
use canopy_model::group::GroupSpec;
use canopy_store::{MemStore, Op, Revision, Snapshot, Store, StoreError};
use canopy_units::UnixTime;

/// A store that remembers the keys of each commit.
#[derive(Default)]
struct Watched {
    inner: MemStore,
    commits: Mutex<Vec<Vec<String>>>,
}

impl Store for Watched {
    fn revision(&self) -> Result<Revision, StoreError> {
        self.inner.revision()
    }

    fn commit(&self, expected: Revision, ops: &[Op]) -> Result<Revision, StoreError> {
        self.commits.lock().unwrap().push(ops.iter().map(|op| op.key().to_owned()).collect());
        self.inner.commit(expected, ops)
    }

    fn scan(&self, prefix: &str) -> Result<Snapshot, StoreError> {
        self.inner.scan(prefix)
    }

    fn newest(&self, prefix: &str, below: Option<&str>, limit: usize) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        self.inner.newest(prefix, below, limit)
    }

    fn import(&self, snapshot: &Snapshot) -> Result<Revision, StoreError> {
        self.inner.import(snapshot)
    }
}

fn alice() -> Principal {
    Principal::operator("alice", Some(1000))
}

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

async fn run(controller: &Controller, command: Command, by: Principal) {
    controller.carry_out(Order::new(command, by)).await.unwrap();
}

fn group(name: &str) -> Target {
    Target { kind: IntentKind::Group, name: name.to_owned() }
}

/// `generation pathMtu state` of each version, the newest first.
async fn versions(controller: &Controller, name: &str) -> Vec<String> {
    let versions = controller.versions(group(name)).await.unwrap().into_iter();
    versions
        .map(|v| {
            let state = if v.deleted {
                "deleted"
            } else if v.ended.is_some() {
                "replaced"
            } else {
                "present"
            };
            format!("{} {} {state}", v.generation, v.spec.clone().into_json()["pathMtu"])
        })
        .collect()
}

#[tokio::test]
async fn each_write_of_an_operator_is_audited_and_replaces_a_version_in_its_own_commit() {
    let store = Arc::new(Watched::default());
    let Running { controller, task } = start(store.clone(), Default::default()).await.unwrap();
    run(&controller, put("g", 1024), alice()).await;
    run(&controller, put("g", 2048), Principal::operator("bob", None)).await;
    // Nothing changes, and nothing is noted.
    run(&controller, put("g", 2048), alice()).await;
    run(&controller, Command::DeleteGroup { name: "g".into() }, alice()).await;
    run(&controller, put("g", 4096), alice()).await;
    // The controller itself, and hosts, are no operators.
    run(&controller, put("own", 4096), Principal::default()).await;
    let commits: Vec<Vec<String>> = store.commits.lock().unwrap().split_off(1);
    let noted: Vec<_> = commits
        .iter()
        .map(|keys| ["audit/", "version/", "group/"].map(|p| keys.iter().filter(|k| k.starts_with(p)).count()))
        .collect();
    assert_eq!(noted, [[1, 0, 1], [1, 1, 1], [1, 1, 1], [1, 0, 1], [0, 0, 1]]);

    let (entries, next) = controller.audit(AuditFilter::default(), None, 10).await.unwrap();
    let listed: Vec<_> = entries
        .iter()
        .map(|e| (e.sequence, e.written.by.to_string(), e.action, e.generation, e.fields.join(" ")))
        .collect();
    let entry = |sequence, by: &str, action, generation, fields: &str| {
        (sequence, by.to_owned(), action, Some(generation), fields.to_owned())
    };
    assert_eq!(
        listed,
        [
            entry(3, "alice", Action::Create, 1, ""),
            entry(2, "alice", Action::Delete, 2, ""),
            entry(1, "bob", Action::Update, 2, "/spec/pathMtu"),
            entry(0, "alice", Action::Create, 1, ""),
        ]
    );
    assert_eq!(next, None);
    // The second group of the name is another one, as its metadata has it.
    let uid = controller.read(|d| d.group("g")).unwrap().metadata.uid;
    assert_eq!(
        (entries[0].uid, entries[1].uid == entries[3].uid, entries[0].uid == entries[1].uid),
        (Some(uid), true, false)
    );
    let expected = ["1 4096 present", "2 2048 deleted", "1 1024 replaced"];
    assert_eq!(versions(&controller, "g").await, expected);

    controller.stop().await;
    task.await.unwrap().unwrap();
    let Running { controller, .. } = start(store, Default::default()).await.unwrap();
    assert_eq!(versions(&controller, "g").await, expected);
    run(&controller, put("g", 512), alice()).await;
    assert_eq!(versions(&controller, "g").await[..2], ["2 512 present", "1 4096 replaced"]);
    let (entries, _) = controller.audit(AuditFilter::default(), None, 1).await.unwrap();
    assert_eq!(entries[0].sequence, 4);
    assert_eq!(versions(&controller, "never").await, Vec::<String>::new());
}

#[tokio::test]
async fn the_audit_is_read_in_pages_and_by_kind_name_and_person() {
    let Running { controller, .. } = start(Arc::new(MemStore::new()), Default::default()).await.unwrap();
    // More than are read from the store at once.
    for i in 0..1100_u32 {
        let by = if i % 100 == 7 { Principal::operator("bob", None) } else { alice() };
        run(&controller, put(&format!("g{}", i % 10), [1024, 2048][(i / 10 % 2) as usize]), by).await;
    }
    let of = async |filter: AuditFilter, before, limit| {
        let (entries, next) = controller.audit(filter, before, limit).await.unwrap();
        (entries.iter().map(|e| e.sequence).collect::<Vec<_>>(), next)
    };
    assert_eq!(of(AuditFilter::default(), None, 2).await, (vec![1099, 1098], Some(1098)));
    assert_eq!(of(AuditFilter::default(), Some(1), 5).await, (vec![0], None));
    let bob = AuditFilter { by: Some("bob".into()), ..AuditFilter::default() };
    let (found, next) = of(bob.clone(), None, 100).await;
    assert_eq!((found.len(), found[0], found[10], next), (11, 1007, 7, None));
    // A page that is full ends where the next one continues.
    let (first, next) = of(bob.clone(), None, 4).await;
    let (second, _) = of(bob, next, 100).await;
    assert_eq!([first, second].concat(), found);
    let name = AuditFilter { name: Some("g3".into()), kind: Some(IntentKind::Group), ..AuditFilter::default() };
    assert_eq!(of(name, None, 1000).await.0.len(), 110);
    let drains = AuditFilter { kind: Some(IntentKind::Drain), ..AuditFilter::default() };
    assert_eq!(of(drains, None, 1000).await, (vec![], None));
    let created = AuditFilter { action: Some(Action::Create), ..AuditFilter::default() };
    assert_eq!(of(created, None, 1000).await.0, (0..10).rev().collect::<Vec<_>>());
    let (all, _) = controller.audit(AuditFilter::default(), None, 1000).await.unwrap();
    let since = |at| AuditFilter { since: Some(at), ..AuditFilter::default() };
    let newest = all[0].written.at;
    let at_newest = all.iter().filter(|entry| entry.written.at == newest).count();
    assert_eq!(of(since(newest), None, 1000).await.0.len(), at_newest);
    let later = UnixTime::from_nanos(newest.nanos() + 1);
    assert_eq!(of(since(later), None, 1000).await, (vec![], None));
}

/// Catches a reader that asks for the same page for ever, because it does not know where an entry that it cannot read stands.
#[tokio::test]
async fn entries_of_a_later_version_are_passed_over() {
    let store = Arc::new(MemStore::new());
    let unreadable: Vec<Op> =
        (0..1200).map(|i| Op::Put { key: format!("audit/{i:016x}"), value: b"{\"later\":1}".to_vec() }).collect();
    for (revision, ops) in (0..).zip(unreadable.chunks(100)) {
        store.commit(revision, ops).unwrap();
    }
    let Running { controller, .. } = start(store, Default::default()).await.unwrap();
    run(&controller, put("g", 1024), alice()).await;
    let (entries, next) = controller.audit(AuditFilter::default(), None, 10).await.unwrap();
    assert_eq!((entries.iter().map(|e| e.sequence).collect::<Vec<_>>(), next), (vec![1200], None));
}

/// Catches a plan that only counts, and one that any change of the domain outdates.
#[tokio::test]
async fn a_write_with_a_plan_is_carried_out_while_its_effects_are_those() {
    let Running { controller, .. } = start(Arc::new(MemStore::new()), Default::default()).await.unwrap();
    run(&controller, put("g", 1024), alice()).await;
    let plan = async |command: Command| {
        let order = Order { dry_run: true, ..Order::new(command, alice()) };
        controller.carry_out(order).await.unwrap().preview.unwrap()
    };
    let preview = plan(put("g", 2048)).await;
    assert_eq!((preview.changes.len(), preview.changes[0].pointer.as_str()), (1, "/spec/pathMtu"));
    run(&controller, put("another", 1024), alice()).await;
    assert_eq!(plan(put("g", 2048)).await.plan, preview.plan);
    let with = async |command: Command, plan: &str| {
        controller.carry_out(Order { plan: Some(plan.to_owned()), ..Order::new(command, alice()) }).await
    };
    for other in [put("g", 512), put("another", 2048), Command::DeleteGroup { name: "g".into() }] {
        let e = with(other, &preview.plan).await.unwrap_err();
        assert!(matches!(e, CommandError::PlanChanged { .. }), "{e}");
    }
    // Another operator makes half of it.
    run(&controller, put("g", 512), alice()).await;
    let e = with(put("g", 2048), &preview.plan).await.unwrap_err();
    let CommandError::PlanChanged { actual, .. } = e else { panic!("{e}") };
    assert_eq!(controller.read(|d| d.group("g")).unwrap().spec.path_mtu, 512);
    with(put("g", 2048), &actual).await.unwrap();
    assert_eq!(controller.read(|d| d.group("g")).unwrap().spec.path_mtu, 2048);
}
