// SPDX-License-Identifier: Apache-2.0
//! Certificates of agents: tokens to get one with, and revocations.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::sign_in::Credential;

/// Names an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SubjectRequest {
    /// `node/NAME` or `host/NAME`, with the name that the topology has or will have.
    pub subject: String,
}

/// A token with which one agent gets its first certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Enrollment {
    /// What the certificate will name.
    pub subject: String,
    /// `canopy1.AUTHORITY.SECRET`, for `canopy-agent enroll`. It certifies one key, and is not shown again.
    #[schema(value_type = String)]
    pub token: Credential,
    /// Time in which it works, in seconds from now. It also ends with the controller.
    pub expires_in_seconds: u64,
    /// SHA-256 of the authority's public key, hexadecimal: the same in every token of this controller.
    pub authority: String,
}

/// An agent whose certificates from before some instant are refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Revocation {
    /// What they name.
    pub subject: String,
    /// Those that are valid from before it, nanoseconds since 1970.
    pub before_unix_ns: u64,
}
