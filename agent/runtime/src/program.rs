// SPDX-License-Identifier: Apache-2.0
//! What the programs of this crate have in common: runtime, randomness, enrollment, what they print.

mod enrolling;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use anyhow::Context;
use canopy_machine::Check;
use canopy_units::{Monotonic, nanos};
use clap::Subcommand;
use nix::time::{ClockId, clock_gettime};

pub use enrolling::enroll;

/// How long calls of applications may take to finish at shutdown.
pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);

/// Version of this build.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What can be done with a configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Checks every source and prints the effective settings.
    Check,
}

/// One thread for the event loop, which makes blocking system calls, and one for the link.
///
/// # Errors
/// The threads cannot be made.
pub fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let built = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    built.context("starting the runtime")
}

/// Uniform in `[0, 1)`, from the random keys of a hasher: sufficient to spread the agents' reconnects.
pub fn random() -> f64 {
    (RandomState::new().build_hasher().finish() >> 11) as f64 / (1_u64 << 53) as f64
}

/// The clock that continues while the machine sleeps, since its start. Without one, everything that has an end has ended.
pub fn since_boot() -> Monotonic {
    clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(Monotonic::NEVER, |at| Monotonic::from_nanos(nanos(at.into())))
}

/// Prints what `doctor` found, for people.
pub fn print_checks<'a>(checks: impl IntoIterator<Item = &'a Check>) {
    for check in checks {
        println!("{}  {}: {}", if check.is_met() { "ok     " } else { "MISSING" }, check.name, check.found);
        if let Some(fix) = check.fix() {
            println!("         to get it: {fix}");
        }
    }
}
