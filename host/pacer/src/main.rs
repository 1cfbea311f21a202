// SPDX-License-Identifier: Apache-2.0
//! The `canopy-pacer` binary.

use std::process::ExitCode;

use canopy_pacer::cli::{Cli, run};
use clap::Parser;

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("canopy-pacer: {error:#}");
            ExitCode::FAILURE
        }
    }
}
