// SPDX-License-Identifier: Apache-2.0
//! Arguments of `certificate`.

use std::path::PathBuf;
use std::time::Duration;

use canopy_controller_api::role::Role;
use clap::{Args, Subcommand};

/// Arguments of `certificate`.
#[derive(Args)]
pub struct CertificateArgs {
    /// What to do.
    #[command(subcommand)]
    pub action: CertificateAction,
}

/// What to do with certificates of operators.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum CertificateAction {
    /// Make a key on this machine, in a new file that only you can read, and print the request to certify it.
    Request {
        /// The new file.
        #[arg(long, value_name = "FILE")]
        file: PathBuf,
    },
    /// Certify the key of the request on standard input, on the controller's machine, and print the certificate: see `token list` and `token revoke`.
    Create {
        /// Its name: what the audit has beside yours.
        name: String,
        /// The tenant that it is for, and no other; without one, the whole domain.
        #[arg(long, value_name = "TENANT")]
        tenant: Option<String>,
        /// metrics, viewer, operator or admin; at most yours there.
        #[arg(long, value_parser = str::parse::<Role>)]
        role: Role,
        /// How long it works, 1m to 12h.
        #[arg(long = "for", value_name = "TIME", default_value = "12h", value_parser = humantime::parse_duration)]
        time: Duration,
    },
    /// Add the certificate on standard input to the file with its key.
    Store {
        /// The file.
        #[arg(long, value_name = "FILE")]
        file: PathBuf,
    },
}
