// SPDX-License-Identifier: Apache-2.0
//! Arguments of `token`.

use std::path::PathBuf;
use std::time::Duration;

use canopy_controller_api::role::Role;
use clap::{Args, Subcommand};

/// Arguments of `token`.
#[derive(Args)]
pub struct TokenArgs {
    /// What to do.
    #[command(subcommand)]
    pub action: TokenAction,
}

/// What to do with tokens.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum TokenAction {
    /// Make a token with at most your role there. It is printed alone, once: keep it where only its program can read it.
    Create {
        /// Its name: what the audit has beside yours.
        name: String,
        /// The tenant that it is for, and no other; without one, the whole domain.
        #[arg(long, value_name = "TENANT")]
        tenant: Option<String>,
        /// metrics, viewer, operator or admin.
        #[arg(long, value_parser = str::parse::<Role>)]
        role: Role,
        /// How long it works, 1m to 90d.
        #[arg(long = "for", value_name = "TIME", default_value = "30d", value_parser = humantime::parse_duration)]
        time: Duration,
        /// Write the token into this new file, which only you can read, instead of printing it.
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// List your tokens, without their secrets; an administrator's list has those of all users.
    List {
        /// Print the API's JSON.
        #[arg(long)]
        json: bool,
    },
    /// Give a token another secret and its whole time again. The secret before works for 10 minutes more.
    Rotate {
        /// Its name.
        name: String,
        /// Replace this file, which only you can read, instead of printing the token.
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// End a token at once.
    Revoke {
        /// Its name.
        name: String,
    },
}
