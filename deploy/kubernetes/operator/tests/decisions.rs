// SPDX-License-Identifier: Apache-2.0
//! What the operator does for a resource, without a server; and the definitions that are generated from the types.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use canopy_controller_api::{GroupResource, TopologyResource};
use canopy_operator::condition::Now;
use canopy_operator::group::{ADOPT, Step, decide, status_of};
use canopy_operator::manager::MANAGED_BY;
use canopy_operator::resources::{MulticastGroup, Topology};
use canopy_operator::{crd, topology};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

const MANAGER: &str = "kubernetes.prod.1";

fn resource(spec: Value) -> MulticastGroup {
    serde_json::from_value(json!({
        "apiVersion": "canopy.dev/v1alpha1",
        "kind": "MulticastGroup",
        "metadata": {"name": "weights", "namespace": "team", "uid": "1", "generation": 3, "labels": {"app": "train"}},
        "spec": spec,
    }))
    .unwrap()
}

/// As the controller answers.
fn group(spec: Value, tenant: &str, labels: Value) -> GroupResource {
    serde_json::from_value(json!({
        "apiVersion": "canopy/v1",
        "kind": "Group",
        "metadata": {"name": "weights", "tenant": tenant, "labels": labels, "generation": 1, "uid": "0e9a3b52-9c8b-4a3c-8f0e-1f2a3b4c5d6e"},
        "spec": spec,
        "status": {
            "phase": "Pending", "reason": "no source", "conditions": [
                {"type": "Planned", "status": "False", "reason": "Waiting", "message": "no source has joined"}],
            "observedGeneration": 1, "groupId": 1, "treeId": 1, "epoch": 1,
            "connection": {"proxyAddress": "fcfe::1", "designatedQpn": 4096, "startPsn": 7, "pathMtu": 4096, "writeBaseVa": 0, "writeRkey": 1, "writeLength": 0, "session": 1},
            "source": null, "receivers": 2, "evicted": [], "encoding": null, "tree": [], "nodes": []},
    }))
    .unwrap()
}

fn own() -> Value {
    json!({"app": "train", MANAGED_BY: MANAGER})
}

/// Catches an operator that writes without end what the controller has already, because a default or a label differs.
#[test]
fn a_group_is_created_kept_and_changed() {
    let Step::Create(document) = decide(&resource(json!({"pathMtu": 1024})), MANAGER, None) else { panic!() };
    assert_eq!(document["metadata"], json!({"name": "weights", "tenant": "team", "labels": own()}));
    assert_eq!((&document["spec"]["pathMtu"], &document["kind"]), (&json!(1024), &json!("Group")));
    assert!(document["spec"].get("deletionPolicy").is_none(), "{document}");
    let step = |spec, found| decide(&resource(spec), MANAGER, Some(&found));
    assert_eq!(step(json!({}), group(json!({}), "team", own())), Step::Keep);
    assert_eq!(step(json!({"deletionPolicy": "Orphan"}), group(json!({}), "team", own())), Step::Keep);
    assert!(matches!(step(json!({"pathMtu": 512}), group(json!({}), "team", own())), Step::Change(_)));
    let without = json!({MANAGED_BY: MANAGER});
    assert!(matches!(step(json!({}), group(json!({}), "team", without)), Step::Change(_)), "a label is gone");
}

/// Catches an operator that takes what another one has made, or what was taken from it.
#[test]
fn a_group_of_others_is_not_touched_unless_that_is_asked_for() {
    let refused = |tenant, labels, text: &str| match decide(
        &resource(json!({})),
        MANAGER,
        Some(&group(json!({}), tenant, labels)),
    ) {
        Step::Refuse(why) => assert!(why.contains(text), "{why}"),
        other => panic!("{other:?}"),
    };
    refused("other", own(), "in another tenant");
    refused("team", json!({MANAGED_BY: "kubernetes.prod.2"}), "managed by kubernetes.prod.2");
    refused(
        "team",
        json!({"app": "train"}),
        "kubectl annotate --namespace team multicastgroup weights canopy.dev/adopt=true",
    );
    let mut adopting = resource(json!({}));
    adopting.metadata.annotations = Some([(ADOPT.to_owned(), "true".to_owned())].into());
    let decided = |labels| decide(&adopting, MANAGER, Some(&group(json!({}), "team", labels)));
    assert!(matches!(decided(json!({})), Step::Change(_)));
    assert!(matches!(decided(json!({MANAGED_BY: "kubernetes.prod.2"})), Step::Refuse(_)), "that of another resource");
}

/// Catches a status that differs each time, and is written without end.
#[test]
fn a_status_is_the_same_until_something_changes() {
    let at = |text: &str| Time(text.parse().unwrap());
    let (first, later) = (at("2026-01-01T00:00:00Z"), at("2026-01-02T00:00:00Z"));
    let found = group(json!({}), "team", own());
    let outcome = || Now::reconciled("True", "Declared", "");
    let mut resource = resource(json!({}));
    let status = status_of(&resource, Some(&found), outcome(), &first);
    assert_eq!((status.phase.as_str(), status.receivers, status.observed_generation), ("Pending", 2, Some(3)));
    let types: Vec<&str> = status.conditions.iter().map(|condition| condition.type_.as_str()).collect();
    assert_eq!(types, ["Reconciled", "Ready", "Planned"]);
    // As it is read back.
    resource.status = serde_json::from_value(serde_json::to_value(&status).unwrap()).unwrap();
    assert_eq!(resource.status.as_ref(), Some(&status_of(&resource, Some(&found), outcome(), &later)));
    let conflict = status_of(&resource, None, Now::reconciled("False", "Conflict", "x"), &later);
    assert_eq!((conflict.phase.as_str(), conflict.receivers, conflict.conditions.len()), ("", 0, 1));
}

#[test]
fn the_topology_is_decided_alike() {
    let spec = json!({"nodes": [{"name": "n1", "id": 1}], "links": []});
    let resource: Topology = serde_json::from_value(json!({
        "apiVersion": "canopy.dev/v1alpha1", "kind": "Topology", "metadata": {"name": "default", "uid": "1"}, "spec": spec,
    }))
    .unwrap();
    let found = |spec: &Value, labels: Value| -> TopologyResource {
        serde_json::from_value(json!({
            "apiVersion": "canopy/v1", "kind": "Topology",
            "metadata": {"name": "default", "tenant": "default", "labels": labels, "generation": 1},
            "spec": spec, "status": {"nodes": 1, "connectedNodes": 0, "syncedNodes": 0, "hosts": 0, "links": 0, "conditions": []},
        }))
        .unwrap()
    };
    let own = json!({MANAGED_BY: MANAGER});
    assert!(matches!(topology::decide(&resource, MANAGER, None), Step::Create(_)));
    assert_eq!(topology::decide(&resource, MANAGER, Some(&found(&spec, own.clone()))), Step::Keep);
    let other = json!({"nodes": [], "links": []});
    assert!(matches!(topology::decide(&resource, MANAGER, Some(&found(&other, own))), Step::Change(_)));
    assert!(matches!(topology::decide(&resource, MANAGER, Some(&found(&spec, json!({})))), Step::Refuse(_)));
}

/// Each node of a structural schema has one type, or is left to the controller.
fn structural(schema: &Value, path: &str) {
    let known = schema["type"].is_string() || schema["x-kubernetes-preserve-unknown-fields"] == true;
    assert!(known && schema.get("$ref").is_none() && schema.get("oneOf").is_none(), "{path}: {schema}");
    for (name, of) in schema["properties"].as_object().into_iter().flatten() {
        structural(of, &format!("{path}.{name}"));
    }
    if let Some(items) = schema.get("items") {
        structural(items, &format!("{path}[]"));
    }
    assert!(schema["type"] != "array" || schema.get("items").is_some(), "{path}: {schema}");
}

/// Catches a chart that accepts definitions which are older than its operator.
#[test]
fn the_chart_needs_the_revision_that_the_definitions_have() {
    let helpers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../canopy/templates/_helpers.tpl");
    let needed = format!("{{{{- define \"canopy.resourcesRevision\" -}}}}{}{{{{- end -}}}}", crd::REVISION);
    assert!(std::fs::read_to_string(&helpers).unwrap().contains(&needed), "{}: {needed}", helpers.display());
}

/// The files of the chart; `UPDATE_CRDS=1` writes them.
#[test]
fn the_definitions_of_the_chart_are_those_of_the_types() {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../canopy-crds/templates");
    for (name, text) in crd::documents() {
        let definition: Value = serde_yaml_ng::from_str(&text).unwrap();
        let version = &definition["spec"]["versions"][0];
        structural(&version["schema"]["openAPIV3Schema"], name);
        let spec = &version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
        let known =
            if name == "topologies" { ["nodes", "hosts", "links"] } else { ["pathMtu", "encoding", "minReceivers"] };
        assert!(known.iter().all(|field| spec[field]["type"].is_string()), "{spec}");
        let path = chart.join(format!("{name}.yaml"));
        let file = format!(
            "# SPDX-License-Identifier: Apache-2.0\n# Generated: UPDATE_CRDS=1 cargo test --workspace --test decisions\n{text}"
        );
        if std::env::var_os("UPDATE_CRDS").is_some() {
            std::fs::create_dir_all(&chart).unwrap();
            std::fs::write(&path, &file).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(kept, file, "{} is out of date: UPDATE_CRDS=1", path.display());
    }
}
