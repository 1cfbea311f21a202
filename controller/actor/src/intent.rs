// SPDX-License-Identifier: Apache-2.0
//! What operators declare: labels and spec of a resource, whatever its kind.

use std::sync::Arc;

use canopy_controller_core::audit::IntentKind;
use canopy_controller_core::metadata::{DEFAULT_TENANT, Labels, Metadata};
use canopy_controller_core::tenant::{recorded, to_record};
use canopy_controller_core::{Command, Domain};
use canopy_model::topology::TopologySpec;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::difference::{Difference, differences, json_of, of_topologies};

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
    pub spec: Spec,
}

/// The spec of a resource. That of a topology is shared with the domain: as JSON a large one would take as much memory again, several times.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Spec {
    /// A topology.
    Topology(Arc<TopologySpec>),
    /// Anything, as JSON; a topology that was read from a record, too.
    Json(Value),
}

impl Spec {
    /// As JSON.
    pub fn into_json(self) -> Value {
        match self {
            Self::Topology(spec) => json_of(&*spec),
            Self::Json(value) => value,
        }
    }
}

impl<'de> Deserialize<'de> for Spec {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Value::deserialize(from).map(Self::Json)
    }
}

impl Intent {
    fn new(labels: &Labels, spec: &impl Serialize) -> Self {
        Self { labels: labels.clone(), spec: Spec::Json(json_of(spec)) }
    }

    fn of_topology(labels: &Labels, spec: &Arc<TopologySpec>) -> Self {
        Self { labels: labels.clone(), spec: Spec::Topology(Arc::clone(spec)) }
    }

    /// What is different from `old`, by JSON pointers into the resource.
    pub(crate) fn differences(old: Option<&Self>, new: Option<&Self>) -> Vec<Difference> {
        if let (
            Some(Self { spec: Spec::Topology(old_spec), labels: old }),
            Some(Self { spec: Spec::Topology(spec), labels }),
        ) = (old, new)
        {
            let mut found = differences(Some(&of_labels(old, None)), Some(&of_labels(labels, None)));
            found.extend(of_topologies(old_spec, spec));
            return found;
        }
        let [old, new] = [old, new].map(|intent| intent.map(|intent| intent.clone().value()));
        differences(old.as_ref(), new.as_ref())
    }

    /// As one value, in which JSON pointers are those of the resource.
    pub(crate) fn value(self) -> Value {
        of_labels(&self.labels, Some(self.spec.into_json()))
    }
}

fn of_labels(labels: &Labels, spec: Option<Value>) -> Value {
    match spec {
        Some(spec) => json!({"metadata": {"labels": labels}, "spec": spec}),
        None => json!({"metadata": {"labels": labels}}),
    }
}

/// The declared part of a resource in a record, from which it can be written again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Declared {
    #[serde(default)]
    labels: Labels,
    spec: Spec,
    /// Of a group in another tenant than the default one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
}

impl Declared {
    /// A resource as it is.
    pub(crate) fn of((metadata, intent): &(Metadata, Intent)) -> Self {
        let Intent { labels, spec } = intent.clone();
        Self { labels, spec, tenant: to_record(&metadata.tenant) }
    }

    /// What `command` wants; `None` if it does not declare a resource.
    pub(crate) fn wanted(command: &Command) -> Option<Self> {
        let Intent { labels, spec } = wanted(command)?;
        Some(Self { labels, spec, tenant: None })
    }

    /// The tenant of the group that it is, or that it is of.
    pub(crate) fn tenant(&self) -> &str {
        recorded(self.tenant.as_deref())
    }

    /// The command that makes `target` this; `None` of what is no resource. A group comes into [`Declared::tenant`].
    ///
    /// # Errors
    /// The spec is not one of this version.
    pub(crate) fn command(&self, target: &Target) -> Result<Option<Command>, serde_json::Error> {
        let (name, labels) = (target.name.clone(), self.labels.clone());
        if let (IntentKind::Topology, Spec::Topology(spec)) = (target.kind, &self.spec) {
            return Ok(Some(Command::PutTopology { labels, spec: Arc::clone(spec), if_match: None }));
        }
        let spec = self.spec.clone().into_json();
        Ok(Some(match target.kind {
            IntentKind::Topology => {
                Command::PutTopology { labels, spec: Arc::new(serde_json::from_value(spec)?), if_match: None }
            }
            IntentKind::Drain => {
                let spec = serde_json::from_value(spec)?;
                Command::PutDrain { name, labels, spec, if_match: None, create_only: false }
            }
            IntentKind::Silence => {
                Command::PutSilence { name, labels, spec: serde_json::from_value(spec)?, create_only: false }
            }
            IntentKind::Group => {
                let (tenant, spec) = (Some(self.tenant().to_owned()), serde_json::from_value(spec)?);
                Command::PutGroup { tenant, name, labels, spec, if_match: None, create_only: false }
            }
            IntentKind::Member => {
                let group = name.split_once('/').map_or(name.as_str(), |(group, _)| group).to_owned();
                let spec = serde_json::from_value(spec)?;
                Command::PutMember { group, spec, create_only: false, instance: None, lease: None }
            }
            IntentKind::Hmac
            | IntentKind::Commit
            | IntentKind::ChangeSet
            | IntentKind::Identity
            | IntentKind::LogLevel => return Ok(None),
        }))
    }
}

impl Target {
    /// The command that deletes it; `None` of what is no resource.
    pub(crate) fn deletion(&self) -> Option<Command> {
        let name = self.name.clone();
        match self.kind {
            IntentKind::Topology => Some(Command::DeleteTopology),
            IntentKind::Drain => Some(Command::DeleteDrain { name }),
            IntentKind::Silence => Some(Command::DeleteSilence { name }),
            IntentKind::Group => Some(Command::DeleteGroup { name }),
            IntentKind::Member => {
                let (group, host) = name.split_once('/').unwrap_or((&name, ""));
                Some(Command::DeleteMember { group: group.to_owned(), host: host.to_owned() })
            }
            IntentKind::Hmac
            | IntentKind::Commit
            | IntentKind::ChangeSet
            | IntentKind::Identity
            | IntentKind::LogLevel => None,
        }
    }

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
            IntentKind::Topology => {
                let (metadata, spec) = domain.declared_topology()?;
                Some((metadata.clone(), Intent::of_topology(&metadata.labels, spec)))
            }
            IntentKind::Drain => owned(domain.declared_drain(&self.name)),
            IntentKind::Silence => owned(domain.declared_silence(&self.name)),
            IntentKind::Group => owned(domain.declared_group(&self.name)),
            IntentKind::Member => {
                let (group, host) = self.name.split_once('/')?;
                let (metadata, spec) = domain.declared_member(group, host)?;
                owned(Some((&metadata, &spec)))
            }
            IntentKind::Hmac
            | IntentKind::Commit
            | IntentKind::ChangeSet
            | IntentKind::Identity
            | IntentKind::LogLevel => None,
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
                return Some(domain.declared_member(group, host)?.0.tag());
            }
            IntentKind::Hmac
            | IntentKind::Commit
            | IntentKind::ChangeSet
            | IntentKind::Identity
            | IntentKind::LogLevel => return None,
        };
        Some(metadata.tag())
    }
}

/// What a command declares its target to be from now on; `None` where it deletes it, or declares nothing.
pub(crate) fn wanted(command: &Command) -> Option<Intent> {
    match command {
        Command::PutTopology { labels, spec, .. } => Some(Intent::of_topology(labels, spec)),
        Command::PutDrain { labels, spec, .. } => Some(Intent::new(labels, spec)),
        Command::PutSilence { labels, spec, .. } => Some(Intent::new(labels, spec)),
        Command::PutGroup { labels, spec, .. } => Some(Intent::new(labels, spec)),
        Command::PutMember { spec, .. } => Some(Intent::new(&Labels::new(), spec)),
        _ => None,
    }
}
