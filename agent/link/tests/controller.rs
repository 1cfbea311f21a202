// SPDX-License-Identifier: Apache-2.0
//! The link against a real gRPC server on a Unix socket.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;

use canopy_agent_link::{Link, Session, Target, TelemetrySample, channels};
use canopy_control::{HeldSpec, Items, MINOR_VERSION, pb};
use canopy_model::node_spec::NodeSpec;
use canopy_model::status::{BACK_WITHIN, NodeStatus};
use canopy_model::telemetry::{DropCount, Event, EventCode};
use canopy_testkit::controller::{Controller, soon};
use canopy_testkit::spec::{delta, snapshot, spec};
use canopy_units::UnixTime;
use tokio::net::{UnixListener, UnixStream};

/// A running link of `leaf-1` to the server at `path`.
fn link(path: &Path, known: Option<NodeSpec>) -> Link {
    let (link, worker) = channels("leaf-1", known.map(|spec| Arc::new(HeldSpec::encode(spec))));
    let target: Target = format!("unix:{}", path.display()).parse().unwrap();
    tokio::spawn(worker.run(target.channels(path).unwrap(), "0.1.0", Arc::new(|| 0.5)));
    link
}

async fn spec_of(link: &mut Link, generation: u64) -> NodeSpec {
    let arrived = link.specs.wait_for(|spec| spec.as_ref().is_some_and(|held| held.spec().generation == generation));
    let spec = soon("the spec", arrived).await.unwrap().clone();
    spec.unwrap().spec().clone()
}

async fn refusal(link: &mut Link) -> String {
    let refused = link.refusal.wait_for(Option::is_some);
    let refusal = soon("a refusal", refused).await.unwrap().clone();
    refusal.unwrap().detail
}

fn status(generation: u64) -> NodeStatus {
    NodeStatus { node: "leaf-1".into(), observed_generation: generation, ..NodeStatus::default() }
}

fn sample(time_unix_ns: u64, drops: usize) -> TelemetrySample {
    let drop = |reason| DropCount { reason, name: "branch_unknown".into(), packets: 7, port: None };
    TelemetrySample {
        time: UnixTime::from_nanos(time_unix_ns),
        groups: vec![],
        at_rest: Default::default(),
        node_drops: (0..drops as u32).map(drop).collect(),
        link_rtts: vec![],
        link_losses: vec![],
        congestion: None,
    }
}

fn event(detail: &str) -> Event {
    Event {
        time: UnixTime::from_nanos(5),
        code: EventCode::FatalNak,
        group: None,
        branch: None,
        epoch: None,
        detail: detail.into(),
        reach: None,
    }
}

struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn socket(&self) -> std::path::PathBuf {
        self.dir.path().join("controller.sock")
    }
}

#[tokio::test]
async fn first_push_then_delta() {
    let place = Place::new();
    let mut controller = Controller::start(&place.socket());
    let mut link = link(&place.socket(), None);
    let watch = controller.watch().await;
    let asked = pb::WatchRequest {
        node: "leaf-1".into(),
        agent_version: "0.1.0".into(),
        minor_version: MINOR_VERSION,
        ..Default::default()
    };
    assert_eq!(watch.request, asked);
    let (first, second) = (spec(1, 1, &[1, 2]), spec(1, 2, &[2, 3]));
    watch.send(snapshot(&first)).await;
    assert_eq!(spec_of(&mut link, 1).await, first);
    watch.send(delta(&first, &second)).await;
    assert_eq!(spec_of(&mut link, 2).await, second);
    assert_eq!(*link.refusal.borrow(), None);
}

/// An agent that is stopped ends only then.
#[tokio::test]
async fn it_is_known_when_the_controller_has_taken_that_the_agent_ends() {
    let place = Place::new();
    let mut controller = Controller::start(&place.socket());
    let mut link = link(&place.socket(), None);
    controller.watch().await.send(snapshot(&spec(1, 1, &[1]))).await;
    link.report(status(1));
    assert_eq!(controller.report().await.back_within_ns, 0);
    controller.refuse_reports(1);
    link.report(NodeStatus { back_within: Some(BACK_WITHIN), ..status(1) });
    soon("a refusal", async {
        while controller.reports_to_refuse() > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
    assert!(!*link.announced.borrow(), "a refused report announces nothing");
    soon("the announcement", link.announced.wait_for(|announced| *announced)).await.unwrap();
    assert_eq!(controller.report().await.back_within_ns, 60_000_000_000);
}

/// A filter that is none is left out: it is no reason to give up the stream.
#[tokio::test]
async fn a_log_level_is_passed_on_beside_the_spec() {
    let place = Place::new();
    let mut controller = Controller::start(&place.socket());
    let known = spec(1, 1, &[1]);
    let mut link = link(&place.socket(), Some(known.clone()));
    let watch = controller.watch().await;
    let level = |filter: &str| Some(pb::LogLevel { filter: filter.into(), within_ns: 7 });
    let with = |filter: &str| pb::WatchResponse { log_level: level(filter), ..delta(&known, &known) };
    watch.send(with("loud")).await;
    watch.send(with("debug")).await;
    let ordered = soon("a filter", link.log_levels.wait_for(Option::is_some)).await.unwrap().clone().unwrap();
    assert_eq!((ordered.filter.unwrap().as_str(), ordered.within.as_nanos()), ("debug", 7));
    watch.send(with("")).await;
    soon("its end", link.log_levels.wait_for(|o| o.as_ref().is_some_and(|o| o.filter.is_none()))).await.unwrap();
    assert!(!link.specs.has_changed().unwrap() && link.refusal.borrow().is_none());
}

#[tokio::test]
async fn a_bad_digest_leads_to_a_snapshot() {
    let place = Place::new();
    let mut controller = Controller::start(&place.socket());
    let known = spec(1, 1, &[1]);
    let mut link = link(&place.socket(), Some(known.clone()));
    let watch = controller.watch().await;
    let next = spec(1, 2, &[1, 2]);
    let mut bad = delta(&known, &next);
    bad.digest[0] ^= 1;
    watch.send(bad).await;
    assert!(refusal(&mut link).await.contains("digest"));
    assert_eq!(*link.specs.borrow().as_ref().unwrap().spec(), known, "what is known stays in force");

    let again = controller.watch().await;
    assert_eq!((again.request.known_generation, again.request.known_digest.len()), (0, 0));
    again.send(snapshot(&next)).await;
    assert_eq!(spec_of(&mut link, 2).await, next);
    soon("the refusal's end", link.refusal.wait_for(Option::is_none)).await.unwrap();
    drop(again);
    assert_eq!(controller.watch().await.request.known_generation, 2, "once healed, deltas will do again");
}

#[tokio::test]
async fn a_reconnect_presents_what_is_known_and_reports_again() {
    let place = Place::new();
    let known = spec(3, 7, &[1]);
    let mut link = link(&place.socket(), Some(known.clone()));
    link.report(status(7));
    for opened in 1..=2 {
        let mut controller = Controller::start(&place.socket());
        let watch = controller.watch().await;
        assert_eq!(watch.request.known_generation, 7);
        assert_eq!(watch.request.known_digest, Vec::from(Items::encode(&known).digest()));
        watch.send(delta(&known, &known)).await;
        let up = Session { opened, up: true, minor_version: MINOR_VERSION };
        soon("the session", link.session.wait_for(|session| *session == up)).await.unwrap();
        assert_eq!(controller.report().await.observed_generation, 7);
        drop(controller);
        soon("the session's end", link.session.wait_for(|session| !session.up)).await.unwrap();
    }
    assert!(!link.specs.has_changed().unwrap(), "an equal spec is no change");
}

#[tokio::test]
async fn a_lower_term_is_refused_and_what_is_known_stays() {
    let place = Place::new();
    let mut controller = Controller::start(&place.socket());
    let known = spec(5, 7, &[1]);
    let mut link = link(&place.socket(), Some(known.clone()));
    controller.watch().await.send(snapshot(&spec(4, 8, &[]))).await;
    assert!(refusal(&mut link).await.contains("term 4"));
    let again = controller.watch().await;
    assert_eq!(again.request.known_generation, 7, "the leader, once back, need not send everything");
    assert_eq!(*link.specs.borrow().as_ref().unwrap().spec(), known);
    again.send(snapshot(&spec(6, 8, &[2]))).await;
    assert_eq!(spec_of(&mut link, 8).await.term, 6);
}

#[tokio::test]
async fn a_spec_for_another_node_is_refused_and_its_term_is_not_taken() {
    let place = Place::new();
    let mut controller = Controller::start(&place.socket());
    let mut link = link(&place.socket(), None);
    let mut other = spec(9, 9, &[]);
    other.base_mut().name = "leaf-2".into();
    controller.watch().await.send(snapshot(&other)).await;
    let reason = refusal(&mut link).await;
    assert!(reason.starts_with("base.name") && reason.contains("leaf-2"), "{reason}");
    controller.watch().await.send(snapshot(&spec(1, 1, &[]))).await;
    assert_eq!(spec_of(&mut link, 1).await.term, 1);
}

#[tokio::test]
async fn only_the_latest_status_is_retried_and_an_equal_one_is_not_sent() {
    let place = Place::new();
    let mut controller = Controller::start(&place.socket());
    let link = link(&place.socket(), None);
    let _watch = controller.watch().await;
    controller.refuse_reports(3);
    link.report(status(1));
    soon("a refused report", async {
        while controller.reports_to_refuse() == 3 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    link.report(status(2));
    assert_eq!(controller.report().await.observed_generation, 2);
    link.report(status(2));
    link.report(status(3));
    assert_eq!(controller.report().await.observed_generation, 3);
}

#[tokio::test]
async fn telemetry_survives_an_outage_and_reports_what_was_dropped() {
    let place = Place::new();
    let link = link(&place.socket(), None);
    (1..=6).for_each(|time| link.telemetry.push_sample(sample(time, 1)));
    link.telemetry.push_event(event("during the outage"));
    let mut controller = Controller::start(&place.socket());
    let _watch = controller.watch().await;
    let first = controller.sample().await;
    assert_eq!((first.node.as_str(), first.time_unix_ns, first.node_drops.len()), ("leaf-1", 3, 1));
    let codes: Vec<_> = first.events.iter().map(|event| event.code()).collect();
    assert_eq!(codes, [pb::EventCode::FatalNak, pb::EventCode::TelemetryDropped]);
    for time in 4..=6 {
        assert_eq!(controller.sample().await.time_unix_ns, time);
    }
}

/// Catches a stream that leaves out groups at rest before the controller's version is known, or for ever does not, and one that outlives its
/// session: the controller takes what it has for another agent's then.
#[tokio::test]
async fn groups_at_rest_are_left_out_once_the_version_is_known_and_until_the_next_session() {
    let place = Place::new();
    let mut controller = Controller::start(&place.socket());
    let mut link = link(&place.socket(), None);
    let mut time = 0;
    for generation in 1..=2 {
        let watch = controller.watch().await;
        soon("the session", link.session.wait_for(|session| session.up && session.opened == generation)).await.unwrap();
        // The version is not known yet, and the stream has not had all groups.
        time += 1;
        link.telemetry.push_sample(sample(time, 1));
        assert!(!sampled_at(&mut controller, time).await.others_at_rest);
        watch.send(snapshot(&spec(1, generation, &[1]))).await;
        spec_of(&mut link, generation).await;
        time += 1;
        link.telemetry.push_sample(sample(time, 1));
        assert!(sampled_at(&mut controller, time).await.others_at_rest);
    }
}

/// The sample of this time; earlier ones may come again on another stream.
async fn sampled_at(controller: &mut Controller, time: u64) -> pb::StreamTelemetryRequest {
    loop {
        let sample = controller.sample().await;
        if sample.time_unix_ns == time {
            return sample;
        }
    }
}

#[tokio::test]
async fn a_controller_that_reads_no_telemetry_holds_up_nothing() {
    let place = Place::new();
    let mut controller = Controller::start(&place.socket());
    controller.stall_telemetry();
    let mut link = link(&place.socket(), None);
    let watch = controller.watch().await;
    soon("a drop", async {
        let mut time = 0;
        while link.telemetry.dropped() == 0 {
            time += 1;
            link.telemetry.push_sample(sample(time, 1000));
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    })
    .await;
    watch.send(snapshot(&spec(1, 1, &[1]))).await;
    spec_of(&mut link, 1).await;
    link.report(status(1));
    assert_eq!(controller.report().await.observed_generation, 1);
}

/// Forwards bytes both ways until `freeze` is set: then the connection stays open and no bytes arrive.
async fn relay(from: std::path::PathBuf, to: std::path::PathBuf, freeze: tokio::sync::watch::Receiver<bool>) {
    let listener = UnixListener::bind(from).unwrap();
    let mut held = vec![];
    loop {
        let (mut near, _) = listener.accept().await.unwrap();
        let mut far = UnixStream::connect(&to).await.unwrap();
        let mut freeze = freeze.clone();
        held.push(tokio::spawn(async move {
            let frozen = tokio::select! {
                _ = tokio::io::copy_bidirectional(&mut near, &mut far) => false,
                frozen = freeze.wait_for(|frozen| *frozen) => frozen.is_ok(),
            };
            if frozen {
                std::future::pending::<()>().await;
            }
        }));
    }
}

#[tokio::test]
async fn a_controller_that_hangs_is_noticed() {
    let place = Place::new();
    let mut controller = Controller::start(&place.socket());
    let (freeze, frozen) = tokio::sync::watch::channel(false);
    let front = place.dir.path().join("front.sock");
    tokio::spawn(relay(front.clone(), place.socket(), frozen));
    while !front.exists() {
        tokio::task::yield_now().await;
    }
    let mut link = link(&front, None);
    let watch = controller.watch().await;
    watch.send(snapshot(&spec(1, 1, &[1]))).await;
    spec_of(&mut link, 1).await;
    freeze.send(true).unwrap();
    // From here on only timers can make progress, so their time may fly.
    tokio::time::pause();
    soon("the session's end", link.session.wait_for(|session| !session.up)).await.unwrap();
}

#[tokio::test]
async fn the_worker_ends_with_its_link() {
    let place = Place::new();
    let (link, worker) = channels("leaf-1", None);
    let target: Target = format!("unix:{}", place.socket().display()).parse().unwrap();
    let running = tokio::spawn(worker.run(target.channels(&place.socket()).unwrap(), "0.1.0", Arc::new(|| 0.0)));
    drop(link);
    soon("the worker's end", running).await.unwrap();
}
