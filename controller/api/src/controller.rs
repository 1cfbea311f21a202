// SPDX-License-Identifier: Apache-2.0
//! The controller itself: which one it is, and how its store does.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::log_level::LogLevelItem;
use crate::metadata::Metadata;
use crate::{ApiVersion, Kind};

/// A controller of the domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControllerResource {
    /// `canopy/v1`.
    #[schema(value_type = String)]
    pub api_version: ApiVersion,
    /// `Controller`.
    #[schema(value_type = String)]
    pub kind: Kind,
    /// Its name.
    pub metadata: Metadata,
    /// What is known of it.
    pub status: ControllerStatus,
}

impl ControllerResource {
    /// The one of the domain.
    pub fn new(status: ControllerStatus) -> Self {
        let metadata = Metadata::derived("controller".to_owned(), 1);
        Self { api_version: ApiVersion, kind: Kind::Controller, metadata, status }
    }
}

/// State of a controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControllerStatus {
    /// Its version.
    pub version: String,
    /// Term that it took at its start.
    pub term: u64,
    /// How long it has been running, nanoseconds.
    pub uptime_ns: u64,
    /// Its durable store.
    pub store: StoreStatus,
    /// The filter of log lines that an operator has set for a while; absent while that of its configuration holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_level: Option<LogLevelItem>,
}

/// State of a controller's store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoreStatus {
    /// `sled`, `redb` or `memory`.
    pub engine: String,
    /// Octets of its database's files; absent of a store in memory, and if the files cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub octets: Option<u64>,
    /// Commits since it was made; 0 if it does not answer.
    pub revision: u64,
    /// Why it takes no changes; absent while it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only: Option<String>,
    /// Commits that the newest backup beside the store holds, which restores it after damage; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup_revision: Option<u64>,
    /// When that backup was written, nanoseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup_unix_ns: Option<u64>,
    /// The commits whose times follow: those since the start, 1,024 at most.
    pub measured_commits: u32,
    /// Half of them were durable within so many nanoseconds; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit_p50_ns: Option<u64>,
    /// 99 of 100 were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit_p99_ns: Option<u64>,
}
