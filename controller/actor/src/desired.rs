// SPDX-License-Identifier: Apache-2.0
//! What a node's stream sends: what the node is to have, and the plans of the programs that differ, as of one moment.

use std::sync::Arc;

use canopy_controller_core::desired::ProgramTimes;
use canopy_controller_core::{DesiredNode, NodePrograms};

use crate::Controller;

impl Controller {
    /// What a node is to have now, and its programs that differ from those of `before`; all if it is `None`. Nothing of it may leave the
    /// process before it is [settled](Controller::settled). `None`: there is no such node.
    pub fn desired(&self, node: &str, before: Option<&ProgramTimes>) -> Option<(Arc<DesiredNode>, NodePrograms)> {
        self.read(|d| {
            let desired = d.desired(node)?;
            let programs = match before {
                None => d.programs(node, desired.groups.ids())?,
                Some(before) => {
                    let changed = desired.groups.changed_since(before);
                    d.programs(node, changed.filter_map(|(id, has_one)| has_one.then_some(id)))?
                }
            };
            Some((desired, programs))
        })
    }
}
