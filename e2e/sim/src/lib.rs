// SPDX-License-Identifier: Apache-2.0
//! A seeded simulator of the reverse path of one multicast group, in simulated time.
//!
//! One requester, a tree of nodes that each run [`canopy_reference::aggregate::Aggregation`], and up to 1,024
//! responders, over links that lose, repeat, reorder and fail, while receivers join, leave, die and move. The
//! requester and the responders are `canopy-rc`'s state machines. One generator makes every random choice: a seed
//! determines a run.
//!
//! Parts, from the inside out:
//!
//! - [`chance`] (the generator), [`config`] (parameters, given or drawn from the seed);
//! - [`net`] (time, links), [`source`], [`receiver`], [`machine`] (the aggregation, or a wrong one), [`tree`];
//! - [`schedule`] (which faults, when), [`oracle`] (the invariants), [`forge`] (feedback that must change nothing);
//! - [`run`], the event loop, with `passage` (packets arrive), `control` (faults, and the controller's changes of the
//!   tree) and `moves`; [`report`] and [`campaign`], the results.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod action;
pub mod campaign;
pub mod chance;
pub mod config;
mod control;
pub mod forge;
pub mod machine;
mod moves;
pub mod net;
pub mod oracle;
mod passage;
pub mod receiver;
pub mod report;
pub mod run;
pub mod schedule;
pub mod source;
pub mod tree;

pub use config::Config;
pub use report::Report;
pub use run::{run, run_traced};
