// SPDX-License-Identifier: Apache-2.0
//! Resources as the domain holds them, and their durable records.
//!
//! Keys: `topology/default`, `group/<name>`, `member/<group>/<host>`, and `domain/state` for the revision and the
//! A group's record holds the numbers allocated to it, so that nothing can leak: a number that is in no record is free.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use std::sync::Arc;

use canopy_model::group::GroupSpec;
use canopy_model::ids::{Generation, GroupId};
use canopy_model::member::MemberSpec;
use canopy_model::node_spec::NodeSpec;
use canopy_model::status::NodeStatus;
use canopy_model::topology::{Endpoint, TopologySpec};
use serde::{Deserialize, Serialize};

use crate::alloc::{Allocation, Cursors};
use crate::command::Write;
use crate::metadata::Metadata;
use crate::plan::GroupPlan;
use crate::topology::{Network, NodeIx};
use crate::view::Evicted;

/// Name of the one topology of a domain.
pub(crate) const TOPOLOGY_NAME: &str = "default";
/// Key of [`StateRecord`].
pub(crate) const STATE_KEY: &str = "domain/state";

/// The topology in force.
#[derive(Clone, Debug)]
pub(crate) struct Topology {
    pub(crate) metadata: Metadata,
    pub(crate) network: Arc<Network>,
    /// Ports that their nodes report without carrier.
    pub(crate) down: BTreeSet<Endpoint>,
}

/// A group with its members.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) metadata: Metadata,
    pub(crate) spec: GroupSpec,
    pub(crate) allocation: Allocation,
    pub(crate) epoch: u32,
    /// Epoch in the group's own record; lower than `epoch` when only topology changes moved the tree since.
    pub(crate) recorded_epoch: u32,
    pub(crate) members: BTreeMap<String, Member>,
    /// Epoch in which receivers last moved from behind one node to behind another.
    pub(crate) moved: u32,
    /// A node forwarded data of the present source: receivers that join now are late. Not durable, nodes report it
    /// again.
    pub(crate) started: bool,
    /// Why the stall policy stopped the group; `None` if it did not.
    pub(crate) failed: Option<String>,
    /// Receivers that the stall policy removed since the source joined, oldest first.
    pub(crate) evicted: Vec<Evicted>,
    pub(crate) state: GroupState,
    /// Nodes of the staged tree that are not in the present one, while a move is in progress (decisions 3.9).
    pub(crate) making: Option<Vec<NodeIx>>,
}

/// Whether a group has a tree.
#[derive(Clone, Debug)]
pub(crate) enum GroupState {
    /// No traffic is possible yet; the reason.
    Waiting(&'static str),
    /// No tree is possible; the reason. Only a departure or a restart with another version leads here.
    Infeasible(String),
    /// The stall policy stopped the group; the reason.
    Failed(String),
    /// The programs are in the nodes' specs.
    Live(GroupPlan),
}

impl Group {
    /// Nodes that have a program of the group: those of its tree in the tree's order, then those of the staged tree.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = NodeIx> {
        let tree = self.plan().into_iter().flat_map(|p| p.tree.nodes.iter().map(|t| t.node));
        tree.chain(self.making.iter().flatten().copied())
    }

    /// The group before a change: a move in progress ends with the change, in an epoch of its own.
    pub(crate) fn unsettled(&self) -> Self {
        if self.making.is_none() {
            return self.clone();
        }
        let epoch = self.epoch + 1;
        Self { epoch, moved: epoch, making: None, ..self.clone() }
    }

    /// The tree and encoding, if there is a tree.
    pub(crate) fn plan(&self) -> Option<&GroupPlan> {
        match &self.state {
            GroupState::Live(plan) => Some(plan),
            _ => None,
        }
    }
}

/// One membership.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Member {
    pub(crate) metadata: Metadata,
    pub(crate) spec: MemberSpec,
    /// Epoch in which it joined, or replaced its QP.
    #[serde(default)]
    pub(crate) since: u32,
    /// It joined after data of the group was seen.
    #[serde(default)]
    pub(crate) late: bool,
}

/// A node: its desired state, and its agent's reports.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) spec: Arc<NodeSpec>,
    /// Generation of `spec` that first carried each group's present program.
    pub(crate) since: BTreeMap<GroupId, Generation>,
    pub(crate) status: Option<NodeStatus>,
    pub(crate) connected: bool,
    /// Branches that it reports as stalling their group.
    pub(crate) stalls: BTreeMap<(GroupId, Ipv6Addr), Stall>,
}

impl Node {
    /// Generation of the present term that the agent last reconciled. A report of another term is of another controller's life
    /// and confirms nothing, whatever its numbers.
    pub(crate) fn observed(&self) -> Option<Generation> {
        self.status.as_ref().filter(|s| s.observed_term == self.spec.term).map(|s| s.observed_generation)
    }

    /// Removes the reports on branches that no longer exist.
    pub(crate) fn prune_stalls(&mut self) {
        let groups = &self.spec.groups;
        let there = |id: &GroupId, branch: &Ipv6Addr| {
            groups.get(id).is_some_and(|p| p.branches.iter().any(|b| b.address == *branch))
        };
        self.stalls.retain(|(id, branch), _| there(id, branch));
    }
}

/// A branch that stalls its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stall {
    /// `receiver r1` or `node n2`.
    pub(crate) who: String,
    /// False for a child node, where the cause is a receiver further down.
    pub(crate) is_receiver: bool,
    /// Its QP is in error.
    pub(crate) fatal: bool,
}

/// Durable form of the topology.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TopologyRecord {
    pub(crate) metadata: Metadata,
    pub(crate) revision: u64,
    pub(crate) spec: TopologySpec,
    /// Epochs of the groups (by id) whose trees topology changes have moved since their own records were written. Kept
    /// here because one transaction cannot rewrite the records of a million groups.
    #[serde(default)]
    pub(crate) moved: BTreeMap<u32, u32>,
    /// Ports without a carrier, as last reported by their nodes.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) down: BTreeSet<Endpoint>,
}

/// Durable form of a group; its members have records of their own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct GroupRecord {
    pub(crate) metadata: Metadata,
    pub(crate) revision: u64,
    pub(crate) epoch: u32,
    #[serde(default)]
    pub(crate) moved: u32,
    pub(crate) spec: GroupSpec,
    pub(crate) allocation: Allocation,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failed: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) evicted: Vec<Evicted>,
}

/// Durable form of a membership.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct MemberRecord {
    pub(crate) group: String,
    pub(crate) revision: u64,
    #[serde(flatten)]
    pub(crate) member: Member,
}

/// State that must survive although no resource holds it: deletions must not decrease the revision, nor make the
/// allocators reuse what was just freed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StateRecord {
    pub(crate) revision: u64,
    pub(crate) cursors: Cursors,
}

/// Key of the topology's record.
pub(crate) fn topology_key() -> String {
    format!("topology/{TOPOLOGY_NAME}")
}

/// Key of a group's record.
pub(crate) fn group_key(name: &str) -> String {
    format!("group/{name}")
}

/// Key of a membership's record.
pub(crate) fn member_key(group: &str, host: &str) -> String {
    format!("member/{group}/{host}")
}

/// A write of `record` at `key`.
pub(crate) fn put(key: String, record: &impl Serialize) -> Write {
    // Records are structs of strings, numbers and maps with string or integer keys: serialising them cannot fail.
    let value = serde_json::to_vec(record).expect("records have only string and integer keys");
    Write::Put { key, value }
}
