// SPDX-License-Identifier: Apache-2.0
//! Settings of the agent; `canopy_daemon::config` describes their sources and how keys are written.

use std::net::SocketAddr;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use canopy_agent_link::{Attestation, Target};
use canopy_daemon::config::{Faults, Settings, groups, joined, users};
use canopy_daemon::log::LogConfig;
use canopy_daemon::socket;
use canopy_identity::Subject;
use canopy_model::ids::check_name;
use canopy_model::status::check_metrics_address;
use canopy_packet::stamp::PORT;
use serde::{Deserialize, Serialize};

/// Read if it exists, unlike the file that `--config` names.
pub const SYSTEM_FILE: &str = "/etc/canopy/agent.toml";

/// Maximum number of ids in a list, which is searched for every connection.
const MAX_IDS: usize = 1024;

/// All settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// This node's name in the topology; the short host name by default.
    pub node: String,
    /// Address of the controller, or several of it.
    #[serde(with = "joined")]
    pub controller: Target,
    /// Directory of the ledger.
    pub state_dir: PathBuf,
    /// Directory on a bpffs where programs and maps are pinned.
    pub pin_dir: PathBuf,
    /// Directory with the switches of the network.
    pub sysctl_dir: PathBuf,
    /// Time between telemetry samples, 100 ms ..= 1 h.
    #[serde(with = "humantime_serde")]
    pub telemetry_interval: Duration,
    /// What the agent enrolls with in a pod of Kubernetes.
    pub kubernetes: Kubernetes,
    /// Socket for applications of the attached hosts, and its permissions.
    pub host_socket: HostSocket,
    /// Measurement of links.
    pub stamp: Stamp,
    /// Sampling of queues.
    pub congestion: Congestion,
    /// Replication by IP multicast.
    pub multicast: Multicast,
    /// Metrics for Prometheus.
    pub metrics: MetricsConfig,
    /// Logging.
    pub log: LogConfig,
}

/// Section `kubernetes`: an agent in a pod enrolls by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kubernetes {
    /// File with the token of the pod's service account; empty = the agent enrolls with a token of an operator.
    pub token_file: PathBuf,
    /// File with the hashes of the controller's authority, one a line.
    pub authority_file: PathBuf,
}

impl Kubernetes {
    /// How `subject` enrolls by itself; `None` if it does not.
    pub fn attestation(&self, subject: Subject) -> Option<Attestation> {
        let Self { token_file, authority_file } = self.clone();
        (!token_file.as_os_str().is_empty()).then_some(Attestation { subject, token_file, authority_file })
    }

    pub(crate) fn check(&self, controller: &Target, faults: &mut Faults) {
        if self.token_file.as_os_str().is_empty() {
            return;
        }
        faults.check("kubernetes.token_file", absolute(&self.token_file));
        faults.check("kubernetes.authority_file", absolute(&self.authority_file));
        if matches!(controller, Target::Unix(_)) {
            faults.push("kubernetes.token_file", "is for a controller at https://HOST:PORT: set controller");
        }
    }
}

/// Section `host_socket`: the socket and who may call: users, of which root and the agent's own are always permitted, or pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSocket {
    /// Absolute, at most 100 bytes; empty = no socket. Its mode is 0660.
    pub path: PathBuf,
    /// Group of the socket's file, a name or a number; empty = the agent's own.
    pub group: String,
    /// Permitted users, each by name or number.
    #[serde(deserialize_with = "users")]
    pub uids: Vec<u32>,
    /// Permitted groups, likewise; only the effective group of a process counts (SO_PEERCRED reports no other).
    #[serde(deserialize_with = "groups")]
    pub gids: Vec<u32>,
    /// Pods call instead of users: each call has the token of its pod, and no user has a right, root included.
    pub kubernetes: bool,
}

impl HostSocket {
    /// The default path; no users besides those that are always permitted.
    pub(crate) fn at_default() -> Self {
        let (group, uids, gids) = (String::new(), vec![], vec![]);
        Self { path: "/run/canopy/host.sock".into(), group, uids, gids, kubernetes: false }
    }

    pub(crate) fn check(&self, controller: &Target, faults: &mut Faults) {
        let Self { path, uids, gids, kubernetes, .. } = self;
        if *kubernetes && !(uids.is_empty() && gids.is_empty()) {
            faults.push(
                "host_socket.kubernetes",
                "gives users no right: leave host_socket.uids and host_socket.gids empty",
            );
        }
        if *kubernetes && matches!(controller, Target::Unix(_)) {
            faults.push("host_socket.kubernetes", "is for a controller at https://HOST:PORT: set controller");
        }
        if !path.as_os_str().is_empty() {
            faults.check("host_socket.path", socket::check_path(path));
        }
        for (key, ids) in [("host_socket.uids", uids), ("host_socket.gids", gids)] {
            if ids.len() > MAX_IDS {
                faults.push(key, format!("{} ids, at most {MAX_IDS} are supported", ids.len()));
            }
        }
    }
}

/// Section `stamp` (RFC 8762).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stamp {
    /// UDP port that reflectors listen on, 1..=65535; the same at all nodes.
    pub port: u16,
    /// Time between two test packets of a link, 10 ms ..= 1 min.
    #[serde(with = "humantime_serde")]
    pub interval: Duration,
}

/// Section `congestion`: how the node samples its queues (draft-tian-ccwg-long-haul-cnp-00 sections 5.3 and 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Congestion {
    /// Interval over which ECN marking rate and queue growth rate are measured, 1 ms ..= 1 s.
    #[serde(with = "humantime_serde")]
    pub interval: Duration,
    /// Whether Long-haul CNPs carry the metric that triggered them; otherwise Metric Type and Value are zero.
    pub disclose: bool,
}

/// Section `multicast`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Multicast {
    /// What starts the process that keeps IPv6 multicast routing enabled.
    pub holder: MulticastHolder,
}

/// What starts `canopy-agent hold-multicast`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MulticastHolder {
    /// The agent, as a child that outlives it.
    #[default]
    Child,
    /// The service manager: `canopy-mroute-holder.path` waits for the file `multicast.wanted` in `state_dir`.
    Unit,
}

/// Section `metrics`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetricsConfig {
    /// Address of `http://ADDRESS/metrics`; none = not served. They are not protected: every program that reaches it can read them.
    #[serde(with = "or_empty")]
    pub listen: Option<SocketAddr>,
    /// Where Prometheus finds them, `host:port`; empty = `listen`.
    pub advertise: String,
}

impl MetricsConfig {
    /// Where Prometheus finds the metrics; `None` if they are not served.
    pub fn address(&self) -> Option<String> {
        let listen = self.listen?;
        Some(if self.advertise.is_empty() { listen.to_string() } else { self.advertise.clone() })
    }

    fn check(&self, faults: &mut Faults) {
        if !self.advertise.is_empty() {
            let checked = check_metrics_address("metrics.advertise", &self.advertise);
            faults.check("metrics.advertise", checked.map_err(|error| error.detail));
        }
        let Some(listen) = self.listen else { return };
        // The controller would not take it.
        let is_needed = self.advertise.is_empty() && listen.port() != 0 && !listen.ip().is_unspecified();
        if is_needed && check_metrics_address("metrics.listen", &listen.to_string()).is_err() {
            faults.push("metrics.advertise", format!("must be set: {listen} is an address on one interface only"));
        }
        if listen.port() == 0 {
            faults.push("metrics.listen", "0 is not a port: use 1 to 65535");
        }
        if listen.ip().is_unspecified() && self.advertise.is_empty() {
            faults.push("metrics.advertise", format!("must be set: Prometheus cannot connect to {listen}"));
        }
    }
}

/// An address, or an empty text for none.
mod or_empty {
    use std::net::SocketAddr;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &Option<SocketAddr>, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&value.map(|address| address.to_string()).unwrap_or_default())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SocketAddr>, D::Error> {
        let text = String::deserialize(from)?;
        if text.is_empty() {
            return Ok(None);
        }
        let fault = |_| {
            D::Error::custom(format_args!("{text:?} is not a listen address: use 192.0.2.1:9464 or [2001:db8::1]:9464"))
        };
        text.parse().map(Some).map_err(fault)
    }
}

impl Config {
    /// Directory of the agent's key and certificate.
    pub fn identity(&self) -> PathBuf {
        self.state_dir.join("identity")
    }

    /// The defaults on a host of this name; its node has the same name, without the domain.
    pub fn defaults(hostname: &str) -> Self {
        Self {
            node: short_name(hostname),
            controller: Target::Unix("/run/canopy/controller.sock".into()),
            state_dir: "/var/lib/canopy/agent".into(),
            pin_dir: "/sys/fs/bpf/canopy".into(),
            sysctl_dir: canopy_datapath::SYSCTL_DIR.into(),
            telemetry_interval: Duration::from_secs(1),
            kubernetes: Kubernetes::default(),
            host_socket: HostSocket::at_default(),
            stamp: Stamp { port: PORT, interval: Duration::from_secs(1) },
            congestion: Congestion { interval: Duration::from_millis(1), disclose: true },
            multicast: Multicast::default(),
            metrics: MetricsConfig::default(),
            log: LogConfig::default(),
        }
    }
}

impl Settings for Config {
    fn check(&self, faults: &mut Faults) {
        faults.check("node", check_name("node", &self.node).map_err(|error| error.detail));
        faults.check("state_dir", absolute(&self.state_dir));
        faults.check("pin_dir", absolute(&self.pin_dir));
        faults.check("sysctl_dir", absolute(&self.sysctl_dir));
        self.kubernetes.check(&self.controller, faults);
        self.host_socket.check(&self.controller, faults);
        if self.stamp.port == 0 {
            faults.push("stamp.port", "0 is not a UDP port: use 1 to 65535");
        }
        let (ms, s) = (Duration::from_millis, Duration::from_secs);
        faults.check("telemetry_interval", within(self.telemetry_interval, ms(100), s(3600)));
        faults.check("stamp.interval", within(self.stamp.interval, ms(10), s(60)));
        faults.check("congestion.interval", within(self.congestion.interval, ms(1), s(1)));
        self.metrics.check(faults);
        faults.check("log.level", self.log.check_level());
        faults.check("log.endpoint", self.log.check_endpoint());
    }
}

/// A machine's name in the topology, unless it is set: its short host name.
pub(crate) fn short_name(hostname: &str) -> String {
    hostname.trim().split('.').next().unwrap_or_default().to_ascii_lowercase()
}

/// Accepts absolute paths without `..`, so that checks of the path apply to its target.
pub(crate) fn absolute(path: &Path) -> Result<(), String> {
    if path.is_absolute() && !path.components().any(|part| part == Component::ParentDir) {
        Ok(())
    } else {
        Err(format!("{path:?} is not an absolute path without \"..\""))
    }
}

fn within(found: Duration, shortest: Duration, longest: Duration) -> Result<(), String> {
    let format = humantime::format_duration;
    if (shortest..=longest).contains(&found) {
        return Ok(());
    }
    Err(format!("{} is out of range: use {} to {}", format(found), format(shortest), format(longest)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use canopy_daemon::config::{Flags, Sources, load};
    use canopy_daemon::log::LogFormat;

    fn read(text: &str, variables: &[(&str, &str)]) -> Result<Config, String> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("agent.toml");
        std::fs::write(&file, text).unwrap();
        let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let sources = Sources { file: Some(file), variables, flags: Flags::default(), ..Sources::default() };
        let loaded = load(&Config::defaults("Leaf-3.example.net\n"), sources);
        loaded.map(|loaded| loaded.settings).map_err(|error| error.to_string())
    }

    #[test]
    fn defaults_need_nothing() {
        let config = read("", &[]).unwrap();
        assert_eq!(config.node, "leaf-3");
        assert_eq!(config.controller.to_string(), "unix:/run/canopy/controller.sock");
        assert_eq!(config, Config::defaults("leaf-3"));
    }

    /// The documented file has every key, with its default.
    #[test]
    fn the_example_is_the_defaults() {
        let example = include_str!("../../../docs/config/agent.toml");
        assert_eq!(read(example, &[]).unwrap(), Config::defaults("leaf-3"));
        let keys = |text: &str| {
            let table: toml::Table = text.parse().unwrap();
            let inner = |value: &toml::Value| value.as_table().map(|t| t.keys().cloned().collect::<Vec<_>>());
            table.iter().map(|(key, value)| (key.clone(), inner(value))).collect::<Vec<_>>()
        };
        assert_eq!(keys(example), keys(&toml::to_string(&Config::defaults("leaf-3")).unwrap()));
    }

    #[test]
    fn bad_values_name_the_key_and_the_source() {
        for (file, key) in [
            ("node = 'Leaf_3'", "node"),
            ("controller = 'http://192.0.2.1:1'", "controller"),
            ("state_dir = 'relative'", "state_dir"),
            ("pin_dir = ''", "pin_dir"),
            ("pin_dir = '/sys/fs/bpf/../../../etc'", "pin_dir"),
            ("sysctl_dir = 'proc'", "sysctl_dir"),
            ("telemetry_interval = '10ms'", "telemetry_interval"),
            ("telemetry_interval = '1 parsec'", "telemetry_interval"),
            ("controller = 'https://a:1'\nkubernetes.token_file = 'token'", "kubernetes.token_file"),
            (
                "controller = 'https://a:1'\nkubernetes = { token_file = '/token', authority_file = 'x' }",
                "kubernetes.authority_file",
            ),
            ("kubernetes = { token_file = '/token', authority_file = '/authorities' }", "kubernetes.token_file"),
            ("host_socket.path = 'relative'", "host_socket.path"),
            ("host_socket.uids = 'no-such-user'", "host_socket.uids"),
            ("host_socket.gids = [0, 'no-such-group']", "host_socket.gids"),
            ("host_socket.kubernetes = true", "host_socket.kubernetes"),
            ("controller = 'https://a:1'\nhost_socket = { kubernetes = true, uids = [0] }", "host_socket.kubernetes"),
            ("controller = 'https://a:1'\nhost_socket = { kubernetes = true, gids = [0] }", "host_socket.kubernetes"),
            ("stamp.port = 0", "stamp.port"),
            ("stamp.port = '65536'", "stamp.port"),
            ("stamp.interval = '1ms'", "stamp.interval"),
            ("congestion.interval = '10us'", "congestion.interval"),
            ("congestion.disclose = 'maybe'", "congestion.disclose"),
            ("multicast.holder = 'systemd'", "multicast.holder"),
            ("metrics.listen = '9464'", "metrics.listen"),
            ("metrics.listen = '[::1]:0'", "metrics.listen"),
            ("metrics.advertise = 'n1'", "metrics.advertise"),
            ("log.level = 'verbose'", "log.level"),
        ] {
            let error = read(file, &[]).unwrap_err();
            assert!(error.starts_with(&format!("{key} (from ")) && error.contains("agent.toml"), "{file}: {error}");
        }
    }

    #[test]
    fn metrics_are_found_where_they_are_served_unless_that_is_everywhere() {
        let address = |text: &str| read(text, &[]).unwrap().metrics.address();
        assert_eq!(address(""), None);
        assert_eq!(address("metrics.listen = '[::1]:9464'").as_deref(), Some("[::1]:9464"));
        // Catches an address that the controller refuses, and with it every report of the node.
        for nowhere in ["[::]:9464", "[fe80::1%2]:9464"] {
            let e = read(&format!("metrics.listen = '{nowhere}'"), &[]).unwrap_err();
            assert!(e.starts_with("metrics.advertise"), "{e}");
        }
        let everywhere = "metrics = { listen = '[::]:9464', advertise = 'n1.example:9464' }";
        assert_eq!(address(everywhere).as_deref(), Some("n1.example:9464"));
    }

    #[test]
    fn an_empty_path_means_no_socket_and_variables_are_text() {
        let variables = [
            ("CANOPY__HOST_SOCKET__UIDS", "1000,1001,root"),
            ("CANOPY__HOST_SOCKET__GIDS", "root"),
            ("CANOPY__HOST_SOCKET__GROUP", "44"),
            ("CANOPY__STAMP__PORT", "863"),
            ("CANOPY__CONGESTION__DISCLOSE", "false"),
            ("CANOPY__LOG__FORMAT", "json"),
        ];
        let config = read("host_socket.path = ''", &variables).unwrap();
        assert_eq!((config.host_socket.path, config.host_socket.group), (PathBuf::new(), "44".into()));
        assert_eq!((config.host_socket.uids, config.stamp.port), (vec![1000, 1001, 0], 863));
        assert_eq!(config.host_socket.gids, [0]);
        assert_eq!((config.congestion.disclose, config.log.format), (false, LogFormat::Json));
        assert!(
            read("controller = 'https://a:1'", &[("CANOPY__HOST_SOCKET__KUBERNETES", "true")])
                .unwrap()
                .host_socket
                .kubernetes
        );
    }

    #[test]
    fn the_printed_settings_can_be_loaded_again() {
        let several = read("controller = ['https://a:1', 'https://b:1']", &[]).unwrap();
        assert_eq!(several.controller.to_string(), "https://a:1,https://b:1");
        assert_eq!(read(&toml::to_string(&several).unwrap(), &[]).unwrap(), several);
        let config = read("telemetry_interval = '1500ms'", &[("CANOPY__HOST_SOCKET__UIDS", "1000")]).unwrap();
        assert_eq!(read(&toml::to_string(&config).unwrap(), &[]).unwrap(), config);
    }
}
