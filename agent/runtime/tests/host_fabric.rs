// SPDX-License-Identifier: Apache-2.0
//! What canopy-steer gets at the socket of a host's agent, against a controller that a test configures.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::{Arc, Mutex};

use canopy_agent_link::Target;
use canopy_agent_runtime::config::HostSocket;
use canopy_agent_runtime::host_socket::{Hosts, Served};
use canopy_agent_runtime::program::since_boot;
use canopy_control::fabric::{FabricDigest, FabricItems, Held, Received};
use canopy_control::pb;
use canopy_control::pb::fabric_service_client::FabricServiceClient;
use canopy_control::pb::fabric_service_server::{FabricService, FabricServiceServer};
use canopy_model::fabric::{FabricLink, FabricNode, HostFabric, Sender};
use canopy_model::ids::{NodeId, PortIndex};
use canopy_model::usid::UsidBlock;
use canopy_testkit::controller::soon;
use tokio::net::UnixListener;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tonic::transport::{Endpoint, Server};
use tonic::{Code, Request, Response, Status, Streaming};

/// What the controller has.
type State = (Arc<FabricItems>, Sender);

/// Answers with all of the newest state, or with the state alone to a caller that has its fabric.
#[derive(Clone)]
struct Controller {
    state: watch::Receiver<Result<State, Status>>,
    digests: Arc<Mutex<Vec<Vec<u8>>>>,
}

#[tonic::async_trait]
impl FabricService for Controller {
    type WatchFabricStream = ReceiverStream<Result<pb::WatchFabricResponse, Status>>;

    async fn watch_fabric(
        &self,
        request: Request<pb::WatchFabricRequest>,
    ) -> Result<Response<Self::WatchFabricStream>, Status> {
        let request = request.into_inner();
        assert_eq!(request.host, "r1");
        let known = FabricDigest::from_field("digest", &request.digest).unwrap();
        self.digests.lock().unwrap().push(request.digest);
        let (pages, receiver) = mpsc::channel(1);
        let mut state = self.state.clone();
        tokio::spawn(async move {
            loop {
                let now = state.borrow_and_update().clone();
                let all = match now {
                    Ok((items, sender)) => {
                        let from = (known == Some(items.digest())).then_some(&*items);
                        items.pages(from).with_state((items.digest(), &sender).into()).map(Ok).collect()
                    }
                    Err(status) => vec![Err(status)],
                };
                for page in all {
                    if pages.send(page).await.is_err() {
                        return;
                    }
                }
                tokio::select! {
                    changed = state.changed() => if changed.is_err() { return },
                    () = pages.closed() => return,
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}

/// A controller that is there until it is dropped.
struct Running {
    state: watch::Sender<Result<State, Status>>,
    digests: Arc<Mutex<Vec<Vec<u8>>>>,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Running {
    /// With the service, or without as one of an earlier version.
    fn start(dir: &Path, state: Result<State, Status>, has_service: bool) -> Self {
        let path = dir.join("controller.sock");
        _ = std::fs::remove_file(&path);
        let (state, states) = watch::channel(state);
        let service = Controller { state: states, digests: Arc::default() };
        let digests = Arc::clone(&service.digests);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let incoming = {
            let _context = runtime.enter();
            UnixListenerStream::new(UnixListener::bind(path).unwrap())
        };
        let service = has_service.then(|| FabricServiceServer::new(service));
        let server = Server::builder().add_optional_service(service);
        runtime.spawn(server.serve_with_incoming(incoming));
        Self { state, digests, runtime: Some(runtime) }
    }

    fn asked(&self) -> Vec<Vec<u8>> {
        self.digests.lock().unwrap().clone()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The agent of r1.
struct Agent {
    close: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Agent {
    async fn start(dir: &Path) -> Self {
        let target: Target = format!("unix:{}", dir.join("controller.sock").display()).parse().unwrap();
        let channels = target.channels(dir).unwrap();
        let (send, ready) = oneshot::channel();
        let send = Mutex::new(Some(send));
        let path = dir.join("r1.sock");
        let hosts = Hosts {
            config: HostSocket { path, group: String::new(), uids: vec![], gids: vec![], kubernetes: false },
            served: Served::Host { name: "r1".into(), holds: channels.telemetry, random: Arc::new(|| 0.5) },
            target: target.to_string(),
            controller: channels.control,
            state_dir: dir.to_owned(),
            clock: Arc::new(since_boot),
            on_ready: Box::new(move || _ = send.lock().unwrap().take().map(|ready| ready.send(()))),
        };
        let (close, closing) = watch::channel(false);
        let task = tokio::spawn(hosts.run(closing));
        soon("the socket", ready).await.unwrap();
        Self { close, task }
    }

    async fn stop(self) {
        self.close.send_replace(true);
        soon("the end of the agent", self.task).await.unwrap();
    }
}

/// canopy-steer, as far as it receives.
struct Steer {
    stream: Streaming<pb::WatchFabricResponse>,
    received: Received,
}

impl Steer {
    async fn watch(dir: &Path, host: &str, mut received: Received) -> Result<Self, Status> {
        let socket = format!("unix:{}", dir.join("r1.sock").display());
        let channel = Endpoint::from_shared(socket).unwrap().connect().await.unwrap();
        let request = pb::WatchFabricRequest { host: host.into(), digest: received.digest() };
        let stream = FabricServiceClient::new(channel).watch_fabric(request).await?.into_inner();
        Ok(Self { stream, received })
    }

    /// The next change: how many nodes travelled, and what is in force then.
    async fn next(&mut self) -> Result<(usize, Held), Status> {
        let mut nodes = 0;
        loop {
            let page = soon("a page", self.stream.message()).await?.expect("an end without a status");
            nodes += page.nodes.len();
            if let Some(held) = self.received.apply(page).unwrap() {
                return Ok((nodes, held));
            }
        }
    }
}

fn node(number: u64) -> NodeId {
    NodeId::new("node", number).unwrap()
}

fn port(number: u64) -> PortIndex {
    PortIndex::new("port", number).unwrap()
}

/// Two nodes with a link of this MTU.
fn fabric(mtu: u32) -> HostFabric {
    let link = FabricLink { port: port(1), far: node(2), far_port: port(1), mtu };
    let n1 = FabricNode { name: "n1".into(), links: vec![link], hosts: vec![] };
    let n2 = FabricNode { name: "n2".into(), ..FabricNode::default() };
    HostFabric { nodes: [(node(1), n1), (node(2), n2)].into() }
}

fn state(mtu: u32, permitted: bool) -> Result<State, Status> {
    let sender = Sender {
        block: UsidBlock::at_front("5f00::".parse().unwrap()),
        permitted,
        reason: String::new(),
        edge: node(1),
        edge_port: port(2),
        most_nodes: 5,
        address: "2001:db8::1".parse().unwrap(),
        unusable: vec![],
    };
    Ok((Arc::new(FabricItems::encode(&fabric(mtu))), sender))
}

/// Catches nodes that travel again, a change that does not arrive, and an agent that has nothing while its controller is away.
#[tokio::test(flavor = "multi_thread")]
async fn the_fabric_is_served_while_the_controller_is_away_and_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let controller = tokio::task::block_in_place(|| Running::start(dir.path(), state(9000, true), true));
    let agent = Agent::start(dir.path()).await;
    let other = Steer::watch(dir.path(), "r2", Received::default()).await.err().unwrap();
    assert!(other.code() == Code::InvalidArgument && other.message().contains("which is \"r1\""), "{other}");
    let mut steer = Steer::watch(dir.path(), "", Received::default()).await.unwrap();
    let (nodes, first) = steer.next().await.unwrap();
    assert_eq!((nodes, &*first.fabric, first.sender.permitted), (2, &fabric(9000), true));
    controller.state.send(state(9000, false)).unwrap();
    let (nodes, held) = steer.next().await.unwrap();
    assert_eq!((nodes, held.sender.permitted), (0, false));
    controller.state.send(state(4000, false)).unwrap();
    let (nodes, last) = steer.next().await.unwrap();
    assert_eq!((nodes, &*last.fabric), (1, &fabric(4000)), "the node that has the link");

    // The controller, and then the agent, is gone: the next agent has it from the file.
    drop(controller);
    agent.stop().await;
    let ended = loop {
        match steer.next().await {
            Ok(_) => {}
            Err(ended) => break ended,
        }
    };
    assert_eq!(ended.code(), Code::Unavailable);
    let agent = Agent::start(dir.path()).await;
    let mut again = Steer::watch(dir.path(), "r1", Received::default()).await.unwrap();
    assert_eq!(again.next().await.unwrap(), (2, last.clone()));
    let mut has_it = Steer::watch(dir.path(), "", steer.received).await.unwrap();
    assert_eq!(has_it.next().await.unwrap(), (0, last.clone()));

    // The controller is there again, and asked for what is new.
    let controller = tokio::task::block_in_place(|| Running::start(dir.path(), state(4000, true), true));
    for steer in [&mut again, &mut has_it] {
        let (nodes, held) = steer.next().await.unwrap();
        assert_eq!((nodes, held.sender.permitted), (0, true));
    }
    assert_eq!(controller.asked()[0], Vec::from(last.items.digest()));
    agent.stop().await;
}

/// Catches a damaged file that is served, or that keeps the agent from starting; and a host outside the topology that may still send.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_file_is_not_used_and_a_host_that_is_gone_may_send_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let controller = tokio::task::block_in_place(|| Running::start(dir.path(), state(9000, true), true));
    let agent = Agent::start(dir.path()).await;
    let mut steer = Steer::watch(dir.path(), "", Received::default()).await.unwrap();
    assert!(steer.next().await.unwrap().1.sender.permitted);
    controller.state.send(Err(Status::not_found("host: \"r1\" is no longer in the topology"))).unwrap();
    let (nodes, held) = steer.next().await.unwrap();
    assert_eq!((nodes, held.sender.permitted), (0, false));
    assert!(held.sender.reason.contains("no longer"), "{}", held.sender.reason);
    agent.stop().await;

    let file = dir.path().join("fabric");
    let mut octets = std::fs::read(&file).unwrap();
    *octets.last_mut().unwrap() ^= 1;
    std::fs::write(&file, octets).unwrap();
    controller.state.send(state(9000, true)).unwrap();
    let agent = Agent::start(dir.path()).await;
    let mut steer = Steer::watch(dir.path(), "", Received::default()).await.unwrap();
    assert_eq!(steer.next().await.unwrap().0, 2);
    assert!(controller.asked().last().unwrap().is_empty(), "nothing of the file is used");
    assert!(file.with_extension("damaged").exists());
    agent.stop().await;
}

/// Catches a watch that ends, and with it canopy-steer, because the controller is of an earlier version.
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_stays_open_at_a_controller_without_the_service() {
    let dir = tempfile::tempdir().unwrap();
    let early = tokio::task::block_in_place(|| Running::start(dir.path(), state(9000, true), false));
    let agent = Agent::start(dir.path()).await;
    let mut steer = Steer::watch(dir.path(), "", Received::default()).await.unwrap();
    agent.stop().await;
    let ended = soon("the end of the watch", steer.stream.message()).await.unwrap_err();
    assert_eq!(ended.code(), Code::Unavailable, "nothing was sent before: {ended}");
    drop(early);
}
