// SPDX-License-Identifier: Apache-2.0
//! `canopy-rc`: sends or receives over one Reliable Connection. See the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    match canopy_rc::cli::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("canopy-rc: {error:#}");
            ExitCode::FAILURE
        }
    }
}
