// SPDX-License-Identifier: Apache-2.0
//! Typed conditions: machine-readable status with a message for people.

/// One aspect of a resource's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Which aspect, for example `Programmed`.
    pub kind: ConditionKind,
    /// Whether the condition is met.
    pub status: ConditionStatus,
    /// Why it is or is not.
    pub reason: ConditionReason,
    /// Text for operators.
    pub message: String,
}

/// An aspect of a resource's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// Why a condition is met or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// Whether a condition is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionStatus {
    /// The condition is met.
    True,
    /// The condition is not met.
    False,
    /// Not known yet.
    Unknown,
}

impl Condition {
    /// A condition with status True or False.
    pub(crate) fn new(kind: ConditionKind, holds: bool, reason: ConditionReason, message: impl Into<String>) -> Self {
        let status = if holds { ConditionStatus::True } else { ConditionStatus::False };
        Self { kind, status, reason, message: message.into() }
    }

    /// True when the status is True.
    pub(crate) fn holds(&self) -> bool {
        self.status == ConditionStatus::True
    }

    /// A condition whose status is not known yet.
    pub(crate) fn unknown(kind: ConditionKind, reason: ConditionReason, message: impl Into<String>) -> Self {
        Self { kind, status: ConditionStatus::Unknown, reason, message: message.into() }
    }
}
