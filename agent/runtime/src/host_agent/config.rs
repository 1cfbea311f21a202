// SPDX-License-Identifier: Apache-2.0
//! Settings of the agent of a host, `canopy-agent host`.

use std::path::PathBuf;

use canopy_agent_link::Target;
use canopy_daemon::config::{Faults, Settings, joined};
use canopy_daemon::log::LogConfig;
use canopy_model::ids::check_name;
use serde::{Deserialize, Serialize};

use crate::config::{HostSocket, Kubernetes, absolute, short_name};

/// Read if it exists, unlike the file that `--config` names.
pub const SYSTEM_FILE: &str = "/etc/canopy/host-agent.toml";

/// All settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostConfig {
    /// This host's name in the topology; the short host name by default.
    pub host: String,
    /// Address of the controller, or several of it.
    #[serde(with = "joined")]
    pub controller: Target,
    /// Directory of the certificate, and of whose memberships are whose.
    pub state_dir: PathBuf,
    /// What the agent enrolls with in a pod of Kubernetes.
    pub kubernetes: Kubernetes,
    /// Socket for the host's applications, and its permissions.
    pub host_socket: HostSocket,
    /// Logging.
    pub log: LogConfig,
}

impl HostConfig {
    /// Directory of the agent's key and certificate.
    pub fn identity(&self) -> PathBuf {
        self.state_dir.join("identity")
    }

    /// The defaults on a host of this name, without its domain.
    pub fn defaults(hostname: &str) -> Self {
        Self {
            host: short_name(hostname),
            controller: Target::Unix("/run/canopy/controller.sock".into()),
            state_dir: "/var/lib/canopy/host-agent".into(),
            kubernetes: Kubernetes::default(),
            host_socket: HostSocket::at_default(),
            log: LogConfig::default(),
        }
    }
}

impl Settings for HostConfig {
    fn check(&self, faults: &mut Faults) {
        faults.check("host", check_name("host", &self.host).map_err(|error| error.detail));
        faults.check("state_dir", absolute(&self.state_dir));
        if self.host_socket.path.as_os_str().is_empty() {
            faults.push("host_socket.path", "is empty: serving the socket is all that the agent of a host does");
        }
        self.kubernetes.check(&self.controller, faults);
        self.host_socket.check(&self.controller, faults);
        faults.check("log.level", self.log.check_level());
        faults.check("log.endpoint", self.log.check_endpoint());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use canopy_daemon::config::{Flags, Sources, load};

    fn read(text: &str) -> Result<HostConfig, String> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("host-agent.toml");
        std::fs::write(&file, text).unwrap();
        let sources = Sources { file: Some(file), flags: Flags::default(), ..Sources::default() };
        let loaded = load(&HostConfig::defaults("R1.example.net\n"), sources);
        loaded.map(|loaded| loaded.settings).map_err(|error| error.to_string())
    }

    /// The documented file has every key, with its default.
    #[test]
    fn the_example_is_the_defaults() {
        let example = include_str!("../../../../docs/config/host-agent.toml");
        assert_eq!(read(example).unwrap(), HostConfig::defaults("r1"));
        let keys = |text: &str| {
            let table: toml::Table = text.parse().unwrap();
            let inner = |value: &toml::Value| value.as_table().map(|t| t.keys().cloned().collect::<Vec<_>>());
            table.iter().map(|(key, value)| (key.clone(), inner(value))).collect::<Vec<_>>()
        };
        assert_eq!(keys(example), keys(&toml::to_string(&HostConfig::defaults("r1")).unwrap()));
    }

    #[test]
    fn bad_values_name_the_key() {
        for (file, key) in [
            ("host = 'Host_3'", "host"),
            ("node = 'n1'", "node"),
            ("controller = 'http://192.0.2.1:1'", "controller"),
            ("state_dir = 'relative'", "state_dir"),
            ("host_socket.path = ''", "host_socket.path"),
            ("host_socket.path = 'relative'", "host_socket.path"),
            ("host_socket.kubernetes = true", "host_socket.kubernetes"),
            ("log.level = 'verbose'", "log.level"),
        ] {
            let error = read(file).unwrap_err();
            assert!(error.starts_with(&format!("{key} (from ")), "{file}: {error}");
        }
    }
}
