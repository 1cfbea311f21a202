// SPDX-License-Identifier: Apache-2.0
//! Arguments of `node` and `host`.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

/// Arguments of `node`.
#[derive(Args)]
pub struct NodeArgs {
    /// What to do.
    #[command(subcommand)]
    pub action: NodeAction,
}

/// What to do with a node.
#[derive(Subcommand)]
pub enum NodeAction {
    /// With the certificates of its agent.
    #[command(flatten)]
    Identity(IdentityAction),
    /// Let a node leave for good: drain it, let its agent remove what it programmed, revoke its certificates.
    ///
    /// The controller does the steps, and this command shows them; interrupted, it changes nothing, and the same command shows them again. Forwarding
    /// is never cut: a step waits until nothing uses the node. The node stays in the topology, drained, until you take it out.
    Retire(RetireArgs),
}

/// Arguments of `node retire`.
#[derive(Args)]
pub struct RetireArgs {
    /// Its name in the topology.
    #[arg(required_unless_present = "all")]
    pub name: Option<String>,
    /// Every node that has not left, at the same time: nothing of Canopy stays on them.
    #[arg(long, conflicts_with_all = ["name", "cancel", "output"])]
    pub all: bool,
    /// Remove the hosts behind it from their groups, which have no other node.
    #[arg(long)]
    pub accept_loss: bool,
    /// Continue without the report of its agent: what is left on its machine has to be removed by hand.
    #[arg(long)]
    pub without_agent: bool,
    /// Why, for other operators ["retired" if absent].
    #[arg(short, long)]
    pub reason: Option<String>,
    /// How long to wait, 10s to 24h; then it is a problem, and the controller continues [5m if absent].
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub timeout: Option<Duration>,
    /// Take it back: possible until its agent begins to clean up. Of a node that has left, forget that.
    #[arg(long, conflicts_with_all = ["accept_loss", "without_agent", "reason", "timeout", "output"])]
    pub cancel: bool,
    /// Format.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: RetireOutput,
}

/// Formats of `node retire`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum RetireOutput {
    /// A line for each step.
    #[default]
    Text,
    /// The API's node in the end; the lines go to standard error.
    Json,
}

/// Arguments of `host`.
#[derive(Args)]
pub struct IdentityArgs {
    /// What to do.
    #[command(subcommand)]
    pub action: IdentityAction,
}

/// What to do with the certificates of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum IdentityAction {
    /// Print a token with which `canopy-agent enroll` gets its certificate, once and within ten minutes.
    ///
    /// The token alone is printed to standard output: canopyctl node enroll n4 | ssh n4 canopy-agent enroll --controller https://CONTROLLER:8641
    Enroll {
        /// Its name in the topology, now or later.
        name: String,
    },
    /// Refuse every certificate and token that it has, and end its connections. What it forwards stays as it is.
    Revoke {
        /// Its name in the topology.
        name: String,
    },
}
