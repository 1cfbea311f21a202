// SPDX-License-Identifier: Apache-2.0
//! The command line.

mod remote;
mod run;

use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use canopy_daemon::config::{Flags, Loaded, Sources, load};
use canopy_daemon::log::LogFormat;
use canopy_host::pacing::DEFAULT_SOCKET;
use canopy_units::Rate;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::config::{Config, SYSTEM_FILE};
use crate::kernel::Wanted;

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
    ///
    /// Settings come from defaults, /etc/canopy/pacer.toml, --config FILE, CANOPY__SECTION__KEY variables and flags; each takes
    /// precedence over the ones before it. Unknown settings are errors.
    Run(Box<Run>),
    /// Inspects the configuration of the daemon.
    #[command(subcommand)]
    Config(ConfigCommand),
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

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Checks every source and prints the effective settings.
    Check(Box<Run>),
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
    #[arg(long, value_name = "RATE")]
    line_rate: Option<Rate>,
    /// Minimum rate, below which no reduction goes [default: the daemon's].
    #[arg(long, value_name = "RATE")]
    min_rate: Option<Rate>,
    /// RTT of its path [default: measured, and until then the daemon's].
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    rtt: Option<Duration>,
}

/// Settings of the daemon; each takes precedence over its key in a file or a variable.
#[derive(Debug, Args)]
struct Run {
    /// Configuration file (TOML).
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Interface on which RDMA packets leave.
    #[arg(long, value_name = "DEVICE")]
    interface: Option<String>,
    /// socket.path: the daemon's Unix socket, an absolute path.
    #[arg(long, value_name = "PATH")]
    socket: Option<String>,
    /// socket.group: group that may open the socket, by name or number [default: the daemon's own].
    #[arg(long, value_name = "GROUP")]
    socket_group: Option<String>,
    /// socket.uids: user that may open and close queue pairs, by name or number, besides root and the daemon's own; repeatable.
    #[arg(long = "uid", value_name = "USER")]
    uids: Vec<String>,
    /// nodes: node whose Long-haul CNPs are applied; repeatable.
    #[arg(long = "node", value_name = "ADDRESS")]
    nodes: Vec<Ipv6Addr>,
    /// File with more nodes, one address per line, # for comments; read again when it changes.
    #[arg(long, value_name = "FILE")]
    nodes_file: Option<String>,
    /// Socket of the host's agent, which has the nodes and the queue pairs of the host's sources.
    #[arg(long, value_name = "PATH")]
    agent: Option<String>,
    /// Maximum rate [default: the interface's speed].
    #[arg(long, value_name = "RATE")]
    line_rate: Option<String>,
    /// Minimum rate, below which no reduction goes [default: 1 % of the line rate].
    #[arg(long, value_name = "RATE")]
    min_rate: Option<String>,
    /// RTT of a queue pair until it is measured [default: 10ms].
    #[arg(long, value_name = "TIME")]
    rtt: Option<String>,
    /// Do not measure RTTs.
    #[arg(long)]
    fixed_rtt: bool,
    /// A learned queue pair without packets for this time is removed [default: 60s].
    #[arg(long, value_name = "TIME")]
    idle: Option<String>,
    /// Pacing method: auto is edt if the kernel has fq, otherwise htb [default: auto].
    #[arg(long, value_enum, value_name = "MEANS", conflicts_with = "no_kernel_pacing")]
    pacing: Option<Wanted>,
    /// The same as --pacing none: the kernel does not pace, because the NIC or the application does; changes are only passed
    /// to --on-action and `watch`.
    #[arg(long)]
    no_kernel_pacing: bool,
    /// Replaces a root qdisc that an administrator configured, while the daemon runs.
    #[arg(long)]
    replace_qdisc: bool,
    /// on_action.command: program and arguments, split at blanks, no shell: run for every change, with CANOPY_* variables.
    #[arg(long, value_name = "COMMAND")]
    on_action: Option<String>,
    /// Time limit, after which the program is killed [default: 5s].
    #[arg(long, value_name = "TIME")]
    on_action_timeout: Option<String>,
    /// Maximum number of them that run at the same time [default: 4].
    #[arg(long, value_name = "NUMBER")]
    on_action_at_once: Option<u16>,
    /// metrics.listen: serves Prometheus metrics at http://ADDRESS/metrics, such as [::1]:9410.
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    /// Format of log lines [default: auto].
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<LogFormat>,
    /// The same as --log-format json.
    #[arg(long, conflicts_with = "log_format")]
    log_json: bool,
    /// Log level, or directives such as info,canopy_pacer=debug [default: info].
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
}

impl Run {
    /// The effective settings.
    ///
    /// # Errors
    /// Any source is unreadable, has an unknown key, or a value out of range.
    fn load(self) -> anyhow::Result<Loaded<Config>> {
        let pacing = self.pacing.or(self.no_kernel_pacing.then_some(Wanted::None));
        let format = self.log_format.or(self.log_json.then_some(LogFormat::Json));
        let name = |pacing: Wanted| pacing.to_possible_value().map(|value| value.get_name().to_owned());
        let flags = Flags::default()
            .with("interface", self.interface)
            .with("socket.path", self.socket)
            .with("socket.group", self.socket_group)
            .with_all("socket.uids", &self.uids)
            .with_all("nodes", &self.nodes)
            .with("nodes_file", self.nodes_file)
            .with("agent", self.agent)
            .with("line_rate", self.line_rate)
            .with("min_rate", self.min_rate)
            .with("rtt", self.rtt)
            .with("fixed_rtt", self.fixed_rtt.then_some(true))
            .with("idle", self.idle)
            .with("pacing", pacing.and_then(name))
            .with("replace_qdisc", self.replace_qdisc.then_some(true))
            .with("on_action.command", self.on_action)
            .with("on_action.timeout", self.on_action_timeout)
            .with("on_action.at_once", self.on_action_at_once.map(i64::from))
            .with("metrics.listen", self.metrics.map(|address| address.to_string()))
            .with("log.format", format.map(LogFormat::name))
            .with("log.level", self.log_level);
        Ok(load(&Config::default(), Sources::new(SYSTEM_FILE, self.config, flags))?)
    }
}

/// Runs the command.
///
/// # Errors
/// The failure, and the remedy.
pub fn run(cli: Cli) -> anyhow::Result<()> {
    match cli.command {
        Command::Run(flags) => run::run(flags.load()?),
        Command::Config(ConfigCommand::Check(flags)) => {
            let Loaded { settings, notes } = flags.load()?;
            notes.iter().for_each(|note| eprintln!("{note}"));
            print!("{}", toml::to_string(&settings)?);
            Ok(())
        }
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
