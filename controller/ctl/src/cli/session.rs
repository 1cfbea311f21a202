// SPDX-License-Identifier: Apache-2.0
//! Arguments of `session`.

use clap::{Args, Subcommand};

/// Arguments of `session`.
#[derive(Args)]
pub struct SessionArgs {
    /// What to do.
    #[command(subcommand)]
    pub action: SessionAction,
}

/// What to do with sessions of the web UI.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum SessionAction {
    /// List your sessions; an administrator's list has those of all.
    List {
        /// Print the API's JSON.
        #[arg(long)]
        json: bool,
    },
    /// End a session at once, with the streams that it has open.
    Revoke {
        /// Its number in the list.
        id: u64,
    },
}
