// SPDX-License-Identifier: Apache-2.0
//! Chart data: what was measured over the last minutes and hours.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{ApiVersion, Kind};

/// Charts of one object, all over the same time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Charts {
    /// `canopy/v1`.
    #[schema(value_type = String)]
    pub api_version: ApiVersion,
    /// `Charts`.
    #[schema(value_type = String)]
    pub kind: Kind,
    /// Start of the first step, nanoseconds since the Unix epoch.
    pub start_unix_ns: u64,
    /// Seconds per step.
    pub step_seconds: u64,
    /// The series.
    pub series: Vec<ChartSeries>,
}

/// One series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChartSeries {
    /// Of what: `fleet`, `group/G`, `branch/G/NODE/ADDRESS`, `link/NODE/PORT` or `node/NODE`.
    pub object: String,
    /// What was measured.
    pub series: String,
    /// Its unit.
    pub unit: ChartUnit,
    /// One per step: mean and maximum; `null` is a gap: nothing was measured.
    #[schema(value_type = Vec<Option<Vec<f32>>>)]
    pub points: Vec<Option<[f32; 2]>>,
}

/// Unit of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum ChartUnit {
    /// Octets per second.
    BytesPerSecond,
    /// Things per second.
    PerSecond,
    /// Packets.
    Packets,
    /// Octets.
    Bytes,
    /// Seconds.
    Seconds,
    /// 0 to 1.
    Share,
    /// A number of things.
    Count,
}
