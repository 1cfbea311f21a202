// SPDX-License-Identifier: Apache-2.0
//! The agent, minus its outside world: the event loop and what it keeps on disk.
//!
//! [`run`] is one task that owns the datapath and the [`ledger::Ledger`]. It wakes for a new spec
//! (`watch`, from `canopy-agent-link`), for the datapath's own events, for timers and for shutdown. A spec goes
//! ledger -> reconcile -> status, in this order, whether it came from the controller or from the ledger at
//! start. The controller may be away for any time: the last good state keeps forwarding, and stopping the
//! agent leaves it in the kernel.
//!
//! Datapath, link, wall clock and shutdown are arguments; `src/main.rs` only wires the real ones.

pub mod config;
pub mod doctor;
mod event_loop;
pub mod host_agent;
pub mod host_socket;
mod host_watch;
pub mod leaving;
pub mod ledger;
pub mod metrics;
pub mod program;
pub mod readiness;
mod schedule;
mod stall_watch;

pub use event_loop::{Clock, Ended, LinkGone, Parts, run};
