// SPDX-License-Identifier: Apache-2.0
//! The task that owns the engine and the kernel state. It wakes for notifications, requests, timeouts and ticks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use canopy_control::pb::{self, PacingCause as Cause};
use canopy_daemon::notify::Notifier;
use canopy_model::ids::Qpn;
use canopy_model::member::SourceFlow;
use canopy_units::{Monotonic, Rate, UnixTime};
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use crate::agent::Given;
use crate::bpf::{COUNTERS, Notice, Notices, Sightings};
use crate::clock::monotonic;
use crate::engine::{Change, Closed, Engine, Flow, Open, OpenError, Origin};
use crate::hook::{self, Hook};
use crate::kernel::Kernel;
use crate::learn::{Rules, learn};
use crate::nodes::Nodes;
use crate::notice;
use crate::shown::{show, show_change};

/// Interval at which the daemon renews its lease, and checks files and counters.
const TICK: Duration = Duration::from_millis(250);
/// Notifications processed before other events get their turn.
const BATCH: usize = 256;
/// Changes queued for a slow watcher.
pub(crate) const WATCH_DEPTH: usize = 4096;

/// A request to the daemon.
pub(crate) enum Request {
    List(oneshot::Sender<pb::ListQpsResponse>),
    Open(Open, oneshot::Sender<Result<pb::PacedQp, OpenError>>),
    Close(Qpn, oneshot::Sender<Closed>),
    Watch(oneshot::Sender<(Vec<pb::WatchActionsResponse>, broadcast::Receiver<Arc<pb::WatchActionsResponse>>)>),
}

/// The daemon with its inputs.
pub(crate) struct Daemon {
    pub(crate) engine: Engine,
    pub(crate) kernel: Kernel,
    pub(crate) notices: Notices,
    pub(crate) sightings: Sightings,
    pub(crate) requests: mpsc::Receiver<Request>,
    /// From the agent of the host, if there is one.
    pub(crate) given: mpsc::Receiver<Given>,
    pub(crate) nodes: Nodes,
    pub(crate) hook: Option<Hook>,
    pub(crate) rules: Rules,
    pub(crate) interface: String,
    pub(crate) line: Rate,
    pub(crate) notifier: Notifier,
}

impl Daemon {
    /// Runs until `end`, then restores the interface.
    pub(crate) async fn run(mut self, end: impl Future<Output = ()>) -> anyhow::Result<()> {
        let (watchers, _) = broadcast::channel(WATCH_DEPTH);
        let done = self.serve(end, &watchers).await;
        self.kernel.close().await;
        done
    }

    async fn serve(
        &mut self,
        end: impl Future<Output = ()>,
        watchers: &broadcast::Sender<Arc<pb::WatchActionsResponse>>,
    ) -> anyhow::Result<()> {
        tokio::pin!(end);
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut watchdog = self.notifier.alive_interval().map(interval);
        let mut batch = Vec::with_capacity(BATCH);
        let given = self.nodes.all();
        self.trust(given);
        loop {
            let due = self.engine.poll_timeout();
            tokio::select! {
                () = &mut end => return Ok(()),
                count = self.notices.next_batch(&mut batch, BATCH) => {
                    if count == 0 {
                        bail!("the reader of the ring buffer ended");
                    }
                    for notice in batch.drain(..) {
                        self.receive(&notice);
                    }
                }
                request = self.requests.recv() => {
                    let request = request.context("the channel of requests was closed")?;
                    self.answer(request, watchers).await;
                }
                Some(given) = self.given.recv() => self.take(given),
                () = wait(due) => self.engine.timeout(monotonic()),
                seen = self.sightings.recv() => {
                    let seen = seen.context("the reader of the flows ended")??;
                    learn(&mut self.engine, &seen, self.rules, monotonic());
                }
                _ = tick.tick() => self.tick().await?,
                () = fed(watchdog.as_mut()) => self.notifier.alive(),
            }
            self.carry_out(watchers).await;
        }
    }

    fn receive(&mut self, notice: &Notice) {
        let notification = notice::read(&notice.data, notice.length);
        tracing::debug!(?notification, "received");
        self.engine.receive(notification, notice.time, monotonic());
    }

    async fn tick(&mut self) -> anyhow::Result<()> {
        self.kernel.beat()?;
        self.kernel.tidy().await;
        match self.nodes.changed() {
            Some(Ok(nodes)) => self.trust(nodes),
            Some(Err(error)) => {
                self.engine.tally.count("nodes_file_errors");
                tracing::error!(error, "nodes file: the last good list stays in force");
            }
            None => {}
        }
        let lost = self.notices.lost();
        let counters = self.kernel.bpf().counters()?;
        let tally = &mut self.engine.tally;
        COUNTERS.into_iter().zip(counters).for_each(|(name, value)| tally.set(name, value));
        tally.set("daemon_busy", lost);
        if let Some(hook) = &self.hook {
            hook.counters().into_iter().for_each(|(name, value)| tally.set(name, value));
        }
        Ok(())
    }

    /// Takes a report of the host's agent.
    fn take(&mut self, Given { flows, nodes }: Given) {
        match self.nodes.set_of_agent(nodes) {
            Some(Ok(nodes)) => self.trust(nodes),
            Some(Err(error)) => tracing::error!(error, "agent: the last good list of nodes stays in force"),
            None => {}
        }
        let flow = |flow: &SourceFlow| (flow.qpn, Flow { peer: flow.peer, qpn: flow.dest_qpn.get() });
        let flows: BTreeMap<Qpn, Flow> = flows.iter().map(flow).collect();
        for (qpn, why) in self.engine.open_of_agent(&flows, monotonic()) {
            tracing::warn!(%qpn, ?why, "agent: a source's queue pair cannot be paced");
        }
    }

    fn trust(&mut self, nodes: std::collections::BTreeSet<std::net::Ipv6Addr>) {
        if let Err(error) = self.kernel.set_nodes(&nodes) {
            tracing::warn!(error = format!("{error:#}"), "nodes share the limit of unknown senders");
        }
        tracing::info!(nodes = nodes.len(), "nodes whose Long-haul CNPs are accepted");
        if let Err(why) = self.engine.set_nodes(nodes, monotonic()) {
            tracing::error!(?why, "nodes: the last good list stays in force");
        }
    }

    async fn answer(&mut self, request: Request, watchers: &broadcast::Sender<Arc<pb::WatchActionsResponse>>) {
        let now = monotonic();
        // A caller that has gone does not need an answer.
        match request {
            Request::List(to) => _ = to.send(self.list(now)),
            Request::Open(open, to) => {
                let opened = self.engine.open(open, Origin::Registered, now);
                // The pacing is in force before the answer is sent.
                self.carry_out(watchers).await;
                let answer = opened.and_then(|()| {
                    let gone = OpenError::Refused(canopy_host_core::pacing::Refusal::UnknownQp);
                    self.engine.live().get(&open.qpn).map(|live| show(open.qpn, live, now)).ok_or(gone)
                });
                _ = to.send(answer);
            }
            Request::Close(qpn, to) => {
                let closed = self.engine.close_registered(qpn, now);
                self.carry_out(watchers).await;
                _ = to.send(closed);
            }
            Request::Watch(to) => {
                // Pending changes are sent to existing watchers first, so that the state and the changes after it are
                // consistent.
                self.carry_out(watchers).await;
                let (applied, unix) = (monotonic(), UnixTime::now());
                let state = self.engine.live().iter().map(|(qpn, live)| {
                    let change = Change { cause: Cause::State, qpn: *qpn, live: *live, received_at: None };
                    show_change(&change, applied, unix)
                });
                _ = to.send((state.collect(), watchers.subscribe()));
            }
        }
    }

    fn list(&self, now: Monotonic) -> pb::ListQpsResponse {
        let [received, outcomes, actions] = self.engine.tally.wire();
        pb::ListQpsResponse {
            qps: self.engine.live().iter().map(|(qpn, live)| show(*qpn, live, now)).collect(),
            pacing: self.kernel.means().into(),
            interface: self.interface.clone(),
            line_rate_bps: self.line.bps(),
            nodes: self.engine.nodes().len() as u32,
            received,
            outcomes,
            actions,
            monotonic_ns: now.nanos(),
        }
    }

    async fn carry_out(&mut self, watchers: &broadcast::Sender<Arc<pb::WatchActionsResponse>>) {
        while let Some(change) = self.engine.next_change() {
            if let Err(error) = self.kernel.apply(&change).await {
                self.engine.tally.count("kernel_errors");
                tracing::error!(qpn = %change.qpn, error = format!("{error:#}"), "applying a pacing change failed");
            }
            let shown = show_change(&change, monotonic(), UnixTime::now());
            self.engine.tally.action(hook::name(change.cause));
            log(&change);
            if let Some(hook) = &self.hook {
                hook.run(&change);
            }
            // Sending fails if there are no watchers.
            _ = watchers.send(Arc::new(shown));
        }
    }
}

fn log(change: &Change) {
    let Change { cause, qpn, live, .. } = change;
    let (peer, dest_qpn, command) = (live.flow.peer, live.flow.qpn, live.command);
    let cause = cause.as_str_name();
    if matches!(change.cause, Cause::Open | Cause::Close) {
        tracing::info!(cause, %qpn, %peer, dest_qpn, origin = ?live.origin, "queue pair");
    } else {
        tracing::debug!(cause, %qpn, %peer, dest_qpn, rate_bps = command.rate.bps(), limited_by = ?command.limited_by, "queue pair");
    }
}

/// When the service manager's watchdog is due; never without one.
async fn fed(watchdog: Option<&mut tokio::time::Interval>) {
    match watchdog {
        Some(watchdog) => _ = watchdog.tick().await,
        None => std::future::pending().await,
    }
}

async fn wait(due: Option<Monotonic>) {
    match due {
        Some(at) => sleep_until(Instant::now() + at.since(monotonic())).await,
        None => std::future::pending().await,
    }
}
