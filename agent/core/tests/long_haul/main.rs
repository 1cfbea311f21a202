// SPDX-License-Identifier: Apache-2.0
//! Long-haul congestion control as a closed loop: real sources ([`Pacing`]) and real nodes ([`Node`]), between them a path
//! of queues and links in which octets flow in steps of 100 us. Every run is the same: times and octets are integers, and
//! what is random comes from a seed. `CANOPY_DEEP=1` runs twenty times more seeds. Figures are printed (`--nocapture`).
//!
//! [`Pacing`]: canopy_agent_core::pacing::Pacing
//! [`Node`]: canopy_agent_core::congestion::Node

// What fails here fails a test.
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
