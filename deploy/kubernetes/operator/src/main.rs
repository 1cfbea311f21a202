// SPDX-License-Identifier: Apache-2.0
//! The binary: arguments in, exit code out.

use std::process::ExitCode;

use canopy_operator::cli::{Cli, start};
use clap::Parser;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    canopy_daemon::memory::keep_private();
    match start(Cli::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("canopy-operator: {error:#}");
            ExitCode::FAILURE
        }
    }
}
