// SPDX-License-Identifier: Apache-2.0
//! Southbound gRPC: node agents watch their desired state and report; RDMA applications join and leave groups.
//!
//! - [`server`]: both services and gRPC health, with explicit limits (tonic has none by default).
//! - [`error`] maps every refusal to a status code, in one place.
//! - `node` and `membership`: one service each. Desired state travels on one `watch` per node, so a slow agent gets the
//!   newest state and never a queue.

mod closing;
mod content;
pub mod error;
mod membership;
mod node;
mod peer;
mod server;

pub use server::{MAX_REQUEST_BYTES, MAX_RESPONSE_BYTES, server};
