// SPDX-License-Identifier: Apache-2.0
//! One resource of a change set: what is to be written, and what it was before.

use canopy_controller_core::audit::IntentKind;
use canopy_controller_core::{Command, Domain, DomainError};
use canopy_store::MAX_VALUE_BYTES;
use serde::{Deserialize, Serialize};

use super::AT_ONCE;
use super::records::{RECORD, serialized};
use super::state::Author;
use crate::intent::Declared;
use crate::order::{Order, Precondition};
use crate::{CommandError, Target};

/// Room for the other fields of a record of one resource.
const MARGIN: usize = 4 << 10;

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
