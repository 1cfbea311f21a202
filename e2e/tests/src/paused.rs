// SPDX-License-Identifier: Apache-2.0
//! Agents and applications that are late.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::Bed;

/// How long a starved process is stopped, and how long it runs then: no stall of 500 ms.
const STOPPED: Duration = Duration::from_millis(100);
const RUNNING: Duration = Duration::from_millis(5);

/// Stops processes as a machine does that is short of memory or time; they continue when this is dropped.
#[derive(Debug)]
pub struct Paused(Vec<Pid>);

impl Paused {
    /// Stops the agents of `nodes`.
    ///
    /// # Errors
    /// One of them does not run.
    pub fn new(bed: &Bed, nodes: &[&str]) -> Result<Self> {
        let mut paused = Self(Vec::new());
        for node in nodes {
            let process = bed.lab.state().processes.get(&format!("agent-{node}"));
            let pid = process.with_context(|| format!("{node} has no agent"))?.pid;
            paused.stop(pid).with_context(|| format!("stopping the agent of {node}"))?;
        }
        Ok(paused)
    }

    /// Stops one process.
    ///
    /// # Errors
    /// It does not exist any more.
    pub fn process(pid: u32) -> Result<Self> {
        let mut paused = Self(Vec::new());
        paused.stop(pid.try_into()?).with_context(|| format!("stopping process {pid}"))?;
        Ok(paused)
    }

    fn stop(&mut self, pid: i32) -> Result<()> {
        let pid = Pid::from_raw(pid);
        kill(pid, Signal::SIGSTOP)?;
        self.0.push(pid);
        Ok(())
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        for pid in &self.0 {
            // The lab kills a process that is still stopped.
            _ = kill(*pid, Signal::SIGCONT);
        }
    }
}

/// A process that is stopped most of the time, until this is dropped.
#[derive(Debug)]
pub struct Starved(Option<(Arc<AtomicBool>, JoinHandle<()>)>);

impl Starved {
    /// From now on.
    pub fn process(pid: u32) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let has_ended = Arc::clone(&ends);
        let turns = move || {
            while !has_ended.load(Ordering::Relaxed) {
                let Ok(stopped) = Paused::process(pid) else { return };
                std::thread::sleep(STOPPED);
                drop(stopped);
                std::thread::sleep(RUNNING);
            }
        };
        Self(Some((ends, std::thread::spawn(turns))))
    }
}

impl Drop for Starved {
    fn drop(&mut self) {
        if let Some((ends, thread)) = self.0.take() {
            ends.store(true, Ordering::Relaxed);
            let _ = thread.join();
        }
    }
}
