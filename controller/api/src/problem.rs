// SPDX-License-Identifier: Apache-2.0
//! Refusals: problem documents (RFC 9457).

use canopy_model::FieldError;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Members of the problem document beyond RFC 9457's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Extensions {
    /// Stable code, for example `Invalid`, `NotFound`, `PreconditionFailed`.
    pub code: String,
    /// The invalid fields; absent if the problem is not about fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
    /// Id of the request: 32 hexadecimal digits, as in the header `Canopy-Request-Id`, the controller's log and the audit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// The problem document as it is sent, for the API description.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Problem)]
pub struct Problem {
    /// HTTP status code.
    pub status: u16,
    /// The status code in words.
    pub title: String,
    /// The cause and what to do.
    pub detail: String,
    /// Code and fields.
    #[serde(flatten)]
    pub extensions: Extensions,
}
