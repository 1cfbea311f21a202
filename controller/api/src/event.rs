// SPDX-License-Identifier: Apache-2.0
//! Events.

use std::net::Ipv6Addr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventItem {
    /// Grows by one with every event, also over restarts; a power cut may take the events of the last second, whose numbers are given again.
    pub sequence: u64,
    /// Nanoseconds since the Unix epoch.
    pub time_unix_ns: u64,
    /// Stable code.
    pub code: String,
    /// Node concerned.
    pub node: Option<String>,
    /// Group concerned.
    pub group: Option<String>,
    /// Branch concerned.
    #[schema(value_type = Option<String>)]
    pub branch: Option<Ipv6Addr>,
    /// Id of the request that it follows from, 32 hexadecimal digits; absent if there is none, or it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Text for operators.
    pub detail: String,
}
