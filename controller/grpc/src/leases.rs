// SPDX-License-Identifier: Apache-2.0
//! Memberships that end with the agent of their host: while it holds them, each by a stream, they last; a while after the last stream they end.
//!
//! None ends unless the agent of the host's edge has been connected all that while. If that is gone, too, then it may be this controller
//! that is cut off, from a rack or from the whole fabric, whose data flows and whose processes live. A receiver that is dead is then left to
//! the stall policy, which judges by what the edge sees of it.
//!
//! Whether a membership has a lease is in its record, so that a controller that starts knows which ones to wait for. The agent of a node
//! has the leases of its hosts' processes itself: its memberships have none here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use canopy_controller_actor::events::Code;
use canopy_controller_actor::{CommandError, Controller, Order};
use canopy_controller_core::principal::Principal;
use canopy_controller_core::{Command, DomainError};
use tokio::sync::watch;
use tokio::time::Instant;
use tonic::Status;

/// Group and host.
pub(crate) type Key = (String, String);

/// How often it is noticed that this process did not run meanwhile.
const STEP: Duration = Duration::from_secs(1);
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

/// Those that streams hold, and those whose grace runs.
type State = HashMap<Key, Lease>;

#[derive(Default)]
struct Lease {
    streams: usize,
    /// Since when no stream holds it; of no use while one does.
    released: Option<Instant>,
    /// A task waits for the end of its grace: there is one at most for each lease.
    is_watched: bool,
    /// The membership ends at this moment: nothing can hold it.
    ending: bool,
    /// It has outlasted its grace, because the edge's agent was gone.
    is_postponed: bool,
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
        let now = Some(Instant::now());
        let lease = |key: &Key| (key.clone(), Lease { released: now, is_watched: true, ..Lease::default() });
        let state = Mutex::new(stored.iter().map(lease).collect());
        let this = Self(Arc::new(Shared { controller, grace, closing, state }));
        this.watch(stored);
        this
    }

    /// Ends memberships that no stream has held for the grace; a controller that ends is not kept for that.
    fn watch(&self, mut keys: Vec<Key>) {
        let (grace, shared) = (self.0.grace, Arc::downgrade(&self.0));
        // Without a runtime the controller has ended: its successor waits for the agents.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            let mut next = Instant::now() + grace;
            while !keys.is_empty() {
                let was_paused = sleep_until(next).await;
                let Some(leases) = shared.upgrade().map(Self) else { return };
                let mut left = Vec::new();
                for key in std::mem::take(&mut keys) {
                    match leases.check(&key, was_paused) {
                        Due::Never => {}
                        Due::At(due) => left.push((due, key)),
                        Due::Now(since) => match leases.end(&key, since).await {
                            true => {}
                            false => left.push((Instant::now() + grace, key)),
                        },
                    }
                }
                next = left.iter().map(|(due, _)| *due).min().unwrap_or(next);
                keys = left.into_iter().map(|(_, key)| key).collect();
            }
        });
    }

    /// What is to be done about a lease whose grace may have ended. After a pause of this process, whose agents may wait at its sockets, the
    /// whole grace runs again.
    fn check(&self, key: &Key, was_paused: bool) -> Due {
        let (group, host) = key;
        let edge = self.edge(host);
        let edge_is_there_for = edge.as_deref().and_then(|edge| self.0.controller.agent_connected_for(edge));
        let mut state = self.lock();
        let Some(lease) = state.get_mut(key) else { return Due::Never };
        let now = Instant::now();
        if lease.streams > 0 || *self.0.closing.borrow() {
            lease.is_watched = false;
            return Due::Never;
        }
        if was_paused {
            lease.released = Some(now);
        }
        let grace = self.0.grace;
        let due = lease.released.unwrap_or(now) + grace;
        if due > now {
            return Due::At(due);
        }
        let Some(since) = self.0.controller.read(|domain| domain.lease(group, host)) else {
            state.remove(key);
            return Due::Never;
        };
        let left = grace.saturating_sub(edge_is_there_for.unwrap_or_default());
        if !left.is_zero() {
            if !std::mem::replace(&mut lease.is_postponed, true) {
                tracing::warn!(
                    group,
                    host,
                    edge,
                    "keeps the membership of a host whose agent is gone, because the agent of its edge node is, or was, gone with it: find what cuts both off from this controller"
                );
            }
            return Due::At(now + left);
        }
        lease.ending = true;
        Due::Now(since)
    }

    /// The node that `host` is attached to.
    fn edge(&self, host: &str) -> Option<String> {
        self.0.controller.read(|domain| domain.edge(host).map(str::to_owned))
    }

    /// Holds the lease of a membership until the result is dropped; a join holds the one that it is about to begin.
    ///
    /// # Errors
    /// It is just ending, or too many streams hold it.
    pub(crate) fn hold(&self, key: Key) -> Result<Hold, Status> {
        let mut state = self.lock();
        let lease = state.entry(key.clone()).or_default();
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
        lease.is_postponed = false;
        drop(state);
        Ok(Hold { key, leases: self.clone() })
    }

    /// Ends the membership that began at `since`, as an eviction, so that its process receives the reason if it lives; false if that fails, and
    /// is to be tried again after another grace.
    async fn end(&self, (group, host): &Key, since: u32) -> bool {
        let reason = format!("{host}: no agent of the host has held the membership for {:?}", self.0.grace);
        let command = Command::EvictMember { group: group.clone(), host: host.clone(), since, reason: reason.clone() };
        let ended = self.0.controller.carry_out(Order::new(command, Principal::default())).await;
        let mut state = self.lock();
        match ended {
            Ok(_) => {
                tracing::info!(group, host, grace = ?self.0.grace, "ended a membership: the agent of its host is gone");
                let edge = self.edge(host);
                let detail = format!("group {group}: {reason}");
                self.0.controller.note_group(Code::MemberEvicted, edge.as_deref(), group, detail);
            }
            Err(CommandError::Domain(DomainError::NotFound { .. }) | CommandError::Stopping) => {}
            Err(error) => {
                tracing::error!(group, host, %error, retry = ?self.0.grace, "cannot end the membership of a host whose agent is gone, and tries it again");
                if let Some(lease) = state.get_mut(&(group.clone(), host.clone())) {
                    (lease.ending, lease.released) = (false, Some(Instant::now()));
                }
                return false;
            }
        }
        state.remove(&(group.clone(), host.clone()));
        true
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the lock is held, so the state of a poisoned lock is consistent.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let (group, host) = &self.key;
        let mut state = self.leases.lock();
        let Some(lease) = state.get_mut(&self.key) else { return };
        lease.streams -= 1;
        if lease.streams > 0 {
            return;
        }
        lease.released = Some(Instant::now());
        // Under the lock: a join holds it until it is carried out.
        if lease.is_watched {
            return;
        }
        if !self.leases.0.controller.read(|domain| domain.has_lease(group, host)) {
            state.remove(&self.key);
            return;
        }
        lease.is_watched = true;
        drop(state);
        self.leases.watch(vec![self.key.clone()]);
    }
}

/// What is to be done about a lease.
enum Due {
    /// Nothing: it is held, or has ended.
    Never,
    /// To be asked again then.
    At(Instant),
    /// The membership of this epoch ends.
    Now(u32),
}

/// Whether this process did not run for a while, such as a machine that was paused.
async fn sleep_until(until: Instant) -> bool {
    let mut was_paused = false;
    loop {
        let before = Instant::now();
        let left = until.saturating_duration_since(before);
        if left.is_zero() {
            return was_paused;
        }
        let step = left.min(STEP);
        tokio::time::sleep(step).await;
        was_paused |= before.elapsed() > step + STEP;
    }
}
