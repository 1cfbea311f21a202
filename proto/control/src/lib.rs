// SPDX-License-Identifier: Apache-2.0
//! The southbound and membership contracts: generated code and its conversions to the domain model.
//!
//! [`pb`] is what `proto/canopy/v1/*.proto` generates. Conversions from the wire validate everything and
//! name the field; conversions to the wire cannot fail.

/// Generated messages, clients and servers of package `canopy.v1`.
#[allow(missing_docs, clippy::all, unreachable_pub)]
pub mod pb {
    tonic::include_proto!("canopy.v1");
}
