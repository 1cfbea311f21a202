// SPDX-License-Identifier: Apache-2.0
//! Settings of the daemon; `canopy_daemon::config` describes their sources and how keys are written.

use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use canopy_daemon::config::{Faults, Settings, list, users};
use canopy_daemon::log::LogConfig;
use canopy_daemon::socket;
use canopy_host::pacing::DEFAULT_SOCKET;
use canopy_host_core::pacing::MAX_NODES;
use canopy_units::Rate;
use serde::{Deserialize, Serialize};

use crate::kernel::Wanted;
use crate::units::optional_rate;

/// Read if it exists.
pub(crate) const SYSTEM_FILE: &str = "/etc/canopy/pacer.toml";

const MAX_RTT: Duration = Duration::from_secs(10);
/// Maximum number of users, which are searched for every connection.
const MAX_UIDS: usize = 1024;

/// All settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// Interface on which RDMA packets leave.
    pub(crate) interface: String,
    /// Nodes whose Long-haul CNPs are applied.
    #[serde(deserialize_with = "list")]
    pub(crate) nodes: Vec<Ipv6Addr>,
    /// File with more nodes, one address per line; read again when it changes.
    pub(crate) nodes_file: Option<PathBuf>,
    /// Socket of the host's agent, which has the nodes and the queue pairs of sources.
    pub(crate) agent: Option<PathBuf>,
    /// Maximum rate; the interface's speed by default.
    #[serde(default, deserialize_with = "optional_rate")]
    pub(crate) line_rate: Option<Rate>,
    /// Minimum rate, below which no reduction goes; 1 % of the line rate by default.
    #[serde(default, deserialize_with = "optional_rate")]
    pub(crate) min_rate: Option<Rate>,
    /// RTT of a queue pair until it is measured, 1 ns ..= 10 s.
    #[serde(with = "humantime_serde")]
    pub(crate) rtt: Duration,
    /// No RTT is measured.
    pub(crate) fixed_rtt: bool,
    /// A learned queue pair without packets for this time is removed.
    #[serde(with = "humantime_serde")]
    pub(crate) idle: Duration,
    /// Pacing method.
    pub(crate) pacing: Wanted,
    /// Replaces a root qdisc that an administrator configured, while the daemon runs.
    pub(crate) replace_qdisc: bool,
    /// The Unix socket for applications and operators.
    pub(crate) socket: SocketConfig,
    /// A program that runs for every change.
    pub(crate) on_action: OnAction,
    /// Prometheus metrics.
    pub(crate) metrics: Metrics,
    /// Logging.
    pub(crate) log: LogConfig,
}

/// Section `socket`. Root and the daemon's own user may always open and close queue pairs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SocketConfig {
    /// Absolute, at most 100 bytes. Its mode is 0660.
    pub(crate) path: PathBuf,
    /// Group of the socket's file, a name or a number; empty = the daemon's own.
    pub(crate) group: String,
    /// Users that may open and close queue pairs, each by name or number.
    #[serde(deserialize_with = "users")]
    pub(crate) uids: Vec<u32>,
}

/// Section `on_action`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OnAction {
    /// Program and arguments, split at blanks, no shell; empty = none.
    pub(crate) command: String,
    /// Time limit, after which the program is killed.
    #[serde(with = "humantime_serde")]
    pub(crate) timeout: Duration,
    /// Maximum number of them that run at the same time, 1..=256.
    pub(crate) at_once: u16,
}

/// Section `metrics`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Metrics {
    /// Address of `http://ADDRESS/metrics`; not served without one.
    pub(crate) listen: Option<SocketAddr>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            interface: String::new(),
            nodes: vec![],
            nodes_file: None,
            agent: None,
            line_rate: None,
            min_rate: None,
            rtt: Duration::from_millis(10),
            fixed_rtt: false,
            idle: Duration::from_secs(60),
            pacing: Wanted::Auto,
            replace_qdisc: false,
            socket: SocketConfig { path: DEFAULT_SOCKET.into(), group: String::new(), uids: vec![] },
            on_action: OnAction { command: String::new(), timeout: Duration::from_secs(5), at_once: 4 },
            metrics: Metrics { listen: None },
            log: LogConfig::default(),
        }
    }
}

impl Settings for Config {
    fn check(&self, faults: &mut Faults) {
        if self.interface.is_empty() {
            faults.push("interface", "must be set: name the interface on which RDMA packets leave (`--interface`)");
        }
        if self.nodes.len() > MAX_NODES {
            faults.push("nodes", format!("{} nodes: use at most {MAX_NODES}", self.nodes.len()));
        }
        if let Some(agent) = &self.agent {
            faults.check("agent", socket::check_path(agent));
        }
        if self.rtt.is_zero() || self.rtt > MAX_RTT {
            faults.push("rtt", format!("{:?} is out of range: use 1ns to 10s", self.rtt));
        }
        if self.line_rate.zip(self.min_rate).is_some_and(|(line, min)| min > line) {
            faults.push("min_rate", "is more than line_rate");
        }
        faults.check("socket.path", socket::check_path(&self.socket.path));
        if self.socket.uids.len() > MAX_UIDS {
            faults.push("socket.uids", format!("{} users, at most {MAX_UIDS} are supported", self.socket.uids.len()));
        }
        if !(1..=256).contains(&self.on_action.at_once) {
            faults.push("on_action.at_once", format!("{} is out of range: use 1 to 256", self.on_action.at_once));
        }
        faults.check("log.level", self.log.check_level());
        faults.check("log.endpoint", self.log.check_endpoint());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use canopy_daemon::config::{Sources, load};

    fn read(text: &str) -> Result<Config, String> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pacer.toml");
        std::fs::write(&file, text).unwrap();
        let loaded = load(&Config::default(), Sources { file: Some(file), ..Sources::default() });
        loaded.map(|loaded| loaded.settings).map_err(|error| error.to_string())
    }

    /// The documented file has every key: with its default, or as a comment where there is none.
    #[test]
    fn the_example_is_the_defaults() {
        let example = include_str!("../../../docs/config/pacer.toml");
        assert_eq!(read(example).unwrap(), Config { interface: "eth0".into(), ..Config::default() });
        let whole: String =
            example.lines().map(|line| line.strip_prefix("#: ").unwrap_or(line).to_owned() + "\n").collect();
        let config = read(&whole).unwrap();
        assert!(
            config.agent.is_some()
                && config.nodes_file.is_some()
                && config.line_rate.is_some()
                && config.min_rate.is_some()
        );
        assert!(config.metrics.listen.is_some());
        let keys = |text: &str| {
            let table: toml::Table = text.parse().unwrap();
            let inner = |value: &toml::Value| value.as_table().map(|t| t.keys().cloned().collect::<Vec<_>>());
            table.iter().map(|(key, value)| (key.clone(), inner(value))).collect::<Vec<_>>()
        };
        assert_eq!(keys(&whole), keys(&toml::to_string(&config).unwrap()));
    }

    #[test]
    fn bad_values_name_the_key_and_the_source() {
        assert!(read("").unwrap_err().starts_with("interface (from the defaults): must be set"));
        for (text, key) in [
            ("nodes = 'x'", "nodes"),
            ("agent = 'host.sock'", "agent"),
            ("line_rate = '1P'", "line_rate"),
            ("line_rate = '1G'\nmin_rate = '2G'", "min_rate"),
            ("rtt = '0s'", "rtt"),
            ("rtt = '11s'", "rtt"),
            ("pacing = 'slow'", "pacing"),
            ("socket.path = 'relative'", "socket.path"),
            ("on_action.at_once = 257", "on_action.at_once"),
            ("metrics.listen = 'x'", "metrics.listen"),
            ("log.level = 'verbose'", "log.level"),
        ] {
            let error = read(&format!("interface = 'eth0'\n{text}")).unwrap_err();
            assert!(error.starts_with(&format!("{key} (from ")) && error.contains("pacer.toml"), "{text}: {error}");
        }
    }

    #[test]
    fn rates_are_texts_or_numbers_and_are_printed_as_they_are_read() {
        let config = read("interface = 'e'\nline_rate = '25G'\nmin_rate = 1000").unwrap();
        assert_eq!(
            (config.line_rate, config.min_rate),
            (Some(Rate::from_bps(25_000_000_000)), Some(Rate::from_bps(1_000)))
        );
        assert_eq!(read(&toml::to_string(&config).unwrap()).unwrap(), config);
    }
}
