// SPDX-License-Identifier: Apache-2.0
//! What a command changes, with its tag: see `Metadata::tag`.

use canopy_controller_core::{Command, Domain};

/// Kind, name and present tag of what `command` changes.
pub(crate) fn of_target(domain: &Domain, command: &Command) -> (String, Option<String>) {
    match command {
        Command::PutTopology { .. } | Command::DeleteTopology | Command::PortsDown { .. } => {
            ("topology".into(), domain.topology().map(|t| t.metadata.tag()))
        }
        Command::PutDrain { name, .. } | Command::DeleteDrain { name } => {
            (format!("drain {name:?}"), domain.drain(name).map(|d| d.metadata.tag()))
        }
        Command::PutGroup { name, .. }
        | Command::DeleteGroup { name }
        | Command::FailGroup { name, .. }
        | Command::FinishMove { group: name }
        | Command::GiveUpMove { group: name, .. }
        | Command::RetryMove { group: name }
        | Command::OpenGroup { group: name } => {
            (format!("group {name:?}"), domain.group(name).map(|g| g.metadata.tag()))
        }
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
    (format!("member {group}/{host}"), domain.member(group, host).map(|m| m.metadata.tag()))
}
