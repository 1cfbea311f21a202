// SPDX-License-Identifier: Apache-2.0
//! `check --pod`: whether a pod of Kubernetes has what an application of RDMA multicast needs, from the pod as kubectl prints it, and the topology.

use std::io::Write;

use canopy_controller_api::query::HostQuery;
use canopy_controller_api::{HostResource, List};
use serde_json::Value;

use super::check::{About, Check, Outcome, report};
use super::with_query;
use crate::cli::CheckArgs;
use crate::client::Client;
use crate::documents::{self, values};
use crate::failure::{Exit, Failure};
use crate::output::text;

/// Where applications find the agent's socket unless they are given another path.
const SOCKET: &str = "/run/canopy";
const DOCS: &str = "docs/kubernetes.md#pods-that-receive";
/// Resources of Kubernetes itself: none of them is a device.
const NO_DEVICE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
/// Networks that a pod has besides the cluster's, as Multus reads them.
const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";

/// Where the library finds the token.
const TOKEN_FILE: &str = "CANOPY_TOKEN_FILE";
/// Of tokens for Canopy, unless the controller has another one.
const AUDIENCE: &str = "canopy";
const NO_TOKEN: &str = "the pod has none, and it is not known here whether the agent of its node wants one (host_socket.kubernetes): if so, mount a projected serviceAccountToken with audience canopy, and set CANOPY_TOKEN_FILE to its path";

const PARTS: [About; 6] = [
    About::new(
        "socket",
        "mount the directory of the node's socket, a hostPath volume with path /run/canopy/agent, at /run/canopy with readOnly: true, and no file of it",
        DOCS,
    ),
    About::new(
        "token",
        "mount a projected volume with a serviceAccountToken of the controller's audience, canopy by default, and set CANOPY_TOKEN_FILE to its path in the same container",
        DOCS,
    ),
    About::new("memory", "add IPC_LOCK to securityContext.capabilities of the container: RDMA pins memory", DOCS),
    About::new(
        "device",
        "ask for an RDMA device in resources.limits, by the name of the cluster's device plugin, or in resourceClaims",
        DOCS,
    ),
    About::new(
        "port",
        "give the pod an interface into the fabric: hostNetwork, or a network of the cluster's CNI in the annotation k8s.v1.cni.cncf.io/networks",
        DOCS,
    ),
    About::new("topology", "declare the host behind a port of the node that the pod runs on", DOCS),
];

/// See the module.
///
/// # Errors
/// The file has no pod; a part is missing, or cannot be checked.
pub async fn run(client: &Client, file: &str, args: &CheckArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let pod = match values(file, &documents::text(file)?)?.as_slice() {
        [pod] if pod["kind"] == "Pod" => pod.clone(),
        _ => {
            let why = format!(
                "{file} is not one pod: kubectl get pod NAME --namespace NAMESPACE --output json | canopyctl check --pod -"
            );
            return Err(Failure::new(Exit::Usage, why));
        }
    };
    let field_selector = format!("node={}", string(&pod["spec"], "nodeName"));
    let path = with_query("/api/v1/hosts", &HostQuery { field_selector, ..HostQuery::default() })?;
    let hosts: Result<List<HostResource>, Failure> = client.get("reading the hosts", &path).await;
    let hosts = hosts.map(|list| list.items.into_iter().map(|host| (host.metadata.name, host.spec.node)).collect());
    report(&checks(&pod, hosts.map_err(|failure| failure.message)), args.output, Exit::Error, out)
}

/// Hosts of the topology, each with its node.
type Hosts = Result<Vec<(String, String)>, String>;

fn checks(pod: &Value, hosts: Hosts) -> Vec<Check> {
    let [socket, token, memory, device, port, topology] = &PARTS;
    let judge = |about: &About, found: Result<String, String>| match found {
        Ok(detail) => about.found(Outcome::Ok, text(&detail)),
        Err(detail) => about.found(Outcome::Fails, text(&detail)),
    };
    vec![
        judge(socket, socket_of(pod)),
        match token_of(pod) {
            Some(found) => judge(token, found),
            None => token.unknown(NO_TOKEN),
        },
        judge(memory, memory_of(pod)),
        judge(device, device_of(pod)),
        judge(port, port_of(pod)),
        match hosts {
            Ok(hosts) => judge(topology, host_of(pod, &hosts)),
            Err(why) => topology.unknown(&why),
        },
    ]
}

/// Elements of a list of the pod's spec or of a container.
fn list<'a>(of: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    of[field].as_array().into_iter().flatten()
}

fn string<'a>(of: &'a Value, field: &str) -> &'a str {
    of[field].as_str().unwrap_or_default()
}

fn socket_of(pod: &Value) -> Result<String, String> {
    let spec = &pod["spec"];
    let is_below = |path: &str| path == SOCKET || path.starts_with(&format!("{SOCKET}/"));
    let mounts = list(spec, "containers").flat_map(|container| list(container, "volumeMounts"));
    let mount = mounts.into_iter().find(|mount| is_below(string(mount, "mountPath").trim_end_matches('/')));
    let Some(mount) = mount else { return Err(format!("no container mounts {SOCKET}")) };
    let (path, name) = (string(mount, "mountPath"), string(mount, "name"));
    let volume = list(spec, "volumes").find(|volume| string(volume, "name") == name);
    let Some(host_path) = volume.map(|volume| &volume["hostPath"]).filter(|of| of.is_object()) else {
        return Err(format!("volume {name:?} at {path} is no hostPath: it has no socket of the node"));
    };
    let of_node = string(host_path, "path");
    let is_file = of_node.ends_with(".sock") || path.ends_with(".sock") || !string(mount, "subPath").is_empty();
    if is_file || string(host_path, "type") == "Socket" {
        return Err(format!(
            "{of_node} is mounted at {path} as a file: it refuses connections after the agent's first restart"
        ));
    }
    if mount["readOnly"] != true {
        return Err(format!(
            "{of_node} is mounted at {path} without readOnly: the pod could replace the socket of the node"
        ));
    }
    Ok(format!("{of_node} of the node at {path}, read-only"))
}

/// `None` if the pod has neither a token for Canopy nor the variable.
fn token_of(pod: &Value) -> Option<Result<String, String>> {
    let spec = &pod["spec"];
    let is_variable = |variable: &&Value| string(variable, "name") == TOKEN_FILE;
    let found = list(spec, "containers").find_map(|container| {
        let variable = list(container, "env").find(is_variable)?;
        Some((container, string(variable, "value")))
    });
    let Some((container, file)) = found else {
        // The others are for other programs, or the one that every pod has.
        let is_ours = list(spec, "volumes").flat_map(projected).any(|token| string(token, "audience") == AUDIENCE);
        return is_ours.then(|| Err(format!("no container sets {TOKEN_FILE}")));
    };
    Some(token_at(spec, container, file))
}

/// The token of a container at the path that its variable has.
fn token_at(spec: &Value, container: &Value, file: &str) -> Result<String, String> {
    let below = |mount: &Value| {
        let rest = file.strip_prefix(string(mount, "mountPath").trim_end_matches('/'))?;
        rest.strip_prefix('/').map(str::to_owned)
    };
    let mounted = list(container, "volumeMounts").find_map(|mount| Some((string(mount, "name"), below(mount)?)));
    let nothing =
        || format!("{TOKEN_FILE} is {file:?}, where container {:?} has no projected token", string(container, "name"));
    let (name, path) = mounted.ok_or_else(nothing)?;
    let volume = list(spec, "volumes").find(|volume| string(volume, "name") == name);
    let mut tokens = volume.into_iter().flat_map(projected);
    let token = tokens.find(|token| string(token, "path") == path).ok_or_else(nothing)?;
    match string(token, "audience") {
        "" => Err(format!("the token at {file} has no audience: it is one for the API server of Kubernetes")),
        audience => Ok(format!("for audience {audience} at {file}")),
    }
}

/// The tokens in a projected volume.
fn projected(volume: &Value) -> impl Iterator<Item = &Value> {
    list(&volume["projected"], "sources").map(|source| &source["serviceAccountToken"]).filter(|token| token.is_object())
}

fn memory_of(pod: &Value) -> Result<String, String> {
    let may_lock = |container: &&Value| {
        let context = &container["securityContext"];
        let mut added = list(&context["capabilities"], "add");
        context["privileged"] == true || added.any(|of| of == "IPC_LOCK" || of == "CAP_IPC_LOCK" || of == "ALL")
    };
    match list(&pod["spec"], "containers").find(may_lock) {
        Some(container) => Ok(format!("container {:?} may lock memory", string(container, "name"))),
        None => Err("no container has the capability IPC_LOCK".into()),
    }
}

fn device_of(pod: &Value) -> Result<String, String> {
    let spec = &pod["spec"];
    let limits =
        list(spec, "containers").filter_map(|container| container["resources"]["limits"].as_object()).flatten();
    let is_device = |name: &str| !NO_DEVICE.contains(&name) && !name.starts_with("hugepages-");
    let mut devices: Vec<String> = limits.map(|(name, _)| name.clone()).filter(|name| is_device(name)).collect();
    devices.extend(list(spec, "resourceClaims").map(|claim| format!("claim {}", string(claim, "name"))));
    if devices.is_empty() { Err("no container asks for a device".into()) } else { Ok(devices.join(", ")) }
}

fn port_of(pod: &Value) -> Result<String, String> {
    let networks = string(&pod["metadata"]["annotations"], NETWORKS);
    match (pod["spec"]["hostNetwork"] == true, networks) {
        (true, _) => Ok("the node's network".into()),
        (false, "") => Err("the pod has the cluster's network alone".into()),
        (false, networks) => Ok(format!("networks {networks}")),
    }
}

fn host_of(pod: &Value, hosts: &[(String, String)]) -> Result<String, String> {
    let node = string(&pod["spec"], "nodeName");
    if node.is_empty() {
        return Err("the pod is on no node yet".into());
    }
    let behind: Vec<&str> = hosts.iter().filter(|(_, at)| at == node).map(|(host, _)| host.as_str()).collect();
    if behind.is_empty() {
        Err(format!("the topology has no host at node {node}"))
    } else {
        Ok(format!("{} at node {node}", behind.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A pod that has everything.
    fn whole() -> Value {
        json!({"kind": "Pod", "metadata": {"name": "app", "annotations": {NETWORKS: "fabric-r1"}}, "spec": {
            "nodeName": "n1",
            "containers": [{"name": "app",
                "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
                "resources": {"limits": {"cpu": "1", "rdma/hca": "1"}},
                "env": [{"name": TOKEN_FILE, "value": "/var/run/secrets/canopy/token"}],
                "volumeMounts": [{"name": "canopy", "mountPath": "/run/canopy", "readOnly": true},
                    {"name": "token", "mountPath": "/var/run/secrets/canopy", "readOnly": true}]}],
            "volumes": [{"name": "canopy", "hostPath": {"path": "/run/canopy/agent", "type": "Directory"}},
                {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token", "audience": AUDIENCE}}]}}],
        }})
    }

    /// The parts that a pod lacks.
    fn lacks(pod: &Value) -> Vec<(&'static str, String)> {
        let hosts = Ok(vec![("r1".to_owned(), "n1".to_owned()), ("r3".to_owned(), "n2".to_owned())]);
        let found = checks(pod, hosts).into_iter().filter(|check| check.result == Outcome::Fails);
        found.map(|check| (check.name, check.detail)).collect()
    }

    /// Catches a part that is missing and not found, and one that is there and not recognized.
    #[test]
    fn each_part_that_a_pod_lacks_is_named_alone() {
        assert_eq!(lacks(&whole()), []);
        let container = "/spec/containers/0";
        for (at, value, part, detail) in [
            ("/volumeMounts/0", json!({"name": "other", "mountPath": "/other"}), "socket", "no container mounts"),
            ("/env/0/value", json!("/var/run/secrets/token"), "token", "has no projected token"),
            ("/env/0/value", json!("/var/run/secrets/canopy/ca.crt"), "token", "has no projected token"),
            ("/env", json!([]), "token", "no container sets CANOPY_TOKEN_FILE"),
            (
                "/volumeMounts/1",
                json!({"name": "canopy", "mountPath": "/var/run/secrets/canopy"}),
                "token",
                "has no projected token",
            ),
            ("/volumeMounts/0/readOnly", json!(false), "socket", "without readOnly"),
            ("/volumeMounts/0/subPath", json!("host.sock"), "socket", "as a file"),
            ("/volumeMounts/0/mountPath", json!("/run/canopy/host.sock"), "socket", "as a file"),
            ("/volumeMounts/0/name", json!("other"), "socket", "is no hostPath"),
            ("/securityContext/capabilities", json!({"drop": ["ALL"]}), "memory", "IPC_LOCK"),
            ("/resources/limits", json!({"cpu": "1", "hugepages-2Mi": "4Mi"}), "device", "no container asks"),
        ] {
            let mut pod = whole();
            let (parent, field) = at.rsplit_once('/').unwrap();
            let parent = pod.pointer_mut(&format!("{container}{parent}")).unwrap();
            match field.parse::<usize>() {
                Ok(n) => parent[n] = value,
                Err(_) => parent[field] = value,
            }
            let found = lacks(&pod);
            assert!(
                matches!(found.as_slice(), [(name, why)] if *name == part && why.contains(detail)),
                "{at}: {found:?}"
            );
        }
        let mut foreign = whole();
        foreign["spec"]["volumes"][1]["projected"]["sources"][0]["serviceAccountToken"]["audience"] = json!("");
        assert!(matches!(lacks(&foreign).as_slice(), [("token", why)] if why.contains("no audience")), "{foreign}");
        let mut none = foreign;
        none["spec"]["containers"][0]["env"] = json!([]);
        // Where users are callers it needs none, and what the agent wants is not known here.
        let found = checks(&none, Ok(vec![("r1".to_owned(), "n1".to_owned())]));
        let wrong: Vec<_> = found.iter().filter(|check| check.result != Outcome::Ok).collect();
        assert!(
            matches!(wrong.as_slice(), [check] if check.name == "token" && check.result == Outcome::CannotBeChecked),
            "{wrong:?}"
        );
        let mut alone = whole();
        alone["metadata"]["annotations"] = json!({});
        assert_eq!(lacks(&alone)[0].0, "port");
        alone["spec"]["hostNetwork"] = json!(true);
        assert_eq!(lacks(&alone), []);
        alone["spec"]["nodeName"] = json!("n9");
        assert_eq!(lacks(&alone), [("topology", "the topology has no host at node n9".to_owned())]);
        let claimed = |pod: &mut Value| pod["spec"]["resourceClaims"] = json!([{"name": "nic"}]);
        let mut pod = whole();
        pod["spec"]["containers"][0]["resources"] = json!({});
        claimed(&mut pod);
        assert_eq!(lacks(&pod), []);
        assert!(checks(&pod, Err("away".into())).iter().any(|check| check.result == Outcome::CannotBeChecked));
    }
}
