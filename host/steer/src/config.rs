// SPDX-License-Identifier: Apache-2.0
//! Settings of the daemon; `canopy_daemon::config` describes their sources and how keys are written.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use canopy_daemon::config::{Faults, Settings, users};
use canopy_daemon::log::LogConfig;
use canopy_daemon::socket;
use canopy_host_core::probing;
use canopy_host_core::steering::{self, MAX_CANDIDATES, Mode};
use canopy_model::ids::check_name;
use serde::{Deserialize, Serialize};

/// Read if it exists.
pub(crate) const SYSTEM_FILE: &str = "/etc/canopy/steer.toml";
/// Default socket of a daemon that is the only one of its machine.
pub(crate) const DEFAULT_SOCKET: &str = "/run/canopy/steer.sock";

const MAX_GAP: Duration = Duration::from_secs(10);
const LEAST_PROBE: Duration = Duration::from_millis(1);
const MOST_PROBE: Duration = Duration::from_secs(10);
const MOST_RATE: u32 = 1_000_000;
const MOST_DSCP: u8 = 63;
const LEAST_IDLE: Duration = Duration::from_secs(10);
/// Maximum number of users, which are searched for every connection.
const MAX_UIDS: usize = 1024;

/// All settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// Interface on which the host's packets leave.
    pub(crate) interface: String,
    /// Socket of the host's agent, which has the fabric.
    pub(crate) agent: PathBuf,
    /// Name of the host in the topology, where `agent` is the socket of a controller on the same machine; empty: it is that of an agent.
    pub(crate) host: String,
    /// Distribution of packets over the active paths.
    pub(crate) mode: ModeConfig,
    /// Gap between two packets of a flow after which it may take another path, 1 us ..= 10 s.
    #[serde(with = "humantime_serde")]
    pub(crate) gap: Duration,
    /// Active paths of a destination, 1 ..= 64.
    pub(crate) paths: usize,
    /// A destination without packets for this time has no programs any more.
    #[serde(with = "humantime_serde")]
    pub(crate) idle: Duration,
    /// Directory on a BPF file system in which the maps of each interface are.
    pub(crate) pin_dir: PathBuf,
    /// Probes of the paths.
    pub(crate) probe: ProbeConfig,
    /// The Unix socket for operators.
    pub(crate) socket: SocketConfig,
    /// Prometheus metrics.
    pub(crate) metrics: Metrics,
    /// Logging.
    pub(crate) log: LogConfig,
}

/// See [`Mode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ModeConfig {
    /// A flow keeps its path.
    Pinned,
    /// A flow may take another path after a gap between two of its packets.
    Flowlet,
    /// Each UDP packet takes the next path; packets of RC and UC queue pairs, TCP and other protocols as with flowlet.
    Spray,
}

/// Section `probe`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProbeConfig {
    /// Between two probes of a path in use, 1 ms ..= 10 s; 0: paths are not probed.
    #[serde(with = "humantime_serde")]
    pub(crate) interval: Duration,
    /// Probes a second, at most, 1 ..= 1,000,000.
    pub(crate) rate: u32,
    /// DSCP of probes, 0 ..= 63: that of the packets whose queues they are to see.
    pub(crate) dscp: u8,
}

/// Section `socket`. Root and the daemon's own user may always pin paths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SocketConfig {
    /// Absolute, at most 100 bytes. Its mode is 0660.
    pub(crate) path: PathBuf,
    /// Group of the socket's file, a name or a number; empty = the daemon's own.
    pub(crate) group: String,
    /// Users that may pin paths, each by name or number.
    #[serde(deserialize_with = "users")]
    pub(crate) uids: Vec<u32>,
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
            agent: "/run/canopy/host.sock".into(),
            host: String::new(),
            mode: ModeConfig::Pinned,
            gap: Duration::from_micros(500),
            paths: 16,
            idle: Duration::from_secs(600),
            pin_dir: "/sys/fs/bpf/canopy-steer".into(),
            probe: ProbeConfig { interval: Duration::from_millis(10), rate: 10_000, dscp: 26 },
            socket: SocketConfig { path: DEFAULT_SOCKET.into(), group: String::new(), uids: vec![] },
            metrics: Metrics { listen: None },
            log: LogConfig::default(),
        }
    }
}

impl Config {
    /// For the pure core.
    pub(crate) fn steering(&self) -> steering::Settings {
        let mode = match self.mode {
            ModeConfig::Pinned => Mode::Pinned,
            ModeConfig::Flowlet => Mode::Flowlet,
            ModeConfig::Spray => Mode::Spray,
        };
        steering::Settings { mode, gap: self.gap, paths: self.paths, idle: self.idle }
    }

    /// For the pure core; `None`: no probes.
    pub(crate) fn probing(&self) -> Option<probing::Settings> {
        let ProbeConfig { interval, rate, .. } = self.probe;
        (!interval.is_zero()).then_some(probing::Settings { interval, rate })
    }

    /// Traffic class of probes: their DSCP, and ECT(0), so that nodes mark them (RFC 3168 section 5).
    pub(crate) fn traffic_class(&self) -> u8 {
        self.probe.dscp << 2 | 0b10
    }
}

impl Settings for Config {
    fn check(&self, faults: &mut Faults) {
        if self.interface.is_empty() || self.interface.contains('/') {
            faults
                .push("interface", "must be set: name the interface on which the host's packets leave (`--interface`)");
        }
        faults.check("agent", socket::check_path(&self.agent));
        if !self.host.is_empty() {
            faults.check("host", check_name("host", &self.host).map_err(|error| error.to_string()));
        }
        if self.gap < Duration::from_micros(1) || self.gap > MAX_GAP {
            faults.push("gap", format!("{:?} is out of range: use 1us to 10s", self.gap));
        }
        if !(1..=MAX_CANDIDATES).contains(&self.paths) {
            faults.push("paths", format!("{} is out of range: use 1 to {MAX_CANDIDATES}", self.paths));
        }
        if self.idle < LEAST_IDLE {
            faults.push("idle", format!("{:?} is out of range: use 10s or more", self.idle));
        }
        if !self.pin_dir.is_absolute() {
            faults.push("pin_dir", "must be an absolute path on a BPF file system, such as /sys/fs/bpf/canopy-steer");
        }
        if !self.probe.interval.is_zero() && !(LEAST_PROBE..=MOST_PROBE).contains(&self.probe.interval) {
            let range = "use 1ms to 10s, or 0s for no probes";
            faults.push("probe.interval", format!("{:?} is out of range: {range}", self.probe.interval));
        }
        if !(1..=MOST_RATE).contains(&self.probe.rate) {
            faults.push("probe.rate", format!("{} is out of range: use 1 to {MOST_RATE}", self.probe.rate));
        }
        if self.probe.dscp > MOST_DSCP {
            faults.push("probe.dscp", format!("{} is out of range: use 0 to {MOST_DSCP}", self.probe.dscp));
        }
        faults.check("socket.path", socket::check_path(&self.socket.path));
        if self.socket.uids.len() > MAX_UIDS {
            faults.push("socket.uids", format!("{} users, at most {MAX_UIDS} are supported", self.socket.uids.len()));
        }
        faults.check("log.level", self.log.check_level());
        faults.check("log.endpoint", self.log.check_endpoint());
    }
}

#[cfg(test)]
mod tests {
    use canopy_daemon::config::{Sources, load};

    use super::*;

    fn read(text: &str) -> Result<Config, String> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("steer.toml");
        std::fs::write(&file, text).unwrap();
        let loaded = load(&Config::default(), Sources { file: Some(file), ..Sources::default() });
        loaded.map(|loaded| loaded.settings).map_err(|error| error.to_string())
    }

    /// The documented file has every key: with its default, or as a comment where there is none.
    #[test]
    fn the_example_is_the_defaults() {
        let example = include_str!("../../../docs/config/steer.toml");
        assert_eq!(read(example).unwrap(), Config { interface: "eth0".into(), ..Config::default() });
        let whole: String =
            example.lines().map(|line| line.strip_prefix("#: ").unwrap_or(line).to_owned() + "\n").collect();
        let config = read(&whole).unwrap();
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
            ("agent = 'host.sock'", "agent"),
            ("host = 'a b'", "host"),
            ("mode = 'random'", "mode"),
            ("gap = '0s'", "gap"),
            ("gap = '11s'", "gap"),
            ("paths = 0", "paths"),
            ("paths = 65", "paths"),
            ("idle = '1s'", "idle"),
            ("pin_dir = 'bpf'", "pin_dir"),
            ("probe.interval = '999us'", "probe.interval"),
            ("probe.interval = '11s'", "probe.interval"),
            ("probe.rate = 0", "probe.rate"),
            ("probe.rate = 1000001", "probe.rate"),
            ("probe.dscp = 64", "probe.dscp"),
            ("socket.path = 'relative'", "socket.path"),
            ("metrics.listen = 'x'", "metrics.listen"),
            ("log.level = 'verbose'", "log.level"),
        ] {
            let error = read(&format!("interface = 'eth0'\n{text}")).unwrap_err();
            assert!(error.starts_with(&format!("{key} (from ")) && error.contains("steer.toml"), "{text}: {error}");
        }
    }
}
