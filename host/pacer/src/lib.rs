// SPDX-License-Identifier: Apache-2.0
//! `canopy-pacer`: the source side of Long-haul congestion on a host whose RDMA software knows nothing of it.
//!
//! One task ([`daemon`]) owns everything. Notifications come from the kernel's ring buffer ([`bpf`]), are judged
//! ([`notice`]) and go into the [`engine`], which holds the queue pairs and the pure machine
//! `canopy_agent_core::pacing`. What comes out is carried out in the kernel ([`kernel`]), told to those who watch
//! ([`service`]) and given to a program ([`hook`]). Applications and operators come in by a Unix socket ([`socket`]).
//!
//! Arrows: packet, model, control, the agent's pure core, and `canopy-host` for the command line. Nothing of the
//! controller, nothing of the agent's edges.

pub mod bpf;
pub mod cli;
mod clock;
mod codec;
mod daemon;
pub mod engine;
mod hook;
mod kernel;
mod learn;
mod metrics;
mod nodes;
pub mod notice;
mod service;
mod socket;
mod tally;
mod units;
