// SPDX-License-Identifier: Apache-2.0
//! The `congestion` table: how the node samples its queues (draft-tian-ccwg-long-haul-cnp-00 sections 5.3 and 6).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{ConfigError, Layer, as_duration, duration, pick};

/// Sampling of queues, and disclosure of the metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Congestion {
    /// Interval over which ECN marking rate and queue growth rate are measured, 1 ms ..= 1 s.
    #[serde(serialize_with = "as_duration")]
    pub interval: Duration,
    /// Whether Long-haul CNPs carry the metric that triggered them; otherwise Metric Type and Value are zero.
    pub disclose: bool,
}

/// The `congestion` table of one source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs, reason = "the fields are documented where they end up, in Congestion")]
pub struct CongestionLayer {
    pub interval: Option<String>,
    pub disclose: Option<Switch>,
}

/// A boolean in a file, text in a variable or flag.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "expected true or false")]
pub enum Switch {
    /// From a file.
    Bool(bool),
    /// From a variable or a flag.
    Text(String),
}

impl CongestionLayer {
    pub(super) fn defaults() -> Self {
        Self { interval: Some("1ms".to_owned()), disclose: Some(Switch::Bool(true)) }
    }
}

impl Congestion {
    pub(super) fn resolve(layers: &[(String, Layer)]) -> Result<Self, ConfigError> {
        let interval = |text| duration(text, Duration::from_millis(1), Duration::from_secs(1));
        Ok(Self {
            interval: pick(layers, "congestion.interval", |layer| layer.congestion.interval.clone(), interval)?,
            disclose: pick(layers, "congestion.disclose", |layer| layer.congestion.disclose.clone(), switch)?,
        })
    }
}

fn switch(switch: Switch) -> Result<bool, String> {
    match switch {
        Switch::Bool(on) => Ok(on),
        Switch::Text(text) => text.parse().map_err(|_| format!("{text:?} is neither true nor false")),
    }
}
