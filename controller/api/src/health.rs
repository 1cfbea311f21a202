// SPDX-License-Identifier: Apache-2.0
//! What is wrong in the domain: problems with their causes, and the summary of one screen.

use std::collections::BTreeMap;

use canopy_controller_core::health::ProblemKey;
use canopy_controller_core::{delivery, health, problem, view};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::commit::PendingCommit;
use crate::silence::SilenceRef;
use crate::{ApiVersion, Kind};

/// A problem of the domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProblemItem {
    /// Names the problem: 16 hexadecimal digits, the same through flaps and restarts of the controller.
    pub id: String,
    /// Stable code; `canopyctl explain CODE` prints what is known of it.
    pub code: String,
    /// How bad it is.
    pub severity: Severity,
    /// What it is about.
    pub object: ObjectRef,
    /// What is wrong; follows the object's name.
    pub title: String,
    /// When its first symptom was seen, nanoseconds since the Unix epoch.
    pub since_unix_ns: u64,
    /// How often its symptoms began since then.
    pub count: u64,
    /// No symptom is seen at present; the problem ends soon unless one returns.
    pub closing: bool,
    /// No other open problem explains it.
    pub root: bool,
    /// What was seen and where.
    pub evidence: Vec<String>,
    /// Open problems that explain it; empty for a root.
    pub causes: Vec<ProblemRef>,
    /// Problems that it explains, directly or through others; empty unless it is a root.
    pub affects: Vec<ProblemRef>,
    /// What to do.
    pub remedy: String,
    /// The link that is to be drained, if that is what to do; absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_link: Option<String>,
    /// The silence that is in force: an operator knows of the problem. Absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silence: Option<SilenceRef>,
}

impl From<health::Problem> for ProblemItem {
    fn from(problem: health::Problem) -> Self {
        let info = problem.key.code.info();
        Self {
            id: problem.key.id(),
            code: problem.key.code.to_string(),
            severity: info.severity.into(),
            object: (&problem.key.object).into(),
            title: info.title.to_owned(),
            since_unix_ns: problem.began.nanos(),
            count: problem.count,
            closing: problem.closing,
            root: problem.is_root(),
            evidence: problem.evidence,
            causes: problem.causes.iter().map(Into::into).collect(),
            affects: problem.affects.iter().map(Into::into).collect(),
            remedy: info.remedy.to_owned(),
            drain_link: info.code.is_mended_by_drain().then(|| problem.key.object.name()),
            silence: problem.silence.map(Into::into),
        }
    }
}

impl ProblemItem {
    /// Whether the problem is one of `name`: of the object itself, of a port of the node, of a link that ends there, or of a member of
    /// the group or on the host.
    pub fn is_of(&self, kind: SubjectKind, name: &str) -> bool {
        self.object.is_of(kind, name)
    }

    /// The same, also for what the problem affects.
    pub fn concerns(&self, kind: SubjectKind, name: &str) -> bool {
        self.is_of(kind, name) || self.affects.iter().any(|affected| affected.object.is_of(kind, name))
    }
}

/// What is known of one kind of problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProblemCodeItem {
    /// Stable code.
    pub code: String,
    /// How bad it is.
    pub severity: Severity,
    /// What it is about.
    pub object: ObjectKind,
    /// What is wrong; follows an object's name.
    pub title: String,
    /// What it means, and how it is found.
    pub meaning: String,
    /// What to do.
    pub remedy: String,
    /// How long a symptom lasts before the problem opens, milliseconds.
    pub opens_after_ms: u64,
    /// How long no symptom is seen before the problem closes, milliseconds.
    pub closes_after_ms: u64,
}

impl ProblemCodeItem {
    /// Every code, in the order of the documentation.
    pub fn all() -> Vec<Self> {
        let item = |code: &problem::ProblemCode| {
            let info = code.info();
            Self {
                code: code.to_string(),
                severity: info.severity.into(),
                object: info.object.into(),
                title: info.title.to_owned(),
                meaning: info.meaning.to_owned(),
                remedy: info.remedy.to_owned(),
                opens_after_ms: info.opens_after.as_millis() as u64,
                closes_after_ms: info.closes_after.as_millis() as u64,
            }
        };
        problem::ProblemCode::ALL.iter().map(item).collect()
    }
}

/// What one may ask about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum SubjectKind {
    /// The controller itself.
    Controller,
    /// A node with its ports and links.
    Node,
    /// A link, `a--b`.
    Link,
    /// A port, `n1/eth1`.
    Port,
    /// A group with its members.
    Group,
    /// A membership, `group/host`.
    Member,
    /// A host in all its groups.
    Host,
}

/// How bad a problem is, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// Data does not reach a receiver, or nothing can be changed.
    Critical,
    /// Data reaches every receiver; something is slower, less redundant or less observed than it should be.
    Warning,
    /// A limit is in force that was not asked for.
    Info,
}

impl From<problem::Severity> for Severity {
    fn from(of: problem::Severity) -> Self {
        match of {
            problem::Severity::Critical => Self::Critical,
            problem::Severity::Warning => Self::Warning,
            problem::Severity::Info => Self::Info,
        }
    }
}

/// A thing that problems are about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
    /// Its kind.
    pub kind: ObjectKind,
    /// Its name; a link's is `a--b`, a port's `n1/eth1`, a membership's `group/host`.
    pub name: String,
}

impl From<&problem::Object> for ObjectRef {
    fn from(of: &problem::Object) -> Self {
        Self { kind: of.kind().into(), name: of.name() }
    }
}

impl ObjectRef {
    fn is_of(&self, kind: SubjectKind, name: &str) -> bool {
        let first = || self.name.split_once('/').is_some_and(|(first, _)| first == name);
        match (kind, self.kind) {
            (SubjectKind::Controller, ObjectKind::Controller) => true,
            (SubjectKind::Node, ObjectKind::Node)
            | (SubjectKind::Link, ObjectKind::Link)
            | (SubjectKind::Port, ObjectKind::Port)
            | (SubjectKind::Group, ObjectKind::Group)
            | (SubjectKind::Member, ObjectKind::Member) => self.name == name,
            (SubjectKind::Node, ObjectKind::Port) | (SubjectKind::Group, ObjectKind::Member) => first(),
            // The ends of `n1/eth1--n2/eth3`.
            (SubjectKind::Node, ObjectKind::Link) => {
                let is_there = |end: &str| end.split_once('/').is_some_and(|(device, _)| device == name);
                self.name.split("--").any(is_there)
            }
            (SubjectKind::Host, ObjectKind::Member) => self.name.split_once('/').is_some_and(|(_, host)| host == name),
            _ => false,
        }
    }
}

/// Kind of a thing that problems are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum ObjectKind {
    /// The controller itself.
    Controller,
    /// A node.
    Node,
    /// A link between two nodes.
    Link,
    /// A port of a node.
    Port,
    /// A group.
    Group,
    /// A membership.
    Member,
}

impl From<problem::ObjectKind> for ObjectKind {
    fn from(of: problem::ObjectKind) -> Self {
        match of {
            problem::ObjectKind::Controller => Self::Controller,
            problem::ObjectKind::Node => Self::Node,
            problem::ObjectKind::Link => Self::Link,
            problem::ObjectKind::Port => Self::Port,
            problem::ObjectKind::Group => Self::Group,
            problem::ObjectKind::Member => Self::Member,
        }
    }
}

/// A problem by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProblemRef {
    /// Its name.
    pub id: String,
    /// Its code.
    pub code: String,
    /// What it is about.
    pub object: ObjectRef,
}

impl From<&ProblemKey> for ProblemRef {
    fn from(key: &ProblemKey) -> Self {
        Self { id: key.id(), code: key.code.to_string(), object: (&key.object).into() }
    }
}

/// How far the acknowledgements of a group's data are, as its headend reported last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    /// The state.
    pub state: DeliveryState,
    /// When it began; for `Stalled`, when AckPSN last advanced. Nanoseconds since the Unix epoch.
    pub since_unix_ns: u64,
    /// Packets that are not acknowledged.
    pub outstanding_packets: u64,
}

impl From<delivery::Delivery> for Delivery {
    fn from(of: delivery::Delivery) -> Self {
        Self { state: of.state.into(), since_unix_ns: of.since.nanos(), outstanding_packets: of.outstanding }
    }
}

/// State of a group's acknowledgements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum DeliveryState {
    /// The source has sent nothing in this session, or no receiver gets data.
    NoData,
    /// Data is unacknowledged, and AckPSN has advanced within `stallAfterMs`.
    Flowing,
    /// All data is acknowledged.
    Idle,
    /// Data is unacknowledged, and AckPSN has not advanced for `stallAfterMs`.
    Stalled,
}

impl From<delivery::DeliveryState> for DeliveryState {
    fn from(of: delivery::DeliveryState) -> Self {
        match of {
            delivery::DeliveryState::NoData => Self::NoData,
            delivery::DeliveryState::Flowing => Self::Flowing,
            delivery::DeliveryState::Idle => Self::Idle,
            delivery::DeliveryState::Stalled => Self::Stalled,
        }
    }
}

/// A node whose agent is gone and to be back soon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestartingAgent {
    /// The node.
    pub node: String,
    /// The agent announced it when it was stopped; otherwise it was killed, or its connection was lost.
    pub announced: bool,
    /// Without a connection it counts as away after this long, milliseconds; `AgentDisconnected` opens then.
    pub back_within_ms: u64,
}

impl From<view::RestartingAgent> for RestartingAgent {
    fn from(of: view::RestartingAgent) -> Self {
        let view::RestartingAgent { node, announced, back_within } = of;
        Self { node, announced, back_within_ms: back_within.as_millis() as u64 }
    }
}

/// The domain on one screen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DomainStatus {
    /// `canopy/v1`.
    #[schema(value_type = String)]
    pub api_version: ApiVersion,
    /// `DomainStatus`.
    #[schema(value_type = String)]
    pub kind: Kind,
    /// Controller's version.
    pub version: String,
    /// Term of this controller, taken at its start.
    pub term: u64,
    /// The controller's clock, nanoseconds since the Unix epoch.
    pub time_unix_ns: u64,
    /// Declared nodes.
    pub nodes: u32,
    /// Of these, nodes whose agent is connected.
    pub connected_nodes: u32,
    /// Of these, nodes that run exactly their desired state.
    pub synced_nodes: u32,
    /// Agents that are gone and to be back soon: they were stopped, killed or cut off a moment ago. Their nodes continue to forward.
    #[serde(default)]
    pub restarting_agents: u32,
    /// The first 50 of these, in the order of the nodes' names.
    #[serde(default)]
    pub restarting: Vec<RestartingAgent>,
    /// Declared hosts.
    pub hosts: u32,
    /// Declared links.
    pub links: u32,
    /// Of these, links of hosts.
    #[serde(default)]
    pub host_links: u32,
    /// Groups by phase; phases without a group are absent.
    pub groups: BTreeMap<String, u64>,
    /// Root problems by severity, without those of which an operator knows.
    pub roots: BTreeMap<String, u64>,
    /// Root problems of which an operator knows: a silence is in force for them.
    #[serde(default)]
    pub silenced: u64,
    /// The first 50 root problems: those of which an operator knows behind the others, the worst first.
    pub problems: Vec<ProblemItem>,
    /// Symptoms that were not kept because there were too many problems.
    pub left_out: u64,
    /// The commit that waits to be confirmed; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_commit: Option<PendingCommit>,
}
