// SPDX-License-Identifier: Apache-2.0
//! When resources have to be stored anew, and what is sent for it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use canopy_operator::migrate::{Migration, decide, migrate};
use http_body_util::BodyExt;
use hyper::{Request, Response};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::client::Body;
use kube::{Api, Client};
use serde_json::{Value, json};

const NAME: &str = "multicastgroups.canopy.dev";

/// Each version is (name, served, storage).
fn definition(versions: &[(&str, bool, bool)], stored: &[&str]) -> Value {
    let of = |(name, served, storage): &(&str, bool, bool)| json!({"name": name, "served": served, "storage": storage});
    let versions: Vec<Value> = versions.iter().map(of).collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME, "resourceVersion": "77"},
        "spec": {
            "group": "canopy.dev", "scope": "Namespaced", "versions": versions,
            "names": {"kind": "MulticastGroup", "plural": "multicastgroups"},
        },
        "status": {"storedVersions": stored},
    })
}

const BOTH: [(&str, bool, bool); 2] = [("v1alpha1", true, false), ("v1", true, true)];

#[test]
fn objects_are_stored_anew_where_an_earlier_version_may_be_stored() {
    let decided = |versions: &[(&str, bool, bool)], stored: &[&str]| {
        let definition: CustomResourceDefinition = serde_json::from_value(definition(versions, stored)).unwrap();
        decide(&definition)
    };
    assert_eq!(decided(&BOTH, &["v1"]), None);
    assert_eq!(decided(&[("v1alpha1", true, true)], &["v1alpha1"]), None);
    let of = |served: &str, stored: &[&str]| {
        let stored = stored.iter().map(|version| (*version).to_owned()).collect();
        Some(Migration { storage: "v1".into(), served: served.into(), stored })
    };
    assert_eq!(decided(&BOTH, &["v1alpha1", "v1"]), of("v1", &["v1alpha1", "v1"]));
    // Stored before it is served.
    let hidden = [("v1alpha1", true, false), ("v1", false, true)];
    assert_eq!(decided(&hidden, &["v1alpha1", "v1"]), of("v1alpha1", &["v1alpha1", "v1"]));
}

/// A Kubernetes with two pages of groups; of the patches that it gets, the first of `busy` is refused, and `gone` is not there.
#[derive(Default)]
struct Kubernetes {
    requests: Vec<String>,
    refused: bool,
    /// Status with which each patch of `a` is refused.
    refuses_a: Option<u16>,
}

impl Kubernetes {
    fn answer(&mut self, method: &str, uri: &str, body: &Value) -> (u16, Value) {
        let what = uri.rsplit('/').next().unwrap().to_owned();
        self.requests.push(format!("{method} {what} {body}").trim_end_matches(" null").to_owned());
        let object = |name: &str, version: &str| {
            let metadata = json!({"name": name, "namespace": "team", "resourceVersion": version});
            json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata})
        };
        let status = |code: u16| json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": "x", "message": "x"});
        match (method, what.split('?').next().unwrap()) {
            ("PATCH", "a") if let Some(code) = self.refuses_a => (code, status(code)),
            ("GET", NAME) => (200, definition(&BOTH, &["v1alpha1", "v1"])),
            ("GET", "multicastgroups") => {
                let is_second = uri.contains("continue=more");
                let items =
                    if is_second { vec![object("gone", "3")] } else { vec![object("a", "1"), object("busy", "2")] };
                let token = if is_second { "" } else { "more" };
                let kind = "PartialObjectMetadataList";
                (
                    200,
                    json!({"apiVersion": "meta.k8s.io/v1", "kind": kind, "metadata": {"continue": token}, "items": items}),
                )
            }
            ("GET", "busy") => (200, object("busy", "9")),
            ("PATCH", "busy") if !std::mem::replace(&mut self.refused, true) => (409, status(409)),
            ("PATCH", "gone") => (404, status(404)),
            ("PATCH", "status") => (200, definition(&BOTH, &["v1"])),
            ("PATCH", name) => (200, object(name, "10")),
            _ => (500, status(500)),
        }
    }
}

/// The requests of a migration, and whether it ended well.
async fn migrated(kubernetes: Kubernetes) -> (Vec<String>, Result<(), kube::Error>) {
    let kubernetes = Arc::new(Mutex::new(kubernetes));
    let of = kubernetes.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let of = of.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let body = serde_json::from_slice(&body).unwrap_or_default();
            let (code, answer) = of.lock().unwrap().answer(head.method.as_str(), &head.uri.to_string(), &body);
            let answer = Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()));
            Ok::<_, Infallible>(answer.unwrap())
        }
    });
    let client = Client::new(service, "default");
    let ended = migrate(&client, &Api::<CustomResourceDefinition>::all(client.clone()), NAME).await;
    let requests = kubernetes.lock().unwrap().requests.clone();
    (requests, ended)
}

fn same(name: &str, version: &str) -> String {
    format!("PATCH {name}? {}", json!({"metadata": {"resourceVersion": version}}))
}

/// Catches a version that is taken from the status while an object is stored in it: it could not be read any more.
#[tokio::test]
async fn every_object_of_every_page_is_written_before_the_version_goes() {
    let (requests, ended) = migrated(Kubernetes::default()).await;
    ended.unwrap();
    let last = json!({"metadata": {"resourceVersion": "77"}, "status": {"storedVersions": ["v1"]}});
    assert_eq!(
        requests,
        [
            format!("GET {NAME}"),
            "GET multicastgroups?&limit=500".into(),
            same("a", "1"),
            same("busy", "2"),
            "GET busy".into(),
            same("busy", "9"),
            "GET multicastgroups?&limit=500&continue=more".into(),
            same("gone", "3"),
            format!("PATCH status? {last}"),
        ],
    );
}

/// Catches an object that keeps all others behind it from being written, and requests that continue after the API server answered that they are too
/// many.
#[tokio::test]
async fn what_follows_a_refused_object_is_written_and_the_version_stays() {
    for (refused, continues) in [(400, true), (403, true), (422, true), (401, false), (429, false), (500, false)] {
        let (requests, ended) = migrated(Kubernetes { refuses_a: Some(refused), ..Kubernetes::default() }).await;
        let kube::Error::Api(why) = ended.unwrap_err() else { panic!("{refused}") };
        assert_eq!((why.code, requests.contains(&same("gone", "3"))), (refused, continues), "{requests:?}");
        assert!(!requests.iter().any(|request| request.starts_with("PATCH status")), "{requests:?}");
    }
}
