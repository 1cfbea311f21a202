// SPDX-License-Identifier: Apache-2.0
//! Typed conditions: machine-readable status with a message for people.

use canopy_controller_core::condition;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One aspect of a resource's status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Which aspect.
    #[serde(rename = "type")]
    pub kind: ConditionKind,
    /// Whether the condition is met.
    pub status: ConditionStatus,
    /// Why it is or is not.
    pub reason: ConditionReason,
    /// Text for operators.
    pub message: String,
}

from_fields!(condition::Condition { message } { kind = kind.into(), status = status.into(), reason = reason.into() });

/// An aspect of a resource's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum ConditionKind {
    /// A tree was computed for the group.
    Planned,
    /// Every node of the tree confirmed its program.
    Programmed,
    /// No node reports an error.
    Healthy,
    /// The agents of all nodes of the tree are connected.
    AgentsConnected,
    /// The tree in force is the one over the present topology.
    Moved,
    /// The headend takes data of the source.
    Open,
    /// Data of the source is acknowledged, or there is none.
    Delivering,
    /// A branch holds the group up.
    Stalled,
    /// A link of the tree loses packets although its carrier is up.
    Lossy,
    /// Every node of the topology runs its desired state.
    Ready,
    /// The node's agent is connected.
    Connected,
    /// The node runs its desired state.
    Synced,
}

impl From<condition::ConditionKind> for ConditionKind {
    fn from(of: condition::ConditionKind) -> Self {
        match of {
            condition::ConditionKind::Planned => Self::Planned,
            condition::ConditionKind::Programmed => Self::Programmed,
            condition::ConditionKind::Healthy => Self::Healthy,
            condition::ConditionKind::AgentsConnected => Self::AgentsConnected,
            condition::ConditionKind::Moved => Self::Moved,
            condition::ConditionKind::Open => Self::Open,
            condition::ConditionKind::Delivering => Self::Delivering,
            condition::ConditionKind::Stalled => Self::Stalled,
            condition::ConditionKind::Lossy => Self::Lossy,
            condition::ConditionKind::Ready => Self::Ready,
            condition::ConditionKind::Connected => Self::Connected,
            condition::ConditionKind::Synced => Self::Synced,
        }
    }
}

/// Why a condition is met or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum ConditionReason {
    /// Something has to happen first; the message has what.
    Waiting,
    /// No tree serves the members.
    Infeasible,
    /// The group's policy ended it.
    Failed,
    /// There is no tree to program.
    NoTree,
    /// There is a tree.
    TreeComputed,
    /// Every node confirmed.
    Confirmed,
    /// The tree in force is the one over the present topology.
    InForce,
    /// The next tree is being made; the one in force carries the data until then.
    Making,
    /// A node did not confirm the next tree; the one in force stays.
    GivenUp,
    /// Every node had confirmed, and enough receivers had joined.
    Opened,
    /// Every receiver joined late, and none has answered its probe yet.
    NoReceiver,
    /// An agent is not connected.
    AgentNotConnected,
    /// No error is reported.
    NoErrors,
    /// A node reports an error that concerns the group.
    NodeError,
    /// All agents are connected.
    AllConnected,
    /// No data is unacknowledged, or AckPSN advances.
    Progress,
    /// Data is unacknowledged, and AckPSN does not advance.
    NoProgress,
    /// No telemetry of the headend arrives.
    NoTelemetry,
    /// No branch holds the group up.
    NoStall,
    /// A receiver answered with a fatal NAK.
    FatalNak,
    /// A receiver does not acknowledge.
    ReceiverStalled,
    /// A child node does not acknowledge.
    ChildNodeStalled,
    /// A link of the tree loses packets.
    LinkLossy,
    /// No link of the tree is known to lose packets.
    NoLoss,
    /// Every node runs its desired state.
    AllSynced,
    /// A node does not run its desired state.
    NotSynced,
    /// The agent is connected.
    AgentConnected,
    /// The agent is away and may be back soon.
    Restarting,
    /// The node has left for good.
    Retired,
    /// The agent has not reported yet.
    NeverReported,
    /// The desired state is reconciled.
    Reconciled,
    /// What is reconciled is of another term.
    OtherTerm,
    /// What is reconciled is older than the desired state.
    Behind,
    /// The node reports an item that is not as desired.
    ItemError,
}

impl From<condition::ConditionReason> for ConditionReason {
    fn from(of: condition::ConditionReason) -> Self {
        match of {
            condition::ConditionReason::Waiting => Self::Waiting,
            condition::ConditionReason::Infeasible => Self::Infeasible,
            condition::ConditionReason::Failed => Self::Failed,
            condition::ConditionReason::NoTree => Self::NoTree,
            condition::ConditionReason::TreeComputed => Self::TreeComputed,
            condition::ConditionReason::Confirmed => Self::Confirmed,
            condition::ConditionReason::InForce => Self::InForce,
            condition::ConditionReason::Making => Self::Making,
            condition::ConditionReason::GivenUp => Self::GivenUp,
            condition::ConditionReason::Opened => Self::Opened,
            condition::ConditionReason::NoReceiver => Self::NoReceiver,
            condition::ConditionReason::AgentNotConnected => Self::AgentNotConnected,
            condition::ConditionReason::NoErrors => Self::NoErrors,
            condition::ConditionReason::NodeError => Self::NodeError,
            condition::ConditionReason::AllConnected => Self::AllConnected,
            condition::ConditionReason::Progress => Self::Progress,
            condition::ConditionReason::NoProgress => Self::NoProgress,
            condition::ConditionReason::NoTelemetry => Self::NoTelemetry,
            condition::ConditionReason::NoStall => Self::NoStall,
            condition::ConditionReason::FatalNak => Self::FatalNak,
            condition::ConditionReason::ReceiverStalled => Self::ReceiverStalled,
            condition::ConditionReason::ChildNodeStalled => Self::ChildNodeStalled,
            condition::ConditionReason::LinkLossy => Self::LinkLossy,
            condition::ConditionReason::NoLoss => Self::NoLoss,
            condition::ConditionReason::AllSynced => Self::AllSynced,
            condition::ConditionReason::NotSynced => Self::NotSynced,
            condition::ConditionReason::AgentConnected => Self::AgentConnected,
            condition::ConditionReason::Restarting => Self::Restarting,
            condition::ConditionReason::Retired => Self::Retired,
            condition::ConditionReason::NeverReported => Self::NeverReported,
            condition::ConditionReason::Reconciled => Self::Reconciled,
            condition::ConditionReason::OtherTerm => Self::OtherTerm,
            condition::ConditionReason::Behind => Self::Behind,
            condition::ConditionReason::ItemError => Self::ItemError,
        }
    }
}

/// Whether a condition is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum ConditionStatus {
    /// The condition is met.
    True,
    /// The condition is not met.
    False,
    /// Not known yet.
    Unknown,
}

impl From<condition::ConditionStatus> for ConditionStatus {
    fn from(status: condition::ConditionStatus) -> Self {
        match status {
            condition::ConditionStatus::True => Self::True,
            condition::ConditionStatus::False => Self::False,
            condition::ConditionStatus::Unknown => Self::Unknown,
        }
    }
}

pub(crate) fn conditions(all: Vec<condition::Condition>) -> Vec<Condition> {
    all.into_iter().map(Into::into).collect()
}
