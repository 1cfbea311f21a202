// SPDX-License-Identifier: Apache-2.0
//! Memberships that end with the agent of their host: held by streams, over restarts of either side.

use std::path::Path;

use canopy_control::pb::{
    HoldMembershipRequest, HoldMembershipResponse, JoinRequest, LeaveRequest, Role, WatchGroupRequest,
};
use serde_json::{Value, json};
use tonic::{Code, Status, Streaming};

use crate::support::{Agent, Controller, DEADLINE, LAB};

const UID: u32 = 1000;

fn joining(host: &str, qpn: u32, lease: bool) -> JoinRequest {
    let role = Role::Receiver.into();
    JoinRequest { group: "g1".into(), host: host.into(), role, qpn, lease, uid: Some(UID), ..Default::default() }
}

async fn join(controller: &Controller, host: &str, qpn: u32, lease: bool) {
    controller.membership().await.join(joining(host, qpn, lease)).await.unwrap();
}

/// A stream that holds a membership, from the moment at which it does.
async fn hold(controller: &Controller, host: &str) -> Result<Streaming<HoldMembershipResponse>, Status> {
    let request = HoldMembershipRequest { group: "g1".into(), host: host.into() };
    let mut stream = controller.membership().await.hold_membership(request).await?.into_inner();
    stream.message().await?;
    Ok(stream)
}

async fn members(controller: &Controller) -> Vec<String> {
    let list = controller.get(&["members", "-g", "g1"]).await;
    let name = |member: &Value| member["spec"]["host"].as_str().unwrap().to_owned();
    list["items"].as_array().unwrap().iter().map(name).collect()
}

/// Waits until `host` is no member.
async fn gone(controller: &Controller, host: &str) {
    let end = tokio::time::Instant::now() + DEADLINE;
    while members(controller).await.iter().any(|member| member == host) {
        assert!(tokio::time::Instant::now() < end, "{host} is still a member");
        tokio::task::yield_now().await;
    }
}

/// Waits for an event of this node; its place in the journal.
async fn noted(controller: &Controller, code: &str, node: &str) -> u64 {
    let end = tokio::time::Instant::now() + DEADLINE;
    loop {
        let events = controller.get(&["events", "--node", node]).await;
        let found = events["items"].as_array().unwrap().iter().find(|event| event["code"] == code);
        if let Some(event) = found {
            return event["sequence"].as_u64().unwrap();
        }
        assert!(tokio::time::Instant::now() < end, "no {code} of {node}: {events}");
        tokio::task::yield_now().await;
    }
}

/// Who made the membership of `host`.
async fn written_by(controller: &Controller, host: &str) -> Value {
    let list = controller.get(&["members", "-g", "g1"]).await;
    let of_host = |member: &&Value| member["spec"]["host"] == host;
    list["items"].as_array().unwrap().iter().find(of_host).unwrap()["metadata"]["writtenBy"].clone()
}

/// The agent of a node, until it ends with the controller.
async fn agent(controller: &Controller, node: &str) {
    Agent::connect(controller, node, None).await.unwrap().apply_all();
}

/// With four hosts of receivers that are no members, r5 at n1 and the others at n2.
async fn start(dir: &Path) -> Controller {
    let host = |n: u8| format!("    - {{name: r{n}, prefix: \"2001:db8:{n}0::/64\", address: \"2001:db8:{n}0::1\"}}\n");
    let link = |n: u8| format!("    - {{a: n2/eth{n}0, b: r{n}/eth0}}\n");
    let hosts = [3, 4, 5].map(host).concat();
    let links = format!("{}{}", [3, 4].map(link).concat(), link(5).replace("n2", "n1"));
    let lab = LAB.replace("  links:\n", &format!("{hosts}  links:\n{links}"));
    let controller = Controller::start(dir).await;
    controller.apply(&lab).await.unwrap();
    controller
}

/// Catches a membership that outlasts a machine which is gone, one that ends although its agent came back, and one that ends without
/// ever having had a lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_membership_ends_a_while_after_the_last_stream_that_held_it() {
    let dir = tempfile::tempdir().unwrap();
    let controller = start(dir.path()).await;
    agent(&controller, "n2").await;
    join(&controller, "r2", 17, true).await;
    join(&controller, "r3", 18, true).await;
    join(&controller, "r4", 19, false).await;
    assert_eq!(written_by(&controller, "r2").await, json!({"kind": "host", "name": "r2", "uid": UID}));
    let (first, second) = (hold(&controller, "r2").await.unwrap(), hold(&controller, "r3").await.unwrap());
    assert_eq!(hold(&controller, "r4").await.unwrap_err().code(), Code::NotFound);
    // What an operator writes takes no lease away.
    let same =
        "apiVersion: canopy/v1\nkind: Member\nmetadata: {group: g1}\nspec: {host: r3, role: receiver, qpn: 18}\n";
    controller.apply(same).await.unwrap();
    // Both agents lose their connection, and one of them comes back.
    drop((first, second));
    let _again = hold(&controller, "r2").await.unwrap();
    gone(&controller, "r3").await;
    assert_eq!(members(&controller).await, ["r1", "r2", "r4", "s1"]);
    // A join without a lease takes it away.
    join(&controller, "r2", 17, false).await;
    assert_eq!(hold(&controller, "r2").await.unwrap_err().code(), Code::NotFound);
    controller.stop().await;
}

/// Catches a controller that is cut off, and ends what it cannot reach; and a process that does not learn that its membership ended.
#[tokio::test(flavor = "multi_thread")]
async fn a_membership_lasts_while_the_agent_of_its_edge_is_gone_as_well() {
    let dir = tempfile::tempdir().unwrap();
    let controller = start(dir.path()).await;
    agent(&controller, "n1").await;
    join(&controller, "r3", 18, true).await;
    join(&controller, "r5", 19, true).await;
    // The event follows the end.
    let r5 = noted(&controller, "MemberEvicted", "n1").await;
    agent(&controller, "n2").await;
    gone(&controller, "r3").await;
    let connected = noted(&controller, "AgentConnected", "n2").await;
    let r3 = noted(&controller, "MemberEvicted", "n2").await;
    assert!(r5 < connected && connected < r3, "{r5} {connected} {r3}");
    let group = controller.get(&["groups", "g1"]).await;
    let evicted = group["status"]["evicted"].as_array().unwrap().iter().map(|e| e["host"].as_str().unwrap());
    assert_eq!(evicted.collect::<Vec<_>>(), ["r5", "r3"], "{group}");
    controller.stop().await;
}

/// Catches a controller that forgets which memberships have leases, and one that ends those of agents that come back.
#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_starts_waits_for_the_agents_of_its_members() {
    let dir = tempfile::tempdir().unwrap();
    let controller = start(dir.path()).await;
    for (host, qpn) in [("r2", 17), ("r3", 18)] {
        join(&controller, host, qpn, true).await;
    }
    let mut held = hold(&controller, "r2").await.unwrap();
    controller.stop().await;
    let stopped = tokio::time::timeout(DEADLINE, held.message()).await.expect("the stream does not end").unwrap_err();
    assert_eq!(stopped.code(), Code::Unavailable, "{stopped}");

    let controller = Controller::start(dir.path()).await;
    agent(&controller, "n2").await;
    assert_eq!(members(&controller).await, ["r1", "r2", "r3", "s1"]);
    let _held = hold(&controller, "r2").await.unwrap();
    gone(&controller, "r3").await;
    assert_eq!(members(&controller).await, ["r1", "r2", "s1"]);
    controller.stop().await;
}

/// Catches an agent that holds what has ended, and one that holds too much.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_with_its_membership() {
    let dir = tempfile::tempdir().unwrap();
    let controller = start(dir.path()).await;
    join(&controller, "r2", 17, true).await;
    join(&controller, "r3", 18, true).await;
    let (mut left, mut deleted) = (hold(&controller, "r2").await.unwrap(), hold(&controller, "r3").await.unwrap());
    let leave = LeaveRequest { group: "g1".into(), host: "r2".into(), uid: Some(UID), ..Default::default() };
    controller.membership().await.leave(leave).await.unwrap();
    controller.ctl(&["delete", "member", "r3", "-g", "g1"]).await.unwrap();
    for stream in [&mut left, &mut deleted] {
        let end = tokio::time::timeout(DEADLINE, stream.message()).await.expect("the stream does not end").unwrap_err();
        assert!(end.code() == Code::NotFound && end.message().contains("no membership with a lease"), "{end}");
    }
    join(&controller, "r2", 17, true).await;
    let mut streams = Vec::new();
    let refused = loop {
        match hold(&controller, "r2").await {
            Ok(stream) => streams.push(stream),
            Err(refused) => break refused,
        }
        assert!(streams.len() < 100, "streams without a limit");
    };
    assert!(refused.code() == Code::ResourceExhausted && refused.message().contains("r2"), "{refused}");
    controller.stop().await;
}

/// Catches a source whose host does not receive its flow, and a tree that moves without it.
#[tokio::test(flavor = "multi_thread")]
async fn the_stream_of_a_source_has_its_flow() {
    let dir = tempfile::tempdir().unwrap();
    let controller = start(dir.path()).await;
    let source = JoinRequest { role: Role::Source.into(), ..joining("s1", 18, true) };
    let joined = controller.membership().await.join(source).await.unwrap().into_inner();
    let request = HoldMembershipRequest { group: "g1".into(), host: "s1".into() };
    let mut stream = controller.membership().await.hold_membership(request).await.unwrap().into_inner();
    let next = async |stream: &mut Streaming<HoldMembershipResponse>| {
        let next = tokio::time::timeout(DEADLINE, stream.message()).await.expect("nothing came");
        next.unwrap().unwrap().flow.unwrap()
    };
    let flow = next(&mut stream).await;
    assert_eq!((flow.qpn, flow.dest_qpn), (18, joined.designated_qpn));
    assert_eq!(flow.peer, joined.proxy_address);
    assert_eq!(flow.nodes.len(), 2, "n1 and n2 lead to r1");
    // r1 leaves, and a receiver at the source's own node is the only one: n2 carries nothing any more.
    join(&controller, "r5", 19, false).await;
    controller.ctl(&["delete", "member", "r1", "-g", "g1"]).await.unwrap();
    let mut left = next(&mut stream).await;
    while left.nodes.len() > 1 {
        left = next(&mut stream).await;
    }
    assert!(flow.nodes.contains(&left.nodes[0]) && left.dest_qpn == flow.dest_qpn, "{left:?}");
    // A receiver's stream has none.
    join(&controller, "r2", 20, true).await;
    let request = HoldMembershipRequest { group: "g1".into(), host: "r2".into() };
    let mut receiver = controller.membership().await.hold_membership(request).await.unwrap().into_inner();
    assert_eq!(receiver.message().await.unwrap(), Some(HoldMembershipResponse::default()));
    controller.stop().await;
}

/// Catches a pod that joins, leaves, watches or learns of a group of another tenant, and a group without a tenant that it does not.
#[tokio::test]
async fn groups_of_a_tenant_are_there_for_pods_of_the_namespace_of_its_name_alone() {
    let dir = tempfile::tempdir().unwrap();
    let controller = Controller::start(dir.path()).await;
    controller.apply(LAB).await.unwrap();
    controller.ctl(&["delete", "member", "r1", "-g", "g1"]).await.unwrap();
    let group = "apiVersion: canopy/v1\nkind: Group\nmetadata: {name: theirs, tenant: training}\nspec: {}\n";
    controller.apply(group).await.unwrap();
    let mut client = controller.membership().await;
    let request = |group: &str, account: &str| JoinRequest {
        group: group.into(),
        account: account.into(),
        uid: None,
        ..joining("r1", 17, true)
    };
    let (mut absent, mut hidden) = (Vec::new(), Vec::new());
    for (group, found) in [("absent", &mut absent), ("theirs", &mut hidden)] {
        let account = "other/trainer".to_owned();
        found.push(client.join(request(group, &account)).await.unwrap_err());
        let leave = LeaveRequest { group: group.into(), host: "r1".into(), uid: None, account: account.clone() };
        found.push(client.leave(leave).await.unwrap_err());
        found.push(client.watch_group(WatchGroupRequest { group: group.into(), account }).await.unwrap_err());
    }
    for (absent, hidden) in absent.iter().zip(&hidden) {
        assert_eq!(hidden.code(), Code::NotFound);
        assert_eq!(
            hidden.message(),
            absent.message().replace("absent", "theirs"),
            "it differs from one that is not there"
        );
    }
    // The namespace decides, and not the name of the account.
    assert_eq!(client.join(request("theirs", "trainer/training")).await.unwrap_err().code(), Code::NotFound);
    assert_eq!(client.join(request("theirs", "training")).await.unwrap_err().code(), Code::InvalidArgument);
    client.join(request("theirs", "training/trainer")).await.unwrap();
    let watch = WatchGroupRequest { group: "theirs".into(), account: "training/other".into() };
    client.watch_group(watch).await.unwrap();
    let leave = LeaveRequest { group: "theirs".into(), host: "r1".into(), uid: None, account: "other/trainer".into() };
    assert_eq!(client.leave(leave.clone()).await.unwrap_err().code(), Code::NotFound);
    client.leave(LeaveRequest { account: "training/trainer".into(), ..leave }).await.unwrap();
    // Without a tenant it is everybody's.
    client.join(request("g1", "other/trainer")).await.unwrap();
    let by = json!({"kind": "host", "name": "r1", "account": "other/trainer"});
    assert_eq!(written_by(&controller, "r1").await, by);
    controller.stop().await;
}
