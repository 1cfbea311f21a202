// SPDX-License-Identifier: Apache-2.0
//! CustomResourceDefinitions, from the types of the REST API and the limits that the controller checks.

use canopy_model::group::{CNP_WINDOW, GroupSpec, MAX_FLIGHT, MAX_RECEIVERS, PATH_MTUS, STALL_AFTER};
use canopy_model::topology::TopologySpec;
use kube::Resource;
use serde_json::{Value, json};

use crate::resources::{DeletionPolicy, MulticastGroup, Topology};
use crate::schema::structural;

/// Longest name of a group (a DNS label).
const MAX_NAME: usize = 63;
/// Grows with each change of what is below, so that the chart `canopy` recognizes definitions that are older than its operator
/// (`canopy.resourcesRevision` in its templates).
pub const REVISION: u32 = 4;
/// Annotation with [`REVISION`].
const REVISION_OF: &str = "canopy.dev/revision";
/// The one topology's name.
pub const TOPOLOGY: &str = "default";

/// Name and YAML of each definition.
pub fn documents() -> Vec<(&'static str, String)> {
    let yaml = |of: &Value| serde_yaml_ng::to_string(of).unwrap_or_default();
    vec![("multicastgroups", yaml(&multicast_group())), ("topologies", yaml(&topology()))]
}

/// Names of the definitions of groups and of the topology.
pub fn names() -> [String; 2] {
    let name = |plural: &str| format!("{plural}.{}", MulticastGroup::group(&()));
    [name(&MulticastGroup::plural(&())), name(&Topology::plural(&()))]
}

/// A rule in CEL, and the message where it does not hold.
fn rule(rule: String, message: String) -> Value {
    json!({"rule": rule, "message": message})
}

fn multicast_group() -> Value {
    let mut spec = structural::<GroupSpec>();
    spec["required"] = Value::Null;
    spec["properties"]["deletionPolicy"] = deletion_policy(
        "What becomes of the group when this resource is deleted: Delete, once it has no members, or Orphan: it stays.",
    );
    let range = |field: &str, least: u128, most: u128, of: &str| {
        rule(
            format!("!has(self.{field}) || (self.{field} >= {least} && self.{field} <= {most})"),
            format!("{field} is outside {least}..={most} {of}"),
        )
    };
    spec["x-kubernetes-validations"] = json!([
        rule(
            format!("!has(self.pathMtu) || self.pathMtu in {PATH_MTUS:?}"),
            format!("pathMtu is not an RDMA path MTU: use one of {PATH_MTUS:?}")
        ),
        range("stallAfterMs", STALL_AFTER.start().as_millis(), STALL_AFTER.end().as_millis(), "milliseconds"),
        range("cnpWindowUs", CNP_WINDOW.start().as_micros(), CNP_WINDOW.end().as_micros(), "microseconds"),
        range("maxFlight", 1, MAX_FLIGHT.into(), "packets"),
        range("minReceivers", 1, MAX_RECEIVERS.into(), "receivers"),
    ]);
    let status = json!({"type": "object", "properties": {
        "observedGeneration": {"type": "integer", "format": "int64", "description": "Generation of this resource that the rest is about."},
        "phase": {"type": "string", "description": "Phase of the group."},
        "reason": {"type": "string", "description": "Why, for people; absent when the group is ready."},
        "source": {"type": "string", "description": "Host of the source."},
        "receivers": {"type": "integer", "format": "int32", "description": "Number of receivers."},
        "conditions": conditions(),
    }});
    let names = json!({
        "kind": MulticastGroup::kind(&()), "listKind": "MulticastGroupList", "plural": MulticastGroup::plural(&()),
        "singular": "multicastgroup", "shortNames": ["mcg"], "categories": ["canopy"],
    });
    let columns = json!([
        column("Phase", "string", ".status.phase", 0),
        column("Source", "string", ".status.source", 0),
        column("Receivers", "integer", ".status.receivers", 0),
        column("Reconciled", "string", ".status.conditions[?(@.type==\"Reconciled\")].status", 0),
        column("Reason", "string", ".status.reason", 1),
        column("Age", "date", ".metadata.creationTimestamp", 0),
    ]);
    let is_name = rule(
        format!("size(self.metadata.name) <= {MAX_NAME} && !self.metadata.name.contains('.')"),
        format!("the name of a group has 1 to {MAX_NAME} of a-z, 0-9 and '-'"),
    );
    let about = "A multicast group. Its namespace is its tenant; its name is unique in the whole domain.";
    definition("Namespaced", &names, columns, about, &[is_name], &spec, &status)
}

fn topology() -> Value {
    let mut spec = structural::<TopologySpec>();
    spec["properties"]["deletionPolicy"] = deletion_policy(
        "What becomes of the topology when this resource is deleted: Delete, once no group has members, or Orphan: it stays.",
    );
    let count = |text: &str| json!({"type": "integer", "format": "int32", "description": text});
    let status = json!({"type": "object", "properties": {
        "observedGeneration": {"type": "integer", "format": "int64", "description": "Generation of this resource that the rest is about."},
        "nodes": count("Declared nodes."),
        "connectedNodes": count("Of these, nodes whose agent is connected."),
        "syncedNodes": count("Of these, nodes that run exactly their desired state."),
        "hosts": count("Declared hosts."),
        "links": count("Declared links."),
        "conditions": conditions(),
    }});
    let names = json!({
        "kind": Topology::kind(&()), "listKind": "TopologyList", "plural": Topology::plural(&()),
        "singular": "topology", "categories": ["canopy"],
    });
    let columns = json!([
        column("Nodes", "integer", ".status.nodes", 0),
        column("Connected", "integer", ".status.connectedNodes", 0),
        column("Synced", "integer", ".status.syncedNodes", 0),
        column("Reconciled", "string", ".status.conditions[?(@.type==\"Reconciled\")].status", 0),
        column("Age", "date", ".metadata.creationTimestamp", 0),
    ]);
    let is_the_one =
        rule(format!("self.metadata.name == '{TOPOLOGY}'"), format!("a domain has one topology: name it {TOPOLOGY}"));
    definition("Cluster", &names, columns, "The network: nodes, hosts and links.", &[is_the_one], &spec, &status)
}

fn definition(
    scope: &str,
    names: &Value,
    columns: Value,
    about: &str,
    rules: &[Value],
    spec: &Value,
    status: &Value,
) -> Value {
    let plural = names["plural"].as_str().unwrap_or_default();
    let (group, version) = (MulticastGroup::group(&()), MulticastGroup::version(&()));
    let mut spec = spec.clone();
    if spec["required"].is_null() {
        spec.as_object_mut().map(|of| of.remove("required"));
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{plural}.{group}"),
            // Uninstalling the chart would delete every resource, and the groups with them.
            "annotations": {"helm.sh/resource-policy": "keep", REVISION_OF: REVISION.to_string()},
            "labels": {"app.kubernetes.io/name": "canopy", "app.kubernetes.io/component": "crds"},
        },
        "spec": {
            "group": group,
            "names": names,
            "scope": scope,
            "versions": [{
                "name": version,
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": columns,
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "description": about,
                    "required": ["spec"],
                    "x-kubernetes-validations": rules,
                    "properties": {
                        "apiVersion": {"type": "string"},
                        "kind": {"type": "string"},
                        "metadata": {"type": "object"},
                        "spec": spec,
                        "status": status,
                    },
                }},
            }],
        },
    })
}

fn column(name: &str, kind: &str, path: &str, priority: u32) -> Value {
    json!({"name": name, "type": kind, "jsonPath": path, "priority": priority})
}

fn deletion_policy(text: &str) -> Value {
    json!({"type": "string", "enum": DeletionPolicy::ALL, "description": text})
}

fn conditions() -> Value {
    json!({
        "type": "array",
        "description": "Reconciled: the controller has what this resource declares; and those of the controller.",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type", "status", "reason", "message", "lastTransitionTime"],
            "properties": {
                "type": {"type": "string"},
                "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                "reason": {"type": "string"},
                "message": {"type": "string"},
                "lastTransitionTime": {"type": "string", "format": "date-time"},
                "observedGeneration": {"type": "integer", "format": "int64"},
            },
        },
    })
}
