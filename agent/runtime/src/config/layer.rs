// SPDX-License-Identifier: Apache-2.0
//! One source of settings, parsed from a file or a variable.

use std::path::{Path, PathBuf};

use canopy_packet::stamp::PORT;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::{ConfigError, CongestionLayer, HostSocketLayer};

/// Variables with this prefix are settings; `__` separates levels, as in `CANOPY__LOG__LEVEL`.
pub const VARIABLE_PREFIX: &str = "CANOPY__";

/// Settings of one source; all are optional, unknown keys are errors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs, reason = "the fields are documented where they end up, in Config")]
pub struct Layer {
    pub node: Option<String>,
    pub controller: Option<String>,
    pub state_dir: Option<PathBuf>,
    pub pin_dir: Option<PathBuf>,
    pub telemetry_interval: Option<String>,
    pub host_socket: HostSocketLayer,
    pub stamp: StampLayer,
    pub congestion: CongestionLayer,
    pub log: LogLayer,
}

/// The `stamp` table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs, reason = "the fields are documented where they end up, in Stamp")]
pub struct StampLayer {
    pub port: Option<Number>,
    pub interval: Option<String>,
}

/// A number in a file, text in a variable or flag.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "expected a number")]
pub enum Number {
    /// From a file.
    Number(u64),
    /// From a variable or a flag.
    Text(String),
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

/// The `log` table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs, reason = "the fields are documented where they end up, in Log")]
pub struct LogLayer {
    pub format: Option<LogFormat>,
    pub level: Option<String>,
}

/// Format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// `pretty` on a terminal, `json` elsewhere.
    Auto,
    /// Human-readable.
    Pretty,
    /// One JSON object a line.
    Json,
}

impl Layer {
    /// The defaults; a node is named after its host, without the domain.
    pub(super) fn defaults(hostname: &str) -> Self {
        let short = hostname.trim().split('.').next().unwrap_or_default();
        Self {
            node: Some(short.to_ascii_lowercase()),
            controller: Some("unix:/run/canopy/controller.sock".to_owned()),
            state_dir: Some("/var/lib/canopy/agent".into()),
            pin_dir: Some("/sys/fs/bpf/canopy".into()),
            telemetry_interval: Some("1s".to_owned()),
            host_socket: HostSocketLayer::defaults(),
            stamp: StampLayer { port: Some(Number::Number(PORT.into())), interval: Some("1s".to_owned()) },
            congestion: CongestionLayer::defaults(),
            log: LogLayer { format: Some(LogFormat::Auto), level: Some("info".to_owned()) },
        }
    }
}

/// A TOML file.
pub(super) fn from_file(path: &Path, text: &str) -> Result<(String, Layer), ConfigError> {
    let source_name = path.display().to_string();
    match toml::from_str(text) {
        Ok(layer) => Ok((source_name, layer)),
        Err(error) => Err(ConfigError::Malformed { source_name, reason: error.to_string().trim_end().to_owned() }),
    }
}

/// One layer per variable, so that an error can name it. Every setting is text, so no quoting is needed.
pub(super) fn from_variables(
    variables: impl Iterator<Item = (String, String)>,
) -> Result<Vec<(String, Layer)>, ConfigError> {
    let mut ours: Vec<(String, String)> = variables.filter(|(name, _)| name.starts_with(VARIABLE_PREFIX)).collect();
    ours.sort();
    ours.into_iter().map(|(name, value)| from_variable(name, value)).collect()
}

fn from_variable(name: String, value: String) -> Result<(String, Layer), ConfigError> {
    let key = name.strip_prefix(VARIABLE_PREFIX).unwrap_or(&name).to_ascii_lowercase();
    let nested = key.rsplit("__").fold(toml::Value::String(value), |inner, part| {
        toml::Value::Table(toml::Table::from_iter([(part.to_owned(), inner)]))
    });
    match nested.try_into::<Layer>() {
        Ok(layer) => Ok((name, layer)),
        Err(error) => {
            let reason = error.to_string().trim_end().to_owned();
            Err(ConfigError::Malformed { source_name: format!("environment variable {name}"), reason })
        }
    }
}
