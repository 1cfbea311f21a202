// SPDX-License-Identifier: Apache-2.0
//! Long-haul congestion control as a closed loop: real sources ([`Pacing`]) and real nodes ([`Node`]), connected by a path
//! of queues and links in which octets flow in steps of 100 us. Runs are reproducible: times and octets are integers, and
//! random choices come from a seed. `CANOPY_DEEP=1` runs twenty times more seeds. Figures are printed (`--nocapture`).
//!
//! [`Pacing`]: canopy_host_core::pacing::Pacing
//! [`Node`]: canopy_agent_core::congestion::Node

// A panic fails the test.
#![allow(clippy::unwrap_used)]

mod distance;
mod duplicates;
mod escalation;
mod fluid;
mod hop;
mod host;
mod mixed;
mod record;
mod safety;
mod seeds;
mod spec;
mod world;
