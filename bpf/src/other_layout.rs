// SPDX-License-Identifier: Apache-2.0
//! An agent whose maps have another layout, for tests.

use std::os::fd::AsFd;
use std::path::Path;

use libbpf_rs::ObjectBuilder;

use crate::error::{Context, Result};
use crate::filter::Filter;
use crate::handover::Handover;
use crate::node::{EGRESS, INGRESS, constants};
use crate::pins::{self, LAST};

/// The node's programs with another layout of their maps.
pub const OBJECT: &str = concat!(env!("OUT_DIR"), "/other.bpf.o");

/// What an agent with another layout does in its life: loads `object`, takes over the groups below `pin_dir` and the filters of
/// `interfaces`, and ends.
///
/// # Errors
/// As for an agent.
pub fn take_over(object: &Path, pin_dir: &Path, interfaces: &[u32]) -> Result<()> {
    let opening = || format!("opening {}", object.display());
    let mut open = ObjectBuilder::default().open_file(object).with_context(opening)?;
    let place = pins::place(pin_dir, &crate::layout::id(&open)?)?;
    std::fs::create_dir_all(&place.dir).with_context(|| format!("creating {}", place.dir.display()))?;
    pins::pin_maps(&mut open, &place.dir)?;
    let mut rodata = open.maps_mut().find(|map| map.name().to_string_lossy().ends_with(".rodata"));
    let rodata =
        rodata.as_mut().and_then(|map| map.initial_value_mut()).ok_or("it has no .rodata").with_context(opening)?;
    rodata.copy_from_slice(&constants()?);
    let loaded = open.load().with_context(|| format!("loading {}", object.display()))?;
    let mut programs: Vec<_> = loaded.progs_mut().collect();
    programs.sort_by_key(|program| program.name() == LAST);
    for program in &mut programs {
        let path = place.dir.join(program.name());
        program.pin(&path).with_context(|| format!("pinning {}", path.display()))?;
    }
    let mut handover = Handover::new(place)?.ok_or("nothing is pinned there").context("handing over")?;
    handover.copy()?;
    handover.switch()?;
    for (slot, name) in [(INGRESS, LAST), (EGRESS, "canopy_egress")] {
        let program = pins::program(handover.between().1, name)?;
        let filter = Filter::new(program.as_fd(), slot);
        interfaces.iter().filter(|i| filter.is_present(**i)).try_for_each(|i| filter.attach(*i))?;
    }
    handover.finish()
}
