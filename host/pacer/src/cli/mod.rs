// SPDX-License-Identifier: Apache-2.0
//! The command line.

mod remote;
mod run;

use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::time::Duration;

use canopy_host::pacing::DEFAULT_SOCKET;
use clap::{Args, Parser, Subcommand};

use crate::kernel::Wanted;
use crate::units::rate;

/// Paces this host's RDMA queue pairs as nodes on the path (Long-haul CNPs) and receivers (CNPs) request.
///
/// `run` is the daemon, one for each interface; the other commands talk to it. Rates are bits per second (25G, 500M),
/// times have a unit (10ms, 60s), QPNs are decimal or 0x..
#[derive(Debug, Parser)]
#[command(name = "canopy-pacer", version)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the daemon until SIGTERM, then restores the interface.
    Run(Box<Run>),
    /// Shows the live queue pairs: the rate of each, and the sender whose limit applies.
    Status {
        #[command(flatten)]
        socket: Socket,
        /// One JSON object, with the counters.
        #[arg(long)]
        json: bool,
    },
    /// Registers a queue pair (root, the daemon's user, and its --uid).
    Open(Open),
    /// Ends the pacing of a queue pair (root, the daemon's user, and its --uid).
    Close {
        #[command(flatten)]
        socket: Socket,
        /// Local QPN.
        #[arg(long, value_name = "QPN", value_parser = qpn)]
        qpn: u32,
    },
    /// Shows the state of every queue pair, then each change as it happens.
    Watch {
        #[command(flatten)]
        socket: Socket,
        /// One JSON object per line; times are nanoseconds of CLOCK_MONOTONIC and of the wall clock.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
struct Socket {
    /// The daemon's Unix socket, an absolute path.
    #[arg(long, value_name = "PATH", default_value = DEFAULT_SOCKET)]
    socket: PathBuf,
}

#[derive(Debug, Args)]
struct Open {
    #[command(flatten)]
    socket: Socket,
    /// Local QPN.
    #[arg(long, value_name = "QPN", value_parser = qpn)]
    qpn: u32,
    /// Remote address of the queue pair: a receiver, or a group's Proxy Address.
    #[arg(long, value_name = "ADDRESS")]
    peer: Ipv6Addr,
    /// Destination QP of its packets.
    #[arg(long, value_name = "QPN", value_parser = qpn)]
    dest_qpn: u32,
    /// Maximum rate [default: the daemon's].
    #[arg(long, value_name = "RATE", value_parser = rate)]
    line_rate: Option<u64>,
    /// Minimum rate, below which no reduction goes [default: the daemon's].
    #[arg(long, value_name = "RATE", value_parser = rate)]
    min_rate: Option<u64>,
    /// RTT of its path [default: measured, and until then the daemon's].
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    rtt: Option<Duration>,
}

/// Configuration of the daemon.
#[derive(Debug, Args)]
struct Run {
    /// Interface on which RDMA packets leave.
    #[arg(long, value_name = "DEVICE")]
    interface: String,
    #[command(flatten)]
    socket: Socket,
    /// Group that may open the socket, by name or number [default: the daemon's own].
    #[arg(long, value_name = "GROUP")]
    socket_group: Option<String>,
    /// User that may open and close queue pairs, besides root and the daemon's own; repeatable.
    #[arg(long = "uid", value_name = "UID")]
    uids: Vec<u32>,
    /// Node whose Long-haul CNPs are applied; repeatable.
    #[arg(long = "node", value_name = "ADDRESS")]
    nodes: Vec<Ipv6Addr>,
    /// File with more nodes, one address per line, # for comments; read again when it changes.
    #[arg(long, value_name = "FILE")]
    nodes_file: Option<PathBuf>,
    /// Maximum rate [default: the interface's speed].
    #[arg(long, value_name = "RATE", value_parser = rate)]
    line_rate: Option<u64>,
    /// Minimum rate, below which no reduction goes [default: 1 % of the line rate].
    #[arg(long, value_name = "RATE", value_parser = rate)]
    min_rate: Option<u64>,
    /// RTT of a queue pair until it is measured.
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = humantime::parse_duration)]
    rtt: Duration,
    /// Do not measure RTTs.
    #[arg(long)]
    fixed_rtt: bool,
    /// A learned queue pair without packets for this time is removed.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = humantime::parse_duration)]
    idle: Duration,
    /// Pacing method: auto is edt if the kernel has fq, otherwise htb.
    #[arg(long, value_enum, value_name = "MEANS", default_value = "auto", conflicts_with = "no_kernel_pacing")]
    pacing: Wanted,
    /// The kernel does not pace, because the NIC or the application does: changes are only passed to --on-action and
    /// `watch`.
    #[arg(long)]
    no_kernel_pacing: bool,
    /// Replaces a root qdisc that an administrator configured, while the daemon runs.
    #[arg(long)]
    replace_qdisc: bool,
    /// Program and arguments, split at blanks, no shell: run for every change, with CANOPY_* variables.
    #[arg(long, value_name = "COMMAND")]
    on_action: Option<String>,
    /// Time limit, after which the program is killed.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = humantime::parse_duration)]
    on_action_timeout: Duration,
    /// Maximum number of them that run at the same time.
    #[arg(long, value_name = "NUMBER", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    on_action_at_once: u16,
    /// Serves Prometheus metrics at http://ADDRESS/metrics, such as [::1]:9410.
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<std::net::SocketAddr>,
    /// Log level, or directives such as info,canopy_pacer=debug.
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log_level: String,
    /// Log JSON objects, also on a terminal.
    #[arg(long)]
    log_json: bool,
}

/// Runs the command.
///
/// # Errors
/// The failure, and the remedy.
pub fn run(cli: Cli) -> anyhow::Result<()> {
    match cli.command {
        Command::Run(settings) => run::run(*settings),
        Command::Status { socket, json } => remote::status(&socket.socket, json),
        Command::Open(open) => remote::open(&open),
        Command::Close { socket, qpn } => remote::close(&socket.socket, qpn),
        Command::Watch { socket, json } => remote::watch(&socket.socket, json),
    }
}

fn qpn(text: &str) -> Result<u32, String> {
    let parsed = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u32::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("{text:?} is not a QPN: use 2..=16777214 or 0x2..0xfffffe"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
        assert_eq!((qpn("0x12"), qpn("18")), (Ok(18), Ok(18)));
        assert!(qpn("g").is_err());
        let both = ["canopy-pacer", "run", "--interface", "e", "--pacing", "htb", "--no-kernel-pacing"];
        assert!(Cli::try_parse_from(both).is_err());
    }
}
