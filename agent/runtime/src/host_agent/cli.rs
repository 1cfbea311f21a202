// SPDX-License-Identifier: Apache-2.0
//! The command line of `canopy-agent host`.

use std::path::PathBuf;

use canopy_daemon::config::{Flags, Loaded, Sources, load};
use canopy_daemon::log::LogFormat;
use clap::{Args, Parser, Subcommand};

use super::config::{HostConfig, SYSTEM_FILE};
use crate::doctor;
use crate::program::ConfigCommand;

/// Serves the applications of a host that shares no file system with its node: the same socket as a node's agent, without BPF and
/// without capabilities.
///
/// Settings come from defaults, /etc/canopy/host-agent.toml, --config FILE, CANOPY__SECTION__KEY variables and flags; each takes
/// precedence over the ones before it. Unknown settings are errors.
#[derive(Debug, Parser)]
#[command(version)]
pub(super) struct HostCli {
    #[command(flatten)]
    pub(super) flags: HostFlags,
    #[command(subcommand)]
    pub(super) command: Option<HostCommand>,
}

#[derive(Debug, Subcommand)]
pub(super) enum HostCommand {
    /// Runs the agent (the default). SIGTERM stops it; memberships last if it is back within 10 s.
    Run,
    /// Inspects the configuration.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Gets this agent's certificate with a token of `canopyctl host enroll`.
    Enroll {
        /// File with the token; "-" reads standard input. It works once, within ten minutes.
        #[arg(long, value_name = "FILE", default_value = "-")]
        token_file: PathBuf,
    },
    /// Checks the certificate, the controller and the directories, and prints how to get what is missing.
    Doctor,
}

#[derive(Debug, Args)]
pub(super) struct HostFlags {
    /// Configuration file (TOML).
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// This host's name in the topology [default: the short host name].
    #[arg(long, global = true, value_name = "NAME")]
    host: Option<String>,
    /// Controller: https://HOST:PORT, several between commas, or unix:/path/to/socket [default: unix:/run/canopy/controller.sock].
    #[arg(long, global = true, value_name = "URL")]
    controller: Option<String>,
    /// Directory of the certificate and of the memberships' owners [default: /var/lib/canopy/host-agent].
    #[arg(long, global = true, value_name = "DIR")]
    state_dir: Option<String>,
    /// Unix socket for applications [default: /run/canopy/host.sock].
    #[arg(long, global = true, value_name = "PATH")]
    host_socket: Option<String>,
    /// Format of log lines [default: auto].
    #[arg(long, global = true, value_name = "FORMAT")]
    log_format: Option<LogFormat>,
    /// Log level, or directives such as info,canopy_agent_runtime=debug [default: info].
    #[arg(long, global = true, value_name = "LEVEL")]
    log_level: Option<String>,
}

impl HostFlags {
    /// The effective settings.
    ///
    /// # Errors
    /// Any source is unreadable, has an unknown key, or a value out of range.
    pub(super) fn load(self) -> anyhow::Result<Loaded<HostConfig>> {
        let flags = Flags::default()
            .with("host", self.host)
            .with("controller", self.controller)
            .with("state_dir", self.state_dir)
            .with("host_socket.path", self.host_socket)
            .with("log.format", self.log_format.map(LogFormat::name))
            .with("log.level", self.log_level);
        let sources = Sources::new(SYSTEM_FILE, self.config, flags);
        Ok(load(&HostConfig::defaults(&doctor::hostname()), sources)?)
    }
}
