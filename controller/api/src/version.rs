// SPDX-License-Identifier: Apache-2.0
//! The version of a controller.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ApiVersion;

/// Version of this controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    /// Controller's version.
    pub version: String,
    /// API's version.
    #[schema(value_type = String)]
    pub api_version: ApiVersion,
    /// Term of this controller, taken at its start.
    pub term: u64,
}
