// SPDX-License-Identifier: Apache-2.0
//! The cells of probes, which a daemon and its BPF programs write at the same time: mapped, without a system call for each.

use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use libbpf_rs::{MapCore, MapHandle};

use crate::error::{Context, Result};
use crate::steer_skel::types;

/// Ways; their numbers begin with 1.
const WAYS: usize = 4096;
/// Probes of a way that have a cell.
pub const RING: usize = size_of::<types::steer_way>() / size_of::<types::steer_probe>();

/// As `steer_probe`.
#[repr(C)]
struct Cell {
    left_ns: AtomicU64,
    back_ns: AtomicU64,
    sequence: AtomicU32,
    is_written: AtomicU32,
}

const _: () = {
    assert!(size_of::<Cell>() == size_of::<types::steer_probe>());
    assert!(std::mem::offset_of!(Cell, back_ns) == std::mem::offset_of!(types::steer_probe, back_ns));
    assert!(std::mem::offset_of!(Cell, sequence) == std::mem::offset_of!(types::steer_probe, sequence));
    assert!(std::mem::offset_of!(Cell, is_written) == std::mem::offset_of!(types::steer_probe, is_written));
};

/// The times of one probe, CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// It left the interface; `None`: not yet.
    pub left_ns: Option<u64>,
    /// It came back.
    pub back_ns: Option<u64>,
    /// A node had marked it (CE).
    pub is_marked: bool,
}

/// The map `ways`.
#[derive(Debug)]
pub struct Probes {
    cells: NonNull<Cell>,
    len: usize,
    _map: MapHandle,
}

// SAFETY: the mapping lives as long as this, and its cells are atomics.
unsafe impl Send for Probes {}
// SAFETY: as above.
unsafe impl Sync for Probes {}

impl Probes {
    pub(crate) fn of(map: MapHandle) -> Result<Self> {
        let len = WAYS * size_of::<types::steer_way>();
        let what = || "mapping the cells of probes".to_owned();
        if map.max_entries() as usize != WAYS || map.value_size() as usize != size_of::<types::steer_way>() {
            return Err("the map has another size").with_context(what);
        }
        let fd = std::os::fd::AsFd::as_fd(&map).as_raw_fd();
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping of a map of this size; the result is checked.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, access, libc::MAP_SHARED, fd, 0) };
        if start == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error()).with_context(what);
        }
        let cells = NonNull::new(start.cast()).ok_or("the system gave no address").with_context(what)?;
        Ok(Self { cells, len, _map: map })
    }

    fn cell(&self, way: u16, sequence: u32) -> Option<&Cell> {
        let way = usize::from(way);
        // SAFETY: the place is within the mapping; every bit pattern is a valid cell, and all access to it is atomic.
        (way < WAYS).then(|| unsafe { self.cells.add(way * RING + sequence as usize % RING).as_ref() })
    }

    /// Makes the cell of a probe that is about to be sent. That of the probe [`RING`] before it is gone.
    pub fn prepare(&self, way: u16, sequence: u32) {
        let Some(cell) = self.cell(way, sequence) else { return };
        cell.is_written.store(0, Ordering::Release);
        cell.left_ns.store(0, Ordering::Relaxed);
        cell.back_ns.store(0, Ordering::Relaxed);
        cell.sequence.store(sequence, Ordering::Relaxed);
        cell.is_written.store(1, Ordering::Release);
    }

    /// The times of a probe; `None`: its cell is that of another one.
    pub fn times(&self, way: u16, sequence: u32) -> Option<Times> {
        let cell = self.cell(way, sequence)?;
        if cell.sequence.load(Ordering::Acquire) != sequence {
            return None;
        }
        let [left_ns, back] = [&cell.left_ns, &cell.back_ns].map(|time| time.load(Ordering::Acquire));
        let (is_marked, back_ns) = (back & MARKED != 0, back & !MARKED);
        let known = |ns: u64| (ns != 0).then_some(ns);
        Some(Times { left_ns: known(left_ns), back_ns: known(back_ns), is_marked })
    }
}

/// As `STEER_PROBE_MARKED`.
const MARKED: u64 = 1;

impl Drop for Probes {
    fn drop(&mut self) {
        // SAFETY: mapped in `of`, with this length, and used by nothing else.
        unsafe { libc::munmap(self.cells.as_ptr().cast(), self.len) };
    }
}
