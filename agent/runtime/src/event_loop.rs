// SPDX-License-Identifier: Apache-2.0
//! The one event loop.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use canopy_agent_core::echo::EchoCounts;
use canopy_agent_core::reach::{HostProber, HostTarget};
use canopy_agent_core::stamp::{LinkProber, StampLink, stamp_links};
use canopy_agent_core::{Datapath, DatapathError, DatapathEvent};
use canopy_agent_link::{Link, Refusal, TelemetrySample};
use canopy_control::HeldSpec;
use canopy_daemon::notify::Notifier;
use canopy_model::digest::SpecDigest;
use canopy_model::ids::Generation;
use canopy_model::reach::HostReach;
use canopy_model::retirement::CleanUpOrder;
use canopy_model::status::{BACK_WITHIN, BACK_WITHIN_MINOR_VERSION, ItemError, ItemKind, NodeStatus, Took};
use canopy_model::telemetry::{Event, EventCode, LinkLoss};
use canopy_units::UnixTime;
use tokio::time::{Instant, Interval, MissedTickBehavior};

use crate::host_watch::HostWatch;
use crate::ledger::Ledger;
use crate::metrics::{Exporter, Sampled};
use crate::schedule::Schedule;
use crate::stall_watch::StallWatch;

/// Most errors in one report; beyond them their number is what matters.
const MAX_ERRORS: usize = 256;

/// How long an agent that is stopped waits until the controller knows.
const ANNOUNCED_WITHIN: Duration = Duration::from_secs(1);

/// Wall clock.
pub type Clock = Box<dyn Fn() -> UnixTime + Send>;

/// What the loop is made of.
pub struct Parts<D> {
    /// Name of this node.
    pub node: String,
    /// Kernel release, for the status.
    pub kernel: String,
    /// Agent version, for the status.
    pub agent_version: String,
    /// What forwards.
    pub datapath: D,
    /// What measures the links.
    pub prober: Box<dyn LinkProber>,
    /// What probes the hosts of stalled receivers.
    pub host_prober: Box<dyn HostProber>,
    /// The line to the controller.
    pub link: Link,
    /// What survives a restart.
    pub ledger: Arc<Ledger>,
    /// The spec that the ledger held at start.
    pub known: Option<Arc<HeldSpec>>,
    /// Stamps samples and events.
    pub clock: Clock,
    /// The service manager.
    pub notifier: Notifier,
    /// Time between samples.
    pub telemetry_interval: Duration,
    /// Where samples go for scrapes, and the address at which Prometheus finds them; `None` without `metrics.listen`.
    pub metrics: Option<(Exporter, String)>,
}

/// The link's worker ended although it never should; what the kernel holds keeps forwarding.
#[derive(Debug, thiserror::Error)]
#[error("the link to the controller ended unexpectedly")]
pub struct LinkGone;

/// Why the loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The service manager, or a person, stopped the agent.
    Stopped,
    /// The node leaves for good: everything is to be removed. The controller knows nothing of that end: a report follows.
    Leaves(CleanUpOrder),
}

/// Runs until `shutdown` completes, or the node leaves; what the kernel holds stays there.
///
/// # Errors
/// The other half of the link is gone.
pub async fn run<D: Datapath>(parts: Parts<D>, shutdown: impl Future<Output = ()>) -> Result<Ended, LinkGone> {
    let mut telemetry = ticker(parts.telemetry_interval);
    let mut watchdog = parts.notifier.alive_interval().map(ticker);
    let mut agent = Agent {
        stored: parts.known.clone(),
        parts,
        schedule: Schedule::default(),
        observed: Observed::default(),
        item_errors: vec![],
        took: None,
        ledger_error: None,
        refusal: None,
        ready: false,
        session: 0,
        sampling_failed: false,
        stalls: StallWatch::new(Instant::now()),
        hosts: HostWatch::new(Instant::now()),
        capture_ends: None,
        is_armed: false,
    };
    // Static forwarding: the ledger's spec needs no controller.
    if agent.stored.is_some() {
        agent.schedule.spec_changed(Instant::now());
        agent.watch();
    } else {
        // There is nothing to forward. A service manager that waited for the controller would hold up the machine's start.
        agent.is_ready();
    }
    tokio::pin!(shutdown);
    loop {
        let capture_ends = agent.capture_ends;
        let (due, sample_due, host_due) = (agent.schedule.due(), agent.stalls.due(), agent.hosts.due());
        // In this order, so that a flood of kernel events starves nothing.
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            () = tick(watchdog.as_mut()) => agent.parts.notifier.alive(),
            () = tokio::time::sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => agent.reconcile().await,
            changed = agent.parts.link.clean_up.changed() => {
                changed.map_err(|_| LinkGone)?;
                let order = *agent.parts.link.clean_up.borrow_and_update();
                if let Some(order) = order {
                    return Ok(Ended::Leaves(order));
                }
            }
            changed = agent.parts.link.specs.changed() => {
                changed.map_err(|_| LinkGone)?;
                agent.schedule.spec_changed(Instant::now());
            }
            changed = agent.parts.link.refusal.changed() => {
                changed.map_err(|_| LinkGone)?;
                agent.refused();
            }
            changed = agent.parts.link.captures.changed() => {
                changed.map_err(|_| LinkGone)?;
                agent.arm();
            }
            () = tokio::time::sleep_until(capture_ends.unwrap_or_else(Instant::now)), if capture_ends.is_some() => agent.disarm(),
            changed = agent.parts.link.session.changed() => {
                changed.map_err(|_| LinkGone)?;
                let session = *agent.parts.link.session.borrow_and_update();
                // The agreed minor version of a session changes it too: only a new session has received nothing yet.
                if session.up && std::mem::replace(&mut agent.session, session.opened) != session.opened {
                    agent.stalls.report_again();
                }
            }
            _ = telemetry.tick() => agent.sample().await,
            () = tokio::time::sleep_until(sample_due.unwrap_or_else(Instant::now)), if sample_due.is_some() => agent.detect_stalls().await,
            () = agent.parts.prober.changed() => agent.report(),
            () = tokio::time::sleep_until(host_due.unwrap_or_else(Instant::now)), if host_due.is_some() => agent.probe_host(),
            (target, reach) = agent.parts.host_prober.found() => agent.host_found(&target, reach),
            event = agent.parts.datapath.next_event() => match event {
                DatapathEvent::KernelChanged => agent.schedule.kernel_changed(Instant::now()),
                DatapathEvent::Event(event) => agent.emit(event),
                DatapathEvent::Captured(frame) => agent.parts.link.telemetry.push_captured(frame),
            },
        }
    }
    agent.parts.notifier.stopping();
    agent.announce().await;
    Ok(Ended::Stopped)
}

struct Agent<D> {
    parts: Parts<D>,
    schedule: Schedule,
    /// What the ledger holds: the only thing that is ever reconciled.
    stored: Option<Arc<HeldSpec>>,
    /// The last reconciled spec, and what was not as it desires.
    observed: Observed,
    item_errors: Vec<ItemError>,
    /// How long the first reconciliation of it took.
    took: Option<Took>,
    ledger_error: Option<ItemError>,
    refusal: Option<Refusal>,
    ready: bool,
    /// The last session that was up.
    session: u64,
    sampling_failed: bool,
    stalls: StallWatch,
    hosts: HostWatch,
    /// When the packet that is waited for is given up.
    capture_ends: Option<Instant>,
    /// The programs wait for it.
    is_armed: bool,
}

impl<D: Datapath> Agent<D> {
    /// Ledger, kernel, status; in this order.
    async fn reconcile(&mut self) {
        let begun = Instant::now();
        self.store_newest().await;
        let Some(spec) = self.stored.clone() else {
            self.schedule.finished(Instant::now(), self.ledger_error.is_none());
            self.report();
            return;
        };
        let observed = Observed::of(&spec);
        let scope = self.schedule.begins(Instant::now());
        let errors = self.parts.datapath.follow(spec.spec(), scope).await;
        if self.observed != observed {
            let read_back = self.parts.datapath.read_back();
            self.took = Some(Took { apply: begun.elapsed().saturating_sub(read_back), read_back });
        }
        self.schedule.finished(Instant::now(), errors.is_empty() && self.ledger_error.is_none());
        if errors != self.item_errors || self.observed != observed {
            let Observed { term, generation, digest } = observed;
            tracing::info!(term, generation, %digest, errors = errors.len(), "reconciled");
            for error in errors.iter().take(MAX_ERRORS) {
                tracing::warn!(kind = %error.kind, name = error.name, group = ?error.group, "{}", error.detail);
            }
        }
        self.item_errors = errors;
        self.observed = observed;
        // An order may arrive together with the group's program.
        if !self.is_armed && self.capture_ends.is_some() {
            self.arm_now();
        }
        self.report();
        self.is_ready();
    }

    /// A spec that is not in the ledger is not applied: after a restart the node would fall back to an older
    /// one, and to an older term.
    async fn store_newest(&mut self) {
        let Some(newest) = self.parts.link.specs.borrow_and_update().clone() else { return };
        if self.stored.as_ref().is_some_and(|stored| Arc::ptr_eq(stored, &newest)) {
            self.ledger_error = None;
            return;
        }
        let (ledger, spec) = (Arc::clone(&self.parts.ledger), Arc::clone(&newest));
        let written = tokio::task::spawn_blocking(move || ledger.store(&spec)).await;
        let failed = match written {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(with_causes(&error)),
            Err(error) => Some(error.to_string()),
        };
        match failed {
            None => {
                self.stored = Some(newest);
                self.ledger_error = None;
                self.watch();
            }
            Some(reason) => {
                let generation = newest.spec().generation;
                tracing::error!(generation, %reason, "cannot store the spec in the ledger; it is not applied");
                let detail = format!("generation {generation} is not applied because the ledger {reason}");
                self.ledger_error = Some(own_error("ledger", detail));
            }
        }
    }

    fn refused(&mut self) {
        self.refusal = self.parts.link.refusal.borrow_and_update().clone();
        if let Some(refusal) = &self.refusal {
            let detail = refusal.detail.clone();
            let time = (self.parts.clock)();
            self.emit(Event {
                time,
                code: EventCode::SpecRefused,
                group: None,
                branch: None,
                epoch: None,
                detail,
                reach: None,
            });
        }
        self.report();
    }

    /// Waits for the packet that the controller named.
    fn arm(&mut self) {
        let order = *self.parts.link.captures.borrow_and_update();
        self.capture_ends = order.map(|order| Instant::now() + order.within);
        self.arm_now();
    }

    fn arm_now(&mut self) {
        let Some(order) = *self.parts.link.captures.borrow() else { return };
        let (id, group, psn) = (order.id, order.group, order.psn);
        let armed = self.parts.datapath.capture(Some(&order));
        self.is_armed = armed.is_ok();
        match armed {
            Ok(()) => tracing::info!(id, %group, %psn, "capturing a packet"),
            Err(error) => tracing::warn!(id, %group, %psn, error = with_causes(&error), "cannot capture a packet"),
        }
    }

    fn disarm(&mut self) {
        self.capture_ends = None;
        if let Err(error) = self.parts.datapath.capture(None) {
            tracing::warn!(error = with_causes(&error), "cannot end the capture of a packet");
        }
    }

    async fn sample(&mut self) {
        let started = Instant::now();
        let sample = match self.parts.datapath.sample().await {
            Ok(sample) => sample,
            Err(error) => return self.sample_failed(&error),
        };
        let took = started.elapsed();
        let link_losses = self.link_losses();
        match &link_losses {
            Ok(_) => self.sampling_failed = false,
            // Links are not judged without what their queues dropped; everything else is reported.
            Err(error) => self.sample_failed(error),
        }
        let time = (self.parts.clock)();
        let (link_rtts, link_losses) = (self.parts.prober.take(), link_losses.unwrap_or_default());
        if let (Some((exporter, _)), Some(spec)) = (&self.parts.metrics, &self.stored) {
            let sampled = Sampled { spec, sample: &sample, rtts: &link_rtts, losses: &link_losses, took };
            exporter.sampled(&sampled, Instant::now());
        }
        self.parts.link.telemetry.push_sample(TelemetrySample {
            time,
            groups: sample.groups,
            at_rest: sample.at_rest,
            node_drops: sample.node_drops,
            link_rtts,
            link_losses,
            congestion: Some(sample.congestion),
        });
    }

    fn link_losses(&mut self) -> Result<Vec<LinkLoss>, DatapathError> {
        let queue_drops = self.parts.datapath.queue_drops()?;
        let of_link = |(link, EchoCounts { sent, lost }): (StampLink, EchoCounts)| LinkLoss {
            port: link.port,
            requests: sent,
            lost,
            queue_drops: queue_drops.get(&link.interface).copied().unwrap_or(0),
        };
        Ok(self.parts.prober.losses().into_iter().map(of_link).collect())
    }

    fn sample_failed(&mut self, error: &DatapathError) {
        if let Some((exporter, _)) = &self.parts.metrics {
            exporter.failed();
        }
        if !std::mem::replace(&mut self.sampling_failed, true) {
            let (time, detail) = ((self.parts.clock)(), with_causes(error));
            self.emit(Event {
                time,
                code: EventCode::SampleFailed,
                group: None,
                branch: None,
                epoch: None,
                detail,
                reach: None,
            });
        }
    }

    fn watch(&mut self) {
        if let Some(held) = &self.stored {
            self.parts.prober.watch(stamp_links(held.spec()));
            self.stalls.watch(held.spec(), Instant::now());
            self.hosts.watch(held.spec());
        }
    }

    async fn detect_stalls(&mut self) {
        let started = Instant::now();
        match self.parts.datapath.sample().await {
            Ok(sample) => {
                let events = self.stalls.observe(&sample.groups, started, (self.parts.clock)());
                for event in events {
                    let known = self.stored.as_ref().and_then(|held| self.hosts.handle(held.spec(), &event));
                    self.emit(event);
                    known.into_iter().for_each(|known| self.emit(known));
                }
            }
            Err(error) => self.sample_failed(&error),
        }
        self.stalls.sampled(started, Instant::now());
    }

    fn probe_host(&mut self) {
        if let Some(target) = self.hosts.next_host(Instant::now()) {
            self.parts.host_prober.probe(target);
        }
    }

    fn host_found(&mut self, target: &HostTarget, reach: Option<HostReach>) {
        let Some(held) = &self.stored else { return };
        let events = self.hosts.found(held.spec(), target, reach, (self.parts.clock)());
        events.into_iter().for_each(|event| self.emit(event));
    }

    fn emit(&self, event: Event) {
        tracing::warn!(code = %event.code, group = ?event.group, branch = ?event.branch, "{}", event.detail);
        self.parts.link.telemetry.push_event(event);
    }

    /// The link sends it only if it differs from the last one, or after a reconnect.
    fn report(&self) {
        self.parts.link.report(self.status());
    }

    /// The controller is to know that this agent is back soon. If it cannot be reached, it finds out that the agent is gone.
    async fn announce(&mut self) {
        let session = *self.parts.link.session.borrow();
        if !session.up || session.minor_version < BACK_WITHIN_MINOR_VERSION {
            return;
        }
        self.parts.link.report(NodeStatus { back_within: Some(BACK_WITHIN), ..self.status() });
        let announced = self.parts.link.announced.wait_for(|announced| *announced);
        match tokio::time::timeout(ANNOUNCED_WITHIN, announced).await {
            Ok(Ok(_)) => tracing::info!("the controller expects this agent back within {BACK_WITHIN:?}"),
            Ok(Err(_)) | Err(_) => {
                tracing::warn!("the controller does not know that this agent was stopped, and takes it for killed")
            }
        }
    }

    fn status(&self) -> NodeStatus {
        let refusal = self.refusal.as_ref().map(|refusal| own_error("spec", refusal.detail.clone()));
        let mut errors: Vec<ItemError> = refusal.into_iter().chain(self.ledger_error.clone()).collect();
        errors.extend(self.silent_links());
        errors.extend(self.item_errors.iter().take(MAX_ERRORS).cloned());
        if let Some(more) = self.item_errors.len().checked_sub(MAX_ERRORS).filter(|more| *more > 0) {
            errors.push(own_error("errors", format!("{more} more items are not as desired; see the agent's log")));
        }
        NodeStatus {
            node: self.parts.node.clone(),
            observed_term: self.observed.term,
            observed_generation: self.observed.generation,
            observed_digest: self.observed.digest,
            minor_version: self.parts.link.session.borrow().minor_version,
            errors,
            agent_version: self.parts.agent_version.clone(),
            kernel: self.parts.kernel.clone(),
            metrics_address: self.parts.metrics.as_ref().map(|(_, address)| address.clone()).unwrap_or_default(),
            took: self.took,
            back_within: None,
            cleaned_up: None,
        }
    }

    /// An error for each link that carries nothing although its carrier is up: the controller leads trees and routes around it.
    fn silent_links(&self) -> Vec<ItemError> {
        let is_known = |name: &str| self.item_errors.iter().any(|e| e.kind.is_dead_link() && e.name == name);
        let silent = self.parts.prober.silent().into_iter().filter(|link| !is_known(&link.interface));
        let error = |link: StampLink| ItemError {
            kind: ItemKind::Silence,
            detail: format!(
                "{} does not answer over interface {} any more, although the carrier is up: the link loses every packet; check what is between its ends, or the node there",
                link.neighbour, link.interface
            ),
            name: link.interface,
            group: None,
        };
        silent.map(error).collect()
    }

    fn is_ready(&mut self) {
        if !std::mem::replace(&mut self.ready, true) {
            self.parts.notifier.ready();
        }
    }
}

/// What names a spec.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Observed {
    term: u64,
    generation: Generation,
    digest: SpecDigest,
}

impl Observed {
    fn of(held: &HeldSpec) -> Self {
        Self { term: held.spec().term, generation: held.spec().generation, digest: held.digest() }
    }
}

/// An error of the agent itself rather than of something in the kernel: it concerns every group.
fn own_error(name: &str, detail: String) -> ItemError {
    ItemError { kind: ItemKind::Program, name: name.to_owned(), group: None, detail }
}

fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    std::iter::successors(error.source(), |cause| cause.source())
        .fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// After a long reconcile one tick is enough.
fn ticker(every: Duration) -> Interval {
    let mut interval = tokio::time::interval(every);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

async fn tick(interval: Option<&mut Interval>) {
    match interval {
        Some(interval) => {
            interval.tick().await;
        }
        None => std::future::pending().await,
    }
}
