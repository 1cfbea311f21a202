// SPDX-License-Identifier: Apache-2.0
//! Ids of requests: in the header of every answer, and wherever else what was done for the request is shown.

use axum::body::Body;
use axum::http::Request;
use canopy_controller_rest::only_local_names;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::support::Api;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// Status, id and body of the answer to a request from a trace.
async fn traced(api: &Api, method: &str, path: &str, body: Option<Value>) -> (u16, String, Value) {
    let request = Request::builder().method(method).uri(path).header("host", "localhost");
    let request = request.header("traceparent", format!("00-{TRACE}-00f067aa0ba902b7-01"));
    let request = request.header("content-type", "application/json");
    let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
    let answer = api.router.clone().oneshot(request.body(body).unwrap()).await.unwrap();
    let status = answer.status().as_u16();
    let id = answer.headers()["canopy-request-id"].to_str().unwrap().to_owned();
    let body = axum::body::to_bytes(answer.into_body(), 1 << 20).await.unwrap();
    (status, id, serde_json::from_slice(&body).unwrap_or_default())
}

#[tokio::test]
async fn every_answer_has_the_id_of_its_request_also_a_refusal() {
    let api = Api::prepared().await;
    let api = Api { router: only_local_names(api.router.clone()), ..api };
    let mut seen = std::collections::BTreeSet::new();
    for (method, path) in [
        ("GET", "/api/v1/groups"),
        ("GET", "/api/v1/groups/none"),
        ("PATCH", "/api/v1/groups"),
        ("GET", "/api/v1/none"),
        ("GET", "/api/v1/groups?x=1"),
        ("POST", "/api/v1/groups"),
        ("GET", "/livez"),
        ("GET", "/"),
    ] {
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        let answer = api.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let (status, id) = (answer.status(), answer.headers()["canopy-request-id"].to_str().unwrap().to_owned());
        assert!(id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit()), "{path}: {id}");
        if !status.is_success() {
            let body = axum::body::to_bytes(answer.into_body(), 1 << 20).await.unwrap();
            let problem: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(problem["requestId"], id, "{method} {path}");
        }
        assert!(seen.insert(id), "{path}: an id is given once");
    }
    // Before the request reaches a route.
    let foreign = Request::builder().uri("/livez").header("host", "rebound.example").body(Body::empty()).unwrap();
    let answer = api.router.clone().oneshot(foreign).await.unwrap();
    assert_eq!(answer.status().as_u16(), 421);
    let id = answer.headers()["canopy-request-id"].to_str().unwrap().to_owned();
    let body = axum::body::to_bytes(answer.into_body(), 1 << 20).await.unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&body).unwrap()["requestId"], id);
}

#[tokio::test]
async fn the_trace_of_a_caller_is_in_the_audit_and_in_events_and_not_in_the_resource() {
    let api = Api::prepared().await;
    let group = json!({"apiVersion": "canopy/v1", "kind": "Group", "metadata": {"name": "traced"}, "spec": {}});
    let (status, id, created) = traced(&api, "POST", "/api/v1/groups", Some(group.clone())).await;
    assert_eq!((status, id.as_str()), (201, TRACE), "{created}");
    assert!(!created.to_string().contains(TRACE), "{created}");
    let (status, _, refused) = traced(&api, "POST", "/api/v1/groups", Some(group)).await;
    assert_eq!((status, &refused["requestId"]), (409, &json!(TRACE)));
    let (status, ..) = traced(&api, "POST", "/api/v1/commit", Some(json!({"timeoutSeconds": 60}))).await;
    assert_eq!(status, 201);
    let audit = api.get("/api/v1/audit").await.json();
    let entries: Vec<(&Value, &Value)> = audit["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|e| e["requestId"] == TRACE)
        .map(|e| (&e["kind"], &e["action"]))
        .collect();
    assert_eq!(entries, [(&json!("Commit"), &json!("begin")), (&json!("Group"), &json!("create"))], "{audit}");
    let events = api.get("/api/v1/events").await.json();
    let pending = events["items"].as_array().unwrap().iter().find(|e| e["code"] == "CommitPending").unwrap().clone();
    assert_eq!(pending["requestId"], TRACE, "{pending}");
    let plain = api.get("/api/v1/audit?name=g1").await.json();
    assert_ne!(plain["items"][0]["requestId"], TRACE, "an id of its own");
    assert!(plain["items"][0]["requestId"].is_string(), "{plain}");
}
