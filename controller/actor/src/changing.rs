// SPDX-License-Identifier: Apache-2.0
//! Carrying out change sets: see [`change_sets`](crate::change_sets).
//!
//! Steps are taken one at a time between the messages that wait, so that a set delays others by one commit. What does not depend on the set
//! makes it wait and not stop: a pending commit, a full store, a tenant's changes in a second.

use std::time::Duration;

use canopy_controller_core::audit::{Action, IntentKind};
use canopy_controller_core::principal::Written;
use canopy_controller_core::tenant::Scope;
use canopy_controller_core::uid::Uid;
use canopy_controller_core::{Command, DomainError, Outcome};
use canopy_store::{MAX_OPS, MAX_VALUE_BYTES, ORDINARY_OCTETS, Op, StoreError};
use canopy_units::UnixTime;
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::books::Entry;
use crate::change_sets::{
    self, AT_ONCE, Act, Author, Before, ChangeOrder, ChangeSet, ChangeSets, Item, MAX_ITEMS, MAX_OCTETS, MAX_REFUSED,
    RECORD, Stage, State, before_key, item_key, serialized, state_key,
};
use crate::commit::{self, Refused};
use crate::committing::{drawn_id, refusal};
use crate::intent::Declared;
use crate::once::{Attempt, Past, Replayed};
use crate::order::{Order, Precondition};
use crate::shares::owner;
use crate::task::{Batch, Change, ChangeDeed, Message, Planned, Task, failed, is_refusal};
use crate::{CommandError, Controller, Target};

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

    /// The answer to an act that was carried out before: the set as it is now.
    fn replay_change_set(&self, past: &Past, scope: &Scope) -> Result<(ChangeSet, Option<Replayed>), CommandError> {
        let (target, replayed) = (past.target(), past.replayed());
        let Some(set) = self.controller.change_set(&target.name, scope) else {
            let did = if past.outcome == Outcome::Created { "created" } else { "changed" };
            return Err(CommandError::Outlived { resource: target.to_string(), did, at: replayed.at });
        };
        self.controller.replayed_one();
        Ok((set, Some(replayed)))
    }

    async fn act_on_change_set(
        &mut self,
        order: ChangeOrder,
        attempt: Option<Attempt>,
    ) -> Result<ChangeSet, CommandError> {
        let ChangeOrder { act, by, request, key: _, scope, manager } = order;
        self.controller.with_commit(|pending| commit::check(pending, None, &scope))?;
        let written = Written { at: UnixTime::now(), by, request };
        let author = Author { written, scope, manager };
        if let Some(tenant) = author.tenant() {
            let limit = self.controller.read(|d| d.quota(tenant)).changes_per_second;
            let taken = self.rates.take(tenant, limit, self.controller.now());
            taken.map_err(|too_fast| CommandError::TooFast { tenant: tenant.to_owned(), too_fast })?;
        }
        if let Some(path) = self.read_only.clone() {
            return Err(CommandError::Store(StoreError::Full { path }));
        }
        match act {
            Act::Apply(commands) => self.begin_change_set(commands, author, attempt).await,
            Act::Again(_) => Err(DomainError::NotFound { kind: "change set", name: "with this key".to_owned() }.into()),
            Act::Undo(id) => self.begin_undo(&id, author, attempt).await,
        }
    }

    async fn begin_change_set(
        &mut self,
        commands: Vec<(Command, Precondition)>,
        author: Author,
        attempt: Option<Attempt>,
    ) -> Result<ChangeSet, CommandError> {
        if commands.is_empty() || commands.len() > MAX_ITEMS {
            let why = format!("{} resources: a change set has 1 to {MAX_ITEMS}", commands.len());
            return Err(DomainError::Limit(why).into());
        }
        let scope = self.controller.read(|d| change_sets::narrowed(&author.scope, &commands, d));
        let author = Author { scope, ..author };
        let whose = owner(author.tenant());
        let chunks = change_sets::chunks(&commands)?;
        let state = State::new(drawn_id()?, author.clone(), &commands);
        let (number, left) = {
            let sets = self.controller.change_sets_lock();
            (sets.next(), sets.leaving(&whose)?)
        };
        let stored = self.store_change_set(number, (state.clone(), left), chunks, (&author, attempt)).await;
        self.controller.with_change_sets(|sets| match &stored {
            Ok(()) => sets.begun(state.clone(), left),
            Err(_) => sets.not_begun(),
        });
        stored.map(|()| ChangeSet { state, waits: None })
    }

    /// Stores what a set is to write, then the set itself.
    async fn store_change_set(
        &mut self,
        number: u64,
        (state, left): (State, Option<u64>),
        chunks: Vec<(usize, Vec<u8>)>,
        (author, attempt): (&Author, Option<Attempt>),
    ) -> Result<(), CommandError> {
        let mut ops = Vec::new();
        for (first, value) in chunks {
            let octets: usize = ops.iter().map(Op::octets).sum();
            if ops.len() == REMOVED_AT_ONCE || octets + value.len() > ORDINARY_OCTETS {
                self.commit(std::mem::take(&mut ops)).await.map_err(CommandError::Store)?;
            }
            ops.push(Op::Put { key: item_key(number, first), value });
        }
        self.commit(ops).await.map_err(CommandError::Store)?;
        let leaves = left.map(|left| Op::Delete { key: state_key(left) });
        let mut ops: Vec<Op> = leaves.into_iter().collect();
        ops.push(state.op(number));
        self.note_change_set(&state, author, Action::Begin, (attempt, ops)).await
    }

    async fn begin_undo(
        &mut self,
        id: &str,
        author: Author,
        attempt: Option<Attempt>,
    ) -> Result<ChangeSet, CommandError> {
        let found = self.controller.change_sets_lock().find(id, &author.scope);
        let Some((number, ChangeSet { state, .. })) = found else {
            return Err(DomainError::NotFound { kind: "change set", name: id.to_owned() }.into());
        };
        if let (Stage::Undoing | Stage::Undone, Some(undone)) = (state.stage, &state.undone) {
            let (id, by, at) = (state.id.clone(), undone.written.by.to_string(), undone.written.at);
            return Err(CommandError::ChangeSetUndone { id, by, at });
        }
        self.controller.change_sets_lock().check_active(&owner(state.author.tenant()), Some(number))?;
        let state = state.undoing(author.clone());
        let ops = vec![state.op(number)];
        self.note_change_set(&state, &author, Action::Cancel, (attempt, ops)).await?;
        self.controller.with_change_sets(|sets| sets.keep(number, state.clone()));
        Ok(ChangeSet { state, waits: None })
    }

    /// Stores an act on a set with its entry of the audit.
    async fn note_change_set(
        &mut self,
        set: &State,
        author: &Author,
        act: Action,
        (attempt, mut ops): (Option<Attempt>, Vec<Op>),
    ) -> Result<(), CommandError> {
        let target = Target { kind: IntentKind::ChangeSet, name: set.id.clone() };
        let (written, tenant) = (&author.written, set.author.tenant().map(str::to_owned));
        let revision = self.controller.read(|d| d.revision());
        let entry = Entry { target: &target, written, old: None, new: None, act, uid: None, tenant, revision };
        let note = self.books.note(&entry);
        let outcome = if act == Action::Begin { Outcome::Created } else { Outcome::Updated };
        let of = (target, set.author.tenant());
        let once = attempt.map(|attempt| self.once.note(attempt, (written.at, written.request), outcome, of, None));
        ops.extend(note.ops.iter().cloned());
        ops.extend(once.iter().flat_map(|once| once.ops.iter().cloned()));
        self.commit(ops).await.map_err(CommandError::Store)?;
        self.books.keep(note);
        if let Some(once) = once {
            self.keep_key(once);
        }
        Ok(())
    }

    /// Writes the next resources of a set.
    async fn apply_some(&mut self, number: u64, mut set: State) -> Result<(), StoreError> {
        let items: Vec<Item> = match self.read_record(item_key(number, set.chunk)).await? {
            Ok(items) => items,
            Err(detail) => {
                let target = Target { kind: IntentKind::ChangeSet, name: set.id.clone() };
                return self.stop(number, set, &target, &DomainError::Limit(detail).into()).await;
            }
        };
        let (end, from) = (set.chunk + items.len(), set.done.saturating_sub(set.chunk));
        let (mut batch, mut befores) = (Batch::default(), Vec::new());
        let mut refused = None;
        for item in items.iter().skip(from).take(AT_ONCE) {
            let step = match self.plan_item(number, (&set, end), item, &befores) {
                Ok(Some(step)) => step,
                Ok(None) => break,
                Err(why) => {
                    refused = Some((item.target(), why));
                    break;
                }
            };
            let has_room = batch.has_room(&step.planned.ops);
            if !has_room && !batch.is_empty() {
                break;
            }
            if !has_room {
                match self.execute_own(step.planned).await? {
                    Ok(()) => self.controller.with_change_sets(|sets| sets.keep(number, step.next)),
                    Err(why) if waits(&why) => self.set_waits(number, &why),
                    Err(why) => self.stop(number, set, &item.target(), &why).await?,
                }
                return Ok(());
            }
            self.apply_before_commit(step.planned, &mut batch);
            befores.extend(step.before);
            set = step.next;
            if befores.iter().map(|before| serialized(before).len()).sum::<usize>() > RECORD {
                break;
            }
        }
        let has_step = !batch.is_empty();
        self.finish(batch).await?;
        if has_step {
            self.controller.with_change_sets(|sets| sets.keep(number, set.clone()));
        }
        match refused {
            Some((_, why)) if waits(&why) => self.set_waits(number, &why),
            Some((target, why)) => self.stop(number, set, &target, &why).await?,
            None => {}
        }
        Ok(())
    }

    /// A resource that passed every check, with what is stored beside it; `befores` are those of the resources before it in this step.
    /// `None`: there is no room for what it was before beside them.
    fn plan_item(
        &mut self,
        number: u64,
        (set, end): (&State, usize),
        item: &Item,
        befores: &[Before],
    ) -> Result<Option<Step>, CommandError> {
        let target = item.target();
        let unreadable = |e: serde_json::Error| {
            CommandError::from(DomainError::Limit(format!("{target} in the change set cannot be read: {e}")))
        };
        let order = item.order(&set.author).map_err(unreadable)?;
        let order = order.ok_or_else(|| DomainError::Limit(format!("{target} is no resource")))?;
        let old = self.controller.read(|d| target.declared(d));
        let (mut planned, outcome, uid) = self.plan_own(order)?;
        let mut next = set.clone().with(outcome, UnixTime::now());
        let mut before = None;
        if outcome != Outcome::Unchanged {
            let generation = old.as_ref().map_or(1, |(metadata, _)| metadata.generation + 1);
            let tag = uid.map(|uid| format!("{uid}.{generation}")).unwrap_or_default();
            let new = Before::new(target.clone(), old.as_ref().map(Declared::of), tag);
            let mut all = befores.to_vec();
            all.push(new.clone());
            let value = serialized(&all);
            if value.len() > MAX_VALUE_BYTES && !befores.is_empty() {
                return Ok(None);
            }
            next.octets += serialized(&new).len() as u64;
            if value.len() > MAX_VALUE_BYTES || next.octets > MAX_OCTETS {
                let why = format!(
                    "{target} could not be taken back: what a change set replaces is kept up to {MAX_OCTETS} octets, and up to {MAX_VALUE_BYTES} of one resource; write it alone"
                );
                return Err(DomainError::Limit(why).into());
            }
            if befores.is_empty() {
                next.befores += 1;
            }
            planned.ops.push(Op::Put { key: before_key(number, next.befores), value });
            before = Some(new);
        }
        if next.done == end {
            planned.ops.push(Op::Delete { key: item_key(number, set.chunk) });
            next.chunk = end;
        }
        planned.ops.push(next.op(number));
        Ok(Some(Step { planned, next, before }))
    }

    /// Takes back some of what a set has written, the last first.
    async fn undo_some(&mut self, number: u64, mut set: State) -> Result<(), StoreError> {
        let Some(author) = set.undone.clone().filter(|_| set.befores > 0) else {
            (set.stage, set.ended) = (Stage::Undone, Some(UnixTime::now()));
            return self.keep_change_set(number, set).await;
        };
        let key = before_key(number, set.befores);
        let mut befores: Vec<Before> = match self.read_record(key.clone()).await? {
            Ok(befores) => befores,
            Err(detail) => {
                let target = Target { kind: IntentKind::ChangeSet, name: set.id.clone() };
                let why = DomainError::Limit(detail).into();
                set.refused.push(self.controller.read(|d| refusal(d, &target, &why)));
                Vec::new()
            }
        };
        let (mut batch, mut waiting) = (Batch::default(), None);
        for _ in 0..AT_ONCE {
            let Some(before) = befores.pop() else { break };
            let target = before.target();
            let command = self.controller.read(|d| before.command(d));
            let planned = command.and_then(|command| match command {
                Some(command) => self.plan_own(author.order(command, Precondition::None)).map(Some),
                None => Ok(None),
            });
            let mut next = set.clone();
            match planned {
                Err(why) if waits(&why) => {
                    befores.push(before);
                    waiting = Some(why);
                    break;
                }
                Err(why) => {
                    if next.refused.len() < MAX_REFUSED {
                        next.refused.push(self.controller.read(|d| refusal(d, &target, &why)));
                    }
                    tracing::warn!(set = set.id, resource = %target, %why, "a change set could not put a resource back");
                    let ops = undo_ops(number, &mut next, &key, &befores);
                    batch.add(ops);
                }
                Ok(None) => batch.add(undo_ops(number, &mut next, &key, &befores)),
                Ok(Some((mut planned, ..))) => {
                    next.put_back += 1;
                    planned.ops.extend(undo_ops(number, &mut next, &key, &befores));
                    if !batch.has_room(&planned.ops) {
                        if !batch.is_empty() {
                            break;
                        }
                        match self.execute_own(planned).await? {
                            Ok(()) => self.controller.with_change_sets(|sets| sets.keep(number, next)),
                            Err(why) => self.set_waits(number, &why),
                        }
                        return Ok(());
                    }
                    self.apply_before_commit(planned, &mut batch);
                }
            }
            set = next;
        }
        if befores.is_empty() && batch.is_empty() {
            // A record that cannot be read.
            batch.add(undo_ops(number, &mut set, &key, &befores));
        }
        let has_step = !batch.is_empty();
        self.finish(batch).await?;
        if has_step {
            self.controller.with_change_sets(|sets| sets.keep(number, set));
        }
        if let Some(why) = waiting {
            self.set_waits(number, &why);
        }
        Ok(())
    }

    /// An order of a set that passed every check.
    fn plan_own(&mut self, order: Order) -> Result<(Planned, Outcome, Option<Uid>), CommandError> {
        self.controller.read(|d| order.check_scope(d))?;
        self.check_rate(&order)?;
        let rewires = matches!(order.command, Command::PutTopology { .. } | Command::DeleteTopology);
        let checked = self.controller.read(|d| self.prepare(d, order, false))?;
        let (outcome, uid) = (checked.prepared.outcome(), checked.uid);
        let intent = Some(self.controller.now());
        let change = Change {
            prepared: checked.prepared,
            note: checked.note,
            joined: None,
            touch: None,
            once: None,
            intent,
            show: None,
            trace: None,
        };
        // No caller waits for it.
        let (answer, _) = oneshot::channel();
        Ok((Planned { ops: change.ops(), change, rewires, answer }, outcome, uid))
    }

    /// Carries out what has no room beside others: it is stored before it is applied.
    async fn execute_own(&mut self, mut planned: Planned) -> Result<Result<(), CommandError>, StoreError> {
        let (answer, mut done) = oneshot::channel();
        planned.answer = answer;
        self.execute(planned).await?;
        Ok(done.try_recv().unwrap_or(Err(CommandError::Stopping)).map(drop))
    }

    /// Ends a set whose next resource is refused.
    async fn stop(&mut self, number: u64, set: State, target: &Target, why: &CommandError) -> Result<(), StoreError> {
        let Refused { kind, name, detail, tag } = self.controller.read(|d| refusal(d, target, why));
        tracing::warn!(set = set.id, %kind, name, detail, done = set.done, items = set.items, "a change set was stopped by a resource that is refused");
        let set = set.stopped(Refused { kind, name, detail, tag }, UnixTime::now());
        self.keep_change_set(number, set).await
    }

    async fn keep_change_set(&mut self, number: u64, set: State) -> Result<(), StoreError> {
        self.commit(vec![set.op(number)]).await?;
        self.controller.with_change_sets(|sets| sets.keep(number, set));
        Ok(())
    }

    fn set_waits(&self, number: u64, why: &CommandError) {
        let after = match why {
            CommandError::TooFast { too_fast, .. } => too_fast.wait,
            _ => RETRY,
        };
        let retry = Instant::now() + after;
        self.controller.with_change_sets(|sets| sets.waits(number, why.to_string(), retry));
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

    /// The record with this key; `Err` inside if it is not there or cannot be read.
    async fn read_record<T: DeserializeOwned>(&self, key: String) -> Result<Result<T, String>, StoreError> {
        let (store, wanted) = (self.store.clone(), key.clone());
        let read = tokio::task::spawn_blocking(move || store.scan(&wanted)).await;
        let read = read.unwrap_or_else(|e| Err(StoreError::Failed { doing: READING, detail: e.to_string() }))?;
        let Some((_, value)) = read.entries.first() else { return Ok(Err(format!("record {key:?} is not there"))) };
        Ok(serde_json::from_slice(value).map_err(|e| format!("record {key:?} cannot be read: {e}")))
    }
}

const READING: &str = "reading a change set";

/// One resource of a set with what is stored beside it, and the set from then on.
struct Step {
    planned: Planned,
    next: State,
    before: Option<Before>,
}

/// What is stored when the last of a record was taken back: `left` are those that follow.
fn undo_ops(number: u64, set: &mut State, key: &str, left: &[Before]) -> Vec<Op> {
    let record = if left.is_empty() {
        set.befores -= 1;
        Op::Delete { key: key.to_owned() }
    } else {
        Op::Put { key: key.to_owned(), value: serialized(&left) }
    };
    vec![record, set.op(number)]
}

/// A refusal that is not the resource's.
fn waits(why: &CommandError) -> bool {
    match why {
        CommandError::CommitPending { .. }
        | CommandError::DomainCommitPending { .. }
        | CommandError::TooFast { .. }
        | CommandError::Stopping => true,
        CommandError::Store(error) => is_refusal(error),
        _ => false,
    }
}
