// SPDX-License-Identifier: Apache-2.0
//! Wall clocks of the lab's programs that a test sets; their monotonic clocks are left alone.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::Bed;

/// The library that changes the wall clock of a process.
fn library() -> Result<PathBuf> {
    let dirs = fs::read_dir("/usr/lib")?.filter_map(|dir| Some(dir.ok()?.path()));
    let mut libraries = dirs.map(|dir| dir.join("faketime/libfaketimeMT.so.1")).filter(|library| library.is_file());
    libraries.next().context("libfaketime is not installed: run `make tools`")
}

fn file(bed: &Bed, of_agent: Option<&str>) -> PathBuf {
    bed.lab.dir().join(format!("clock-{}", of_agent.unwrap_or("controller")))
}

/// Starts the controller, or the agent of a node, again with a clock that [`set`] sets and that is `seconds` off until then.
///
/// # Errors
/// libfaketime is not installed, or the program does not start.
pub fn start(bed: &mut Bed, of_agent: Option<&str>, seconds: i64) -> Result<()> {
    set(bed, of_agent, seconds)?;
    let (library, file) = (library()?.display().to_string(), file(bed, of_agent).display().to_string());
    let faked = [
        ("LD_PRELOAD", library.as_str()),
        ("FAKETIME_TIMESTAMP_FILE", &file),
        ("FAKETIME_NO_CACHE", "1"),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
    ];
    bed.lab.set_environment(of_agent, &faked);
    match of_agent {
        None => bed.lab.kill_controller().and_then(|()| bed.lab.start_controller()),
        Some(node) => bed.lab.kill_agent(node).and_then(|()| bed.lab.start_agent(node)),
    }
}

/// Sets the clock of the controller or an agent so many seconds off.
///
/// # Errors
/// The lab's directory cannot be written to.
pub fn set(bed: &Bed, of_agent: Option<&str>, seconds: i64) -> Result<()> {
    // In one step: the process reads the file again and again.
    let next = bed.lab.dir().join("clock-next");
    fs::write(&next, format!("{seconds:+}\n"))?;
    Ok(fs::rename(next, file(bed, of_agent))?)
}
