// SPDX-License-Identifier: Apache-2.0
//! How packets to each destination choose their paths. The daemon changes a path by a store to memory that the BPF program reads: what enters
//! the program a cache miss later takes the new one.

use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use libbpf_rs::MapCore;

use crate::error::Result;
use crate::mapped::{Mapped, Shared};
use crate::steer_skel::types::steer_choice;

/// Slots of a destination.
const SLOTS: usize = (offset_of!(steer_choice, is_pinned) - offset_of!(steer_choice, slots)) / size_of::<u32>();

/// As `steer_choice`.
#[repr(C)]
struct Choice {
    gap_ns: AtomicU64,
    mode: AtomicU32,
    slots: [AtomicU32; SLOTS],
    is_pinned: AtomicU32,
}

const _: () = {
    assert!(size_of::<Choice>() == size_of::<steer_choice>());
    assert!(offset_of!(Choice, gap_ns) == offset_of!(steer_choice, gap_ns));
    assert!(offset_of!(Choice, mode) == offset_of!(steer_choice, mode));
    assert!(offset_of!(Choice, slots) == offset_of!(steer_choice, slots));
    assert!(offset_of!(Choice, is_pinned) == offset_of!(steer_choice, is_pinned));
};

// SAFETY: its fields are atomics, and its size is that of `steer_choice`, which begins with a word of 64 bits.
unsafe impl Shared for Choice {}

/// The map `choices`.
#[derive(Debug)]
pub struct Choices(Mapped<Choice>);

impl Choices {
    pub(crate) fn of(map: &impl MapCore) -> Result<Self> {
        Mapped::of(map).map(Self)
    }

    /// How many there are room for; places begin with 0.
    pub fn capacity(&self) -> u32 {
        // As the map was made.
        self.0.count() as u32
    }

    /// What is written at a place; `None`: there is no such place.
    pub fn get(&self, place: u32) -> Option<steer_choice> {
        let choice = self.0.get(place as usize)?;
        Some(steer_choice {
            gap_ns: choice.gap_ns.load(Ordering::Relaxed),
            mode: choice.mode.load(Ordering::Relaxed),
            slots: choice.slots.each_ref().map(|slot| slot.load(Ordering::Relaxed)),
            is_pinned: choice.is_pinned.load(Ordering::Relaxed),
        })
    }

    /// Writes at a place, if there is such a place. A packet that is under way meanwhile finds each slot as it was or as it is.
    pub fn put(&self, place: u32, written: &steer_choice) {
        let Some(choice) = self.0.get(place as usize) else { return };
        // At no time is another path a pinned one, also for who reads what a process has left in the middle.
        if written.is_pinned == 0 {
            choice.is_pinned.store(0, Ordering::Release);
        }
        choice.gap_ns.store(written.gap_ns, Ordering::Relaxed);
        choice.mode.store(written.mode, Ordering::Relaxed);
        for (slot, id) in choice.slots.iter().zip(written.slots) {
            // Behind the program that it names.
            slot.store(id, Ordering::Release);
        }
        choice.is_pinned.store(written.is_pinned, Ordering::Release);
    }
}
