// SPDX-License-Identifier: Apache-2.0
//! A controller with drains and two nodes, at a Unix socket, and a Kubernetes that takes events.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{Request, Response, StatusCode};
use axum::response::IntoResponse;
use axum::routing::{delete, get};
use canopy_ctl::client::Client;
use canopy_operator::context::Context;
use canopy_operator::metrics::Metrics;
use canopy_operator::mirror::{Change, Mirror};
use canopy_operator::status::Pace;
use futures::StreamExt;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::net::UnixListener;
use tokio::sync::{broadcast, mpsc, watch};

struct Kept {
    drains: Vec<Value>,
    writes: Vec<String>,
    notices: Vec<Value>,
}

struct Inner {
    directory: tempfile::TempDir,
    kept: Mutex<Kept>,
    /// Nodes whose hosts are members of groups.
    busy: Vec<String>,
    /// Events of the stream of drains.
    stream: broadcast::Sender<String>,
    /// Something was written.
    changed: watch::Sender<()>,
}

/// Both servers.
#[derive(Clone)]
pub(crate) struct Servers(Arc<Inner>);

fn event(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

fn name_of(drain: &Value) -> String {
    drain["metadata"]["name"].as_str().unwrap().to_owned()
}

impl Servers {
    /// Starts the controller; it refuses to drain a node that is `busy`.
    pub(crate) async fn start(busy: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(directory.path().join("rest.sock")).unwrap();
        let kept = Mutex::new(Kept { drains: vec![], writes: vec![], notices: vec![] });
        let busy = busy.iter().map(|node| (*node).to_owned()).collect();
        let (stream, changed) = (broadcast::Sender::new(64), watch::Sender::new(()));
        let servers = Self(Arc::new(Inner { directory, kept, busy, stream, changed }));
        let router = axum::Router::new()
            .route("/api/v1/drains", get(stream_of_drains).post(create))
            .route("/api/v1/drains/{name}", delete(remove))
            .route("/api/v1/topology", get(topology))
            .route("/api/v1/watch", get(silence))
            .with_state(servers.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        servers
    }

    /// What an operator program needs, and the changes that it follows.
    pub(crate) fn context(&self, cluster: &str) -> (Arc<Context>, mpsc::Receiver<Change>) {
        let (news, changes) = mpsc::channel(64);
        let rest = Client::new(&format!("unix:{}", self.0.directory.path().join("rest.sock").display()), None).unwrap();
        let cluster = cluster.parse().unwrap();
        let mirror = Arc::new(Mirror::default());
        let metrics = Arc::new(Metrics::default());
        let context =
            Context { kubernetes: self.kubernetes(), rest, mirror, pace: Pace::default(), cluster, metrics, news };
        (Arc::new(context), changes)
    }

    /// It takes every object that is created.
    fn kubernetes(&self) -> kube::Client {
        let inner = self.0.clone();
        let answer = move |request: Request<kube::client::Body>| {
            let inner = inner.clone();
            async move {
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let object: Value = serde_json::from_slice(&body).unwrap();
                inner.kept.lock().unwrap().notices.push(object.clone());
                inner.changed.send_replace(());
                Ok::<_, Infallible>(Response::new(Body::from(object.to_string())))
            }
        };
        kube::Client::new(tower::service_fn(answer), "default")
    }

    /// The controller has this drain already.
    pub(crate) fn has(&self, drain: Value) {
        self.0.kept.lock().unwrap().drains.push(drain);
    }

    /// Another client ends a drain.
    pub(crate) fn ends(&self, name: &str) {
        self.0.kept.lock().unwrap().drains.retain(|drain| name_of(drain) != name);
        _ = self.0.stream.send(event("deleted", &json!({"metadata": {"name": name}})));
    }

    /// Waits until `done` holds.
    pub(crate) async fn until(&self, done: impl Fn(&Self) -> bool) {
        let mut changed = self.0.changed.subscribe();
        let waiting = async {
            while !done(self) {
                changed.changed().await.unwrap();
            }
        };
        let limit = std::time::Duration::from_secs(30);
        if tokio::time::timeout(limit, waiting).await.is_err() {
            panic!("drains {:?}, writes {:?}, notices {:?}", self.drains(), self.writes(), self.notices());
        }
    }

    /// Names of all drains.
    pub(crate) fn drains(&self) -> Vec<String> {
        let mut names: Vec<String> = self.0.kept.lock().unwrap().drains.iter().map(name_of).collect();
        names.sort();
        names
    }

    /// Method and drain of each write.
    pub(crate) fn writes(&self) -> Vec<String> {
        self.0.kept.lock().unwrap().writes.clone()
    }

    /// What Kubernetes was sent.
    pub(crate) fn notices(&self) -> Vec<Value> {
        self.0.kept.lock().unwrap().notices.clone()
    }
}

async fn stream_of_drains(State(servers): State<Servers>) -> Response<Body> {
    let events = servers.0.stream.subscribe();
    let present: String = servers.0.kept.lock().unwrap().drains.iter().map(|drain| event("added", drain)).collect();
    let first = present + &event("synced", &json!({}));
    let later = futures::stream::unfold(events, async |mut events| Some((events.recv().await.ok()?, events)));
    let all = futures::stream::iter([first]).chain(later).map(Ok::<_, Infallible>);
    Response::builder().header("content-type", "text/event-stream").body(Body::from_stream(all)).unwrap()
}

async fn silence() -> Response<Body> {
    Response::new(Body::from_stream(futures::stream::pending::<Result<Bytes, Infallible>>()))
}

async fn topology() -> Json<Value> {
    Json(json!({
        "apiVersion": "canopy/v1", "kind": "Topology",
        "metadata": {"name": "default", "tenant": "default", "labels": {}, "generation": 1},
        "spec": {"nodes": [{"name": "n5", "id": 5}, {"name": "n6", "id": 6}], "links": []},
        "status": {"nodes": 2, "connectedNodes": 0, "syncedNodes": 0, "hosts": 0, "links": 0, "conditions": []},
    }))
}

async fn create(State(Servers(inner)): State<Servers>, Json(mut drain): Json<Value>) -> Response<Body> {
    let mut kept = inner.kept.lock().unwrap();
    kept.writes.push(format!("POST {}", name_of(&drain)));
    let node = drain["spec"]["node"].as_str().unwrap();
    if inner.busy.iter().any(|busy| busy == node) && drain["spec"]["acceptLoss"] != true {
        let problem = json!({
            "type": "about:blank", "title": "Conflict", "status": 409, "code": "InUse",
            "detail": "r1 are members of groups and have no other node",
        });
        inner.changed.send_replace(());
        return (StatusCode::CONFLICT, Json(problem)).into_response();
    }
    drain["metadata"]["tenant"] = json!("default");
    drain["metadata"]["generation"] = json!(1);
    drain["status"] = json!({"links": [], "groups": 0, "hosts": []});
    _ = inner.stream.send(event("added", &drain));
    kept.drains.push(drain.clone());
    inner.changed.send_replace(());
    (StatusCode::CREATED, Json(drain)).into_response()
}

async fn remove(State(Servers(inner)): State<Servers>, Path(name): Path<String>) -> StatusCode {
    let mut kept = inner.kept.lock().unwrap();
    kept.writes.push(format!("DELETE {name}"));
    kept.drains.retain(|drain| name_of(drain) != name);
    _ = inner.stream.send(event("deleted", &json!({"metadata": {"name": name}})));
    inner.changed.send_replace(());
    StatusCode::NO_CONTENT
}
