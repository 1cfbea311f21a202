// SPDX-License-Identifier: Apache-2.0
//! Index of groups by the links of their trees, so that what concerns a link does not scan every group.

use std::collections::{BTreeSet, HashMap};

use canopy_model::ids::GroupId;

use super::far::waits_for_nodes;
use crate::resource::{Group, GroupState};

/// For each link that a tree in force leads over: the groups of these trees. And the groups that any change of the network may concern.
#[derive(Clone, Debug, Default)]
pub(super) struct TreeIndex {
    links: HashMap<usize, BTreeSet<GroupId>>,
    unsettled: BTreeSet<GroupId>,
    waiting: BTreeSet<GroupId>,
}

impl TreeIndex {
    /// A group is `new` and was `old`; `None`: there is no group. Only what differs costs more than a comparison.
    pub(super) fn change(&mut self, old: Option<&Group>, new: Option<&Group>) {
        let (before, now) = (old.map(links).unwrap_or_default(), new.map(links).unwrap_or_default());
        let same_id = old.zip(new).is_none_or(|(old, new)| old.allocation.group_id == new.allocation.group_id);
        let stays = |link: &usize, there: &[usize]| same_id && there.binary_search(link).is_ok();
        if let Some(id) = old.map(|old| old.allocation.group_id) {
            before.iter().filter(|link| !stays(link, &now)).for_each(|link| self.remove(*link, id));
            self.unsettled.remove(&id);
            self.waiting.remove(&id);
        }
        if let Some(group) = new {
            let id = group.allocation.group_id;
            for link in now.iter().filter(|link| !stays(link, &before)) {
                self.links.entry(*link).or_default().insert(id);
            }
            if is_unsettled(group) {
                self.unsettled.insert(id);
            }
            if waits_for_nodes(group) {
                self.waiting.insert(id);
            }
        }
    }

    fn remove(&mut self, link: usize, id: GroupId) {
        if let Some(groups) = self.links.get_mut(&link) {
            groups.remove(&id);
            if groups.is_empty() {
                self.links.remove(&link);
            }
        }
    }

    /// The groups whose trees in force lead over a link.
    pub(super) fn over(&self, link: usize) -> impl Iterator<Item = GroupId> {
        self.links.get(&link).into_iter().flatten().copied()
    }

    /// The groups that have no tree although they have a source and receivers, or whose tree in force is not the one that the network
    /// asks for. They wait for a change of the network, or for a node, and are as many as something is wrong with.
    pub(super) fn unsettled(&self) -> impl Iterator<Item = GroupId> {
        self.unsettled.iter().copied()
    }

    /// Those of them that a node's report may give a tree: none, but in sessions with thousands of changes.
    pub(super) fn waiting(&self) -> impl Iterator<Item = GroupId> {
        self.waiting.iter().copied()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.links.is_empty() && self.unsettled.is_empty() && self.waiting.is_empty()
    }
}

fn is_unsettled(group: &Group) -> bool {
    group.behind.is_some() || matches!(group.state, GroupState::Infeasible(_))
}

/// The links of the tree in force, in order.
fn links(group: &Group) -> Vec<usize> {
    let nodes = group.plan().into_iter().flat_map(|plan| &plan.tree.nodes);
    let mut links: Vec<usize> = nodes.filter_map(|t| Some(t.parent?.link)).collect();
    links.sort_unstable();
    links
}
