// SPDX-License-Identifier: Apache-2.0
//! The command line.

mod remote;
mod run;

use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use canopy_daemon::config::{Flags, Loaded, Sources, load};
use canopy_daemon::log::LogFormat;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::config::{Config, DEFAULT_SOCKET, ModeConfig, SYSTEM_FILE};

/// Gives this host's packets the path programs (SRv6 uSIDs) that lead them through the fabric.
///
/// `run` is the daemon, one for each interface; the other commands talk to it. The topology has to permit the host to send path programs
/// (`pathPrograms`), and the agent of the host (canopy-host-agent) has to run.
#[derive(Debug, Parser)]
#[command(name = "canopy-steer", version)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the daemon until SIGTERM. Packets keep their programs afterwards, until the next daemon, or `remove`.
    ///
    /// Settings come from defaults, /etc/canopy/steer.toml, --config FILE, CANOPY__SECTION__KEY variables and flags; each takes
    /// precedence over the ones before it. Unknown settings are errors.
    Run(Box<Run>),
    /// Inspects the configuration of the daemon.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Shows the destinations with path programs, and how many paths each uses.
    Status {
        #[command(flatten)]
        socket: Socket,
        /// One JSON object, with the counters.
        #[arg(long)]
        json: bool,
    },
    /// Shows the paths to a host, and what each carries (root, the daemon's user, and its --uid).
    Paths {
        #[command(flatten)]
        socket: Socket,
        /// An address of the host.
        address: Ipv6Addr,
        /// One JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Has all packets to a host take one path, until `unpin` (root, the daemon's user, and its --uid).
    Pin {
        #[command(flatten)]
        socket: Socket,
        /// An address of the host.
        address: Ipv6Addr,
        /// Number of the path, as `paths` shows it.
        #[arg(value_parser = clap::value_parser!(u32).range(1..))]
        path: u32,
    },
    /// Has packets to a host take all active paths again (root, the daemon's user, and its --uid).
    Unpin {
        #[command(flatten)]
        socket: Socket,
        /// An address of the host.
        address: Ipv6Addr,
    },
    /// Takes the BPF program off the interface and removes its maps: packets leave without path programs. The daemon must have ended.
    Remove(Box<Run>),
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

/// Settings of the daemon; each takes precedence over its key in a file or a variable.
#[derive(Debug, Args)]
struct Run {
    /// Configuration file (TOML).
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Interface on which the host's packets leave.
    #[arg(long, value_name = "DEVICE")]
    interface: Option<String>,
    /// Socket of the host's agent, which has the fabric [default: /run/canopy/host.sock].
    #[arg(long, value_name = "PATH")]
    agent: Option<String>,
    /// Name of the host in the topology, where --agent is the socket of a controller on the same machine.
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// How packets are distributed over the paths of their destination [default: pinned].
    #[arg(long, value_enum, value_name = "MODE")]
    mode: Option<ModeConfig>,
    /// Gap between two packets of a flow after which it may take another path [default: 500us].
    #[arg(long, value_name = "TIME")]
    gap: Option<String>,
    /// Paths of a destination that carry packets, 1 to 64 [default: 16].
    #[arg(long, value_name = "NUMBER")]
    paths: Option<u8>,
    /// A destination without packets for this time has no programs any more [default: 10m].
    #[arg(long, value_name = "TIME")]
    idle: Option<String>,
    /// Directory on a BPF file system in which the maps are [default: /sys/fs/bpf/canopy-steer].
    #[arg(long, value_name = "PATH")]
    pin_dir: Option<String>,
    /// probe.interval: between two probes of a path in use, 1ms to 10s; 0s: paths are not probed [default: 10ms].
    #[arg(long, value_name = "TIME")]
    probe_interval: Option<String>,
    /// probe.rate: probes a second, at most [default: 10000].
    #[arg(long, value_name = "NUMBER")]
    probe_rate: Option<u32>,
    /// probe.dscp: DSCP of probes, 0 to 63 [default: 26].
    #[arg(long, value_name = "DSCP")]
    probe_dscp: Option<u8>,
    /// socket.path: the daemon's Unix socket, an absolute path.
    #[arg(long, value_name = "PATH")]
    socket: Option<String>,
    /// socket.group: group that may open the socket, by name or number [default: the daemon's own].
    #[arg(long, value_name = "GROUP")]
    socket_group: Option<String>,
    /// socket.uids: user that may pin paths, by name or number, besides root and the daemon's own; repeatable.
    #[arg(long = "uid", value_name = "USER")]
    uids: Vec<String>,
    /// metrics.listen: serves Prometheus metrics at http://ADDRESS/metrics, such as [::1]:9411.
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    /// Format of log lines [default: auto].
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<LogFormat>,
    /// Log level, or directives such as info,canopy_steer=debug [default: info].
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
}

impl Run {
    /// The effective settings.
    ///
    /// # Errors
    /// Any source is unreadable, has an unknown key, or a value out of range.
    fn load(self) -> anyhow::Result<Loaded<Config>> {
        let name = |mode: ModeConfig| mode.to_possible_value().map(|value| value.get_name().to_owned());
        let flags = Flags::default()
            .with("interface", self.interface)
            .with("agent", self.agent)
            .with("host", self.host)
            .with("mode", self.mode.and_then(name))
            .with("gap", self.gap)
            .with("paths", self.paths.map(i64::from))
            .with("idle", self.idle)
            .with("pin_dir", self.pin_dir)
            .with("probe.interval", self.probe_interval)
            .with("probe.rate", self.probe_rate.map(i64::from))
            .with("probe.dscp", self.probe_dscp.map(i64::from))
            .with("socket.path", self.socket)
            .with("socket.group", self.socket_group)
            .with_all("socket.uids", &self.uids)
            .with("metrics.listen", self.metrics.map(|address| address.to_string()))
            .with("log.format", self.log_format.map(LogFormat::name))
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
        Command::Remove(flags) => run::remove(&flags.load()?.settings),
        Command::Config(ConfigCommand::Check(flags)) => {
            let Loaded { settings, notes } = flags.load()?;
            notes.iter().for_each(|note| eprintln!("{note}"));
            print!("{}", toml::to_string(&settings)?);
            Ok(())
        }
        Command::Status { socket, json } => remote::status(&socket.socket, json),
        Command::Paths { socket, address, json } => remote::paths(&socket.socket, address, json),
        Command::Pin { socket, address, path } => remote::pin(&socket.socket, address, path),
        Command::Unpin { socket, address } => remote::pin(&socket.socket, address, 0),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
        assert!(Cli::try_parse_from(["canopy-steer", "pin", "fd00::9", "0"]).is_err());
    }
}
