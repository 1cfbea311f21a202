// SPDX-License-Identifier: Apache-2.0
//! The real controller in this process, on sockets and a store in a temporary directory; a simulated agent.
#![allow(dead_code)] // Each test program uses its part.

pub(crate) mod frames;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use canopy_control::pb::membership_service_client::MembershipServiceClient;
use canopy_control::pb::node_service_client::NodeServiceClient;
use canopy_control::pb::{ReportRequest, StreamTelemetryRequest, WatchRequest, WatchResponse};
use canopy_control::{Accepted, HeldSpec, MINOR_VERSION, Staged, apply_update};
use canopy_controller_access::{Roles, Tokens, UnixRoles};
use canopy_controller_authority::Registrar;
use canopy_controller_core::role::Role;
use canopy_controller_kubernetes::Attestor;
use canopy_controller_rest::SingleSignOn;
use canopy_controller_runtime::{Listen, Listener, Parts, Web, run};
use canopy_store::{EmbeddedStore, EngineKind, Store, StoreError};
use canopy_units::UnixTime;
use clap::Parser;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};

/// Timeout of every operation.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// Of memberships whose host's agent is gone.
pub(crate) const LEASE_GRACE: Duration = Duration::from_secs(2);

pub(crate) const LAB: &str = r#"
apiVersion: canopy/v1
kind: Member
metadata: {group: g1}
spec: {host: r1, role: receiver, qpn: 17}
---
apiVersion: canopy/v1
kind: Member
metadata: {group: g1}
spec: {host: s1, role: source, qpn: 18}
---
apiVersion: canopy/v1
kind: Group
metadata: {name: g1}
spec: {}
---
apiVersion: canopy/v1
kind: Topology
metadata: {name: default}
spec:
  nodes: [{name: n1, id: 1}, {name: n2, id: 2}]
  hosts:
    - {name: s1, prefix: "2001:db8:1::/64", address: "2001:db8:1::1"}
    - {name: r1, prefix: "2001:db8:2::/64", address: "2001:db8:2::1"}
    - {name: r2, prefix: "2001:db8:3::/64", address: "2001:db8:3::1"}
  links:
    - {a: n1/eth1, b: n2/eth1}
    - {a: n1/eth2, b: s1/eth0}
    - {a: n2/eth2, b: r1/eth0}
    - {a: n2/eth3, b: r2/eth0}
"#;

/// A running controller.
pub(crate) struct Controller {
    dir: PathBuf,
    stop: watch::Sender<bool>,
    task: JoinHandle<anyhow::Result<()>>,
    pub(crate) store: Arc<dyn Store>,
    web: Option<String>,
    tls_port: u16,
}

/// The store. A request that the controller before was answering may hold it for a moment, in this process.
fn opened(path: &Path) -> EmbeddedStore {
    let deadline = std::time::Instant::now() + DEADLINE;
    loop {
        match EmbeddedStore::open(path, EngineKind::default()) {
            Err(StoreError::Locked { .. }) if std::time::Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(10));
            }
            opened => return opened.unwrap(),
        }
    }
}

impl Controller {
    /// On the store and sockets in `dir`.
    pub(crate) async fn start(dir: &Path) -> Self {
        Self::start_with(dir, None, None, None).await
    }

    /// With traces that go to this collector.
    pub(crate) async fn start_traced(dir: &Path, collector: &str) -> Self {
        Self::start_with(dir, None, Some(collector.to_owned()), None).await
    }

    /// Also on a port of 127.0.0.1, for browsers; 0 selects a free one.
    pub(crate) async fn start_web(dir: &Path, port: u16) -> Self {
        Self::start_with(dir, Some(Listen::Tcp(([127, 0, 0, 1], port).into())), None, None).await
    }

    /// Also for agents over TLS, on a free port of 127.0.0.1.
    pub(crate) async fn start_tls(dir: &Path, registrar: Arc<Registrar>) -> Self {
        Self::start_with(dir, None, None, Some(registrar)).await
    }

    /// As [`Controller::start_tls`], with tokens of Kubernetes.
    pub(crate) async fn start_attesting(dir: &Path, registrar: Arc<Registrar>, attestor: Attestor) -> Self {
        let socket = Listen::Unix(dir.join("rest.sock")).bind().await.unwrap();
        let identities = Some((registrar, Some(Arc::new(attestor))));
        Self::start_of(dir, socket, None, None, identities, Default::default()).await
    }

    /// As [`Controller::start_web`], for every user, with these roles and the tokens in `dir`.
    pub(crate) async fn start_for_all(dir: &Path, roles: UnixRoles) -> Self {
        let tcp = Some(Listen::Tcp(([127, 0, 0, 1], 0).into()));
        let tokens = Tokens::open(&dir.join("identity"), UnixTime::now()).unwrap();
        let socket = Listen::Unix(dir.join("rest.sock")).bind_for_all().await.unwrap();
        Self::start_of(dir, socket, tcp, None, None, (roles, tokens)).await
    }

    /// With operators over TLS, on a free port of every address, and the tokens in `dir`.
    pub(crate) async fn start_remote(dir: &Path, registrar: Arc<Registrar>) -> Self {
        let tokens = Tokens::open(&dir.join("identity"), UnixTime::now()).unwrap();
        let tcp = Some(Listen::Tcp(([0, 0, 0, 0], 0).into()));
        let socket = Listen::Unix(dir.join("rest.sock")).bind_for_all().await.unwrap();
        Self::start_of(dir, socket, tcp, None, Some((registrar, None)), (UnixRoles::default(), tokens)).await
    }

    async fn start_with(
        dir: &Path,
        tcp: Option<Listen>,
        traces: Option<String>,
        registrar: Option<Arc<Registrar>>,
    ) -> Self {
        let socket = Listen::Unix(dir.join("rest.sock")).bind().await.unwrap();
        let identities = registrar.map(|registrar| (registrar, None));
        Self::start_of(dir, socket, tcp, traces, identities, Default::default()).await
    }

    async fn start_of(
        dir: &Path,
        socket: Listener,
        tcp: Option<Listen>,
        traces: Option<String>,
        identities: Option<(Arc<Registrar>, Option<Arc<Attestor>>)>,
        (roles, tokens): (UnixRoles, Tokens),
    ) -> Self {
        let (registrar, attestor) = identities.unzip();
        Self::start_all(dir, socket, tcp, traces, (registrar, attestor.flatten()), (roles, tokens), (None, None)).await
    }

    /// For browsers on this machine and on others, who sign in by a provider.
    pub(crate) async fn start_site(dir: &Path, web: Web, single: Arc<SingleSignOn>) -> Self {
        let socket = Listen::Unix(dir.join("rest.sock")).bind().await.unwrap();
        let tcp = Some(Listen::Tcp(([127, 0, 0, 1], 0).into()));
        Self::start_all(dir, socket, tcp, None, (None, None), Default::default(), (Some(web), Some(single))).await
    }

    async fn start_all(
        dir: &Path,
        socket: Listener,
        tcp: Option<Listen>,
        traces: Option<String>,
        (registrar, attestor): (Option<Arc<Registrar>>, Option<Arc<Attestor>>),
        (roles, tokens): (UnixRoles, Tokens),
        (site, single_sign_on): (Option<Web>, Option<Arc<SingleSignOn>>),
    ) -> Self {
        // Service accounts that have a role here.
        let of_accounts = [("canopy/canopy-cleanup", Role::Admin), ("monitoring/prometheus", Role::Metrics)];
        let of_accounts = of_accounts.map(|(account, role)| (account.parse().unwrap(), role)).into();
        let accounts = canopy_controller_runtime::accounts::of(attestor.clone(), of_accounts);
        let path = dir.join("store");
        let store: Arc<dyn Store> = Arc::new(tokio::task::spawn_blocking(move || opened(&path)).await.unwrap());
        let bind = async |name: &str| Listen::Unix(dir.join(name)).bind().await.unwrap();
        let mut rest = vec![socket];
        let mut web = None;
        if let Some(listen) = tcp {
            let listener = listen.bind().await.unwrap();
            web = Some(listener.address().unwrap().to_string());
            rest.push(listener);
        }
        let (mut grpc, mut tls_port) = (vec![bind("grpc.sock").await], 0);
        if registrar.is_some() {
            let listener = Listen::Tcp(([127, 0, 0, 1], 0).into()).bind().await.unwrap();
            let Listen::Tcp(address) = listener.address().unwrap() else { panic!("not TCP") };
            tls_port = address.port();
            grpc.push(listener);
        }
        let (stop, shutdown) = watch::channel(false);
        let (ready, is_ready) = oneshot::channel();
        let parts = Parts {
            store: store.clone(),
            addressing: Default::default(),
            thresholds: Default::default(),
            hmac: Default::default(),
            traces,
            lease_grace: LEASE_GRACE,
            registrar,
            attestor,
            roles: Roles::from(roles).into(),
            quotas: Default::default(),
            tokens: Arc::new(tokens),
            accounts,
            grpc,
            rest,
            web: site,
            single_sign_on,
            shutdown,
            on_ready: Box::new(move || ready.send(()).unwrap()),
        };
        let task = tokio::spawn(run(parts));
        is_ready.await.unwrap();
        Self { dir: dir.into(), stop, task, store, web, tls_port }
    }

    /// Address and port for browsers.
    pub(crate) fn web(&self) -> &str {
        self.web.as_deref().unwrap()
    }

    /// Port for agents over TLS.
    pub(crate) fn tls_port(&self) -> u16 {
        self.tls_port
    }

    /// Ends it as SIGTERM would.
    pub(crate) async fn stop(self) {
        self.stop.send_replace(true);
        tokio::time::timeout(DEADLINE, self.task).await.expect("the controller does not end").unwrap().unwrap();
    }

    pub(crate) async fn channel(&self) -> Channel {
        channel(self.dir.join("grpc.sock")).await
    }

    pub(crate) async fn nodes(&self) -> NodeServiceClient<Channel> {
        NodeServiceClient::new(self.channel().await)
    }

    pub(crate) async fn membership(&self) -> MembershipServiceClient<Channel> {
        MembershipServiceClient::new(self.channel().await)
    }

    /// The output of `canopyctl`, or its exit code and error.
    pub(crate) async fn ctl(&self, args: &[&str]) -> Result<String, (u8, String)> {
        self.ctl_at(&format!("unix:{}", self.dir.join("rest.sock").display()), args).await
    }

    /// As [`Self::ctl`], at the address for browsers.
    pub(crate) async fn ctl_web(&self, args: &[&str]) -> Result<String, (u8, String)> {
        self.ctl_at(&format!("http://{}", self.web()), args).await
    }

    async fn ctl_at(&self, server: &str, args: &[&str]) -> Result<String, (u8, String)> {
        let line = [&["canopyctl", "--server", server], args].concat();
        let cli = canopy_ctl::cli::Cli::try_parse_from(line).map_err(|e| (2, e.to_string()))?;
        let mut out = Vec::new();
        match canopy_ctl::run(cli, &mut out).await {
            Ok(()) => Ok(String::from_utf8(out).unwrap()),
            Err(f) => Err((f.exit.code(), f.message)),
        }
    }

    /// `canopyctl apply -f` of `text`.
    pub(crate) async fn apply(&self, text: &str) -> Result<String, (u8, String)> {
        let file = self.dir.join("apply.yaml");
        std::fs::write(&file, text).unwrap();
        self.ctl(&["apply", "-f", file.to_str().unwrap()]).await
    }

    pub(crate) async fn get(&self, resource: &[&str]) -> serde_json::Value {
        let text = self.ctl(&[&["get"], resource, &["-o", "json"]].concat()).await.unwrap();
        serde_json::from_str(&text).unwrap()
    }
}

pub(crate) async fn channel(socket: PathBuf) -> Channel {
    let connect = tower::service_fn(move |_| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    Endpoint::from_static("http://controller").connect_with_connector(connect).await.unwrap()
}

/// A simulated agent and its node's state.
pub(crate) struct Agent {
    pub(crate) node: String,
    pub(crate) held: Option<HeldSpec>,
    /// Nanoseconds that it reports to have written and read back.
    pub(crate) took: [u64; 2],
    /// Version that it reports.
    pub(crate) version: &'static str,
    staged: Option<Staged>,
    client: NodeServiceClient<Channel>,
    stream: Streaming<WatchResponse>,
}

impl Agent {
    pub(crate) async fn connect(controller: &Controller, node: &str, held: Option<HeldSpec>) -> Result<Self, Status> {
        let mut client = controller.nodes().await;
        let request = WatchRequest {
            node: node.into(),
            known_term: held.as_ref().map_or(0, |h| h.spec().term),
            known_generation: held.as_ref().map_or(0, |h| h.spec().generation),
            known_digest: held.as_ref().map(|h| h.digest().into()).unwrap_or_default(),
            agent_version: "test".into(),
            minor_version: MINOR_VERSION,
            resume: None,
        };
        let stream = client.watch(request).await?.into_inner();
        Ok(Self {
            node: node.into(),
            held,
            took: [2_000_000, 1_000_000],
            version: "test",
            staged: None,
            client,
            stream,
        })
    }

    fn take(&mut self, message: WatchResponse) {
        if let Accepted::Spec(next) = apply_update(self.held.as_ref(), &mut self.staged, message).unwrap() {
            self.held = Some(*next);
        }
    }

    /// The next message, after applying it to `held`.
    pub(crate) async fn next(&mut self) -> Result<Option<WatchResponse>, Status> {
        let message = tokio::time::timeout(DEADLINE, self.stream.message()).await.expect("nothing came")?;
        if let Some(m) = &message {
            self.take(m.clone());
        }
        Ok(message)
    }

    /// Reports that the kernel has the state of `held`.
    pub(crate) async fn report(&mut self) {
        let Some(held) = &self.held else { return };
        let report = ReportRequest {
            node: self.node.clone(),
            observed_term: held.spec().term,
            observed_generation: held.spec().generation,
            observed_digest: held.digest().into(),
            minor_version: MINOR_VERSION,
            agent_version: self.version.into(),
            kernel: "test".into(),
            errors: vec![],
            metrics_address: String::new(),
            apply_ns: self.took[0],
            read_back_ns: self.took[1],
            back_within_ns: 0,
            cleaned_up: None,
        };
        self.client.report(report).await.unwrap();
    }

    /// Applies and reports updates until the stream ends; returns the last state.
    /// The same, and reports what it sees of packets that it is to capture.
    pub(crate) fn capture_all(mut self, mut client: NodeServiceClient<Channel>) -> JoinHandle<()> {
        tokio::spawn(async move {
            while let Ok(Some(message)) = self.stream.message().await {
                let order = message.capture;
                self.take(message);
                self.report().await;
                let Some(order) = order else { continue };
                let program = self.held.as_ref().unwrap().spec().groups.values().next().unwrap();
                let captured = frames::seen(&self.node, program, &order);
                let sample = StreamTelemetryRequest { node: self.node.clone(), captured, ..Default::default() };
                client.stream_telemetry(tokio_stream::iter([sample])).await.unwrap();
            }
        })
    }

    pub(crate) fn apply_all(mut self) -> JoinHandle<(Option<HeldSpec>, Option<Status>)> {
        tokio::spawn(async move {
            loop {
                match self.stream.message().await {
                    Ok(Some(message)) => self.take(message),
                    Ok(None) => return (self.held, None),
                    Err(status) => return (self.held, Some(status)),
                }
                self.report().await;
            }
        })
    }
}
