// SPDX-License-Identifier: Apache-2.0
//! All intents, allocations, plans and statuses of one domain, in memory.
//!
//! A command passes through [`Domain::prepare`] (checks, plans, and returns the records to write) and [`Domain::apply`]
//! (changes the state). [`Domain::restore`] builds the same domain from the durable records. Work is proportional to
//! what a command touches: a join replans its group, a new topology replans every group.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use canopy_model::addressing::AddressPlan;
use canopy_model::ids::GroupId;
use canopy_model::member::Connection;
use canopy_model::node_spec::NodeSpec;

use crate::alloc::Pools;
use crate::resource::{Group, Node, Topology};

mod apply;
mod connection;
mod labels;
mod link_views;
mod links;
mod moving;
mod multicast;
mod prepare;
mod prepare_links;
mod prepare_member;
mod prepare_topology;
mod report;
mod restore;
mod stall;
#[cfg(test)]
mod tests;
mod views;

pub(crate) use apply::Effect;
pub use stall::{BranchNews, Reaction};

/// One domain: a topology and the groups that run over it.
#[derive(Clone, Debug)]
pub struct Domain {
    addresses: AddressPlan,
    term: u64,
    revision: u64,
    pools: Pools,
    topology: Option<Topology>,
    /// By node index of the topology's network.
    nodes: Vec<Node>,
    groups: BTreeMap<String, Group>,
    names: HashMap<GroupId, String>,
    labels: labels::LabelIndex,
    links: links::Links,
}

impl Domain {
    /// Prefixes that SIDs and addresses are allocated from.
    pub fn address_plan(&self) -> &AddressPlan {
        &self.addresses
    }

    /// Every node's spec carries `term` from now on, which is higher than the present one. Returns the nodes.
    pub fn raise_term(&mut self, term: u64) -> Vec<String> {
        self.term = term;
        for node in &mut self.nodes {
            node.spec = Arc::new(NodeSpec { term, ..(*node.spec).clone() });
        }
        self.nodes.iter().map(|node| node.spec.base.name.clone()).collect()
    }

    /// The leader's term that every node's spec carries.
    pub fn term(&self) -> u64 {
        self.term
    }

    /// Grows by one with every applied command that changed something; never decreases, even across restarts.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The node's desired state; `None` if the topology has no such node.
    pub fn node_spec(&self, node: &str) -> Option<Arc<NodeSpec>> {
        self.node_entry(node).map(|n| Arc::clone(&n.spec))
    }

    /// Name of the group with this compact identifier, as it appears in telemetry.
    pub fn group_name(&self, id: GroupId) -> Option<&str> {
        self.names.get(&id).map(String::as_str)
    }

    /// The remote side that members of `group` configure into their QPs; `None` if there is no such group.
    pub fn connection(&self, group: &str) -> Option<Connection> {
        self.groups.get(group).and_then(|g| connection::connection(&self.addresses, g))
    }

    fn node_entry(&self, name: &str) -> Option<&Node> {
        let ix = self.topology.as_ref()?.network.node(name)?;
        self.nodes.get(ix)
    }
}
