// SPDX-License-Identifier: Apache-2.0
//! What a node reports about groups counts if the node has a part in them: of the present epoch, about its own branches.

use std::time::Instant;

use canopy_control::pb::{
    BranchTelemetry, EchoTally, Event, EventCode, FatalNak, GroupTelemetry, HostReach, StreamTelemetryRequest,
};
use serde_json::{Value, json};

use crate::support::{Controller, DEADLINE, LAB};

/// A sample of n2 in which r1 has sent a fatal NAK.
fn sample(status: &Value, epoch: u64) -> StreamTelemetryRequest {
    let branch = BranchTelemetry {
        address: "2001:db8:2::1".parse::<std::net::Ipv6Addr>().unwrap().octets().into(),
        fatal: Some(FatalNak { syndrome: 0x62, psn: 105 }),
        ..Default::default()
    };
    let group = GroupTelemetry {
        group_id: status["groupId"].as_u64().unwrap() as u32,
        epoch: epoch as u32,
        branches: vec![branch],
        ..Default::default()
    };
    StreamTelemetryRequest { node: "n2".into(), time_unix_ns: 1, groups: vec![group], ..Default::default() }
}

async fn send(controller: &Controller, sample: StreamTelemetryRequest) -> Result<(), tonic::Status> {
    controller.nodes().await.stream_telemetry(tokio_stream::iter([sample])).await.map(drop)
}

async fn status(controller: &Controller) -> Value {
    controller.get(&["groups", "g1"]).await["status"].clone()
}

#[tokio::test]
async fn a_receiver_in_error_is_evicted_by_a_sample_of_its_epoch_alone() {
    let dir = tempfile::tempdir().unwrap();
    let controller = Controller::start(dir.path()).await;
    controller.apply(&LAB.replace("spec: {}", "spec: {stallPolicy: evict}")).await.unwrap();
    let before = status(&controller).await;
    let epoch = before["epoch"].as_u64().unwrap();
    for stale in [epoch - 1, epoch + 1] {
        send(&controller, sample(&before, stale)).await.unwrap();
        assert_eq!(status(&controller).await["receivers"], 1, "epoch {stale}: perhaps of an earlier receiver");
    }
    send(&controller, sample(&before, epoch)).await.unwrap();
    let deadline = Instant::now() + DEADLINE;
    let evicted = loop {
        let status = status(&controller).await;
        if status["receivers"] == 0 {
            break status["evicted"].clone();
        }
        assert!(Instant::now() < deadline, "{status}");
        tokio::task::yield_now().await;
    };
    assert_eq!(evicted[0]["host"], "r1");
    assert!(evicted[0]["reason"].as_str().unwrap().contains("queue pair is in error"), "{evicted}");
    controller.stop().await;
}

#[tokio::test]
async fn a_policy_that_changes_is_carried_out_for_a_receiver_that_was_reported_before() {
    let dir = tempfile::tempdir().unwrap();
    let controller = Controller::start(dir.path()).await;
    controller.apply(LAB).await.unwrap();
    let group = status(&controller).await;
    let sample = sample(&group, group["epoch"].as_u64().unwrap());
    send(&controller, sample.clone()).await.unwrap();
    assert_eq!(status(&controller).await["receivers"], 1, "the policy is to wait");
    controller.apply(&LAB.replace("spec: {}", "spec: {stallPolicy: evict}")).await.unwrap();
    send(&controller, sample).await.unwrap();
    let deadline = Instant::now() + DEADLINE;
    while status(&controller).await["evicted"][0]["host"] != "r1" {
        assert!(Instant::now() < deadline, "{}", status(&controller).await);
        tokio::task::yield_now().await;
    }
    controller.stop().await;
}

#[tokio::test]
async fn a_receiver_in_error_is_shown_after_a_restart_of_the_controller_too() {
    let dir = tempfile::tempdir().unwrap();
    let mut controller = Controller::start(dir.path()).await;
    controller.apply(LAB).await.unwrap();
    for life in 0..2 {
        let group = status(&controller).await;
        // Every sample has it.
        for _ in 0..3 {
            send(&controller, sample(&group, group["epoch"].as_u64().unwrap())).await.unwrap();
        }
        let after = status(&controller).await;
        let stalled = after["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "Stalled").unwrap();
        assert_eq!((&stalled["status"], &stalled["reason"]), (&json!("True"), &json!("FatalNak")), "life {life}");
        let described = controller.ctl(&["describe", "group", "g1"]).await.unwrap();
        assert!(described.contains("remote access error at PSN 105"), "{described}");
        controller.stop().await;
        controller = Controller::start(dir.path()).await;
    }
    controller.stop().await;
}

#[tokio::test]
async fn a_syndrome_that_is_not_fatal_is_refused_by_field() {
    let dir = tempfile::tempdir().unwrap();
    let controller = Controller::start(dir.path()).await;
    controller.apply(LAB).await.unwrap();
    let mut wrong = sample(&status(&controller).await, 1);
    wrong.groups[0].branches[0].fatal = Some(FatalNak { syndrome: 0x60, psn: 1 });
    let refused = send(&controller, wrong).await.unwrap_err();
    assert!(refused.message().contains("groups[0].branches[0].fatal.syndrome"), "{refused}");
    controller.stop().await;
}

#[tokio::test]
async fn events_of_groups_in_which_the_node_has_no_part_are_ignored() {
    let dir = tempfile::tempdir().unwrap();
    let controller = Controller::start(dir.path()).await;
    controller.apply(&LAB.replace("spec: {}", "spec: {stallPolicy: fail}")).await.unwrap();
    let group = status(&controller).await;
    let epoch = group["epoch"].as_u64().unwrap() as u32;
    let group_id = group["groupId"].as_u64().unwrap() as u32;
    let r1 = "2001:db8:2::1".parse::<std::net::Ipv6Addr>().unwrap().octets().to_vec();
    let event = |code: EventCode, group_id, epoch| Event {
        code: code.into(),
        time_unix_ns: 1,
        group_id,
        branch: r1.clone(),
        detail: "no progress".into(),
        epoch,
        reach: None,
    };
    let stalled = EventCode::BranchStalled;
    for (node, event) in [
        // r1 is no branch of the headend.
        ("n1", event(stalled, group_id, Some(epoch))),
        ("n2", event(stalled, group_id, Some(epoch + 1))),
        ("n2", event(stalled, group_id + 1, Some(epoch))),
        ("n2", event(EventCode::FirstData, group_id, None)),
    ] {
        let sample = StreamTelemetryRequest { node: node.into(), events: vec![event], ..Default::default() };
        send(&controller, sample).await.unwrap();
    }
    assert_ne!(status(&controller).await["phase"], "Failed");
    let codes = |events: &Value| -> Vec<String> {
        let of_nodes = events["items"].as_array().unwrap().iter().filter(|e| e["node"].is_string());
        of_nodes.map(|e| format!("{}", e["code"])).collect()
    };
    let events = controller.get(&["events"]).await;
    assert!(!codes(&events).iter().any(|code| code.contains("FirstData")), "{events}");
    let sample = StreamTelemetryRequest {
        node: "n2".into(),
        events: vec![event(stalled, group_id, Some(epoch))],
        ..Default::default()
    };
    send(&controller, sample).await.unwrap();
    let deadline = Instant::now() + DEADLINE;
    while status(&controller).await["phase"] != "Failed" {
        assert!(Instant::now() < deadline, "{}", status(&controller).await);
        tokio::task::yield_now().await;
    }
    controller.stop().await;
}

/// As `canopyctl why group` shows it.
#[tokio::test]
async fn what_a_host_answers_is_shown_for_the_epoch_that_it_was_asked_in() {
    let dir = tempfile::tempdir().unwrap();
    let controller = Controller::start(dir.path()).await;
    controller.apply(LAB).await.unwrap();
    let group = status(&controller).await;
    let epoch = group["epoch"].as_u64().unwrap() as u32;
    let group_id = group["groupId"].as_u64().unwrap() as u32;
    let branch = "2001:db8:2::1".parse::<std::net::Ipv6Addr>().unwrap().octets().to_vec();
    let tally = |bytes, requests, replies| Some(EchoTally { bytes, requests, replies });
    let event = |code: EventCode, epoch, large: Option<Option<EchoTally>>| Event {
        code: code.into(),
        time_unix_ns: 1,
        group_id,
        branch: branch.clone(),
        detail: "answers little".into(),
        epoch: Some(epoch),
        reach: large.map(|large| HostReach { small: tally(64, 1, 1), large }),
    };
    let report = |event| StreamTelemetryRequest { node: "n2".into(), events: vec![event], ..Default::default() };
    let probed = EventCode::HostProbed;
    let good = tally(4180, 2, 0);
    send(&controller, report(event(EventCode::BranchStalled, epoch, None))).await.unwrap();
    send(&controller, report(event(probed, epoch + 1, Some(good)))).await.unwrap();
    send(&controller, report(event(probed, epoch, None))).await.unwrap();
    let why = controller.ctl(&["why", "group", "g1"]).await.unwrap();
    assert!(why.contains("ReceiverStalled") && !why.contains("Echo Requests"), "{why}");
    let refused = send(&controller, report(event(probed, epoch, Some(tally(4180, 1, 2))))).await.unwrap_err();
    assert!(refused.message().contains("events[0].reach.large.replies"), "{refused}");
    send(&controller, report(event(probed, epoch, Some(good)))).await.unwrap();
    let wanted = "r1 answers Echo Requests of 64 bytes but not of 4180: its MTU is too small";
    for args in [&["why", "group", "g1"][..], &["why", "host", "r1"], &["status"]] {
        let shown = controller.ctl(args).await.unwrap();
        assert!(shown.contains(wanted), "{args:?}: {shown}");
    }
    controller.stop().await;
}
