// SPDX-License-Identifier: Apache-2.0
//! The controller's decisions as a pure function: no clock, socket, task or randomness, so that the same commands and
//! reports lead to the same state on every machine.
//!
//! Input: [`Command`]s (from operators and hosts) and `NodeStatus` reports (from agents). Output: durable writes, one
//! `NodeSpec` per node, and API views. [`Domain`] holds the state. Each of the following modules depends only on those
//! listed before it:
//!
//! - `topology`: the declared network as a compact graph; `routes`: unicast routes and the rest of a node's base.
//! - `tree`: the replication tree of a group; `encoding`: how receiver lists travel; `plan`: programs from both.
//! - `alloc`: numbers that are unique while in use.
//! - `resource`: resources in memory and their records; `status`: plan compared with reports.
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

mod alloc;
mod hash;
mod plan;
mod receivers_by_edge;
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
