// SPDX-License-Identifier: Apache-2.0
//! The command line.

use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Canopy's command line: RDMA multicast groups over SRv6.
#[derive(Parser)]
#[command(
    name = "canopyctl",
    version,
    after_help = "Exit codes: 0 done; 1 the controller refused or cannot be reached; 2 wrong usage or unreadable file; \
3 not found; 4 conflict (exists already, or changed meanwhile); 5 timed out."
)]
pub struct Cli {
    /// Where the controller listens: http://host:port or unix:/path.
    #[arg(long, global = true, env = "CANOPY_SERVER", default_value = "http://127.0.0.1:8640")]
    pub server: String,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What can be asked for.
#[derive(Subcommand)]
pub enum Command {
    /// Create or change resources from files; all are checked before the first is applied.
    Apply(ApplyArgs),
    /// List resources, or show one.
    Get(GetArgs),
    /// Show a group, node or link in full, with what its datapath counts.
    Describe(DescribeArgs),
    /// Delete resources.
    Delete(DeleteArgs),
    /// Wait until a group is in a state.
    Wait(WaitArgs),
    /// Print a completion script.
    Completion {
        /// For which shell.
        shell: clap_complete::Shell,
    },
    /// Print the versions of this program and of the controller.
    Version,
}

/// Arguments of `apply`.
#[derive(Args)]
pub struct ApplyArgs {
    /// YAML or JSON with Topology, Group and Member resources; - is standard input.
    #[arg(short = 'f', long = "filename", required = true, value_name = "FILE")]
    pub files: Vec<String>,
    /// Check only.
    #[arg(long)]
    pub dry_run: bool,
}

/// Kinds that can be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Resource {
    /// The network.
    Topology,
    /// Forwarding nodes.
    #[value(alias = "node")]
    Nodes,
    /// Link directions with their queues and queue thresholds; a direction is named by the sending port: n1/eth1.
    #[value(alias = "link")]
    Links,
    /// Flows through the nodes' ports, those that send most first; NAME is a node or its port: n1/eth1.
    #[value(alias = "flow")]
    Flows,
    /// Multicast groups.
    #[value(alias = "group")]
    Groups,
    /// Members of a group (-g).
    #[value(alias = "member")]
    Members,
    /// What happened lately.
    #[value(alias = "event")]
    Events,
}

/// How to print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Columns.
    #[default]
    Table,
    /// More columns.
    Wide,
    /// As the API sends it.
    Json,
    /// As the API sends it; can be applied again.
    Yaml,
    /// One kind/name per line.
    Name,
}

/// Arguments of `get`.
#[derive(Args)]
pub struct GetArgs {
    /// What to list.
    #[arg(value_enum)]
    pub resource: Resource,
    /// Only this one.
    pub name: Option<String>,
    /// The group whose members or events are meant.
    #[arg(short, long)]
    pub group: Option<String>,
    /// Only groups with these labels: key=value,key!=value,key.
    #[arg(short = 'l', long)]
    pub selector: Option<String>,
    /// How to print.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
}

/// What can be described.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Describable {
    /// A multicast group.
    Group,
    /// A forwarding node.
    Node,
    /// A link direction, by its sending port: n1/eth1.
    Link,
}

/// Arguments of `describe`.
#[derive(Args)]
pub struct DescribeArgs {
    /// Kind.
    #[arg(value_enum)]
    pub kind: Describable,
    /// Name.
    pub name: String,
}

/// What can be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Deletable {
    /// The topology; no group may have members.
    Topology,
    /// A group with its memberships.
    Group,
    /// A membership; NAME is the host, -g the group.
    Member,
}

/// Arguments of `delete`.
#[derive(Args)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["kind", "files"]))]
pub struct DeleteArgs {
    /// Kind.
    #[arg(value_enum)]
    pub kind: Option<Deletable>,
    /// Name; a member's is its host.
    #[arg(requires = "kind")]
    pub name: Option<String>,
    /// The group that the member leaves.
    #[arg(short, long, requires = "kind")]
    pub group: Option<String>,
    /// Delete what these files hold, members first.
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    pub files: Vec<String>,
    /// What is not there is deleted already.
    #[arg(long)]
    pub ignore_not_found: bool,
}

/// What can be waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Waitable {
    /// A multicast group.
    Group,
}

/// States to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Until {
    /// Every node read the group's state back from its kernel.
    Ready,
    /// The group is gone.
    Deleted,
}

/// Arguments of `wait`.
#[derive(Args)]
pub struct WaitArgs {
    /// Kind.
    #[arg(value_enum)]
    pub kind: Waitable,
    /// Name.
    pub name: String,
    /// For what.
    #[arg(long = "for", value_enum, default_value = "ready")]
    pub until: Until,
    /// How long, for example 30s or 2m.
    #[arg(long, default_value = "30s", value_parser = humantime::parse_duration)]
    pub timeout: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound_and_says_its_exit_codes() {
        Cli::command().debug_assert();
        let help = Cli::command().render_help().to_string();
        assert!(help.contains("Exit codes") && help.contains("CANOPY_SERVER"), "{help}");
        for good in [
            "get groups",
            "get group g1 -o yaml",
            "get members -g g1",
            "get links",
            "get flows n1/eth1 -o wide",
            "describe link n1/eth1",
            "wait group g --for deleted --timeout 2m",
            "delete -f x",
            "apply -f a -f b --dry-run",
        ] {
            Cli::try_parse_from(["canopyctl"].into_iter().chain(good.split(' ')))
                .unwrap_or_else(|e| panic!("{good}: {e}"));
        }
        for bad in ["get pods", "apply", "delete", "delete group g -f x", "wait group g --timeout soon", "describe"] {
            assert!(Cli::try_parse_from(["canopyctl"].into_iter().chain(bad.split(' '))).is_err(), "{bad}");
        }
    }
}
