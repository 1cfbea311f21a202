// SPDX-License-Identifier: Apache-2.0
//! Reactions to an edge's report on a receiver that joined late (decisions 3.13).

use std::net::Ipv6Addr;

use canopy_model::ids::GroupId;
use canopy_model::member::LateStart;
use canopy_model::node_spec::BranchKind;

use super::stall::receiver;
use super::state::State;
use crate::command::Command;

/// The state of a late receiver in its edge's report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LateNews {
    /// Its queue pair expects the start PSN.
    Answered,
    /// It started here.
    Started(LateStart),
    /// Its queue pair answers, but does not expect the start PSN: it was not reset.
    NotFresh,
    /// Its edge has lost its state, and with it where the receiver started.
    Lost,
}

/// See [`super::Domain::late_receiver`].
pub(super) fn news(state: &State, node: &str, id: GroupId, branch: Ipv6Addr, news: LateNews) -> Option<Command> {
    let of_node = state.program_of(id, state.index(node)?)?.branch(branch)?;
    let is_late = matches!(of_node.kind, BranchKind::Receiver { .. }) && of_node.at_boundary;
    if !is_late || matches!(news, LateNews::Started(start) if of_node.start == Some(start)) {
        return None;
    }
    let (group, member) = receiver(state, node, id, branch)?;
    let (group, host, since) = (group.metadata.name.clone(), member.host.to_string(), member.since);
    Some(match news {
        LateNews::Answered if member.answered || member.start.is_some() => return None,
        LateNews::Answered => Command::AnswerMember { group, host, since },
        LateNews::Started(start) => Command::StartMember { group, host, since, start },
        LateNews::NotFresh => {
            let reason = format!(
                "the queue pair of receiver {host} at node {node} does not expect the start PSN: reset the queue pair, then join"
            );
            Command::EvictMember { group, host, since, reason }
        }
        LateNews::Lost => {
            let cause = if of_node.lost {
                format!(
                    "receiver {host} moved to node {node}, or its group had no tree, before it was known where it started"
                )
            } else {
                format!("node {node} lost its state, and with it where receiver {host} started")
            };
            let reason = format!("{cause}: reset the queue pair, then join");
            Command::EvictMember { group, host, since, reason }
        }
    })
}
