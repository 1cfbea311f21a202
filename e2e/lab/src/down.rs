// SPDX-License-Identifier: Apache-2.0
//! Taking a lab down: everything that its state lists, whether `up` finished or not.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::names::BASE;
use crate::process::{self, Process};
use crate::state::State;
use crate::{host, netns};

const GRACE: Duration = Duration::from_secs(5);

/// Takes down the lab in `dir`. False when there was none.
///
/// Ends the lab's processes and every other process inside its namespaces (a namespace with a process in it would
/// live on), then removes namespaces, pins and the directory. Safe to run twice.
///
/// # Errors
/// The kernel or the file system refuses; the state stays, so that it can be tried again.
pub fn down(dir: &Path) -> Result<bool> {
    let Some(state) = State::load(dir)? else { return Ok(false) };
    let names = || state.namespaces.iter().map(String::as_str);

    let started: Vec<Process> = state.processes.values().cloned().collect();
    process::stop_all(&started, GRACE).context("stopping the lab's processes")?;
    started.iter().for_each(Process::reap);
    let visitors: Vec<Process> = netns::processes(names())?.into_iter().filter_map(process::adopt).collect();
    process::stop_all(&visitors, GRACE).context("stopping processes inside the lab's namespaces")?;

    let _lock = host::lock()?;
    netns::remove(names())?;
    if let Some(management) = state.management {
        management.remove()?;
    }
    if state.claimed {
        remove(&state.instance.pins())?;
        remove(&state.instance.agent_pins())?;
    }
    if let Some(shared) = state.instance.agent_pins().parent() {
        // Other labs' agents may pin there too: then it is not empty and stays.
        let _ = fs::remove_dir(shared);
    }
    host::restore()?;
    remove(dir)?;
    if dir == state.instance.default_dir() {
        // Other labs may have their directories in it: then it is not empty and stays.
        let _ = fs::remove_dir(BASE);
    }
    Ok(true)
}

fn remove(dir: &Path) -> Result<()> {
    match fs::remove_dir_all(dir) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(e).with_context(|| format!("removing {}", dir.display()))
        }
        _ => Ok(()),
    }
}
