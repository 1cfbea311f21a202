// SPDX-License-Identifier: Apache-2.0
//! Follows cordoned nodes, and drains them at the controller.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use canopy_controller_api::{DrainResource, TopologyResource};
use futures::{Stream, StreamExt};
use hyper::Method;
use k8s_openapi::api::core::v1::{Node, ObjectReference};
use kube::api::{Api, PartialObjectMeta};
use kube::runtime::WatchStreamExt;
use kube::runtime::events::{Event as Notice, EventType, Recorder};
use kube::runtime::watcher::{self, Event, watcher as watch};
use kube::{Resource, ResourceExt};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{ACCEPT_LOSS, Cordoned, Step, decide};
use crate::context::Context;
use crate::group::{UNAVAILABLE, refusal};
use crate::mirror::Change;
use crate::status::FIELD_MANAGER;

/// What was refused is tried again after this: members that leave a node's hosts are not followed.
const AGAIN: Duration = Duration::from_secs(60);
/// What failed, because a server is away, or because the stream of drains is behind.
const SOON: Duration = Duration::from_secs(5);
/// Longest message of an event, characters of one octet.
const MAX_NOTE: usize = 1024;

/// A change of the unschedulable nodes.
pub type NodeEvent = watcher::Result<Event<PartialObjectMeta<Node>>>;

/// The unschedulable nodes of Kubernetes: the API server sends no others, and no heartbeats of those.
pub fn unschedulable(kubernetes: kube::Client) -> impl Stream<Item = NodeEvent> + Send {
    let of = watcher::Config::default().fields("spec.unschedulable=true");
    watch(Api::<PartialObjectMeta<Node>>::all(kubernetes), of).default_backoff()
}

/// None, for ever: what an operator has drained that was asked for it earlier is ended.
pub fn none() -> impl Stream<Item = NodeEvent> + Send {
    futures::stream::iter([Ok(Event::Init), Ok(Event::InitDone)]).chain(futures::stream::pending())
}

/// Why a node is not done, and when it is tried again.
enum Failure {
    /// The controller refuses, and will until something changes.
    Refused(String),
    /// Something is away, or on its way.
    Soon(String),
}

/// What is known of nodes, and what has to be done.
struct Cordons<'a> {
    context: &'a Context,
    recorder: Recorder,
    cordoned: BTreeMap<String, Cordoned>,
    /// While the nodes are listed anew: those that were found.
    listing: Option<BTreeMap<String, Cordoned>>,
    is_listed: bool,
    /// Nodes that have to be decided on, each from when on.
    due: BTreeMap<String, Instant>,
    /// What the last event of a node had: the same is not sent again.
    shown: BTreeMap<String, String>,
    /// When a node was drained last, until this operator program ends that.
    drained: BTreeMap<String, Instant>,
    /// Nodes whose drain, or the end of it, is refused.
    refused: BTreeSet<String>,
}

/// Keeps drains equal to cordoned nodes, for ever.
pub async fn follow(
    context: &Context,
    nodes: impl Stream<Item = NodeEvent> + Send,
    mut changes: mpsc::Receiver<Change>,
) {
    let recorder = Recorder::new(context.kubernetes.clone(), FIELD_MANAGER.into());
    let mut cordons = Cordons {
        context,
        recorder,
        cordoned: BTreeMap::new(),
        listing: None,
        is_listed: false,
        due: BTreeMap::new(),
        shown: BTreeMap::new(),
        drained: BTreeMap::new(),
        refused: BTreeSet::new(),
    };
    let mut nodes = std::pin::pin!(nodes);
    let mut topology = context.mirror.topology_changes();
    let mut known = None;
    let mut whole = std::pin::pin!(context.mirror.drains_whole());
    let mut is_whole = false;
    loop {
        let next = cordons.next();
        let at = next.as_ref().map_or_else(Instant::now, |(at, _)| *at);
        // Without all of both, a drain would be made twice, or ended although its node is cordoned.
        let is_waiting = next.is_some() && cordons.is_listed && is_whole;
        tokio::select! {
            () = &mut whole, if !is_whole => is_whole = true,
            Some(event) = nodes.next() => cordons.of_kubernetes(event),
            Some(change) = changes.recv() => cordons.of_drains(change),
            Ok(()) = topology.changed() => {
                let now = topology.borrow_and_update().clone().flatten();
                cordons.of_topology(known.as_deref(), now.as_deref());
                known = now;
            }
            () = tokio::time::sleep_until(at), if is_waiting => {
                if let Some((_, node)) = next {
                    cordons.reconcile(&node).await;
                    context.metrics.set_drains_refused(cordons.refused.len());
                }
            }
        }
    }
}

impl Cordons<'_> {
    /// The node that is due first. There are as many as are cordoned or drained.
    fn next(&self) -> Option<(Instant, String)> {
        self.due.iter().min_by_key(|(_, at)| **at).map(|(node, at)| (*at, node.clone()))
    }

    fn now(&mut self, node: String) {
        self.due.insert(node, Instant::now());
    }

    fn of_kubernetes(&mut self, event: NodeEvent) {
        let of = |node: &PartialObjectMeta<Node>| {
            let accept_loss = node.annotations().get(ACCEPT_LOSS).map(String::as_str) == Some("true");
            (node.name_any(), Cordoned { uid: node.uid().unwrap_or_default(), accept_loss })
        };
        match event {
            Ok(Event::Init) => self.listing = Some(BTreeMap::new()),
            Ok(Event::InitApply(node)) => self.listing.get_or_insert_default().extend([of(&node)]),
            Ok(Event::InitDone) => {
                let found = self.listing.take().unwrap_or_default();
                let before = std::mem::replace(&mut self.cordoned, found);
                self.is_listed = true;
                let differs = |node: &&String| before.get(*node) != self.cordoned.get(*node);
                let differing: Vec<String> =
                    before.keys().chain(self.cordoned.keys()).filter(differs).cloned().collect();
                differing.into_iter().for_each(|node| self.now(node));
            }
            Ok(Event::Apply(node)) => {
                let (name, now) = of(&node);
                if self.cordoned.insert(name.clone(), now.clone()) != Some(now) {
                    self.now(name);
                }
            }
            Ok(Event::Delete(node)) => {
                self.cordoned.remove(&node.name_any());
                self.now(node.name_any());
            }
            Err(error) => tracing::warn!(%error, "cannot follow the nodes of Kubernetes"),
        }
    }

    /// Drains of others change nothing.
    fn of_drains(&mut self, change: Change) {
        let Change::Drain { node, manager } = change else { return };
        if manager.is_some_and(|manager| self.context.cluster.has(&manager)) {
            self.now(node);
        }
    }

    /// A cordoned node that has come into the topology is drained there. All cordoned ones are compared, which are few.
    fn of_topology(&mut self, before: Option<&TopologyResource>, now: Option<&TopologyResource>) {
        if before.map(|of| &of.spec.nodes) == now.map(|of| &of.spec.nodes) {
            return;
        }
        let is_new = |node: &&String| has(now, node) && !has(before, node);
        let new: Vec<String> = self.cordoned.keys().filter(is_new).cloned().collect();
        new.into_iter().for_each(|node| self.now(node));
    }

    async fn reconcile(&mut self, node: &str) {
        self.due.remove(node);
        let mirror = &self.context.mirror;
        let named = mirror.drain(&super::drain_name(node));
        let is_in_topology = has(mirror.topology().as_deref(), node);
        let cordoned = self.cordoned.get(node).cloned();
        let drains = mirror.drains_of(node);
        let steps = decide(&self.context.cluster, node, cordoned.as_ref(), is_in_topology, &drains, named.as_deref());
        if cordoned.is_none() && steps.is_empty() {
            self.shown.remove(node);
        }
        for step in steps {
            let done = match step {
                Step::Refuse(why) => Err(Failure::Refused(why)),
                Step::Create { .. } if self.was_drained_lately(node) => {
                    Err(Failure::Refused(self.ended_by_others(node)))
                }
                Step::Create { manager, document } => self.create(node, manager, &document).await,
                Step::End { manager, name } => self.end(node, manager, &name).await,
            };
            match done {
                Ok(text) => self.show(node, cordoned.as_ref(), EventType::Normal, "FabricDrain", text).await,
                Err(Failure::Refused(why)) => {
                    self.refused.insert(node.to_owned());
                    self.due.insert(node.to_owned(), Instant::now() + AGAIN);
                    self.show(node, cordoned.as_ref(), EventType::Warning, "FabricDrainRefused", why).await;
                    return;
                }
                Err(Failure::Soon(why)) => {
                    tracing::warn!(node, why, retry_in = ?SOON, "cannot follow the cordon of this node yet");
                    self.due.insert(node.to_owned(), Instant::now() + SOON);
                    return;
                }
            }
        }
        self.refused.remove(node);
    }

    /// Two operator programs that take each other's drains for their own would else take turns without a pause.
    fn was_drained_lately(&self, node: &str) -> bool {
        self.drained.get(node).is_some_and(|at| at.elapsed() < AGAIN)
    }

    fn ended_by_others(&self, node: &str) -> String {
        let (name, cluster) = (super::drain_name(node), &self.context.cluster);
        format!(
            "drain {name} was ended by others, and is made again later: an operator of another cluster that is called {cluster}, too, would do \
             that; see operator.cluster"
        )
    }

    async fn create(&mut self, node: &str, manager: String, document: &serde_json::Value) -> Result<String, Failure> {
        let rest = self.context.rest.clone().managing(Some(manager));
        let answer = rest.send(Method::POST, "/api/v1/drains", Some(document)).await;
        let answer = answer.map_err(|failure| Failure::Soon(failure.to_string()))?;
        if !(200..300).contains(&answer.status) {
            let (reason, why) = refusal(answer.status, &answer.body);
            // The stream of drains has one of this name soon, and then it is known whose that is.
            let is_behind = why.contains("(AlreadyExists)");
            return Err(if reason == UNAVAILABLE || is_behind { Failure::Soon(why) } else { Failure::Refused(why) });
        }
        let name = super::drain_name(node);
        if let Ok(drain) = serde_json::from_slice::<DrainResource>(&answer.body) {
            self.context.mirror.wrote_drain(&name, Some(drain));
        }
        self.drained.insert(node.to_owned(), Instant::now());
        Ok(format!("drain {name} takes the node out of service"))
    }

    async fn end(&mut self, node: &str, manager: String, name: &str) -> Result<String, Failure> {
        let rest = self.context.rest.clone().managing(Some(manager));
        let answer = rest.send(Method::DELETE, &format!("/api/v1/drains/{name}"), None).await;
        let answer = answer.map_err(|failure| Failure::Soon(failure.to_string()))?;
        if !(200..300).contains(&answer.status) && answer.status != 404 {
            let (reason, why) = refusal(answer.status, &answer.body);
            return Err(if reason == UNAVAILABLE { Failure::Soon(why) } else { Failure::Refused(why) });
        }
        self.context.mirror.wrote_drain(name, None);
        self.drained.remove(node);
        Ok(format!("drain {name} has ended: node {node} is in service unless others drain it"))
    }

    /// Reports what became of a node: in the log, and as an event of it in Kubernetes while that has it.
    async fn show(&mut self, node: &str, of: Option<&Cordoned>, kind: EventType, reason: &str, text: String) {
        if self.shown.get(node) == Some(&text) {
            return;
        }
        match kind {
            EventType::Normal => tracing::info!(node, "{text}"),
            EventType::Warning => {
                tracing::warn!(node, retry_in = ?AGAIN, why = text, "cannot follow the cordon of this node")
            }
        }
        // Without it, the node is uncordoned or gone.
        let Some(of) = of else {
            self.shown.insert(node.to_owned(), text);
            return;
        };
        let regarding = ObjectReference {
            api_version: Some(Node::api_version(&()).into()),
            kind: Some(Node::kind(&()).into()),
            name: Some(node.to_owned()),
            uid: Some(of.uid.clone()),
            ..ObjectReference::default()
        };
        let note = Some(text.chars().filter(char::is_ascii).take(MAX_NOTE).collect());
        let notice =
            Notice { type_: kind, reason: reason.into(), note, action: "FollowCordon".into(), secondary: None };
        match self.recorder.publish(&notice, &regarding).await {
            Ok(()) => _ = self.shown.insert(node.to_owned(), text),
            Err(error) => tracing::warn!(node, %error, "cannot send an event to Kubernetes"),
        }
    }
}

fn has(topology: Option<&TopologyResource>, node: &str) -> bool {
    topology.is_some_and(|of| of.spec.nodes.iter().any(|known| known.name.as_str() == node))
}
