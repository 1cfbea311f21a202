// SPDX-License-Identifier: Apache-2.0
//! The commands of the domain, what each writes, and what follows from it.

use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::sync::Arc;

use canopy_model::drain::DrainSpec;
use canopy_model::group::GroupSpec;
use canopy_model::ids::Generation;
use canopy_model::member::{LateStart, MemberSpec};
use canopy_model::retirement::{CleanedUp, RetireSpec};
use canopy_model::silence::SilenceSpec;
use canopy_model::topology::TopologySpec;
use serde::{Deserialize, Serialize};

use crate::metadata::Labels;
use crate::record::Record;

/// Most writes of one command; stores commit them in one transaction, with what the caller writes about the command itself.
pub const MAX_WRITES: usize = 119;

/// A change requested by an operator, a host or the controller itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Replaces the whole topology.
    PutTopology {
        /// Labels of the topology.
        labels: Labels,
        /// The network.
        spec: Arc<TopologySpec>,
        /// Refused with `Conflict` unless the topology is at this generation.
        if_match: Option<Generation>,
    },
    /// Removes the topology; refused while any group has members.
    DeleteTopology,
    /// Creates a group or replaces its labels and spec.
    PutGroup {
        /// Its name, a DNS-1123 label.
        name: String,
        /// Its tenant, a DNS-1123 label; `None`: the one that it is in, `default` for a new one. Another one than that is refused.
        tenant: Option<String>,
        /// Its labels.
        labels: Labels,
        /// Its desired configuration.
        spec: GroupSpec,
        /// Refused with `Conflict` unless the group is at this generation.
        if_match: Option<Generation>,
        /// Refused with `AlreadyExists` when the group exists.
        create_only: bool,
    },
    /// Removes a group and its members. Of a group with more members than one transaction removes it stops the group, which no host can
    /// join from then on; [`Command::ContinueDeletion`] removes it.
    DeleteGroup {
        /// Its name.
        name: String,
    },
    /// Removes some members of a group that is being deleted, and with the last of them the group. Changes nothing of another group.
    ContinueDeletion {
        /// Name of a group.
        group: String,
    },
    /// Makes a host a member, or replaces its membership.
    PutMember {
        /// Group to join.
        group: String,
        /// The membership; its host names it.
        spec: MemberSpec,
        /// If true, an existing membership with other content is refused with `AlreadyExists`; with the same content
        /// the command succeeds.
        create_only: bool,
        /// Which queue pair of the host it is: drawn at random for each join of a process, and kept while that is repeated. The same
        /// content with another one is another queue pair, or the same one after a reset. `None` of an operator, and of an earlier
        /// library: the same content is then the same membership.
        instance: Option<NonZeroU64>,
        /// Whether it ends when the agent of the host is gone, which holds it. `None` of an operator, who changes nothing about that.
        lease: Option<bool>,
    },
    /// Ends a membership.
    DeleteMember {
        /// Group to leave.
        group: String,
        /// Member's host name.
        host: String,
    },
    /// Removes a receiver, for the stall policy `evict` or because its queue pair was not reset; the group's members receive the
    /// eviction with the group's status.
    EvictMember {
        /// Group to remove it from.
        group: String,
        /// Receiver's host name.
        host: String,
        /// Epoch in which it joined: changes nothing for another membership of the host.
        since: u32,
        /// Text for operators.
        reason: String,
    },
    /// Records where a receiver that joined late has started, so that its edge can continue it after a loss of its state (decisions
    /// 3.13). Changes nothing for another membership of the host.
    StartMember {
        /// Its group.
        group: String,
        /// Receiver's host name.
        host: String,
        /// Epoch in which it joined.
        since: u32,
        /// As its edge reports it.
        start: LateStart,
    },
    /// Records that the queue pair of a receiver that joined late answered its probe as one that expects the start PSN (decisions 3.13).
    /// Changes nothing for another membership of the host.
    AnswerMember {
        /// Its group.
        group: String,
        /// Receiver's host name.
        host: String,
        /// Epoch in which it joined.
        since: u32,
    },
    /// Stops a group, for the stall policy `fail`: no host can join and nothing is forwarded until every member has
    /// left.
    FailGroup {
        /// Its name.
        name: String,
        /// The receiver that it is for.
        host: String,
        /// Epoch in which that one joined: changes nothing once it has left, or for another membership of the host.
        since: u32,
        /// Text for operators.
        reason: String,
    },
    /// Takes a link or a node out of service, or changes such a drain.
    PutDrain {
        /// Name of the drain.
        name: String,
        /// Its labels.
        labels: Labels,
        /// What and why.
        spec: DrainSpec,
        /// Only if this is its generation.
        if_match: Option<Generation>,
        /// Refuse if it exists.
        create_only: bool,
    },
    /// Puts what a drain took out of service back into it, unless the topology or another drain has it so.
    DeleteDrain {
        /// Name of the drain.
        name: String,
    },
    /// Begins to retire a node: drains it; the steps behind follow by themselves. Changes how one that is under way continues.
    Retire {
        /// The node.
        node: String,
        /// How it is to leave.
        spec: RetireSpec,
    },
    /// Takes a retirement back whose node has not begun to clean up, with the drain that it made; or forgets one that has ended.
    CancelRetirement {
        /// The node.
        node: String,
    },
    /// Takes the next step of a retirement that is due: a membership behind a node is removed, its agent is to clean up, the retirement of
    /// a node that has left the topology is forgotten. Changes nothing if none is due.
    AdvanceRetirements,
    /// Records that the agent of a node has cleaned up. Changes nothing for another retirement, or if something is left.
    NodeCleanedUp {
        /// The node.
        node: String,
        /// As the agent reports it.
        report: CleanedUp,
    },
    /// Ends a retirement: the certificates of the node's agent are revoked. Changes nothing for another one.
    NodeRevoked {
        /// The node.
        node: String,
        /// [`Retirement::id`](crate::retirement::Retirement::id).
        retirement: u64,
    },
    /// Lists problems that an operator knows of behind the others, without an alert; or changes such a silence.
    PutSilence {
        /// Name of the silence.
        name: String,
        /// Its labels.
        labels: Labels,
        /// Which problems, and why.
        spec: SilenceSpec,
        /// Refuse if it exists.
        create_only: bool,
    },
    /// Ends a silence.
    DeleteSilence {
        /// Name of the silence.
        name: String,
    },
    /// Records which ports of a node carry nothing: trees and routes avoid their links while another path exists. A port that its agent
    /// reports as silent is recorded as such until it is used again.
    PortsDown {
        /// Node's name.
        node: String,
        /// Names of all its ports that carry nothing; unknown names are ignored.
        ports: BTreeSet<String>,
    },
    /// Finishes the move of a tree whose next tree every node has confirmed: puts that one alone into force (decisions 3.14).
    /// Changes nothing otherwise.
    FinishMove {
        /// Name of a group.
        group: String,
    },
    /// Takes the next tree away again because a node has not confirmed it; the tree in force stays (decisions 3.14). Changes nothing if
    /// every node has, or in another move.
    GiveUpMove {
        /// Name of a group.
        group: String,
        /// Which of its moves: [`Move::since`](crate::Move::since).
        since: u64,
    },
    /// Makes the next tree of a group again whose move was given up, or plans a group that has no tree because a node had not confirmed its
    /// program for too many changes; changes nothing otherwise.
    RetryMove {
        /// Name of a group.
        group: String,
    },
    /// Lets the headend take data of the source, once every node has confirmed (decisions 3.13); changes nothing otherwise.
    OpenGroup {
        /// Name of a group.
        group: String,
    },
    /// Pushes changed thresholds to the nodes concerned.
    PushThresholds,
    /// Draws the next key of the SRH HMAC TLV, and begins to replace the present one; refused while that is under way, and without keys.
    RotateHmac,
    /// Takes the next step of the SRH HMAC TLV's keys; changes nothing if none is due.
    AdvanceHmac,
}

/// One durable write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Stores a record at its key.
    Put(Record),
    /// Removes a record.
    Delete {
        /// Its key.
        key: String,
    },
}

impl Write {
    /// The key written.
    pub fn key(&self) -> String {
        match self {
            Self::Put(record) => record.key(),
            Self::Delete { key } => key.clone(),
        }
    }
}

/// What a command did to its resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// The resource was created.
    Created,
    /// The resource was replaced.
    Updated,
    /// The resource was already as requested.
    Unchanged,
    /// The resource was deleted.
    Deleted,
}

/// The effects of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The effect on the resource itself.
    pub outcome: Outcome,
    /// The resource's generation after the command; for a deletion, the last one it had.
    pub generation: Generation,
    /// Nodes whose `NodeSpec` changed, appeared or went away, in name order.
    pub nodes: Vec<String>,
    /// Groups whose status may have changed, in name order.
    pub groups: Vec<String>,
}
