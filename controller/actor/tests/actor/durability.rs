// SPDX-License-Identifier: Apache-2.0
//! No change is visible before it is durable, and a store failure ends the task.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use canopy_controller_actor::events::Code;
use canopy_controller_actor::{CommandError, Controller, Done, Running, start, start_with};
use canopy_controller_core::Command;
use canopy_controller_core::hmac::HmacSettings;
use canopy_controller_core::metadata::Labels;
use canopy_model::srh_hmac::HmacPhase;
use canopy_model::status::NodeStatus;
use canopy_model::topology::TopologySpec;
use canopy_store::{MAX_OPS, MemStore, Op, Revision, Snapshot, Store, StoreError};
use tokio::task::JoinHandle;

/// A store whose commits wait for the gate, or fail.
#[derive(Default)]
struct Gated {
    inner: MemStore,
    closed: Mutex<bool>,
    opened: Condvar,
    waiting: AtomicBool,
    broken: AtomicBool,
    full: AtomicBool,
    breaks_after_next: AtomicBool,
    /// Commits that a closed gate lets through.
    passes: Mutex<u32>,
    commits: AtomicU64,
}

impl Gated {
    fn set_closed(&self, closed: bool) {
        *self.closed.lock().unwrap() = closed;
        self.opened.notify_all();
    }
}

impl Store for Gated {
    fn revision(&self) -> Result<Revision, StoreError> {
        self.inner.revision()
    }

    fn commit(&self, expected: Revision, ops: &[Op]) -> Result<Revision, StoreError> {
        if self.broken.load(Ordering::SeqCst) {
            return Err(StoreError::Failed { doing: "committing", detail: "no space left".into() });
        }
        self.ready()?;
        let mut closed = self.closed.lock().unwrap();
        while *closed {
            let mut passes = self.passes.lock().unwrap();
            if *passes > 0 {
                *passes -= 1;
                break;
            }
            drop(passes);
            self.waiting.store(true, Ordering::SeqCst);
            closed = self.opened.wait(closed).unwrap();
        }
        self.commits.fetch_add(1, Ordering::SeqCst);
        self.broken.fetch_or(self.breaks_after_next.load(Ordering::SeqCst), Ordering::SeqCst);
        self.inner.commit(expected, ops)
    }

    fn ready(&self) -> Result<(), StoreError> {
        let is_full = self.full.load(Ordering::SeqCst);
        if is_full { Err(StoreError::Full { path: "/store".into() }) } else { Ok(()) }
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

fn put_topology(nodes: u64) -> Command {
    let nodes: Vec<_> = (1..=nodes).map(|i| serde_json::json!({"name": format!("n{i}"), "id": i})).collect();
    let links: Vec<_> = (1..nodes.len())
        .map(|i| serde_json::json!({"a": format!("n{i}/up"), "b": format!("n{}/down", i + 1)}))
        .collect();
    let spec: TopologySpec = serde_json::from_value(serde_json::json!({"nodes": nodes, "links": links})).unwrap();
    Command::PutTopology { labels: Labels::new(), spec: spec.into(), if_match: None }
}

fn put_group(name: &str) -> Command {
    Command::PutGroup {
        tenant: None,
        name: name.into(),
        labels: Labels::new(),
        spec: Default::default(),
        if_match: None,
        create_only: false,
    }
}

async fn until(what: &str, check: impl Fn() -> bool) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    while !check() {
        assert!(tokio::time::Instant::now() < deadline, "{what} did not happen");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn nothing_is_answered_shown_or_published_before_it_is_durable() {
    let store = Arc::new(Gated::default());
    let Running { controller, .. } = start(store.clone(), Default::default()).await.unwrap();
    controller.execute(put_topology(2), None, false).await.unwrap();
    let mut spec = controller.watch_node("n1").unwrap();
    let before = spec.borrow_and_update().generation;
    store.set_closed(true);
    let answer = tokio::spawn({
        let controller = controller.clone();
        async move { controller.execute(put_topology(3), None, false).await }
    });
    until("the commit", || store.waiting.load(Ordering::SeqCst)).await;
    assert!(!answer.is_finished());
    assert_eq!(controller.read(|d| d.node_names().len()), 2);
    assert!(!spec.has_changed().unwrap());
    store.set_closed(false);
    answer.await.unwrap().unwrap();
    assert_eq!(controller.read(|d| d.node_names().len()), 3);
    spec.changed().await.unwrap();
    assert!(spec.borrow().generation > before);
}

#[tokio::test]
async fn a_command_whose_caller_went_away_is_carried_out_whole() {
    let store = Arc::new(Gated::default());
    let Running { controller, .. } = start(store.clone(), Default::default()).await.unwrap();
    store.set_closed(true);
    let caller = tokio::spawn({
        let controller = controller.clone();
        async move { controller.execute(put_group("g1"), None, false).await }
    });
    until("the commit", || store.waiting.load(Ordering::SeqCst)).await;
    caller.abort();
    _ = caller.await;
    store.set_closed(false);
    until("the group", || controller.read(|d| d.group("g1").is_some())).await;
    controller.execute(put_group("g2"), None, false).await.unwrap();
    assert_eq!(store.scan("group/").unwrap().entries.len(), 2);
}

#[tokio::test]
async fn a_failed_store_ends_the_task_and_nothing_is_shown() {
    let store = Arc::new(Gated::default());
    let Running { controller, task } = start(store.clone(), Default::default()).await.unwrap();
    store.broken.store(true, Ordering::SeqCst);
    let e = controller.execute(put_group("g1"), None, false).await.unwrap_err();
    assert!(matches!(e, CommandError::Store(StoreError::Failed { .. })), "{e}");
    assert!(task.await.unwrap().unwrap_err().to_string().contains("no space left"));
    assert!(controller.read(|d| d.group("g1").is_none()));
    assert!(!controller.is_running());
    assert!(matches!(controller.execute(put_group("g2"), None, false).await, Err(CommandError::Stopping)));
}

/// A task's commands and their answers, behind one whose commit waits.
async fn behind_a_commit(
    store: &Arc<Gated>,
    controller: &Controller,
    commands: Vec<Command>,
) -> Vec<JoinHandle<Result<Done, CommandError>>> {
    store.set_closed(true);
    store.waiting.store(false, Ordering::SeqCst);
    let mut answers = Vec::new();
    for command in [vec![put_group("first")], commands].concat() {
        let this = controller.clone();
        answers.push(tokio::spawn(async move { this.execute(command, None, false).await }));
        until("the first commit", || store.waiting.load(Ordering::SeqCst)).await;
    }
    answers
}

#[tokio::test]
async fn commands_that_wait_share_a_commit_and_see_each_other() {
    let store = Arc::new(Gated::default());
    let Running { controller, .. } = start(store.clone(), Default::default()).await.unwrap();
    let mut commands: Vec<Command> = (0..30).map(|i| put_group(&format!("g{i}"))).collect();
    commands.push(Command::DeleteGroup { name: "g7".into() });
    commands.push(Command::DeleteGroup { name: "g7".into() });
    let answers = behind_a_commit(&store, &controller, commands).await;
    let before = store.commits.load(Ordering::SeqCst);
    store.set_closed(false);
    let mut outcomes = Vec::new();
    for answer in answers {
        outcomes.push(answer.await.unwrap());
    }
    assert!(matches!(outcomes.pop(), Some(Err(CommandError::Domain(_)))), "it is deleted once");
    assert!(outcomes.iter().all(Result::is_ok));
    assert_eq!(store.commits.load(Ordering::SeqCst) - before, 2);
    // What the store has is what the domain is.
    controller.stop().await;
    let Running { controller: again, .. } = start(store, Default::default()).await.unwrap();
    for i in 0..30 {
        let name = format!("g{i}");
        assert_eq!(again.read(|d| d.group(&name)).map(|g| g.spec), controller.read(|d| d.group(&name)).map(|g| g.spec));
        assert_eq!(again.read(|d| d.group(&name)).is_some(), i != 7);
    }
}

/// Catches a command that did not fit into a commit any more and has one of its own.
#[tokio::test]
async fn commands_that_do_not_fit_into_one_commit_share_the_next() {
    let store = Arc::new(Gated::default());
    let Running { controller, .. } = start(store.clone(), Default::default()).await.unwrap();
    let commands = (0..MAX_OPS + MAX_OPS / 2).map(|i| put_group(&format!("g{i}"))).collect();
    let answers = behind_a_commit(&store, &controller, commands).await;
    let before = store.commits.load(Ordering::SeqCst);
    store.set_closed(false);
    for answer in answers {
        answer.await.unwrap().unwrap();
    }
    // That of the first command, which they waited for, and two for a record of each of them and one that they share.
    assert_eq!(store.commits.load(Ordering::SeqCst) - before, 3);
    assert_eq!(store.scan("group/").unwrap().entries.len(), 1 + MAX_OPS + MAX_OPS / 2);
}

#[tokio::test]
async fn what_shares_a_commit_that_is_not_durable_is_not_settled_published_or_answered() {
    let store = Arc::new(Gated::default());
    let Running { controller, .. } = start(store.clone(), Default::default()).await.unwrap();
    controller.execute(put_topology(2), None, false).await.unwrap();
    let mut spec = controller.watch_node("n1").unwrap();
    spec.borrow_and_update();
    let answers = behind_a_commit(&store, &controller, vec![put_topology(3), put_group("g1")]).await;
    // The first is alone; those behind it have begun to be committed when a second commit waits.
    store.waiting.store(false, Ordering::SeqCst);
    *store.passes.lock().unwrap() = 1;
    store.opened.notify_all();
    until("the second commit", || store.waiting.load(Ordering::SeqCst)).await;
    until("both are applied", || controller.read(|d| d.group("g1").is_some())).await;
    let settled = tokio::spawn({
        let controller = controller.clone();
        async move { controller.settled().await }
    });
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(!settled.is_finished() && !answers[1].is_finished() && !answers[2].is_finished());
    assert!(!spec.has_changed().unwrap());
    store.set_closed(false);
    settled.await.unwrap().unwrap();
    for answer in answers {
        answer.await.unwrap().unwrap();
    }
    spec.changed().await.unwrap();
}

#[tokio::test]
async fn a_store_that_fails_a_shared_commit_ends_the_task_and_nothing_settles() {
    let store = Arc::new(Gated::default());
    let Running { controller, task } = start(store.clone(), Default::default()).await.unwrap();
    let answers = behind_a_commit(&store, &controller, vec![put_group("g1"), put_group("g2")]).await;
    store.breaks_after_next.store(true, Ordering::SeqCst);
    store.set_closed(false);
    for (i, answer) in answers.into_iter().enumerate() {
        let answer = answer.await.unwrap();
        assert_eq!(answer.is_ok(), i == 0, "{i}");
    }
    assert!(task.await.unwrap().is_err());
    assert!(controller.read(|d| d.group("g1").is_some()), "it was applied");
    assert!(matches!(controller.settled().await, Err(CommandError::Stopping)));
}

#[tokio::test]
async fn on_a_full_disk_changes_are_refused_and_taken_again_once_there_is_space() {
    let store = Arc::new(Gated::default());
    let Running { controller, .. } = start(store.clone(), Default::default()).await.unwrap();
    controller.execute(put_topology(2), None, false).await.unwrap();
    store.full.store(true, Ordering::SeqCst);
    for _ in 0..3 {
        let e = controller.execute(put_group("g1"), None, false).await.unwrap_err();
        assert!(matches!(e, CommandError::Store(StoreError::Full { .. })), "{e}");
    }
    assert!(controller.is_running() && controller.read(|d| d.group("g1").is_none()));
    // What changes nothing is answered as always.
    controller.execute(put_topology(2), None, false).await.unwrap();
    assert!(controller.store_state().await.unwrap().1.unwrap().contains("is full"));
    store.full.store(false, Ordering::SeqCst);
    controller.execute(put_group("g1"), None, false).await.unwrap();
    assert_eq!(controller.store_state().await.unwrap().1, None);
    let codes: Vec<_> =
        controller.events().newest(10, |e| e.node.is_none() && e.group.is_none()).into_iter().map(|e| e.code).collect();
    assert_eq!(codes, [Code::StoreReadOnly, Code::StoreWritable]);
}

#[tokio::test]
async fn a_controller_starts_on_a_full_disk_with_its_last_term_and_takes_the_next_one_later() {
    let store = Arc::new(Gated::default());
    store.full.store(true, Ordering::SeqCst);
    assert!(start(store.clone(), Default::default()).await.is_err(), "a new store has nothing to show");
    store.full.store(false, Ordering::SeqCst);
    let Running { controller, task } = start(store.clone(), Default::default()).await.unwrap();
    controller.execute(put_topology(2), None, false).await.unwrap();
    let term = controller.read(|d| d.term());
    controller.stop().await;
    task.await.unwrap().unwrap();

    store.full.store(true, Ordering::SeqCst);
    let Running { controller, .. } = start(store.clone(), Default::default()).await.unwrap();
    assert_eq!(controller.read(|d| (d.term(), d.node_names().len())), (term, 2));
    let mut spec = controller.watch_node("n1").unwrap();
    assert_eq!(spec.borrow_and_update().term, term);
    let e = controller.execute(put_group("g1"), None, false).await.unwrap_err();
    assert!(matches!(e, CommandError::Store(StoreError::Full { .. })), "{e}");
    store.full.store(false, Ordering::SeqCst);
    controller.execute(put_group("g1"), None, false).await.unwrap();
    spec.changed().await.unwrap();
    assert!(spec.borrow().term > term && controller.read(|d| d.term()) > term);
    let stored = store.scan("controller/term").unwrap().entries.remove(0).1;
    assert_eq!(String::from_utf8(stored).unwrap(), controller.read(|d| d.term()).to_string());
}

#[tokio::test]
async fn another_writer_to_the_store_ends_the_task() {
    let store = Arc::new(MemStore::new());
    let Running { controller, task } = start(store.clone(), Default::default()).await.unwrap();
    let at = store.revision().unwrap();
    store.commit(at, &[Op::Put { key: "controller/term".into(), value: b"9".to_vec() }]).unwrap();
    let e = controller.execute(put_group("g1"), None, false).await.unwrap_err();
    assert!(matches!(e, CommandError::Store(StoreError::Conflict { .. })), "{e}");
    assert!(task.await.unwrap().is_err());
}

#[tokio::test]
async fn terms_grow_with_every_start_and_intents_stay() {
    let store = Arc::new(MemStore::new());
    let mut terms = Vec::new();
    for i in 0..3 {
        let Running { controller, task } = start(store.clone(), Default::default()).await.unwrap();
        terms.push(controller.read(|d| d.term()));
        assert_eq!(controller.read(|d| d.group("g0").is_some()), i > 0);
        controller.execute(put_group(&format!("g{i}")), None, false).await.unwrap();
        controller.stop().await;
        task.await.unwrap().unwrap();
    }
    assert!(terms.is_sorted_by(|a, b| a < b), "{terms:?}");
}

#[tokio::test]
async fn a_node_is_connected_as_long_as_one_of_its_streams_is() {
    let Running { controller, .. } = start(Arc::new(MemStore::new()), Default::default()).await.unwrap();
    assert!(controller.watch_node("n1").is_none());
    controller.execute(put_topology(2), None, false).await.unwrap();
    let connected = || controller.read(|d| d.node("n1").unwrap().status.connected);
    let _spec = controller.watch_node("n1").unwrap();
    let old = controller.agent_connected("n1");
    let new = controller.agent_connected("n1");
    drop(old);
    assert!(connected());
    drop(new);
    assert!(!connected());
    let of_node = controller.events().newest(10, |e| e.node.as_deref() == Some("n1"));
    let codes: Vec<_> = of_node.into_iter().map(|e| e.code).collect();
    assert_eq!(codes, [Code::AgentConnected, Code::AgentDisconnected]);
}

#[tokio::test]
async fn a_node_that_leaves_the_topology_closes_its_watch() {
    let Running { controller, .. } = start(Arc::new(MemStore::new()), Default::default()).await.unwrap();
    controller.execute(put_topology(3), None, false).await.unwrap();
    let mut spec = controller.watch_node("n3").unwrap();
    let connection = controller.agent_connected("n3");
    controller.execute(put_topology(2), None, false).await.unwrap();
    while spec.changed().await.is_ok() {}
    assert!(controller.watch_node("n3").is_none());
    // The node comes back and its agent connects before the old stream ends: the end of the old stream must not count.
    controller.execute(put_topology(3), None, false).await.unwrap();
    let _spec = controller.watch_node("n3").unwrap();
    let _new = controller.agent_connected("n3");
    drop(connection);
    assert!(controller.read(|d| d.node("n3").unwrap().status.connected));
}

#[tokio::test]
async fn a_step_that_a_full_disk_refuses_is_one_event_and_is_taken_when_there_is_space() {
    let (store, hmac) = (Arc::new(Gated::default()), HmacSettings { enabled: true, ..HmacSettings::default() });
    let running = start_with(store.clone(), Default::default(), Default::default(), hmac).await;
    let controller = running.unwrap().controller;
    controller.execute(put_topology(1), None, false).await.unwrap();
    let is_in = |phase| controller.read(|d| d.hmac().phase == phase);
    until("the first key", || is_in(HmacPhase::Starting)).await;
    let confirm = || {
        let (term, node) = controller.read(|d| (d.term(), d.node(&d.node_names()[0]).unwrap()));
        let status = NodeStatus {
            node: node.name,
            observed_term: term,
            observed_generation: node.spec.generation,
            minor_version: canopy_model::srh_hmac::MINOR_VERSION,
            ..NodeStatus::default()
        };
        controller.report(status).unwrap();
    };
    let events = |code| controller.events().newest(usize::MAX, |e| e.code == code).len();
    store.full.store(true, Ordering::SeqCst);
    for _ in 0..20 {
        confirm();
        // The attempt that this report makes has ended once a command behind it is answered.
        assert!(controller.execute(put_group("g"), None, false).await.is_err());
        tokio::task::yield_now().await;
    }
    assert_eq!((events(Code::HmacKeysNotChanged), is_in(HmacPhase::Starting)), (1, true));
    store.full.store(false, Ordering::SeqCst);
    until("the next phase", || {
        confirm();
        is_in(HmacPhase::On)
    })
    .await;
}
