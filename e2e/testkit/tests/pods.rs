// SPDX-License-Identifier: Apache-2.0
//! Pods join groups with their own tokens: the real controller, over TLS the real agent of a host, applications with the real library, and an
//! API server that confirms what a test wants.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use canopy_agent_link::Target;
use canopy_agent_runtime::config::HostSocket;
use canopy_agent_runtime::host_socket::{Hosts, Served};
use canopy_control::pb;
use canopy_control::pb::membership_service_client::MembershipServiceClient;
use canopy_controller_access::{Roles, Tokens, UnixRoles};
use canopy_controller_authority::{Registrar, Settings};
use canopy_controller_kubernetes::{self as kubernetes, Attestor};
use canopy_controller_runtime::{Listen, Parts, run};
use canopy_host::aio::Client;
use canopy_host::{ConnectOptions, Error, JoinOptions};
use canopy_identity::Subject;
use canopy_store::{EmbeddedStore, EngineKind, Store};
use canopy_testkit::controller::soon;
use canopy_testkit::kubernetes::{FakeApi, Mood, Pod};
use canopy_units::{Monotonic, UnixTime};
use clap::Parser;
use serde_json::Value;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tonic::transport::Endpoint;
use tonic::{Code, Request, Status, Streaming};

const DOMAIN: &str = r#"
apiVersion: canopy/v1
kind: Topology
metadata: {name: default}
spec:
  nodes: [{name: n1, id: 1}, {name: n2, id: 2}]
  hosts:
    - {name: s1, prefix: "2001:db8:1::/64", address: "2001:db8:1::1"}
    - {name: r1, prefix: "2001:db8:2::/64", address: "2001:db8:2::1"}
  links:
    - {a: n1/eth1, b: n2/eth1}
    - {a: n1/eth2, b: s1/eth0}
    - {a: n2/eth2, b: r1/eth0}
---
apiVersion: canopy/v1
kind: Group
metadata: {name: open}
spec: {}
---
apiVersion: canopy/v1
kind: Group
metadata: {name: of-training, tenant: training}
spec: {}
"#;

/// What all programs of this process log, at the finest level.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(octets);
        Ok(octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct World {
    stop: watch::Sender<bool>,
    controller: JoinHandle<anyhow::Result<()>>,
    api: FakeApi,
    target: Target,
    /// Everything that programs write; tokens of pods are elsewhere.
    dir: tempfile::TempDir,
    tokens: tempfile::TempDir,
    seconds: Arc<AtomicU64>,
    agent: Option<Agent>,
}

/// The agent of r1.
struct Agent {
    close: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl World {
    async fn start() -> Self {
        let (dir, tokens) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let settings = Settings {
            directory: dir.path().join("identity"),
            domain: "canopy".parse().unwrap(),
            lifetime: Duration::from_secs(3600),
        };
        let registrar = Registrar::open(settings, UnixTime::now()).unwrap();
        let api = FakeApi::start(dir.path()).await;
        let attestor = Attestor::new(kubernetes::Settings {
            api: api.url().parse().unwrap(),
            ca_file: api.ca_file(),
            token_file: api.token_file(),
            audience: "canopy".into(),
            node_agents: None,
            host_agents: None,
            publish: None,
            nodes: Default::default(),
            hosts: [("worker-1".to_owned(), "r1".to_owned())].into(),
        });
        let path = dir.path().join("store");
        let store: Arc<dyn Store> =
            Arc::new(tokio::task::block_in_place(|| EmbeddedStore::open(&path, EngineKind::default())).unwrap());
        let rest = Listen::Unix(dir.path().join("rest.sock")).bind().await.unwrap();
        let grpc = Listen::Tcp(([127, 0, 0, 1], 0).into()).bind().await.unwrap();
        let Listen::Tcp(address) = grpc.address().unwrap() else { panic!("not TCP") };
        let (stop, shutdown) = watch::channel(false);
        let (ready, is_ready) = oneshot::channel();
        let parts = Parts {
            store,
            addressing: Default::default(),
            thresholds: Default::default(),
            hmac: Default::default(),
            traces: None,
            lease_grace: Duration::from_secs(60),
            registrar: Some(registrar.clone()),
            attestor: Some(Arc::new(attestor)),
            roles: Roles::from(UnixRoles::default()).into(),
            quotas: Default::default(),
            tokens: Arc::new(Tokens::default()),
            accounts: None,
            grpc: vec![grpc],
            rest: vec![rest],
            web: None,
            single_sign_on: None,
            shutdown,
            on_ready: Box::new(move || ready.send(()).unwrap()),
        };
        let controller = tokio::spawn(run(parts));
        soon("the controller", is_ready).await.unwrap();
        let target: Target = format!("https://127.0.0.1:{}", address.port()).parse().unwrap();
        let subject = Subject::Host("r1".into());
        let token = registrar.hand_out(subject.clone(), UnixTime::now()).unwrap().token;
        canopy_agent_link::enroll(&target, &dir.path().join("agent"), &subject, token).await.unwrap();
        let seconds = Arc::new(AtomicU64::new(1000));
        let mut world = Self { stop, controller, api, target, dir, tokens, seconds, agent: None };
        let file = world.dir.path().join("apply.yaml");
        std::fs::write(&file, DOMAIN).unwrap();
        world.ctl(&["apply", "-f", file.to_str().unwrap()]).await;
        world.start_agent().await;
        world
    }

    async fn start_agent(&mut self) {
        let channels = self.target.channels(&self.dir.path().join("agent")).unwrap();
        let (send, ready) = oneshot::channel();
        let (send, seconds) = (Mutex::new(Some(send)), self.seconds.clone());
        let hosts = Hosts {
            config: HostSocket {
                path: self.socket(),
                group: String::new(),
                uids: vec![],
                gids: vec![],
                kubernetes: true,
            },
            served: Served::Host { name: "r1".into(), holds: channels.telemetry, random: Arc::new(|| 0.5) },
            target: self.target.to_string(),
            controller: channels.control,
            state_dir: self.dir.path().join("agent"),
            clock: Arc::new(move || Monotonic::START + Duration::from_secs(seconds.load(Ordering::Relaxed))),
            on_ready: Box::new(move || _ = send.lock().unwrap().take().map(|ready| ready.send(()))),
        };
        let (close, closing) = watch::channel(false);
        self.agent = Some(Agent { close, task: tokio::spawn(hosts.run(closing)) });
        soon("the socket", ready).await.unwrap();
    }

    async fn restart_agent(&mut self) {
        self.stop_agent().await;
        self.start_agent().await;
    }

    async fn stop_agent(&mut self) {
        let Agent { close, task } = self.agent.take().unwrap();
        close.send_replace(true);
        soon("the end of the agent", task).await.unwrap();
    }

    async fn stop(mut self) {
        self.stop_agent().await;
        self.stop.send_replace(true);
        soon("the end of the controller", self.controller).await.unwrap().unwrap();
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("host.sock")
    }

    /// Time for the agent's tokens.
    fn pass(&self, seconds: u64) {
        self.seconds.fetch_add(seconds, Ordering::Relaxed);
    }

    async fn ctl(&self, args: &[&str]) -> String {
        let server = format!("unix:{}", self.dir.path().join("rest.sock").display());
        let cli = canopy_ctl::cli::Cli::try_parse_from([&["canopyctl", "--server", &server], args].concat()).unwrap();
        let mut out = Vec::new();
        canopy_ctl::run(cli, &mut out).await.map_err(|failure| failure.message).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// Who has joined a group, in the words of the audit.
    async fn members(&self, group: &str) -> Vec<Value> {
        let list: Value =
            serde_json::from_str(&self.ctl(&["get", "members", "-g", group, "-o", "json"]).await).unwrap();
        list["items"].as_array().unwrap().iter().map(|member| member["metadata"]["writtenBy"].clone()).collect()
    }

    /// A pod with this token on `node` of Kubernetes.
    async fn pod(&self, token: &str, account: &str, uid: &str, node: &str) -> Application {
        self.api.know(token, Pod { uid: Some(uid.into()), ..Pod::new(account, node) });
        let file = self.tokens.path().join(token);
        std::fs::write(&file, format!("{token}\n")).unwrap();
        let options = ConnectOptions::at(self.socket()).with_token_file(&file);
        let client = Client::connect_with(&options).await.unwrap();
        Application { client, token: token.to_owned(), socket: self.socket() }
    }
}

/// A process of a pod.
struct Application {
    client: Client,
    token: String,
    socket: PathBuf,
}

fn joining(group: &str) -> JoinOptions {
    JoinOptions { timeout: Duration::from_millis(500), ..JoinOptions::receiver(group, "r1", 17) }
}

impl Application {
    async fn join(&self, group: &str) -> Result<(), Error> {
        self.client.join(joining(group)).await.map(drop)
    }

    async fn join_for_good(&self, group: &str) -> Result<(), Error> {
        self.client.join(joining(group).without_lease()).await.map(drop)
    }

    async fn hold(&self, group: &str) -> Result<Streaming<pb::HoldMembershipResponse>, Status> {
        let channel =
            Endpoint::from_shared(format!("unix:{}", self.socket.display())).unwrap().connect().await.unwrap();
        let mut request = Request::new(pb::HoldMembershipRequest { group: group.into(), host: "r1".into() });
        request.metadata_mut().insert("authorization", format!("Bearer {}", self.token).parse().unwrap());
        let mut stream = MembershipServiceClient::new(channel).hold_membership(request).await?.into_inner();
        stream.message().await?;
        Ok(stream)
    }
}

fn denied(answer: Result<(), Error>, text: &str) {
    assert!(matches!(&answer, Err(Error::NotPermitted(why)) if why.contains(text)), "{answer:?}");
}

/// Files below `dir` that contain one of these texts.
fn with(dir: &Path, texts: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            found.extend(with(&entry.path(), texts));
        } else if kind.is_file() {
            let octets = std::fs::read(entry.path()).unwrap();
            found.extend(texts.iter().any(|text| has(&octets, text)).then(|| entry.path()));
        }
    }
    found
}

fn has(octets: &[u8], text: &str) -> bool {
    octets.windows(text.len()).any(|window| window == text.as_bytes())
}

const A: &str = "eyJhbGciA.trainerA.c2lnbmF0dXJlA";
const ROTATED: &str = "eyJhbGciR.trainerA.cm90YXRlZA";
const SECOND: &str = "eyJhbGciS.trainerS.c2Vjb25k";
const OTHER: &str = "eyJhbGciO.otherO.b3RoZXI";
const ELSEWHERE: &str = "eyJhbGciE.trainerE.ZWxzZXdoZXJl";
const LATE: &str = "eyJhbGciL.lateL.bGF0ZQ";

/// Catches a user that joins without a token, a pod that takes or ends another pod's membership, an outage of the API server that ends one or
/// permits one, and a token that is shown in a log or a file.
#[tokio::test(flavor = "multi_thread")]
async fn a_membership_is_of_one_pod_and_outlasts_the_api_server() {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_writer(move || writer.clone())
        .init();
    let mut world = World::start().await;
    // The agent's own user, which is root where tests run as root.
    let unnamed = Client::connect(world.socket()).await.unwrap();
    denied(unnamed.join(joining("open")).await.map(drop), "CANOPY_TOKEN_FILE");
    assert!(world.members("open").await.is_empty() && world.api.reviews() == 0);

    let a = world.pod(A, "training:trainer", "uid-a", "worker-1").await;
    a.join("open").await.unwrap();
    let by = serde_json::json!({"kind": "host", "name": "r1", "account": "training/trainer"});
    assert_eq!(world.members("open").await, std::slice::from_ref(&by));
    let second = world.pod(SECOND, "training:trainer", "uid-second", "worker-1").await;
    let other = world.pod(OTHER, "vision:camera", "uid-other", "worker-1").await;
    for (pod, whose) in [(&second, "another pod of this service account"), (&other, "a pod of another service account")]
    {
        denied(pod.client.leave("open", "r1").await, whose);
        denied(pod.join("open").await, whose);
        let held = pod.hold("open").await.map(drop).unwrap_err();
        assert!(held.code() == Code::PermissionDenied && held.message().contains(whose), "{held}");
    }
    denied(unnamed.leave("open", "r1").await, "CANOPY_TOKEN_FILE");
    let elsewhere = world.pod(ELSEWHERE, "training:trainer", "uid-elsewhere", "worker-2").await;
    denied(elsewhere.join("open").await, "node worker-2 is not of a pod at host/r1");
    denied(elsewhere.client.leave("open", "r1").await, "worker-2");
    // The next token of the same pod.
    let rotated = world.pod(ROTATED, "training:trainer", "uid-a", "worker-1").await;
    rotated.hold("open").await.unwrap();

    // A group of a tenant is not there for other namespaces, and who names it takes nothing from those it is for.
    a.join("of-training").await.unwrap();
    let hidden = other.join("of-training").await.unwrap_err();
    assert!(matches!(&hidden, Error::NoSuchGroup(why) if why.contains("of-training")), "{hidden}");
    let absent = other.join("absent").await.unwrap_err();
    assert_eq!(absent.to_string().replace("absent", "of-training"), hidden.to_string());
    a.hold("of-training").await.unwrap();
    let held = [other.hold("of-training").await, other.hold("absent").await].map(|held| held.map(drop).unwrap_err());
    assert_eq!(held[0].message(), held[1].message().replace("absent", "of-training"));
    // As of one that is not there, which is left already.
    other.client.leave("of-training", "r1").await.unwrap();
    a.hold("of-training").await.unwrap();
    denied(second.client.leave("of-training", "r1").await, "another pod");
    a.client.leave("of-training", "r1").await.unwrap();

    // The API server goes away.
    let late = world.pod(LATE, "training:trainer", "uid-late", "worker-1").await;
    world.api.set(Mood::Fails(500));
    world.pass(20);
    let away = late.join_for_good("of-training").await.unwrap_err();
    assert!(matches!(&away, Error::Unavailable(why) if why.contains("memberships stay")), "{away}");
    assert!(world.members("of-training").await.is_empty());
    a.join_for_good("of-training").await.unwrap();
    a.hold("open").await.unwrap();
    denied(other.client.leave("open", "r1").await, "another service account");

    world.restart_agent().await;
    // The process holds its lease again, as the one that the agent before knew.
    let mut held = a.hold("open").await.unwrap();
    let unknown = late.hold("open").await.map(drop).unwrap_err();
    assert_eq!(unknown.code(), Code::Unavailable, "{unknown}");
    denied(other.client.leave("open", "r1").await, "another service account");
    assert_eq!(world.members("open").await, std::slice::from_ref(&by));
    assert_eq!(world.members("of-training").await, [by]);

    // It is back; the pod is gone, as its token is.
    world.api.set(Mood::Well);
    world.pass(20);
    a.client.leave("open", "r1").await.unwrap();
    assert_eq!(held.message().await.unwrap_err().code(), Code::NotFound);
    late.join("open").await.unwrap();
    let (dir, tokens) = (world.dir.path().to_owned(), [A, ROTATED, SECOND, OTHER, ELSEWHERE, LATE]);
    assert_eq!(with(&dir, &tokens), Vec::<PathBuf>::new());
    assert!(!with(&dir, &["training/trainer uid-a"]).is_empty(), "the files were not found");
    drop((a, second, other, elsewhere, rotated, late, unnamed));
    world.stop().await;
    let logged = log.0.lock().unwrap();
    assert!(has(&logged, "account=training/trainer"), "the log was not found");
    for token in tokens {
        assert!(!has(&logged, token), "a token is in the log");
    }
}
