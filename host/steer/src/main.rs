// SPDX-License-Identifier: Apache-2.0
//! The `canopy-steer` binary.

use std::process::ExitCode;

use canopy_steer::cli::{Cli, run};
use clap::Parser;

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("canopy-steer: {error:#}");
            ExitCode::FAILURE
        }
    }
}
