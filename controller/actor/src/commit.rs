// SPDX-License-Identifier: Apache-2.0
//! Confirmed commits (after RFC 6241 section 8.4, and gNMI's): changes of operators that are taken back unless they are confirmed in time.
//!
//! At most one is pending in a domain. The record [`STATE`] holds it, and stays with how it ended; a record under [`BEFORE`] holds what a
//! resource was before the commit changed it for the first time, written in the transaction of that change. A rollback writes these
//! intents again, the newest first, each in a transaction that also removes its record: it continues where a crash has ended it.
//!
//! ```text
//! none --begin--> pending --confirm--> confirmed
//!                 pending --cancel, or its time has passed--> rolled back
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use canopy_controller_core::audit::{Action, IntentKind};
use canopy_controller_core::metadata::Metadata;
use canopy_controller_core::principal::{PrincipalKind, Written};
use canopy_controller_core::tenant::Scope;
use canopy_controller_core::{Command, Domain, DomainError};
use canopy_store::Op;
use canopy_units::UnixTime;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::intent::Declared;
use crate::{CommandError, Intent, Target};

/// Shortest time until an unconfirmed commit is rolled back.
pub const MIN_TIMEOUT: Duration = Duration::from_secs(1);
/// Longest time until an unconfirmed commit is rolled back.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 3600);
/// Resources that one commit may change.
pub const MAX_CHANGES: usize = 1000;
/// Octets of what these resources were before, at most.
pub const MAX_OCTETS: u64 = 64 << 20;
/// Resources that a rollback could not put back and that the commit names, at most.
pub const MAX_REFUSED: usize = 100;

const STATE: &str = "commit/state";
/// Prefix of what resources were before.
pub(crate) const BEFORE: &str = "commit/before/";

/// The commit that is pending, or the last one.
#[derive(Clone, Debug, PartialEq)]
pub struct Commit {
    /// What is stored of it.
    pub state: State,
    /// What a rollback would write.
    pub changes: BTreeMap<Target, Change>,
    next: u64,
    octets: u64,
    /// When it is rolled back.
    pub(crate) due: Instant,
}

/// The durable part of a commit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// 16 hexadecimal digits, drawn at random.
    pub id: String,
    /// Who began it, and when.
    pub begun: Written,
    /// From the last `begin` or `extend` to the deadline, seconds.
    pub timeout_seconds: u64,
    /// When it is rolled back, on the controller's wall clock.
    pub deadline: UnixTime,
    /// Absent while it is pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
}

/// How a commit ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ended {
    /// Who ended it, and when.
    pub written: Written,
    /// How.
    pub how: End,
    /// Resources that could not be put back, the first [`MAX_REFUSED`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Refused>,
}

/// How a commit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum End {
    /// Its changes stay.
    Confirmed,
    /// It was rolled back because an operator wanted it.
    Cancelled,
    /// It was rolled back because its time had passed.
    Expired,
}

/// A resource that could not be put back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Refused {
    /// Its kind.
    pub kind: IntentKind,
    /// Its name.
    pub name: String,
    /// Why not.
    pub detail: String,
    /// As which version it was left; absent if it was not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
}

/// A resource that a commit has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Of its record.
    sequence: u64,
    /// It was there before: a rollback puts it back. Otherwise a rollback deletes it.
    pub existed: bool,
}

/// What an operator does with a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Begins one that is rolled back after this time.
    Begin(Duration),
    /// Keeps the changes of the one with this id.
    Confirm(String),
    /// Rolls the one with this id back.
    Cancel(String),
    /// Rolls the one with this id back after this time from now.
    Extend(String, Duration),
}

impl Act {
    pub(crate) fn action(&self) -> Action {
        match self {
            Self::Begin(_) => Action::Begin,
            Self::Confirm(_) => Action::Confirm,
            Self::Cancel(_) => Action::Cancel,
            Self::Extend(..) => Action::Extend,
        }
    }
}

/// What a resource was before the commit changed it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Before {
    kind: IntentKind,
    name: String,
    /// Absent: it was not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    intent: Option<Declared>,
}

/// What is to be stored with the first change of a resource in a commit, and kept by [`Commit::keep`] then.
pub(crate) struct Touch {
    pub(crate) op: Op,
    target: Target,
    change: Change,
    octets: u64,
}

impl Commit {
    pub(crate) fn begin(id: String, begun: Written, timeout: Duration, now: Instant) -> Self {
        let state = State { id, deadline: begun.at + timeout, begun, timeout_seconds: timeout.as_secs(), ended: None };
        Self { state, changes: BTreeMap::new(), next: 0, octets: 0, due: now + timeout }
    }

    /// From all records of the store; others are ignored. `None` if there was never a commit.
    ///
    /// # Errors
    /// The key of a record that is not one: what the commit changed could not be taken back.
    pub(crate) fn restore<'a>(
        records: impl Iterator<Item = (&'a str, &'a [u8])>,
        at: UnixTime,
        now: Instant,
    ) -> Result<Option<Self>, (String, serde_json::Error)> {
        let (mut state, mut changes, mut next, mut octets) = (None, BTreeMap::new(), 0, 0);
        for (key, value) in records.filter(|(key, _)| key.starts_with("commit/")) {
            let unreadable = |e| (key.to_owned(), e);
            if key == STATE {
                state = Some(serde_json::from_slice::<State>(value).map_err(unreadable)?);
            } else if let Some(sequence) = sequence_of(key) {
                let before: Before = serde_json::from_slice(value).map_err(unreadable)?;
                next = next.max(sequence + 1);
                octets += value.len() as u64;
                changes.insert(before.target(), Change { sequence, existed: before.intent.is_some() });
            }
        }
        Ok(state.map(|state: State| {
            // A wall clock that was set back makes it no longer than it was meant to be.
            let left = Duration::from_nanos(state.deadline.nanos().saturating_sub(at.nanos()));
            let due = now + left.min(Duration::from_secs(state.timeout_seconds));
            Self { state, changes, next, octets, due }
        }))
    }

    /// How long it may still be confirmed.
    pub fn time_left(&self) -> Duration {
        self.due.saturating_duration_since(Instant::now())
    }

    /// It is rolled back soon: less than a fifth of its time is left.
    pub fn is_expiring(&self) -> bool {
        self.is_pending() && self.time_left() * 5 < Duration::from_secs(self.state.timeout_seconds)
    }

    /// It waits for its confirmation.
    pub fn is_pending(&self) -> bool {
        self.state.ended.is_none()
    }

    /// The same one, to be rolled back after `timeout` from now.
    pub(crate) fn extended(mut self, timeout: Duration, at: UnixTime, now: Instant) -> Self {
        self.state.deadline = at + timeout;
        self.state.timeout_seconds = timeout.as_secs();
        self.due = now + timeout;
        self
    }

    /// The same one, with how it ended.
    pub(crate) fn ended(mut self, written: Written, how: End, refused: Vec<Refused>) -> Self {
        self.state.ended = Some(Ended { written, how, refused });
        self
    }

    /// Checks that a change of `target` can be taken back, and notes what it was; `None` if the commit has changed it before.
    ///
    /// # Errors
    /// It cannot be taken back, or the commit has too many changes.
    pub(crate) fn touch(
        &self,
        domain: &Domain,
        target: &Target,
        command: &Command,
        old: Option<&(Metadata, Intent)>,
    ) -> Result<Option<Touch>, CommandError> {
        reversible(domain, target, command, old)?;
        if self.changes.contains_key(target) {
            return Ok(None);
        }
        let before = Before { kind: target.kind, name: target.name.clone(), intent: old.map(Declared::of) };
        // A struct of strings, numbers and JSON values: serialising it cannot fail.
        let value = serde_json::to_vec(&before).expect("what a resource was is JSON");
        let octets = value.len() as u64;
        let full = |why: String| Err(DomainError::Limit(why).into());
        if octets > MAX_OCTETS {
            return full(format!("{target} is too large to be taken back: change it once the commit has ended"));
        }
        if self.changes.len() >= MAX_CHANGES || self.octets + octets > MAX_OCTETS {
            return full(format!(
                "commit {} has changed {} resources of {} octets, at most {MAX_CHANGES} of {MAX_OCTETS} octets can be taken back: confirm it before the next change",
                self.state.id,
                self.changes.len(),
                self.octets
            ));
        }
        let change = Change { sequence: self.next, existed: before.intent.is_some() };
        let op = Op::Put { key: key_of(self.next), value };
        Ok(Some(Touch { op, target: target.clone(), change, octets }))
    }

    /// Takes note of what is durable, or will be before it is seen.
    pub(crate) fn keep(&mut self, touch: Touch) {
        self.next = touch.change.sequence + 1;
        self.octets += touch.octets;
        self.changes.insert(touch.target, touch.change);
    }

    pub(crate) fn op(&self) -> Op {
        // A struct of strings and numbers: serialising it cannot fail.
        Op::Put { key: STATE.into(), value: serde_json::to_vec(&self.state).expect("a commit is JSON") }
    }

    /// Removes all that a rollback needs.
    pub(crate) fn forgotten(&self) -> Vec<Op> {
        self.changes.values().map(|change| Op::Delete { key: key_of(change.sequence) }).collect()
    }
}

impl Before {
    pub(crate) fn target(&self) -> Target {
        Target { kind: self.kind, name: self.name.clone() }
    }

    /// Writes what the resource was; `None` if that is what it is, or it is no longer what an operator has written.
    ///
    /// # Errors
    /// The intent cannot be read any more.
    pub(crate) fn command(&self, domain: &Domain) -> Result<Option<Command>, CommandError> {
        let target = self.target();
        // What is known of a problem is no change of a commit.
        if target.kind == IntentKind::Silence {
            return Ok(None);
        }
        let present = target.declared(domain);
        if self.intent.is_none() && present.is_none() {
            return Ok(None);
        }
        if target.kind == IntentKind::Member {
            // A host that has joined since is a member by its own will.
            if present.is_some_and(|(metadata, _)| !is_operators(&metadata)) {
                return Ok(None);
            }
            let group = self.name.split_once('/').map_or(self.name.as_str(), |(group, _)| group);
            if let (Some(before), Some(tenant)) = (&self.intent, domain.tenant_of(group))
                && tenant != before.tenant()
            {
                let detail = "it is another tenant's by now".to_owned();
                return Err(DomainError::InUse { kind: "group", name: group.to_owned(), detail }.into());
            }
        }
        let Some(before) = &self.intent else { return Ok(target.deletion()) };
        before.command(&target).map_err(|e| unreadable(&target, &e))
    }
}

/// What `target` was before cannot be written again.
pub(crate) fn unreadable(target: &Target, why: &serde_json::Error) -> CommandError {
    DomainError::Limit(format!("what {target} was before cannot be read: {why}")).into()
}

/// The records of a commit, the newest first.
///
/// # Errors
/// The key of a record that cannot be read.
pub(crate) fn newest_first(entries: &[(String, Vec<u8>)]) -> Result<Vec<(u64, Before)>, (String, serde_json::Error)> {
    let read = |(key, value): &(String, Vec<u8>)| {
        let before = serde_json::from_slice(value).map_err(|e| (key.clone(), e))?;
        Ok(sequence_of(key).map(|sequence| (sequence, before)))
    };
    let mut all =
        entries.iter().filter_map(|entry| read(entry).transpose()).collect::<Result<Vec<(u64, Before)>, _>>()?;
    all.sort_by_key(|(sequence, _)| std::cmp::Reverse(*sequence));
    Ok(all)
}

/// Removes the record with this sequence.
pub(crate) fn forget(sequence: u64) -> Op {
    Op::Delete { key: key_of(sequence) }
}

fn reversible(
    domain: &Domain,
    target: &Target,
    command: &Command,
    old: Option<&(Metadata, Intent)>,
) -> Result<(), CommandError> {
    let refused = |why: &str| Err(CommandError::NotReversible { resource: target.to_string(), why: why.to_owned() });
    match (target.kind, command) {
        (IntentKind::Hmac, _) => refused("keys that were replaced are not used again"),
        (_, Command::DeleteGroup { name }) if domain.has_members(name) => {
            refused("its members would have to join again: remove them first")
        }
        (IntentKind::Member, _) if old.is_some_and(|(metadata, _)| !is_operators(metadata)) => {
            refused("its host has joined by itself, and only it can join again")
        }
        _ => Ok(()),
    }
}

fn is_operators(metadata: &Metadata) -> bool {
    metadata.written().is_some_and(|written| written.by.kind == PrincipalKind::Operator)
}

/// Refuses an operator's change outside the pending commit; a commit is the domain's, and nothing of a tenant's callers becomes a part of it.
///
/// # Errors
/// `CommitPending`, `DomainCommitPending` or `CommitEnded`.
pub(crate) fn check(pending: Option<&Commit>, named: Option<&str>, scope: &Scope) -> Result<(), CommandError> {
    match (pending, named) {
        (Some(commit), _) if !scope.is_domain() => {
            Err(CommandError::DomainCommitPending { by: commit.state.begun.by.to_string() })
        }
        (Some(commit), Some(id)) if commit.state.id == id => Ok(()),
        (_, Some(id)) => Err(CommandError::CommitEnded { id: id.to_owned() }),
        (None, None) => Ok(()),
        (Some(commit), None) => {
            Err(CommandError::CommitPending { id: commit.state.id.clone(), by: commit.state.begun.by.to_string() })
        }
    }
}

fn key_of(sequence: u64) -> String {
    format!("{BEFORE}{sequence:016x}")
}

fn sequence_of(key: &str) -> Option<u64> {
    u64::from_str_radix(key.strip_prefix(BEFORE)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_expires_with_a_fifth_of_its_time_left() {
        let after = |passed: u64| {
            let begun = Instant::now() - Duration::from_millis(passed);
            Commit::begin("0".into(), Written::default(), Duration::from_secs(10), begun)
        };
        assert_eq!([0, 7500, 8100, 11_000].map(|passed| after(passed).is_expiring()), [false, false, true, true]);
        let ended = after(8100).ended(Written::default(), End::Confirmed, Vec::new());
        assert!(!ended.is_expiring());
        assert_eq!(after(11_000).time_left(), Duration::ZERO);
    }
}
