// SPDX-License-Identifier: Apache-2.0
//! Runs many seeds on a few threads and adds up their results.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;

use crate::config::Config;
use crate::report::Report;
use crate::run::run;

/// Results of many runs.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Runs.
    pub seeds: u64,
    /// Events.
    pub events: u64,
    /// ACKs and NAKs at nodes.
    pub feedback_events: u64,
    /// Runs in which faults stopped before the source finished.
    pub calmed: u64,
    /// Runs by the PSN of their first packet.
    pub starts: BTreeMap<u32, u64>,
    /// Moves that were given up, and losses of the whole tree.
    pub unmoved: [u64; 2],
    /// Moves, late joins, leaves, evictions, lost states, agents and controllers restarted, specs refused, hosts rewired, late
    /// starts.
    pub changes: [u64; 10],
    /// Violations.
    pub violations: u64,
    /// Seeds with violations, and the first of each.
    pub failed: Vec<(u64, String)>,
}

impl Totals {
    fn add(&mut self, report: &Report) {
        self.seeds += 1;
        self.events += report.events;
        self.feedback_events += report.feedback_events;
        self.calmed += u64::from(report.calm.is_some());
        *self.starts.entry(report.start_psn).or_default() += 1;
        let r = report;
        let started = [r.restarts, r.controller_restarts, r.refused_specs, r.rewired, r.late_starts];
        let more = [r.moves, r.joins, r.leaves, r.evictions, r.states_lost].into_iter().chain(started);
        self.changes.iter_mut().zip(more).for_each(|(sum, n)| *sum += n);
        self.unmoved = [self.unmoved[0] + r.given_up, self.unmoved[1] + r.infeasible];
        self.violations += report.violation_count;
        if let Some(first) = report.violations.first() {
            self.failed.push((report.seed, first.clone()));
        }
    }
}

impl std::fmt::Display for Totals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [moves, joins, leaves, evictions, lost, restarts, controllers, refused, rewired, started] = self.changes;
        write!(
            f,
            "{} seeds, {} events, {} feedback events, {} finished after faults stopped; {moves} moves, {} given up, {} trees lost, \
             {joins} late joins, {leaves} leaves, {evictions} evictions, {lost} states lost, {restarts} agents and {controllers} controllers \
             restarted, {refused} specs refused, {rewired} hosts rewired, {started} late starts; {} violations in {} seeds",
            self.seeds,
            self.events,
            self.feedback_events,
            self.calmed,
            self.unmoved[0],
            self.unmoved[1],
            self.violations,
            self.failed.len()
        )
    }
}

/// The command that runs `seed` again.
pub fn replay_command(seed: u64, config: &Config) -> String {
    format!("cargo run -p canopy-sim -- replay {seed}{}", config.options())
}

/// Runs `seeds` seeds from `first` on `threads` threads; `progress` is called with every report.
///
/// # Errors
/// If a requester rejects `config`.
pub fn campaign(
    (first, seeds): (u64, u64),
    config: &Config,
    threads: usize,
    progress: &(dyn Fn(&Report) + Sync),
) -> Result<Totals> {
    let (next, totals) = (AtomicU64::new(0), Mutex::new(Totals::default()));
    std::thread::scope(|scope| {
        let work = || -> Result<()> {
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= seeds {
                    return Ok(());
                }
                let report = run(first.wrapping_add(n), config)?;
                progress(&report);
                totals.lock().unwrap_or_else(std::sync::PoisonError::into_inner).add(&report);
            }
        };
        let workers: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| match worker.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })?;
    let mut totals = totals.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    totals.failed.sort();
    Ok(totals)
}
