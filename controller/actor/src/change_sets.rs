// SPDX-License-Identifier: Apache-2.0
//! Change sets: many resources that an operator sends at once, written in steps of at most [`AT_ONCE`] and taken back as a whole.
//!
//! What a set is to write is durable before its first step (`change-set/NUMBER/item/`), a few resources a record. Each step writes, in one
//! transaction, resources with their entries of the audit, what these were before (`before/`), and how far the set is (`state`): a start
//! continues where a crash has ended it. The last sets are kept with what was before, which [`Act::Undo`] writes again, the newest first.
//!
//! ```text
//! applying --all are written--> applied --undo--> undoing --all are put back--> undone
//!          --one is refused---> stopped --undo--> undoing
//!          --undo-----------------------------> undoing
//! ```

use std::collections::{BTreeMap, BTreeSet};

use canopy_controller_core::audit::IntentKind;
use canopy_controller_core::metadata::DEFAULT_TENANT;
use canopy_controller_core::principal::{Principal, Written};
use canopy_controller_core::request_id::RequestId;
use canopy_controller_core::tenant::Scope;
use canopy_controller_core::{Command, Domain, DomainError, Outcome};
use canopy_store::{MAX_VALUE_BYTES, Op};
use canopy_units::UnixTime;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::commit::Refused;
use crate::intent::Declared;
use crate::order::{Manager, Order, Precondition};
use crate::shares::{Bounds, Owner, Shares, owner};
use crate::{CommandError, Target};

/// Resources of one set.
pub const MAX_ITEMS: usize = 10_000;
/// Resources that one transaction writes, at most.
pub const AT_ONCE: usize = 30;
/// Sets that are kept; of who has most the oldest leaves first.
pub const MAX_SETS: usize = 16;
/// Octets of what the resources of one set were before, at most.
pub const MAX_OCTETS: u64 = 16 << 20;
/// Resources that an undo could not put back and that the set names, at most.
pub const MAX_REFUSED: usize = 100;
/// Octets of one record of several resources; a larger resource has one of its own.
pub(crate) const RECORD: usize = 256 << 10;

/// Prefix of all records of change sets.
const PREFIX: &str = "change-set/";
/// Room for the other fields of a record of one resource.
const MARGIN: usize = 4 << 10;

/// What an operator does with change sets.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// Writes these resources, each under a condition on its present state.
    Apply(Vec<(Command, Precondition)>),
    /// Answers what was answered to [`Act::Apply`] with the same key, and does nothing if it was not carried out.
    Again(Vec<(Command, Precondition)>),
    /// Takes back what the set with this id has written; one that is applied stops.
    Undo(String),
}

/// An act with who wants it.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeOrder {
    /// What to do.
    pub act: Act,
    /// Who wants it.
    pub by: Principal,
    /// In which request.
    pub request: Option<RequestId>,
    /// As of an [`Order`].
    pub key: Option<String>,
    /// As of an [`Order`].
    pub scope: Scope,
    /// As of an [`Order`].
    pub manager: Manager,
}

/// The durable part of a change set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// 16 hexadecimal digits, drawn at random.
    pub id: String,
    /// Who sent it.
    pub author: Author,
    /// How far it is.
    pub stage: Stage,
    /// Resources that it has.
    pub items: usize,
    /// Those of them that were written or need not be, from the first one on.
    pub done: usize,
    /// Of those: created.
    pub created: usize,
    /// Of those: changed.
    pub updated: usize,
    /// The topology is one of its resources.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_topology: bool,
    /// Who takes it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undone: Option<Author>,
    /// Resources that were put back.
    #[serde(default)]
    pub put_back: usize,
    /// What stopped it; once it is undone, what could not be put back, the first [`MAX_REFUSED`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Refused>,
    /// When nothing more was to be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<UnixTime>,
    /// The record of items that is next begins with this one.
    pub(crate) chunk: usize,
    /// Records of what was before.
    pub(crate) befores: u64,
    /// Octets of these.
    pub(crate) octets: u64,
}

/// How far a change set is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Stage {
    /// Its resources are written, one after the other.
    Applying,
    /// All are written.
    Applied,
    /// One was refused; those before it are written.
    Stopped,
    /// What it has written is taken back, the last first.
    Undoing,
    /// It was taken back.
    Undone,
}

impl Stage {
    /// There is something to do.
    pub const fn is_active(self) -> bool {
        matches!(self, Self::Applying | Self::Undoing)
    }
}

/// In whose name resources are written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Author {
    /// Who, when, and in which request.
    pub written: Written,
    /// What of it the author may change.
    pub scope: Scope,
    /// As whose manager.
    #[serde(default)]
    pub manager: Manager,
}

impl Author {
    /// The order of this author for `command`.
    pub(crate) fn order(&self, command: Command, precondition: Precondition) -> Order {
        let Written { by, request, .. } = self.written.clone();
        let (scope, manager) = (self.scope.clone(), self.manager.clone());
        Order { request, precondition, scope, manager, ..Order::new(command, by) }
    }

    /// The tenant whose the set is; `None`: the domain's.
    pub(crate) fn tenant(&self) -> Option<&str> {
        match &self.scope {
            Scope::Domain => None,
            Scope::Tenants(tenants) => tenants.first().map(String::as_str),
        }
    }
}

/// One resource that is to be written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Item {
    kind: IntentKind,
    name: String,
    declared: Declared,
    /// The tenant that a group is sent with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    /// Its tag must be this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tag: Option<String>,
}

impl Item {
    /// `None` of a command that declares no resource.
    fn of(command: &Command, precondition: &Precondition) -> Option<Self> {
        let (Target { kind, name }, declared) = (Target::of(command)?, Declared::wanted(command)?);
        let tenant = match command {
            Command::PutGroup { tenant, .. } => tenant.clone(),
            _ => None,
        };
        let tag = match precondition {
            Precondition::Tag(tag) => Some(tag.clone()),
            Precondition::None | Precondition::Exists | Precondition::Absent => None,
        };
        Some(Self { kind, name, declared, tenant, tag })
    }

    pub(crate) fn target(&self) -> Target {
        Target { kind: self.kind, name: self.name.clone() }
    }

    /// What it is written with.
    ///
    /// # Errors
    /// The spec is not one of this version.
    pub(crate) fn order(&self, author: &Author) -> Result<Option<Order>, serde_json::Error> {
        let Some(mut command) = self.declared.command(&self.target())? else { return Ok(None) };
        if let Command::PutGroup { tenant, .. } = &mut command {
            tenant.clone_from(&self.tenant);
        }
        let precondition = self.tag.clone().map_or(Precondition::None, Precondition::Tag);
        Ok(Some(author.order(command, precondition)))
    }
}

/// What a resource was before a change set has written it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Before {
    kind: IntentKind,
    name: String,
    /// Absent: it was not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    declared: Option<Declared>,
    /// Its tag since.
    tag: String,
}

impl Before {
    pub(crate) fn new(target: Target, declared: Option<Declared>, tag: String) -> Self {
        let Target { kind, name } = target;
        Self { kind, name, declared, tag }
    }

    pub(crate) fn target(&self) -> Target {
        Target { kind: self.kind, name: self.name.clone() }
    }

    /// Writes what the resource was.
    ///
    /// # Errors
    /// It was changed since, has members now that it had not then, or cannot be read any more.
    pub(crate) fn command(&self, domain: &Domain) -> Result<Option<Command>, CommandError> {
        let target = self.target();
        let in_use = |detail: &str| {
            let (kind, name) = (noun(self.kind), self.name.clone());
            Err(DomainError::InUse { kind, name, detail: detail.to_owned() }.into())
        };
        match target.tag(domain) {
            None => return in_use("it was deleted since: canopyctl history has its versions"),
            Some(tag) if tag != self.tag => {
                return in_use("it was written since by another one: canopyctl history has its versions");
            }
            Some(_) => {}
        }
        match &self.declared {
            Some(declared) => declared.command(&target).map_err(|e| crate::commit::unreadable(&target, &e)),
            None if self.kind == IntentKind::Group && domain.has_members(&self.name) => {
                in_use("hosts have joined since, which would have to join again: remove them first")
            }
            None => Ok(target.deletion()),
        }
    }
}

fn noun(kind: IntentKind) -> &'static str {
    match kind {
        IntentKind::Topology => "topology",
        IntentKind::Drain => "drain",
        IntentKind::Silence => "silence",
        IntentKind::Group => "group",
        IntentKind::Member => "member",
        IntentKind::Hmac | IntentKind::Commit | IntentKind::ChangeSet | IntentKind::Identity | IntentKind::LogLevel => {
            "resource"
        }
    }
}

/// What a caller may change by these commands: of a caller of tenants, those of its tenants that they are about, and all of its tenants if
/// they are about none of them. A set of no tenant would be the domain's, and seen by all.
pub(crate) fn narrowed(scope: &Scope, commands: &[(Command, Precondition)], domain: &Domain) -> Scope {
    let Scope::Tenants(own) = scope else { return Scope::Domain };
    let mut new: BTreeMap<&str, &str> = BTreeMap::new();
    for (command, _) in commands {
        if let Command::PutGroup { name, tenant, .. } = command {
            new.insert(name, tenant.as_deref().unwrap_or(DEFAULT_TENANT));
        }
    }
    let tenant = |command: &Command| {
        let group = match command {
            Command::PutGroup { name: group, .. } | Command::PutMember { group, .. } => group.as_str(),
            _ => return None,
        };
        domain.tenant_of(group).or_else(|| new.get(group).copied()).map(str::to_owned)
    };
    let tenants: BTreeSet<String> = commands.iter().filter_map(|(command, _)| tenant(command)).collect();
    // What is of others is refused where it is written.
    let about: BTreeSet<String> = tenants.intersection(own).cloned().collect();
    if about.is_empty() { scope.clone() } else { Scope::Tenants(about) }
}

/// The items of a set in records, each with the number of its first item.
///
/// # Errors
/// A resource that no record has room for.
pub(crate) fn chunks(commands: &[(Command, Precondition)]) -> Result<Vec<(usize, Vec<u8>)>, CommandError> {
    let (mut all, mut open, mut octets, mut first) = (Vec::new(), Vec::new(), 0, 0);
    for (i, (command, precondition)) in commands.iter().enumerate() {
        let Some(item) = Item::of(command, precondition) else { continue };
        let size = serialized(&item).len();
        if size + MARGIN > MAX_VALUE_BYTES {
            let why = format!("{} is too large for a change set: write it alone", item.target());
            return Err(DomainError::Limit(why).into());
        }
        if !open.is_empty() && (open.len() == AT_ONCE || octets + size > RECORD) {
            all.push((first, serialized(&open)));
            (open, octets, first) = (Vec::new(), 0, i);
        }
        octets += size;
        open.push(item);
    }
    if !open.is_empty() {
        all.push((first, serialized(&open)));
    }
    Ok(all)
}

pub(crate) fn serialized(record: &impl Serialize) -> Vec<u8> {
    // Structs of strings, numbers and JSON values: serialising them cannot fail.
    serde_json::to_vec(record).expect("a record is JSON")
}

/// A set as it is now.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeSet {
    /// What is stored of it.
    pub state: State,
    /// Why it does not continue now, for a person.
    pub waits: Option<String>,
}

struct Kept {
    set: ChangeSet,
    /// When it is tried again.
    retry: Option<Instant>,
}

/// The change sets that are kept, by their number, which grows.
pub(crate) struct ChangeSets {
    all: BTreeMap<u64, Kept>,
    shares: Shares<()>,
    next: u64,
    /// The set that was continued last: each has its turn.
    last: u64,
    /// Prefixes of records that no set needs any more.
    useless: Vec<String>,
}

impl Default for ChangeSets {
    fn default() -> Self {
        let shares = Shares::new(Bounds { records: MAX_SETS, octets: u64::MAX });
        Self { all: BTreeMap::new(), shares, next: 0, last: 0, useless: Vec::new() }
    }
}

impl ChangeSets {
    /// From all records of the store; others are ignored. What a set that is not there has left is useless; one that cannot be read, as of a
    /// later version, is left alone.
    pub(crate) fn restore<'a>(records: impl Iterator<Item = (&'a str, &'a [u8])>) -> Self {
        let (mut sets, mut found, mut unreadable) = (Self::default(), BTreeSet::new(), BTreeSet::new());
        for (key, value) in records {
            let Some((number, rest)) = parsed(key) else { continue };
            sets.next = sets.next.max(number + 1);
            found.insert((number, rest.starts_with("item/")));
            if rest == "state" {
                match serde_json::from_slice::<State>(value) {
                    Ok(state) => sets.add(number, state),
                    Err(error) => {
                        tracing::warn!(key, %error, "the record of a change set cannot be read: it is not continued");
                        unreadable.insert(number);
                    }
                }
            }
        }
        for (number, is_item) in found {
            match sets.all.get(&number).map(|kept| kept.set.state.stage) {
                None if !unreadable.contains(&number) => sets.useless.push(prefix(number)),
                Some(stage) if is_item && stage != Stage::Applying => sets.useless.push(items(number)),
                None | Some(_) => {}
            }
        }
        sets
    }

    fn add(&mut self, number: u64, state: State) {
        self.shares.add(number, (), 0, &owner(state.author.tenant()));
        self.all.insert(number, Kept { set: ChangeSet { state, waits: None }, retry: None });
    }

    /// The number of the next one.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Which one leaves when one of this owner comes.
    ///
    /// # Errors
    /// The owner has one that is active, or the one that would leave is.
    pub(crate) fn leaving(&self, owner: &Owner) -> Result<Option<u64>, CommandError> {
        self.check_active(owner, None)?;
        let mut leaving = Vec::new();
        self.shares.make_room(&mut leaving, 1, 0, owner);
        let leaving = leaving.first().copied();
        match leaving.and_then(|number| self.all.get(&number)) {
            Some(kept) if kept.set.state.stage.is_active() => {
                let why = format!("{MAX_SETS} change sets are kept, and none has ended: try again later");
                Err(DomainError::Limit(why).into())
            }
            _ => Ok(leaving),
        }
    }

    /// Checks that this owner has no other one that is active than the set with this number.
    ///
    /// # Errors
    /// [`CommandError::ChangeSetActive`].
    pub(crate) fn check_active(&self, owner: &Owner, but: Option<u64>) -> Result<(), CommandError> {
        let is_active = |number: u64, State { stage, author, .. }: &State| {
            stage.is_active() && Some(number) != but && self::owner(author.tenant()) == *owner
        };
        match self.all.iter().find(|(number, kept)| is_active(**number, &kept.set.state)) {
            Some((_, kept)) => Err(CommandError::ChangeSetActive { id: kept.set.state.id.clone() }),
            None => Ok(()),
        }
    }

    /// Takes note that the next one was not begun: what was stored of it is useless, and no other one gets its number.
    pub(crate) fn not_begun(&mut self) {
        self.useless.push(prefix(self.next));
        self.next += 1;
    }

    /// Takes note of one that is durable, and of the one that left for it.
    pub(crate) fn begun(&mut self, state: State, left: Option<u64>) {
        if let Some(left) = left {
            self.all.remove(&left);
            self.shares.remove(left);
            self.useless.push(prefix(left));
        }
        let number = self.next;
        self.next += 1;
        self.add(number, state);
    }

    /// Takes note of what is durable of a set.
    pub(crate) fn keep(&mut self, number: u64, state: State) {
        if let Some(kept) = self.all.get_mut(&number) {
            if kept.set.state.stage == Stage::Applying && state.stage != Stage::Applying {
                self.useless.push(items(number));
            }
            *kept = Kept { set: ChangeSet { state, waits: None }, retry: None };
        }
        self.last = number;
    }

    /// Takes note of why a set does not continue before `retry`.
    pub(crate) fn waits(&mut self, number: u64, why: String, retry: Instant) {
        if let Some(kept) = self.all.get_mut(&number) {
            kept.set.waits = Some(why);
            kept.retry = Some(retry);
        }
        self.last = number;
    }

    /// What a prefix that is of no use has is to be removed; `None`: there is nothing.
    pub(crate) fn useless(&self) -> Option<&str> {
        self.useless.last().map(String::as_str)
    }

    /// Takes note of a prefix below which nothing is left, or below which something is.
    pub(crate) fn is_useless(&mut self, prefix: String, is_left: bool) {
        self.useless.retain(|known| *known != prefix);
        if is_left {
            self.useless.push(prefix);
        }
    }

    /// When the next one is to be continued.
    pub(crate) fn due(&self, now: Instant) -> Option<Instant> {
        if !self.useless.is_empty() {
            return Some(now);
        }
        let active = self.all.values().filter(|kept| kept.set.state.stage.is_active());
        active.map(|kept| kept.retry.unwrap_or(now)).min()
    }

    /// The one whose turn it is.
    pub(crate) fn turn(&self, now: Instant) -> Option<(u64, State)> {
        let is_due = |kept: &Kept| kept.set.state.stage.is_active() && kept.retry.is_none_or(|retry| retry <= now);
        let due = || self.all.iter().filter(|(_, kept)| is_due(kept));
        let next = due().find(|(number, _)| **number > self.last).or_else(|| due().next());
        next.map(|(number, kept)| (*number, kept.set.state.clone()))
    }

    /// Those that a caller sees, the newest first.
    pub(crate) fn list(&self, scope: &Scope) -> Vec<ChangeSet> {
        let seen = |kept: &&Kept| scope.has_all_of(&kept.set.state.author.scope);
        self.all.values().rev().filter(seen).map(|kept| kept.set.clone()).collect()
    }

    /// The one with this id, if a caller sees it.
    pub(crate) fn find(&self, id: &str, scope: &Scope) -> Option<(u64, ChangeSet)> {
        let is_it = |kept: &Kept| kept.set.state.id == id && scope.has_all_of(&kept.set.state.author.scope);
        self.all.iter().find(|(_, kept)| is_it(kept)).map(|(number, kept)| (*number, kept.set.clone()))
    }
}

impl State {
    pub(crate) fn new(id: String, author: Author, commands: &[(Command, Precondition)]) -> Self {
        let has_topology = commands.iter().any(|(command, _)| matches!(command, Command::PutTopology { .. }));
        Self {
            id,
            author,
            stage: Stage::Applying,
            items: commands.len(),
            done: 0,
            created: 0,
            updated: 0,
            has_topology,
            undone: None,
            put_back: 0,
            refused: Vec::new(),
            ended: None,
            chunk: 0,
            befores: 0,
            octets: 0,
        }
    }

    /// The same one with one more resource written.
    pub(crate) fn with(mut self, outcome: Outcome, at: UnixTime) -> Self {
        self.done += 1;
        match outcome {
            Outcome::Created => self.created += 1,
            Outcome::Updated => self.updated += 1,
            Outcome::Unchanged | Outcome::Deleted => {}
        }
        if self.done >= self.items {
            (self.stage, self.ended) = (Stage::Applied, Some(at));
        }
        self
    }

    /// The same one, which a resource has stopped.
    pub(crate) fn stopped(mut self, why: Refused, at: UnixTime) -> Self {
        (self.stage, self.refused, self.ended) = (Stage::Stopped, vec![why], Some(at));
        self
    }

    /// The same one, which is taken back from now on.
    pub(crate) fn undoing(mut self, author: Author) -> Self {
        (self.stage, self.undone, self.refused, self.ended) = (Stage::Undoing, Some(author), Vec::new(), None);
        self
    }

    pub(crate) fn op(&self, number: u64) -> Op {
        Op::Put { key: state_key(number), value: serialized(self) }
    }
}

/// Prefix of the records of a set.
fn prefix(number: u64) -> String {
    format!("{PREFIX}{number:016x}/")
}

pub(crate) fn state_key(number: u64) -> String {
    format!("{}state", prefix(number))
}

/// Prefix of what a set is to write.
pub(crate) fn items(number: u64) -> String {
    format!("{}item/", prefix(number))
}

/// The record that begins with this item.
pub(crate) fn item_key(number: u64, first: usize) -> String {
    format!("{}{first:08x}", items(number))
}

pub(crate) fn before_key(number: u64, sequence: u64) -> String {
    format!("{}before/{sequence:08x}", prefix(number))
}

fn parsed(key: &str) -> Option<(u64, &str)> {
    let (number, rest) = key.strip_prefix(PREFIX)?.split_once('/')?;
    Some((u64::from_str_radix(number, 16).ok()?, rest))
}
