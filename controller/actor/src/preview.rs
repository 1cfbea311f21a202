// SPDX-License-Identifier: Apache-2.0
//! What a write would change and do, and a name for exactly that.

use std::hash::{DefaultHasher, Hash, Hasher};

use canopy_controller_core::effect::Effect;
use canopy_controller_core::{Domain, Prepared};

use crate::difference::Difference;
use crate::intent::{Intent, Target};

/// What a write would change and do.
#[derive(Clone, Debug, PartialEq)]
pub struct Preview {
    /// Fields of the resource that would have other values.
    pub changes: Vec<Difference>,
    /// What that does to nodes, groups and paths, the worst first.
    pub effects: Vec<Effect>,
    /// Names these changes and effects. A write with it is carried out only while they are the same.
    pub plan: String,
}

impl Preview {
    pub(crate) fn new(
        domain: &Domain,
        target: Option<&Target>,
        old: Option<&Intent>,
        new: Option<&Intent>,
        prepared: &Prepared,
    ) -> Self {
        let changes = Intent::differences(old, new);
        let effects = if prepared.is_noop() { Vec::new() } else { domain.effects(prepared) };
        let plan = plan(target, &changes, &effects);
        Self { changes, effects, plan }
    }
}

/// Another version may name the same plan otherwise, which refuses a write that could be another one.
fn plan(target: Option<&Target>, changes: &[Difference], effects: &[Effect]) -> String {
    let mut digest = DefaultHasher::new();
    target.hash(&mut digest);
    for Difference { pointer, old, new } in changes {
        (pointer, [old, new].map(|value| value.as_ref().map(ToString::to_string))).hash(&mut digest);
    }
    effects.hash(&mut digest);
    format!("{:016x}", digest.finish())
}
