// SPDX-License-Identifier: Apache-2.0
//! The southbound and membership contracts: generated code and its conversions to the domain model.
//!
//! [`pb`] is what `proto/canopy/v1/*.proto` generates. `TryFrom` conversions from the wire validate everything and
//! name the field ([`canopy_model::FieldError`]); `From` conversions to the wire cannot fail.
//!
//! - [`items`]: a node's desired state as it travels and is stored: encoded items and the digest over them.
//! - [`update`]: snapshots and deltas of a node's desired state, and how an agent applies them.
//! - [`fabric`]: what a host composes path programs from, as it travels and is stored, and how it is received.
//! - the other modules hold the conversions, one file per group of messages.
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails by panicking"))]

/// Generated messages, clients and servers of package `canopy.v1`.
#[allow(missing_docs, clippy::all, unreachable_pub)]
pub mod pb {
    tonic::include_proto!("canopy.v1");
}

pub mod fabric;
pub mod items;
pub mod staged;
pub mod update;
pub mod update_error;

mod capture;
mod congestion;
mod digest;
mod field;
mod group_program;
mod identity;
mod log_level;
mod membership;
mod node_base;
mod retirement;
mod sent;
mod srh_hmac;
mod status;
mod telemetry;
#[cfg(test)]
mod testing;

pub use items::{Items, Position};
pub use membership::phase_from_wire;
pub use sent::{SentSpec, SpecHead};
pub use staged::Staged;
pub use update::{Accepted, HeldSpec, MINOR_VERSION, apply_update, delta_response, snapshot_responses};
pub use update_error::UpdateError;
