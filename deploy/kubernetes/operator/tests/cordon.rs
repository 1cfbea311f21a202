// SPDX-License-Identifier: Apache-2.0
//! What becomes of a node of the topology that is cordoned in Kubernetes: what is decided, and what the loop sends to a controller.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod servers;

use std::sync::Arc;

use canopy_controller_api::DrainResource;
use canopy_operator::cordon::follow::follow;
use canopy_operator::cordon::{Cordoned, Step, decide, drain_name};
use canopy_operator::manager::{Cluster, MANAGED_BY};
use canopy_operator::metrics::Metrics;
use k8s_openapi::api::core::v1::Node;
use kube::api::PartialObjectMeta;
use kube::runtime::watcher::{self, Event};
use serde_json::{Value, json};
use servers::Servers;
use tokio::sync::mpsc;

fn cluster() -> Cluster {
    "prod".parse().unwrap()
}

fn drain(name: &str, node: &str, manager: Option<&str>) -> Value {
    let labels = manager.map_or_else(|| json!({}), |manager| json!({MANAGED_BY: manager}));
    json!({
        "apiVersion": "canopy/v1", "kind": "Drain",
        "metadata": {"name": name, "tenant": "default", "labels": labels, "generation": 1, "uid": "0e9a3b52-9c8b-4a3c-8f0e-1f2a3b4c5d6e"},
        "spec": {"node": node, "reason": "x"},
        "status": {"links": [], "groups": 0, "hosts": []},
    })
}

/// Steps for node `n5`, cordoned as the object with this UID; the first drain of that name is the one that may be in the way.
fn steps(uid: Option<&str>, is_in_topology: bool, drains: &[(&str, Option<&str>)]) -> Vec<Step> {
    let cordoned = uid.map(|uid| Cordoned { uid: uid.into(), accept_loss: false });
    let of = |(name, manager): &(&str, Option<&str>)| -> Arc<DrainResource> {
        Arc::new(serde_json::from_value(drain(name, "n5", *manager)).unwrap())
    };
    let drains: Vec<_> = drains.iter().map(of).collect();
    let named = drains.iter().find(|drain| drain.metadata.name == "cordon-n5").cloned();
    decide(&cluster(), "n5", cordoned.as_ref(), is_in_topology, &drains, named.as_deref())
}

fn end(manager: &str) -> Step {
    Step::End { manager: manager.into(), name: "cordon-n5".into() }
}

/// Catches a second drain after a restart, one that stays when its node is uncordoned or gone, and one of a node that is not the fabric's.
#[test]
fn a_cordoned_node_has_one_drain_and_another_node_none() {
    let made = steps(Some("1"), true, &[]);
    let [Step::Create { manager, document }] = made.as_slice() else { panic!("{made:?}") };
    assert_eq!(manager, "kubernetes.prod.1");
    assert_eq!(document["metadata"], json!({"name": "cordon-n5", "labels": {MANAGED_BY: "kubernetes.prod.1"}}));
    let spec = &document["spec"];
    assert_eq!((&spec["node"], &spec["acceptLoss"]), (&json!("n5"), &json!(false)));
    assert!(spec["reason"].as_str().is_some_and(|why| why.contains("cordoned") && why.contains("prod")), "{spec}");
    let own = ("cordon-n5", Some("kubernetes.prod.1"));
    assert_eq!(steps(Some("1"), true, &[own]), []);
    assert_eq!(steps(Some("1"), false, &[]), [], "no node of the topology");
    assert_eq!(steps(Some("1"), false, &[own]), [], "it is drained when it is back in the topology");
    assert_eq!(steps(None, true, &[own]), [end("kubernetes.prod.1")]);
    assert_eq!(steps(None, false, &[own]), [end("kubernetes.prod.1")]);
    assert_eq!(steps(None, true, &[]), []);
}

/// Catches a drain of a Node object that was deleted and made again: it would be kept, and no manager would ever end it.
#[test]
fn the_drain_of_an_earlier_node_object_is_replaced() {
    let found = steps(Some("2"), true, &[("cordon-n5", Some("kubernetes.prod.1"))]);
    let [ended, Step::Create { manager, .. }] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((ended, manager.as_str()), (&end("kubernetes.prod.1"), "kubernetes.prod.2"));
}

/// Catches an operator program that ends what people, or another cluster, have drained.
#[test]
fn drains_of_others_are_left_alone() {
    let others = [("optics", None), ("cordon-east", Some("kubernetes.east.1")), ("mine", Some("ticket-system"))];
    assert_eq!(steps(None, true, &others), []);
    let made = steps(Some("1"), true, &others);
    assert!(matches!(made.as_slice(), [Step::Create { .. }]), "{made:?}");
    let taken = steps(Some("1"), true, &[("cordon-n5", None)]);
    let [Step::Refuse(why)] = taken.as_slice() else { panic!("{taken:?}") };
    assert!(why.contains("cordon-n5") && why.contains("taken over"), "{why}");
}

#[test]
fn the_name_of_a_drain_is_a_name() {
    assert_eq!(drain_name("n5"), "cordon-n5");
    let longest = "n".repeat(56);
    assert_eq!(drain_name(&longest), format!("cordon-{longest}"));
    let long = drain_name(&format!("{}-{}", "n".repeat(46), "m".repeat(16)));
    assert!(long.starts_with(&format!("cordon-{}-", "n".repeat(46))) && long.len() == 62, "{long}");
    canopy_model::ids::check_name("name", &long).unwrap();
}

/// Catches names that share their first 56 characters: the second node's drain would be taken for another's, and never made.
#[test]
fn nodes_of_long_names_have_drains_of_different_names() {
    let of = |last: &str| drain_name(&format!("{}{last}", "n".repeat(60)));
    assert_ne!(of("-1"), of("-2"));
    assert_eq!(of("-1"), of("-1"));
}

fn node(name: &str, uid: &str, annotations: &Value) -> PartialObjectMeta<Node> {
    let metadata = json!({"name": name, "uid": uid, "annotations": annotations});
    serde_json::from_value(json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata})).unwrap()
}

/// The loop with a controller that has nodes n5 and n6.
struct Run {
    servers: Servers,
    nodes: mpsc::UnboundedSender<watcher::Result<Event<PartialObjectMeta<Node>>>>,
    metrics: Arc<Metrics>,
    _running: tokio::task::JoinSet<()>,
}

impl Run {
    async fn start(servers: Servers, listed: &[(&str, &str)]) -> Self {
        let (nodes, events) = mpsc::unbounded_channel();
        let events = futures::stream::unfold(events, async |mut events| Some((events.recv().await?, events)));
        let (context, changes) = servers.context("prod");
        let metrics = context.metrics.clone();
        let mut running = tokio::task::JoinSet::new();
        let of_drains = context.clone();
        running.spawn(async move { of_drains.mirror.follow_drains(&of_drains.rest, &of_drains.news).await });
        let of_topology = context.clone();
        let (news, kept) = mpsc::channel(64);
        running.spawn(async move {
            let _kept = kept;
            of_topology.mirror.follow_topology(&of_topology.rest, &news).await;
        });
        running.spawn(async move { follow(&context, events, changes).await });
        let run = Self { servers, nodes, metrics, _running: running };
        run.list(listed);
        run
    }

    /// Kubernetes lists its cordoned nodes.
    fn list(&self, nodes: &[(&str, &str)]) {
        let applied = nodes.iter().map(|(name, uid)| Event::InitApply(node(name, uid, &json!({}))));
        let all = std::iter::once(Event::Init).chain(applied).chain([Event::InitDone]);
        all.for_each(|event| self.send(event));
    }

    /// Waits until the metric of refused drains has this value.
    async fn counts_refused(&self, nodes: u64) {
        let waiting = async {
            while self.metrics.drains_refused() != nodes {
                tokio::task::yield_now().await;
            }
        };
        let limit = std::time::Duration::from_secs(30);
        assert!(
            tokio::time::timeout(limit, waiting).await.is_ok(),
            "{} instead of {nodes}",
            self.metrics.drains_refused()
        );
    }

    fn send(&self, event: Event<PartialObjectMeta<Node>>) {
        self.nodes.send(Ok(event)).unwrap();
    }
}

/// Catches a loop that drains at each restart or list, or forgets what was uncordoned while it was away.
#[tokio::test]
async fn a_node_is_drained_once_and_back_in_service_after_a_restart_too() {
    let run = Run::start(Servers::start(&[]).await, &[("n5", "1"), ("laptop", "9")]).await;
    run.servers.until(|of| of.drains() == ["cordon-n5"]).await;
    // A list that was broken off, and one more event of the same.
    run.list(&[("n5", "1"), ("laptop", "9")]);
    run.send(Event::Apply(node("n5", "1", &json!({}))));
    run.send(Event::Apply(node("n6", "2", &json!({}))));
    run.servers.until(|of| of.drains() == ["cordon-n5", "cordon-n6"]).await;
    run.send(Event::Delete(node("n5", "1", &json!({}))));
    run.servers.until(|of| of.drains() == ["cordon-n6"]).await;
    assert_eq!(run.servers.writes(), ["POST cordon-n5", "POST cordon-n6", "DELETE cordon-n5"]);

    // Another operator program, which finds that n6 is cordoned no more, and n5 again.
    let servers = run.servers.clone();
    drop(run);
    let run = Run::start(servers, &[("n5", "1")]).await;
    run.servers.until(|of| of.drains() == ["cordon-n5"]).await;
    assert_eq!(run.servers.writes().len(), 5, "{:?}", run.servers.writes());
}

/// Catches a refusal that no operator sees, or that is repeated at every event of the node.
#[tokio::test]
async fn a_refused_drain_is_an_event_of_its_node_and_waits() {
    let run = Run::start(Servers::start(&["n5"]).await, &[("n5", "1")]).await;
    run.servers.until(|of| !of.notices().is_empty()).await;
    run.counts_refused(1).await;
    let notices = run.servers.notices();
    assert_eq!(notices[0]["reason"], "FabricDrainRefused", "{notices:?}");
    assert_eq!(notices[0]["regarding"]["name"], "n5");
    assert!(notices[0]["note"].as_str().unwrap().contains("r1 are members of groups"), "{notices:?}");
    // Nothing of this is news of n5; the drain of n6 comes after it in every queue.
    run.list(&[("n5", "1")]);
    run.send(Event::Apply(node("n5", "1", &json!({}))));
    run.send(Event::Apply(node("n6", "2", &json!({}))));
    run.servers.until(|of| of.drains() == ["cordon-n6"]).await;
    assert_eq!(run.servers.writes(), ["POST cordon-n5", "POST cordon-n6"]);
    // The annotation is, and the controller takes that one.
    run.send(Event::Apply(node("n5", "1", &json!({"canopy.dev/accept-loss": "true"}))));
    run.servers.until(|of| of.drains() == ["cordon-n5", "cordon-n6"]).await;
    run.counts_refused(0).await;
}

/// Catches two operator programs of one cluster name that end and make a drain in turns without a pause.
#[tokio::test]
async fn a_drain_that_others_end_is_not_made_again_at_once() {
    let run = Run::start(Servers::start(&[]).await, &[("n5", "1")]).await;
    run.servers.until(|of| of.notices().len() == 1).await;
    run.servers.ends("cordon-n5");
    run.servers.until(|of| of.notices().len() == 2).await;
    let notices = run.servers.notices();
    let note = notices[1]["note"].as_str().unwrap();
    assert!(note.contains("ended by others") && note.contains("prod"), "{notices:?}");
    assert_eq!(run.servers.writes(), ["POST cordon-n5"]);
    // Uncordoned and cordoned again by its own cluster, it is drained at once.
    run.send(Event::Delete(node("n5", "1", &json!({}))));
    run.send(Event::Apply(node("n6", "2", &json!({}))));
    run.servers.until(|of| of.drains() == ["cordon-n6"]).await;
    run.send(Event::Delete(node("n6", "2", &json!({}))));
    run.servers.until(|of| of.drains().is_empty()).await;
    run.send(Event::Apply(node("n6", "2", &json!({}))));
    run.servers.until(|of| of.drains() == ["cordon-n6"]).await;
}

/// Catches drains that stay for ever when the setting is taken back.
#[tokio::test]
async fn without_the_setting_what_was_drained_is_ended() {
    let servers = Servers::start(&[]).await;
    servers.has(drain("cordon-n5", "n5", Some("kubernetes.prod.1")));
    servers.has(drain("by-hand", "n5", None));
    let run = Run::start(servers, &[]).await;
    run.servers.until(|of| of.drains() == ["by-hand"]).await;
    assert_eq!(run.servers.writes(), ["DELETE cordon-n5"]);
}
