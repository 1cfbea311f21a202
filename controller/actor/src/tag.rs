// SPDX-License-Identifier: Apache-2.0
//! Tags that name one state of one resource's intent; the ETags of the REST API.
//!
//! A group's tag holds its id and its generation: a group that was deleted and created again is another group.

use canopy_controller_core::view::{DrainView, GroupView, MemberView, TopologyView};
use canopy_controller_core::{Command, Domain};

/// Tag of the topology.
pub fn topology(view: &TopologyView) -> String {
    view.metadata.generation.to_string()
}

/// Tag of a drain.
pub fn drain(view: &DrainView) -> String {
    view.metadata.generation.to_string()
}

/// Tag of a group.
pub fn group(view: &GroupView) -> String {
    format!("{}.{}", view.status.group_id, view.metadata.generation)
}

/// Tag of a membership.
pub fn member(view: &MemberView) -> String {
    view.metadata.generation.to_string()
}

/// Kind, name and present tag of what `command` changes.
pub(crate) fn of_target(domain: &Domain, command: &Command) -> (String, Option<String>) {
    match command {
        Command::PutTopology { .. } | Command::DeleteTopology | Command::PortsDown { .. } => {
            ("topology".into(), domain.topology().as_ref().map(topology))
        }
        Command::PutDrain { name, .. } | Command::DeleteDrain { name } => {
            (format!("drain {name:?}"), domain.drain(name).as_ref().map(drain))
        }
        Command::PutGroup { name, .. }
        | Command::DeleteGroup { name }
        | Command::FailGroup { name, .. }
        | Command::FinishMove { group: name }
        | Command::GiveUpMove { group: name, .. }
        | Command::RetryMove { group: name }
        | Command::OpenGroup { group: name } => (format!("group {name:?}"), domain.group(name).as_ref().map(group)),
        Command::PushThresholds => ("thresholds".into(), None),
        Command::RotateHmac | Command::AdvanceHmac => ("hmac".into(), None),
        Command::PutMember { group, spec, .. } => member_of(domain, group, &spec.host),
        Command::DeleteMember { group, host }
        | Command::EvictMember { group, host, .. }
        | Command::AnswerMember { group, host, .. }
        | Command::StartMember { group, host, .. } => member_of(domain, group, host),
    }
}

fn member_of(domain: &Domain, group: &str, host: &str) -> (String, Option<String>) {
    (format!("member {group}/{host}"), domain.member(group, host).as_ref().map(member))
}
