// SPDX-License-Identifier: Apache-2.0
//! Writes that are sent again because their answer was lost: with the same key they are carried out once (draft-ietf-httpapi-idempotency-key-header-07).
//!
//! A record (`once/`) is written in the transaction of the write itself and has what it did. It counts for [`KEPT`], as long as the key is
//! one of the last [`MAX_KEYS`], which tenants and the domain share: see [`Shares`]. A write that was refused leaves none: it has done nothing, and is tried anew.

use std::collections::HashMap;
use std::time::Duration;

use canopy_controller_core::audit::IntentKind;
use canopy_controller_core::principal::Principal;
use canopy_controller_core::request_id::RequestId;
use canopy_controller_core::uid::Uid;
use canopy_controller_core::{Command, Outcome};
use canopy_store::Op;
use canopy_units::UnixTime;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::CommandError;
use crate::change_sets::{self, ChangeOrder};
use crate::commit::Act;
use crate::intent::{Target, wanted};
use crate::order::{Order, Precondition};
use crate::shares::{Bounds, Owner, Shares, owner};

/// Keys that are kept; of who has most the oldest leaves first.
pub const MAX_KEYS: usize = 100_000;
/// How long a key is kept.
pub const KEPT: Duration = Duration::from_secs(24 * 3600);
/// Old records that one write removes, at most: as many as it adds.
pub(crate) const MAX_REMOVED: usize = 1;

const PREFIX: &str = "once/";

/// First octets of a SHA-256 digest.
type Short = [u8; 16];

/// The first one of several writes with one key, which the others were not carried out for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// When it was carried out.
    pub at: UnixTime,
    /// In which request.
    pub request: Option<RequestId>,
}

/// A write with a key.
pub(crate) struct Attempt {
    /// Of the key and of the principal: keys of others do not concern it.
    id: Short,
    /// Of all that the write wants.
    wants: Short,
}

impl Attempt {
    /// `None` of an order without a key, and of a dry run.
    pub(crate) fn of(order: &Order) -> Option<Self> {
        let Order { command, by, precondition, plan, commit, .. } = order;
        let target = Target::of(command).filter(|_| !order.dry_run)?;
        let create_only = match command {
            Command::PutGroup { create_only, .. }
            | Command::PutMember { create_only, .. }
            | Command::PutDrain { create_only, .. }
            | Command::PutSilence { create_only, .. } => *create_only,
            _ => false,
        };
        let condition = match precondition {
            Precondition::None => None,
            Precondition::Exists => Some("exists"),
            Precondition::Absent => Some("absent"),
            Precondition::Tag(tag) => Some(tag.as_str()),
        };
        let wanted = wanted(command).map(|intent| intent.value());
        let mut wants = json!([target.to_string(), wanted, create_only, condition, plan, commit]);
        // Only where there is one, so that writes of before an upgrade are recognized.
        if let (Command::PutGroup { tenant: Some(tenant), .. }, Some(wants)) = (command, wants.as_array_mut()) {
            wants.push(tenant.as_str().into());
        }
        Some(Self { id: id(by, order.key.as_deref()?), wants: short(&wants) })
    }

    /// The same for a change set, and for its undo.
    pub(crate) fn of_change_set(order: &ChangeOrder) -> Option<Self> {
        let key = order.key.as_deref()?;
        let wants = match &order.act {
            change_sets::Act::Apply(commands) | change_sets::Act::Again(commands) => {
                // One order after the other: all of them at once may be large.
                let mut all = Sha256::new();
                for (command, precondition) in commands {
                    let (command, precondition) = (command.clone(), precondition.clone());
                    let single =
                        Order { key: order.key.clone(), precondition, ..Order::new(command, order.by.clone()) };
                    all.update(Self::of(&single)?.wants);
                }
                json!(["apply", hex::encode(all.finalize())])
            }
            change_sets::Act::Undo(id) => json!(["undo", id]),
        };
        Some(Self { id: id(&order.by, key), wants: short(&wants) })
    }

    /// The same for an act on a commit.
    pub(crate) fn of_act(act: &Act, by: &Principal, key: Option<&str>) -> Option<Self> {
        let wants = match act {
            Act::Begin(timeout) => json!(["begin", timeout.as_secs()]),
            Act::Confirm(id) => json!(["confirm", id]),
            Act::Cancel(id) => json!(["cancel", id]),
            Act::Extend(id, timeout) => json!(["extend", id, timeout.as_secs()]),
        };
        Some(Self { id: id(by, key?), wants: short(&wants) })
    }
}

/// What a write with a key did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Past {
    at: UnixTime,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    request: Option<RequestId>,
    #[serde(with = "hex::serde")]
    wants: Short,
    /// What became of it.
    pub(crate) outcome: Outcome,
    kind: IntentKind,
    name: String,
    /// Of the resource, unless it was deleted or is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) uid: Option<Uid>,
    /// The tenant of the group: see [`recorded`](canopy_controller_core::tenant::recorded).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
}

impl Past {
    fn owner(&self) -> Owner {
        owner(self.kind.tenant_in(self.tenant.as_deref()))
    }

    pub(crate) fn target(&self) -> Target {
        Target { kind: self.kind, name: self.name.clone() }
    }

    pub(crate) fn replayed(&self) -> Replayed {
        Replayed { at: self.at, request: self.request }
    }
}

/// What is to be stored with the write, and kept by [`Once::keep`] then.
pub(crate) struct Note {
    pub(crate) ops: Vec<Op>,
    id: Short,
    past: Past,
    /// Numbers of those that leave.
    removed: Vec<u64>,
}

/// A key that is kept.
struct Known {
    past: Past,
    /// In the order of their writes.
    number: u64,
}

/// The keys of the last day.
pub(crate) struct Once {
    known: HashMap<Short, Known>,
    /// By number.
    by_age: Shares<Short>,
}

impl Default for Once {
    fn default() -> Self {
        Self::bounded(MAX_KEYS)
    }
}

impl Once {
    /// From all records of the store; others are ignored. One that cannot be read is as good as none.
    pub(crate) fn restore<'a>(records: impl Iterator<Item = (&'a str, &'a [u8])>) -> Self {
        Self::default().restored(records)
    }

    fn bounded(records: usize) -> Self {
        Self { known: HashMap::new(), by_age: Shares::new(Bounds { records, octets: u64::MAX }) }
    }

    fn restored<'a>(mut self, records: impl Iterator<Item = (&'a str, &'a [u8])>) -> Self {
        let mut all = Vec::new();
        for (key, value) in records.filter_map(|(key, value)| Some((key.strip_prefix(PREFIX)?, value))) {
            let mut id = Short::default();
            match (hex::decode_to_slice(key, &mut id), serde_json::from_slice::<Past>(value)) {
                (Ok(()), Ok(past)) => all.push((id, past)),
                _ => tracing::warn!(
                    key,
                    "the record of an idempotency key cannot be read: its write may be carried out again if it is sent again"
                ),
            }
        }
        all.sort_unstable_by_key(|(id, past)| (past.at, *id));
        all.into_iter().for_each(|(id, past)| self.add(id, past));
        self
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    /// What the write did when it was sent first; `None` if it was not.
    ///
    /// # Errors
    /// The key was sent with another write.
    pub(crate) fn find(&self, attempt: &Attempt, now: UnixTime) -> Result<Option<&Past>, CommandError> {
        match self.past(&attempt.id).filter(|past| !has_ended(past.at, now)) {
            Some(past) if past.wants != attempt.wants => Err(CommandError::KeyReused { at: past.at }),
            found => Ok(found),
        }
    }

    /// Of a write that is carried out now, about what is of this tenant, if it is of one.
    pub(crate) fn note(
        &self,
        attempt: Attempt,
        (at, request): (UnixTime, Option<RequestId>),
        outcome: Outcome,
        (target, tenant): (Target, Option<&str>),
        uid: Option<Uid>,
    ) -> Note {
        let Attempt { id, wants } = attempt;
        let Target { kind, name } = target;
        let past = Past { at, request, wants, outcome, kind, name, uid, tenant: kind.recorded_tenant(tenant) };
        // A struct of strings and numbers: serialising it cannot fail.
        let value = serde_json::to_vec(&past).expect("a record is JSON");
        let removed = self.leaving(&id, at, &past.owner());
        let gone = removed.iter().filter_map(|number| self.by_age.get(*number)).map(key_of);
        let ops = std::iter::once(Op::Put { key: key_of(&id), value }).chain(gone.map(|key| Op::Delete { key }));
        Note { ops: ops.collect(), id, past, removed }
    }

    /// Which keys leave when `new` comes: the oldest one if its time has passed, else the oldest of who has most while there is no room.
    fn leaving(&self, new: &Short, at: UnixTime, owner: &Owner) -> Vec<u64> {
        let has_passed = |id: &Short| self.past(id).is_some_and(|past| has_ended(past.at, at));
        let oldest = self.by_age.oldest().filter(|(_, id)| *id != new && has_passed(id));
        let mut leaving: Vec<u64> = oldest.map(|(number, _)| number).into_iter().collect();
        // One that takes the place of an earlier one with the same key needs no room.
        if !self.known.contains_key(new) {
            self.by_age.make_room(&mut leaving, MAX_REMOVED, 0, owner);
        }
        leaving
    }

    /// Takes note of what is durable, or will be before anyone sees it.
    pub(crate) fn keep(&mut self, note: Note) {
        let same = self.known.get(&note.id).map(|known| known.number);
        for number in note.removed.into_iter().chain(same) {
            if let Some(id) = self.by_age.remove(number) {
                self.known.remove(&id);
            }
        }
        self.add(note.id, note.past);
    }

    fn add(&mut self, id: Short, past: Past) {
        let number = self.by_age.last().map_or(0, |last| last + 1);
        self.by_age.add(number, id, 0, &past.owner());
        self.known.insert(id, Known { past, number });
    }

    fn past(&self, id: &Short) -> Option<&Past> {
        self.known.get(id).map(|known| &known.past)
    }
}

fn has_ended(since: UnixTime, now: UnixTime) -> bool {
    now.nanos().saturating_sub(since.nanos()) >= canopy_units::nanos(KEPT)
}

fn id(by: &Principal, key: &str) -> Short {
    short(&json!([by, key]))
}

fn short(value: &Value) -> Short {
    let digest = Sha256::digest(value.to_string());
    std::array::from_fn(|i| digest[i])
}

fn key_of(id: &Short) -> String {
    format!("{PREFIX}{}", hex::encode(id))
}

#[cfg(test)]
mod tests;
