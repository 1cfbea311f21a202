// SPDX-License-Identifier: Apache-2.0
//! The change sets that are kept, and whose turn it is.

use std::collections::{BTreeMap, BTreeSet};

use canopy_controller_core::DomainError;
use canopy_controller_core::tenant::Scope;
use tokio::time::Instant;

use super::MAX_SETS;
use super::records::{items, parsed, prefix};
use super::state::{Stage, State};
use crate::CommandError;
use crate::shares::{Bounds, Owner, Shares, owner};

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
