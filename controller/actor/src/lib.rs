// SPDX-License-Identifier: Apache-2.0
//! The domain, its store and the task that serializes changes: what both APIs share.
//!
//! One task owns the way from command to durable record: prepare -> commit (blocking, off the async threads) -> apply -> publish; commands
//! that wait share a commit, and are applied before it. Nothing is answered and nothing is pushed to a node before the commit is durable,
//! and what is read directly of the domain leaves the process only once it is [settled](Controller::settled). A crash between commit
//! and apply is a restart that reads the records.
//!
//! - [`start`] restores the domain and spawns the task; [`Controller`] is the handle, which is cheap to clone.
//! - Channels: commands in one bounded queue; each node's desired state on a `watch` per node; names of what the APIs show and has
//!   changed, each once, in [`news`].
//! - [`telemetry`] and [`events`] keep what nodes report, in memory only and bounded; [`charts`] keeps what it was over the last hour,
//!   `incidents` what it was when a problem opened, in files beside the store.

mod acts;
mod assessing;
mod attempts;
mod batch;
pub mod books;
pub mod captures;
pub mod change_sets;
mod changing;
pub mod charts;
pub mod commit;
pub mod commit_times;
mod committing;
mod controller;
mod deletions;
mod desired;
pub mod difference;
mod drains;
mod due;
pub mod error;
pub mod events;
mod fabric;
pub mod health;
mod history;
mod hmac;
mod incidents;
mod intent;
pub mod joins;
pub mod journal;
mod link_views;
mod links;
pub mod log_levels;
mod map;
mod moves;
pub mod news;
pub mod once;
mod order;
mod phases;
mod policy;
pub mod preview;
mod record;
pub mod retirements;
mod shares;
mod silences;
mod start;
mod task;
pub mod telemetry;
mod term;
mod thresholds;
pub mod traces;

pub use controller::{AgentConnection, Controller, Done};
pub use error::{CommandError, RestoreError, StartError};
pub use history::AuditFilter;
pub use intent::{Intent, Spec, Target};
pub use order::{Manager, Order, Precondition};
pub use start::{Running, start, start_with};
