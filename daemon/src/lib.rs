// SPDX-License-Identifier: Apache-2.0
//! What the daemons need alike, once.
//!
//! - [`config`]: defaults, files, environment variables and flags, in one dialect; errors name the key and its source.
//! - [`log`]: format and level of log lines.
//! - [`notify`]: readiness, watchdog and end, for the service manager.
//! - [`memory`]: no core dumps, which would have keys.
//! - [`socket`]: a Unix socket that is never open to others, and that is not taken from a live process.
//! - [`connection`]: a connection whose caller is known; [`callers`]: a socket that some users may only read through.
//! - [`limits`]: what one caller can take of it.
//! - [`signals`]: the signals that end a daemon.
//! - [`clock`]: the two clocks.
//!
//! It knows neither the model nor any protocol.

pub mod callers;
pub mod clock;
pub mod config;
pub mod connection;
pub mod limits;
pub mod log;
pub mod memory;
pub mod notify;
pub mod otlp;
pub mod signals;
pub mod socket;
