// SPDX-License-Identifier: Apache-2.0
//! Agents that are late.

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::Bed;

/// Stops agents as a machine does that is short of memory or time; they continue when this is dropped.
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
            let pid = Pid::from_raw(process.with_context(|| format!("{node} has no agent"))?.pid);
            kill(pid, Signal::SIGSTOP).with_context(|| format!("stopping the agent of {node}"))?;
            paused.0.push(pid);
        }
        Ok(paused)
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
