// SPDX-License-Identifier: Apache-2.0
//! `canopy-steer`: gives the packets of a host path programs, for a host that its topology permits to send them.
//!
//! One task ([`daemon`]) owns everything. The agent of the host has the fabric ([`agent`]), the kernel asks for destinations
//! ([`kernel`]), and the pure state machine `canopy_host_core::steering` answers with programs, which go into the maps of the BPF program
//! at the interface's egress. Operators connect by a Unix socket ([`service`]). A thread ([`prober`]) probes the paths.
//!
//! The maps are pinned and the program stays attached when the daemon ends: packets keep their programs.
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails by panicking"))]

mod agent;
pub mod cli;
mod config;
mod daemon;
mod header;
pub mod kernel;
pub mod metrics;
mod places;
mod probe;
mod prober;
mod service;
mod shown;
