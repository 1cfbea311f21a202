// SPDX-License-Identifier: Apache-2.0
//! The real daemon and the real programs on a host in a network namespace, with real packets. Needs root.
//!
//! One binary, so that it can be copied to a machine with another kernel: CANOPY_PACER names the daemon there.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod lifecycle;
mod paced;
mod pacing;
mod refused;
mod support;
