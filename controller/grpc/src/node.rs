// SPDX-License-Identifier: Apache-2.0
//! NodeService: desired state down, reports and counters up.

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv6Addr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use canopy_control::pb::node_service_server::NodeService;
use canopy_control::pb::{
    ReportRequest, ReportResponse, StreamTelemetryRequest, StreamTelemetryResponse, WatchRequest, WatchResponse,
};
use canopy_control::{MINOR_VERSION, Position};
use canopy_controller_actor::Controller;
use canopy_controller_actor::events::{Code as EventKind, Event};
use canopy_controller_actor::log_levels::LogTarget;
use canopy_controller_actor::telemetry::NodeTelemetry;
use canopy_controller_core::desired::ProgramTimes;
use canopy_controller_core::drops::are_packets;
use canopy_controller_core::{DesiredNode, LateNews, NodePrograms};
use canopy_model::FieldError;
use canopy_model::capture::CapturedFrame;
use canopy_model::congestion::PortCongestion;
use canopy_model::digest::SpecDigest;
use canopy_model::ids::{Generation, GroupId, check_name};
use canopy_model::node_spec::MAX_BRANCHES;
use canopy_model::status::{ItemError, ItemKind, NodeStatus};
use canopy_model::telemetry::{EventCode, GroupTelemetry, LateState, LinkLoss, LinkRtt};
use canopy_units::UnixTime;
use futures::Stream;
use tokio::sync::watch;
use tokio::sync::watch::error::RecvError;
use tonic::{Request, Response, Status, Streaming};
use tracing::Instrument;

use crate::caller::Caller;
use crate::closing::closed;
use crate::content::{Content, Known};
use crate::error;
use crate::keys::{Keys, NotOpened};

/// Errors kept of one report.
const MAX_ERRORS: usize = 256;
/// Events taken from one telemetry message.
const MAX_EVENTS: usize = 256;

/// Captured frames taken from one telemetry message: a packet and its copies to all branches, twice.
const MAX_CAPTURED: usize = 2 * (MAX_BRANCHES + 1);

/// Ports taken from one telemetry message: more than a node has.
const MAX_PORTS: usize = 4096;

/// Furthest that an agent's term may be ahead of a store that was put back.
const MAX_TERM_JUMP: u64 = 1 << 40;

pub(crate) struct Nodes {
    controller: Controller,
    /// What was last sent to each node.
    sent: Arc<Mutex<HashMap<String, Sent>>>,
    keys: Keys,
    closing: watch::Receiver<bool>,
}

/// The name of a spec.
type Sent = (u64, Generation, SpecDigest);

impl Nodes {
    pub(crate) fn new(controller: Controller, keys: Keys, closing: watch::Receiver<bool>) -> Self {
        Self { controller, sent: Arc::default(), keys, closing }
    }
}

#[tonic::async_trait]
impl NodeService for Nodes {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<WatchResponse, Status>> + Send>>;

    async fn watch(&self, request: Request<WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let known = Known::of(&request)?;
        let WatchRequest { node, agent_version, minor_version, .. } = request;
        check_name("node", &node).map_err(error::field)?;
        caller.as_node(&self.controller, &self.keys, &node)?;
        let key =
            caller.key().map(|key| self.keys.open(&node, key).map_err(|why| self.not_opened(why, &node, &caller)));
        let key = key.transpose()?;
        let span = tracing::info_span!("watch", node, %caller, agent_version);
        self.outbid(&node, &known, &span).await?;
        let mut specs = self.controller.watch_node(&node).ok_or_else(|| error::unknown_node(&node))?;
        // A node gets nothing that a power cut can take back.
        self.controller.settled().await.map_err(error::command)?;
        let connection = self.controller.agent_connected(&node);
        let mut closing = self.closing.clone();
        let sent = Arc::clone(&self.sent);
        let controller = self.controller.clone();
        span.in_scope(|| {
            let (term, generation, digest) = (known.term, known.generation, known.digest);
            tracing::info!(term, generation, %digest, minor_version, "agent connected");
        });
        let minor_version = minor_version.min(MINOR_VERSION);
        let mut orders = self.controller.capture_orders(&node);
        let mut levels = self.controller.log_orders(LogTarget::Agent(node.clone()));
        let mut leaving = self.controller.clean_up_orders(&node);
        let stream = async_stream::stream! {
            // Dropped with the stream, whether server or agent ends it.
            let _connection = (connection, key);
            let (first, programs) = match newest(&controller, &node, None, &mut specs, &mut closing).await {
                Ok(newest) => newest,
                Err(status) => { yield Err(status); return; }
            };
            let Ok(mut content) = Content::of(first, programs.clone()).await else { yield Err(error::stopping()); return; };
            let note = |content: &Content| _ = lock(&sent).insert(node.clone(), content.name());
            note(&content);
            // What it has not confirmed goes to it now, also if it waited for the agent.
            let trace = controller.sent(&node, 0, content.name().1);
            let traceparent = trace.map(|trace| trace.to_string()).unwrap_or_default();
            for response in content.first_responses(&known, &programs) {
                yield Ok(WatchResponse { minor_version, traceparent: traceparent.clone(), ..response });
            }
            drop(programs);
            loop {
                let changed = tokio::select! {
                    changed = specs.changed() => changed,
                    order = orders.next() => {
                        yield Ok(WatchResponse { minor_version, ..content.with_capture(&order) });
                        continue;
                    }
                    order = levels.next() => {
                        yield Ok(WatchResponse { minor_version, ..content.with_log_level(&order) });
                        continue;
                    }
                    order = leaving.next() => {
                        span.in_scope(|| tracing::info!(order.retirement, "the node leaves: its agent is to clean up"));
                        yield Ok(WatchResponse { minor_version, ..content.with_clean_up(&order) });
                        continue;
                    }
                    () = closed(&mut closing) => { yield Err(error::stopping()); return; }
                };
                if changed.is_err() {
                    yield Err(error::unknown_node(&node));
                    return;
                }
                let before = content.name().1;
                let known = Some(content.groups());
                let (next, programs) = match newest(&controller, &node, known, &mut specs, &mut closing).await {
                    Ok(newest) => newest,
                    Err(status) => { yield Err(status); return; }
                };
                span.in_scope(|| tracing::debug!(generation = next.generation, "sending a change"));
                let delta = content.advance(&next, &programs);
                // Too long for a delta: the snapshot of the newest state.
                let mut whole = None;
                if delta.is_none() {
                    let (next, programs) = match newest(&controller, &node, None, &mut specs, &mut closing).await {
                        Ok(newest) => newest,
                        Err(status) => { yield Err(status); return; }
                    };
                    let Ok(all) = Content::of(next, programs.clone()).await else { yield Err(error::stopping()); return; };
                    content = all;
                    whole = Some(content.snapshot(Position::default(), &programs));
                }
                note(&content);
                let trace = controller.sent(&node, before, content.name().1);
                let traceparent = trace.map(|trace| trace.to_string()).unwrap_or_default();
                for response in delta.into_iter().chain(whole.into_iter().flatten()) {
                    yield Ok(WatchResponse { minor_version, traceparent: traceparent.clone(), ..response });
                }
            }
        };
        Ok(Response::new(Box::pin(stream)))
    }

    async fn report(&self, request: Request<ReportRequest>) -> Result<Response<ReportResponse>, Status> {
        let caller = Caller::of(&request)?;
        caller.as_node(&self.controller, &self.keys, &request.get_ref().node)?;
        let span = tracing::debug_span!("report", node = request.get_ref().node, %caller);
        let mut status = NodeStatus::try_from(request.into_inner()).map_err(error::field)?;
        if let Some(report) = status.cleaned_up {
            // Answered once it is durable: the agent does not repeat it.
            let taken = self.controller.cleaned_up(&status.node, report).instrument(span).await;
            return taken.map(|()| Response::new(ReportResponse {})).map_err(error::command);
        }
        cap_errors(&mut status.errors);
        self.check_observed(&mut status);
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
        let caller = Caller::of(&request)?;
        let span = tracing::debug_span!("telemetry", %caller);
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
                if named.is_none() {
                    caller.as_node(&self.controller, &self.keys, &sample.node)?;
                    self.controller.telemetry_begins(&sample.node);
                }
                named = Some(sample.node.clone());
                self.take_in(sample)?;
            }
        };
        receive.instrument(span).await
    }
}

impl Nodes {
    fn not_opened(&self, why: NotOpened, node: &str, caller: &Caller) -> Status {
        match why {
            NotOpened::OtherKey => caller.second(&self.controller, node),
            NotOpened::TooMany => Status::resource_exhausted(format!(
                "node: {node:?} has several streams already: it gets another one once the controller has noticed that they are gone"
            )),
        }
    }

    /// An agent that has accepted a higher term refuses this controller: the store is older than what agents saw. The
    /// controller takes a term beyond it, durably, and every agent follows.
    async fn outbid(&self, node: &str, known: &Known, span: &tracing::Span) -> Result<(), Status> {
        let Some(spec) = self.controller.read(|d| d.desired(node)) else { return Ok(()) };
        let (own, latest) = (spec.term, spec.generation);
        // An equal term with a generation that this life has not reached is of another life too.
        if (known.term, known.generation) <= (own, latest) {
            return Ok(());
        }
        if known.term.saturating_sub(own) > MAX_TERM_JUMP {
            let detail = format!("{} is not a term of this controller, whose own is {own}", known.term);
            return Err(error::field(FieldError::new("known_term", detail)));
        }
        span.in_scope(|| {
            tracing::warn!(
                known_term = known.term,
                own,
                "the store is older than what this agent saw: taking a higher term"
            );
        });
        self.controller.raise_term(known.term).await.map_err(error::command)
    }

    /// A report confirms what was sent only with the same term, generation and digest: equal numbers alone may be of another
    /// controller's life.
    fn check_observed(&self, status: &mut NodeStatus) {
        let observed = (status.observed_term, status.observed_generation, status.observed_digest);
        let sent = lock(&self.sent).get(&status.node).copied();
        let other_content = sent.is_some_and(|s| (s.0, s.1) == (observed.0, observed.1) && s.2 != observed.2);
        if other_content {
            let (node, digest) = (&status.node, status.observed_digest);
            tracing::error!(node, %digest, "the node reports another content under this generation; it confirms nothing");
            status.observed_term = 0;
        }
    }

    fn take_in(&self, sample: StreamTelemetryRequest) -> Result<(), Status> {
        let node = sample.node;
        let desired = self.controller.read(|d| d.desired(&node)).ok_or_else(|| error::unknown_node(&node))?;
        let mut groups = BTreeMap::new();
        for (i, wire) in sample.groups.into_iter().enumerate() {
            let group = GroupTelemetry::try_from(wire)
                .map_err(|e| error::field(FieldError::new(format!("groups[{i}].{}", e.field), e.detail)))?;
            groups.insert(group.group_id, group);
        }
        let mut losses = Vec::new();
        for (i, wire) in sample.link_losses.into_iter().take(MAX_PORTS).enumerate() {
            let loss = LinkLoss::try_from(wire)
                .map_err(|e| error::field(FieldError::new(format!("link_losses[{i}].{}", e.field), e.detail)))?;
            losses.push(loss);
        }
        self.controller.link_losses(&node, &losses);
        let others_at_rest = sample.others_at_rest;
        self.controller.data_samples(&node, groups.values(), others_at_rest);
        let taken = UnixTime::from_nanos(sample.time_unix_ns);
        self.controller.telemetry_received(&node, taken, groups.values());
        let progress = self.controller.telemetry().progress(&node, &groups);
        self.controller.chart_groups(&node, taken, &groups, &progress, others_at_rest);
        let has_counters = !groups.is_empty() || !sample.node_drops.is_empty() || !losses.is_empty();
        let fatal: Vec<_> = groups.values().flat_map(fatal_branches).collect();
        let late: Vec<_> = groups.values().flat_map(late_receivers).collect();
        let drops = sample.node_drops.into_iter().map(Into::into).collect();
        let known = |id| desired.groups.contains(&id);
        let rises = self.controller.telemetry().record(&node, NodeTelemetry { time: taken, groups, drops }, known);
        if has_counters {
            let dropped = rises.iter().filter(|rise| are_packets(rise.reason)).map(|rise| rise.packets).sum();
            self.controller.chart_drops(&node, taken, dropped);
        }
        self.controller.drops_rose(&node, rises);
        match self.controller.read(|d| d.desired(&node)) {
            Some(now) if Arc::ptr_eq(&now, &desired) => {}
            // What has left the node meanwhile must be removed here.
            Some(now) => self.controller.telemetry().retain(&node, |id| now.groups.contains(&id)),
            None => {
                self.controller.telemetry().forget_node(&node);
                return Err(error::unknown_node(&node));
            }
        }
        let mut rtts = Vec::new();
        for (i, wire) in sample.link_rtts.into_iter().take(MAX_PORTS).enumerate() {
            let rtt = LinkRtt::try_from(wire)
                .map_err(|e| error::field(FieldError::new(format!("link_rtts[{i}].{}", e.field), e.detail)))?;
            rtts.push(rtt);
        }
        self.controller.link_rtts(&node, &rtts);
        let mut queues = Vec::new();
        let has_queues = sample.congestion.is_some();
        if let Some(congestion) = sample.congestion {
            for (i, wire) in congestion.ports.into_iter().take(MAX_PORTS).enumerate() {
                let queue = PortCongestion::try_from(wire).map_err(|e| {
                    error::field(FieldError::new(format!("congestion.ports[{i}].{}", e.field), e.detail))
                })?;
                queues.push(queue);
            }
        }
        self.controller.chart_links(&node, taken, &losses, &rtts, &queues);
        if has_queues {
            self.controller.queues(&node, queues, taken);
        }
        let mut captured = Vec::new();
        for (i, wire) in sample.captured.into_iter().take(MAX_CAPTURED).enumerate() {
            let frame = CapturedFrame::try_from(wire)
                .map_err(|e| error::field(FieldError::new(format!("captured[{i}].{}", e.field), e.detail)))?;
            captured.push(frame);
        }
        if !captured.is_empty() {
            self.controller.captured(&node, captured);
        }
        let received = sample.events.len();
        for (i, wire) in sample.events.into_iter().take(MAX_EVENTS).enumerate() {
            let event = canopy_model::telemetry::Event::try_from(wire)
                .map_err(|e| error::field(FieldError::new(format!("events[{i}].{}", e.field), e.detail)))?;
            if event.group.is_some_and(|id| !self.may_report(&node, id, event.code)) {
                tracing::warn!(node, code = %event.code, group = ?event.group, "the node reports about a group that it has no part in: ignored");
                continue;
            }
            let (group, tenant) = self.controller.read(|d| {
                let group = event.group.and_then(|id| d.group_name(id));
                let tenant = group.and_then(|group| d.tenant_of(group));
                (group.map(str::to_owned), tenant.map(str::to_owned))
            });
            tracing::info!(node, code = %event.code, group, detail = event.detail, "node event");
            self.controller.events().push(Event {
                time: event.time,
                node: Some(node.clone()),
                group,
                tenant,
                branch: event.branch,
                ..Event::new(EventKind::Node(event.code), event.detail.clone())
            });
            self.controller.node_event(&node, &event);
        }
        // Of another epoch it may be another receiver with the same address.
        let present = |group, epoch| self.controller.read(|d| d.epoch_at(&node, group)) == Some(epoch);
        for (group, branch, _) in fatal.into_iter().filter(|(group, _, epoch)| present(*group, *epoch)) {
            self.controller.fatal_branch(&node, group, branch);
        }
        for (group, branch, _, news) in late.into_iter().filter(|(group, _, epoch, _)| present(*group, *epoch)) {
            self.controller.late_receiver(&node, group, branch, news);
        }
        self.controller.retry_policies(&node);
        if received > MAX_EVENTS {
            self.controller.events().note(
                EventKind::EventsLeftOut,
                Some(&node),
                format!("{} events of one message beyond the first {MAX_EVENTS}", received - MAX_EVENTS),
            );
        }
        Ok(())
    }

    /// Whether an event of this group can come from a node: it has a program of the group, and sees a source's first data at the headend only.
    fn may_report(&self, node: &str, group: GroupId, code: EventCode) -> bool {
        self.controller.read(|d| match code {
            EventCode::FirstData => d.is_headend(node, group),
            _ => d.epoch_at(node, group).is_some(),
        })
    }
}

/// What a node is to have, and its programs that differ from those of `before`, once `specs` has it: a power cut cannot take it back then,
/// and the change waits for the node's confirmation.
///
/// # Errors
/// The node left the topology, or the controller stops.
async fn newest(
    controller: &Controller,
    node: &str,
    before: Option<&ProgramTimes>,
    specs: &mut watch::Receiver<Arc<DesiredNode>>,
    closing: &mut watch::Receiver<bool>,
) -> Result<(Arc<DesiredNode>, NodePrograms), Status> {
    let version = |of: &Arc<DesiredNode>| (of.term, of.generation);
    loop {
        let newest = controller.desired(node, before);
        let read = newest.as_ref().map(|(desired, _)| version(desired));
        tokio::select! {
            published = publication(specs, version, read) => published.map_err(|_| error::unknown_node(node))?,
            () = closed(closing) => return Err(error::stopping()),
        }
        if let Some(newest) = newest {
            return Ok(newest);
        }
    }
}

/// Waits until the version `read` is published; until anything is if it is `None`: the node left the topology, which is not durable yet.
/// What is published beyond `read` counts as not seen.
///
/// # Errors
/// It is published that the node left.
async fn publication<T, V: Ord>(
    specs: &mut watch::Receiver<T>,
    version: impl Fn(&T) -> V,
    read: Option<V>,
) -> Result<(), RecvError> {
    let Some(read) = read else { return specs.changed().await };
    let is_newer = version(&*specs.wait_for(|published| version(published) >= read).await?) > read;
    if is_newer {
        specs.mark_changed();
    }
    Ok(())
}

/// Receivers whose queue pair is in error, with the group's epoch at the node.
fn fatal_branches(group: &GroupTelemetry) -> impl Iterator<Item = (GroupId, Ipv6Addr, u32)> + '_ {
    let fatal = group.branches.iter().filter(|b| b.fatal.is_some());
    fatal.map(|b| (group.group_id, b.address, group.epoch))
}

/// Late receivers whose queue pair answered or was not reset, and those that started, with the group's epoch at the node.
fn late_receivers(group: &GroupTelemetry) -> impl Iterator<Item = (GroupId, Ipv6Addr, u32, LateNews)> + '_ {
    group.branches.iter().filter_map(|b| {
        let news = match (b.late, b.start) {
            (Some(LateState::NotFresh), _) => LateNews::NotFresh,
            (Some(LateState::Lost), _) => LateNews::Lost,
            (_, Some(start)) => LateNews::Started(start),
            (Some(LateState::Pending), _) => LateNews::Answered,
            _ => return None,
        };
        Some((group.group_id, b.address, group.epoch, news))
    })
}

fn lock(sent: &Mutex<HashMap<String, Sent>>) -> std::sync::MutexGuard<'_, HashMap<String, Sent>> {
    sent.lock().unwrap_or_else(PoisonError::into_inner)
}

fn cap_errors(errors: &mut Vec<ItemError>) {
    let reported = errors.len();
    if reported > MAX_ERRORS {
        errors.truncate(MAX_ERRORS);
        errors.push(ItemError {
            kind: ItemKind::Report,
            name: "errors".into(),
            group: None,
            detail: format!("{} more errors were reported and not kept", reported - MAX_ERRORS),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a change that is never sent: it was published while an earlier one was read, and counts as seen.
    #[tokio::test]
    async fn what_is_published_beyond_what_was_read_is_seen_later() {
        let generation = |of: &u64| *of;
        let (publish, mut specs) = watch::channel(1);
        publish.send_replace(3);
        publication(&mut specs, generation, Some(2)).await.unwrap();
        assert!(specs.has_changed().unwrap());
        publication(&mut specs, generation, Some(3)).await.unwrap();
        assert!(!specs.has_changed().unwrap());
        // The node left, and may be back with the same commit.
        publish.send_replace(4);
        publication(&mut specs, generation, None).await.unwrap();
        drop(publish);
        publication(&mut specs, generation, None).await.unwrap_err();
        publication(&mut specs, generation, Some(5)).await.unwrap_err();
    }
}
