// SPDX-License-Identifier: Apache-2.0
//! The host socket of a host's agent, against a controller that gives the answers a test configures.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;

use canopy_agent_link::Target;
use canopy_agent_runtime::config::HostSocket;
use canopy_agent_runtime::host_socket::{Hosts, Served};
use canopy_agent_runtime::program::since_boot;
use canopy_control::pb;
use canopy_control::pb::membership_service_client::MembershipServiceClient;
use canopy_control::pb::source_flow_service_client::SourceFlowServiceClient;
use canopy_testkit::agent::{Agent as Controller, Requests};
use canopy_testkit::controller::soon;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Streaming};

type Client = MembershipServiceClient<Channel>;

/// The agent of r1.
struct Agent {
    close: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Agent {
    async fn start(dir: &Path, controller: &Controller) -> Self {
        let target: Target = format!("unix:{}", controller.path().display()).parse().unwrap();
        let channels = target.channels(dir).unwrap();
        let (send, ready) = oneshot::channel();
        let send = std::sync::Mutex::new(Some(send));
        let hosts = Hosts {
            config: HostSocket {
                path: dir.join("r1.sock"),
                group: String::new(),
                uids: vec![],
                gids: vec![],
                kubernetes: false,
            },
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

    /// As by a signal; its connections to the controller end.
    async fn stop(self) {
        self.close.send_replace(true);
        soon("the end of the agent", self.task).await.unwrap();
    }
}

/// An application's connection.
async fn application(dir: &Path) -> Client {
    let socket = format!("unix:{}", dir.join("r1.sock").display());
    MembershipServiceClient::new(Endpoint::from_shared(socket).unwrap().connect().await.unwrap())
}

fn joining(host: &str) -> pb::JoinRequest {
    let role = pb::Role::Receiver.into();
    // The uid is what another program pretends.
    pb::JoinRequest {
        group: "g".into(),
        host: host.into(),
        role,
        qpn: 17,
        lease: true,
        uid: Some(7),
        ..Default::default()
    }
}

async fn hold(client: &mut Client) -> Streaming<pb::HoldMembershipResponse> {
    let request = pb::HoldMembershipRequest { group: "g".into(), host: "r1".into() };
    let mut stream = client.hold_membership(request).await.unwrap().into_inner();
    stream.message().await.unwrap().unwrap();
    stream
}

async fn until(controller: &Controller, what: &str, mut done: impl FnMut(&Requests) -> bool) {
    soon(what, async {
        while !done(&controller.requests.lock().unwrap()) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// Catches a lease that the agent does not hold at the controller, or holds beyond its end, and a user that is not the caller.
#[tokio::test(flavor = "multi_thread")]
async fn the_agent_holds_at_the_controller_what_applications_hold_here() {
    let dir = tempfile::tempdir().unwrap();
    let controller = tokio::task::block_in_place(|| Controller::start(dir.path()));
    let agent = Agent::start(dir.path(), &controller).await;
    let own = nix::unistd::geteuid().as_raw();
    let mut client = application(dir.path()).await;
    let other = client.join(joining("r2")).await.unwrap_err();
    assert!(other.code() == Code::InvalidArgument && other.message().contains("which is \"r1\""), "{other}");
    client.join(joining("r1")).await.unwrap();
    let held = hold(&mut client).await;
    until(&controller, "a hold at the controller", |requests| requests.holds.len() == 1).await;
    {
        let requests = controller.requests.lock().unwrap();
        assert_eq!((requests.joins.len(), requests.joins[0].lease, requests.joins[0].uid), (1, true, Some(own)));
        assert_eq!((requests.holds[0].group.as_str(), requests.holds[0].host.as_str()), ("g", "r1"));
    }

    // Restarted, it holds the lease at once, and its application, which is alive, does not leave.
    agent.stop().await;
    let agent = Agent::start(dir.path(), &controller).await;
    until(&controller, "a hold of the next agent", |requests| requests.holds.len() == 2).await;
    drop(held);
    let mut client = application(dir.path()).await;
    let mut held = hold(&mut client).await;
    assert!(controller.requests.lock().unwrap().leaves.is_empty());

    // What ends here is not held there.
    let leave = pb::LeaveRequest { group: "g".into(), host: "r1".into(), uid: Some(7), ..Default::default() };
    client.leave(leave).await.unwrap();
    assert_eq!(held.message().await.unwrap_err().code(), Code::NotFound);
    assert_eq!(controller.requests.lock().unwrap().leaves[0].uid, Some(own));
    until(&controller, "the end of the hold", |requests| requests.ended == 2).await;
    agent.stop().await;
}

/// Catches a pacer that is not given a flow of this host, or an old one, or keeps that of a source which has left.
#[tokio::test(flavor = "multi_thread")]
async fn the_flows_of_sources_that_are_held_are_watched() {
    let dir = tempfile::tempdir().unwrap();
    let controller = tokio::task::block_in_place(|| Controller::start(dir.path()));
    let flow = |dest_qpn: u32, nodes: &[u8]| {
        let nodes = nodes.iter().map(|node| vec![*node; 16]).collect();
        pb::SourceFlow { qpn: 17, peer: vec![0xfd; 16], dest_qpn, nodes }
    };
    controller.requests.lock().unwrap().flows = vec![flow(5, &[1, 2]), flow(6, &[2, 3])];
    let agent = Agent::start(dir.path(), &controller).await;
    let mut client = application(dir.path()).await;
    let socket = format!("unix:{}", dir.path().join("r1.sock").display());
    let channel = Endpoint::from_shared(socket).unwrap().connect().await.unwrap();
    let mut watching = SourceFlowServiceClient::new(channel);
    let mut watch = watching.watch_source_flows(pb::WatchSourceFlowsRequest {}).await.unwrap().into_inner();
    assert_eq!(watch.message().await.unwrap(), Some(pb::WatchSourceFlowsResponse::default()));
    client.join(joining("r1")).await.unwrap();
    let _held = hold(&mut client).await;
    let wanted = pb::WatchSourceFlowsResponse { flows: vec![flow(6, &[])], nodes: vec![vec![2; 16], vec![3; 16]] };
    soon("the newest flow", async { while watch.message().await.unwrap().as_ref() != Some(&wanted) {} }).await;
    // The next agent reports nothing before the controller has answered for what this one had.
    agent.stop().await;
    while let Ok(left) = watch.message().await {
        assert_eq!(left.as_ref(), Some(&wanted), "a part was reported at the end");
    }
    let agent = Agent::start(dir.path(), &controller).await;
    let mut client = application(dir.path()).await;
    let _held = hold(&mut client).await;
    let socket = format!("unix:{}", dir.path().join("r1.sock").display());
    let mut watching = SourceFlowServiceClient::new(Endpoint::from_shared(socket).unwrap().connect().await.unwrap());
    let mut watch = watching.watch_source_flows(pb::WatchSourceFlowsRequest {}).await.unwrap().into_inner();
    let first = soon("what the agent before had", watch.message()).await.unwrap().unwrap();
    assert!(!first.flows.is_empty(), "{first:?}");
    soon("the newest flow", async {
        let mut seen = first;
        while seen != wanted {
            seen = watch.message().await.unwrap().unwrap();
        }
    })
    .await;
    // One that comes later is given what is known.
    let mut late = watching.watch_source_flows(pb::WatchSourceFlowsRequest {}).await.unwrap().into_inner();
    assert_eq!(late.message().await.unwrap(), Some(wanted));
    client.leave(pb::LeaveRequest { group: "g".into(), host: "r1".into(), ..Default::default() }).await.unwrap();
    assert_eq!(watch.message().await.unwrap(), Some(pb::WatchSourceFlowsResponse::default()));
    agent.stop().await;
    let ended = soon("the end of the watch", async {
        loop {
            if let Err(end) = watch.message().await {
                break end;
            }
        }
    });
    assert_eq!(ended.await.code(), Code::Unavailable);
}

/// Catches a refusal of the controller that an application takes for a controller which is away.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_controller_refuses_is_refused_with_its_reason() {
    let dir = tempfile::tempdir().unwrap();
    let controller = tokio::task::block_in_place(|| Controller::start(dir.path()));
    let agent = Agent::start(dir.path(), &controller).await;
    let mut client = application(dir.path()).await;
    let refused = client.join(pb::JoinRequest { group: "forbidden".into(), ..joining("r1") }).await.unwrap_err();
    assert!(refused.code() == Code::PermissionDenied && refused.message().contains("certificate"), "{refused}");
    // Nothing is held for it.
    let request = pb::HoldMembershipRequest { group: "forbidden".into(), host: "r1".into() };
    assert_eq!(client.hold_membership(request).await.unwrap_err().code(), Code::NotFound);
    agent.stop().await;
}
