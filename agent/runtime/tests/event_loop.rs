// SPDX-License-Identifier: Apache-2.0
//! The event loop with an in-memory datapath, the test in the controller's place, and time that flies.

#![allow(clippy::unwrap_used)]

mod memory;

use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use canopy_agent_core::DatapathEvent;
use canopy_agent_link::{Refusal, Session, Worker, channels};
use canopy_agent_runtime::Ended;
use canopy_agent_runtime::ledger::Ledger;
use canopy_control::HeldSpec;
use canopy_daemon::notify::{Notifier, State};
use canopy_model::capture::CaptureOrder;
use canopy_model::node_spec::NodeSpec;
use canopy_model::retirement::CleanUpOrder;
use canopy_model::status::{BACK_WITHIN, NodeStatus};
use canopy_testkit::controller::soon;
use canopy_testkit::spec::spec;
use memory::{Agent, Reconcile, error};
use tokio::time::Instant;

/// An agent and the controller's end of its link.
fn start(state_dir: &Path) -> (Agent, Worker) {
    start_with(state_dir, Notifier::default())
}

fn start_with(state_dir: &Path, notifier: Notifier) -> (Agent, Worker) {
    let mut end = None;
    let agent = Agent::start(state_dir, notifier, |known| {
        let (link, worker) = channels("leaf-1", known);
        end = Some(worker);
        link
    });
    (agent, end.unwrap())
}

fn push(worker: &Worker, spec: NodeSpec) {
    worker.specs.send_replace(Some(Arc::new(HeldSpec::encode(spec))));
}

async fn reconcile(agent: &mut Agent) -> Reconcile {
    soon("a reconcile", agent.kernel.reconciles.recv()).await.unwrap()
}

async fn status(worker: &mut Worker, wanted: impl Fn(&NodeStatus) -> bool) -> NodeStatus {
    let arrived = worker.status.wait_for(|status| status.as_ref().is_some_and(&wanted));
    soon("the status", arrived).await.unwrap().clone().unwrap()
}

fn stored(state_dir: &Path) -> Option<NodeSpec> {
    Ledger::open(state_dir).unwrap().load("leaf-1").unwrap().map(|held| held.spec().clone())
}

#[tokio::test(start_paused = true)]
async fn a_spec_is_in_the_ledger_before_it_is_in_the_kernel() {
    let dir = tempfile::tempdir().unwrap();
    let (mut agent, mut worker) = start(dir.path());
    let mut before = None;
    for generation in 1..=3 {
        push(&worker, spec(1, generation, &[generation]));
        let done = reconcile(&mut agent).await;
        assert_eq!(done.spec, spec(1, generation, &[generation]));
        assert!(done.ledger.is_some() && done.ledger != before, "generation {generation} was not yet stored");
        before = done.ledger;
        let status = status(&mut worker, |status| status.observed_generation == generation).await;
        assert_eq!((status.node.as_str(), status.kernel.as_str(), status.errors.len()), ("leaf-1", "6.8.0", 0));
    }
    agent.stop().await;
    assert_eq!(stored(dir.path()), Some(spec(1, 3, &[3])));
}

/// The order to capture and the group's program travel together: whichever the loop takes first.
#[tokio::test(start_paused = true)]
async fn a_packet_of_a_group_that_is_not_configured_yet_is_waited_for_once_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let (mut agent, worker) = start(dir.path());
    push(&worker, spec(1, 1, &[1]));
    reconcile(&mut agent).await;
    let order = CaptureOrder::new(7, 2, 0x123, Duration::from_secs(5)).unwrap();
    worker.captures.send_replace(Some(order));
    push(&worker, spec(1, 2, &[1, 2]));
    reconcile(&mut agent).await;
    assert_eq!(soon("an order", agent.kernel.captures.recv()).await.unwrap(), Some(order));
    assert_eq!(soon("the end", agent.kernel.captures.recv()).await.unwrap(), None);
    // What was given up is not waited for again.
    push(&worker, spec(1, 3, &[2]));
    reconcile(&mut agent).await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_without_a_controller_forwards_from_the_ledger() {
    let dir = tempfile::tempdir().unwrap();
    Ledger::open(dir.path()).unwrap().store(&HeldSpec::encode(spec(4, 9, &[1, 2]))).unwrap();
    let (mut agent, worker) = start(dir.path());
    assert_eq!(reconcile(&mut agent).await.spec, spec(4, 9, &[1, 2]));
    assert_eq!(
        worker.specs.borrow().as_deref().map(HeldSpec::spec),
        Some(&spec(4, 9, &[1, 2])),
        "the controller gets its name"
    );
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn errors_are_reported_retried_with_back_off_and_cleared() {
    let dir = tempfile::tempdir().unwrap();
    let (mut agent, mut worker) = start(dir.path());
    let failures = [vec![error("eth1"), error("eth2")], vec![error("eth2")], vec![error("eth2")]];
    agent.kernel.errors.lock().unwrap().extend(failures);
    push(&worker, spec(1, 1, &[1]));
    let first = reconcile(&mut agent).await.at;
    assert_eq!(status(&mut worker, |_| true).await.errors, [error("eth1"), error("eth2")]);
    let mut waits = vec![];
    for _ in 0..3 {
        waits.push((reconcile(&mut agent).await.at - first).as_secs());
    }
    assert_eq!(waits, [1, 3, 7], "the waits double from a second on");
    let healed = status(&mut worker, |status| status.errors.is_empty()).await;
    assert_eq!(healed.observed_generation, 1);
    let resync = reconcile(&mut agent).await.at - first;
    assert_eq!(resync.as_secs(), 37, "once healed, the next reconcile is the periodic one");
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_thousand_errors_make_a_bounded_report() {
    let dir = tempfile::tempdir().unwrap();
    let (agent, mut worker) = start(dir.path());
    agent.kernel.errors.lock().unwrap().push_back((0..1000).map(|n| error(&format!("eth{n}"))).collect());
    push(&worker, spec(1, 1, &[]));
    let errors = status(&mut worker, |_| true).await.errors;
    assert_eq!(errors.len(), 257);
    assert!(errors[256].detail.starts_with("744 more"), "{}", errors[256].detail);
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn bursts_of_kernel_changes_are_one_reconcile_each() {
    let dir = tempfile::tempdir().unwrap();
    let (mut agent, worker) = start(dir.path());
    push(&worker, spec(1, 1, &[]));
    let first = reconcile(&mut agent).await.at;
    for _ in 0..500 {
        agent.kernel.events.send(DatapathEvent::KernelChanged).unwrap();
    }
    assert_eq!(reconcile(&mut agent).await.at - first, Duration::from_millis(100));
    // Ten seconds of one change per millisecond.
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(10) {
        agent.kernel.events.send(DatapathEvent::KernelChanged).unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let mut count = 0;
    while agent.kernel.reconciles.try_recv().is_ok() {
        count += 1;
    }
    assert!((90..=100).contains(&count), "{count} reconciles in 10 s");
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn kernel_changes_without_a_spec_touch_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (mut agent, worker) = start(dir.path());
    agent.kernel.events.send(DatapathEvent::KernelChanged).unwrap();
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert!(agent.kernel.reconciles.try_recv().is_err());
    assert_eq!(*worker.status.borrow(), None, "there is nothing to report either");
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_spec_that_cannot_be_stored_is_not_applied_until_it_can() {
    let dir = tempfile::tempdir().unwrap();
    Ledger::open(dir.path()).unwrap().store(&HeldSpec::encode(spec(1, 1, &[1]))).unwrap();
    let (mut agent, mut worker) = start(dir.path());
    reconcile(&mut agent).await;
    // The first log of a life is a new file. A directory where it is written: a fault that root cannot write through.
    let obstacle = dir.path().join("spec.log.tmp");
    std::fs::create_dir(&obstacle).unwrap();
    push(&worker, spec(1, 2, &[1, 2]));
    let refused = status(&mut worker, |status| !status.errors.is_empty()).await;
    assert_eq!((refused.observed_generation, refused.errors[0].name.as_str()), (1, "ledger"));
    assert!(refused.errors[0].detail.contains("spec.log.tmp"), "{}", refused.errors[0].detail);
    assert_eq!(reconcile(&mut agent).await.spec.generation, 1, "what was stored is kept in force");
    std::fs::remove_dir(&obstacle).unwrap();
    let applied = status(&mut worker, |status| status.observed_generation == 2).await;
    assert!(applied.errors.is_empty());
    agent.stop().await;
    assert_eq!(stored(dir.path()), Some(spec(1, 2, &[1, 2])));
}

#[tokio::test(start_paused = true)]
async fn a_standing_refusal_is_in_the_status_until_it_is_lifted() {
    let dir = tempfile::tempdir().unwrap();
    let (mut agent, mut worker) = start(dir.path());
    push(&worker, spec(5, 1, &[1]));
    reconcile(&mut agent).await;
    status(&mut worker, |status| status.errors.is_empty()).await;
    worker.refusal.send_replace(Some(Refusal { detail: "term 4 is lower".into() }));
    let refused = status(&mut worker, |status| !status.errors.is_empty()).await;
    assert_eq!((refused.observed_generation, refused.errors[0].detail.as_str()), (1, "term 4 is lower"));
    worker.refusal.send_replace(None);
    status(&mut worker, |status| status.errors.is_empty()).await;
    assert!(agent.kernel.reconciles.try_recv().is_err(), "a refusal does not touch the kernel");
    agent.stop().await;
}

/// What the service manager receives, and its notifier, with the watchdog on.
fn service_manager() -> (mpsc::Receiver<State>, Notifier) {
    let (sender, manager) = mpsc::channel();
    (manager, Notifier::to(move |state| sender.send(state).unwrap(), Some(Duration::from_secs(20))))
}

#[tokio::test(start_paused = true)]
async fn readiness_comes_once_with_the_first_reconcile_or_at_once_where_there_is_nothing_to_forward() {
    let dir = tempfile::tempdir().unwrap();
    for has_ledger in [false, true] {
        let (manager, notifier) = service_manager();
        let (mut agent, worker) = start_with(dir.path(), notifier);
        if has_ledger {
            assert_eq!(reconcile(&mut agent).await.spec, spec(1, 1, &[]), "what the ledger has");
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        // The watchdog is fed from the start on.
        let first: Vec<State> = manager.try_iter().filter(|state| *state != State::Alive).collect();
        assert_eq!(first, [State::Ready], "with a ledger: {has_ledger}");
        if !has_ledger {
            push(&worker, spec(1, 1, &[]));
            reconcile(&mut agent).await;
        }
        worker.session.send_replace(Session { opened: 1, up: true, minor_version: 1 });
        tokio::time::sleep(Duration::from_secs(29)).await;
        let alive: Vec<State> = manager.try_iter().collect();
        assert_eq!(alive, [State::Alive; 2]);
        agent.stop().await;
        assert_eq!(manager.try_iter().collect::<Vec<_>>(), [State::Stopping]);
    }
}

/// Without that, the controller takes it for killed; and it must not hold up the service manager.
#[tokio::test(start_paused = true)]
async fn an_agent_that_is_stopped_announces_that_it_is_back_soon() {
    let dir = tempfile::tempdir().unwrap();
    for (up, is_taken, takes) in [(true, true, 0), (true, false, 1), (false, false, 0)] {
        let (agent, mut worker) = start(dir.path());
        worker.session.send_replace(Session { opened: 1, up, minor_version: 5 });
        let begun = Instant::now();
        let stopped = tokio::spawn(agent.stop());
        if up {
            let announced = status(&mut worker, |status| status.back_within.is_some()).await;
            assert_eq!((announced.node.as_str(), announced.back_within), ("leaf-1", Some(BACK_WITHIN)));
            assert!(!stopped.is_finished());
        }
        if is_taken {
            worker.announced.send_replace(true);
        }
        stopped.await.unwrap();
        assert_eq!(begun.elapsed().as_secs(), takes, "{up} {is_taken}");
        let announced = worker.status.borrow().as_ref().is_some_and(|status| status.back_within.is_some());
        assert_eq!(announced, up);
    }
}

/// Catches an agent that announces that it is back soon, and one that waits for an answer before it ends.
#[tokio::test(start_paused = true)]
async fn an_agent_whose_node_leaves_ends_at_once_and_announces_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (agent, worker) = start(dir.path());
    worker.session.send_replace(Session { opened: 1, up: true, minor_version: 6 });
    let order = CleanUpOrder { retirement: 7 };
    worker.clean_up.send_replace(Some(order));
    assert_eq!(agent.ended().await, Ended::Leaves(order));
    assert!(worker.status.borrow().as_ref().is_none_or(|status| status.back_within.is_none()));
}

/// Round-trip times and what became of late receivers do not depend on the queues.
#[tokio::test(start_paused = true)]
async fn samples_are_sent_also_while_the_queues_cannot_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let (agent, worker) = start(dir.path());
    agent.kernel.queues_fail.store(true, std::sync::atomic::Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(20)).await;
    // No controller takes them: the queue drops its oldest.
    assert!(worker.telemetry.dropped() >= 10, "{}", worker.telemetry.dropped());
    agent.stop().await;
}

/// A group of another name or number, a port by its index, or a branch that was not asked for, would be found by none of the queries.
#[tokio::test(start_paused = true)]
async fn a_scrape_has_what_the_kernel_counts_under_the_names_of_the_spec() {
    let dir = tempfile::tempdir().unwrap();
    let (mut agent, mut worker) = start(dir.path());
    *agent.kernel.groups.lock().unwrap() = vec![memory::group(110, 100)];
    push(&worker, spec(3, 7, &[1]));
    reconcile(&mut agent).await;
    assert_eq!(status(&mut worker, |_| true).await.metrics_address, memory::METRICS_ADDRESS);
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    let text = agent.metrics();
    for line in [
        "canopy_agent_build_info{version=\"0.1.0\",kernel=\"6.8.0\"} 1",
        "canopy_agent_session_up 0",
        "canopy_agent_groups 1",
        "canopy_ledger_term 3",
        "canopy_ledger_generation 7",
        "canopy_group_high_psn{group=\"g1\"} 110",
        "canopy_group_min_next_psn{group=\"g1\"} 100",
        "canopy_drops_total{group=\"\",port=\"\",reason=\"branch_unknown\"} 4",
        "canopy_link_queue_bytes{port=\"eth2\"} 7000",
        "canopy_link_long_haul_cnps_held_back_total{port=\"eth2\",reason=\"unknown_source_qp\"} 3",
        "canopy_agent_series_left_out 0",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
    }
    let value = |name: &str| text.lines().find_map(|l| l.strip_prefix(name)).unwrap().parse::<f64>().unwrap();
    assert!(value("canopy_group_data_packets_total{group=\"g1\"} ") >= 1.0, "{text}");
    assert!((0.0..=1.0).contains(&value("canopy_agent_sample_age_seconds ")), "{text}");
    assert!(value("canopy_ledger_size_bytes ") > 100.0, "{text}");
    assert!(!text.contains("canopy_branch_packets_total{"), "{text}");
    let mut labelled = spec(3, 8, &[1]);
    labelled.groups.for_each_mut(|group| group.branch_metrics = true);
    push(&worker, labelled);
    reconcile(&mut agent).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let text = agent.metrics();
    let branch = "canopy_branch_next_psn{group=\"g1\",branch=\"2001:db8:1::2\"} 100";
    assert!(text.lines().any(|l| l == branch), "{branch} is not in\n{text}");
    agent.stop().await;
}
