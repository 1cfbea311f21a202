// SPDX-License-Identifier: Apache-2.0
//! NodeService: desired state down, reports and counters up.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use canopy_control::pb::node_service_server::NodeService;
use canopy_control::pb::{
    ReportRequest, ReportResponse, StreamTelemetryRequest, StreamTelemetryResponse, WatchRequest, WatchResponse,
};
use canopy_control::{Digest, delta_response, snapshot_response};
use canopy_controller_actor::Controller;
use canopy_controller_actor::events::Event;
use canopy_controller_actor::telemetry::NodeTelemetry;
use canopy_model::FieldError;
use canopy_model::congestion::PortCongestion;
use canopy_model::ids::check_name;
use canopy_model::node_spec::NodeSpec;
use canopy_model::status::{ItemError, NodeStatus};
use canopy_model::telemetry::{GroupTelemetry, LinkRtt};
use futures::Stream;
use tokio::sync::watch;
use tonic::{Request, Response, Status, Streaming};
use tracing::Instrument;

use crate::error;
use crate::peer::peer;
use crate::server::closed;

/// Errors kept of one report.
const MAX_ERRORS: usize = 256;
/// Events taken from one telemetry message.
const MAX_EVENTS: usize = 256;

/// Ports taken from one telemetry message: more than a node has.
const MAX_PORTS: usize = 4096;

pub(crate) struct Nodes {
    controller: Controller,
    closing: watch::Receiver<bool>,
}

impl Nodes {
    pub(crate) fn new(controller: Controller, closing: watch::Receiver<bool>) -> Self {
        Self { controller, closing }
    }
}

#[tonic::async_trait]
impl NodeService for Nodes {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<WatchResponse, Status>> + Send>>;

    async fn watch(&self, request: Request<WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let peer = peer(&request);
        let WatchRequest { node, known_generation, known_digest, agent_version } = request.into_inner();
        check_name("node", &node).map_err(error::field)?;
        let known = match known_digest.as_slice() {
            [] => None,
            bytes => Some((
                known_generation,
                Digest::try_from(bytes).map_err(|e| error::field(FieldError::new("known_digest", e.detail)))?,
            )),
        };
        let mut specs = self.controller.watch_node(&node).ok_or_else(|| error::unknown_node(&node))?;
        let connection = self.controller.agent_connected(&node);
        let mut closing = self.closing.clone();
        let span = tracing::info_span!("watch", node, peer, agent_version);
        span.in_scope(|| tracing::info!(known_generation, "agent connected"));
        let stream = async_stream::stream! {
            // Ends with the stream, whoever ends it.
            let _connection = connection;
            let mut held = specs.borrow_and_update().clone();
            let (first, mut digest) = match first_response(held.clone(), known).await {
                Ok(first) => first,
                Err(status) => { yield Err(status); return; }
            };
            yield Ok(first);
            loop {
                let changed = tokio::select! {
                    changed = specs.changed() => changed,
                    () = closed(&mut closing) => { yield Err(error::stopping()); return; }
                };
                if changed.is_err() {
                    yield Err(error::unknown_node(&node));
                    return;
                }
                let next = specs.borrow_and_update().clone();
                let (response, after) = delta_response(&held, digest, &next);
                span.in_scope(|| tracing::debug!(from = held.generation, to = next.generation, "sending a delta"));
                (held, digest) = (next, after);
                yield Ok(response);
            }
        };
        Ok(Response::new(Box::pin(stream)))
    }

    async fn report(&self, request: Request<ReportRequest>) -> Result<Response<ReportResponse>, Status> {
        let span = tracing::debug_span!("report", node = request.get_ref().node, peer = peer(&request));
        let mut status = NodeStatus::try_from(request.into_inner()).map_err(error::field)?;
        cap_errors(&mut status.errors);
        span.in_scope(|| {
            tracing::debug!(
                observed_generation = status.observed_generation,
                errors = status.errors.len(),
                "node reported"
            );
            self.controller.report(status).map_err(|e| error::domain(&e))
        })?;
        Ok(Response::new(ReportResponse {}))
    }

    async fn stream_telemetry(
        &self,
        request: Request<Streaming<StreamTelemetryRequest>>,
    ) -> Result<Response<StreamTelemetryResponse>, Status> {
        let span = tracing::debug_span!("telemetry", peer = peer(&request));
        let mut samples = request.into_inner();
        let mut closing = self.closing.clone();
        let receive = async {
            let mut named: Option<String> = None;
            loop {
                let sample = tokio::select! {
                    sample = samples.message() => sample?,
                    () = closed(&mut closing) => return Err(error::stopping()),
                };
                let Some(sample) = sample else { return Ok(Response::new(StreamTelemetryResponse {})) };
                if named.as_ref().is_some_and(|n| *n != sample.node) {
                    return Err(error::field(FieldError::new(
                        "node",
                        format!(
                            "{:?} in a stream of {:?}: use one stream per node",
                            sample.node,
                            named.unwrap_or_default()
                        ),
                    )));
                }
                named = Some(sample.node.clone());
                self.take_in(sample)?;
            }
        };
        receive.instrument(span).await
    }
}

impl Nodes {
    fn take_in(&self, sample: StreamTelemetryRequest) -> Result<(), Status> {
        let node = sample.node;
        let spec = self.controller.read(|d| d.node_spec(&node)).ok_or_else(|| error::unknown_node(&node))?;
        let mut groups = BTreeMap::new();
        for (i, wire) in sample.groups.into_iter().enumerate() {
            let group = GroupTelemetry::try_from(wire)
                .map_err(|e| error::field(FieldError::new(format!("groups[{i}].{}", e.field), e.detail)))?;
            groups.insert(group.group_id, group);
        }
        // The event that says so may have been lost, or said to a controller before this one.
        groups.values().filter(|g| g.data_packets > 0).for_each(|g| self.controller.data_flows(g.group_id));
        let drops = sample.node_drops.into_iter().map(Into::into).collect();
        let known = |id| spec.groups.contains_key(&id);
        self.controller.telemetry().record(
            &node,
            NodeTelemetry { time_unix_ns: sample.time_unix_ns, groups, drops },
            known,
        );
        if self.controller.read(|d| d.node_spec(&node)).is_none() {
            // It left the topology meanwhile; nobody else would forget it now.
            self.controller.telemetry().forget_node(&node);
            return Err(error::unknown_node(&node));
        }
        let mut rtts = Vec::new();
        for (i, wire) in sample.link_rtts.into_iter().take(MAX_PORTS).enumerate() {
            let rtt = LinkRtt::try_from(wire)
                .map_err(|e| error::field(FieldError::new(format!("link_rtts[{i}].{}", e.field), e.detail)))?;
            rtts.push(rtt);
        }
        self.controller.link_rtts(&node, &rtts);
        if let Some(congestion) = sample.congestion {
            let mut queues = Vec::new();
            for (i, wire) in congestion.ports.into_iter().take(MAX_PORTS).enumerate() {
                let queue = PortCongestion::try_from(wire).map_err(|e| {
                    error::field(FieldError::new(format!("congestion.ports[{i}].{}", e.field), e.detail))
                })?;
                queues.push(queue);
            }
            self.controller.queues(&node, queues);
        }
        let told = sample.events.len();
        for (i, wire) in sample.events.into_iter().take(MAX_EVENTS).enumerate() {
            let event = canopy_model::telemetry::Event::try_from(wire)
                .map_err(|e| error::field(FieldError::new(format!("events[{i}].{}", e.field), e.detail)))?;
            let group = event.group.and_then(|id| self.controller.read(|d| d.group_name(id).map(str::to_owned)));
            tracing::info!(node, code = event.code, group, detail = event.detail, "node event");
            self.controller.events().push(Event {
                sequence: 0,
                time_unix_ns: event.time_unix_ns,
                code: event.code.clone(),
                node: Some(node.clone()),
                group,
                branch: event.branch,
                detail: event.detail.clone(),
            });
            self.controller.node_event(&node, &event);
        }
        if told > MAX_EVENTS {
            self.controller.events().note(
                "EventsLeftOut",
                Some(&node),
                None,
                format!("{} events of one message beyond the first {MAX_EVENTS}", told - MAX_EVENTS),
            );
        }
        Ok(())
    }
}

/// An empty delta for a node that holds this very state, else a snapshot. Hashing a large state takes long: off the async threads.
async fn first_response(spec: Arc<NodeSpec>, known: Option<(u64, Digest)>) -> Result<(WatchResponse, Digest), Status> {
    let made = tokio::task::spawn_blocking(move || {
        let digest = Digest::of(&spec);
        if known == Some((spec.generation, digest)) {
            delta_response(&spec, digest, &spec)
        } else {
            (snapshot_response(&spec), digest)
        }
    });
    made.await.map_err(|_| error::stopping())
}

fn cap_errors(errors: &mut Vec<ItemError>) {
    let told = errors.len();
    if told > MAX_ERRORS {
        errors.truncate(MAX_ERRORS);
        errors.push(ItemError {
            kind: "report".into(),
            name: "errors".into(),
            group: None,
            detail: format!("{} more errors were reported and not kept", told - MAX_ERRORS),
        });
    }
}
