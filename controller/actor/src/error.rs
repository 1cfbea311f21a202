// SPDX-License-Identifier: Apache-2.0
//! Why a command or a start failed. Each API maps [`CommandError`] to its own codes in one file.

use canopy_controller_core::DomainError;
use canopy_controller_core::quota::TooFast;
use canopy_model::rfc3339;
use canopy_store::StoreError;
use canopy_units::UnixTime;

/// Why a command was not executed. Unless stated otherwise, nothing changed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The domain refused it.
    #[error(transparent)]
    Domain(#[from] DomainError),
    /// The resource is not at the version that the caller read.
    #[error("{resource} is now {actual}, the precondition asks for {expected}: read it again and repeat the change")]
    Precondition {
        /// Kind and name.
        resource: String,
        /// Tag the caller sent.
        expected: String,
        /// Present tag, or `absent`.
        actual: String,
    },
    /// A resource that another writer manages.
    #[error(
        "{resource} is managed by {manager}, whose next write would undo this one: change it there ({edit}), or take it over (canopyctl --take-over, header Canopy-Manager)"
    )]
    ManagedBy {
        /// Kind and name.
        resource: String,
        /// Who manages it.
        manager: String,
        /// How it is changed there.
        edit: String,
    },
    /// A write that would give a resource to a manager who does not send it.
    #[error("{resource} would be managed by {manager}, who does not send this: leave out the label canopy/managed-by")]
    NotTheManager {
        /// Kind and name.
        resource: String,
        /// In the label.
        manager: String,
    },
    /// A group of a tenant in which the caller may change nothing.
    #[error("your role in tenant {tenant} does not let you change its groups: name one of your tenants in metadata.tenant: {}", .own.join(", "))]
    NoRoleInTenant {
        /// The tenant.
        tenant: String,
        /// Those in which the caller may change groups.
        own: Vec<String>,
    },
    /// A tenant that has made as many changes as it may.
    #[error("tenant {tenant} may make {} changes a second (quotas.max_changes_per_second): try again in {:?}", .too_fast.limit, .too_fast.wait)]
    TooFast {
        /// The tenant.
        tenant: String,
        /// How many, and how long to wait.
        too_fast: TooFast,
    },
    /// A command on the domain of a caller who has roles in tenants alone.
    #[error("this is for the whole domain, and your roles are in single tenants: ask an administrator of the domain")]
    OfDomain,
    /// The command would have other effects than those that the caller has seen.
    #[error(
        "the effects of this change are no longer those of plan {expected}: read the dry run again; its plan is {actual} now"
    )]
    PlanChanged {
        /// Plan the caller sent.
        expected: String,
        /// Present plan.
        actual: String,
    },
    /// An operator's change beside a confirmed commit that is pending.
    #[error(
        "commit {id}, which {by} has begun, waits to be confirmed: confirm or cancel it first, or make this change a part of it (canopyctl --commit {id}, header Canopy-Commit)"
    )]
    CommitPending {
        /// Its id.
        id: String,
        /// Who has begun it.
        by: String,
    },
    /// A change of a caller who has roles in tenants alone, while a confirmed commit is pending.
    #[error(
        "a commit of the domain, which {by} has begun, waits to be confirmed: changes of tenants are possible again once it has ended"
    )]
    DomainCommitPending {
        /// Who has begun it.
        by: String,
    },
    /// The confirmed commit that the caller names is not pending.
    #[error("no commit {id} is pending: `canopyctl commit status` shows how the last one ended")]
    CommitEnded {
        /// The id that the caller sent.
        id: String,
    },
    /// A change set beside another one of the same owner.
    #[error("change set {id} is not finished: wait for its end, or take it back (canopyctl change-set undo {id})")]
    ChangeSetActive {
        /// Its id.
        id: String,
    },
    /// A change set that was taken back, or is.
    #[error("{by} has taken change set {id} back at {}", rfc3339::seconds(*at))]
    ChangeSetUndone {
        /// Its id.
        id: String,
        /// Who.
        by: String,
        /// When.
        at: UnixTime,
    },
    /// A change in a confirmed commit that could not be taken back.
    #[error("{resource} cannot be taken back: {why}; or do it once the commit has ended")]
    NotReversible {
        /// Kind and name.
        resource: String,
        /// Why not, for a person.
        why: String,
    },
    /// A key that was sent with another write.
    #[error("this key was sent at {} with another write: draw a new key for each write, and repeat one only with the same content", rfc3339::seconds(*at))]
    KeyReused {
        /// When.
        at: UnixTime,
    },
    /// A write that is sent again, whose resource has gone since.
    #[error(
        "{resource}, which this write has {did} at {}, is not there any more: read what is there, and write with a new key", rfc3339::seconds(*at)
    )]
    Outlived {
        /// Kind and name.
        resource: String,
        /// `created` or `changed`.
        did: &'static str,
        /// When.
        at: UnixTime,
    },
    /// A time that no confirmed commit may have.
    #[error("{0:?} is no time for a commit: use 1 s to 24 h")]
    CommitTimeout(std::time::Duration),
    /// The store rejected the commit. After an engine failure the outcome is unknown and the controller stops.
    #[error("the change could not be stored")]
    Store(#[source] StoreError),
    /// The controller is shutting down.
    #[error("the controller is stopping: ask again when it is back")]
    Stopping,
}

/// Why the records of the store are no domain.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// A record does not have the content that its key implies.
    #[error("record {key:?} cannot be read")]
    Record {
        /// The record's key.
        key: String,
        /// Error of the JSON parser.
        #[source]
        source: serde_json::Error,
    },
    /// The domain refused the records.
    #[error(transparent)]
    Domain(#[from] canopy_controller_core::RestoreError),
}

/// Why the controller cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store cannot be read or written.
    #[error("reading the store")]
    Store(#[source] StoreError),
    /// The stored records are not a consistent domain.
    #[error("restoring the domain from the store")]
    Restore(#[source] RestoreError),
    /// The record of the key of identifiers is not one.
    #[error(
        "record \"controller/key\" is not 64 hexadecimal digits: put back that of a backup, or delete it, and identifiers may repeat"
    )]
    Key,
    /// The operating system gives no random numbers.
    #[error("drawing the key of identifiers")]
    Random(#[source] getrandom::Error),
    /// The runtime is shutting down.
    #[error("the runtime ended while the store was being read")]
    Runtime,
}
