// SPDX-License-Identifier: Apache-2.0
//! Wiring of the controller: configuration, listeners, servers, signals. No decision is made here.
//!
//! [`run`] takes all its inputs as arguments ([`Parts`]), so that a test or a simulation starts the real controller on
//! its own sockets and store. [`config`] reads the settings; only `main.rs` uses process-wide state (arguments,
//! environment, signals).
//!
//! On shutdown the controller stops accepting, ends its streams, lets requests finish, then executes the commands that
//! are queued, and writes a backup of the store.

pub mod accounts;
mod caller;
pub mod config;
mod door;
mod guest;
pub mod listen;
pub mod oidc;
mod otlp;
mod patient;
mod peer_groups;
mod publishing;
mod retiring;
mod run;
mod serve;
mod socket_owner;
mod users;
mod web;

pub use listen::{Listen, Listener};
pub use otlp::SERVICE;
pub use run::{Parts, run};
pub use web::{Web, WebConfig};
