// SPDX-License-Identifier: Apache-2.0
//! Tokens of operators and their programs, and who a caller is.

use std::collections::BTreeMap;

use canopy_controller_core::role::Role;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::metadata::Principal;
use crate::sign_in::Credential;

/// A token to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct TokenInput {
    /// Its name, unique in the domain.
    pub name: String,
    /// The tenant that it is for; the whole domain when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// `metrics`, `viewer`, `operator` or `admin`; at most the caller's there.
    #[schema(value_type = String)]
    pub role: Role,
    /// How long it works, 60 to 7776000 seconds (90 days); 30 days when left out. A certificate at most 43200 seconds (12 hours), also when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_seconds: Option<u32>,
    /// A certificate is wanted, and no secret: a certificate request (RFC 2986) in PEM, made with the key that stays where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_request: Option<String>,
}

/// A token with its secret or certificate, as only the answer to its making and rotation has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewToken {
    /// `canopy_pat_` and 43 characters, to be sent as `Authorization: Bearer`. It is not shown again. Absent of a certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub token: Option<Credential>,
    /// A certificate to show in the handshake of TLS, then those of the controller's authorities, by which it is recognized, in PEM. Absent of a secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
    /// Its name.
    pub name: String,
    /// The tenant that it is for; absent: the whole domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// What it may do.
    #[schema(value_type = String)]
    pub role: Role,
    /// When it ends, nanoseconds since 1970.
    pub expires_unix_ns: u64,
    /// SHA-256 of the public key of the controller's authority, hexadecimal, by which clients over TLS recognize it; `null` where no address
    /// is served over TLS.
    pub authority: Option<String>,
}

/// A token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenItem {
    /// Its name.
    pub name: String,
    /// The tenant that it is for; absent: the whole domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// What it may do.
    #[schema(value_type = String)]
    pub role: Role,
    /// Who made it; its writes are by this principal, through the token.
    pub maker: Principal,
    /// When it was made or rotated last, nanoseconds since 1970.
    pub created_unix_ns: u64,
    /// When it ends, nanoseconds since 1970.
    pub expires_unix_ns: u64,
    /// When it was used last, nanoseconds since 1970; `null`: never. After a restart of the controller it may be a minute older.
    pub used_unix_ns: Option<u64>,
    /// It is a certificate, shown in the handshake of TLS; otherwise a secret, sent with each request.
    pub certificate: bool,
}

/// Who sends a request, as the controller sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CallerItem {
    /// Whose writes the caller's are.
    pub principal: Principal,
    /// What the caller may do in the whole domain, and so in every tenant.
    #[schema(value_type = Option<String>)]
    pub role: Option<Role>,
    /// What it may do in single tenants besides: role by name of the tenant.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, String>)]
    pub tenants: BTreeMap<String, Role>,
}
