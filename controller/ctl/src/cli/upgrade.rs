// SPDX-License-Identifier: Apache-2.0
//! Arguments of `upgrade`.

use std::num::NonZeroUsize;

use clap::{Args, Subcommand, ValueEnum};

use crate::upgrade::release::Release;

/// Arguments of `upgrade`.
#[derive(Args)]
pub struct UpgradeArgs {
    /// What to do.
    #[command(subcommand)]
    pub action: UpgradeAction,
}

/// What to do about versions.
#[derive(Subcommand)]
pub enum UpgradeAction {
    /// Print the order: who is upgraded when, and which agents at the same time. Changes nothing.
    ///
    /// Versions work together if their minor versions are equal or follow one another. A version that would meet another one is refused, with the names of
    /// those that have to be upgraded before. While the nodes of one batch are away, the others still reach each other.
    #[command(
        after_help = "Exit codes: 0 the order is printed; 1 the version is refused, or the controller does not answer."
    )]
    Plan {
        /// Version to upgrade to, or to return to, such as 0.2.0; by default that of this program.
        #[arg(long, value_name = "VERSION", default_value = env!("CARGO_PKG_VERSION"))]
        to: Release,
        /// Agents of one batch, at most; by default a quarter of those that change. The first batch has one.
        #[arg(long, value_name = "AGENTS")]
        batch: Option<NonZeroUsize>,
        /// Output format.
        #[arg(short, long, value_enum, default_value_t)]
        output: PlanOutput,
    },
}

/// Formats of `upgrade plan`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PlanOutput {
    /// For a terminal.
    #[default]
    Text,
    /// `{"to", "steps": [{"upgrade": "controller"|"agents", "names"}], "unknown"}`.
    Json,
}
