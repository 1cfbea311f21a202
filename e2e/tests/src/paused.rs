// SPDX-License-Identifier: Apache-2.0
//! Agents and applications that are late.

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::Bed;

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
