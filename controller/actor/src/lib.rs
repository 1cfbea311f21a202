// SPDX-License-Identifier: Apache-2.0
//! The domain with a store behind it and the world around it: what both APIs share.
//!
//! One task owns the way from command to durable record: prepare -> commit (blocking, off the async threads) -> apply -> publish.
//! Nothing is answered and no node is told anything before the commit is durable, and a crash between the two
//! is a restart that finds the records. Reads go to the domain directly.
//!
//! - [`start`] restores the domain and spawns the task; [`Controller`] is the handle that everyone clones.
//! - Channels: commands in one bounded queue; a node's state out on a `watch` per node; one `watch` counter that says
//!   "something that people look at changed".
//! - [`telemetry`] and [`events`] keep what nodes report, in memory only and bounded.

mod controller;
pub mod error;
pub mod events;
mod links;
mod moves;
mod policy;
mod start;
pub mod tag;
mod task;
pub mod telemetry;
mod thresholds;

pub use controller::{AgentConnection, Controller, Done};
pub use error::{CommandError, StartError};
pub use start::{Running, start, start_with};
