// SPDX-License-Identifier: Apache-2.0
//! Groups of which a node may be far behind: what follows from the group alone.

use crate::resource::{Group, GroupState};

/// Most epochs that a node of a tree is behind after a change that can wait.
pub(super) const MAX_BEHIND: u32 = 4_096;
/// Most epochs that it is behind after one that cannot.
pub(super) const MAX_FORCED: u32 = 12_288;

/// Whether a node may be so far behind that one more change makes a difference.
pub(super) fn is_far(group: &Group) -> bool {
    group.confirmed.is_some_and(|known| group.epoch.saturating_sub(known.epoch) >= MAX_BEHIND)
        || group.epoch.saturating_sub(group.session) >= MAX_FORCED
}

/// Whether the group may have no tree because a node of it may be too far behind: a report of that node can change that.
pub(super) fn waits_for_nodes(group: &Group) -> bool {
    matches!(group.state, GroupState::Infeasible(_)) && is_far(group)
}
