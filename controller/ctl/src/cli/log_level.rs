// SPDX-License-Identifier: Apache-2.0
//! Arguments of `log-level`.

use std::time::Duration;

use clap::{Args, Subcommand};

/// Arguments of `log-level`.
#[derive(Args)]
pub struct LogLevelArgs {
    /// Whose.
    #[command(subcommand)]
    pub action: LogLevelAction,
}

/// Whose log lines.
#[derive(Subcommand)]
pub enum LogLevelAction {
    /// The agent of a node.
    Agent {
        /// Name of the node.
        node: String,
        /// off, error, warn, info, debug or trace, directives such as info,canopy_datapath=debug, or default: that of the configuration, at once.
        level: String,
        /// How long, 1s to 24h.
        #[arg(long = "for", value_name = "TIME", default_value = "10m", value_parser = humantime::parse_duration)]
        time: Duration,
    },
    /// The controller.
    Controller {
        /// off, error, warn, info, debug or trace, directives such as info,canopy_store=debug, or default: that of the configuration, at once.
        level: String,
        /// How long, 1s to 24h.
        #[arg(long = "for", value_name = "TIME", default_value = "10m", value_parser = humantime::parse_duration)]
        time: Duration,
    },
    /// List the levels that hold for a while.
    List,
}
