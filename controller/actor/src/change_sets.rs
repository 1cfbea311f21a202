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

mod item;
mod kept;
mod records;
mod state;

use std::collections::{BTreeMap, BTreeSet};

use canopy_controller_core::metadata::DEFAULT_TENANT;
use canopy_controller_core::principal::Principal;
use canopy_controller_core::request_id::RequestId;
use canopy_controller_core::tenant::Scope;
use canopy_controller_core::{Command, Domain};

use crate::order::{Manager, Precondition};

pub(crate) use item::{Before, Item, chunks};
pub use kept::ChangeSet;
pub(crate) use kept::ChangeSets;
pub(crate) use records::{RECORD, before_key, item_key, serialized, state_key};
pub use state::{Author, Stage, State};

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
    /// As of an [`Order`](crate::order::Order).
    pub key: Option<String>,
    /// As of an [`Order`](crate::order::Order).
    pub scope: Scope,
    /// As of an [`Order`](crate::order::Order).
    pub manager: Manager,
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
