// SPDX-License-Identifier: Apache-2.0
//! The whole agent but for the kernel, against a real gRPC server on a Unix socket.

#![allow(clippy::unwrap_used)]

mod memory;

use std::path::Path;
use std::sync::Arc;

use canopy_agent_core::DatapathEvent;
use canopy_agent_link::{Target, channels};
use canopy_control::{HeldSpec, Items, delta_response, pb, snapshot_responses};
use canopy_daemon::notify::Notifier;
use canopy_model::capture::{CaptureDirection, CapturedFrame, INNER};
use canopy_model::congestion::PortCongestion;
use canopy_model::node_spec::NodeSpec;
use canopy_testkit::controller::{Controller, soon};
use canopy_testkit::spec::{delta, snapshot, spec};
use canopy_units::UnixTime;
use memory::{Agent, group};

fn start(dir: &Path) -> Agent {
    let target: Target = format!("unix:{}", dir.join("controller.sock").display()).parse().unwrap();
    Agent::start(&dir.join("state"), Notifier::default(), |known| {
        let (link, worker) = channels("leaf-1", known);
        tokio::spawn(worker.run(target.channels(dir).unwrap(), "0.1.0", Arc::new(|| 0.5)));
        link
    })
}

/// Generation of the first reconcile that is not of `but`.
async fn reconciled(agent: &mut Agent, but: u64) -> u64 {
    loop {
        let done = soon("a reconcile", agent.kernel.reconciles.recv()).await.unwrap();
        if done.spec.generation != but {
            return done.spec.generation;
        }
    }
}

#[tokio::test]
async fn pushes_are_applied_and_reported_and_outlive_controller_and_agent() {
    let dir = tempfile::tempdir().unwrap();
    let mut controller = Controller::start(&dir.path().join("controller.sock"));
    let mut agent = start(dir.path());
    let (first, second) = (spec(3, 1, &[1]), spec(3, 2, &[1, 2]));

    let watch = controller.watch().await;
    watch.send(snapshot(&first)).await;
    assert_eq!(reconciled(&mut agent, 0).await, 1);
    assert!(controller.report_of(1).await.errors.is_empty());

    watch.send(delta(&first, &second)).await;
    assert_eq!(reconciled(&mut agent, 1).await, 2);
    assert!(controller.report_of(2).await.errors.is_empty());

    // Both die; the agent comes back alone.
    drop(controller);
    agent.stop().await;
    let mut agent = start(dir.path());
    let restored = soon("a reconcile", agent.kernel.reconciles.recv()).await.unwrap();
    assert_eq!(restored.spec, second);

    // The controller comes back and learns what the node runs, without sending it again.
    let mut controller = Controller::start(&dir.path().join("controller.sock"));
    let watch = controller.watch().await;
    assert_eq!(watch.request.known_generation, 2);
    assert_eq!(watch.request.known_digest, Vec::from(Items::encode(&second).digest()));
    assert_eq!(controller.report_of(2).await.kernel, "6.8.0");
    agent.stop().await;
}

#[tokio::test]
async fn a_restarted_controller_with_a_lower_term_is_refused_even_after_the_agents_restart() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("controller.sock");
    let mut controller = Controller::start(&socket);
    let mut agent = start(dir.path());
    controller.watch().await.send(snapshot(&spec(5, 1, &[1]))).await;
    assert_eq!(reconciled(&mut agent, 0).await, 1);
    agent.stop().await;
    drop(controller);

    let mut controller = Controller::start(&socket);
    let mut agent = start(dir.path());
    controller.watch().await.send(snapshot(&spec(4, 2, &[2]))).await;
    let refused = loop {
        let report = controller.report().await;
        if let Some(error) = report.errors.first() {
            assert_eq!(report.observed_generation, 1);
            break error.clone();
        }
    };
    assert!(refused.name == "spec" && refused.detail.contains("term 4"), "{refused:?}");
    // A refusal ends the stream, so the event is sent in the next session.
    let watch = controller.watch().await;
    let event = loop {
        if let Some(event) =
            controller.sample().await.events.into_iter().find(|event| event.code() == pb::EventCode::SpecRefused)
        {
            break event;
        }
    };
    assert!(event.detail.contains("term 4"), "{}", event.detail);
    watch.send(snapshot(&spec(6, 3, &[3]))).await;
    assert_eq!(reconciled(&mut agent, 1).await, 3);
    agent.stop().await;
}

/// The order travels with an empty delta, which is all that an agent sees that does not know captures.
#[tokio::test]
async fn a_packet_is_captured_for_the_controller_and_given_up_in_time() {
    let dir = tempfile::tempdir().unwrap();
    let mut controller = Controller::start(&dir.path().join("controller.sock"));
    let mut agent = start(dir.path());
    let spec = spec(3, 1, &[1]);
    let watch = controller.watch().await;
    watch.send(snapshot(&spec)).await;
    assert_eq!(reconciled(&mut agent, 0).await, 1);
    let armed = |id| pb::WatchResponse {
        capture: Some(pb::Capture { id, group_id: 1, psn: 0x123, within_ns: 100_000_000 }),
        ..delta(&spec, &spec)
    };
    // One that names no capture changes nothing, and the stream stays open.
    watch.send(armed(0)).await;
    watch.send(armed(7)).await;
    let order = soon("an order", agent.kernel.captures.recv()).await.unwrap().unwrap();
    assert_eq!((order.id.get(), order.group.get(), order.psn.get()), (7, 1, 0x123));
    let frame = CapturedFrame {
        id: order.id,
        direction: CaptureDirection::In,
        port: "eth1".into(),
        time: UnixTime::from_nanos(5),
        length: 100,
        inner_at: 14,
        head: vec![1; 74],
        inner: [2; INNER],
    };
    agent.kernel.events.send(DatapathEvent::Captured(frame.clone())).unwrap();
    let sent = loop {
        if let Some(sent) = controller.sample().await.captured.pop() {
            break sent;
        }
    };
    assert_eq!(sent, (&frame).into());
    assert_eq!(soon("the end", agent.kernel.captures.recv()).await.unwrap(), None);
    agent.stop().await;
}

/// A controller whose schema has one field more: its items are applied, reported under the digest of the octets that were sent,
/// and are still in the ledger after a restart.
#[tokio::test]
async fn an_agent_follows_a_controller_of_a_later_version() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("controller.sock");
    let mut controller = Controller::start(&socket);
    let agent = start(dir.path());
    let (first, second) = (later(&spec(3, 1, &[1])), later(&spec(3, 2, &[1, 2])));
    let watch = controller.watch().await;
    for page in snapshot_responses(&first) {
        watch.send(page).await;
    }
    assert_eq!(controller.report_of(1).await.observed_digest, Vec::from(first.digest()));
    // One group of two changed: the delta is relative to octets that this agent cannot make itself.
    watch.send(delta_response((3, 2), first.items(), second.items())).await;
    let report = controller.report_of(2).await;
    assert_eq!((report.observed_term, report.observed_digest, report.errors.len()), (3, second.digest().into(), 0));
    assert!(!agent.kernel.reconciles.is_closed());
    agent.stop().await;

    let agent = start(dir.path());
    let again = controller.watch().await;
    assert_eq!(again.request.known_digest, Vec::from(second.digest()));
    // An earlier controller: the field is gone again.
    let earlier = HeldSpec::encode(spec(4, 1, &[1, 2]));
    assert_ne!(earlier.digest(), second.digest());
    again.send(delta_response((4, 1), second.items(), earlier.items())).await;
    let report = controller.report_of(1).await;
    assert_eq!((report.observed_term, report.observed_digest), (4, earlier.digest().into()));
    agent.stop().await;
}

/// `spec` as a later version encodes it: every item has field 1000, a string.
fn later(spec: &NodeSpec) -> HeldSpec {
    let field = |octets: &[u8]| [octets, &[0xC2, 0x3E, 2], b"hi"].concat().into();
    let plain = HeldSpec::encode(spec.clone());
    let groups = plain.items().groups().map(|(id, octets)| (id, field(octets)));
    HeldSpec::parse(spec.term, spec.generation, Items::new(field(plain.items().base()), groups)).unwrap()
}

#[tokio::test]
async fn samples_arrive() {
    let dir = tempfile::tempdir().unwrap();
    let mut controller = Controller::start(&dir.path().join("controller.sock"));
    let agent = start(dir.path());
    let _watch = controller.watch().await;
    let sample = controller.sample().await;
    assert_eq!((sample.node.as_str(), sample.time_unix_ns), ("leaf-1", 1_700_000_000_000_000_000));
    assert_eq!(sample.node_drops[0].packets, 4);
    let [port] = &sample.congestion.unwrap().ports[..] else { panic!("one port") };
    assert_eq!(PortCongestion::try_from(port.clone()).unwrap(), memory::queue());
    agent.stop().await;
}

/// Code, group and branch of the next event about a branch.
async fn branch_event(controller: &mut Controller) -> (pb::EventCode, u32, Vec<u8>) {
    loop {
        let events = controller.sample().await.events;
        let of_branch = [pb::EventCode::BranchStalled, pb::EventCode::BranchRecovered];
        if let Some(e) = events.into_iter().find(|e| of_branch.contains(&e.code())) {
            return (e.code(), e.group_id, e.branch);
        }
    }
}

#[tokio::test]
async fn a_stalled_branch_is_reported_and_reported_again_in_a_new_session() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("controller.sock");
    let mut controller = Controller::start(&socket);
    let mut agent = start(dir.path());
    let receiver: std::net::Ipv6Addr = "2001:db8:1::2".parse().unwrap();
    let event = |code: pb::EventCode| (code, 1, receiver.octets().to_vec());
    *agent.kernel.groups.lock().unwrap() = vec![group(110, 100)];
    controller.watch().await.send(snapshot(&spec(1, 1, &[1]))).await;
    assert_eq!(reconciled(&mut agent, 0).await, 1);
    assert_eq!(branch_event(&mut controller).await, event(pb::EventCode::BranchStalled));
    drop(controller);

    let mut controller = Controller::start(&socket);
    controller.watch().await.send(snapshot(&spec(1, 1, &[1]))).await;
    assert_eq!(
        branch_event(&mut controller).await,
        event(pb::EventCode::BranchStalled),
        "the first report may be lost"
    );
    *agent.kernel.groups.lock().unwrap() = vec![group(110, 110)];
    assert_eq!(branch_event(&mut controller).await, event(pb::EventCode::BranchRecovered));
    agent.stop().await;
}

/// The reports of the host's reach until `n` have arrived.
async fn reach_events(controller: &mut Controller, n: usize) -> Vec<pb::Event> {
    let mut found = Vec::new();
    while found.len() < n {
        let events = controller.sample().await.events;
        found.extend(events.into_iter().filter(|e| e.code() == pb::EventCode::HostProbed));
    }
    found
}

#[tokio::test]
async fn the_host_of_a_stalled_receiver_is_probed_once_and_reported_to_every_session() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("controller.sock");
    let mut controller = Controller::start(&socket);
    let mut agent = start(dir.path());
    *agent.kernel.groups.lock().unwrap() = vec![group(110, 100)];
    controller.watch().await.send(snapshot(&spec(1, 1, &[1]))).await;
    let target = soon("a probe", agent.kernel.probed.recv()).await.unwrap();
    assert_eq!((target.interface.as_str(), target.large), ("eth2", 4180));
    let [event] = &reach_events(&mut controller, 1).await[..] else { panic!("one event") };
    assert_eq!(event.epoch, Some(1));
    assert!(event.detail.ends_with("of 64 bytes but not of 4180: its MTU is too small"), "{}", event.detail);
    let large = event.reach.unwrap().large.unwrap();
    assert_eq!((large.bytes, large.requests, large.replies), (4180, 2, 0));
    drop(controller);

    let mut controller = Controller::start(&socket);
    controller.watch().await.send(snapshot(&spec(1, 1, &[1]))).await;
    assert_eq!(reach_events(&mut controller, 1).await[0].reach, event.reach);
    assert!(agent.kernel.probed.try_recv().is_err(), "nothing was sent again");

    // The next stall is another one.
    *agent.kernel.groups.lock().unwrap() = vec![group(110, 110)];
    while branch_event(&mut controller).await.0 != pb::EventCode::BranchRecovered {}
    *agent.kernel.groups.lock().unwrap() = vec![group(120, 110)];
    assert_eq!(soon("a probe", agent.kernel.probed.recv()).await, Some(target));
    agent.stop().await;
}
