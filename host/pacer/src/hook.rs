// SPDX-License-Identifier: Apache-2.0
//! A program of the operator, run for every change: for NICs that do their own pacing.
//!
//! Few run at the same time, and never two for one queue pair. Meanwhile only the newest change of each queue pair is
//! queued.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use canopy_control::pb::PacingCause as Cause;
use canopy_host_core::pacing::Issuer;
use canopy_model::ids::Qpn;
use canopy_units::{Monotonic, nanos};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::Command;

use crate::clock::monotonic;
use crate::engine::Change;

/// The program, and its limits.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// The program and its arguments.
    pub(crate) argv: Vec<String>,
    /// Time limit, after which it is killed.
    pub(crate) timeout: Duration,
    /// Maximum number that run at the same time.
    pub(crate) at_once: usize,
    pub(crate) interface: String,
}

#[derive(Debug, Default)]
struct State {
    waiting: BTreeMap<Qpn, Change>,
    /// Queue pairs in the order in which they started to wait.
    queue: VecDeque<Qpn>,
    running: BTreeSet<Qpn>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    runs: AtomicU64,
    failures: AtomicU64,
    coalesced: AtomicU64,
}

/// Runs the program; running ones are not stopped when it is dropped.
#[derive(Debug)]
pub(crate) struct Hook {
    program: Arc<Program>,
    shared: Arc<Shared>,
}

impl Hook {
    pub(crate) fn new(program: Program) -> Self {
        Self { program: Arc::new(program), shared: Arc::default() }
    }

    /// Runs it for a change, now or as soon as there is room.
    pub(crate) fn run(&self, change: &Change) {
        {
            let mut state = self.shared.state();
            if state.waiting.insert(change.qpn, *change).is_none() {
                state.queue.push_back(change.qpn);
            } else {
                self.shared.coalesced.fetch_add(1, Ordering::Relaxed);
            }
        }
        start(&self.program, &self.shared);
    }

    pub(crate) fn counters(&self) -> [(&'static str, u64); 3] {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Shared { runs, failures, coalesced, .. } = &*self.shared;
        [("hook_runs", read(runs)), ("hook_failures", read(failures)), ("hook_coalesced", read(coalesced))]
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A change of a queue pair that is queued and has no program running, if there is room.
    fn next(&self, at_once: usize) -> Option<Change> {
        let mut state = self.state();
        if state.running.len() >= at_once {
            return None;
        }
        let place = state.queue.iter().position(|qpn| !state.running.contains(qpn))?;
        let qpn = state.queue.remove(place)?;
        state.running.insert(qpn);
        state.waiting.remove(&qpn)
    }
}

fn start(program: &Arc<Program>, shared: &Arc<Shared>) {
    while let Some(change) = shared.next(program.at_once) {
        let (program, shared) = (Arc::clone(program), Arc::clone(shared));
        tokio::spawn(async move {
            let mut change = change;
            loop {
                shared.runs.fetch_add(1, Ordering::Relaxed);
                if let Err(reason) = once(&program, &change).await {
                    shared.failures.fetch_add(1, Ordering::Relaxed);
                    tracing::warn!(program = program.argv[0], qpn = %change.qpn, reason, "the program of --on-action failed");
                }
                shared.state().running.remove(&change.qpn);
                match shared.next(program.at_once) {
                    Some(next) => change = next,
                    None => return,
                }
            }
        });
    }
}

async fn once(program: &Program, change: &Change) -> Result<(), String> {
    let mut command = Command::new(&program.argv[0]);
    command.args(&program.argv[1..]).envs(variables(change, monotonic()));
    command.env("CANOPY_INTERFACE", &program.interface);
    command.stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true).process_group(0);
    let mut child = command.spawn().map_err(|error| format!("it cannot be started: {error}"))?;
    match tokio::time::timeout(program.timeout, child.wait()).await {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(status.to_string()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => {
            // With all processes that it started. It may have ended just now.
            let group = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
            _ = group.map(|group| killpg(group, Signal::SIGKILL));
            _ = child.kill().await;
            Err(format!("it took longer than {:?} and was killed", program.timeout))
        }
    }
}

/// The environment variables of the program.
fn variables(change: &Change, now: Monotonic) -> [(&'static str, String); 9] {
    let Change { qpn, live, .. } = change;
    let pause = live.command.paused_until.map_or(Duration::ZERO, |until| until.since(now));
    let limited_by = match live.command.limited_by {
        Some(Issuer::Node(node)) => node.to_string(),
        Some(Issuer::Peer) => "peer".to_owned(),
        None => String::new(),
    };
    [
        ("CANOPY_QPN", qpn.to_string()),
        ("CANOPY_PEER", live.flow.peer.to_string()),
        ("CANOPY_DEST_QPN", live.flow.qpn.to_string()),
        ("CANOPY_ACTION", name(change.cause).to_owned()),
        ("CANOPY_RATE_BPS", live.command.rate.bps().to_string()),
        ("CANOPY_LINE_RATE_BPS", live.spec.line.bps().to_string()),
        ("CANOPY_PAUSE_US", nanos(pause).div_ceil(1_000).to_string()),
        ("CANOPY_LIMITED_BY", limited_by),
        ("CANOPY_RTT_US", nanos(live.spec.rtt).div_ceil(1_000).to_string()),
    ]
}

/// The name of a cause.
pub(crate) fn name(cause: Cause) -> &'static str {
    match cause {
        Cause::Unspecified => "unknown",
        Cause::State => "state",
        Cause::Open => "open",
        Cause::Close => "close",
        Cause::Adjust => "adjust",
        Cause::Notify => "notify",
        Cause::Reduce => "reduce",
        Cause::Pause => "pause",
        Cause::Resume => "resume",
        Cause::Cnp => "cnp",
        Cause::PauseEnd => "pause-end",
        Cause::Increase => "increase",
    }
}

#[cfg(test)]
mod tests;
