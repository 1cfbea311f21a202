// SPDX-License-Identifier: Apache-2.0
//! The whole controller in this process, on sockets and a store in a temporary directory, with simulated agents. One program, since each
//! links the whole controller; what needs a process of its own is beside it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod attestation;
mod captures;
mod end_to_end;
mod fabric;
mod identities;
mod leases;
mod lives;
mod node_reports;
mod queues;
mod remote;
mod replacement;
mod roles;
mod sets;
mod southbound;
mod streams;
#[path = "../support/mod.rs"]
mod support;
