// SPDX-License-Identifier: Apache-2.0
//! Rates in the configuration.

use canopy_units::Rate;
use serde::{Deserialize, Deserializer};

/// Reads a rate, if there is one: a number of bits per second, or a text as [`Rate`] reads it.
pub(crate) fn optional_rate<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Rate>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a rate: bits per second such as \"25G\", \"500M\" or 1000000")]
    enum Written {
        Number(u64),
        Text(String),
    }
    let text = match Option::<Written>::deserialize(from)? {
        None => return Ok(None),
        Some(Written::Number(bps)) => bps.to_string(),
        Some(Written::Text(text)) => text,
    };
    text.parse().map(Some).map_err(serde::de::Error::custom)
}
