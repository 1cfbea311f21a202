// SPDX-License-Identifier: Apache-2.0
//! Section `kubernetes`: agents that enroll with tokens of their service accounts, and other service accounts that have a role.

use std::collections::BTreeMap;
use std::path::PathBuf;

use canopy_controller_core::principal::MAX_PRINCIPAL_NAME;
use canopy_controller_core::role::Role;
use canopy_controller_kubernetes::{Account, Address, BadSetting, Settings};
use canopy_daemon::config::Faults;
use canopy_model::ids::check_name;
use serde::{Deserialize, Serialize};

use crate::accounts;

/// Where Kubernetes puts what a pod needs to call the API server.
const IN_POD: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The API server whose address is in the environment of each pod.
const IN_CLUSTER: &str = "in-cluster";

/// Section `kubernetes`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KubernetesConfig {
    /// The API server: `in-cluster`, or `https://HOST:PORT`; empty: no token of Kubernetes enrolls an agent.
    pub api: String,
    /// Certificates in PEM that the API server's is verified with.
    pub ca_file: PathBuf,
    /// The controller's own token for the API server.
    pub token_file: PathBuf,
    /// Audience of the tokens of agents.
    pub audience: String,
    /// Service account of the agents of nodes, `NAMESPACE/NAME`; empty: there are none.
    pub node_agents: String,
    /// The same of the agents of hosts.
    pub host_agents: String,
    /// ConfigMap in which agents find the hashes of the authority, `NAMESPACE/NAME`; empty: none.
    pub publish: String,
    /// Names of nodes in the topology by their names in Kubernetes, where they differ.
    #[serde(default)]
    pub nodes: BTreeMap<String, String>,
    /// The same of hosts.
    #[serde(default)]
    pub hosts: BTreeMap<String, String>,
    /// Roles of service accounts, `NAMESPACE/NAME`, that use the REST API with tokens of theirs for the audience.
    #[serde(default)]
    pub roles: BTreeMap<String, Role>,
}

impl Default for KubernetesConfig {
    fn default() -> Self {
        Self {
            api: String::new(),
            ca_file: format!("{IN_POD}/ca.crt").into(),
            token_file: format!("{IN_POD}/token").into(),
            audience: "canopy".into(),
            node_agents: "canopy/canopy-agent".into(),
            host_agents: "canopy/canopy-host-agent".into(),
            publish: String::new(),
            nodes: BTreeMap::new(),
            hosts: BTreeMap::new(),
            roles: BTreeMap::new(),
        }
    }
}

impl KubernetesConfig {
    /// How tokens are confirmed; `None` if none are.
    ///
    /// # Errors
    /// The program does not run in a pod, as `in-cluster` has it.
    pub fn settings(self) -> Result<Option<Settings>, BadSetting> {
        let api = match self.api.as_str() {
            "" => return Ok(None),
            IN_CLUSTER => Address::in_cluster(|name| std::env::var(name).ok())?,
            address => address.parse()?,
        };
        Ok(Some(Settings {
            api,
            ca_file: self.ca_file,
            token_file: self.token_file,
            audience: self.audience,
            node_agents: account(&self.node_agents)?,
            host_agents: account(&self.host_agents)?,
            publish: account(&self.publish)?,
            nodes: self.nodes,
            hosts: self.hosts,
        }))
    }

    /// Which service accounts have which role.
    ///
    /// # Errors
    /// A name is none of a service account.
    pub fn roles(&self) -> Result<BTreeMap<Account, Role>, BadSetting> {
        self.roles.iter().map(|(text, role)| Ok((text.parse()?, *role))).collect()
    }

    pub(super) fn check(&self, has_tls: bool, faults: &mut Faults) {
        if !self.api.is_empty() && self.api != IN_CLUSTER {
            faults.check("kubernetes.api", self.api.parse::<Address>().map_err(|error| error.to_string()));
        }
        if !self.api.is_empty() && !has_tls {
            faults.push(
                "kubernetes.api",
                "needs an address of grpc.listen, such as \"[::]:8641\": agents enroll over TLS",
            );
        }
        for (key, path) in [("kubernetes.ca_file", &self.ca_file), ("kubernetes.token_file", &self.token_file)] {
            if !path.is_absolute() {
                faults.push(key, format!("{path:?} is not an absolute path"));
            }
        }
        if self.audience.is_empty() {
            faults.push("kubernetes.audience", "is empty: tokens for every program of the cluster would be accepted");
        }
        for (key, text) in [
            ("kubernetes.node_agents", &self.node_agents),
            ("kubernetes.host_agents", &self.host_agents),
            ("kubernetes.publish", &self.publish),
        ] {
            faults.check(key, account(text).map_err(|error| error.to_string()));
        }
        if !self.node_agents.is_empty() && self.node_agents == self.host_agents {
            faults.push("kubernetes.host_agents", "is the service account of node_agents: use another one");
        }
        for text in self.roles.keys() {
            let key = format!("kubernetes.roles.{text}");
            match text.parse::<Account>() {
                Err(error) => faults.push(key, error.to_string()),
                Ok(of) if accounts::name(&of).len() > MAX_PRINCIPAL_NAME => {
                    let most = MAX_PRINCIPAL_NAME - accounts::PREFIX.len();
                    faults.push(
                        key,
                        format!("is longer than {most} octets: records cut its name, which may be another one's then"),
                    );
                }
                Ok(_) => {}
            }
        }
        for (section, names) in [("kubernetes.nodes", &self.nodes), ("kubernetes.hosts", &self.hosts)] {
            let mut by_name = BTreeMap::new();
            for (node, name) in names {
                let key = format!("{section}.{node}");
                faults.check(&key, check_name(&key, name).map_err(|error| error.detail));
                if let Some(other) = by_name.insert(name, node) {
                    faults.push(key, format!("{name:?} is the name of {other} too"));
                }
            }
        }
    }
}

fn account(text: &str) -> Result<Option<Account>, BadSetting> {
    if text.is_empty() { Ok(None) } else { text.parse().map(Some) }
}
