// SPDX-License-Identifier: Apache-2.0
//! What of a Kubernetes API server confirms tokens: TokenReview over TLS, for the pods that a test names.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// The token that the controller has to show.
const CONTROLLER: &str = "of-the-controller";

/// A pod, as a token that is bound to it names it.
#[derive(Clone, Debug)]
pub struct Pod {
    /// `NAMESPACE:NAME` of its service account.
    pub account: String,
    /// The node it runs on; `None` as before Kubernetes 1.32.
    pub node: Option<String>,
    /// Audience of the token.
    pub audience: String,
    /// The pod's UID; `None`: one of its own for each token.
    pub uid: Option<String>,
}

impl Pod {
    /// With a token for `canopy`.
    pub fn new(account: &str, node: &str) -> Self {
        Self { account: account.into(), node: Some(node.into()), audience: "canopy".into(), uid: None }
    }
}

/// How requests are answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mood {
    /// As they should be.
    #[default]
    Well,
    /// With this status.
    Fails(u16),
    /// With more octets than anyone reads.
    Floods,
    /// By no octet.
    Hangs,
}

#[derive(Debug, Default)]
struct State {
    pods: BTreeMap<String, Pod>,
    mood: Mood,
    reviews: usize,
    applied: Vec<(String, Value)>,
}

/// The server; it ends when it is dropped.
#[derive(Debug)]
pub struct FakeApi {
    address: SocketAddr,
    directory: PathBuf,
    state: Arc<Mutex<State>>,
    task: JoinHandle<()>,
}

impl Drop for FakeApi {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl FakeApi {
    /// Serves on a free port of 127.0.0.1; its authority and the controller's token are files in `directory`.
    pub async fn start(directory: &Path) -> Self {
        let mut of_authority = CertificateParams::default();
        of_authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(of_authority, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let own = CertificateParams::new(vec!["127.0.0.1".into()]).unwrap().signed_by(&key, &authority).unwrap();
        std::fs::write(directory.join("ca.crt"), authority.pem()).unwrap();
        std::fs::write(directory.join("token"), format!("{CONTROLLER}\n")).unwrap();
        let builder = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = builder.with_single_cert(vec![own.der().clone()], key).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, state) = (listener.local_addr().unwrap(), Arc::<Mutex<State>>::default());
        let task = tokio::spawn(serve(listener, acceptor, state.clone()));
        Self { address, directory: directory.into(), state, task }
    }

    /// Its address, for `kubernetes.api`.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// For `kubernetes.ca_file`.
    pub fn ca_file(&self) -> PathBuf {
        self.directory.join("ca.crt")
    }

    /// For `kubernetes.token_file`.
    pub fn token_file(&self) -> PathBuf {
        self.directory.join("token")
    }

    /// Confirms `token` as one of `pod` from now on.
    pub fn know(&self, token: &str, pod: Pod) {
        self.state.lock().unwrap().pods.insert(token.into(), pod);
    }

    /// Answers so from now on.
    pub fn set(&self, mood: Mood) {
        self.state.lock().unwrap().mood = mood;
    }

    /// How many tokens it was asked about.
    pub fn reviews(&self) -> usize {
        self.state.lock().unwrap().reviews
    }

    /// Path and content of what was applied.
    pub fn applied(&self) -> Vec<(String, Value)> {
        self.state.lock().unwrap().applied.clone()
    }
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, state: Arc<Mutex<State>>) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, state) = (acceptor.clone(), state.clone());
        connections.spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let service = service_fn(move |request| answer(request, state.clone()));
            _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(request: Request<Incoming>, state: Arc<Mutex<State>>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let mood = state.lock().unwrap().mood;
    let is_controller = parts.headers.get(AUTHORIZATION).is_some_and(|v| v == format!("Bearer {CONTROLLER}").as_str());
    let (status, answer) = match mood {
        Mood::Hangs => std::future::pending().await,
        Mood::Fails(status) => (StatusCode::from_u16(status).unwrap(), "{}".to_owned()),
        Mood::Floods => (StatusCode::CREATED, " ".repeat(1 << 20)),
        Mood::Well if !is_controller => (StatusCode::UNAUTHORIZED, "{}".to_owned()),
        Mood::Well => {
            let sent: Value = serde_json::from_slice(&body).unwrap();
            let mut state = state.lock().unwrap();
            match (parts.method, parts.uri.path()) {
                (Method::POST, "/apis/authentication.k8s.io/v1/tokenreviews") => {
                    state.reviews += 1;
                    (StatusCode::CREATED, review(&state.pods, &sent).to_string())
                }
                (Method::PATCH, path) => {
                    state.applied.push((path.to_owned(), sent));
                    (StatusCode::CREATED, "{}".to_owned())
                }
                _ => (StatusCode::NOT_FOUND, "{}".to_owned()),
            }
        }
    };
    let response = Response::builder().status(status).header(CONTENT_TYPE, "application/json");
    Ok(response.body(Full::from(answer)).unwrap())
}

/// As the API server of 1.36 answers.
fn review(pods: &BTreeMap<String, Pod>, sent: &Value) -> Value {
    let (token, wanted) = (sent["spec"]["token"].as_str().unwrap(), sent["spec"]["audiences"].as_array().unwrap());
    let status = match pods.get(token) {
        Some(Pod { account, node, audience, uid }) if wanted.iter().any(|of| of == audience.as_str()) => {
            let name = account.rsplit(':').next().unwrap();
            let mut extra = json!({
                "authentication.kubernetes.io/credential-id": ["JTI=1"],
                "authentication.kubernetes.io/pod-name": [format!("{name}-x2x")],
                "authentication.kubernetes.io/pod-uid": [uid.clone().unwrap_or_else(|| format!("uid-of-{token}"))],
            });
            if let Some(node) = node {
                extra["authentication.kubernetes.io/node-name"] = json!([node]);
            }
            json!({
                "authenticated": true,
                "user": {"username": format!("system:serviceaccount:{account}"), "uid": "u", "groups": ["system:authenticated"], "extra": extra},
                "audiences": [audience],
            })
        }
        Some(_) => {
            json!({"user": {}, "error": "[invalid bearer token, token audiences [\"other\"] is invalid for the target audiences]"})
        }
        None => json!({"user": {}, "error": "[invalid bearer token, unknown]"}),
    };
    json!({"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "metadata": {}, "spec": sent["spec"], "status": status})
}
