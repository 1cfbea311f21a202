// SPDX-License-Identifier: Apache-2.0
//! Answers of the gRPC services to invalid requests, and the group status that RDMA applications receive.

use std::net::Ipv6Addr;
use std::time::Duration;

use canopy_control::pb::{
    GroupPhase, JoinRequest, LeaveRequest, MemoryRegion, ReportRequest, Role, WatchGroupRequest, WatchRequest,
};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Request, Response};
use serde_json::{Value, json};
use tonic::{Code, Status};
use tower::ServiceExt;

use crate::support::{Agent, Controller, DEADLINE, LAB};

fn join(host: &str, role: Role, qpn: u32) -> JoinRequest {
    JoinRequest { group: "g1".into(), host: host.into(), role: role.into(), qpn, ..Default::default() }
}

fn refused<T: std::fmt::Debug>(answer: Result<T, Status>, code: Code, text: &str) {
    let status = answer.unwrap_err();
    assert_eq!(status.code(), code, "{status}");
    assert!(status.message().contains(text), "{text:?} is not in {status}");
}

#[tokio::test]
async fn applications_join_watch_and_leave() {
    let dir = tempfile::tempdir().unwrap();
    let controller = Controller::start(dir.path()).await;
    controller.apply(LAB).await.unwrap();
    for host in ["s1", "r1"] {
        controller.ctl(&["delete", "member", host, "-g", "g1"]).await.unwrap();
    }
    let mut membership = controller.membership().await;
    let mut watch = membership
        .watch_group(WatchGroupRequest { group: "g1".into(), ..Default::default() })
        .await
        .unwrap()
        .into_inner();
    let first = watch.message().await.unwrap().unwrap();
    assert_eq!((first.phase(), first.receivers), (GroupPhase::Pending, 0));

    let memory = Some(MemoryRegion { va: 0x1000, rkey: 5, length: 8192 });
    let receiver =
        membership.join(JoinRequest { memory, ..join("r1", Role::Receiver, 17) }).await.unwrap().into_inner();
    let again = membership.join(JoinRequest { memory, ..join("r1", Role::Receiver, 17) }).await.unwrap().into_inner();
    assert_eq!(receiver, again);
    let source = membership.join(join("s1", Role::Source, 18)).await.unwrap().into_inner();
    assert_eq!(
        (&source.proxy_address, source.designated_qpn, source.start_psn),
        (&receiver.proxy_address, receiver.designated_qpn, receiver.start_psn)
    );
    let proxy = Ipv6Addr::from(<[u8; 16]>::try_from(source.proxy_address).unwrap());
    assert_eq!(proxy.segments()[..4], [0xfcfe, 0, 0, 0]);

    let agents = [
        Agent::connect(&controller, "n1", None).await.unwrap().apply_all(),
        Agent::connect(&controller, "n2", None).await.unwrap().apply_all(),
    ];
    let ready = loop {
        let now = tokio::time::timeout(DEADLINE, watch.message()).await.expect("not ready").unwrap().unwrap();
        if now.phase() == GroupPhase::Ready {
            break now;
        }
    };
    assert_eq!((ready.receivers, ready.write_length, ready.session), (1, 8192, receiver.session));
    // The session ends with its source: the receiver joins again, with the same content, and gets other parameters.
    membership.leave(LeaveRequest { group: "g1".into(), host: "s1".into(), ..Default::default() }).await.unwrap();
    let ended = loop {
        let now = tokio::time::timeout(DEADLINE, watch.message()).await.expect("no other session").unwrap().unwrap();
        if now.session != ready.session {
            break now;
        }
    };
    assert_eq!(ended.receivers, 0);
    let next = membership.join(JoinRequest { memory, ..join("r1", Role::Receiver, 17) }).await.unwrap().into_inner();
    assert_eq!((next.session, &next.proxy_address), (ended.session, &receiver.proxy_address));
    assert!(next.designated_qpn != receiver.designated_qpn && next.start_psn != receiver.start_psn);
    let psn = Some(next.start_psn ^ 1);
    let other = membership.join(JoinRequest { start_psn: psn, ..join("s1", Role::Source, 18) }).await;
    refused(other, Code::InvalidArgument, "spec.startPsn: ");
    membership.leave(LeaveRequest { group: "g1".into(), host: "r1".into(), ..Default::default() }).await.unwrap();
    let leave = LeaveRequest { group: "g1".into(), host: "r1".into(), ..Default::default() };
    refused(membership.leave(leave).await, Code::NotFound, "g1/r1");
    controller.ctl(&["delete", "group", "g1"]).await.unwrap();
    let deleted = loop {
        match tokio::time::timeout(DEADLINE, watch.message()).await.expect("the watch does not end") {
            Ok(state) => assert!(state.is_some(), "only a status ends a watch"),
            Err(status) => break status,
        }
    };
    assert!(deleted.code() == Code::NotFound && deleted.message().contains("g1"), "{deleted}");
    controller.stop().await;
    for agent in agents {
        agent.await.unwrap();
    }
}

#[tokio::test]
async fn wrong_requests_are_refused_by_field() {
    let dir = tempfile::tempdir().unwrap();
    let controller = Controller::start(dir.path()).await;
    controller.apply(LAB).await.unwrap();
    let mut m = controller.membership().await;
    refused(m.join(join("r2", Role::Receiver, 0x100_0000)).await, Code::InvalidArgument, "qpn: ");
    refused(m.join(join("r2", Role::Unspecified, 17)).await, Code::InvalidArgument, "role: ");
    refused(
        m.join(JoinRequest { address: vec![1, 2], ..join("r2", Role::Receiver, 17) }).await,
        Code::InvalidArgument,
        "address: ",
    );
    let outside: Ipv6Addr = "2001:db8:9::1".parse().unwrap();
    refused(
        m.join(JoinRequest { address: outside.octets().into(), ..join("r2", Role::Receiver, 17) }).await,
        Code::InvalidArgument,
        "address: ",
    );
    refused(m.join(join("r1", Role::Receiver, 99)).await, Code::AlreadyExists, "r1");
    refused(m.join(JoinRequest { group: "g9".into(), ..join("r2", Role::Receiver, 17) }).await, Code::NotFound, "g9");
    refused(m.watch_group(WatchGroupRequest { group: "g9".into(), ..Default::default() }).await, Code::NotFound, "g9");
    let mut n = controller.nodes().await;
    let watch = |node: &str, known_digest: Vec<u8>| WatchRequest {
        node: node.into(),
        known_generation: 1,
        known_digest,
        ..Default::default()
    };
    refused(n.watch(watch("n9", vec![])).await, Code::NotFound, "n9");
    refused(n.watch(watch("", vec![])).await, Code::InvalidArgument, "node: ");
    refused(n.watch(watch("n1", vec![1, 2, 3])).await, Code::InvalidArgument, "known_digest: ");
    let report = ReportRequest { node: "n9".into(), ..Default::default() };
    refused(n.report(report).await, Code::NotFound, "n9");
    controller.stop().await;
}

#[tokio::test]
async fn the_stream_of_a_removed_node_ends_and_a_changed_one_keeps_its_stream() {
    let dir = tempfile::tempdir().unwrap();
    let controller = Controller::start(dir.path()).await;
    controller.apply(LAB).await.unwrap();
    controller.ctl(&["delete", "group", "g1"]).await.unwrap();
    let (mut kept, mut gone) = (
        Agent::connect(&controller, "n1", None).await.unwrap(),
        Agent::connect(&controller, "n2", None).await.unwrap(),
    );
    for agent in [&mut kept, &mut gone] {
        agent.next().await.unwrap();
    }
    let small = "apiVersion: canopy/v1\nkind: Topology\nmetadata: {name: default}\nspec: {nodes: [{name: n1, id: 1}], links: []}\n";
    controller.apply(small).await.unwrap();
    let status = loop {
        match gone.next().await {
            Ok(_) => {}
            Err(status) => break status,
        }
    };
    assert!(status.code() == Code::NotFound && status.message().contains("n2"), "{status}");
    kept.next().await.unwrap().unwrap();
    assert!(kept.held.unwrap().spec().base.ports.is_empty());
    controller.stop().await;
}

/// A call with these bytes as its body, unchanged.
async fn raw(controller: &Controller, path: &str, bytes: &'static [u8]) -> Status {
    let request = Request::post(format!("http://controller{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    let request = request.body(tonic::body::Body::new(Full::new(Bytes::from_static(bytes)))).unwrap();
    let answer: Response<tonic::body::Body> = controller.channel().await.oneshot(request).await.unwrap();
    if let Some(status) = Status::from_header_map(answer.headers()) {
        return status;
    }
    let body = tokio::time::timeout(DEADLINE, answer.into_body().collect()).await.expect("the call hangs").unwrap();
    Status::from_header_map(body.trailers().expect("no trailers")).unwrap()
}

/// Catches a plan of other versions than those that agents report, and one that lets a version in that does not work with one of them.
#[tokio::test]
async fn the_order_of_an_upgrade_comes_from_what_runs() {
    let dir = tempfile::tempdir().unwrap();
    let controller = Controller::start(dir.path()).await;
    let plan = async |to: &str| controller.ctl(&["upgrade", "plan", "--to", to, "-o", "json"]).await;
    let own = env!("CARGO_PKG_VERSION");
    assert!(controller.ctl(&["upgrade", "plan"]).await.unwrap().contains("nothing to do"));
    controller.apply(LAB).await.unwrap();
    let steps = json!([{"upgrade": "agents", "names": ["n1"]}, {"upgrade": "agents", "names": ["n2"]}]);
    let answer: Value = serde_json::from_str(&plan(own).await.unwrap()).unwrap();
    assert_eq!(answer, json!({"to": own, "steps": steps, "unknown": ["n1", "n2"]}));
    let mut agent = Agent::connect(&controller, "n2", None).await.unwrap();
    agent.version = own;
    agent.next().await.unwrap();
    agent.report().await;
    let answer: Value = serde_json::from_str(&plan(own).await.unwrap()).unwrap();
    assert_eq!(answer["unknown"], json!(["n1"]));
    assert_eq!(answer["steps"], json!([{"upgrade": "agents", "names": ["n1"]}]));
    let (code, text) = plan("0.9.0").await.unwrap_err();
    assert_eq!(code, 1);
    assert!(text.contains(&format!("the controller ({own}), agent n2 ({own})")) && !text.contains("n1"), "{text}");
    controller.stop().await;
}

#[tokio::test]
async fn truncated_or_oversized_messages_get_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let controller = Controller::start(dir.path()).await;
    controller.apply(LAB).await.unwrap();
    for path in ["/canopy.v1.NodeService/Watch", "/canopy.v1.NodeService/Report", "/canopy.v1.MembershipService/Join"] {
        // The message declares a string of 9 bytes and ends after 2.
        let cut_inside = raw(&controller, path, b"\0\0\0\0\x04\x0a\x09n1").await;
        assert!(cut_inside.code() != Code::Ok && cut_inside.message().contains("decode"), "{path}: {cut_inside}");
        // The frame declares 64 bytes; 2 follow.
        let cut_frame = raw(&controller, path, b"\0\0\0\0\x40\x0a\x09").await;
        assert!(cut_frame.code() != Code::Ok && !cut_frame.message().is_empty(), "{path}: {cut_frame}");
        let nothing = raw(&controller, path, b"").await;
        assert!(nothing.code() != Code::Ok && !nothing.message().is_empty(), "{path}: {nothing}");
        let too_large = raw(&controller, path, b"\0\x7f\xff\xff\xff\x0a").await;
        assert!(too_large.code() == Code::OutOfRange && too_large.message().contains("limit"), "{path}: {too_large}");
    }
    // Other calls on the connection continue.
    Agent::connect(&controller, "n1", None).await.unwrap().next().await.unwrap().unwrap();
    controller.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_level_goes_to_the_agent_and_changes_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let controller = Controller::start(dir.path()).await;
    controller.apply(LAB).await.unwrap();
    let refused = controller.ctl(&["log-level", "agent", "n2", "debug"]).await.unwrap_err();
    assert!(refused.0 == 4 && refused.1.contains("the agent of node n2 is not connected"), "{refused:?}");
    let mut agent = Agent::connect(&controller, "n2", None).await.unwrap();
    agent.next().await.unwrap().unwrap();
    agent.report().await;
    let before = agent.held.as_ref().unwrap().digest();

    let printed = controller.ctl(&["log-level", "agent", "n2", "debug", "--for", "5m"]).await.unwrap();
    assert_eq!(printed, "the agent of n2 logs debug for 5m\n");
    let message = agent.next().await.unwrap().unwrap();
    let level = message.log_level.unwrap();
    assert!(level.filter == "debug" && level.within_ns > 60_000_000_000 && level.within_ns <= 300_000_000_000);
    assert_eq!(agent.held.as_ref().unwrap().digest(), before);
    let described = controller.ctl(&["describe", "node", "n2"]).await.unwrap();
    assert!(described.contains("debug for 4m"), "{described}");
    assert!(controller.ctl(&["describe", "node", "n1"]).await.unwrap().contains("of its configuration"));

    controller.ctl(&["log-level", "controller", "warn,canopy_store=debug"]).await.unwrap();
    let listed = controller.ctl(&["log-level", "list"]).await.unwrap();
    assert!(listed.contains("controller  warn,canopy_store=debug") && listed.contains("agent n2"), "{listed}");
    let controllers = controller.ctl(&["get", "controllers"]).await.unwrap();
    assert!(controllers.contains("logs warn,canopy_store=debug for 9m"), "{controllers}");

    controller.ctl(&["log-level", "agent", "n2", "default"]).await.unwrap();
    assert_eq!(agent.next().await.unwrap().unwrap().log_level.unwrap().filter, "");
    controller.stop().await;
}

/// Catches a change that an agent never gets: it was published while the node's stream read an earlier one.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn an_agent_has_the_newest_state_however_changes_share_commits() {
    const GROUPS: usize = 8;
    let dir = tempfile::tempdir().unwrap();
    let controller = Controller::start(dir.path()).await;
    let (_, topology) = LAB.rsplit_once("---").unwrap();
    controller.apply(topology).await.unwrap();
    let group = |n: usize, labels: &str| {
        format!("apiVersion: canopy/v1\nkind: Group\nmetadata: {{name: g{n}, labels: {{{labels}}}}}\nspec: {{}}\n")
    };
    let member = |n: usize, host: &str, role: &str| {
        let qpn = 100 + n;
        format!(
            "apiVersion: canopy/v1\nkind: Member\nmetadata: {{group: g{n}}}\nspec: {{host: {host}, role: {role}, qpn: {qpn}}}\n"
        )
    };
    let all = |n| [group(n, ""), member(n, "s1", "source"), member(n, "r1", "receiver")].join("---\n");
    controller.apply(&(0..GROUPS).map(all).collect::<Vec<_>>().join("---\n")).await.unwrap();
    let agents = [
        Agent::connect(&controller, "n1", None).await.unwrap().apply_all(),
        Agent::connect(&controller, "n2", None).await.unwrap().apply_all(),
    ];
    for round in 0..400 {
        let writers = (0..GROUPS).map(|n| {
            let (controller, file) = (&controller, dir.path().join(format!("g{n}.yaml")));
            async move {
                let labels = if round % 2 == 0 { "canopy/metrics: branches" } else { "" };
                std::fs::write(&file, group(n, labels)).unwrap();
                controller.ctl(&["apply", "-f", file.to_str().unwrap()]).await.unwrap();
            }
        });
        futures::future::join_all(writers).await;
        let deadline = tokio::time::Instant::now() + DEADLINE;
        for node in ["n1", "n2"] {
            loop {
                let is = controller.get(&["node", node]).await;
                let (wanted, has) = (&is["spec"]["generation"], &is["status"]["observedGeneration"]);
                assert!(wanted.is_u64(), "{is}");
                if wanted == has {
                    break;
                }
                assert!(tokio::time::Instant::now() < deadline, "round {round}: {node} has {has} of {wanted}");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }
    controller.stop().await;
    for agent in agents {
        assert_eq!(agent.await.unwrap().0.unwrap().spec().groups.len(), GROUPS);
    }
}
