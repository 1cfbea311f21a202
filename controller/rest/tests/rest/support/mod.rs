// SPDX-License-Identifier: Apache-2.0
//! The real router over a controller with an in-memory store.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use axum::middleware::Next;
use canopy_controller_access::Identity;
use canopy_controller_actor::Controller;
use canopy_controller_core::principal::Principal;
use canopy_controller_core::role::Role;
use canopy_controller_rest::Caller;
use canopy_store::{MemStore, Store};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

pub(crate) struct Api {
    pub(crate) router: Router,
    pub(crate) controller: Controller,
}

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{e}: {}", self.text))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |v| v.to_str().unwrap())
    }

    /// Status, code word and `field: detail` of each error of a problem document.
    #[track_caller]
    pub(crate) fn problem(&self) -> (u16, String, Vec<String>) {
        assert_eq!(self.header("content-type"), "application/problem+json", "{}", self.text);
        let p = self.json();
        assert_eq!(p["status"], self.status.as_u16());
        assert!(!p["detail"].as_str().unwrap().is_empty());
        let errors = p["errors"].as_array().cloned().unwrap_or_default();
        let errors =
            errors.iter().map(|e| format!("{}: {}", e["field"].as_str().unwrap(), e["detail"].as_str().unwrap()));
        (self.status.as_u16(), p["code"].as_str().unwrap().into(), errors.collect())
    }
}

impl Api {
    pub(crate) async fn start() -> Self {
        Self::start_on(Arc::new(MemStore::new())).await
    }

    /// On another store.
    pub(crate) async fn start_on(store: Arc<dyn Store>) -> Self {
        let running = canopy_controller_actor::start(store, Default::default()).await.unwrap();
        Self::of(running.controller)
    }

    /// Of this controller; requests are an administrator's.
    pub(crate) fn of(controller: Controller) -> Self {
        let router = canopy_controller_rest::router(controller.clone());
        Self { router, controller }.by(Principal::operator("", None), Some(Role::Admin))
    }

    /// The same router, with requests of another caller.
    pub(crate) fn by(&self, principal: Principal, role: Option<Role>) -> Self {
        self.by_identity(Identity::new(principal, role))
    }

    /// The same, with requests of a caller who has a role in one tenant alone.
    pub(crate) fn of_tenant(&self, tenant: &str, role: Role) -> Self {
        let principal = Principal::operator(format!("{role} of {tenant}"), Some(2000));
        let tenants = [(tenant.to_owned(), role)].into();
        self.by_identity(Identity { tenants, ..Identity::new(principal, None) })
    }

    pub(crate) fn by_identity(&self, identity: Identity) -> Self {
        self.by_caller(Caller::known(identity))
    }

    /// The same, with requests of a caller who may change.
    pub(crate) fn by_caller(&self, caller: Caller) -> Self {
        // A layer that was added later is before those that are there: theirs is not taken then.
        let set = move |mut request: Request<Body>, next: Next| {
            request.extensions_mut().get_or_insert_with(|| caller.clone());
            next.run(request)
        };
        let router = self.router.clone().layer(axum::middleware::from_fn(set));
        Self { router, controller: self.controller.clone() }
    }

    /// With the small topology and group `g1`.
    pub(crate) async fn prepared() -> Self {
        let api = Self::start().await;
        assert_eq!(api.put("/api/v1/topology", &topology()).await.status, 201);
        assert_eq!(api.put("/api/v1/groups/g1", &group("g1")).await.status, 201);
        api
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = self.router.clone().oneshot(request.body(body.into()).unwrap()).await.unwrap();
        let (parts, body) = answer.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        Answer { status: parts.status, headers: parts.headers, text: String::from_utf8(bytes.into()).unwrap() }
    }

    /// Headers and body of an answer that is no text.
    pub(crate) async fn octets(&self, path: &str) -> (HeaderMap, Vec<u8>) {
        let request = Request::builder().uri(path).body(Body::empty()).unwrap();
        let (parts, body) = self.router.clone().oneshot(request).await.unwrap().into_parts();
        assert_eq!(parts.status, 200);
        (parts.headers, body.collect().await.unwrap().to_bytes().into())
    }

    /// Opens a stream; `query` follows `?watch=true`.
    pub(crate) async fn watch(&self, kind: &str, query: &str) -> Watch {
        self.watch_with(kind, query, &[]).await
    }

    /// Opens a stream of several kinds.
    pub(crate) async fn watch_topics(&self, query: &str) -> Watch {
        self.open(&format!("/api/v1/watch{query}"), &[]).await
    }

    pub(crate) async fn watch_with(&self, kind: &str, query: &str, headers: &[(&str, &str)]) -> Watch {
        self.open(&format!("/api/v1/{kind}?watch=true{query}"), headers).await
    }

    async fn open(&self, path: &str, headers: &[(&str, &str)]) -> Watch {
        let mut request = Request::builder().uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = self.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        Watch { body: answer.into_body() }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], "").await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, &[], "").await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Answer {
        self.send("PUT", path, &[("content-type", "application/json")], body.to_string()).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, &[("content-type", "application/json")], body.to_string()).await
    }
}

/// `Authorization` of a session that has begun.
pub(crate) async fn signed_in(api: &Api) -> String {
    let made = api.post("/api/v1/sign-in-codes", &json!({})).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let begun = api.post("/api/v1/sign-in", &json!({"code": made.json()["code"]})).await;
    assert_eq!(begun.status, 200, "{}", begun.text);
    format!("Bearer {}", begun.json()["bearer"].as_str().unwrap())
}

/// A stream that is open.
pub(crate) struct Watch {
    body: Body,
}

/// One event of a stream.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) id: Option<String>,
    pub(crate) data: Value,
}

impl Event {
    /// The event and the resource's name.
    pub(crate) fn brief(&self) -> (&str, &str) {
        (&self.name, self.data["metadata"]["name"].as_str().unwrap_or_default())
    }
}

impl Watch {
    /// The next event, heartbeats included; `None` at the end. Each event is one frame of the body.
    pub(crate) async fn any(&mut self) -> Option<Event> {
        let frame = self.body.frame().await?.unwrap().into_data().unwrap();
        let text = std::str::from_utf8(&frame).unwrap();
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
        assert!(text.ends_with("\n\n") && text.matches("\n\n").count() == 1, "{text:?}");
        let data = serde_json::from_str(&field("data: ").unwrap()).unwrap();
        Some(Event { name: field("event: ").unwrap(), id: field("id: "), data })
    }

    /// The next event that is no heartbeat.
    pub(crate) async fn next(&mut self) -> Event {
        let event = async {
            loop {
                let event = self.any().await.expect("the stream ended");
                if event.name != "heartbeat" {
                    return event;
                }
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(60), event).await.expect("no event came")
    }

    /// Events until the present state is complete, and the token of then.
    pub(crate) async fn present(&mut self) -> (Vec<Event>, String) {
        let mut events = Vec::new();
        loop {
            let event = self.next().await;
            if event.name == "synced" {
                return (events, event.id.unwrap());
            }
            assert_eq!((event.name.as_str(), &event.id), ("added", &None));
            events.push(event);
        }
    }
}

pub(crate) fn topology() -> Value {
    json!({"apiVersion": "canopy/v1", "kind": "Topology", "metadata": {"name": "default"}, "spec": {
        "nodes": [{"name": "n1", "id": 1}, {"name": "n2", "id": 2}],
        "hosts": [
            {"name": "s1", "prefix": "2001:db8:1::/64", "address": "2001:db8:1::1"},
            {"name": "r1", "prefix": "2001:db8:2::/64", "address": "2001:db8:2::1"},
            {"name": "r2", "prefix": "2001:db8:3::/64", "address": "2001:db8:3::1"}],
        "links": [{"a": "n1/eth1", "b": "n2/eth1"}, {"a": "n1/eth2", "b": "s1/eth0"}, {"a": "n2/eth2", "b": "r1/eth0"}, {"a": "n2/eth3", "b": "r2/eth0"}]}})
}

pub(crate) fn group(name: &str) -> Value {
    json!({"apiVersion": "canopy/v1", "kind": "Group", "metadata": {"name": name}, "spec": {}})
}

pub(crate) fn member(host: &str, role: &str, qpn: u64) -> Value {
    json!({"apiVersion": "canopy/v1", "kind": "Member", "metadata": {}, "spec": {"host": host, "role": role, "qpn": qpn}})
}

/// `value` with `change` made to it.
pub(crate) fn with(mut value: Value, change: impl FnOnce(&mut Value)) -> Value {
    change(&mut value);
    value
}
