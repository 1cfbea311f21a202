// SPDX-License-Identifier: Apache-2.0
//! Long-haul congestion on the kernel (draft-tian-ccwg-long-haul-cnp-00 sections 5 and 6): the egress program, its counters and
//! events, the congestion detection, and the Long-haul CNPs that the node sends.
//!
//! - `tables`: the maps of the egress program; `rings`: its ring buffers;
//! - `queues`: queue depths through netlink;
//! - `config`: the watched ports and known flows of a spec;
//! - `driver`: feeds counters and events to the pure state machine of `canopy_agent_core::congestion`;
//! - `watch`: the thread that runs it; `cnp`: Long-haul CNPs;
//! - `window`, `report`: telemetry.

mod cnp;
pub(crate) mod config;
mod driver;
mod keys;
mod queues;
mod report;
mod rings;
mod tables;
mod watch;
mod window;

pub(crate) use config::{GroupFlows, WatcherConfig};
pub(crate) use queues::Queues;
pub(crate) use report::report;
pub(crate) use tables::Egress;
pub(crate) use watch::Watcher;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
