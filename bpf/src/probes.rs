// SPDX-License-Identifier: Apache-2.0
//! The cells of probes, which a daemon and its BPF programs write at the same time: mapped, without a system call for each.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use libbpf_rs::MapCore;

use crate::error::Result;
use crate::mapped::{Mapped, Shared};
use crate::steer_skel::types;

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

/// As `steer_way`.
#[repr(C)]
struct Way([Cell; RING]);

// SAFETY: its fields are atomics, and its size is that of `steer_way`, which has words of 64 bits.
unsafe impl Shared for Way {}

/// The map `ways`.
#[derive(Debug)]
pub struct Probes(Mapped<Way>);

impl Probes {
    pub(crate) fn of(map: &impl MapCore) -> Result<Self> {
        Mapped::of(map).map(Self)
    }

    fn cell(&self, way: u16, sequence: u32) -> Option<&Cell> {
        Some(&self.0.get(way.into())?.0[sequence as usize % RING])
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
