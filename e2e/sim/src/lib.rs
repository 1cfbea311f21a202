// SPDX-License-Identifier: Apache-2.0
//! A seeded simulator of one multicast group, in simulated time.
//!
//! The controller is `canopy-controller-core`'s domain on records in memory. Every node has an agent, which gets specs
//! late, or not before it runs again, and carries them out in the steps of the real one; its data path runs
//! [`canopy_reference::aggregate::Aggregation`]. One requester sends to up to 1,024 responders, which are `canopy-rc`'s
//! state machines, over links that lose, repeat, reorder and fail, while receivers join, leave and fail, trees move,
//! nodes lose their state, and controller and agents restart. One generator makes every random choice: a seed determines
//! a run.
//!
//! Parts, from the inside out:
//!
//! - [`chance`] (the generator), [`config`] (parameters, given or drawn from the seed), [`shape`] (networks);
//! - [`fabric`] (devices and ports), [`net`] (time, links), [`source`], [`receiver`];
//! - [`machine`] (the aggregation, or a wrong one), [`kernel`] (a node's data path), [`program`] (from a node's program
//!   to changes of it), [`agent`], [`controller`];
//! - [`schedule`] (which faults, when), [`oracle`] (the invariants), [`forge`] (frames that must change nothing);
//! - [`run`], the event loop, with `passage` (frames arrive), `south` (between controller and agents) and `control`
//!   (faults and commands); [`report`] and [`campaign`], the results.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod action;
pub mod agent;
pub mod campaign;
pub mod chance;
pub mod config;
mod control;
pub mod controller;
pub mod fabric;
pub mod forge;
pub mod kernel;
pub mod machine;
pub mod net;
pub mod oracle;
mod passage;
pub mod program;
pub mod receiver;
pub mod report;
pub mod run;
pub mod schedule;
pub mod shape;
pub mod source;
mod south;

pub use config::Config;
pub use report::Report;
pub use run::{run, run_traced};
