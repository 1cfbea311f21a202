// SPDX-License-Identifier: Apache-2.0
//! Reactions to a node's report that a branch stalls its group (decisions 3.7, 3.10).
//!
//! The policy acts only on receivers attached to the reporting node: nodes above it see the child on the path stall.

use std::collections::BTreeSet;
use std::net::Ipv6Addr;

use canopy_model::group::StallPolicy;
use canopy_model::ids::GroupId;
use canopy_model::node_spec::{Branch, BranchKind, Peer};
use canopy_model::reach::HostReach;

use super::reports::Reports;
use super::state::State;
use super::views::address;
use crate::command::Command;
use crate::desired::DesiredNode;
use crate::member::Member;
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

/// Processes reports on branches into a state.
pub(super) struct Stalls<'a>(pub(super) &'a mut State);

impl Stalls<'_> {
    /// See [`super::Domain::branch_news`].
    pub(super) fn news(&mut self, node: &str, id: GroupId, branch: Ipv6Addr, news: BranchNews) -> Reaction {
        let Some((at, stall)) = self.stall(node, id, branch, news) else { return Reaction::default() };
        let command = (news != BranchNews::Recovered).then(|| policy(self.0, node, id, branch, &stall)).flatten();
        let groups = Reports(self.0).observe(at, &BTreeSet::from([id]), |n| match news {
            BranchNews::Recovered => _ = n.stalls.remove(&(id, branch)),
            // A fatal NAK overrides a stall.
            BranchNews::Stalled => _ = n.stalls.entry((id, branch)).or_insert(stall),
            BranchNews::Fatal => _ = n.stalls.insert((id, branch), stall),
        });
        Reaction { groups, command }
    }

    /// See [`super::Domain::host_probed`].
    pub(super) fn host_probed(
        &mut self,
        node: &str,
        id: GroupId,
        branch: Ipv6Addr,
        reach: HostReach,
    ) -> Option<String> {
        let at = self.0.index(node)?;
        let stall = self.0.nodes[at].stalls.get_mut(&(id, branch)).filter(|stall| stall.is_receiver)?;
        stall.reach = Some(reach);
        self.0.groups.name(id).map(str::to_owned)
    }

    /// See [`super::Domain::due_policies`].
    pub(super) fn due(state: &State, node: &str) -> Vec<Command> {
        let Some(of_node) = state.node(node) else { return Vec::new() };
        let stalls = of_node.stalls.iter();
        stalls.filter_map(|((id, branch), stall)| policy(state, node, *id, *branch, stall)).collect()
    }

    fn stall(&self, node: &str, id: GroupId, branch: Ipv6Addr, news: BranchNews) -> Option<(usize, Stall)> {
        let at = self.0.index(node)?;
        let branch_of_node = self.0.program_of(id, at)?.branch(branch)?;
        let is_receiver = match branch_of_node.kind {
            BranchKind::Receiver { .. } => true,
            BranchKind::Node { .. } => false,
        };
        let who = if is_receiver {
            format!("receiver {}", receiver(self.0, node, id, branch)?.1.host)
        } else {
            format!("node {}", peer(&self.0.nodes[at].spec, &branch_of_node)?)
        };
        Some((
            at,
            Stall { who, is_receiver, fatal: news == BranchNews::Fatal, since: branch_of_node.since, reach: None },
        ))
    }
}

/// The command that the group's policy requires for a stall that a node has reported.
fn policy(state: &State, node: &str, id: GroupId, branch: Ipv6Addr, stall: &Stall) -> Option<Command> {
    let (group, member) = receiver(state, node, id, branch).filter(|_| stall.is_receiver)?;
    // Another membership has this address meanwhile.
    if member.since != stall.since {
        return None;
    }
    let (name, host, since) = (group.metadata.name.clone(), member.host.to_string(), member.since);
    let cause = if stall.fatal {
        "answered with a fatal NAK: its queue pair is in error".to_owned()
    } else {
        format!("acknowledged nothing for {} ms", group.spec.stall_after.as_millis())
    };
    let reason = format!("receiver {host} at node {node} {cause}");
    match group.spec.stall_policy {
        StallPolicy::Wait => None,
        StallPolicy::Evict => Some(Command::EvictMember { group: name, host, since, reason }),
        StallPolicy::Fail => Some(Command::FailGroup { name, host, since, reason }),
    }
}

/// The group, and its member with this address behind the node.
pub(super) fn receiver<'a>(
    state: &'a State,
    node: &str,
    id: GroupId,
    branch: Ipv6Addr,
) -> Option<(&'a Group, &'a Member)> {
    let (group, network) = (state.groups.by_id(id)?, state.network()?);
    let at = state.index(node)?;
    let branch_of_node = state.program(group, at)?.branch(branch)?;
    let member = group.members.get(peer(&state.nodes[at].spec, &branch_of_node)?)?;
    (address(network, member) == Some(branch)).then_some((group, member))
}

/// Name of the node or host on the branch's port.
fn peer<'a>(spec: &'a DesiredNode, branch: &Branch) -> Option<&'a str> {
    let port = spec.base.ports.get(usize::from(branch.port.get()) - 1)?;
    Some(match &port.peer {
        Peer::Node { name, .. } | Peer::Host { name, .. } => name,
    })
}
