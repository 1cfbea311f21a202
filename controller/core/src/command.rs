// SPDX-License-Identifier: Apache-2.0
//! The commands of the domain, and the two steps of executing them.
//!
//! `prepare` checks a command and returns the records to write; the caller commits them; `apply` then changes the state
//! in memory. A crash between the two loses nothing: `restore` reads the same records.

use std::collections::BTreeSet;

use canopy_model::group::GroupSpec;
use canopy_model::ids::Generation;
use canopy_model::member::MemberSpec;
use canopy_model::topology::TopologySpec;

use crate::domain::Effect;
use crate::metadata::Labels;

/// Most writes of one command; stores commit them in one transaction.
pub const MAX_WRITES: usize = 128;

/// A change requested by an operator, a host or the controller itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Replaces the whole topology.
    PutTopology {
        /// Labels of the topology.
        labels: Labels,
        /// The network.
        spec: TopologySpec,
        /// Refused with `Conflict` unless the topology is at this generation.
        if_match: Option<Generation>,
    },
    /// Removes the topology; refused while any group has members.
    DeleteTopology,
    /// Creates a group or replaces its labels and spec.
    PutGroup {
        /// Its name, a DNS-1123 label.
        name: String,
        /// Its labels.
        labels: Labels,
        /// Its desired configuration.
        spec: GroupSpec,
        /// Refused with `Conflict` unless the group is at this generation.
        if_match: Option<Generation>,
        /// Refused with `AlreadyExists` when the group exists.
        create_only: bool,
    },
    /// Removes a group and its members.
    DeleteGroup {
        /// Its name.
        name: String,
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
    },
    /// Ends a membership.
    DeleteMember {
        /// Group to leave.
        group: String,
        /// Member's host name.
        host: String,
    },
    /// Removes a receiver, for the stall policy `evict`; the group's members receive the eviction with the group's
    /// status.
    EvictMember {
        /// Group to remove it from.
        group: String,
        /// Receiver's host name.
        host: String,
        /// Text for operators.
        reason: String,
    },
    /// Stops a group, for the stall policy `fail`: no host can join and nothing is forwarded until every member has
    /// left.
    FailGroup {
        /// Its name.
        name: String,
        /// Text for operators.
        reason: String,
    },
    /// Records which ports of a node have no carrier: trees and routes avoid their links while another path exists.
    PortsDown {
        /// Node's name.
        node: String,
        /// Names of all its ports that have no carrier; unknown names are ignored.
        ports: BTreeSet<String>,
    },
    /// Finishes the move that [`Domain::is_made`](crate::Domain::is_made) reports: removes the old tree and puts the
    /// new one alone into force.
    FinishMove {
        /// Name of a group.
        group: String,
    },
    /// Pushes changed thresholds to the nodes concerned, see
    /// [`Domain::thresholds_are_due`](crate::Domain::thresholds_are_due).
    PushThresholds,
}

/// One durable write. Keys: `topology/default`, `group/<name>`, `member/<group>/<host>`, `domain/state`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Stores a record (JSON).
    Put {
        /// Its key.
        key: String,
        /// Its value.
        value: Vec<u8>,
    },
    /// Removes a record.
    Delete {
        /// Its key.
        key: String,
    },
}

impl Write {
    /// The key written.
    pub fn key(&self) -> &str {
        match self {
            Self::Put { key, .. } | Self::Delete { key } => key,
        }
    }
}

/// A command that passed every check: commit [`Self::writes`] in one transaction, then apply it.
#[derive(Debug)]
#[must_use = "a prepared command changes nothing until it is committed and applied"]
pub struct Prepared {
    /// At most [`MAX_WRITES`] durable writes, each key once; empty when nothing changes.
    pub writes: Vec<Write>,
    /// The domain's revision that this was prepared against.
    pub base_revision: u64,
    pub(crate) outcome: Outcome,
    pub(crate) generation: Generation,
    pub(crate) effect: Effect,
}

impl Prepared {
    /// The outcome that applying this will have.
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// True when the state is already as requested: nothing to commit, and applying it changes nothing.
    pub fn is_noop(&self) -> bool {
        self.writes.is_empty()
    }
}

/// What a command did to its resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
