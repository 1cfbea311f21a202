// SPDX-License-Identifier: Apache-2.0
//! Maps every refusal to a gRPC status.

use canopy_controller_actor::CommandError;
use canopy_controller_core::DomainError;
use canopy_model::FieldError;
use canopy_store::StoreError;
use tonic::Status;

/// An invalid request field; the message begins with its name.
pub fn field(e: FieldError) -> Status {
    Status::invalid_argument(e.to_string())
}

/// A refusal of the domain.
pub fn domain(e: &DomainError) -> Status {
    let text = e.to_string();
    match e {
        DomainError::Invalid(_) => Status::invalid_argument(text),
        DomainError::NotFound { .. } => Status::not_found(text),
        DomainError::AlreadyExists { .. } => Status::already_exists(text),
        DomainError::Conflict { .. } | DomainError::Stale { .. } => Status::aborted(text),
        DomainError::InUse { .. } => Status::failed_precondition(text),
        DomainError::Limit(_) => Status::resource_exhausted(text),
        // Hosts are of the domain: whose a group is does not concern them.
        DomainError::Quota { what, .. } => Status::resource_exhausted(format!(
            "the owner of the group has as many {what} as it may have: ask an operator of the group"
        )),
    }
}

/// A command that was not executed.
pub fn command(e: CommandError) -> Status {
    match e {
        CommandError::Domain(e) => domain(&e),
        CommandError::Precondition { .. }
        | CommandError::PlanChanged { .. }
        | CommandError::CommitPending { .. }
        | CommandError::DomainCommitPending { .. }
        | CommandError::CommitEnded { .. }
        | CommandError::NotReversible { .. }
        | CommandError::ChangeSetActive { .. }
        | CommandError::ChangeSetUndone { .. }
        | CommandError::ManagedBy { .. }
        | CommandError::NotTheManager { .. }
        | CommandError::KeyReused { .. }
        | CommandError::Outlived { .. } => Status::failed_precondition(e.to_string()),
        CommandError::NoRoleInTenant { .. } | CommandError::OfDomain => Status::permission_denied(e.to_string()),
        CommandError::TooFast { .. } => Status::resource_exhausted(e.to_string()),
        CommandError::CommitTimeout(_) => Status::invalid_argument(e.to_string()),
        CommandError::Store(StoreError::Limit(why)) => Status::resource_exhausted(why),
        CommandError::Store(cause @ StoreError::Full { .. }) => Status::unavailable(cause.to_string()),
        CommandError::Store(cause) => {
            tracing::error!(%cause, "storing a change failed, the controller stops and must be restarted");
            Status::internal(format!("the change could not be stored: {cause}"))
        }
        CommandError::Stopping => Status::unavailable(e.to_string()),
    }
}

/// A node that the topology does not have.
pub fn unknown_node(node: &str) -> Status {
    Status::not_found(format!(
        "node: there is no node {node:?} in the topology: declare it, or start the agent with the name declared"
    ))
}

/// The controller is shutting down; the caller must reconnect.
pub fn stopping() -> Status {
    Status::unavailable("the controller is stopping: connect again")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a refusal by which a host, which is not of the tenant, finds out whose a group is and what its owner has.
    #[test]
    fn a_quota_is_refused_to_a_host_without_the_tenants_name() {
        let quota = DomainError::Quota {
            tenant: "acme".to_owned(),
            has: 765,
            what: "receivers",
            limit: 765,
            setting: "max_receivers",
        };
        let status = command(quota.into());
        assert_eq!(status.code(), tonic::Code::ResourceExhausted);
        assert!(!status.message().contains("acme") && !status.message().contains("765"), "{status}");
    }
}
