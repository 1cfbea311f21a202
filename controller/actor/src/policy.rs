// SPDX-License-Identifier: Apache-2.0
//! Executes a group's stall policy for a receiver that stalls or fails (decisions 3.7, 3.10).

use std::net::Ipv6Addr;

use canopy_controller_core::{BranchNews, Command, DomainError, LateNews, Outcome};
use canopy_model::ids::GroupId;
use canopy_model::telemetry::{Event, EventCode};

use crate::events::Code;
use crate::{CommandError, Controller};

impl Controller {
    /// Handles an event that a node reported. Returns at once; commands of the policy are queued behind those that
    /// wait. Must be called on the tokio runtime.
    pub fn node_event(&self, node: &str, event: &Event) {
        let news = match event.code {
            EventCode::BranchStalled => BranchNews::Stalled,
            EventCode::FatalNak => BranchNews::Fatal,
            EventCode::BranchRecovered => BranchNews::Recovered,
            EventCode::FirstData
            | EventCode::SpecRefused
            | EventCode::SampleFailed
            | EventCode::TelemetryDropped
            | EventCode::BoundaryRestored
            | EventCode::Unknown => return,
            EventCode::HostProbed => return self.host_probed(node, event),
        };
        let (Some(group), Some(branch)) = (event.group, event.branch) else { return };
        // In another epoch it may be another receiver with the same address; the agent reports again what still holds. That an alarm
        // ends is true in any epoch.
        let present = |epoch| self.read(|d| d.epoch_at(node, group)) == Some(epoch);
        if news == BranchNews::Recovered || event.epoch.is_none_or(present) {
            self.branch_news(node, group, branch, news);
        }
    }

    /// Handles a branch whose fatal NAK is in a node's sample. The event that reports it may be lost, the state is not: it is in every
    /// sample until the branch leaves. Does nothing if it is known. Must be called on the tokio runtime.
    pub fn fatal_branch(&self, node: &str, group: GroupId, branch: Ipv6Addr) {
        if !self.read(|d| d.is_fatal(node, group, branch)) {
            self.branch_news(node, group, branch, BranchNews::Fatal);
        }
    }

    /// Carries out what is left to do, with each sample of a node: policies for stalls that last, although a command failed or the policy
    /// was another one, and groups whose opening failed. Must be called on the tokio runtime.
    pub fn retry_policies(&self, node: &str) {
        for command in self.read(|d| d.due_policies(node)) {
            self.carry_out_once(node, command);
        }
        self.retry_opening();
    }

    /// Handles the state of a late receiver in a node's sample (decisions 3.13). Does nothing if it is known. Must be called on the tokio
    /// runtime.
    pub fn late_receiver(&self, node: &str, group: GroupId, branch: Ipv6Addr, news: LateNews) {
        if let Some(command) = self.read(|d| d.late_receiver(node, group, branch, news)) {
            self.carry_out_once(node, command);
        }
    }

    /// Evidence only: no policy acts on it.
    fn host_probed(&self, node: &str, event: &Event) {
        let (Some(group), Some(branch), Some(reach)) = (event.group, event.branch, event.reach) else { return };
        // In another epoch it may be another receiver with the same address.
        let epoch = self.read(|d| d.epoch_at(node, group));
        if epoch.is_none() || epoch != event.epoch {
            return;
        }
        if let Some(group) = self.write(|d| d.host_probed(node, group, branch, reach)) {
            self.assess_group(&group);
        }
    }

    fn branch_news(&self, node: &str, group: GroupId, branch: Ipv6Addr, news: BranchNews) {
        let reaction = self.write(|d| d.branch_news(node, group, branch, news));
        if !reaction.groups.is_empty() {
            self.groups_changed(&reaction.groups);
        }
        if let Some(command) = reaction.command {
            self.carry_out_once(node, command);
        }
    }

    /// Carries `command` out unless one for the same membership is under way.
    fn carry_out_once(&self, node: &str, command: Command) {
        let (Command::EvictMember { group, host, since, .. }
        | Command::AnswerMember { group, host, since }
        | Command::StartMember { group, host, since, .. }
        | Command::FailGroup { name: group, host, since, .. }) = &command
        else {
            return;
        };
        let membership = (group.clone(), host.clone(), *since);
        if !self.policies_under_way().insert(membership.clone()) {
            return;
        }
        let (this, node) = (self.clone(), node.to_owned());
        tokio::spawn(async move {
            this.carry_out_policy(&node, command).await;
            this.policies_under_way().remove(&membership);
        });
    }

    async fn carry_out_policy(&self, node: &str, command: Command) {
        let (code, group, reason) = match &command {
            Command::EvictMember { group, reason, .. } => (Code::MemberEvicted, group.clone(), reason.clone()),
            Command::FailGroup { name, reason, .. } => (Code::GroupFailed, name.clone(), reason.clone()),
            Command::StartMember { group, host, .. } => {
                let reason = format!("where the late receiver {host} has started is not stored");
                (Code::LateStartNotStored, group.clone(), reason)
            }
            Command::AnswerMember { group, host, .. } => {
                let reason = format!("that the queue pair of the late receiver {host} answered is not stored");
                (Code::LateStartNotStored, group.clone(), reason)
            }
            _ => return,
        };
        let (code, detail) = match self.execute(command, None, false).await {
            Ok(done) if done.outcome == Outcome::Unchanged => return,
            Ok(_) if code == Code::LateStartNotStored => return,
            Ok(_) => {
                tracing::warn!(%code, group, node, reason, "receiver removed or group stopped");
                (code, format!("group {group}: {reason}"))
            }
            // Another command removed the receiver or failed the group first.
            Err(CommandError::Domain(DomainError::NotFound { .. })) => return,
            Err(e) if code == Code::LateStartNotStored => (code, format!("group {group}: {reason}: {e}")),
            Err(e) => (
                Code::PolicyNotCarriedOut,
                format!("group {group}: {reason}; the stall policy could not be executed: {e}"),
            ),
        };
        self.note_group(code, Some(node), &group, detail);
    }
}
