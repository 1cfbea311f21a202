// SPDX-License-Identifier: Apache-2.0
//! Southbound gRPC: node agents watch their desired state and report; RDMA applications join and leave groups.
//!
//! - [`server`]: the services and gRPC health, with explicit limits (tonic has none by default).
//! - [`error`] maps every refusal to a status code, in one place.
//! - `caller` decides what a program may do with whose name; `secure` has the TLS connections of agents.
//! - `by`: who at a host joins, and which groups there are for it.
//! - `guard`: what one caller may have in flight; `whole` has the messages that are passed on, `items` how much may be in one.
//! - `leases`: memberships that end with the agent of their host.
//! - `traced`: the span of a join or a leave.
//! - `node`, `membership`, `fabric` and `identity`: one service each. Desired state travels on one `watch` per node, so a slow agent gets the
//!   newest state and never a queue.

mod by;
mod caller;
mod closing;
mod content;
pub mod error;
mod fabric;
mod guard;
mod identity;
mod items;
mod keys;
mod leases;
mod membership;
mod node;
mod secure;
mod server;
mod traced;
mod whole;

pub use caller::Caller;
pub use leases::Leases;
pub use secure::{Secure, incoming};
pub use server::{MAX_RESPONSE_BYTES, server};
pub use whole::MAX_REQUEST_BYTES;
