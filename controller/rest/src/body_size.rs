// SPDX-License-Identifier: Apache-2.0
//! How large the body of a request may be.

use axum::extract::Request;
use axum::http::Method;

/// Largest request body, octets, but for that of a topology.
pub const MAX_BODY_BYTES: usize = 4 << 20;
/// Largest body of a topology, octets: 131,072 hosts with the links of their fabric have about 26 MB.
pub const MAX_TOPOLOGY_BYTES: usize = 64 << 20;

/// Octets that the body of this request may have.
pub(crate) fn most(request: &Request) -> usize {
    if is_topology(request) { MAX_TOPOLOGY_BYTES } else { MAX_BODY_BYTES }
}

/// Whether a request declares the topology.
pub(crate) fn is_topology(request: &Request) -> bool {
    request.method() == Method::PUT && request.uri().path() == "/api/v1/topology"
}
