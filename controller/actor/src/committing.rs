// SPDX-License-Identifier: Apache-2.0
//! Carrying out confirmed commits: see [`commit`](crate::commit).

use std::sync::Arc;
use std::time::Duration;

use canopy_controller_core::audit::{Action, IntentKind};
use canopy_controller_core::principal::{Principal, Written};
use canopy_controller_core::request_id::RequestId;
use canopy_controller_core::tenant::Scope;
use canopy_controller_core::{Domain, Outcome};
use canopy_model::rfc3339;
use canopy_store::{MAX_OPS, Op, StoreError};
use canopy_units::UnixTime;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::books::{Entry, Note};
use crate::commit::{
    self, Act, BEFORE, Before, Commit, End, MAX_REFUSED, MAX_TIMEOUT, MIN_TIMEOUT, Refused, State, Touch,
};
use crate::events::Code;
use crate::once::{Attempt, Past, Replayed};
use crate::task::{Deed, Message, Task, failed, is_refusal};
use crate::{CommandError, Controller, Target};

/// How often a rollback is tried for resources that are refused: another one that was put back since may have been in the way.
const PASSES: usize = 3;
/// Longest reason that is kept of a resource that could not be put back, octets.
const MAX_DETAIL: usize = 1024;
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
    pub async fn do_with_commit(
        &self,
        act: Act,
        by: Principal,
        request: Option<RequestId>,
    ) -> Result<Commit, CommandError> {
        Ok(self.do_once_with_commit(act, by, request, None).await?.0)
    }

    /// The same with a key: see [`Order::key`](crate::Order::key). Of an act that was carried out before, the commit as it is now.
    ///
    /// # Errors
    /// As [`Controller::do_with_commit`], and the key was sent with another act, or the commit has been followed by another one.
    pub async fn do_once_with_commit(
        &self,
        act: Act,
        by: Principal,
        request: Option<RequestId>,
        key: Option<String>,
    ) -> Result<(Commit, Option<Replayed>), CommandError> {
        let (answer, done) = oneshot::channel();
        self.send(Message::Commit(Box::new(Deed { act, by, request, key, answer }))).await?;
        done.await.map_err(|_| CommandError::Stopping)?
    }

    /// What could not be put back now if the pending commit were rolled back: the rollback is carried out on a copy of the domain.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn try_rollback(&self) -> Result<Vec<Refused>, CommandError> {
        if self.with_commit(|pending| pending.is_none()) {
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
                        let prepared = domain.prepare_back(command, &Written::default())?;
                        Ok(domain.apply(prepared, now).map(drop)?)
                    });
                    if let Err(why) = put_back {
                        refused.push((before, Some(why)));
                    }
                }
                left = refused;
            }
            Ok(left
                .iter()
                .filter_map(|(before, why)| Some(refusal(&domain, &before.target(), why.as_ref()?)))
                .collect())
        });
        tried.await.map_err(|_| CommandError::Stopping)?
    }

    /// Reads the pending commit without a copy: it may have many changes.
    pub fn with_commit<R>(&self, read: impl FnOnce(Option<&Commit>) -> R) -> R {
        read(self.commit_lock().as_ref().filter(|commit| commit.is_pending()))
    }

    /// Why the pending commit needs attention: it is about to be rolled back.
    pub(crate) fn expiring_commit(&self) -> Option<String> {
        self.with_commit(|pending| {
            let commit = pending.filter(|commit| commit.is_expiring())?;
            let State { id, begun, deadline, .. } = &commit.state;
            let (by, at) = (&begun.by, rfc3339::seconds(*deadline));
            let changed = match commit.changes.len() {
                1 => "1 changed resource".to_owned(),
                n => format!("{n} changed resources"),
            };
            Some(format!("commit {id} of {by}, with {changed}, is taken back at {at}"))
        })
    }

    /// Which resources the last rollback could not put back and that are still as it has left them.
    pub(crate) fn refused_by_rollback(&self) -> Option<String> {
        // Not under both locks.
        let (id, refused) = {
            let commit = self.commit_lock();
            let state = &commit.as_ref()?.state;
            (state.id.clone(), state.ended.as_ref()?.refused.clone())
        };
        let is_left = |of: &&Refused| {
            let target = Target { kind: of.kind, name: of.name.clone() };
            self.read(|d| target.tag(d)) == of.tag
        };
        let mut left = refused.iter().filter(is_left);
        let Refused { kind, name, detail, .. } = left.next()?;
        let more = match left.count() {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        Some(format!("the rollback of commit {id} did not put {kind}/{name} back: {detail}{more}"))
    }

    /// When the pending commit is to be rolled back.
    pub(crate) fn commit_due(&self) -> Option<Instant> {
        self.with_commit(|pending| pending.map(|commit| commit.due))
    }

    pub(crate) fn touched(&self, touch: Touch) {
        if let Some(commit) = self.commit_lock().as_mut() {
            commit.keep(touch);
        }
    }

    /// What was put back is no longer a change of the commit: if it changes again, it is one again.
    fn was_put_back(&self, target: &Target) {
        if let Some(commit) = self.commit_lock().as_mut() {
            commit.changes.remove(target);
        }
    }

    fn set_commit(&self, commit: Commit) {
        *self.commit_lock() = Some(commit);
    }
}

impl Task {
    /// Takes an act of an operator; `Err` if the store has failed.
    pub(crate) async fn do_with_commit(&mut self, deed: Deed) -> Result<(), StoreError> {
        let Deed { act, by, request, key, answer } = deed;
        let attempt = Attempt::of_act(&act, &by, key.as_deref());
        let known = attempt.as_ref().map_or(Ok(None), |attempt| self.once.find(attempt, UnixTime::now()));
        let done = match known.transpose() {
            Some(again) => again.and_then(|past| self.replay_act(past)),
            None => self.act(act, by, request, attempt).await.map(|commit| (commit, None)),
        };
        self.controller.audit_ends_at(self.books.next());
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
        let Some(commit) = self.controller.commit() else { return Ok(()) };
        match self.roll_back(commit, End::Expired, (Principal::default().into(), None), None).await {
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

    /// The answer to an act that was carried out before: the commit as it is now.
    fn replay_act(&self, past: &Past) -> Result<(Commit, Option<Replayed>), CommandError> {
        let (target, replayed) = (past.target(), past.replayed());
        let Some(commit) = self.controller.commit().filter(|commit| commit.state.id == target.name) else {
            let did = if past.outcome == Outcome::Created { "created" } else { "changed" };
            return Err(CommandError::Outlived { resource: target.to_string(), did, at: replayed.at });
        };
        self.controller.replayed_one();
        Ok((commit, Some(replayed)))
    }

    async fn act(
        &mut self,
        act: Act,
        by: Principal,
        request: Option<RequestId>,
        attempt: Option<Attempt>,
    ) -> Result<Commit, CommandError> {
        if let Act::Begin(timeout) | Act::Extend(_, timeout) = &act {
            in_bounds(*timeout)?;
        }
        let (at, now) = (UnixTime::now(), Instant::now());
        let (written, action) = (Written { at, by: by.into(), request }, act.action());
        let commit = match act {
            Act::Begin(timeout) => {
                self.controller.with_commit(|pending| commit::check(pending, None, &Scope::Domain))?;
                // Records of an earlier one would be taken for records of this one.
                self.forget_ended_commit().await.map_err(CommandError::Store)?;
                Commit::begin(drawn_id()?, written.clone(), timeout, now)
            }
            Act::Extend(id, timeout) => self.pending(&id)?.extended(timeout, at, now),
            Act::Confirm(id) => self.pending(&id)?.ended(written.clone(), End::Confirmed, Vec::new()),
            Act::Cancel(id) => {
                let commit = self.pending(&id)?;
                let done = self.roll_back(commit, End::Cancelled, (written.by, request), attempt).await;
                return done.map_err(CommandError::Store);
            }
        };
        self.enter(commit, &written, action, attempt).await.map_err(CommandError::Store)
    }

    /// The pending commit, if this is its id.
    fn pending(&self, id: &str) -> Result<Commit, CommandError> {
        let pending = self.controller.commit().filter(|commit| commit.is_pending() && commit.state.id == id);
        pending.ok_or_else(|| CommandError::CommitEnded { id: id.to_owned() })
    }

    /// A commit that was begun, extended or ended: durable, with its entry of the audit, then in force.
    async fn enter(
        &mut self,
        commit: Commit,
        written: &Written,
        action: Action,
        attempt: Option<Attempt>,
    ) -> Result<Commit, StoreError> {
        self.store_commit(&commit, written, action, attempt).await?;
        let (code, text) = event(&commit, &written.by);
        self.controller.events().note_of(written.request, code, text);
        self.controller.set_commit(commit.clone());
        if commit.is_pending() {
            return Ok(commit);
        }
        // They waited for its end.
        self.controller.advance_retirements();
        match self.forget_ended_commit().await {
            // Before the next commit begins.
            Err(error) if is_refusal(&error) => {}
            done => done?,
        }
        let mut ended = commit;
        ended.changes.clear();
        Ok(ended)
    }

    /// The record of a commit with its entry of the audit.
    async fn store_commit(
        &mut self,
        commit: &Commit,
        written: &Written,
        action: Action,
        attempt: Option<Attempt>,
    ) -> Result<(), StoreError> {
        if let Some(path) = self.read_only.clone() {
            return Err(StoreError::Full { path });
        }
        let note = self.audited(commit, written, action);
        let outcome = if action == Action::Begin { Outcome::Created } else { Outcome::Updated };
        let target = Target { kind: IntentKind::Commit, name: commit.state.id.clone() };
        let of = (target, None);
        let once = attempt.map(|attempt| self.once.note(attempt, (written.at, written.request), outcome, of, None));
        let mut ops = note.ops.clone();
        ops.push(commit.op());
        ops.extend(once.iter().flat_map(|once| once.ops.iter().cloned()));
        self.commit(ops).await?;
        self.books.keep(note);
        if let Some(once) = once {
            self.keep_key(once);
        }
        Ok(())
    }

    fn audited(&self, commit: &Commit, written: &Written, act: Action) -> Note {
        let target = &Target { kind: IntentKind::Commit, name: commit.state.id.clone() };
        let revision = self.controller.read(|d| d.revision());
        self.books.note(&Entry { target, written, old: None, new: None, act, uid: None, tenant: None, revision })
    }

    async fn roll_back(
        &mut self,
        commit: Commit,
        how: End,
        (by, request): (Arc<Principal>, Option<RequestId>),
        attempt: Option<Attempt>,
    ) -> Result<Commit, StoreError> {
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
                    Ok(()) => self.controller.was_put_back(&before.target()),
                    Err(why) => refused.push((sequence, before, Some(why))),
                }
            }
            left = refused;
            if left.is_empty() {
                break;
            }
        }
        let refused = left.iter().take(MAX_REFUSED);
        let refused: Vec<Refused> = self.controller.read(|d| {
            refused.filter_map(|(_, before, why)| Some(refusal(d, &before.target(), why.as_ref()?))).collect()
        });
        for Refused { kind, name, detail, .. } in &refused {
            tracing::error!(%kind, name, detail, commit = commit.state.id, "a rollback could not put a resource back: put it back by hand, canopyctl history has its versions");
            let detail = format!("commit {}: {kind}/{name} was not put back: {detail}", commit.state.id);
            self.controller.events().note(Code::RollbackRefused, None, detail);
        }
        let written = Written { at: UnixTime::now(), by, request };
        let action = if how == End::Cancelled { Action::Cancel } else { Action::Expire };
        let left = self.controller.commit().unwrap_or(commit);
        self.enter(left.ended(written.clone(), how, refused), &written, action, attempt).await
    }

    async fn forget(&mut self, ops: Vec<Op>) -> Result<(), StoreError> {
        for ops in ops.chunks(REMOVED_AT_ONCE) {
            self.commit(ops.to_vec()).await?;
        }
        Ok(())
    }
}

/// The event about a commit that was begun, extended or ended by this principal.
fn event(commit: &Commit, by: &Principal) -> (Code, String) {
    let (id, timeout) = (&commit.state.id, commit.state.timeout_seconds);
    match commit.state.ended.as_ref().map(|ended| ended.how) {
        None => {
            let text = format!("commit {id} of {by} is rolled back unless it is confirmed within {timeout} s");
            (Code::CommitPending, text)
        }
        Some(End::Confirmed) => (Code::CommitConfirmed, format!("{by} has confirmed commit {id}")),
        Some(End::Cancelled) => (Code::CommitRolledBack, format!("{by} has cancelled commit {id}")),
        Some(End::Expired) => (Code::CommitRolledBack, format!("commit {id} was not confirmed within {timeout} s")),
    }
}

fn in_bounds(timeout: Duration) -> Result<(), CommandError> {
    if (MIN_TIMEOUT..=MAX_TIMEOUT).contains(&timeout) { Ok(()) } else { Err(CommandError::CommitTimeout(timeout)) }
}

/// 16 hexadecimal digits, drawn at random.
pub(crate) fn drawn_id() -> Result<String, CommandError> {
    let mut drawn = [0; 8];
    let failed = |e: getrandom::Error| StoreError::Failed { doing: "drawing an id", detail: e.to_string() };
    getrandom::fill(&mut drawn).map_err(|e| CommandError::Store(failed(e)))?;
    Ok(hex::encode(drawn))
}

/// Why a resource was not written, as it is kept.
pub(crate) fn refusal(domain: &Domain, target: &Target, why: &CommandError) -> Refused {
    let mut detail = why.to_string();
    if let Some(cause) = std::error::Error::source(why) {
        detail += &format!(": {cause}");
    }
    // A hundred of them are a record.
    detail.truncate(detail.floor_char_boundary(MAX_DETAIL));
    Refused { kind: target.kind, name: target.name.clone(), detail, tag: target.tag(domain) }
}

/// What the pending commit has changed, the newest first.
fn befores(controller: &Controller) -> Result<Vec<(u64, Before)>, StoreError> {
    let snapshot = controller.store().scan(BEFORE)?;
    commit::newest_first(&snapshot.entries).map_err(|(key, e)| StoreError::Failed {
        doing: "reading what a commit changed",
        detail: format!("{key}: {e}"),
    })
}
