// SPDX-License-Identifier: Apache-2.0
//! The southbound and membership contracts: generated code and its conversions to the domain model.
//!
//! [`pb`] is what `proto/canopy/v1/*.proto` generates. `TryFrom` conversions from the wire validate everything and
//! name the field ([`canopy_model::FieldError`]); `From` conversions to the wire cannot fail.
//!
//! - [`digest`]: 32 bytes that stand for a whole [`NodeSpec`](canopy_model::node_spec::NodeSpec), cheap to keep up to date.
//! - [`update`]: snapshots and deltas of a node's desired state: how the controller makes them, how an agent applies them.
//! - the other modules hold the conversions, one file per group of messages.
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails by panicking"))]

/// Generated messages, clients and servers of package `canopy.v1`.
#[allow(missing_docs, clippy::all, unreachable_pub)]
pub mod pb {
    tonic::include_proto!("canopy.v1");
}

pub mod digest;
pub mod update;

mod congestion;
mod field;
mod group_program;
mod membership;
mod node_base;
mod status;
mod telemetry;
#[cfg(test)]
mod testing;

pub use digest::Digest;
pub use membership::phase_from_wire;
pub use update::{UpdateError, apply_update, delta, delta_response, snapshot_response};
