// SPDX-License-Identifier: Apache-2.0
//! Index of groups by the links of their trees, so that what concerns a link does not scan every group.

use std::collections::{BTreeSet, HashMap};

use canopy_model::ids::GroupId;

use super::far::waits_for_nodes;
use crate::plan::GroupPlan;
use crate::resource::{Group, GroupState};

/// For each link that a tree leads over: the groups of these trees. And the groups that any change of the network may concern.
#[derive(Clone, Debug, Default)]
pub(super) struct TreeIndex {
    in_force: ByLink,
    next: ByLink,
    unsettled: BTreeSet<GroupId>,
    waiting: BTreeSet<GroupId>,
}

/// Groups by the links of one of their trees.
#[derive(Clone, Debug, Default)]
struct ByLink(HashMap<usize, BTreeSet<GroupId>>);

impl TreeIndex {
    /// A group is `new` and was `old`; `None`: there is no group. Only what differs costs more than a comparison.
    pub(super) fn change(&mut self, old: Option<&Group>, new: Option<&Group>) {
        let id = |group: Option<&Group>| group.map(|group| group.allocation.group_id);
        let links = |of: fn(&Group) -> Option<&GroupPlan>| [old, new].map(|group| links(group.and_then(of)));
        self.in_force.change(id(old), id(new), links(Group::plan));
        self.next.change(id(old), id(new), links(|group| group.making()?.plan.as_deref()));
        if let Some(id) = id(old) {
            self.unsettled.remove(&id);
            self.waiting.remove(&id);
        }
        if let Some(group) = new {
            let id = group.allocation.group_id;
            if is_unsettled(group) {
                self.unsettled.insert(id);
            }
            if waits_for_nodes(group) {
                self.waiting.insert(id);
            }
        }
    }

    /// The groups whose trees in force lead over a link.
    pub(super) fn over(&self, link: usize) -> impl Iterator<Item = GroupId> {
        self.in_force.over(link)
    }

    /// The groups whose trees in force lead over a link, and those whose next trees do; some of them twice.
    pub(super) fn using(&self, link: usize) -> impl Iterator<Item = GroupId> {
        self.over(link).chain(self.next.over(link))
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
        self.in_force.0.is_empty() && self.next.0.is_empty() && self.unsettled.is_empty() && self.waiting.is_empty()
    }
}

impl ByLink {
    /// The tree of a group leads over the second of these links and led over the first, in order; `None`: there is no group.
    fn change(&mut self, old: Option<GroupId>, new: Option<GroupId>, [before, now]: [Vec<usize>; 2]) {
        let stays = |link: &usize, there: &[usize]| old == new && there.binary_search(link).is_ok();
        if let Some(id) = old {
            before.iter().filter(|link| !stays(link, &now)).for_each(|link| self.remove(*link, id));
        }
        if let Some(id) = new {
            for link in now.iter().filter(|link| !stays(link, &before)) {
                self.0.entry(*link).or_default().insert(id);
            }
        }
    }

    fn remove(&mut self, link: usize, id: GroupId) {
        if let Some(groups) = self.0.get_mut(&link) {
            groups.remove(&id);
            if groups.is_empty() {
                self.0.remove(&link);
            }
        }
    }

    fn over(&self, link: usize) -> impl Iterator<Item = GroupId> {
        self.0.get(&link).into_iter().flatten().copied()
    }
}

fn is_unsettled(group: &Group) -> bool {
    group.behind.is_some() || matches!(group.state, GroupState::Infeasible(_))
}

/// The links of a plan's tree, in order.
fn links(plan: Option<&GroupPlan>) -> Vec<usize> {
    let nodes = plan.into_iter().flat_map(|plan| plan.tree.nodes());
    let mut links: Vec<usize> = nodes.filter_map(|t| Some(t.parent?.link)).collect();
    links.sort_unstable();
    links
}
