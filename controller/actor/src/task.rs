// SPDX-License-Identifier: Apache-2.0
//! The task: commands in batches, from check to durable record to published state.
//!
//! Commands that wait share one commit. Each is prepared against what those before it do, so they are applied as they are prepared; until
//! the commit has returned, nothing of them is published or answered, and readers of the APIs wait ([`Controller::settled`]). A command
//! that is alone, as most are, is applied behind its commit.
//!
//! ```text
//! running --store full--> read-only --store ready--> running          any --store failed--> ended
//! ```

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use canopy_controller_core::audit::{Action, IntentKind};
use canopy_controller_core::principal::{Principal, PrincipalKind, Written};
use canopy_controller_core::quota::Rates;
use canopy_controller_core::request_id::RequestId;
use canopy_controller_core::tenant::Scope;
use canopy_controller_core::trace::Trace;
use canopy_controller_core::uid::Uid;
use canopy_controller_core::{Applied, BuiltTopology, Command, Domain, Outcome, Prepared, Shared};
use canopy_store::{Op, Revision, Store, StoreError};
use canopy_units::{Monotonic, UnixTime};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::batch::{Answer, Batch};
use crate::books::{Books, Entry, Note};
use crate::change_sets::{ChangeOrder, ChangeSet};
use crate::commit::{self, Act, Commit, Touch};
use crate::events::Code;
use crate::intent::{Target, wanted};
use crate::joins::{self, Joins};
use crate::once::{self, Attempt, Once, Past, Replayed};
use crate::order::Order;
use crate::preview::Preview;
use crate::record::op;
use crate::term::{TERM_KEY, start_ops};
use crate::traces::Span;
use crate::{CommandError, Controller, Done};

/// Commands that may wait in the queue, and that one batch has: one second of membership changes. Beyond that, callers wait.
pub(crate) const QUEUE: usize = 1024;
/// How often a store that is read-only is tried again without a command.
const RETRY: Duration = Duration::from_secs(5);

pub(crate) enum Message {
    Execute(Box<Request>),
    /// Begins, extends or ends a confirmed commit.
    Commit(Box<Deed>),
    /// Begins a change set, or takes one back.
    ChangeSet(Box<ChangeDeed>),
    /// Adds an entry to the audit, of an act that writes nothing else.
    Audit(Box<AuditedAct>),
    /// Takes a term above this one, durably.
    RaiseTerm {
        above: u64,
        answer: oneshot::Sender<Result<(), CommandError>>,
    },
    /// Removes a silence whose time has come.
    EndSilence {
        name: String,
        why: &'static str,
    },
    Stop,
}

/// Reads what a command has made of the domain, before the next one.
pub(crate) type Show = Box<dyn FnOnce(&Domain) + Send>;

pub(crate) struct Request {
    pub(crate) order: Order,
    pub(crate) arrived: Monotonic,
    pub(crate) show: Option<Show>,
    pub(crate) answer: oneshot::Sender<Result<Done, CommandError>>,
}

/// What an operator does with a confirmed commit.
pub(crate) struct Deed {
    pub(crate) act: Act,
    pub(crate) by: Principal,
    pub(crate) request: Option<RequestId>,
    /// As of an [`Order`].
    pub(crate) key: Option<String>,
    pub(crate) answer: oneshot::Sender<Result<(Commit, Option<Replayed>), CommandError>>,
}

/// What an operator does with change sets.
pub(crate) struct ChangeDeed {
    pub(crate) order: ChangeOrder,
    pub(crate) answer: oneshot::Sender<Result<(ChangeSet, Option<Replayed>), CommandError>>,
}

/// What an operator does that changes no record but the audit.
pub(crate) struct AuditedAct {
    pub(crate) target: Target,
    pub(crate) action: Action,
    pub(crate) by: Principal,
    pub(crate) request: Option<RequestId>,
    pub(crate) answer: oneshot::Sender<Result<(), CommandError>>,
}

/// A traced change.
pub(crate) struct Traced {
    trace: Trace,
    /// Its number in the confirmations; `None` if it concerns no node.
    change: Option<u64>,
}

/// The owner of the store and of all durable changes.
pub(crate) struct Task {
    pub(crate) controller: Controller,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) revision: Revision,
    /// The last term before this start, while the disk was too full to store the next one.
    pub(crate) unstarted: Option<u64>,
    /// Of the changes that were applied, those that are durable.
    pub(crate) durable: watch::Sender<u64>,
    pub(crate) queue: mpsc::Receiver<Message>,
    /// What operators wrote.
    pub(crate) books: Books,
    /// Which hosts joined and left.
    pub(crate) joins: Joins,
    /// Who wrote lately, as what they wrote has it.
    pub(crate) principals: Shared<Principal>,
    /// Writes that may be sent again.
    pub(crate) once: Once,
    /// Traced changes that are applied and whose store is not done.
    pub(crate) traced: Vec<Traced>,
    /// The store while its disk is full; `None` while it takes changes.
    pub(crate) read_only: Option<PathBuf>,
    /// When a drain that could not be ended is tried again.
    pub(crate) drain_retry: Option<Instant>,
    /// When a step of a deletion that failed is tried again.
    pub(crate) deletion_retry: Option<Instant>,
    /// What operators changed of tenants a moment ago.
    pub(crate) rates: Rates,
}

/// An order that passed every check.
pub(crate) struct Checked {
    pub(crate) prepared: Prepared,
    pub(crate) note: Option<Note>,
    joined: Option<joins::Note>,
    touch: Option<Touch>,
    preview: Option<Box<Preview>>,
    /// Of the resource from then on, if it is there.
    pub(crate) uid: Option<Uid>,
}

/// A command that passed every check and is not applied yet.
pub(crate) struct Planned {
    pub(crate) change: Change,
    pub(crate) ops: Vec<Op>,
    pub(crate) rewires: bool,
    pub(crate) answer: Answer,
}

/// What is applied in memory once it is durable, or will be before it is seen.
pub(crate) struct Change {
    pub(crate) prepared: Prepared,
    pub(crate) note: Option<Note>,
    pub(crate) joined: Option<joins::Note>,
    pub(crate) touch: Option<Touch>,
    pub(crate) once: Option<once::Note>,
    /// When it arrived, if it is an operator's or an application's.
    pub(crate) intent: Option<Monotonic>,
    pub(crate) show: Option<Show>,
    pub(crate) trace: Option<Trace>,
}

impl Change {
    /// All that is stored with it.
    pub(crate) fn ops(&self) -> Vec<Op> {
        let noted = self.note.iter().flat_map(|note| note.ops.iter().cloned());
        let joined = self.joined.iter().flat_map(|note| note.ops.iter().cloned());
        let touched = self.touch.iter().map(|touch| touch.op.clone());
        let keyed = self.once.iter().flat_map(|once| once.ops.iter().cloned());
        self.prepared.writes.iter().map(op).chain(noted).chain(joined).chain(touched).chain(keyed).collect()
    }
}

impl Task {
    /// Runs until [`Message::Stop`], or until the store fails: its state is then unknown, and only a restart, which reads
    /// it, recovers.
    pub(crate) async fn run(mut self) -> Result<(), StoreError> {
        match self.forget_ended_commit().await {
            // Before the next commit begins.
            Err(error) if is_refusal(&error) => {}
            done => done?,
        }
        // Before the first command of anyone: its time may have passed while no controller ran.
        self.roll_back_if_due().await?;
        let mut held = None;
        loop {
            let message = match held.take() {
                Some(message) => Some(message),
                None => self.next().await?,
            };
            if self.read_only.is_some() {
                self.try_again().await?;
            }
            self.do_what_is_due().await?;
            match message {
                None | Some(Message::Stop) => return Ok(()),
                Some(Message::RaiseTerm { above, answer }) => {
                    let raised = self.raise_term(above).await;
                    let failed = raised.as_ref().err().filter(|e| !is_refusal(e)).map(failed);
                    _ = answer.send(raised.map_err(CommandError::Store));
                    failed.map_or(Ok(()), Err)?;
                }
                Some(Message::Audit(act)) => self.audit(*act).await?,
                Some(Message::Commit(deed)) => self.do_with_commit(*deed).await?,
                Some(Message::ChangeSet(deed)) => self.do_with_change_set(*deed).await?,
                Some(Message::EndSilence { name, why }) => self.end_silence(name, why).await?,
                Some(Message::Execute(request)) => {
                    held = self.batch(*request).await?;
                    // Callers read what they have changed before the next batch is applied.
                    tokio::task::yield_now().await;
                }
            }
        }
    }

    /// The next message; meanwhile a store that is read-only is tried again, and what is due is done.
    async fn next(&mut self) -> Result<Option<Message>, StoreError> {
        loop {
            let again = self.read_only.is_some().then(|| Instant::now() + RETRY);
            let due = self.due().filter(|_| self.read_only.is_none());
            let Some(at) = again.or(due) else { return Ok(self.queue.recv().await) };
            if let Ok(message) = tokio::time::timeout_at(at, self.queue.recv()).await {
                return Ok(message);
            }
            if self.read_only.is_some() {
                self.try_again().await?;
            }
            self.do_what_is_due().await?;
            self.controller.audit_ends_at(self.books.next());
        }
    }

    /// When [`Task::do_what_is_due`] may have something to do.
    fn due(&self) -> Option<Instant> {
        let all = [self.controller.commit_due(), self.drain_due(), self.deletion_due(), self.change_set_due()];
        all.into_iter().flatten().min()
    }

    /// Rolls back a commit that was not confirmed in time, ends a drain whose time has passed, and takes a step of a deletion and of a change
    /// set.
    async fn do_what_is_due(&mut self) -> Result<(), StoreError> {
        self.roll_back_if_due().await?;
        self.end_drain_if_due().await?;
        self.continue_deletion().await?;
        self.continue_change_set().await
    }

    /// Carries out `first` and the commands that wait behind it. Returns the next message that is none.
    async fn batch(&mut self, first: Request) -> Result<Option<Message>, StoreError> {
        let mut batch = Batch::default();
        let (mut request, mut alone, mut held, mut answered) = (Some(first), None, None, 0);
        while let Some(next) = request.take() {
            if let Some(planned) = self.plan(next, &mut batch) {
                let is_only_one = batch.ops.is_empty() && self.queue.is_empty();
                if !batch.has_room(&planned.ops) && Batch::default().has_room(&planned.ops) {
                    answered += batch.answers.len();
                    self.finish(std::mem::take(&mut batch)).await?;
                }
                // One that the store may refuse is applied when it is durable.
                if is_only_one || self.read_only.is_some() || !batch.has_room(&planned.ops) {
                    alone = Some(planned);
                    break;
                }
                self.apply_before_commit(planned, &mut batch);
            }
            // Also of commands that write nothing: who came first does not wait for ever.
            if answered + batch.answers.len() >= QUEUE {
                break;
            }
            match self.queue.try_recv() {
                Ok(Message::Execute(next)) => request = Some(*next),
                other => held = other.ok(),
            }
        }
        self.finish(batch).await?;
        if let Some(planned) = alone {
            self.execute(planned).await?;
        }
        Ok(held)
    }

    /// `None` if the command ends here; the batch has its answer.
    fn plan(&mut self, request: Request, batch: &mut Batch) -> Option<Planned> {
        let Request { order, arrived, show, answer } = request;
        let attempt = Attempt::of(&order);
        let known = attempt.as_ref().map_or(Ok(None), |attempt| self.once.find(attempt, UnixTime::now()));
        // Before a key: what was written may belong to another tenant now. What was deleted is gone by that, and its name another one's perhaps.
        if let Err(refused) = self.controller.read(|d| order.check_scope(d)) {
            let deleted = known.ok().flatten().filter(|past| past.outcome == Outcome::Deleted);
            let done = match deleted {
                Some(past) => self.replay(past, None),
                None => Err(self.check_rate(&order).err().unwrap_or(refused)),
            };
            batch.answers.push((answer, done));
            return None;
        }
        if let Some(again) = known.transpose() {
            batch.answers.push((answer, again.and_then(|past| self.replay(past, show))));
            return None;
        }
        if let Err(refused) = self.check_rate(&order) {
            batch.answers.push((answer, Err(refused)));
            return None;
        }
        let keyed = attempt.zip(Target::of(&order.command)).map(|(attempt, target)| {
            let tenant = self.controller.read(|d| target.tenant(d, &order.command));
            (attempt, target, tenant)
        });
        let request = order.request;
        let rewires = matches!(order.command, Command::PutTopology { .. } | Command::DeleteTopology);
        let intent = is_intent(&order.command).then_some(arrived);
        let dry_run = order.dry_run;
        let trace = order.trace;
        let begun = self.controller.now();
        let built = self.built(&order);
        let order = Order { by: self.principals.share(order.by), ..order };
        let prepared = beside_others(rewires, || self.controller.read(|d| self.prepare(d, order, false, built)));
        if let Some(trace) = trace {
            let (traces, now) = (self.controller.traces(), self.controller.now());
            traces.record(Span::part(trace, "wait", arrived, begun));
            let why = prepared.as_ref().err().map(ToString::to_string);
            traces.record(Span::part(trace, "plan", begun, now).map(|span| Span { error: why, ..span }));
        }
        let end = match prepared {
            Ok(Checked { prepared, preview, .. }) if dry_run => {
                Ok(Done { outcome: prepared.outcome(), applied: None, replayed: None, preview })
            }
            Ok(Checked { prepared, note, joined, touch, uid, .. }) => {
                if let Some(path) = self.read_only.clone().filter(|_| !prepared.is_noop() || keyed.is_some()) {
                    batch.answers.push((answer, Err(CommandError::Store(StoreError::Full { path }))));
                    return None;
                }
                let trace = trace.filter(|_| !prepared.is_noop());
                let once = keyed.map(|(attempt, target, tenant)| {
                    let of = (target, tenant.as_deref());
                    self.once.note(attempt, (UnixTime::now(), request), prepared.outcome(), of, uid)
                });
                let change = Change { prepared, note, joined, touch, once, intent, show, trace };
                return Some(Planned { ops: change.ops(), change, rewires, answer });
            }
            Err(refused) => Err(refused),
        };
        batch.answers.push((answer, end));
        None
    }

    /// Counts an operator's change of what a tenant has; also one that is refused, which costs as much. One of what is in none of the caller's
    /// tenants counts for the first of these, whether it is another's or not there.
    pub(crate) fn check_rate(&mut self, order: &Order) -> Result<(), CommandError> {
        // Operators of the domain keep order among tenants: no tenant's rate holds them up.
        let is_bound = order.by.kind == PrincipalKind::Operator && !order.dry_run;
        let found = self.controller.read(|d| {
            let Scope::Tenants(own) = &order.scope else { return None };
            let target = Target::of(&order.command).filter(|_| is_bound)?;
            let tenant = target.tenant(d, &order.command).filter(|tenant| own.contains(tenant));
            let tenant = tenant.or_else(|| own.first().cloned())?;
            let limit = d.quota(&tenant).changes_per_second;
            Some((tenant, limit))
        });
        let Some((tenant, limit)) = found else { return Ok(()) };
        let taken = self.rates.take(&tenant, limit, self.controller.now());
        taken.map_err(|too_fast| CommandError::TooFast { tenant, too_fast })
    }

    /// The answer to a write that was carried out before: its resource as it is now.
    fn replay(&self, past: &Past, show: Option<Show>) -> Result<Done, CommandError> {
        let target = past.target();
        if let Some(uid) = past.uid {
            let is_there =
                self.controller.read(|d| target.declared(d)).is_some_and(|(metadata, _)| metadata.uid == uid);
            if !is_there {
                let did = if past.outcome == Outcome::Created { "created" } else { "changed" };
                return Err(CommandError::Outlived { resource: target.to_string(), did, at: past.replayed().at });
            }
        }
        if let Some(show) = show {
            self.controller.read(show);
        }
        self.controller.replayed_one();
        Ok(Done { outcome: past.outcome, applied: None, replayed: Some(past.replayed()), preview: None })
    }

    /// Builds the topology that an order declares, while others read and change the domain; none of an order that is refused at once.
    pub(crate) fn built(&self, order: &Order) -> Option<BuiltTopology> {
        let Command::PutTopology { spec, .. } = &order.command else { return None };
        let draft = self.controller.read(|d| order.check(d).is_ok().then(|| d.draft_topology(spec)).flatten())?;
        Some(beside_others(true, || draft.build()))
    }

    /// Checks an order, and notes what an operator writes, and what the controller (`is_own`) writes of what operators declare.
    pub(crate) fn prepare(
        &self,
        domain: &Domain,
        order: Order,
        is_own: bool,
        built: Option<BuiltTopology>,
    ) -> Result<Checked, CommandError> {
        order.check(domain)?;
        order.check_manager(domain)?;
        if let Command::Retire { node, .. } | Command::CancelRetirement { node } = &order.command {
            self.controller.check_retiring(node)?;
        }
        let Order { command, by, request, plan, commit, dry_run, scope, .. } = order;
        let written = Written { at: UnixTime::now(), by, request };
        let is_operator = written.by.kind == PrincipalKind::Operator || is_own;
        let target = Target::of(&command).filter(|_| is_operator || dry_run || plan.is_some());
        let Some(target) = target else {
            let act = host_act(domain, &command, &written);
            let prepared = domain.prepare_as(command, &written)?;
            let act = act.filter(|_| !prepared.is_noop());
            return Ok(Checked {
                prepared,
                note: None,
                joined: act.map(|(target, action, tenant)| self.joins.note(target, action, written, &tenant)),
                touch: None,
                preview: None,
                uid: None,
            });
        };
        let (old, new) = (target.declared(domain), wanted(&command));
        let prepared = if is_own {
            domain.prepare_back(command.clone(), &written)?
        } else {
            domain.prepare_built(command.clone(), &written, built)?
        };
        let preview = (dry_run || plan.is_some()).then(|| {
            let old = old.as_ref().map(|(_, intent)| intent);
            Box::new(Preview::new(domain, Some(&target), old, new.as_ref(), &prepared))
        });
        if let (Some(expected), Some(preview)) = (plan, &preview)
            && preview.plan != expected
        {
            return Err(CommandError::PlanChanged { expected, actual: preview.plan.clone() });
        }
        let is_noted = is_operator && !dry_run && !prepared.is_noop();
        // What is known of a problem has to be written down also while others wait for a commit.
        let is_change = target.kind != IntentKind::Silence;
        let touch = if is_noted && !is_own && is_change {
            self.controller.with_commit(|pending| {
                commit::check(pending, commit.as_deref(), &scope)?;
                pending.map_or(Ok(None), |pending| pending.touch(domain, &target, &command, old.as_ref()))
            })?
        } else {
            None
        };
        let note = is_noted.then(|| {
            let (uid, revision) = (Some(domain.next_uid()), domain.revision() + 1);
            let (old, new) = (old.as_ref(), new.as_ref());
            let act = Action::Rotate;
            let tenant = target.tenant(domain, &command);
            self.books.note(&Entry { target: &target, written: &written, old, new, act, uid, tenant, revision })
        });
        let uid = match (&old, &new) {
            (Some((metadata, _)), Some(_)) => Some(metadata.uid),
            (None, Some(_)) => Some(domain.next_uid()),
            (_, None) => None,
        };
        Ok(Checked { prepared, note, joined: None, touch, preview, uid })
    }

    pub(crate) fn apply_before_commit(&mut self, planned: Planned, batch: &mut Batch) {
        let Planned { change, ops, rewires, answer } = planned;
        if !ops.is_empty() {
            self.controller.applies();
        }
        batch.add(ops);
        batch.rewires |= rewires;
        batch.answers.push((answer, beside_others(rewires, || self.apply(change))));
    }

    fn apply(&mut self, change: Change) -> Result<Done, CommandError> {
        let Change { prepared, note, joined, touch, once, intent, show, trace } = change;
        if let Some(touch) = touch {
            self.controller.touched(touch);
        }
        if let Some(note) = note {
            self.books.keep(note);
        }
        if let Some(joined) = joined {
            self.joins.keep(joined);
        }
        if let Some(once) = once {
            self.keep_key(once);
        }
        let (now, outcome) = (self.controller.now(), prepared.outcome());
        let applied = self.controller.write(|d| d.apply(prepared, now))?;
        if let Some(show) = show {
            self.controller.read(show);
        }
        let mut change = None;
        if let Some(arrived) = intent {
            // Before anything of it is published, so that no node has confirmed it yet.
            let desired = |node: &String| self.controller.read(|d| d.desired(node).map(|spec| spec.generation));
            let nodes: Vec<_> = applied.nodes.iter().filter_map(|node| Some((node.as_str(), desired(node)?))).collect();
            change = self.controller.confirmations_lock().change(arrived, trace, nodes.into_iter());
        }
        self.traced.extend(trace.map(|trace| Traced { trace, change }));
        Ok(Done { outcome, applied: Some(applied), replayed: None, preview: None })
    }

    /// Takes note of a write with a key that is durable, or will be before anyone sees it.
    pub(crate) fn keep_key(&mut self, note: once::Note) {
        self.once.keep(note);
        self.controller.keys_are(self.once.len());
    }

    /// Commits what was applied, publishes it and answers. A store that refuses it has failed as well: memory is ahead of it.
    pub(crate) async fn finish(&mut self, batch: Batch) -> Result<(), StoreError> {
        let Batch { ops, answers, rewires, .. } = batch;
        let begun = self.controller.now();
        if !ops.is_empty()
            && let Err(error) = self.commit(ops.into_values().collect()).await
        {
            for (answer, _) in answers {
                _ = answer.send(Err(CommandError::Store(failed(&error))));
            }
            return Err(failed(&error));
        }
        // Before anyone can send it to a node.
        self.stored(begun, self.controller.now());
        self.durable.send_replace(self.controller.applied());
        let applied = answers.iter().filter_map(|(_, done)| done.as_ref().ok()?.applied.as_ref());
        self.publish(applied.cloned().reduce(both), rewires);
        for (answer, done) in answers {
            // The caller may have gone away; the command is carried out all the same.
            _ = answer.send(done);
        }
        Ok(())
    }

    /// Commits, then applies.
    pub(crate) async fn execute(&mut self, planned: Planned) -> Result<(), StoreError> {
        let Planned { change, ops, rewires, answer } = planned;
        let begun = self.controller.now();
        if !ops.is_empty()
            && let Err(error) = self.commit(ops).await
        {
            let failed = (!is_refusal(&error)).then(|| failed(&error));
            _ = answer.send(Err(CommandError::Store(error)));
            return failed.map_or(Ok(()), Err);
        }
        let stored = self.controller.now();
        let done = beside_others(rewires, || self.apply(change));
        self.stored(begun, stored);
        self.publish(done.as_ref().ok().and_then(|done| done.applied.clone()), rewires);
        _ = answer.send(done);
        Ok(())
    }

    /// The traced changes that were applied are durable; they go to their nodes next.
    fn stored(&mut self, from: Monotonic, to: Monotonic) {
        let all: Vec<Trace> = self.traced.iter().map(|traced| traced.trace).collect();
        for Traced { trace, change } in self.traced.drain(..) {
            self.controller.traces().record(Span::part(trace, "store", from, to).map(|span| span.with(&all)));
            if let Some(change) = change {
                self.controller.confirmations_lock().published(change, to);
            }
        }
    }

    /// What was applied is durable.
    fn publish(&self, applied: Option<Applied>, rewires: bool) {
        self.controller.audit_ends_at(self.books.next());
        if let Some(applied) = applied {
            self.controller.publish(&applied);
        }
        if rewires {
            self.controller.push_thresholds();
            // The nodes that have to confirm are others.
            self.controller.advance_hmac();
        }
    }

    /// Writes again what a resource was before a confirmed commit, and removes its record; `Err` inside if the domain refuses it.
    pub(crate) async fn put_back(
        &mut self,
        command: Option<Command>,
        forgotten: Op,
    ) -> Result<Result<(), CommandError>, StoreError> {
        match command {
            Some(command) => self.write_own(command, Some(forgotten)).await,
            None => Ok(Ok(self.commit(vec![forgotten]).await?)),
        }
    }

    /// Changes what operators declare in the name of the controller, audited, with `also` in the same transaction; `Err` inside if the
    /// domain refuses it.
    pub(crate) async fn write_own(
        &mut self,
        command: Command,
        also: Option<Op>,
    ) -> Result<Result<(), CommandError>, StoreError> {
        let rewires = matches!(command, Command::PutTopology { .. } | Command::DeleteTopology);
        let order = Order::new(command, self.principals.share(Principal::default()));
        let prepared = beside_others(rewires, || self.controller.read(|d| self.prepare(d, order, true, None)));
        let Checked { prepared, note, touch, .. } = match prepared {
            Ok(checked) => checked,
            Err(refused) => return Ok(Err(refused)),
        };
        let intent = Some(self.controller.now());
        let change = Change { prepared, note, joined: None, touch, once: None, intent, show: None, trace: None };
        let mut ops = change.ops();
        ops.extend(also);
        match self.commit(ops).await {
            Err(limit @ StoreError::Limit(_)) => return Ok(Err(CommandError::Store(limit))),
            committed => committed?,
        }
        let done = beside_others(rewires, || self.apply(change));
        self.publish(done.as_ref().ok().and_then(|done| done.applied.clone()), rewires);
        Ok(done.map(drop))
    }

    pub(crate) async fn commit(&mut self, ops: Vec<Op>) -> Result<(), StoreError> {
        let (store, expected) = (self.store.clone(), self.revision);
        let controller = self.controller.clone();
        let committed = tokio::task::spawn_blocking(move || {
            let begun = controller.now();
            let revision = store.commit(expected, &ops)?;
            controller.commit_took(controller.now().since(begun));
            Ok((revision, store.ready()))
        });
        // A panic inside the store is a failure like any other: the outcome is unknown.
        let committed = committed.await;
        let committed =
            committed.unwrap_or_else(|e| Err(StoreError::Failed { doing: "committing", detail: e.to_string() }));
        match committed {
            Ok((revision, ready)) => {
                self.revision = revision;
                if let Err(StoreError::Full { path }) = ready {
                    self.becomes_read_only(path);
                }
                Ok(())
            }
            Err(error) => {
                if let StoreError::Full { path } = &error {
                    self.becomes_read_only(path.clone());
                }
                Err(error)
            }
        }
    }

    pub(crate) fn becomes_read_only(&mut self, path: PathBuf) {
        if self.read_only.is_none() {
            let error = StoreError::Full { path: path.clone() }.to_string();
            tracing::error!(
                error,
                "no change is taken until the store can be written again; nodes continue to forward"
            );
            self.controller.set_read_only(Some(error.clone()));
            self.controller.events().note(Code::StoreReadOnly, None, error);
        }
        self.read_only = Some(path);
    }

    /// Tries a store that was read-only.
    async fn try_again(&mut self) -> Result<(), StoreError> {
        let store = self.store.clone();
        let ready = tokio::task::spawn_blocking(move || store.ready()).await;
        match ready {
            Ok(Err(error)) if is_refusal(&error) => return Ok(()),
            Ok(ready) => ready?,
            Err(e) => return Err(StoreError::Failed { doing: "checking the disk", detail: e.to_string() }),
        }
        if let Some(last) = self.unstarted {
            let (term, ops) = start_ops(self.revision, last);
            match self.commit(ops).await {
                Err(error) if is_refusal(&error) => return Ok(()),
                committed => committed?,
            }
            self.unstarted = None;
            let nodes = self.controller.write(|d| d.raise_term(term));
            self.controller.publish_nodes(&nodes);
        }
        self.read_only = None;
        self.controller.set_read_only(None);
        tracing::info!("the store can be written again");
        self.controller.events().note(Code::StoreWritable, None, "changes are taken again");
        Ok(())
    }

    /// Durable first: a restart must not fall back to a term that agents have seen exceeded.
    async fn raise_term(&mut self, above: u64) -> Result<(), StoreError> {
        if self.controller.read(|d| d.term()) > above {
            return Ok(());
        }
        let Some(term) = above.checked_add(1) else { return Ok(()) };
        self.commit(vec![Op::Put { key: TERM_KEY.into(), value: term.to_string().into_bytes() }]).await?;
        let nodes = self.controller.write(|d| d.raise_term(term));
        self.controller.publish_nodes(&nodes);
        Ok(())
    }
}

/// Does what may take seconds, as that of a large topology does, without holding up the other tasks of this thread.
pub(crate) fn beside_others<T>(is_long: bool, work: impl FnOnce() -> T) -> T {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread if is_long => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// What a host does by itself to its membership, and the tenant of the group.
fn host_act(domain: &Domain, command: &Command, written: &Written) -> Option<(Target, Action, String)> {
    let action = match command {
        Command::PutMember { .. } => Action::Join,
        Command::DeleteMember { .. } => Action::Leave,
        _ => return None,
    };
    let target = Target::of(command).filter(|_| written.by.kind == PrincipalKind::Host)?;
    let tenant = target.tenant(domain, command)?;
    Some((target, action, tenant))
}

/// A command that changes what operators and applications want; the others follow from the state.
fn is_intent(command: &Command) -> bool {
    matches!(
        command,
        Command::PutTopology { .. }
            | Command::DeleteTopology
            | Command::PutDrain { .. }
            | Command::DeleteDrain { .. }
            | Command::PutGroup { .. }
            | Command::DeleteGroup { .. }
            | Command::PutMember { .. }
            | Command::DeleteMember { .. }
    )
}

/// The store changed nothing and works.
pub(crate) fn is_refusal(error: &StoreError) -> bool {
    matches!(error, StoreError::Limit(_) | StoreError::Full { .. })
}

pub(crate) fn failed(error: &StoreError) -> StoreError {
    StoreError::Failed { doing: "committing", detail: error.to_string() }
}

/// What is to be published of two commands, as if they were one.
fn both(mut first: Applied, second: Applied) -> Applied {
    for (known, new) in [(&mut first.nodes, second.nodes), (&mut first.groups, second.groups)] {
        known.extend(new);
        known.sort_unstable();
        known.dedup();
    }
    first
}

/// See [`Controller::validate`]. Takes as long as all of `commands` take.
pub(crate) fn validate(
    mut domain: Domain,
    commands: Vec<Command>,
    scope: &Scope,
    now: Monotonic,
) -> Result<Vec<Outcome>, (usize, CommandError)> {
    let mut outcomes = Vec::with_capacity(commands.len());
    for (i, command) in commands.into_iter().enumerate() {
        let order = Order { scope: scope.clone(), ..Order::new(command, Principal::default()) };
        order.check_scope(&domain).map_err(|e| (i, e))?;
        let prepared = domain.prepare(order.command).map_err(|e| (i, e.into()))?;
        outcomes.push(prepared.outcome());
        domain.apply(prepared, now).map_err(|e| (i, e.into()))?;
    }
    Ok(outcomes)
}
