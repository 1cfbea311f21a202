// SPDX-License-Identifier: Apache-2.0
//! Programs that flowlets leave at once, because no packet should take their paths any more.

use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, Ordering};

use libbpf_rs::MapCore;

use crate::error::Result;
use crate::mapped::{Mapped, Shared};
use crate::steer_skel::types::steer_program;

/// Where `is_left` is in a `steer_program`, in words.
const IS_LEFT: usize = offset_of!(steer_program, is_left) / size_of::<u32>();

/// As `steer_program`, in words.
#[repr(C, align(8))]
struct Program([AtomicU32; size_of::<steer_program>() / size_of::<u32>()]);

// SAFETY: its fields are atomics, and its size is checked where it is mapped.
unsafe impl Shared for Program {}

/// The map `programs`.
#[derive(Debug)]
pub struct Left(Mapped<Program>);

impl Left {
    pub(crate) fn of(map: &impl MapCore) -> Result<Self> {
        Mapped::of(map).map(Self)
    }

    /// Has flowlets leave the program with this path id, until another one is written there.
    pub fn set(&self, id: u32) {
        if let Some(program) = self.0.get(id as usize) {
            program.0[IS_LEFT].store(1, Ordering::Release);
        }
    }
}
