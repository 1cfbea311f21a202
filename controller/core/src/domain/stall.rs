// SPDX-License-Identifier: Apache-2.0
//! Reactions to a node's report that a branch stalls its group (decisions 3.7, 3.10).
//!
//! The policy acts only on receivers attached to the reporting node: nodes above it see the child on the path stall.

use std::collections::BTreeSet;
use std::net::Ipv6Addr;

use canopy_model::group::StallPolicy;
use canopy_model::ids::GroupId;
use canopy_model::node_spec::BranchKind;

use super::Domain;
use super::views::address;
use crate::command::Command;
use crate::resource::{Group, Stall};

/// The state of one branch in a node's report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BranchNews {
    /// It acknowledges nothing while data is forwarded.
    Stalled,
    /// It sent a fatal NAK: its QP is in error.
    Fatal,
    /// It acknowledges again.
    Recovered,
}

/// The effects of a report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reaction {
    /// Groups whose phase, reason or conditions changed.
    pub groups: Vec<String>,
    /// The command that the group's policy requires.
    pub command: Option<Command>,
}

impl Domain {
    /// Processes a branch state that `node` reported. A report on a branch that the node no longer has is ignored.
    pub fn branch_news(&mut self, node: &str, id: GroupId, branch: Ipv6Addr, news: BranchNews) -> Reaction {
        let Some((at, stall)) = self.stall(node, id, branch, news) else { return Reaction::default() };
        let command = (news != BranchNews::Recovered).then(|| self.policy(node, id, branch, &stall)).flatten();
        let groups = self.observe(at, &BTreeSet::from([id]), |n| match news {
            BranchNews::Recovered => _ = n.stalls.remove(&(id, branch)),
            // A fatal NAK overrides a stall.
            BranchNews::Stalled => _ = n.stalls.entry((id, branch)).or_insert(stall),
            BranchNews::Fatal => _ = n.stalls.insert((id, branch), stall),
        });
        Reaction { groups, command }
    }

    /// A node forwarded data of the group's present source: receivers that join from now on start at a message
    /// boundary.
    pub fn data_flows(&mut self, id: GroupId) {
        if let Some(group) = self.names.get(&id).and_then(|name| self.groups.get_mut(name)) {
            group.started = true;
        }
    }

    /// True after data of the group's present source was seen.
    pub fn has_started(&self, id: GroupId) -> bool {
        self.names.get(&id).and_then(|name| self.groups.get(name)).is_some_and(|g| g.started)
    }

    fn stall(&self, node: &str, id: GroupId, branch: Ipv6Addr, news: BranchNews) -> Option<(usize, Stall)> {
        let at = self.index(node)?;
        let program = self.nodes[at].spec.groups.get(&id)?;
        let is_receiver = match program.branches.iter().find(|b| b.address == branch)?.kind {
            BranchKind::Receiver { .. } => true,
            BranchKind::Node { .. } => false,
        };
        let who = if is_receiver {
            format!("receiver {}", self.receiver(id, branch)?.1)
        } else {
            let child = self.nodes.iter().find(|n| n.spec.base.node_address == branch)?;
            format!("node {}", child.spec.base.name)
        };
        Some((at, Stall { who, is_receiver, fatal: news == BranchNews::Fatal }))
    }

    fn policy(&self, node: &str, id: GroupId, branch: Ipv6Addr, stall: &Stall) -> Option<Command> {
        let (group, host) = self.receiver(id, branch).filter(|_| stall.is_receiver)?;
        let name = group.metadata.name.clone();
        let cause = if stall.fatal {
            "answered with a fatal NAK: its queue pair is in error".to_owned()
        } else {
            format!("acknowledged nothing for {} ms", group.spec.stall_after_ms)
        };
        let reason = format!("receiver {host} at node {node} {cause}");
        match group.spec.stall_policy {
            StallPolicy::Wait => None,
            StallPolicy::Evict => Some(Command::EvictMember { group: name, host: host.to_owned(), reason }),
            StallPolicy::Fail => Some(Command::FailGroup { name, reason }),
        }
    }

    /// The group, and the host of its member with this address.
    fn receiver(&self, id: GroupId, branch: Ipv6Addr) -> Option<(&Group, &str)> {
        let group = self.groups.get(self.names.get(&id)?)?;
        let network = &*self.topology.as_ref()?.network;
        let member = group.members.values().find(|m| address(network, m) == Some(branch))?;
        Some((group, &member.spec.host))
    }
}
