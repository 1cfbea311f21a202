// SPDX-License-Identifier: Apache-2.0
//! Traces as a collector receives them: OTLP over a real socket, with the real controller and simulated agents.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use canopy_control::pb::{JoinRequest, LeaveRequest, Role};
use canopy_testkit::collector::{Collector, Span, attribute, check_change};
use support::{Agent, Controller, DEADLINE, LAB};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UnixStream};
use tonic::Request;

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

fn joining(host: &str, qpn: u32) -> JoinRequest {
    let role = Role::Receiver.into();
    JoinRequest { group: "g1".into(), host: host.into(), role, qpn, uid: Some(1000), ..Default::default() }
}

/// A scrape in the format that is asked for.
async fn metrics(dir: &Path, accept: &str) -> String {
    let mut socket = UnixStream::connect(dir.join("rest.sock")).await.unwrap();
    let request = format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\nConnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    answer
}

/// Catches joins and leaves of applications that are not in traces, as they do not come by REST; and a join under a span of its caller that is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_and_a_leave_are_trees_of_spans_down_to_every_node() {
    let mut collector = Collector::start(false);
    let dir = tempfile::tempdir().unwrap();
    let controller = Controller::start_traced(dir.path(), collector.endpoint()).await;
    let agents = ["n1", "n2"];
    controller.apply(LAB).await.unwrap();
    for node in agents {
        Agent::connect(&controller, node, None).await.unwrap().apply_all();
    }
    controller.ctl(&["wait", "group", "g1", "--for", "ready", "--timeout", "30s"]).await.unwrap();
    let (trace, parent) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    let mut join = Request::new(joining("r2", 19));
    join.metadata_mut().insert("traceparent", format!("00-{trace}-{parent}-01").parse().unwrap());
    controller.membership().await.join(join).await.unwrap();
    let name = "canopy.v1.MembershipService/Join";
    let whole = |spans: &BTreeMap<String, Span>, name: &str| {
        spans.contains_key(name) && agents.iter().all(|node| spans.contains_key(&format!("read back {node}")))
    };
    let spans = collector.trace(DEADLINE, |spans| whole(spans, name));
    check_change(&spans, name, &agents);
    let root = &spans[name];
    let hex = |octets: &[u8]| octets.iter().map(|octet| format!("{octet:02x}")).collect::<String>();
    assert_eq!((hex(&root.trace_id).as_str(), hex(&root.parent_span_id).as_str()), (trace, parent));
    assert_eq!(attribute(&root.attributes, "rpc.grpc.status_code").as_deref(), Some("0"));
    // Its time has the trace as exemplar, for clients of OpenMetrics alone.
    let metrics = metrics(dir.path(), "application/openmetrics-text;version=1.0.0").await;
    let exemplar = metrics.lines().find(|line| line.contains(&format!("# {{trace_id=\"{trace}\"}} ")));
    assert!(exemplar.is_some_and(|line| line.starts_with("canopy_intent_to_kernel_seconds_bucket{")), "{metrics}");
    assert!(!self::metrics(dir.path(), "text/plain").await.contains("trace_id"));

    let leave = LeaveRequest { group: "g1".into(), host: "r2".into(), uid: Some(1000), ..Default::default() };
    controller.membership().await.leave(leave).await.unwrap();
    let name = "canopy.v1.MembershipService/Leave";
    let spans = collector.trace(DEADLINE, |spans| whole(spans, name));
    assert_eq!(spans[name].parent_span_id.len(), 0);

    // Of a caller that does not record, there is none; a refusal is one of the caller.
    let mut join = Request::new(joining("r2", 19));
    join.metadata_mut().insert("traceparent", format!("00-{}-{parent}-00", "5".repeat(32)).parse().unwrap());
    controller.membership().await.join(join).await.unwrap();
    let refused = controller.membership().await.join(joining("none", 19)).await.unwrap_err();
    let name = "canopy.v1.MembershipService/Join";
    let is_refusal = |span: &Span| {
        attribute(&span.attributes, "rpc.grpc.status_code")
            .is_some_and(|code| code == (refused.code() as i32).to_string())
    };
    let spans = collector.trace(DEADLINE, |spans| spans.get(name).is_some_and(is_refusal));
    assert!(spans[name].status.as_ref().is_none_or(|status| status.code == 0), "{spans:?}");
    assert!(!collector.has_seen(&[0x55; 16]));
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
