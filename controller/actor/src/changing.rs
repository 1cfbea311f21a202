// SPDX-License-Identifier: Apache-2.0
//! Carrying out change sets: see [`change_sets`](crate::change_sets).
//!
//! Steps are taken one at a time between the messages that wait, so that a set delays others by one commit. What does not depend on the set
//! makes it wait and not stop: a pending commit, a full store, a tenant's changes in a second.

use std::time::Duration;

use canopy_controller_core::tenant::Scope;
use canopy_store::{MAX_OPS, Op, StoreError};
use canopy_units::UnixTime;
use tokio::sync::oneshot;
use tokio::time::Instant;

use self::steps::READING;
use crate::change_sets::{ChangeOrder, ChangeSet, ChangeSets, Stage};
use crate::once::{Attempt, Replayed};
use crate::task::{ChangeDeed, Message, Task, failed, is_refusal};
use crate::{CommandError, Controller};

mod acts;
mod applying;
mod steps;
mod undoing;

/// How long a set waits for what it does not depend on.
const RETRY: Duration = Duration::from_secs(1);
/// Records of a set that has left that one step removes.
const REMOVED_AT_ONCE: usize = MAX_OPS - 8;

impl Controller {
    /// Begins a change set, or takes one back: durably, with its entry of the audit. Its resources follow, each with one of its own.
    ///
    /// # Errors
    /// The caller's tenant, or the domain, has one that is active; a commit is pending; there is no such set, or it was taken back; the store
    /// takes no change.
    pub async fn do_with_change_set(&self, order: ChangeOrder) -> Result<(ChangeSet, Option<Replayed>), CommandError> {
        let (answer, done) = oneshot::channel();
        self.send(Message::ChangeSet(Box::new(ChangeDeed { order, answer }))).await?;
        done.await.map_err(|_| CommandError::Stopping)?
    }

    /// The change sets that a caller with this scope sees, the newest first.
    pub fn change_sets(&self, scope: &Scope) -> Vec<ChangeSet> {
        self.change_sets_lock().list(scope)
    }

    /// One of them.
    pub fn change_set(&self, id: &str, scope: &Scope) -> Option<ChangeSet> {
        self.change_sets_lock().find(id, scope).map(|(_, set)| set)
    }

    fn with_change_sets<R>(&self, change: impl FnOnce(&mut ChangeSets) -> R) -> R {
        change(&mut self.change_sets_lock())
    }
}

impl Task {
    /// Takes an act of an operator; `Err` if the store has failed.
    pub(crate) async fn do_with_change_set(&mut self, deed: ChangeDeed) -> Result<(), StoreError> {
        let ChangeDeed { order, answer } = deed;
        let attempt = Attempt::of_change_set(&order);
        let known = attempt.as_ref().map_or(Ok(None), |attempt| self.once.find(attempt, UnixTime::now()));
        let done = match known.transpose() {
            Some(again) => again.and_then(|past| self.replay_change_set(past, &order.scope)),
            None => self.act_on_change_set(order, attempt).await.map(|set| (set, None)),
        };
        self.controller.audit_ends_at(self.books.next());
        let failure = match &done {
            Err(CommandError::Store(error)) if !is_refusal(error) => Some(failed(error)),
            _ => None,
        };
        _ = answer.send(done);
        failure.map_or(Ok(()), Err)
    }

    /// When [`Task::continue_change_set`] has something to do.
    pub(crate) fn change_set_due(&self) -> Option<Instant> {
        self.controller.with_change_sets(|sets| sets.due(Instant::now()))
    }

    /// Takes one step of a change set, if there is one that is active; later, while the store takes no changes.
    pub(crate) async fn continue_change_set(&mut self) -> Result<(), StoreError> {
        if self.read_only.is_some() {
            return Ok(());
        }
        let useless = self.controller.with_change_sets(|sets| sets.useless().map(str::to_owned));
        if let Some(prefix) = useless {
            return self.remove_useless(prefix).await;
        }
        let Some((number, set)) = self.controller.with_change_sets(|sets| sets.turn(Instant::now())) else {
            return Ok(());
        };
        let taken = match set.stage {
            Stage::Applying => self.apply_some(number, set).await,
            Stage::Undoing => self.undo_some(number, set).await,
            Stage::Applied | Stage::Stopped | Stage::Undone => Ok(()),
        };
        match taken {
            // Until the disk has room.
            Err(error) if is_refusal(&error) => {
                self.set_waits(number, &CommandError::Store(error));
                Ok(())
            }
            taken => taken,
        }
    }

    /// Removes some of what a set has left.
    async fn remove_useless(&mut self, prefix: String) -> Result<(), StoreError> {
        let (store, below) = (self.store.clone(), prefix.clone());
        let left = tokio::task::spawn_blocking(move || store.newest(&below, None, REMOVED_AT_ONCE)).await;
        let left = left.unwrap_or_else(|e| Err(StoreError::Failed { doing: READING, detail: e.to_string() }))?;
        let is_left = left.len() == REMOVED_AT_ONCE;
        let ops: Vec<Op> = left.into_iter().map(|(key, _)| Op::Delete { key }).collect();
        if !ops.is_empty() {
            match self.commit(ops).await {
                // Until the disk has room.
                Err(error) if is_refusal(&error) => return Ok(()),
                removed => removed?,
            }
        }
        self.controller.with_change_sets(|sets| sets.is_useless(prefix, is_left));
        Ok(())
    }
}
