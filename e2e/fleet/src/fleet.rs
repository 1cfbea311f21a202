// SPDX-License-Identifier: Apache-2.0
//! Agents without kernels: the real link of each, and a status as soon as a spec has arrived.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use canopy_agent_link::{Channels, Link, Session, TelemetrySample, channels};
use canopy_control::HeldSpec;
use canopy_model::status::NodeStatus;
use canopy_units::UnixTime;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::counted::channel;

/// Time between two samples of an agent.
const EVERY: Duration = Duration::from_secs(1);

/// An agent, and what it holds when it ends.
#[derive(Debug)]
struct Agent {
    name: String,
    task: JoinHandle<Option<Arc<HeldSpec>>>,
    stop: tokio::sync::oneshot::Sender<()>,
    session: watch::Receiver<Session>,
}

/// Agents that are connected, or trying to be.
#[derive(Debug)]
pub(crate) struct Fleet {
    socket: PathBuf,
    agents: Vec<Agent>,
    arrivals: mpsc::UnboundedReceiver<Instant>,
    arrived: Arc<AtomicU64>,
}

/// What an agent knew when it ended.
pub(crate) type Known = (String, Option<Arc<HeldSpec>>);

impl Fleet {
    /// Starts an agent for each node.
    pub(crate) fn start(socket: &Path, nodes: impl IntoIterator<Item = Known>) -> Self {
        let (sender, arrivals) = mpsc::unbounded_channel();
        let arrived = Arc::new(AtomicU64::new(0));
        let nodes: Vec<Known> = nodes.into_iter().collect();
        let all = nodes.len() as f64;
        let start = |((name, known), number): (Known, u32)| {
            let (stop, stopped) = tokio::sync::oneshot::channel();
            let connect = || channel(socket.to_owned(), Arc::clone(&arrived));
            let both = Channels { control: connect(), telemetry: connect() };
            let (link, worker) = channels(&name, known);
            let (session, jitter) = (link.session.clone(), f64::from(number) / all);
            tokio::spawn(worker.run(both, env!("CARGO_PKG_VERSION"), Arc::new(move || jitter)));
            let task = tokio::spawn(run(name.clone(), link, jitter, sender.clone(), stopped));
            Agent { name, task, stop, session }
        };
        let agents = nodes.into_iter().zip(0..).map(start).collect();
        Self { socket: socket.to_owned(), agents, arrivals, arrived }
    }

    /// Octets that have arrived at all agents.
    pub(crate) fn octets(&self) -> u64 {
        self.arrived.load(Ordering::Relaxed)
    }

    /// How many times each agent has connected at least; 0: one of them is not.
    pub(crate) fn connected(&self) -> u64 {
        let of = |agent: &Agent| {
            Some(*agent.session.borrow()).filter(|session| session.up).map_or(0, |session| session.opened)
        };
        self.agents.iter().map(of).min().unwrap_or(0)
    }

    /// When specs were taken in since the last call.
    pub(crate) fn arrivals(&mut self) -> Vec<Instant> {
        std::iter::from_fn(|| self.arrivals.try_recv().ok()).collect()
    }

    /// Ends all agents, and starts them again with what they held.
    pub(crate) async fn restart(self) -> Self {
        let mut known = Vec::with_capacity(self.agents.len());
        for Agent { name, task, stop, .. } in self.agents {
            _ = stop.send(());
            known.push((name, task.await.ok().flatten()));
        }
        Self::start(&self.socket, known)
    }
}

fn at_rest() -> TelemetrySample {
    TelemetrySample {
        time: UnixTime::now(),
        groups: Vec::new(),
        at_rest: BTreeSet::new(),
        node_drops: Vec::new(),
        link_rtts: Vec::new(),
        link_losses: Vec::new(),
        congestion: None,
    }
}

/// One agent, until it is stopped; what it holds then.
async fn run(
    node: String,
    mut link: Link,
    jitter: f64,
    arrivals: mpsc::UnboundedSender<Instant>,
    mut stopped: tokio::sync::oneshot::Receiver<()>,
) -> Option<Arc<HeldSpec>> {
    let mut last = None;
    // As an agent samples, of groups of which nothing moves.
    let first = tokio::time::Instant::now() + EVERY.mul_f64(jitter);
    let mut samples = tokio::time::interval_at(first, EVERY);
    loop {
        let held = link.specs.borrow_and_update().clone();
        if let Some(held) = &held {
            let (term, generation) = (held.spec().term, held.spec().generation);
            link.report(NodeStatus {
                node: node.clone(),
                observed_term: term,
                observed_generation: generation,
                observed_digest: held.digest(),
                errors: Vec::new(),
                agent_version: env!("CARGO_PKG_VERSION").to_owned(),
                kernel: String::new(),
                minor_version: link.session.borrow().minor_version,
                metrics_address: String::new(),
                took: None,
                back_within: None,
                cleaned_up: None,
            });
            if last.replace((term, generation)) != Some((term, generation)) {
                _ = arrivals.send(Instant::now());
            }
        }
        tokio::select! {
            changed = link.specs.changed() => if changed.is_err() { return held },
            changed = link.session.changed() => if changed.is_err() { return held },
            _ = samples.tick() => link.telemetry.push_sample(at_rest()),
            _ = &mut stopped => return held,
        }
    }
}
