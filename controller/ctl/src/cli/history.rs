// SPDX-License-Identifier: Apache-2.0
//! Arguments of `diff`, `history`, `undo` and `audit`.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::Output;

/// Kinds whose versions are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Versioned {
    /// The network; its name is default.
    Topology,
    /// A link or node out of service.
    Drain,
    /// A multicast group.
    Group,
}

/// A resource whose versions are kept.
#[derive(Args)]
pub struct VersionedArgs {
    /// Kind.
    #[arg(value_enum)]
    pub kind: Option<Versioned>,
    /// Name; may be left out for the topology.
    #[arg(requires = "kind")]
    pub name: Option<String>,
}

/// Arguments of `diff`.
#[derive(Args)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["kind", "files"]))]
pub struct DiffArgs {
    /// Which resource.
    #[command(flatten)]
    pub of: VersionedArgs,
    /// Generation to compare the present one with, as `history` shows it; the one before by default.
    #[arg(long, requires = "kind")]
    pub to: Option<u64>,
    /// YAML or JSON to compare with what is in force; - is standard input.
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    pub files: Vec<String>,
}

/// Arguments of `history`.
#[derive(Args)]
pub struct HistoryArgs {
    /// Kind.
    #[arg(value_enum)]
    pub kind: Versioned,
    /// Name; may be left out for the topology.
    pub name: Option<String>,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
}

/// Arguments of `undo`.
#[derive(Args)]
pub struct UndoArgs {
    /// Kind.
    #[arg(value_enum)]
    pub kind: Versioned,
    /// Name; may be left out for the topology.
    pub name: Option<String>,
    /// Generation to put back, as `history` shows it; the one before by default.
    #[arg(long)]
    pub to: Option<u64>,
    /// Only show what that would change and do.
    #[arg(long)]
    pub dry_run: bool,
}

/// Kinds whose writes are audited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Audited {
    /// The network.
    Topology,
    /// A link or node out of service.
    Drain,
    /// Problems that an operator knows of.
    Silence,
    /// A multicast group.
    Group,
    /// A membership; its name is group/host.
    Member,
    /// The keys of the SRH HMAC TLV.
    Hmac,
    /// A confirmed commit; its name is its id.
    Commit,
    /// Resources that were sent at once; its name is its id.
    ChangeSet,
    /// The certificates of an agent; its name is node/NAME or host/NAME.
    Identity,
    /// A filter of log lines; its name is controller or agent/NODE.
    LogLevel,
}

/// What a write did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AuditAction {
    /// A resource was created.
    Create,
    /// Labels or spec were replaced.
    Update,
    /// A resource was deleted.
    Delete,
    /// A rotation of keys was begun.
    Rotate,
    /// A confirmed commit, or a change set, was begun.
    Begin,
    /// It was confirmed.
    Confirm,
    /// It got another time.
    Extend,
    /// An operator had it rolled back.
    Cancel,
    /// It was rolled back because its time had passed.
    Expire,
    /// A token was made for an agent.
    Enroll,
    /// The certificates of an agent were revoked.
    Revoke,
    /// A node was to leave for good.
    Retire,
    /// A host joined a group: with --hosts.
    Join,
    /// A host left a group: with --hosts.
    Leave,
}

/// Arguments of `audit`.
#[derive(Args)]
pub struct AuditArgs {
    /// Only writes of resources of this kind.
    #[arg(long, value_enum)]
    pub kind: Option<Audited>,
    /// Only writes of the resource with this name; a member's is group/host.
    #[arg(long)]
    pub name: Option<String>,
    /// Only writes of this user.
    #[arg(long)]
    pub by: Option<String>,
    /// Only this kind of write.
    #[arg(long, value_enum)]
    pub action: Option<AuditAction>,
    /// Only writes within this time, for example 1h.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub within: Option<Duration>,
    /// Only what the request with this id wrote, as -o wide shows it; with that of a change set, its resources.
    #[arg(long, value_name = "ID")]
    pub request: Option<String>,
    /// The joins and leaves of hosts, instead of what operators wrote: those of one user and group within a minute are one entry.
    #[arg(long)]
    pub hosts: bool,
    /// Number of writes.
    #[arg(short = 'n', long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub limit: u16,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
}
