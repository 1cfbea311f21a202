// SPDX-License-Identifier: Apache-2.0
//! The durable part of a change set, and in whose name its resources are written.

use canopy_controller_core::principal::Written;
use canopy_controller_core::tenant::Scope;
use canopy_controller_core::{Command, Outcome};
use canopy_store::Op;
use canopy_units::UnixTime;
use serde::{Deserialize, Serialize};

use super::records::{serialized, state_key};
use crate::commit::Refused;
use crate::order::{Manager, Order, Precondition};

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
