// SPDX-License-Identifier: Apache-2.0
//! A command with who gives it, and under which conditions.

use std::sync::Arc;

use canopy_controller_core::metadata::{DEFAULT_TENANT, MANAGED_BY};
use canopy_controller_core::principal::{Principal, PrincipalKind};
use canopy_controller_core::request_id::RequestId;
use canopy_controller_core::tenant::Scope;
use canopy_controller_core::trace::Trace;
use canopy_controller_core::{Command, Domain, DomainError};
use serde::{Deserialize, Serialize};

use crate::{CommandError, Target};

/// A command with who gives it, and under which conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// What to do.
    pub command: Command,
    /// Who wants it.
    pub by: Arc<Principal>,
    /// In which request, if it came in one.
    pub request: Option<RequestId>,
    /// The client's key for this write: sent again with the same one, the write is carried out once. See [`once`](crate::once).
    pub key: Option<String>,
    /// Its trace, if its spans are exported.
    pub trace: Option<Trace>,
    /// On the present state of the resource that the command names.
    pub precondition: Precondition,
    /// Only if the command has exactly the effects of this [`Preview::plan`](crate::preview::Preview::plan).
    pub plan: Option<String>,
    /// The confirmed commit that the change is a part of: see [`commit`](crate::commit).
    pub commit: Option<String>,
    /// Everything is checked, and nothing changes.
    pub dry_run: bool,
    /// What the caller may change: all else does not exist for it.
    pub scope: Scope,
    /// As whose manager it is given.
    pub manager: Manager,
}

/// As whose manager a command is given. A resource with the label [`MANAGED_BY`] is written by the manager that this names, and by no one else:
/// two writers would overwrite each other for ever.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Manager {
    /// Without a manager.
    #[default]
    None,
    /// As this one.
    Named(String),
    /// By one who takes the resource over: it has no manager from then on.
    TakesOver,
}

/// What has to hold of the resource that a command names (RFC 9110 section 13.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Precondition {
    /// Nothing.
    #[default]
    None,
    /// It is there.
    Exists,
    /// It is not there.
    Absent,
    /// It is there with this tag: see `Metadata::tag`.
    Tag(String),
}

impl Order {
    /// Without conditions.
    pub fn new(command: Command, by: impl Into<Arc<Principal>>) -> Self {
        Self {
            command,
            by: by.into(),
            request: None,
            key: None,
            trace: None,
            precondition: Precondition::None,
            plan: None,
            commit: None,
            dry_run: false,
            scope: Scope::Domain,
            manager: Manager::None,
        }
    }

    /// Checks that the command is within what the caller may change, before all else: no other refusal shows what is not.
    ///
    /// # Errors
    /// As of a group that is not there. A name that a group of another tenant has is refused without anything of that group.
    pub(crate) fn check_scope(&self, domain: &Domain) -> Result<(), CommandError> {
        let Scope::Tenants(tenants) = &self.scope else { return Ok(()) };
        let not_found = |name: &String| {
            let name = name.clone();
            Err(CommandError::Domain(DomainError::NotFound { kind: "group", name }))
        };
        let none_in = |tenant: &str| {
            let own = tenants.iter().cloned().collect();
            Err(CommandError::NoRoleInTenant { tenant: tenant.to_owned(), own })
        };
        match &self.command {
            Command::PutGroup { name, tenant, .. } => match (domain.tenant_of(name), tenant) {
                (_, Some(wanted)) if !self.scope.has(wanted) => none_in(wanted),
                (Some(present), _) if self.scope.has(present) => Ok(()),
                (Some(_), _) => self.check_against(None).and_then(|()| {
                    let detail = "choose another name".to_owned();
                    Err(DomainError::AlreadyExists { kind: "group", name: name.clone(), detail }.into())
                }),
                (None, None) if !self.scope.has(DEFAULT_TENANT) => none_in(DEFAULT_TENANT),
                (None, _) => Ok(()),
            },
            Command::DeleteGroup { name: group }
            | Command::PutMember { group, .. }
            | Command::DeleteMember { group, .. } => match domain.tenant_of(group) {
                Some(tenant) if self.scope.has(tenant) => Ok(()),
                _ => not_found(group),
            },
            // None of the others is about a group that an operator declares.
            _ => Err(CommandError::OfDomain),
        }
    }

    /// Checks that what is written has no other manager, before and after.
    ///
    /// # Errors
    /// [`CommandError::ManagedBy`], [`CommandError::NotTheManager`].
    pub(crate) fn check_manager(&self, domain: &Domain) -> Result<(), CommandError> {
        // What the controller takes back at the end of a commit was permitted when it was written.
        if self.by.kind == PrincipalKind::Controller {
            return Ok(());
        }
        let (kind, wanted) = match &self.command {
            Command::PutGroup { labels, .. } => ("multicastgroup", labels.get(MANAGED_BY)),
            Command::PutTopology { labels, .. } => ("topology", labels.get(MANAGED_BY)),
            Command::DeleteGroup { .. } => ("multicastgroup", None),
            Command::DeleteTopology => ("topology", None),
            // Of a node that is cordoned there.
            Command::PutDrain { labels, .. } => ("node", labels.get(MANAGED_BY)),
            Command::DeleteDrain { .. } => ("node", None),
            _ => return Ok(()),
        };
        let own = match &self.manager {
            Manager::Named(name) => Some(name),
            Manager::None | Manager::TakesOver => None,
        };
        let Some(target) = Target::of(&self.command) else { return Ok(()) };
        let present = target.declared(domain).map(|(metadata, _)| metadata);
        let manager = present.as_ref().and_then(|metadata| metadata.labels.get(MANAGED_BY));
        if let (Some(metadata), Some(manager)) = (&present, manager)
            && Some(manager) != own
            && self.manager != Manager::TakesOver
        {
            let name = &metadata.name;
            let edit = match kind {
                "node" => {
                    let node = domain.declared_drain(name).and_then(|(_, spec)| spec.node.as_deref());
                    format!("kubectl uncordon {}", node.unwrap_or(name))
                }
                "topology" => format!("kubectl edit topology {name}"),
                _ => format!("kubectl --namespace {} edit {kind} {name}", metadata.tenant),
            };
            return Err(CommandError::ManagedBy { resource: target.to_string(), manager: manager.clone(), edit });
        }
        match wanted {
            Some(wanted) if Some(wanted) != own => {
                Err(CommandError::NotTheManager { resource: target.to_string(), manager: wanted.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Checks the precondition.
    ///
    /// # Errors
    /// [`CommandError::Precondition`].
    pub(crate) fn check(&self, domain: &Domain) -> Result<(), CommandError> {
        self.check_against(Target::of(&self.command).and_then(|target| target.tag(domain)))
    }

    fn check_against(&self, actual: Option<String>) -> Result<(), CommandError> {
        let expected = match &self.precondition {
            Precondition::None => return Ok(()),
            Precondition::Exists => "any",
            Precondition::Absent => "absent",
            Precondition::Tag(tag) => tag,
        };
        let holds = match &self.precondition {
            Precondition::None => true,
            Precondition::Exists => actual.is_some(),
            Precondition::Absent => actual.is_none(),
            Precondition::Tag(tag) => actual.as_ref() == Some(tag),
        };
        if holds {
            return Ok(());
        }
        let resource = Target::of(&self.command)
            .map_or_else(|| "what this command changes".to_owned(), |target| target.to_string());
        let (expected, actual) = (expected.to_owned(), actual.unwrap_or_else(|| "absent".into()));
        Err(CommandError::Precondition { resource, expected, actual })
    }
}
