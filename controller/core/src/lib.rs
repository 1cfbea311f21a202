// SPDX-License-Identifier: Apache-2.0
//! The controller's decisions, pure: no clock, socket, task or randomness, so that the same commands and reports lead to
//! the same state everywhere.
//!
//! In come [`Command`]s (from operators and hosts) and `NodeStatus` reports (from agents); out come durable writes, one
//! `NodeSpec` per node, and views for people. [`Domain`] holds it all. Beneath it, each of these knows nothing of the
//! ones behind it:
//!
//! - `topology`: the declared network as a compact graph; `routes`: unicast routes and the rest of a node's base.
//! - `tree`: the replication tree of a group; `encoding`: how receiver lists travel; `plan`: programs from both.
//! - `alloc`: numbers that are unique while in use.
//! - `resource`: what is held and its records; `status`: plan beside reports.
//! - `threshold`: queue thresholds of a link direction from its bandwidth-delay product.
//! - `domain`: prepare, apply, restore, report, views.
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails by panicking"))]

pub mod command;
pub mod condition;
pub mod domain;
pub mod encoding;
pub mod error;
pub mod limits;
pub mod metadata;
pub mod threshold;
pub mod view;
mod ways;

mod alloc;
mod hash;
mod plan;
mod resource;
mod routes;
mod status;
#[cfg(test)]
mod testing;
mod topology;
mod tree;

pub use command::{Applied, Command, Outcome, Prepared, Write};
pub use domain::{BranchNews, Domain, Reaction};
pub use error::{DomainError, RestoreError};
