// SPDX-License-Identifier: Apache-2.0
//! Acts of operators on change sets: each is answered once it is durable, with its entry of the audit.

use canopy_controller_core::audit::{Action, IntentKind};
use canopy_controller_core::principal::Written;
use canopy_controller_core::tenant::Scope;
use canopy_controller_core::{Command, DomainError, Outcome};
use canopy_store::{ORDINARY_OCTETS, Op, StoreError};
use canopy_units::UnixTime;

use super::REMOVED_AT_ONCE;
use crate::books::Entry;
use crate::change_sets::{self, Act, Author, ChangeOrder, ChangeSet, MAX_ITEMS, Stage, State, item_key, state_key};
use crate::commit;
use crate::committing::drawn_id;
use crate::once::{Attempt, Past, Replayed};
use crate::order::Precondition;
use crate::shares::owner;
use crate::task::Task;
use crate::{CommandError, Target};

impl Task {
    /// The answer to an act that was carried out before: the set as it is now.
    pub(super) fn replay_change_set(
        &self,
        past: &Past,
        scope: &Scope,
    ) -> Result<(ChangeSet, Option<Replayed>), CommandError> {
        let (target, replayed) = (past.target(), past.replayed());
        let Some(set) = self.controller.change_set(&target.name, scope) else {
            let did = if past.outcome == Outcome::Created { "created" } else { "changed" };
            return Err(CommandError::Outlived { resource: target.to_string(), did, at: replayed.at });
        };
        self.controller.replayed_one();
        Ok((set, Some(replayed)))
    }

    pub(super) async fn act_on_change_set(
        &mut self,
        order: ChangeOrder,
        attempt: Option<Attempt>,
    ) -> Result<ChangeSet, CommandError> {
        let ChangeOrder { act, by, request, key: _, scope, manager } = order;
        self.controller.with_commit(|pending| commit::check(pending, None, &scope))?;
        let written = Written { at: UnixTime::now(), by: by.into(), request };
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
}
