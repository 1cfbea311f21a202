// SPDX-License-Identifier: Apache-2.0
//! Settings: defaults < /etc/canopy/controller.toml < `--config FILE` < `CANOPY__SECTION__KEY` < flags. Unknown keys are errors.

mod layers;

use std::path::PathBuf;

use canopy_controller_core::threshold::{
    DEFAULT_ALPHA_PERMILLE, DEFAULT_K_BASE_BYTES, MIN_K_BASE_BYTES, ThresholdSettings,
};
use canopy_model::addressing::AddressPlan;
use canopy_model::{FieldError, FieldErrors};
use serde::{Deserialize, Serialize};

pub use layers::{Layer, load};

use crate::listen::Listen;

/// Read if it exists.
pub const SYSTEM_FILE: &str = "/etc/canopy/controller.toml";

/// Listen addresses per API, at most.
const MAX_LISTENERS: usize = 16;

/// All settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Config {
    /// The store of the intents.
    pub store: StoreConfig,
    /// Southbound API, for agents and RDMA applications.
    pub grpc: GrpcConfig,
    /// Northbound API, for operators.
    pub rest: RestConfig,
    /// Prefixes that addresses and SIDs are allocated from. Must not be changed while groups exist.
    pub addressing: AddressPlan,
    /// Queue thresholds of links that do not have their own settings.
    pub thresholds: ThresholdConfig,
    /// Logging.
    pub log: LogConfig,
}

/// Section `store`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct StoreConfig {
    /// Directory of the embedded store.
    pub path: PathBuf,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self { path: "/var/lib/canopy/controller".into() }
    }
}

/// Section `grpc`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct GrpcConfig {
    /// `unix:/path` or `loopback-address:port`; one or a list.
    #[serde(deserialize_with = "one_or_many")]
    pub listen: Vec<Listen>,
}

impl Default for GrpcConfig {
    fn default() -> Self {
        Self { listen: vec![Listen::Unix("/run/canopy/controller.sock".into())] }
    }
}

/// Section `rest`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RestConfig {
    /// `unix:/path` or `loopback-address:port`; one or a list.
    #[serde(deserialize_with = "one_or_many")]
    pub listen: Vec<Listen>,
}

impl Default for RestConfig {
    fn default() -> Self {
        Self { listen: vec![Listen::Tcp(([127, 0, 0, 1], 8640).into())] }
    }
}

/// Section `thresholds`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ThresholdConfig {
    /// alpha in thousandths, 1..=65535.
    #[serde(deserialize_with = "number")]
    pub alpha: u16,
    /// K_base in octets, 4198 and more.
    #[serde(deserialize_with = "number")]
    pub k_base_bytes: u64,
}

impl Default for ThresholdConfig {
    fn default() -> Self {
        Self { alpha: DEFAULT_ALPHA_PERMILLE, k_base_bytes: DEFAULT_K_BASE_BYTES }
    }
}

impl From<ThresholdConfig> for ThresholdSettings {
    fn from(config: ThresholdConfig) -> Self {
        Self { alpha_permille: config.alpha, k_base_bytes: config.k_base_bytes }
    }
}

/// Section `log`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct LogConfig {
    /// Format of log lines.
    pub format: LogFormat,
    /// Filter in the syntax of tracing, for example `info,canopy_controller_grpc=debug`.
    pub filter: String,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { format: LogFormat::Auto, filter: "info".into() }
    }
}

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LogFormat {
    /// Pretty on a terminal, JSON elsewhere.
    #[default]
    Auto,
    /// Human-readable.
    Pretty,
    /// One JSON object per line.
    Json,
}

impl Config {
    /// Checks constraints that the types do not express.
    ///
    /// # Errors
    /// Every invalid field.
    pub fn validate(&self) -> Result<(), FieldErrors> {
        let mut errors = FieldErrors::default();
        if let Err(e) = self.addressing.validate() {
            errors.0.extend(e.0);
        }
        if !self.store.path.is_absolute() {
            errors.push("store.path", format!("{:?} is not an absolute path", self.store.path));
        }
        if self.thresholds.alpha == 0 {
            errors.push("thresholds.alpha", "is 0: use thousandths, 1..=65535");
        }
        if self.thresholds.k_base_bytes < MIN_K_BASE_BYTES {
            let why = format!("{} octets hold no frame: use {MIN_K_BASE_BYTES} or more", self.thresholds.k_base_bytes);
            errors.push("thresholds.kBaseBytes", why);
        }
        if self.grpc.listen.is_empty() {
            errors.push("grpc.listen", "is empty: no agent could connect");
        }
        for (field, listen) in [("grpc.listen", &self.grpc.listen), ("rest.listen", &self.rest.listen)] {
            if listen.len() > MAX_LISTENERS {
                errors.push(field, format!("{} addresses, at most {MAX_LISTENERS} are possible", listen.len()));
            }
            errors.0.extend(listen.iter().filter_map(|l| l.check().err()).map(|why| FieldError::new(field, why)));
        }
        if let Err(e) = self.log.filter.parse::<tracing_subscriber::EnvFilter>() {
            errors.push("log.filter", format!("{:?} is not a filter: {e}", self.log.filter));
        }
        errors.into_result()
    }
}

/// Accepts numbers as text: environment variables are text.
fn number<'de, D: serde::Deserializer<'de>, T: TryFrom<u64>>(from: D) -> Result<T, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a number")]
    enum Either {
        Number(u64),
        Text(String),
    }
    let refused = |what: &dyn std::fmt::Display| serde::de::Error::custom(format!("{what} is not a number in range"));
    let number = match Either::deserialize(from)? {
        Either::Number(number) => number,
        Either::Text(text) => text.parse().map_err(|_| refused(&text))?,
    };
    T::try_from(number).map_err(|_| refused(&number))
}

fn one_or_many<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<Listen>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected \"unix:/path\", \"address:port\" or a list of these")]
    enum Either {
        One(String),
        Many(Vec<String>),
    }
    let texts = match Either::deserialize(from)? {
        Either::One(text) => vec![text],
        Either::Many(texts) => texts,
    };
    texts.iter().map(|t| t.parse().map_err(serde::de::Error::custom)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_valid_and_local() {
        let config = Config::default();
        config.validate().unwrap();
        assert_eq!(config.rest.listen[0].to_string(), "127.0.0.1:8640");
        assert_eq!(config.grpc.listen[0].to_string(), "unix:/run/canopy/controller.sock");
    }

    #[test]
    fn addresses_that_others_can_reach_are_refused_with_the_reason() {
        for bad in ["0.0.0.0:8640", "[::]:8640", "192.0.2.1:8640"] {
            let config: Config = toml::from_str(&format!("rest.listen = {bad:?}")).unwrap();
            let e = config.validate().unwrap_err().to_string();
            assert!(e.starts_with("rest.listen: ") && e.contains("certificates"), "{e}");
        }
        let config: Config = toml::from_str("grpc.listen = [\"unix:/tmp/a\", \"[::1]:1\", \"127.9.9.9:0\"]").unwrap();
        config.validate().unwrap();
    }

    #[test]
    fn each_fault_names_its_field() {
        let problem = |text: &str| toml::from_str::<Config>(text).unwrap().validate().unwrap_err().to_string();
        assert!(problem("store.path = \"a\"").starts_with("store.path: "));
        assert!(problem("grpc.listen = []").starts_with("grpc.listen: "));
        assert!(problem("addressing.block = \"5f00::/40\"").starts_with("addressing.block: "));
        assert!(problem("log.filter = \"a=b=c\"").starts_with("log.filter: "));
        assert!(problem("thresholds.alpha = 0").starts_with("thresholds.alpha: "));
        assert!(problem("thresholds.kBaseBytes = \"4197\"").starts_with("thresholds.kBaseBytes: "));
        assert!(toml::from_str::<Config>("thresholds.alpha = 65536").is_err());
    }
}
