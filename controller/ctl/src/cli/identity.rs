// SPDX-License-Identifier: Apache-2.0
//! Arguments of `node` and `host`.

use clap::{Args, Subcommand};

/// Arguments of `node` and `host`.
#[derive(Args)]
pub struct IdentityArgs {
    /// What to do.
    #[command(subcommand)]
    pub action: IdentityAction,
}

/// What to do with the certificates of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum IdentityAction {
    /// Print a token with which `canopy-agent enroll` gets its certificate, once and within ten minutes.
    ///
    /// The token alone is printed to standard output: canopyctl node enroll n4 | ssh n4 canopy-agent enroll --controller https://CONTROLLER:8641
    Enroll {
        /// Its name in the topology, now or later.
        name: String,
    },
    /// Refuse every certificate and token that it has, and end its connections. What it forwards stays as it is.
    Revoke {
        /// Its name in the topology.
        name: String,
    },
}
