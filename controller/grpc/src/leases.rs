// SPDX-License-Identifier: Apache-2.0
//! Memberships that end with the agent of their host: while it holds them, each by a stream, they last; a while after the last stream they end.
//!
//! Whether a membership has a lease is in its record, so that a controller that starts knows which ones to wait for. The agent of a node
//! has the leases of its hosts' processes itself: its memberships have none here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use canopy_controller_actor::{CommandError, Controller, Order};
use canopy_controller_core::principal::Principal;
use canopy_controller_core::{Command, DomainError};
use tokio::sync::watch;
use tonic::Status;

/// Group and host.
pub(crate) type Key = (String, String);

/// Streams that hold one lease, at most: an agent has one, and some that it has left.
const MAX_STREAMS: usize = 8;

/// The leases of one controller, for all of its listeners.
#[derive(Clone)]
pub struct Leases(Arc<Shared>);

struct Shared {
    controller: Controller,
    /// How long a membership outlasts its last stream.
    grace: Duration,
    closing: watch::Receiver<bool>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Those that streams hold, and those whose grace runs.
    leases: HashMap<Key, Lease>,
    /// Counts changes of leases, so that a timer knows whether its lease was held since.
    changes: u64,
}

#[derive(Default)]
struct Lease {
    streams: usize,
    /// Number of its last change; 0: none since the start.
    changed: u64,
    /// The membership ends at this moment: nothing can hold it.
    ending: bool,
}

/// A stream's part in a lease, or that of a join in progress.
pub(crate) struct Hold {
    key: Key,
    leases: Leases,
}

impl Leases {
    /// Waits for the agents that hold the leases of the store; those of agents that do not come back within `grace` end.
    pub fn start(controller: Controller, grace: Duration, closing: watch::Receiver<bool>) -> Self {
        let stored = controller.read(|domain| domain.leases());
        let leases = stored.iter().map(|key| (key.clone(), Lease::default())).collect();
        let state = Mutex::new(State { leases, changes: 0 });
        let this = Self(Arc::new(Shared { controller, grace, closing, state }));
        this.end_later(stored, 0);
        this
    }

    /// Ends memberships after the grace, unless streams hold them by then; a controller that ends is not kept for that.
    fn end_later(&self, keys: Vec<Key>, changed: u64) {
        let (grace, shared) = (self.0.grace, Arc::downgrade(&self.0));
        // Without a runtime the controller has ended: its successor waits for the agents.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            tokio::time::sleep(grace).await;
            for key in keys {
                let Some(shared) = shared.upgrade() else { return };
                Self(shared).end(key, changed).await;
            }
        });
    }

    /// Holds the lease of a membership until the result is dropped; a join holds the one that it is about to begin.
    ///
    /// # Errors
    /// It is just ending, or too many streams hold it.
    pub(crate) fn hold(&self, key: Key) -> Result<Hold, Status> {
        let mut state = self.lock();
        state.changes += 1;
        let changed = state.changes;
        let lease = state.leases.entry(key.clone()).or_default();
        let (group, host) = &key;
        if lease.ending {
            let what = format!("the membership of {host} in group {group} is just ending: call again");
            return Err(Status::unavailable(what));
        }
        if lease.streams >= MAX_STREAMS {
            let what = format!("{MAX_STREAMS} calls hold the membership of {host} in group {group}: close some");
            return Err(Status::resource_exhausted(what));
        }
        lease.streams += 1;
        lease.changed = changed;
        drop(state);
        Ok(Hold { key, leases: self.clone() })
    }

    /// Ends a membership that no stream has held since this change of it.
    async fn end(&self, key: Key, changed: u64) {
        let (group, host) = key.clone();
        let has_lease = self.0.controller.read(|domain| domain.has_lease(&group, &host));
        {
            let mut state = self.lock();
            let due = state.leases.get_mut(&key).filter(|lease| lease.streams == 0 && lease.changed == changed);
            let Some(lease) = due.filter(|_| !*self.0.closing.borrow()) else { return };
            if !has_lease {
                state.leases.remove(&key);
                return;
            }
            lease.ending = true;
        }
        let command = Command::DeleteMember { group: group.clone(), host: host.clone() };
        let ended = self.0.controller.carry_out(Order::new(command, Principal::default())).await;
        self.lock().leases.remove(&key);
        match ended {
            Ok(_) => {
                tracing::info!(group, host, grace = ?self.0.grace, "ended a membership: the agent of its host is gone")
            }
            Err(CommandError::Domain(DomainError::NotFound { .. }) | CommandError::Stopping) => {}
            Err(error) => {
                tracing::error!(group, host, %error, "cannot end the membership of a host whose agent is gone")
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the lock is held, so the state of a poisoned lock is consistent.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let (group, host) = &self.key;
        let has_lease = self.leases.0.controller.read(|domain| domain.has_lease(group, host));
        let mut state = self.leases.lock();
        state.changes += 1;
        let changed = state.changes;
        let Some(lease) = state.leases.get_mut(&self.key) else { return };
        lease.streams -= 1;
        lease.changed = changed;
        if lease.streams > 0 {
            return;
        }
        if !has_lease {
            state.leases.remove(&self.key);
            return;
        }
        drop(state);
        self.leases.end_later(vec![self.key.clone()], changed);
    }
}
