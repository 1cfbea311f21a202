// SPDX-License-Identifier: Apache-2.0
//! Carrying out confirmed commits: see [`commit`](crate::commit).

use std::time::Duration;

use canopy_controller_core::Domain;
use canopy_controller_core::audit::{Action, IntentKind};
use canopy_controller_core::principal::{Principal, Written};
use canopy_store::{MAX_OPS, Op, StoreError};
use canopy_units::UnixTime;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::books::{Entry, Note};
use crate::commit::{
    self, Act, BEFORE, Before, Commit, End, Ended, MAX_REFUSED, MAX_TIMEOUT, MIN_TIMEOUT, Refused, Touch,
};
use crate::events::Code;
use crate::task::{Deed, Message, Task, failed, is_refusal};
use crate::{CommandError, Controller, Target};

/// How often a rollback is tried for resources that are refused: another one that was put back since may have been in the way.
const PASSES: usize = 3;
/// Records of a commit that one transaction removes, beside its own record and the entry of the audit.
const REMOVED_AT_ONCE: usize = MAX_OPS - 8;

impl Controller {
    /// The commit that is pending, or the last one.
    pub fn commit(&self) -> Option<Commit> {
        self.commit_lock().clone()
    }

    /// Begins, extends or ends a confirmed commit, durably.
    ///
    /// # Errors
    /// Another one is pending, or the one that is named is not; the time is outside its bounds; the store takes no change.
    pub async fn do_with_commit(&self, act: Act, by: Principal) -> Result<Commit, CommandError> {
        let (answer, done) = oneshot::channel();
        self.send(Message::Commit(Box::new(Deed { act, by, answer }))).await?;
        done.await.map_err(|_| CommandError::Stopping)?
    }

    /// What could not be put back now if the pending commit were rolled back: the rollback is carried out on a copy of the domain.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn try_rollback(&self) -> Result<Vec<Refused>, CommandError> {
        if self.pending_commit().is_none() {
            return Ok(Vec::new());
        }
        let _one_at_a_time = self.validation().await?;
        let (this, now) = (self.clone(), self.now());
        let tried = tokio::task::spawn_blocking(move || {
            let befores = befores(&this).map_err(CommandError::Store)?;
            let mut domain = this.read(Domain::clone);
            let mut left: Vec<(Before, Option<CommandError>)> =
                befores.into_iter().map(|(_, before)| (before, None)).collect();
            for _ in 0..PASSES {
                let mut refused = Vec::new();
                for (before, _) in left {
                    let put_back = before.command(&domain).and_then(|command| {
                        let Some(command) = command else { return Ok(()) };
                        let prepared = domain.prepare(command)?;
                        Ok(domain.apply(prepared, now).map(drop)?)
                    });
                    if let Err(why) = put_back {
                        refused.push((before, Some(why)));
                    }
                }
                left = refused;
            }
            Ok(left.iter().filter_map(|(before, why)| Some(refusal(&before.target(), why.as_ref()?))).collect())
        });
        tried.await.map_err(|_| CommandError::Stopping)?
    }

    pub(crate) fn pending_commit(&self) -> Option<Commit> {
        self.commit_lock().as_ref().filter(|commit| commit.is_pending()).cloned()
    }

    /// When the pending commit is to be rolled back.
    pub(crate) fn commit_due(&self) -> Option<Instant> {
        self.commit_lock().as_ref().filter(|commit| commit.is_pending()).map(|commit| commit.due)
    }

    pub(crate) fn touched(&self, touch: Touch) {
        if let Some(commit) = self.commit_lock().as_mut() {
            commit.keep(touch);
        }
    }

    fn set_commit(&self, commit: Commit) {
        *self.commit_lock() = Some(commit);
    }
}

impl Task {
    /// Takes an act of an operator; `Err` if the store has failed.
    pub(crate) async fn do_with_commit(&mut self, deed: Deed) -> Result<(), StoreError> {
        let Deed { act, by, answer } = deed;
        let done = self.act(act, by).await;
        let failure = match &done {
            Err(CommandError::Store(error)) if !is_refusal(error) => Some(failed(error)),
            _ => None,
        };
        _ = answer.send(done);
        failure.map_or(Ok(()), Err)
    }

    /// Rolls the pending commit back once its time has passed; later, while the store takes no changes.
    pub(crate) async fn roll_back_if_due(&mut self) -> Result<(), StoreError> {
        let due = self.controller.commit_due();
        if self.read_only.is_some() || due.is_none_or(|due| due > Instant::now()) {
            return Ok(());
        }
        let Some(commit) = self.controller.pending_commit() else { return Ok(()) };
        match self.roll_back(commit, End::Expired, Principal::default()).await {
            // Until the disk has room.
            Err(error) if is_refusal(&error) => Ok(()),
            done => done.map(drop),
        }
    }

    /// Removes what a crash has left of a commit that had ended.
    pub(crate) async fn forget_ended_commit(&mut self) -> Result<(), StoreError> {
        if let Some(mut commit) = self.controller.commit().filter(|commit| !commit.is_pending()) {
            self.forget(commit.forgotten()).await?;
            commit.changes.clear();
            self.controller.set_commit(commit);
        }
        Ok(())
    }

    /// [`Task::forget_ended_commit`]; if the disk is full, before the next commit begins.
    pub(crate) async fn forget_soon(&mut self) -> Result<(), StoreError> {
        match self.forget_ended_commit().await {
            Err(error) if is_refusal(&error) => Ok(()),
            done => done,
        }
    }

    async fn act(&mut self, act: Act, by: Principal) -> Result<Commit, CommandError> {
        let pending = self.controller.pending_commit();
        if let Act::Begin(timeout) | Act::Extend(_, timeout) = &act {
            in_bounds(*timeout)?;
        }
        let (at, now) = (UnixTime::now(), Instant::now());
        let written = Written { at, by };
        let named = act.id().map(|id| match pending {
            Some(ref commit) if commit.state.id == id => Ok(commit.clone()),
            _ => Err(CommandError::CommitEnded { id: id.to_owned() }),
        });
        if matches!(act, Act::Begin(_)) {
            // Records of an earlier one would be taken for records of this one.
            self.forget_ended_commit().await.map_err(CommandError::Store)?;
        }
        let commit = match (&act, named.transpose()?, pending) {
            (Act::Begin(_), _, Some(commit)) => {
                let (id, by) = (commit.state.id, commit.state.begun.by.to_string());
                return Err(CommandError::CommitPending { id, by });
            }
            (Act::Begin(timeout), ..) => Commit::begin(drawn_id()?, written.clone(), *timeout, now),
            (Act::Extend(_, timeout), Some(commit), _) => commit.extended(*timeout, at, now),
            (Act::Cancel(_), Some(commit), _) => {
                return self.roll_back(commit, End::Cancelled, written.by).await.map_err(CommandError::Store);
            }
            (Act::Confirm(_), Some(mut commit), _) => {
                let ended = Ended { written: written.clone(), how: End::Confirmed, refused: Vec::new() };
                commit.state.ended = Some(ended);
                commit
            }
            // An act that names a commit has one.
            (.., None, _) => return Err(CommandError::Stopping),
        };
        self.store_commit(&commit, &written, act.action()).await.map_err(CommandError::Store)?;
        let State { code, text } = State::of(&commit, &written.by);
        self.controller.events().note(code, None, None, text);
        self.controller.set_commit(commit);
        self.forget_soon().await.map_err(CommandError::Store)?;
        self.controller.commit().ok_or(CommandError::Stopping)
    }

    /// The record of a commit with its entry of the audit.
    async fn store_commit(&mut self, commit: &Commit, written: &Written, action: Action) -> Result<(), StoreError> {
        if let Some(path) = self.read_only.clone() {
            return Err(StoreError::Full { path });
        }
        let note = self.audited(commit, written, action);
        let mut ops = note.ops.clone();
        ops.push(commit.op());
        self.commit(ops).await?;
        self.books.keep(note);
        Ok(())
    }

    fn audited(&self, commit: &Commit, written: &Written, act: Action) -> Note {
        let target = &Target { kind: IntentKind::Commit, name: commit.state.id.clone() };
        let revision = self.controller.read(|d| d.revision());
        self.books.note(&Entry { target, written, old: None, new: None, act, uid: None, revision })
    }

    async fn roll_back(&mut self, mut commit: Commit, how: End, by: Principal) -> Result<Commit, StoreError> {
        let this = self.controller.clone();
        let befores = tokio::task::spawn_blocking(move || befores(&this)).await;
        let befores = befores.unwrap_or_else(|e| {
            Err(StoreError::Failed { doing: "reading what a commit changed", detail: e.to_string() })
        })?;
        let mut left: Vec<(u64, Before, Option<CommandError>)> =
            befores.into_iter().map(|(sequence, before)| (sequence, before, None)).collect();
        for _ in 0..PASSES {
            let mut refused = Vec::new();
            for (sequence, before, _) in left {
                let command = self.controller.read(|d| before.command(d));
                let put_back = match command {
                    Ok(command) => self.put_back(command, commit::forget(sequence)).await?,
                    Err(why) => Err(why),
                };
                match put_back {
                    Ok(()) => {
                        commit.changes.remove(&before.target());
                        self.controller.set_commit(commit.clone());
                    }
                    Err(why) => refused.push((sequence, before, Some(why))),
                }
            }
            left = refused;
            if left.is_empty() {
                break;
            }
        }
        let refused: Vec<Refused> = left
            .iter()
            .filter_map(|(_, before, why)| Some(refusal(&before.target(), why.as_ref()?)))
            .take(MAX_REFUSED)
            .collect();
        for Refused { kind, name, detail } in &refused {
            tracing::error!(%kind, name, detail, commit = commit.state.id, "a rollback could not put a resource back: put it back by hand, canopyctl history has its versions");
            let detail = format!("commit {}: {kind}/{name} was not put back: {detail}", commit.state.id);
            self.controller.events().note(Code::RollbackRefused, None, None, detail);
        }
        let written = Written { at: UnixTime::now(), by };
        let action = if how == End::Cancelled { Action::Cancel } else { Action::Expire };
        commit.state.ended = Some(Ended { written: written.clone(), how, refused });
        self.store_commit(&commit, &written, action).await?;
        let State { code, text } = State::of(&commit, &written.by);
        self.controller.events().note(code, None, None, text);
        self.controller.set_commit(commit);
        self.forget_soon().await?;
        self.controller.commit().ok_or(StoreError::Failed { doing: "ending a commit", detail: String::new() })
    }

    async fn forget(&mut self, ops: Vec<Op>) -> Result<(), StoreError> {
        for ops in ops.chunks(REMOVED_AT_ONCE) {
            self.commit(ops.to_vec()).await?;
        }
        Ok(())
    }
}

/// What an event states of a commit.
struct State {
    code: Code,
    text: String,
}

impl State {
    fn of(commit: &Commit, by: &Principal) -> Self {
        let (id, timeout) = (&commit.state.id, commit.state.timeout_seconds);
        let (code, text) = match commit.state.ended.as_ref().map(|ended| ended.how) {
            None => {
                let text = format!("commit {id} of {by} is rolled back unless it is confirmed within {timeout} s");
                (Code::CommitPending, text)
            }
            Some(End::Confirmed) => (Code::CommitConfirmed, format!("{by} has confirmed commit {id}")),
            Some(End::Cancelled) => (Code::CommitRolledBack, format!("{by} has cancelled commit {id}")),
            Some(End::Expired) => (Code::CommitRolledBack, format!("commit {id} was not confirmed within {timeout} s")),
        };
        Self { code, text }
    }
}

fn in_bounds(timeout: Duration) -> Result<(), CommandError> {
    if (MIN_TIMEOUT..=MAX_TIMEOUT).contains(&timeout) { Ok(()) } else { Err(CommandError::CommitTimeout(timeout)) }
}

fn drawn_id() -> Result<String, CommandError> {
    let mut drawn = [0; 8];
    let failed =
        |e: getrandom::Error| StoreError::Failed { doing: "drawing the id of a commit", detail: e.to_string() };
    getrandom::fill(&mut drawn).map_err(|e| CommandError::Store(failed(e)))?;
    Ok(hex::encode(drawn))
}

fn refusal(target: &Target, why: &CommandError) -> Refused {
    let mut detail = why.to_string();
    if let Some(cause) = std::error::Error::source(why) {
        detail += &format!(": {cause}");
    }
    Refused { kind: target.kind, name: target.name.clone(), detail }
}

/// What the pending commit has changed, the newest first.
fn befores(controller: &Controller) -> Result<Vec<(u64, Before)>, StoreError> {
    let snapshot = controller.store().scan(BEFORE)?;
    commit::newest_first(&snapshot.entries).map_err(|(key, e)| StoreError::Failed {
        doing: "reading what a commit changed",
        detail: format!("{key}: {e}"),
    })
}
