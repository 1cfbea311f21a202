// SPDX-License-Identifier: Apache-2.0
//! Arguments of what takes something out of service, or writes down that operators know of a problem.

use std::time::Duration;

use clap::{Args, ValueEnum};

/// Kinds that can be drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Drainable {
    /// A link between two nodes, by one of its ends or as `a--b`.
    Link,
    /// A node with all its links to other nodes.
    Node,
}

/// Arguments of `drain`.
#[derive(Args)]
pub struct DrainArgs {
    /// Kind.
    #[arg(value_enum)]
    pub kind: Drainable,
    /// n1/eth1, n1/eth1--n2/eth3, or a node's name.
    pub target: String,
    /// Why, for other operators.
    #[arg(short, long)]
    pub reason: String,
    /// Name of the drain; the target's if absent.
    #[arg(long)]
    pub name: Option<String>,
    /// Drain a node although hosts behind it are members of groups and have no other node.
    #[arg(long)]
    pub accept_loss: bool,
    /// Put it back into service by itself after this time, for example 2h; a year at most.
    #[arg(long = "for", value_name = "TIME", value_parser = humantime::parse_duration, conflicts_with = "until")]
    pub lasts: Option<Duration>,
    /// Put it back into service by itself at this time, for example 2026-11-26T18:00:00Z or 2026-11-26T19:00:00+01:00.
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// Wait until no group uses it any more, for example 2m.
    #[arg(long, value_parser = humantime::parse_duration)]
    pub wait: Option<Duration>,
    /// Only check.
    #[arg(long)]
    pub dry_run: bool,
}

/// Arguments of `undrain`.
#[derive(Args)]
pub struct UndrainArgs {
    /// The drain's name, or its link or node if that is drained once.
    pub name: String,
}

/// Arguments of `ack`.
#[derive(Args)]
pub struct AckArgs {
    /// Id of the problem, as `status` and `get problems` show it.
    pub problem: String,
    /// What is known and done, for other operators.
    #[arg(short, long)]
    pub note: String,
    /// End it by itself after this time, for example 2h, although the problem is open.
    #[arg(long = "for", value_name = "TIME", value_parser = humantime::parse_duration, conflicts_with = "until")]
    pub lasts: Option<Duration>,
    /// The same at this time, for example 2026-11-26T18:00:00Z.
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
}

/// What can be silenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Silenced {
    /// A problem, by its id; the same as `ack`.
    Problem,
    /// A node with its ports and links.
    Node,
    /// A link between two nodes, by one of its ends or as `a--b`.
    Link,
    /// A group with its members.
    Group,
    /// A host in all its groups.
    Host,
}

/// Arguments of `silence`.
#[derive(Args)]
pub struct SilenceArgs {
    /// Kind.
    #[arg(value_enum)]
    pub kind: Silenced,
    /// Its name; of a problem the id.
    pub target: String,
    /// What is known and done, for other operators.
    #[arg(short, long)]
    pub note: String,
    /// Name of the silence; the kind and the target's name if absent.
    #[arg(long)]
    pub name: Option<String>,
    /// Begin it at this time, for example 2026-11-26T18:00:00Z; now if absent.
    #[arg(long, value_name = "TIME")]
    pub from: Option<String>,
    /// End it by itself this time from now, for example 2h; a year at most.
    #[arg(long = "for", value_name = "TIME", value_parser = humantime::parse_duration, conflicts_with = "until")]
    pub lasts: Option<Duration>,
    /// End it by itself at this time; an object needs this or --for.
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// Only check.
    #[arg(long)]
    pub dry_run: bool,
}

/// Arguments of `unsilence`.
#[derive(Args)]
pub struct UnsilenceArgs {
    /// The silence's name, or its problem, node, link, group or host if that is silenced once.
    pub name: String,
}
