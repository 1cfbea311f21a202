// SPDX-License-Identifier: Apache-2.0
//! Settings: defaults, then `/etc/canopy/agent.toml`, the file named by `--config`, `CANOPY__KEY` variables and
//! flags; each overrides the ones before it. Unknown keys are errors in every source.

mod congestion;
mod host_socket;
mod layer;

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use canopy_agent_link::{Target, TargetError};
use canopy_model::ids::check_name;
use serde::Serialize;

pub use congestion::{Congestion, CongestionLayer, Switch};
pub use host_socket::{HostSocket, HostSocketLayer, Ids};
pub use layer::{Layer, LogFormat, LogLayer, Number, StampLayer, VARIABLE_PREFIX};

/// Read if it exists, unlike the file that `--config` names.
pub const SYSTEM_FILE: &str = "/etc/canopy/agent.toml";

/// Effective, validated settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Config {
    /// This node's name in the topology; the short host name by default.
    pub node: String,
    /// Address of the controller.
    #[serde(serialize_with = "as_text")]
    pub controller: Target,
    /// Directory of the ledger.
    pub state_dir: PathBuf,
    /// Directory on a bpffs where programs and maps are pinned.
    pub pin_dir: PathBuf,
    /// Time between telemetry samples, 100 ms ..= 1 h.
    #[serde(serialize_with = "as_duration")]
    pub telemetry_interval: Duration,
    /// Socket for applications of the attached hosts, and its permissions.
    pub host_socket: HostSocket,
    /// Measurement of links.
    pub stamp: Stamp,
    /// Sampling of queues.
    pub congestion: Congestion,
    /// Logging.
    pub log: Log,
}

/// STAMP settings (RFC 8762).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stamp {
    /// UDP port that reflectors listen on, 1..=65535; the same at all nodes.
    pub port: u16,
    /// Time between two test packets of a link, 10 ms ..= 1 min.
    #[serde(serialize_with = "as_duration")]
    pub interval: Duration,
}

/// Logging settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Log {
    /// `auto` is `pretty` on a terminal and `json` elsewhere.
    pub format: LogFormat,
    /// A level, or directives such as `info,canopy_datapath=debug`.
    pub level: String,
}

/// An invalid setting; the message names the key, its source and the permitted values.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file could not be read.
    #[error("{}: cannot be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A source that does not parse, or has an unknown key.
    #[error("{source_name}: {reason}")]
    Malformed {
        /// File or variable.
        source_name: String,
        /// The problem.
        reason: String,
    },
    /// A value out of range.
    #[error("{key} (from {source_name}): {reason}")]
    Value {
        /// The setting.
        key: &'static str,
        /// File, variable, flag or default.
        source_name: String,
        /// The problem and the permitted values.
        reason: String,
    },
}

impl Config {
    /// Reads every layer. `file` is that of `--config`; `variables` is the environment; `hostname` is the default node
    /// name.
    ///
    /// # Errors
    /// The first unreadable file, unknown key or bad value.
    pub fn load(
        system_file: &Path,
        file: Option<&Path>,
        variables: impl Iterator<Item = (String, String)>,
        flags: Layer,
        hostname: &str,
    ) -> Result<Self, ConfigError> {
        let mut layers = vec![("default".to_owned(), Layer::defaults(hostname))];
        match std::fs::read_to_string(system_file) {
            Ok(text) => layers.push(layer::from_file(system_file, &text)?),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(source) => return Err(ConfigError::Unreadable { path: system_file.to_owned(), source }),
        }
        if let Some(path) = file {
            let text = std::fs::read_to_string(path);
            let text = text.map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
            layers.push(layer::from_file(path, &text)?);
        }
        layers.extend(layer::from_variables(variables)?);
        layers.push(("the command line".to_owned(), flags));
        Self::resolve(&layers)
    }

    fn resolve(layers: &[(String, Layer)]) -> Result<Self, ConfigError> {
        Ok(Self {
            node: pick(layers, "node", |layer| layer.node.clone(), name)?,
            controller: pick(
                layers,
                "controller",
                |layer| layer.controller.clone(),
                |text| text.parse().map_err(|error: TargetError| error.to_string()),
            )?,
            state_dir: pick(layers, "state_dir", |layer| layer.state_dir.clone(), absolute)?,
            pin_dir: pick(layers, "pin_dir", |layer| layer.pin_dir.clone(), absolute)?,
            telemetry_interval: pick(layers, "telemetry_interval", |layer| layer.telemetry_interval.clone(), interval)?,
            host_socket: HostSocket::resolve(layers)?,
            stamp: Stamp {
                port: pick(layers, "stamp.port", |layer| layer.stamp.port.clone(), udp_port)?,
                interval: pick(layers, "stamp.interval", |layer| layer.stamp.interval.clone(), test_interval)?,
            },
            congestion: Congestion::resolve(layers)?,
            log: Log {
                format: pick(layers, "log.format", |layer| layer.log.format, Ok)?,
                level: pick(layers, "log.level", |layer| layer.log.level.clone(), level)?,
            },
        })
    }
}

/// Takes a key from the last layer that sets it; an error names that layer.
fn pick<T, U>(
    layers: &[(String, Layer)],
    key: &'static str,
    get: impl Fn(&Layer) -> Option<T>,
    check: impl FnOnce(T) -> Result<U, String>,
) -> Result<U, ConfigError> {
    let error = |source_name: &str, reason| ConfigError::Value { key, source_name: source_name.to_owned(), reason };
    let set = layers.iter().rev().find_map(|(name, layer)| Some((name, get(layer)?)));
    let (name, value) = set.ok_or_else(|| error("no source", "it must be set".to_owned()))?;
    check(value).map_err(|reason| error(name, reason))
}

fn name(name: String) -> Result<String, String> {
    check_name("node", &name).map(|()| name).map_err(|error| error.detail)
}

/// Accepts absolute paths without `..`, so that checks of the path apply to its target.
fn absolute(path: PathBuf) -> Result<PathBuf, String> {
    if path.is_absolute() && !path.components().any(|part| part == Component::ParentDir) {
        Ok(path)
    } else {
        Err(format!("{path:?} is not an absolute path without \"..\""))
    }
}

fn udp_port(port: Number) -> Result<u16, String> {
    let text = port.to_string();
    text.parse().ok().filter(|port| *port > 0).ok_or_else(|| format!("{text} is not a UDP port: use 1 to 65535"))
}

fn interval(text: String) -> Result<Duration, String> {
    duration(text, Duration::from_millis(100), Duration::from_secs(3600))
}

fn test_interval(text: String) -> Result<Duration, String> {
    duration(text, Duration::from_millis(10), Duration::from_secs(60))
}

fn duration(text: String, shortest: Duration, longest: Duration) -> Result<Duration, String> {
    let format = humantime::format_duration;
    match humantime::parse_duration(&text) {
        Ok(duration) if (shortest..=longest).contains(&duration) => Ok(duration),
        Ok(_) => Err(format!("{text:?} is out of range: use {} to {}", format(shortest), format(longest))),
        Err(error) => Err(format!("{text:?} is not a duration ({error}): use for example \"1s\" or \"500ms\"")),
    }
}

/// `EnvFilter` accepts any word as a target name, so a misspelt level would silently have another meaning.
fn level(text: String) -> Result<String, String> {
    let levels = ["off", "error", "warn", "info", "debug", "trace"];
    let known = |part: &str| levels.contains(&part.rsplit('=').next().unwrap_or(part).trim());
    if !text.split(',').all(known) {
        return Err(format!("{text:?} is not a level: use one of {} or target=level,...", levels.join(", ")));
    }
    tracing_subscriber::EnvFilter::try_new(&text).map(|_| text).map_err(|error| error.to_string())
}

fn as_text<S: serde::Serializer>(target: &Target, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(target)
}

fn as_duration<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&humantime::format_duration(*duration))
}

#[cfg(test)]
mod tests;
