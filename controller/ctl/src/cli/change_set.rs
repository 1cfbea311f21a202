// SPDX-License-Identifier: Apache-2.0
//! Arguments of `change-set`.

use clap::{Args, Subcommand};

/// Arguments of `change-set`.
#[derive(Args)]
pub struct ChangeSetArgs {
    /// What to do.
    #[command(subcommand)]
    pub action: ChangeSetAction,
}

/// What to do with change sets: `apply` sends files that change more than 30 resources as one, which the controller carries out, also after a restart.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum ChangeSetAction {
    /// List the last ones, the newest first.
    List {
        /// Print the API's JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show one: how far it is, and what was refused.
    Show {
        /// Its id.
        id: String,
        /// Print the API's JSON.
        #[arg(long)]
        json: bool,
    },
    /// Take back what it has written, the last first. What others have written since stays, and is named (exit code 4).
    Undo {
        /// Its id.
        id: String,
        /// Do not wait until it is done.
        #[arg(long)]
        no_wait: bool,
    },
}
