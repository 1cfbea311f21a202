// SPDX-License-Identifier: Apache-2.0
//! What one can ask of the domain, and the two steps of carrying it out.
//!
//! `prepare` checks a command and says what has to become durable; the caller commits that; `apply` then makes it
//! so in memory. A crash between the two loses nothing: `restore` reads the same records.

use std::collections::BTreeSet;

use canopy_model::group::GroupSpec;
use canopy_model::ids::Generation;
use canopy_model::member::MemberSpec;
use canopy_model::topology::TopologySpec;

use crate::domain::Effect;
use crate::metadata::Labels;

/// Most writes of one command: stores commit them as one transaction.
pub const MAX_WRITES: usize = 128;

/// A change that an operator or a host asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Replaces the topology as a whole.
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
        /// What is asked of it.
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
        /// An existing membership with other content is refused with `AlreadyExists`; with the same content it is a success.
        create_only: bool,
    },
    /// Ends a membership.
    DeleteMember {
        /// Group to leave.
        group: String,
        /// Member's host name.
        host: String,
    },
    /// Removes a receiver as the stall policy `evict` asks; the group tells its members.
    EvictMember {
        /// Group to remove it from.
        group: String,
        /// Receiver's host name.
        host: String,
        /// For a person.
        reason: String,
    },
    /// Stops a group as the stall policy `fail` asks: nobody can join, and nothing is forwarded, until every member has left.
    FailGroup {
        /// Its name.
        name: String,
        /// For a person.
        reason: String,
    },
    /// Takes in which ports of a node have no carrier: trees and routes leave their links while there is another way.
    PortsDown {
        /// Node's name.
        node: String,
        /// Names of all its ports that have no carrier; names that are no ports of it are left out.
        ports: BTreeSet<String>,
    },
    /// Ends what [`Domain::is_made`](crate::Domain::is_made) asks about: the old tree goes, the new one is all there is.
    FinishMove {
        /// Name of a group.
        group: String,
    },
    /// Tells the nodes those thresholds of their ports that changed, see [`Domain::thresholds_are_due`](crate::Domain::thresholds_are_due).
    PushThresholds,
}

/// One durable write. Keys: `topology/default`, `group/<name>`, `member/<group>/<host>`, `domain/state`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Stores a record (JSON).
    Put {
        /// Where.
        key: String,
        /// What.
        value: Vec<u8>,
    },
    /// Removes a record.
    Delete {
        /// Where.
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
    /// What applying this will have done.
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// True when the state already is as asked: there is nothing to commit, applying is a formality.
    pub fn is_noop(&self) -> bool {
        self.writes.is_empty()
    }
}

/// What a command did to its resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is new.
    Created,
    /// It was replaced.
    Updated,
    /// It already was as asked.
    Unchanged,
    /// It is gone.
    Deleted,
}

/// What followed from a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// What happened to the resource.
    pub outcome: Outcome,
    /// The resource's generation after the command; for a deletion, the last one it had.
    pub generation: Generation,
    /// Nodes whose `NodeSpec` changed, appeared or went away, in name order.
    pub nodes: Vec<String>,
    /// Groups whose status may have changed, in name order.
    pub groups: Vec<String>,
}
