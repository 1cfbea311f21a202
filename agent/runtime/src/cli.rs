// SPDX-License-Identifier: Apache-2.0
//! The command line.

use std::path::{Path, PathBuf};

use anyhow::bail;
use canopy_agent_runtime::config::{
    Config, CongestionLayer, HostSocketLayer, Layer, LogFormat, LogLayer, Number, SYSTEM_FILE, StampLayer, Switch,
    VARIABLE_PREFIX,
};
use canopy_agent_runtime::doctor;
use clap::{Args, Parser, Subcommand};

/// Programs this node's kernel with the configuration of the Canopy controller, and reports status and telemetry.
///
/// Settings come from defaults, /etc/canopy/agent.toml, --config FILE, CANOPY__KEY variables (CANOPY__LOG__LEVEL)
/// and flags; each overrides the ones before it.
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
    /// Checks the kernel features that the agent needs, and prints how to get missing ones.
    Doctor,
    /// Keeps IPv6 multicast routing enabled while it runs. The agent starts and stops this process.
    HoldMulticast,
    /// Removes everything that the agent programmed into the kernel; stop the agent first.
    Cleanup,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Checks every source and prints the effective settings.
    Check,
}

#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Configuration file (TOML).
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// This node's name in the topology [default: the short host name].
    #[arg(long, global = true, value_name = "NAME")]
    node: Option<String>,
    /// Controller: unix:/path/to/socket or http://127.0.0.1:PORT [default: unix:/run/canopy/controller.sock].
    #[arg(long, global = true, value_name = "URL")]
    controller: Option<String>,
    /// Directory of the ledger [default: /var/lib/canopy/agent].
    #[arg(long, global = true, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Directory on a bpffs for programs and maps [default: /sys/fs/bpf/canopy].
    #[arg(long, global = true, value_name = "DIR")]
    pin_dir: Option<PathBuf>,
    /// Time between telemetry samples, 100ms to 1h [default: 1s].
    #[arg(long, global = true, value_name = "TIME")]
    telemetry_interval: Option<String>,
    /// Unix socket for applications of the attached hosts, "" for none [default: /run/canopy/host.sock].
    #[arg(long, global = true, value_name = "PATH")]
    host_socket: Option<PathBuf>,
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
    pub(crate) fn load(self) -> anyhow::Result<Config> {
        let flags = Layer {
            node: self.node,
            controller: self.controller,
            state_dir: self.state_dir,
            pin_dir: self.pin_dir,
            telemetry_interval: self.telemetry_interval,
            host_socket: HostSocketLayer { path: self.host_socket, ..HostSocketLayer::default() },
            stamp: StampLayer { port: self.stamp_port.map(Number::Text), interval: self.stamp_interval },
            congestion: CongestionLayer {
                interval: self.congestion_interval,
                disclose: self.congestion_disclose.map(Switch::Text),
            },
            log: LogLayer { format: self.log_format, level: self.log_level },
        };
        let mut variables = vec![];
        for (name, value) in std::env::vars_os() {
            let Some(name) = name.to_str().filter(|name| name.starts_with(VARIABLE_PREFIX)) else { continue };
            let Ok(value) = value.into_string() else { bail!("environment variable {name}: the value is not UTF-8") };
            variables.push((name.to_owned(), value));
        }
        let file = self.config.as_deref();
        Ok(Config::load(Path::new(SYSTEM_FILE), file, variables.into_iter(), flags, &doctor::hostname())?)
    }
}
