// SPDX-License-Identifier: Apache-2.0
//! `canopy-pacer`: the source side of Long-haul congestion control for a host whose RDMA software does not support
//! it.
//!
//! One task ([`daemon`]) owns everything. Notifications come from the kernel's ring buffer ([`bpf`]), are validated
//! ([`notice`]) and go into the [`engine`], which holds the queue pairs and the pure state machine
//! `canopy_host_core::pacing`. Its changes are applied in the kernel ([`kernel`]), sent to watching clients
//! ([`service`]) and passed to a program ([`hook`]). Applications and operators connect by a Unix socket
//! ([`canopy_daemon::callers`]); the agent of the host ([`agent`]) has the nodes and the queue pairs of the host's sources.
//!
//! Dependencies: packet, model, control, the agent's pure core, and `canopy-host` for the command line; none on the
//! controller or on the agent's edges.

mod agent;
pub mod bpf;
pub mod cli;
mod config;
mod daemon;
pub mod engine;
mod hook;
mod kernel;
mod learn;
pub mod metrics;
mod nodes;
pub mod notice;
mod service;
mod shown;
mod tally;
mod units;

use canopy_daemon::clock;
