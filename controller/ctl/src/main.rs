// SPDX-License-Identifier: Apache-2.0
//! The binary: arguments in, exit code out.

use std::process::ExitCode;

use canopy_ctl::cli::Cli;
use clap::Parser;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    // clap prints usage errors itself and ends with 2, the code of the table in --help.
    let cli = Cli::parse();
    match canopy_ctl::run(cli, &mut std::io::stdout().lock()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(failure.exit.code())
        }
    }
}
