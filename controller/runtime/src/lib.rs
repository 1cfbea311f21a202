// SPDX-License-Identifier: Apache-2.0
//! Wiring of the controller: configuration, listeners, servers, signals. No decision is made here.
//!
//! [`run`] takes everything from outside ([`Parts`]), so that a test or a simulation starts the real controller on its own
//! sockets and store. [`config`] reads the settings; `main.rs` is the only caller that has a process around it.
//!
//! At the end of its life the controller stops accepting, ends its streams, lets requests finish, then carries out the commands
//! that are queued, and writes a backup of the store.

pub mod config;
pub mod listen;
pub mod notify;
mod run;
mod serve;

pub use listen::{Listen, Listener};
pub use run::{Parts, run};
