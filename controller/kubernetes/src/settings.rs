// SPDX-License-Identifier: Apache-2.0
//! Where the API server is, and whose tokens count.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use canopy_identity::Subject;

/// Longest name of an object in Kubernetes (RFC 1123 subdomain).
const MAX_NAME: usize = 253;

/// How tokens are checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The API server.
    pub api: Address,
    /// Certificates in PEM that its certificate is verified with.
    pub ca_file: PathBuf,
    /// The controller's own token, which Kubernetes replaces: it is read for each request.
    pub token_file: PathBuf,
    /// Audience of the tokens that agents show.
    pub audience: String,
    /// Service account of the agents of nodes; `None`: no token makes one.
    pub node_agents: Option<Account>,
    /// The same of the agents of hosts.
    pub host_agents: Option<Account>,
    /// ConfigMap that gets the hashes of the authority; `None`: none does.
    pub publish: Option<Account>,
    /// Names of nodes in the topology by their names in Kubernetes, where they differ.
    pub nodes: BTreeMap<String, String>,
    /// The same of hosts.
    pub hosts: BTreeMap<String, String>,
}

impl Settings {
    /// What the agent of this service account on this node of Kubernetes is; `None` if it is no agent, or the name belongs to another node.
    pub(crate) fn subjects(&self, account: &Account, node: &str) -> Vec<Subject> {
        let mut subjects = Vec::new();
        if self.node_agents.as_ref() == Some(account) {
            subjects.extend(self.node_at(node).map(|name| Subject::Node(name.to_owned())));
        }
        if self.host_agents.as_ref() == Some(account) {
            subjects.extend(self.host_at(node).map(|name| Subject::Host(name.to_owned())));
        }
        subjects
    }

    /// The node of the topology that this node of Kubernetes is.
    pub(crate) fn node_at<'a>(&'a self, node: &'a str) -> Option<&'a str> {
        named(&self.nodes, node)
    }

    /// The host of the topology that this node of Kubernetes is.
    pub(crate) fn host_at<'a>(&'a self, node: &'a str) -> Option<&'a str> {
        named(&self.hosts, node)
    }
}

/// The name in the topology. A node without an entry has its own name, unless an entry gives that to another one.
fn named<'a>(names: &'a BTreeMap<String, String>, node: &'a str) -> Option<&'a str> {
    match names.get(node) {
        Some(name) => Some(name),
        None if names.values().any(|name| name == node) => None,
        None => Some(node),
    }
}

/// A text is no address or name of Kubernetes; it has what to write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {wanted}")]
pub struct BadSetting {
    text: String,
    wanted: &'static str,
}

/// `https://HOST:PORT` of an API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// A name, or an address without brackets.
    pub host: String,
    /// 1..=65535.
    pub port: u16,
}

impl FromStr for Address {
    type Err = BadSetting;

    fn from_str(text: &str) -> Result<Self, BadSetting> {
        let bad = || BadSetting { text: text.to_owned(), wanted: "\"in-cluster\" or https://HOST:PORT" };
        let rest = text.strip_prefix("https://").ok_or_else(bad)?.trim_end_matches('/');
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) if !rest.ends_with(']') => (host, port.parse().map_err(|_| bad())?),
            _ => (rest, 443),
        };
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let is_host = match bare {
            Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
            None => !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || b".-".contains(&b)),
        };
        let host = bare.unwrap_or(host);
        if !is_host || port == 0 {
            return Err(bad());
        }
        Ok(Self { host: host.to_owned(), port })
    }
}

impl Address {
    /// The address that Kubernetes gives to each pod, in these variables of the environment.
    ///
    /// # Errors
    /// They are not set: the program does not run in a pod.
    pub fn in_cluster(variable: impl Fn(&str) -> Option<String>) -> Result<Self, BadSetting> {
        let [host, port] = ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"].map(variable);
        let found = (host.unwrap_or_default(), port.unwrap_or_default().parse().unwrap_or(0));
        if found.0.is_empty() || found.1 == 0 {
            let wanted = "possible here: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set, as they are in a pod; use https://HOST:PORT";
            return Err(BadSetting { text: "in-cluster".into(), wanted });
        }
        Ok(Self { host: found.0, port: found.1 })
    }
}

/// With brackets around an IPv6 address.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "https://[{host}]:{port}") } else { write!(f, "https://{host}:{port}") }
    }
}

/// A service account, or another object in a namespace: `NAMESPACE/NAME`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Account {
    /// Its namespace.
    pub namespace: String,
    /// Its name there.
    pub name: String,
}

impl FromStr for Account {
    type Err = BadSetting;

    fn from_str(text: &str) -> Result<Self, BadSetting> {
        let is_name = |name: &str| {
            (1..=MAX_NAME).contains(&name.len())
                && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b))
        };
        match text.split_once('/') {
            Some((namespace, name)) if is_name(namespace) && is_name(name) => {
                Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
            }
            _ => Err(BadSetting { text: text.to_owned(), wanted: "NAMESPACE/NAME" }),
        }
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_accounts_are_read() {
        for (text, shown) in [
            ("https://10.96.0.1:443", "https://10.96.0.1:443"),
            ("https://[fd00::1]:6443/", "https://[fd00::1]:6443"),
            ("https://[fd00::1]", "https://[fd00::1]:443"),
            ("https://kubernetes.default.svc", "https://kubernetes.default.svc:443"),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), shown);
        }
        for bad in [
            "",
            "in-cluster",
            "http://a:1",
            "https://",
            "https://:1",
            "https://a:0",
            "https://a:x",
            "https://a b:1",
            "https://a/b:1",
            "https://fd00::1",
        ] {
            assert!(bad.parse::<Address>().is_err(), "{bad}");
        }
        assert_eq!("canopy/agent".parse::<Account>().unwrap().to_string(), "canopy/agent");
        for bad in ["", "agent", "/agent", "canopy/", "canopy/Agent", "a/b/c", "system:serviceaccount:a:b"] {
            assert!(bad.parse::<Account>().is_err(), "{bad}");
        }
        let variables = |name: &str| Some(if name.ends_with("HOST") { "fd00::1" } else { "443" }.to_owned());
        assert_eq!(Address::in_cluster(variables).unwrap().to_string(), "https://[fd00::1]:443");
        assert!(Address::in_cluster(|_| None).unwrap_err().to_string().contains("KUBERNETES_SERVICE_HOST"));
    }

    /// Catches a node whose name in Kubernetes is what the topology calls another one: both would be that node.
    #[test]
    fn a_name_that_another_node_has_in_the_topology_is_not_given_twice() {
        let names: BTreeMap<_, _> = [("worker-1.example".to_owned(), "n1".to_owned())].into();
        assert_eq!(named(&names, "worker-1.example"), Some("n1"));
        assert_eq!(named(&names, "n2"), Some("n2"));
        assert_eq!(named(&names, "n1"), None);
    }
}
