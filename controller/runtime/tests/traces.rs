// SPDX-License-Identifier: Apache-2.0
//! Traces as a collector receives them: OTLP over a real socket, with the real controller and simulated agents.
#![allow(clippy::unwrap_used)]

mod support;

use std::time::Duration;

use canopy_testkit::collector::{Collector, check_change};
use support::{Agent, Controller, DEADLINE, LAB};
use tokio::net::TcpListener;

/// From the request to what both nodes have read back: every part once, in the order of time, under the request's span.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_is_one_tree_of_spans_down_to_every_node() {
    let mut collector = Collector::start(false);
    let dir = tempfile::tempdir().unwrap();
    let controller = Controller::start_traced(dir.path(), collector.endpoint()).await;
    let agents = ["n1", "n2"];
    controller.apply(LAB).await.unwrap();
    for node in agents {
        Agent::connect(&controller, node, None).await.unwrap().apply_all();
    }
    controller.ctl(&["wait", "group", "g1", "--for", "ready", "--timeout", "30s"]).await.unwrap();
    let join =
        "{apiVersion: canopy/v1, kind: Member, metadata: {group: g1}, spec: {host: r2, role: receiver, qpn: 19}}";
    controller.apply(&format!("---\n{join}")).await.unwrap();
    // Of the join, which concerns both nodes.
    let spans = collector.trace(DEADLINE, |spans| {
        spans.keys().any(|name| name.contains("/members"))
            && agents.iter().all(|node| spans.contains_key(&format!("read back {node}")))
    });
    let request = spans.keys().find(|name| name.contains("/members")).unwrap();
    check_change(&spans, request, &agents);
    assert_eq!(spans[request].parent_span_id.len(), 0, "a caller without a trace is no parent");
    for node in agents {
        let read_back = &spans[&format!("read back {node}")];
        assert!(
            read_back.end_time_unix_nano - read_back.start_time_unix_nano <= 1_000_000,
            "what the agent has measured"
        );
    }
    controller.stop().await;
}

/// An agent of an earlier version measures nothing: its part is one span.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_measures_nothing_has_one_span() {
    let mut collector = Collector::start(false);
    let dir = tempfile::tempdir().unwrap();
    let controller = Controller::start_traced(dir.path(), collector.endpoint()).await;
    controller.apply(LAB).await.unwrap();
    let mut agent = Agent::connect(&controller, "n1", None).await.unwrap();
    agent.took = [0; 2];
    agent.apply_all();
    let spans = collector.trace(DEADLINE, |spans| spans.contains_key("reconcile n1"));
    assert!(spans.contains_key("push n1") && !spans.contains_key("apply n1"), "{:?}", spans.keys());
    controller.stop().await;
}

/// Catches a write that waits until the collector has answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_takes_nothing_holds_up_nothing() {
    let collector = Collector::start(true);
    let dir = tempfile::tempdir().unwrap();
    let controller = Controller::start_traced(dir.path(), collector.endpoint()).await;
    controller.apply(LAB).await.unwrap();
    collector.message(DEADLINE);
    for round in 0..20 {
        let label = format!(
            "---\n{{apiVersion: canopy/v1, kind: Group, metadata: {{name: g1, labels: {{round: \"{round}\"}}}}, spec: {{}}}}"
        );
        let changed = tokio::time::timeout(DEADLINE, controller.apply(&label)).await.expect("a write waits for traces");
        assert!(changed.unwrap().contains("updated"));
    }
    tokio::time::timeout(DEADLINE + Duration::from_secs(1), controller.stop()).await.unwrap();
}

/// One that is not there costs spans and one line of the log; without an endpoint there is nothing to cost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_is_away_costs_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let controller = Controller::start_traced(dir.path(), &format!("http://{gone}")).await;
    controller.apply(LAB).await.unwrap();
    controller.stop().await;
}
