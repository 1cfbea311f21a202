// SPDX-License-Identifier: Apache-2.0
//! The command line.

use std::path::PathBuf;

use canopy_agent_runtime::config::{Config, SYSTEM_FILE};
use canopy_agent_runtime::doctor;
use canopy_agent_runtime::program::ConfigCommand;
use canopy_daemon::config::{Flags as Set, Loaded, Sources, load};
use canopy_daemon::log::LogFormat;
use clap::{Args, Parser, Subcommand};

/// Programs this node's kernel with the configuration of the Canopy controller, and reports status and telemetry.
///
/// Settings come from defaults, /etc/canopy/agent.toml, --config FILE, CANOPY__SECTION__KEY variables and flags; each takes
/// precedence over the ones before it. Unknown settings are errors.
#[derive(Debug, Parser)]
#[command(name = "canopy-agent", version)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) flags: Flags,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs the agent (the default). SIGTERM stops it; the kernel keeps forwarding.
    Run,
    /// Inspects the configuration.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Gets this agent's certificate with a token of `canopyctl node enroll`, for a controller on another machine.
    Enroll {
        /// File with the token; "-" reads standard input. It works once, within ten minutes.
        #[arg(long, value_name = "FILE", default_value = "-")]
        token_file: PathBuf,
    },
    /// Checks the kernel features that the agent needs, and prints how to get missing ones.
    Doctor,
    /// Runs the agent of one host, on that host: `canopy-agent host --help`.
    Host,
    /// Prints whether the kernel has what the controller desires, or why not (exit code 1): for a manager that replaces agents one by one.
    Ready,
    /// Keeps IPv6 multicast routing enabled while it runs. The agent starts and stops this process.
    HoldMulticast {
        /// Only while this file is there, which the agent makes where `multicast.holder` is "unit": for a container of its own.
        #[arg(long, value_name = "FILE")]
        wanted: Option<std::path::PathBuf>,
        /// Unix socket by which the agent finds this process.
        socket: std::path::PathBuf,
    },
    /// Removes everything that the agent programmed into the kernel; stop the agent first.
    Cleanup,
}

#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Configuration file (TOML).
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// This node's name in the topology [default: the short host name].
    #[arg(long, global = true, value_name = "NAME")]
    node: Option<String>,
    /// Controller: unix:/path/to/socket or https://HOST:PORT, several between commas [default: unix:/run/canopy/controller.sock].
    #[arg(long, global = true, value_name = "URL")]
    controller: Option<String>,
    /// Directory of the ledger [default: /var/lib/canopy/agent].
    #[arg(long, global = true, value_name = "DIR")]
    state_dir: Option<String>,
    /// Directory on a bpffs for programs and maps [default: /sys/fs/bpf/canopy].
    #[arg(long, global = true, value_name = "DIR")]
    pin_dir: Option<String>,
    /// Time between telemetry samples, 100ms to 1h [default: 1s].
    #[arg(long, global = true, value_name = "TIME")]
    telemetry_interval: Option<String>,
    /// Unix socket for applications of the attached hosts, "" for none [default: /run/canopy/host.sock].
    #[arg(long, global = true, value_name = "PATH")]
    host_socket: Option<String>,
    /// UDP port of STAMP reflectors, the same at all nodes [default: 862].
    #[arg(long, global = true, value_name = "PORT")]
    stamp_port: Option<String>,
    /// Time between two STAMP test packets of a link, 10ms to 1m [default: 1s].
    #[arg(long, global = true, value_name = "TIME")]
    stamp_interval: Option<String>,
    /// Sampling interval of queues, 1ms to 1s [default: 1ms].
    #[arg(long, global = true, value_name = "TIME")]
    congestion_interval: Option<String>,
    /// Whether Long-haul CNPs carry the queue metric, true or false [default: true].
    #[arg(long, global = true, value_name = "BOOL")]
    congestion_disclose: Option<String>,
    /// Address of http://ADDRESS/metrics for Prometheus, such as [::1]:9464, "" for none [default: none].
    #[arg(long, global = true, value_name = "ADDRESS")]
    metrics: Option<String>,
    /// Format of log lines [default: auto].
    #[arg(long, global = true, value_name = "FORMAT")]
    log_format: Option<LogFormat>,
    /// Log level, or directives such as info,canopy_datapath=debug [default: info].
    #[arg(long, global = true, value_name = "LEVEL")]
    log_level: Option<String>,
}

impl Flags {
    /// The effective settings.
    ///
    /// # Errors
    /// Any source is unreadable, has an unknown key, or a value out of range.
    pub(crate) fn load(self) -> anyhow::Result<Loaded<Config>> {
        let flags = Set::default()
            .with("node", self.node)
            .with("controller", self.controller)
            .with("state_dir", self.state_dir)
            .with("pin_dir", self.pin_dir)
            .with("telemetry_interval", self.telemetry_interval)
            .with("host_socket.path", self.host_socket)
            .with("stamp.port", self.stamp_port)
            .with("stamp.interval", self.stamp_interval)
            .with("congestion.interval", self.congestion_interval)
            .with("congestion.disclose", self.congestion_disclose)
            .with("metrics.listen", self.metrics)
            .with("log.format", self.log_format.map(LogFormat::name))
            .with("log.level", self.log_level);
        let sources = Sources::new(SYSTEM_FILE, self.config, flags);
        Ok(load(&Config::defaults(&doctor::hostname()), sources)?)
    }
}
