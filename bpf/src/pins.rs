// SPDX-License-Identifier: Apache-2.0
//! Directories of pins: one for each layout of the maps, below the directory of the node.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use libbpf_rs::{MapHandle, OpenObject, Program};

use crate::error::{Context, Result};
use crate::filter::fdinfo;
use crate::layout;

/// Pinned last: a directory without it was not loaded whole.
pub(crate) const LAST: &str = "canopy_dispatch";
/// Ends the name of a directory to which no packet comes yet. Names on a BPF file system have no dots.
const LOADING: &str = "-loading";

/// Where an object is loaded, and what was there before.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Where the object is loaded.
    pub(crate) dir: PathBuf,
    /// Where its pins are from the moment on at which packets come.
    pub(crate) live: PathBuf,
    /// Directories of other loads, the last one at the end.
    pub(crate) old: Vec<PathBuf>,
    /// `dir` has the maps of an earlier load with this layout.
    pub(crate) reused: bool,
}

/// Finds the place for an object with the layout `id`, and removes what an interrupted load left.
///
/// A directory of this layout that is not the last one loaded was left in the middle of a handover to the last one: its maps are old,
/// so it becomes one of the old directories.
pub(crate) fn place(pin_dir: &Path, id: &str) -> Result<Place> {
    fs::create_dir_all(pin_dir).with_context(|| {
        format!("creating {} (is a BPF file system mounted there? mount -t bpf bpf /sys/fs/bpf)", pin_dir.display())
    })?;
    let (live, loading) = (pin_dir.join(id), pin_dir.join(format!("{id}{LOADING}")));
    let (mut loads, mut rest) = (Vec::new(), Vec::new());
    for dir in directories(pin_dir)? {
        match loaded(&dir) {
            _ if dir.to_string_lossy().ends_with(LOADING) => remove(&dir)?,
            Some(number) => loads.push((number, dir)),
            None => rest.push(dir),
        }
    }
    loads.sort();
    let newest = loads.last().is_none_or(|(_, dir)| *dir == live);
    if newest {
        let reused = loads.pop().is_some();
        let old = loads.into_iter().map(|(_, dir)| dir).collect();
        return Ok(Place { dir: live.clone(), live, old, reused });
    }
    rest.iter().try_for_each(|dir| remove(dir))?;
    for (number, dir) in &mut loads {
        if *dir == live {
            let aside = pin_dir.join(format!("{id}-{number}"));
            rename(dir, &aside)?;
            *dir = aside;
        }
    }
    Ok(Place { dir: loading, live, old: loads.into_iter().map(|(_, dir)| dir).collect(), reused: false })
}

/// Every directory of pins below `pin_dir`.
pub(crate) fn directories(pin_dir: &Path) -> Result<Vec<PathBuf>> {
    let reading = || format!("reading {}", pin_dir.display());
    let mut all = Vec::new();
    for entry in fs::read_dir(pin_dir).with_context(reading)? {
        let path = entry.with_context(reading)?.path();
        if path.is_dir() {
            all.push(path);
        }
    }
    Ok(all)
}

/// The number that the kernel gave to the programs in a directory, if they were loaded whole. Later programs have higher numbers.
pub(crate) fn loaded(dir: &Path) -> Option<u64> {
    fdinfo(program(dir, LAST).ok()?.as_fd(), "prog_id:")
}

/// A pinned program.
pub(crate) fn program(dir: &Path, name: &str) -> Result<OwnedFd> {
    let path = dir.join(name);
    Program::fd_from_pinned_path(&path).with_context(|| format!("opening {}", path.display()))
}

/// A pinned map.
pub(crate) fn map(dir: &Path, name: &str) -> Result<MapHandle> {
    let path = dir.join(name);
    MapHandle::from_pinned_path(&path).with_context(|| format!("opening {}", path.display()))
}

/// Has an object pin its maps in `dir`, or use those that are pinned there.
pub(crate) fn pin_maps(object: &mut OpenObject, dir: &Path) -> Result<()> {
    for mut map in object.maps_mut().filter(layout::outlives) {
        let path = dir.join(map.name());
        map.set_pin_path(&path).with_context(|| format!("setting the pin {}", path.display()))?;
    }
    Ok(())
}

pub(crate) fn rename(from: &Path, to: &Path) -> Result<()> {
    fs::rename(from, to).with_context(|| format!("renaming {} to {}", from.display(), to.display()))
}

pub(crate) fn remove(dir: &Path) -> Result<()> {
    fs::remove_dir_all(dir).with_context(|| format!("removing {}", dir.display()))
}
