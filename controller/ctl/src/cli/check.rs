// SPDX-License-Identifier: Apache-2.0
//! Arguments of `check`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

/// Arguments of `check`.
#[derive(Args)]
pub struct CheckArgs {
    /// Check again until everything is ok, at most for this time, for example 2m.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub wait: Option<Duration>,
    /// Check instead whether a pod of Kubernetes has what an application needs; the file is the pod as `kubectl get pod NAME -o json` prints it, `-` = standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "wait")]
    pub pod: Option<String>,
    /// This machine.
    #[command(flatten)]
    pub machine: PreArgs,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: CheckOutput,
}

/// Arguments of `check --pre`.
#[derive(Args)]
pub struct PreArgs {
    /// Check instead whether this machine has what it needs before Canopy is installed on it; no controller is asked. As root, or some of it cannot be checked.
    #[arg(long, conflicts_with_all = ["wait", "pod"])]
    pub pre: bool,
    /// What the machine is to be.
    #[arg(long, value_enum, default_value_t, requires = "pre")]
    pub role: MachineRole,
    /// An interface of a node or host into the fabric; may be repeated.
    #[arg(long, value_name = "NAME", requires = "pre")]
    pub interface: Vec<String>,
    /// MTU that these need: that of their links in the topology.
    #[arg(long, value_name = "OCTETS", requires = "interface")]
    pub mtu: Option<u32>,
    /// Directory of a controller's store.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/canopy/controller", value_parser = absolute, requires = "pre")]
    pub state_dir: PathBuf,
    /// A TCP port at which a controller is to listen; may be repeated [default: those of the documents, 8641 to 8643].
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..), requires = "pre")]
    pub port: Vec<u16>,
}

/// A path from the root: the program examines the machine, not its own directory.
fn absolute(path: &str) -> Result<PathBuf, String> {
    std::path::absolute(path).map_err(|error| error.to_string())
}

/// What a machine is to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum MachineRole {
    /// Replicates and forwards, with canopy-agent.
    #[default]
    Node,
    /// Runs applications of RDMA multicast.
    Host,
    /// Runs canopy-controller.
    Controller,
}

/// Formats of `check`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum CheckOutput {
    /// For a terminal.
    #[default]
    Text,
    /// `{"checks": [{"name", "result", "detail", "hint", "docs"}]}`; results are ok, fails and cannotBeChecked.
    Json,
}
