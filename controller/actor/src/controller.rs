// SPDX-License-Identifier: Apache-2.0
//! The handle.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use canopy_controller_core::confirmations::Confirmations;
use canopy_controller_core::fabric_now::FabricNow;
use canopy_controller_core::fields::GroupField;
use canopy_controller_core::health::Health;
use canopy_controller_core::principal::Principal;
use canopy_controller_core::problem::ProblemCode;
use canopy_controller_core::quota::Quotas;
use canopy_controller_core::tenant::Scope;
use canopy_controller_core::view::{GroupView, Page};
use canopy_controller_core::{Applied, Command, DesiredNode, Domain, DomainError, EXAMINED, GroupFilter, Outcome};
use canopy_model::ids::GroupId;
use canopy_model::status::{GroupPhase, NodeStatus};
use canopy_store::{Backup, Recovery, Store};
use canopy_units::{Monotonic, UnixTime};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::CommandError;
use crate::assessing::Assessing;
use crate::attempts::Attempts;
use crate::captures::CaptureBook;
use crate::change_sets::ChangeSets;
use crate::charts::ChartState;
use crate::commit::Commit;
use crate::commit_times::CommitTimes;
use crate::events::Code;
use crate::events::Events;
use crate::health::ListedProblems;
use crate::incidents::IncidentState;
use crate::journal::{EventFilter, Recorded};
use crate::links::Flap;
use crate::log_levels::LogBook;
use crate::moves::Moves;
use crate::news::{Follower, GroupChanges, News, WaitedGroups};
use crate::once::Replayed;
use crate::order::{Order, Precondition};
use crate::phases::Phases;
use crate::preview::Preview;
use crate::retirements::RetireBook;
use crate::task::{self, Message, Request, Show};
use crate::telemetry::Telemetry;
use crate::traces::Traces;

/// What a command did, or would do.
#[derive(Clone, Debug, PartialEq)]
pub struct Done {
    /// To the resource.
    pub outcome: Outcome,
    /// What followed; `None` on a dry run, and of a write that was sent again.
    pub applied: Option<Applied>,
    /// It was carried out before, and not again.
    pub replayed: Option<Replayed>,
    /// What would follow; of a dry run.
    pub preview: Option<Box<Preview>>,
}

/// Everything that the APIs need; cheap to clone.
#[derive(Clone)]
pub struct Controller(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) domain: RwLock<Domain>,
    pub(crate) store: Arc<dyn Store>,
    /// Why the replacement of the authority is not finished.
    pub(crate) authority: OnceLock<Faults>,
    commands: mpsc::Sender<Message>,
    /// Changes that were applied before their commit, counted.
    applied: AtomicU64,
    /// Why the store takes no changes, for a person; `None` while it does.
    read_only: Mutex<Option<String>>,
    /// Those of the applied changes that are durable; closed when the task has ended.
    durable: watch::Receiver<u64>,
    nodes: Mutex<HashMap<String, Node>>,
    incarnations: AtomicU64,
    group_news: News,
    node_news: News,
    waited_groups: Arc<WaitedGroups>,
    /// See [`Controller::follow_fabric`].
    fabric: watch::Sender<Arc<FabricNow>>,
    /// See [`Health::version`].
    problems: watch::Sender<u64>,
    /// See [`Controller::follow_audit`].
    audited: watch::Sender<u64>,
    phases: Mutex<Phases>,
    assessing: Assessing,
    confirmations: Mutex<Confirmations>,
    validations: Arc<Semaphore>,
    journal_readers: Arc<Semaphore>,
    commit: Mutex<Option<Commit>>,
    change_sets: Mutex<ChangeSets>,
    commit_times: Mutex<CommitTimes>,
    telemetry: Telemetry,
    charts: ChartState,
    incidents: IncidentState,
    traces: Traces,
    keys: KeyCounts,
    events: Events,
    captures: CaptureBook,
    log_levels: LogBook,
    retirements: RetireBook,
    health: Mutex<Health>,
    listed: Mutex<Option<ListedProblems>>,
    flaps: Mutex<HashMap<String, Flap>>,
    moves: Moves,
    /// Memberships for which a command of a policy is under way: group, host and epoch of the join.
    policies: Mutex<HashSet<(String, String, u32)>>,
    /// What times of links are counted from.
    started: Instant,
    hmac_steps: Attempts,
    threshold_pushes: Attempts,
}

/// Returns the problems of something at this time, with their evidence.
type Faults = Box<dyn Fn(UnixTime) -> Vec<(ProblemCode, String)> + Send + Sync>;

/// What metrics show of idempotency keys.
#[derive(Default)]
struct KeyCounts {
    kept: AtomicU64,
    replayed: AtomicU64,
}

struct Node {
    spec: watch::Sender<Arc<DesiredNode>>,
    connections: usize,
    /// Since when there has been one without a gap; of no use while there is none.
    since: Monotonic,
    /// A node that left the topology and came back is another one: what still hangs on to the first does not count.
    incarnation: u64,
}

const POISONED: &str = "domain lock: a panic inside the domain ends the process";

impl Controller {
    pub(crate) fn new(
        domain: Domain,
        store: Arc<dyn Store>,
        commands: mpsc::Sender<Message>,
        durable: watch::Receiver<u64>,
        (commit, change_sets): (Option<Commit>, ChangeSets),
        incidents: IncidentState,
        events: Events,
    ) -> Self {
        let phases = phases_of(&domain);
        let fabric = watch::Sender::new(Arc::new(domain.fabric_now()));
        Self(Arc::new(Shared {
            domain: RwLock::new(domain),
            fabric,
            store,
            authority: OnceLock::new(),
            commands,
            applied: AtomicU64::new(0),
            read_only: Mutex::default(),
            durable,
            nodes: Mutex::default(),
            incarnations: AtomicU64::new(0),
            group_news: News::default(),
            node_news: News::default(),
            waited_groups: Arc::default(),
            problems: watch::Sender::default(),
            audited: watch::Sender::default(),
            phases: Mutex::new(phases),
            assessing: Assessing::default(),
            confirmations: Mutex::default(),
            validations: Arc::new(Semaphore::new(1)),
            commit: Mutex::new(commit),
            change_sets: Mutex::new(change_sets),
            commit_times: Mutex::default(),
            health: Mutex::default(),
            listed: Mutex::default(),
            flaps: Mutex::default(),
            moves: Moves::default(),
            policies: Mutex::default(),
            started: Instant::now(),
            hmac_steps: Attempts::default(),
            threshold_pushes: Attempts::default(),
            telemetry: Telemetry::default(),
            charts: ChartState::default(),
            incidents,
            traces: Traces::default(),
            keys: KeyCounts::default(),
            events,
            journal_readers: Arc::new(Semaphore::new(1)),
            captures: CaptureBook::default(),
            log_levels: LogBook::default(),
            retirements: RetireBook::default(),
        }))
    }

    /// [`Controller::carry_out`] for the controller itself.
    ///
    /// # Errors
    /// See [`CommandError`].
    pub async fn execute(
        &self,
        command: Command,
        if_match: Option<String>,
        dry_run: bool,
    ) -> Result<Done, CommandError> {
        let precondition = if_match.map_or(Precondition::None, Precondition::Tag);
        self.carry_out(Order { precondition, dry_run, ..Order::new(command, Principal::default()) }).await
    }

    /// Carries out an order durably. Dropping the future does not undo a command that is under way.
    ///
    /// # Errors
    /// See [`CommandError`].
    pub async fn carry_out(&self, order: Order) -> Result<Done, CommandError> {
        self.order(order, None).await
    }

    /// The same, and what `show` reads of the domain when the order is carried out and nothing that was ordered later is: `None` if it was
    /// not carried out, as on a dry run. All that is ordered waits for it, so it must be short.
    ///
    /// # Errors
    /// See [`CommandError`].
    pub async fn carry_out_and_show<T: Send + 'static>(
        &self,
        order: Order,
        show: impl FnOnce(&Domain) -> T + Send + 'static,
    ) -> Result<(Done, Option<T>), CommandError> {
        let (shown, seen) = oneshot::channel();
        // The caller may have gone away.
        let show = move |d: &Domain| _ = shown.send(show(d));
        let done = self.order(order, Some(Box::new(show))).await?;
        Ok((done, seen.await.ok()))
    }

    async fn order(&self, order: Order, show: Option<Show>) -> Result<Done, CommandError> {
        let (answer, done) = oneshot::channel();
        let request = Request { order, arrived: self.now(), show, answer };
        self.0.commands.send(Message::Execute(Box::new(request))).await.map_err(|_| CommandError::Stopping)?;
        done.await.map_err(|_| CommandError::Stopping)?
    }

    /// Carries out `commands` of a caller with this scope one after the other on a copy of the domain: each sees what those before it did.
    ///
    /// # Errors
    /// The index of the first that is refused, and why.
    pub async fn validate(&self, commands: Vec<Command>, scope: Scope) -> Result<Vec<Outcome>, (usize, CommandError)> {
        let one_at_a_time =
            self.0.validations.clone().acquire_owned().await.map_err(|_| (0, CommandError::Stopping))?;
        let this = self.clone();
        let all = tokio::task::spawn_blocking(move || {
            // Until the copy is gone, also if the caller goes away meanwhile.
            let _one_at_a_time = one_at_a_time;
            task::validate(this.read(Domain::clone), commands, &scope, this.now())
        });
        all.await.unwrap_or(Err((0, CommandError::Stopping)))
    }

    /// Takes a term higher than `above`, which an agent has accepted: the store was put back to before it. Durable first; then every
    /// node gets its spec under the new term.
    ///
    /// # Errors
    /// The store failed, or the controller is stopping.
    pub async fn raise_term(&self, above: u64) -> Result<(), CommandError> {
        let (answer, done) = oneshot::channel();
        self.0.commands.send(Message::RaiseTerm { above, answer }).await.map_err(|_| CommandError::Stopping)?;
        done.await.map_err(|_| CommandError::Stopping)?
    }

    pub(crate) async fn send(&self, message: Message) -> Result<(), CommandError> {
        self.0.commands.send(message).await.map_err(|_| CommandError::Stopping)
    }

    /// Sends what is sent again later if the queue is full.
    pub(crate) fn try_send(&self, message: Message) {
        _ = self.0.commands.try_send(message);
    }

    /// Held while a copy of the domain is in use: one at a time.
    pub(crate) async fn validation(&self) -> Result<tokio::sync::SemaphorePermit<'_>, CommandError> {
        self.0.validations.acquire().await.map_err(|_| CommandError::Stopping)
    }

    /// Idempotency keys that are kept.
    pub fn keys_kept(&self) -> u64 {
        self.0.keys.kept.load(Ordering::Relaxed)
    }

    /// Writes that were sent again with their key since the start, and were not carried out again.
    pub fn writes_replayed(&self) -> u64 {
        self.0.keys.replayed.load(Ordering::Relaxed)
    }

    pub(crate) fn keys_are(&self, kept: usize) {
        self.0.keys.kept.store(kept as u64, Ordering::Relaxed);
    }

    pub(crate) fn replayed_one(&self) {
        self.0.keys.replayed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.0.store
    }

    pub(crate) fn commit_lock(&self) -> MutexGuard<'_, Option<Commit>> {
        self.0.commit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn change_sets_lock(&self) -> MutexGuard<'_, ChangeSets> {
        self.0.change_sets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the task after the commands that are already queued; later ones are [`CommandError::Stopping`].
    pub async fn stop(&self) {
        // An error means that the task has stopped already.
        _ = self.0.commands.send(Message::Stop).await;
    }

    /// Waits until all that the domain shows now is durable. Whatever was read of it before may leave the process then.
    ///
    /// # Errors
    /// `Stopping` when the store failed: some of it may not exist after the restart.
    pub async fn settled(&self) -> Result<(), CommandError> {
        let until = self.0.applied.load(Ordering::Acquire);
        let mut durable = self.0.durable.clone();
        durable.wait_for(|durable| *durable >= until).await.map(drop).map_err(|_| CommandError::Stopping)
    }

    /// Notes a change that is about to be applied before its commit: under no lock, so before it.
    pub(crate) fn applies(&self) {
        self.0.applied.fetch_add(1, Ordering::AcqRel);
    }

    /// Changes that were applied before their commit.
    pub(crate) fn applied(&self) -> u64 {
        self.0.applied.load(Ordering::Acquire)
    }

    /// What the store has lost, until an operator has taken note of it.
    pub fn store_recovery(&self) -> Option<Recovery> {
        self.0.store.recovery()
    }

    /// Reads the domain. `read` must be short: it blocks writers. Nothing of it may leave the process before it is
    /// [settled](Controller::settled).
    pub fn read<R>(&self, read: impl FnOnce(&Domain) -> R) -> R {
        read(&self.0.domain.read().expect(POISONED))
    }

    pub(crate) fn write<R>(&self, change: impl FnOnce(&mut Domain) -> R) -> R {
        change(&mut self.0.domain.write().expect(POISONED))
    }

    /// What the node is to have, now and after every change; closed when the node leaves the topology. `None` when it is not in it.
    pub fn watch_node(&self, node: &str) -> Option<watch::Receiver<Arc<DesiredNode>>> {
        let mut nodes = self.nodes();
        // Under the lock that publishing takes, so that no change falls between this read and the subscription.
        let spec = self.read(|d| d.desired(node))?;
        let new = || {
            // From now on, what leaves the node is what changes in its spec.
            self.0.telemetry.retain(node, |id| spec.groups.contains(&id));
            Node {
                spec: watch::Sender::new(spec),
                connections: 0,
                since: Monotonic::START,
                incarnation: self.0.incarnations.fetch_add(1, Ordering::Relaxed),
            }
        };
        Some(nodes.entry(node.to_owned()).or_insert_with(new).spec.subscribe())
    }

    /// Notes that the node's agent is connected until the returned value is dropped.
    pub fn agent_connected(&self, node: &str) -> AgentConnection {
        let mut nodes = self.nodes();
        let mut incarnation = None;
        let mut groups = None;
        if let Some(n) = nodes.get_mut(node) {
            n.connections += 1;
            incarnation = Some(n.incarnation);
            // Under the lock: one that ends and one that begins at the same time must not be noted in the wrong order.
            let now = self.now();
            if n.connections == 1 {
                n.since = now;
            }
            groups = (n.connections == 1).then(|| {
                self.write(|d| {
                    let mut groups = d.agent_connected(node);
                    groups.extend(d.telemetry_received(node, now));
                    groups
                })
            });
        }
        drop(nodes);
        if let Some(groups) = groups {
            self.charts_interrupt(node);
            self.0.events.note(Code::AgentConnected, Some(node), "the node's agent connected");
            self.node_changed(node);
            self.assess_soon(groups);
            self.neighbours_reported(node);
        }
        AgentConnection { controller: self.clone(), node: node.to_owned(), incarnation }
    }

    /// How long the node's agent has been connected without a gap; `None`: it is not.
    pub fn agent_connected_for(&self, node: &str) -> Option<Duration> {
        let since = self.nodes().get(node).filter(|n| n.connections > 0)?.since;
        Some(self.now().since(since))
    }

    fn agent_gone(&self, node: &str, incarnation: Option<u64>) {
        let mut nodes = self.nodes();
        let mut groups = None;
        if let Some(n) = nodes.get_mut(node).filter(|n| Some(n.incarnation) == incarnation) {
            n.connections = n.connections.saturating_sub(1);
            let now = self.now();
            groups = (n.connections == 0).then(|| self.write(|d| d.agent_gone(node, now)));
        }
        drop(nodes);
        if let Some(groups) = groups {
            self.0.events.note(
                Code::AgentDisconnected,
                Some(node),
                "the node's agent disconnected; the node continues to forward",
            );
            self.node_changed(node);
            self.assess_soon(groups);
        }
    }

    /// Takes in what a node read back from its kernel.
    ///
    /// # Errors
    /// The node is unknown.
    pub fn report(&self, mut status: NodeStatus) -> Result<(), DomainError> {
        let (node, took, back_within) = (status.node.clone(), status.took.take(), status.back_within.take());
        let (is_news, is_other_contract, confirmed, groups) = self.write(|d| {
            let contract = d.early_contract(&node);
            let confirmed = (status.observed_term == d.term()).then_some(status.observed_generation);
            d.agent_announces(&node, back_within);
            let (is_news, groups) = (d.is_news(&status), d.report(status));
            (is_news, d.early_contract(&node) != contract, confirmed, groups)
        });
        let groups = groups?;
        if let Some(generation) = confirmed {
            let now = self.now();
            let traced = self.confirmations_lock().confirmed(&node, generation, now);
            self.reconciled(&node, &traced, took, now);
        }
        self.node_changed(&node);
        if is_other_contract {
            self.contracts_changed();
        }
        self.groups_changed(&groups);
        self.ports_reported(&node);
        if is_news {
            self.retry_moves(&node);
        }
        self.finish_moves(&groups);
        self.open_groups(&groups);
        self.advance_hmac();
        self.advance_retirements();
        Ok(())
    }

    /// Changes of one group from now on, its deletion included.
    pub fn group_changes(&self, group: &str) -> GroupChanges {
        GroupChanges::new(self.0.waited_groups.clone(), group)
    }

    /// Names of groups that change from now on.
    pub fn follow_groups(&self) -> Follower {
        self.0.group_news.follow()
    }

    /// Names of nodes that change from now on.
    pub fn follow_nodes(&self) -> Follower {
        self.0.node_news.follow()
    }

    /// A number that changes at most twice a second, if a problem has changed.
    pub fn follow_problems(&self) -> watch::Receiver<u64> {
        self.0.problems.subscribe()
    }

    /// The sequence number of the next entry of the audit: changes once a write of an operator, or of the controller in its place, is
    /// durable.
    pub fn follow_audit(&self) -> watch::Receiver<u64> {
        self.0.audited.subscribe()
    }

    /// The next entry of the audit gets this sequence number.
    pub(crate) fn audit_ends_at(&self, next: u64) {
        self.0.audited.send_if_modified(|known| std::mem::replace(known, next) != next);
    }

    pub(crate) fn fabric(&self) -> &watch::Sender<Arc<FabricNow>> {
        &self.0.fabric
    }

    /// What nodes counted.
    pub fn telemetry(&self) -> &Telemetry {
        &self.0.telemetry
    }

    pub(crate) fn traces_of_requests(&self) -> &Traces {
        &self.0.traces
    }

    pub(crate) fn captures(&self) -> &CaptureBook {
        &self.0.captures
    }

    pub(crate) fn log_book(&self) -> &LogBook {
        &self.0.log_levels
    }

    pub(crate) fn retire_book(&self) -> &RetireBook {
        &self.0.retirements
    }

    pub(crate) fn incident_state(&self) -> &IncidentState {
        &self.0.incidents
    }

    pub(crate) fn chart_state(&self) -> &ChartState {
        &self.0.charts
    }

    /// Up to `limit` of the newest events that the filter accepts, the oldest first, also of before the start.
    ///
    /// # Errors
    /// The controller is stopping.
    pub async fn recorded_events(&self, limit: usize, filter: EventFilter) -> Result<Vec<Recorded>, CommandError> {
        let one_at_a_time = self.0.journal_readers.clone().acquire_owned().await.map_err(|_| CommandError::Stopping)?;
        let this = self.clone();
        let read = tokio::task::spawn_blocking(move || {
            let _one_at_a_time = one_at_a_time;
            this.events().recorded(limit, &filter)
        });
        read.await.map_err(|_| CommandError::Stopping)
    }

    /// How much tenants may have from now on.
    pub fn limit_tenants(&self, quotas: Quotas) {
        self.write(|d| d.limit_tenants(quotas));
    }

    /// An event of the controller about a group, which belongs to the group's tenant.
    pub fn note_group(&self, code: Code, node: Option<&str>, group: &str, detail: impl Into<String>) {
        let tenant = self.read(|d| d.tenant_of(group).map(str::to_owned));
        self.events().note_group(code, node, (group, tenant), detail);
    }

    /// What happened.
    pub fn events(&self) -> &Events {
        &self.0.events
    }

    /// How many groups are in each phase.
    pub fn phases(&self) -> [(GroupPhase, usize); GroupPhase::ALL.len()] {
        self.phases_lock().counts()
    }

    /// One page of the groups that `filter` lets pass: see [`Domain::groups`]. Those of a phase are found by an index.
    pub fn groups(&self, filter: &GroupFilter, after: Option<&str>, limit: usize) -> Page<GroupView> {
        if !filter.fields.requires(GroupField::Phase) || filter.is_indexed() {
            return self.read(|d| d.groups(filter, after, limit));
        }
        let phases: Vec<GroupPhase> = GroupPhase::ALL
            .into_iter()
            .filter(|phase| filter.fields.allows(GroupField::Phase, &phase.to_string()))
            .collect();
        // Only a filter of phases alone takes every name that it finds.
        let enough = if filter.is_of_phases() { limit } else { EXAMINED };
        let (names, has_more) = self.phases_lock().behind(&phases, filter, after, enough);
        let mut page = self.read(|d| d.groups_among(&names, filter, limit));
        if has_more && page.next.is_none() {
            page.next = names.last().cloned();
        }
        page
    }

    /// Changes on their way to the nodes, and how long others took.
    pub fn confirmations<R>(&self, read: impl FnOnce(&Confirmations) -> R) -> R {
        read(&self.confirmations_lock())
    }

    /// The store's revision, asked of the store itself, which shows that it answers; and why it takes no changes, if it is read-only.
    ///
    /// # Errors
    /// Why it does not answer, for a person.
    pub async fn store_state(&self) -> Result<(u64, Option<String>), String> {
        let store = self.0.store.clone();
        let asked = tokio::task::spawn_blocking(move || store.revision()).await;
        let revision = asked.map_err(|e| e.to_string())?.map_err(|e| e.to_string())?;
        Ok((revision, self.read_only().clone()))
    }

    /// Name of the store's engine, and the octets of its database's files, if it has any.
    pub async fn store_size(&self) -> (&'static str, Option<u64>) {
        let store = self.0.store.clone();
        let engine = store.engine();
        (engine, tokio::task::spawn_blocking(move || store.octets()).await.ok().flatten())
    }

    /// The newest backup that the store keeps of itself.
    pub async fn last_backup(&self) -> Option<Backup> {
        let store = self.0.store.clone();
        tokio::task::spawn_blocking(move || store.last_backup()).await.ok().flatten()
    }

    /// How long the last commits of the store took.
    pub fn commit_times(&self) -> CommitTimes {
        self.commit_times_lock().clone()
    }

    pub(crate) fn commit_took(&self, time: Duration) {
        self.commit_times_lock().note(time);
    }

    fn commit_times_lock(&self) -> MutexGuard<'_, CommitTimes> {
        self.0.commit_times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_read_only(&self, why: Option<String>) {
        self.0.events.set_full(why.is_some());
        self.0.events.set_full(why.is_some());
        *self.read_only() = why;
    }

    fn read_only(&self) -> MutexGuard<'_, Option<String>> {
        self.0.read_only.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// False once the task that carries out commands has ended.
    pub fn is_running(&self) -> bool {
        !self.0.commands.is_closed()
    }

    /// Publishes a command's changes to the nodes and to the watchers of groups.
    pub(crate) fn publish(&self, applied: &Applied) {
        self.publish_nodes(&applied.nodes);
        self.fabric_changed();
        self.groups_changed(&applied.groups);
        self.limit_moves(&applied.groups);
        // A command may take away what the group waited for.
        self.finish_moves(&applied.groups);
        self.open_groups(&applied.groups);
        self.retirements_changed();
        self.advance_retirements();
    }

    /// Hands the nodes' present specs to their streams.
    pub(crate) fn publish_nodes(&self, names: &[String]) {
        let mut nodes = self.nodes();
        let mut left = Vec::new();
        for name in names {
            let Some(spec) = self.read(|d| d.desired(name)) else {
                nodes.remove(name);
                self.0.telemetry.forget_node(name);
                self.charts_forget_node(name);
                self.confirmations_lock().forget(name);
                continue;
            };
            if let Some(node) = nodes.get(name) {
                node.spec.send_if_modified(|now| {
                    let newer = (now.term, now.generation) != (spec.term, spec.generation);
                    if newer {
                        let changed = spec.groups.changed_since(&now.groups);
                        let gone: Vec<GroupId> = changed.filter_map(|(id, has_one)| (!has_one).then_some(id)).collect();
                        self.0.telemetry.forget_groups(name, &gone);
                        if !gone.is_empty() {
                            left.push((name, gone));
                        }
                        *now = spec;
                    }
                    newer
                });
            } else {
                // No agent watches it, but one may report.
                self.0.telemetry.retain(name, |id| spec.groups.contains(&id));
            }
        }
        drop(nodes);
        left.iter().for_each(|(node, groups)| self.charts_left(node, groups));
        names.iter().for_each(|name| self.node_changed(name));
    }

    pub(crate) fn assessing(&self) -> &Assessing {
        &self.0.assessing
    }

    pub(crate) fn note_groups(&self, groups: &[String]) {
        self.0.waited_groups.note(groups);
        self.0.group_news.note(groups.iter());
    }

    pub(crate) fn note_node(&self, node: &str) {
        self.0.node_news.note(std::iter::once(&node.to_owned()));
    }

    pub(crate) fn problems_are(&self, version: u64) {
        self.0.problems.send_if_modified(|known| std::mem::replace(known, version) != version);
    }

    pub(crate) fn listed_problems(&self) -> MutexGuard<'_, Option<ListedProblems>> {
        self.0.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn health_lock(&self) -> &Mutex<Health> {
        &self.0.health
    }

    /// Names of all groups.
    pub fn group_names(&self) -> Vec<String> {
        self.read(Domain::group_names)
    }

    pub(crate) fn phases_lock(&self) -> MutexGuard<'_, Phases> {
        self.0.phases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn confirmations_lock(&self) -> MutexGuard<'_, Confirmations> {
        self.0.confirmations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the store takes no changes; `None` while it does.
    pub(crate) fn why_read_only(&self) -> Option<String> {
        self.read_only().clone()
    }

    /// Nodes whose ports have not been as they are for long.
    pub(crate) fn flaps(&self) -> std::sync::MutexGuard<'_, HashMap<String, Flap>> {
        self.0.flaps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memberships for which a command of a policy is under way.
    pub(crate) fn policies_under_way(&self) -> MutexGuard<'_, HashSet<(String, String, u32)>> {
        self.0.policies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What moves of trees wait for.
    pub(crate) fn moves(&self) -> &Moves {
        &self.0.moves
    }

    /// Attempts to take the next step of the SRH HMAC TLV's keys.
    pub(crate) fn hmac_steps(&self) -> &Attempts {
        &self.0.hmac_steps
    }

    /// Attempts to push thresholds to nodes.
    pub(crate) fn threshold_pushes(&self) -> &Attempts {
        &self.0.threshold_pushes
    }

    /// Now, on the clock of all link measurements, which starts with the controller.
    pub fn now(&self) -> Monotonic {
        Monotonic::START + self.0.started.elapsed()
    }

    fn nodes(&self) -> std::sync::MutexGuard<'_, HashMap<String, Node>> {
        self.0.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn phases_of(domain: &Domain) -> Phases {
    let mut phases = Phases::default();
    domain.for_each_phase(|group, uid, phase| {
        phases.is_successor(group, uid);
        phases.set(group, phase);
    });
    phases
}

/// Keeps a node `connected`; several may exist while an agent reconnects.
pub struct AgentConnection {
    controller: Controller,
    node: String,
    incarnation: Option<u64>,
}

impl Drop for AgentConnection {
    fn drop(&mut self) {
        self.controller.agent_gone(&self.node, self.incarnation);
    }
}
