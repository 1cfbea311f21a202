// SPDX-License-Identifier: Apache-2.0
//! What operators declare: labels and spec of a resource, as JSON, whatever its kind.

use canopy_controller_core::audit::IntentKind;
use canopy_controller_core::metadata::{DEFAULT_TENANT, Labels, Metadata};
use canopy_controller_core::{Command, Domain};
use serde::Serialize;
use serde_json::{Value, json};

/// A resource by kind and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    /// Its kind.
    pub kind: IntentKind,
    /// Its name; a member's is `group/host`, the topology's `default`.
    pub name: String,
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.kind, self.name)
    }
}

/// The declared part of a resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Intent {
    /// Labels.
    pub labels: Labels,
    /// Spec, as the API has it.
    pub spec: Value,
}

impl Intent {
    fn new(labels: &Labels, spec: &impl Serialize) -> Self {
        // Specs are structs of strings, numbers and lists: serialising them cannot fail.
        Self { labels: labels.clone(), spec: serde_json::to_value(spec).expect("a spec is JSON") }
    }

    /// As one value, in which JSON pointers are those of the resource.
    pub fn value(&self) -> Value {
        json!({"metadata": {"labels": self.labels}, "spec": self.spec})
    }
}

impl Target {
    /// What a command of an operator writes; `None` for commands that the controller gives itself.
    pub fn of(command: &Command) -> Option<Self> {
        let (kind, name) = match command {
            Command::PutTopology { .. } | Command::DeleteTopology => (IntentKind::Topology, "default".to_owned()),
            Command::PutDrain { name, .. } | Command::DeleteDrain { name } => (IntentKind::Drain, name.clone()),
            Command::PutSilence { name, .. } | Command::DeleteSilence { name } => (IntentKind::Silence, name.clone()),
            Command::PutGroup { name, .. } | Command::DeleteGroup { name } => (IntentKind::Group, name.clone()),
            Command::PutMember { group, spec, .. } => (IntentKind::Member, format!("{group}/{}", spec.host)),
            Command::DeleteMember { group, host } => (IntentKind::Member, format!("{group}/{host}")),
            Command::RotateHmac => (IntentKind::Hmac, "keys".to_owned()),
            Command::EvictMember { .. }
            | Command::StartMember { .. }
            | Command::AnswerMember { .. }
            | Command::ContinueDeletion { .. }
            | Command::FailGroup { .. }
            | Command::PortsDown { .. }
            | Command::FinishMove { .. }
            | Command::GiveUpMove { .. }
            | Command::RetryMove { .. }
            | Command::OpenGroup { .. }
            | Command::PushThresholds
            // Of operators, and the audit has them as acts on the node's identity.
            | Command::Retire { .. }
            | Command::CancelRetirement { .. }
            | Command::AdvanceRetirements
            | Command::NodeCleanedUp { .. }
            | Command::NodeRevoked { .. }
            | Command::AdvanceHmac => return None,
        };
        Some(Self { kind, name })
    }

    /// The resource as it is declared now; `None` if it is not there, or no resource.
    pub fn declared(&self, domain: &Domain) -> Option<(Metadata, Intent)> {
        fn owned(declared: Option<(&Metadata, &impl Serialize)>) -> Option<(Metadata, Intent)> {
            declared.map(|(metadata, spec)| (metadata.clone(), Intent::new(&metadata.labels, spec)))
        }
        match self.kind {
            IntentKind::Topology => owned(domain.declared_topology()),
            IntentKind::Drain => owned(domain.declared_drain(&self.name)),
            IntentKind::Silence => owned(domain.declared_silence(&self.name)),
            IntentKind::Group => owned(domain.declared_group(&self.name)),
            IntentKind::Member => {
                let (group, host) = self.name.split_once('/')?;
                owned(domain.declared_member(group, host))
            }
            IntentKind::Hmac | IntentKind::Commit | IntentKind::Identity | IntentKind::LogLevel => None,
        }
    }

    /// The tenant of the group that `command` writes, or of its member.
    pub(crate) fn tenant(&self, domain: &Domain, command: &Command) -> Option<String> {
        let group = match self.kind {
            IntentKind::Group => self.name.as_str(),
            IntentKind::Member => self.name.split_once('/')?.0,
            _ => return None,
        };
        let wanted = match command {
            Command::PutGroup { tenant, .. } => tenant.as_deref(),
            _ => None,
        };
        Some(domain.tenant_of(group).or(wanted).unwrap_or(DEFAULT_TENANT).to_owned())
    }

    /// Its tag: see `Metadata::tag`.
    pub(crate) fn tag(&self, domain: &Domain) -> Option<String> {
        let metadata = match self.kind {
            IntentKind::Topology => domain.declared_topology()?.0,
            IntentKind::Drain => domain.declared_drain(&self.name)?.0,
            IntentKind::Silence => domain.declared_silence(&self.name)?.0,
            IntentKind::Group => domain.declared_group(&self.name)?.0,
            IntentKind::Member => {
                let (group, host) = self.name.split_once('/')?;
                domain.declared_member(group, host)?.0
            }
            IntentKind::Hmac | IntentKind::Commit | IntentKind::Identity | IntentKind::LogLevel => return None,
        };
        Some(metadata.tag())
    }
}

/// What a command declares its target to be from now on; `None` where it deletes it, or declares nothing.
pub(crate) fn wanted(command: &Command) -> Option<Intent> {
    match command {
        Command::PutTopology { labels, spec, .. } => Some(Intent::new(labels, spec)),
        Command::PutDrain { labels, spec, .. } => Some(Intent::new(labels, spec)),
        Command::PutSilence { labels, spec, .. } => Some(Intent::new(labels, spec)),
        Command::PutGroup { labels, spec, .. } => Some(Intent::new(labels, spec)),
        Command::PutMember { spec, .. } => Some(Intent::new(&Labels::new(), spec)),
        _ => None,
    }
}
