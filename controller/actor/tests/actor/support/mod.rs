// SPDX-License-Identifier: Apache-2.0
//! A controller over a store that fails when a test wants it, and two operators.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use canopy_controller_actor::Running;
use canopy_controller_core::principal::Principal;
use canopy_store::{MemStore, Op, Revision, Snapshot, Store, StoreError};

/// A store that fails once so many commits were made.
#[derive(Default)]
pub(crate) struct Failing {
    pub(crate) inner: MemStore,
    commits: AtomicUsize,
    last: AtomicUsize,
    /// It is full then, and does not fail; the next try finds room.
    pub(crate) is_full: AtomicBool,
    watcher: Mutex<Option<Sender<Vec<Op>>>>,
}

impl Failing {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { last: AtomicUsize::new(usize::MAX), ..Self::default() })
    }

    pub(crate) fn fail_after(&self, more: usize) {
        self.last.store(self.commits.load(Ordering::SeqCst).saturating_add(more), Ordering::SeqCst);
    }

    pub(crate) fn full_after(&self, more: usize) {
        self.is_full.store(true, Ordering::SeqCst);
        self.fail_after(more);
    }

    /// All transactions from now on.
    pub(crate) fn watch(&self) -> Receiver<Vec<Op>> {
        let (sent, received) = channel();
        *self.watcher.lock().unwrap() = Some(sent);
        received
    }

    pub(crate) fn keys(&self, prefix: &str) -> usize {
        self.inner.scan(prefix).unwrap().entries.len()
    }
}

impl Store for Failing {
    fn revision(&self) -> Result<Revision, StoreError> {
        self.inner.revision()
    }

    fn commit(&self, expected: Revision, ops: &[Op]) -> Result<Revision, StoreError> {
        if self.commits.fetch_add(1, Ordering::SeqCst) >= self.last.load(Ordering::SeqCst) {
            if self.is_full.swap(false, Ordering::SeqCst) {
                self.last.store(usize::MAX, Ordering::SeqCst);
                return Err(StoreError::Full { path: "/store".into() });
            }
            return Err(StoreError::Failed { doing: "committing", detail: "the power is off".into() });
        }
        if let Some(watcher) = &*self.watcher.lock().unwrap() {
            _ = watcher.send(ops.to_vec());
        }
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

pub(crate) fn alice() -> Principal {
    Principal::operator("alice", Some(1000))
}

pub(crate) fn bob() -> Principal {
    Principal::operator("bob", Some(1001))
}

pub(crate) async fn until(what: &str, done: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < deadline, "not within 60 s: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) async fn stop(Running { controller, task }: Running) {
    controller.stop().await;
    task.await.unwrap().unwrap();
}
