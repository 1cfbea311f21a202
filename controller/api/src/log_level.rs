// SPDX-License-Identifier: Apache-2.0
//! Filters of log lines that hold for a while.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::metadata::Principal;

/// Which log lines are to be written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct LogLevelRequest {
    /// Whose agent. Left out: the controller itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// A level, or directives such as `info,canopy_datapath=debug`. Left out: that of the configuration again, at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// How long it holds; then that of the configuration again. 600 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_seconds: Option<u32>,
}

/// A filter in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogLevelItem {
    /// Whose agent; absent of the controller itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// A level, or directives.
    pub level: String,
    /// Who set it.
    pub by: Principal,
    /// Until when it holds, nanoseconds since the Unix epoch.
    pub until_unix_ns: u64,
    /// How long that is from now, nanoseconds.
    pub left_ns: u64,
}
