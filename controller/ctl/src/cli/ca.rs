// SPDX-License-Identifier: Apache-2.0
//! Arguments of `ca`.

use clap::{Args, Subcommand};

/// Arguments of `ca`.
#[derive(Args)]
pub struct CaArgs {
    /// What to do.
    #[command(subcommand)]
    pub action: CaAction,
}

/// What to do with the authority.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum CaAction {
    /// Show the authority, how far its replacement is, and which agents that waits for.
    Status {
        /// Print the API's JSON, which has every agent.
        #[arg(long)]
        json: bool,
    },
    /// Begin to replace the authority: the controller makes the next one, and agents learn to trust it.
    Rotate,
    /// Let the next authority sign: agents renew their certificates within ten minutes.
    Issue(LossArgs),
    /// Trust the former authority no more: what has a certificate of it alone has to be enrolled again.
    Finish(LossArgs),
    /// Drop the next authority: possible until it signs.
    Cancel,
}

/// Agents that a step may leave behind.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct LossArgs {
    /// An agent that has to be enrolled again afterwards, node/NAME or host/NAME; given again for another one.
    #[arg(long, value_name = "AGENT")]
    pub accept_loss: Vec<String>,
}
