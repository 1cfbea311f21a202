// SPDX-License-Identifier: Apache-2.0
//! Which memberships end with the process that made them (decisions 3.13): those that it holds a stream for. The kernel closes the
//! process's socket when it dies, however it dies, and with it the stream.
//!
//! `host-leases` in the state directory is a line `canopy-host-leases 1 CRC32` and a line `GROUP HOST` per lease: after a restart of the
//! agent, processes hold their leases again, and those that no process holds end. An agent of an earlier version does not read the file; the
//! memberships then last until someone leaves.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tonic::Status;

use super::owners::{Key, ended, names};
use super::stored;

const FORMAT: &str = "canopy-host-leases 1";
/// A lease that no process has held since the join, or since this agent started or was stopped, ends after this long.
const UNCLAIMED: Duration = Duration::from_secs(10);
/// A lease whose last stream ended is ended after this long: time to open another connection.
const RELEASED: Duration = Duration::from_millis(700);
/// Time between two signs of life of the agent itself.
const TICK: Duration = Duration::from_millis(250);
/// Streams that hold one lease, at most: one process has one.
const STREAMS: usize = 16;
/// Longer than this between two of them, and the agent was stopped: processes may have given up their streams, and open others now.
const STOPPED: Duration = Duration::from_secs(1);

/// The leases, in memory and on disk.
pub(super) struct Leases {
    path: PathBuf,
    state: Mutex<State>,
}

struct State {
    leases: BTreeMap<Key, Lease>,
    /// Counts changes of leases, so that a timer knows whether its lease is as it was.
    changes: u64,
    ticked: Instant,
    /// When the agent last ran again after it was stopped.
    woke: Option<Instant>,
}

struct Lease {
    /// Streams that hold it.
    streams: usize,
    /// Number of its first change: another lease of the same membership has another one.
    began: u64,
    changed: u64,
    /// A process that joined has this long to hold it, also when another one releases it meanwhile.
    awaited: Option<Instant>,
    /// The agent leaves at this moment: nothing can hold it.
    ending: bool,
    /// Dropped when the membership has ended: the streams then end.
    alive: watch::Sender<()>,
}

/// A lease that no stream holds; see [`Leases::is_due`] for whether that is still so.
#[derive(Clone, Debug)]
pub(super) struct Unheld {
    pub(super) key: Key,
    changed: u64,
    /// When it ends.
    pub(super) at: Instant,
}

/// One stream's part in a lease.
pub(super) struct Hold {
    leases: Arc<Leases>,
    key: Key,
    began: u64,
    on_release: Option<Box<dyn FnOnce(Unheld) + Send>>,
    ended: watch::Receiver<()>,
}

impl Leases {
    /// The stored leases. An unusable file is renamed, and an error logged: its memberships last until someone leaves.
    pub(super) fn load(state_dir: &Path) -> (Arc<Self>, Vec<Unheld>) {
        let path = state_dir.join("host-leases");
        let keys = stored::load(&path, FORMAT, names, "memberships with a lease last until someone leaves");
        let now = Instant::now();
        // All processes hold their leases again now.
        let mut state = State { leases: BTreeMap::new(), changes: 0, ticked: now, woke: Some(now) };
        let unheld = keys.into_iter().map(|key| state.start(key)).collect();
        (Arc::new(Self { path, state: Mutex::new(state) }), unheld)
    }

    /// Begins a lease, or keeps one; it is on disk when this returns.
    ///
    /// # Errors
    /// The file cannot be written: then there is no lease.
    pub(super) fn start(&self, key: &Key) -> io::Result<Unheld> {
        let mut state = self.state();
        let is_new = !state.leases.contains_key(key);
        let unheld = state.start(key.clone());
        if is_new && let Err(error) = self.store(&state) {
            state.leases.remove(key);
            return Err(error);
        }
        Ok(unheld)
    }

    /// Gives a lease that no stream holds the whole of its time again: a process wants to hold it, and cannot be identified now. `None` if there
    /// is none, it is held or ending, or has nearly all of its time yet.
    pub(super) fn wait_longer(&self, key: &Key) -> Option<Unheld> {
        let mut state = self.state();
        let at = Instant::now() + UNCLAIMED;
        let is_short = |lease: &&Lease| lease.awaited.is_none_or(|end| end + RELEASED < at);
        state.leases.get(key).filter(|lease| lease.streams == 0 && !lease.ending).filter(is_short)?;
        let lease = state.touch(key)?;
        lease.awaited = Some(at);
        Some(Unheld { key: key.clone(), changed: lease.changed, at })
    }

    /// Ends a lease: the membership ended, or lasts without one from now on.
    pub(super) fn end(&self, key: &Key) {
        let mut state = self.state();
        if state.leases.remove(key).is_some() {
            self.store_or_warn(&state);
        }
    }

    /// Ends the leases of a deleted group.
    pub(super) fn forget_group(&self, group: &str) {
        let mut state = self.state();
        let before = state.leases.len();
        state.leases.retain(|(of, _), _| of != group);
        if state.leases.len() != before {
            self.store_or_warn(&state);
        }
    }

    /// Holds a lease until the result is dropped, and then calls `on_release` if no other stream holds it.
    ///
    /// # Errors
    /// There is none, it is ending, or too many streams hold it.
    pub(super) fn hold(
        self: &Arc<Self>,
        key: Key,
        on_release: impl FnOnce(Unheld) + Send + 'static,
    ) -> Result<Hold, Status> {
        let mut state = self.state();
        let (group, host) = &key;
        let Some(lease) = state.leases.get(&key) else { return Err(ended(&key)) };
        if lease.ending {
            let what = format!("the membership of {host} in group {group} is just ending: call again");
            return Err(Status::unavailable(what));
        }
        if lease.streams >= STREAMS {
            let what = format!("{STREAMS} streams hold the membership of {host} in group {group}: close some");
            return Err(Status::resource_exhausted(what));
        }
        let Some(lease) = state.touch(&key) else { return Err(ended(&key)) };
        lease.streams += 1;
        lease.awaited = None;
        let (alive, began) = (lease.alive.subscribe(), lease.began);
        drop(state);
        Ok(Hold { leases: Arc::clone(self), key, began, on_release: Some(Box::new(on_release)), ended: alive })
    }

    /// Follows a lease without holding it: the result ends with it. `None` if there is none.
    pub(super) fn follow(&self, key: &Key) -> Option<watch::Receiver<()>> {
        self.state().leases.get(key).map(|lease| lease.alive.subscribe())
    }

    /// Claims the end of a lease that no stream has held since: nothing can hold it until [`Leases::end`] or [`Leases::keep`].
    pub(super) fn begin_end(&self, unheld: &Unheld) -> bool {
        let is_due = self.is_due(unheld);
        let mut state = self.state();
        let lease = state.leases.get_mut(&unheld.key).filter(|lease| is_due && lease.changed == unheld.changed);
        lease.map(|lease| lease.ending = true).is_some()
    }

    /// The end failed: the lease may be held again.
    pub(super) fn keep(&self, unheld: &Unheld) {
        let mut state = self.state();
        if let Some(lease) = state.leases.get_mut(&unheld.key) {
            lease.ending = false;
        }
    }

    /// Whether no stream has held the lease since.
    pub(super) fn is_due(&self, unheld: &Unheld) -> bool {
        let state = self.state();
        state.leases.get(&unheld.key).is_some_and(|lease| lease.streams == 0 && lease.changed == unheld.changed)
    }

    /// Until when processes may still hold their leases again, because the agent itself was stopped: streams ended meanwhile, and timers
    /// have run out. `None`: no lease waits for that.
    pub(super) fn grace(&self) -> Option<Instant> {
        let (state, now) = (self.state(), Instant::now());
        let woke = if now - state.ticked > STOPPED { Some(now) } else { state.woke };
        woke.map(|woke| woke + UNCLAIMED).filter(|end| *end > now)
    }

    /// Notices when the agent itself was stopped for a while; never returns.
    pub(super) async fn watch_the_clock(&self) {
        loop {
            tokio::time::sleep(TICK).await;
            let mut state = self.state();
            let now = Instant::now();
            if now - state.ticked > STOPPED {
                state.woke = Some(now);
            }
            state.ticked = now;
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        // Nothing panics while the lock is held, so the state of a poisoned lock is consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn store(&self, state: &State) -> io::Result<()> {
        let lines: String = state.leases.keys().map(|(group, host)| format!("{group} {host}\n")).collect();
        stored::store(&self.path, FORMAT, &lines)
    }

    fn store_or_warn(&self, state: &State) {
        if let Err(error) = self.store(state) {
            tracing::warn!(file = %self.path.display(), %error, "the file still lists an ended lease");
        }
    }
}

impl Unheld {
    /// The same, with the whole of its time again.
    pub(super) fn renewed(self) -> Self {
        Self { at: Instant::now() + UNCLAIMED, ..self }
    }
}

impl State {
    fn start(&mut self, key: Key) -> Unheld {
        let began = self.changes + 1;
        let at = Instant::now() + UNCLAIMED;
        let new =
            || Lease { streams: 0, began, changed: began, awaited: None, ending: false, alive: watch::Sender::new(()) };
        self.leases.entry(key.clone()).or_insert_with(new);
        let changed = self.touch(&key).map_or(0, |lease| {
            lease.awaited = Some(at);
            lease.changed
        });
        Unheld { key, changed, at }
    }

    fn touch(&mut self, key: &Key) -> Option<&mut Lease> {
        self.changes += 1;
        let lease = self.leases.get_mut(key)?;
        lease.changed = self.changes;
        Some(lease)
    }
}

impl Hold {
    /// The membership.
    pub(super) fn key(&self) -> &Key {
        &self.key
    }

    /// Waits until the membership has ended. Cancel safe.
    pub(super) async fn ended(&mut self) {
        // An error means that the lease was removed.
        while self.ended.changed().await.is_ok() {}
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let now = Instant::now();
        let mut state = self.leases.state();
        if state.leases.get(&self.key).is_none_or(|lease| lease.began != self.began) {
            return;
        }
        let Some(lease) = state.touch(&self.key) else { return };
        lease.streams -= 1;
        let is_held = lease.streams > 0;
        let unheld = Unheld {
            key: self.key.clone(),
            changed: lease.changed,
            at: lease.awaited.unwrap_or(now).max(now + RELEASED),
        };
        drop(state);
        if let Some(on_release) = self.on_release.take().filter(|_| !is_held) {
            on_release(unheld);
        }
    }
}

#[cfg(test)]
mod tests;
