// SPDX-License-Identifier: Apache-2.0
//! What drains take out of service.

use std::collections::BTreeMap;

use canopy_model::drain::DrainTarget;

use crate::resource::Drain;

/// The links and nodes that drains name.
pub(super) fn targets(drains: &BTreeMap<String, Drain>) -> Vec<DrainTarget<'_>> {
    drains.values().filter_map(|drain| drain.spec.target()).collect()
}
