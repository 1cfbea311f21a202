// SPDX-License-Identifier: Apache-2.0
//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use canopy_lab::guided::Breakable;
use canopy_lab::line::LineArgs;
use canopy_lab::units::{Bytes, Delay, Loss};
use canopy_lab::{Instance, LabFile, Op, Options};
use clap::{Args, Parser, Subcommand};

/// A network of real Canopy agents on one machine: network namespaces for nodes and hosts, veth pairs for links.
#[derive(Debug, Parser)]
#[command(name = "canopy-lab", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// Name of the lab; several labs can be up at once.
    #[arg(long, global = true, value_name = "NAME")]
    instance: Option<String>,
    /// State, configuration and logs [default: /run/canopy-lab/<instance>].
    #[arg(long, global = true)]
    pub(crate) dir: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// The instance named on the command line.
    pub(crate) fn instance(&self) -> Result<Instance> {
        Instance::new(self.instance.clone())
    }
}

/// Verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Bring a lab up: network, controller, agents, topology.
    Up {
        /// Lab file (kind: Lab).
        file: PathBuf,
        /// MTU of every link in bytes; overrides the lab file.
        #[arg(long)]
        mtu: Option<u32>,
        #[command(flatten)]
        up: UpArgs,
        /// Only namespaces and links, no controller and no agents.
        #[arg(long)]
        network_only: bool,
    },
    /// Take a lab down, with every process inside its namespaces.
    Down,
    /// Programs, links, loss, delay and counters.
    Status {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Change the random loss of links while the lab runs.
    Loss {
        /// all, one end such as n6/eth2, or both such as n6/eth2--n4/eth1.
        link: String,
        /// Probability, both directions, for example 1%.
        loss: Loss,
    },
    /// Change what links do while the lab runs.
    Set {
        #[command(subcommand)]
        what: Change,
    },
    /// Forward frames between two interfaces after a delay; the lab starts one such process per delayed link.
    DelayLine(LineArgs),
    /// Break something in a lab that is up, in a transfer that is started for it, and show what finds it.
    Demo {
        #[command(subcommand)]
        what: Guide,
    },
    /// Demonstrate multicast: bring a lab up unless it is up, send to every host, compare. The lab stays up.
    Run {
        /// Lab file [default: Figure 1 of draft-li-spring-rdma-multicast-over-srv6].
        file: Option<PathBuf>,
        /// Bytes to send.
        #[arg(long, default_value = "64MiB")]
        bytes: Bytes,
        /// RDMA path MTU in bytes.
        #[arg(long, default_value_t = 4096)]
        mtu: u32,
        /// RDMA operation.
        #[arg(long, value_enum, default_value_t)]
        op: Op,
        /// Time limit of the transfer in seconds.
        #[arg(long, default_value_t = 600)]
        transfer_timeout: u64,
        /// The result as JSON on standard output.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        up: UpArgs,
    },
}

/// What `demo` does.
#[derive(Debug, Subcommand)]
pub(crate) enum Guide {
    /// Start a transfer in group `guided` and break something in it.
    Break {
        /// What to break.
        #[arg(value_enum)]
        what: Breakable,
    },
    /// Take it back, and end the transfer.
    Mend,
}

/// What `set` changes.
#[derive(Debug, Subcommand)]
pub(crate) enum Change {
    /// One-way delay of frames sent from now on. Nothing is lost or reordered.
    Delay {
        /// all, one end such as n1/eth2, or both such as n1/eth2--n2/eth1; a link that has a delay in the lab file.
        link: String,
        /// 0ms to 10s, each direction, for example 40ms.
        delay: Delay,
    },
}

/// How to bring a lab up.
#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// Random loss of every link and direction, for example 1%; overrides the lab file.
    #[arg(long)]
    pub(crate) loss: Option<Loss>,
    /// A management link to every node, and Prometheus, which scrapes controller and agents every second.
    #[arg(long)]
    pub(crate) with_prometheus: bool,
    /// A management link to every node and host, and an agent on each host, by which its applications join.
    #[arg(long)]
    host_agents: bool,
    /// Directory of canopy-controller, canopy-agent and canopy-rc [default: this program's directory].
    #[arg(long)]
    bin_dir: Option<PathBuf>,
    /// The controller's REST port on 127.0.0.1 [default: 8640, a free one with --instance].
    #[arg(long)]
    rest_port: Option<u16>,
    /// Time limit in seconds for the controller and the agents to become ready.
    #[arg(long, default_value_t = 60)]
    timeout: u64,
}

impl UpArgs {
    /// The same as options of the library.
    pub(crate) fn options(&self, instance: Instance, dir: Option<PathBuf>, network_only: bool) -> Options {
        Options {
            instance,
            dir,
            bin_dir: self.bin_dir.clone(),
            rest_port: self.rest_port,
            management: (self.with_prometheus || self.host_agents) && !network_only,
            host_agents: self.host_agents && !network_only,
            network_only,
            timeout: Duration::from_secs(self.timeout),
        }
    }

    /// Applies the loss to the lab file.
    pub(crate) fn adjust(&self, file: &mut LabFile) {
        if let Some(loss) = self.loss {
            file.override_loss(loss);
        }
    }
}
