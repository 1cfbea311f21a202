// SPDX-License-Identifier: Apache-2.0
//! Since when a node has had each of its programs, by group and in the order of time: a report of how far the node is concerns the programs
//! that came between the report before and this one.

use std::collections::{BTreeMap, BTreeSet};

use canopy_model::ids::{Generation, GroupId};

/// The generation of a node's spec that first carried each group's present program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProgramTimes {
    by_group: BTreeMap<GroupId, Generation>,
    in_order: BTreeSet<(Generation, GroupId)>,
}

impl ProgramTimes {
    pub(crate) fn get(&self, id: &GroupId) -> Option<Generation> {
        self.by_group.get(id).copied()
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.by_group.is_empty() && self.in_order.is_empty()
    }

    pub(crate) fn insert(&mut self, id: GroupId, since: Generation) {
        if let Some(before) = self.by_group.insert(id, since) {
            self.in_order.remove(&(before, id));
        }
        self.in_order.insert((since, id));
    }

    pub(crate) fn remove(&mut self, id: &GroupId) {
        if let Some(since) = self.by_group.remove(id) {
            self.in_order.remove(&(since, *id));
        }
    }

    /// The groups of whose programs a node that has reconciled one of these generations has another set than one that has reconciled the
    /// other; `None`: it has reconciled nothing.
    pub(crate) fn between(&self, a: Option<Generation>, b: Option<Generation>) -> impl Iterator<Item = GroupId> {
        let (least, most) = if a < b { (a, b) } else { (b, a) };
        let after = |generation: Generation| (generation.saturating_add(1), GroupId::MIN);
        let first = least.map_or((0, GroupId::MIN), after);
        let end = most.map_or(first, after);
        self.in_order.range(first..end).map(|(_, id)| *id)
    }
}

impl FromIterator<(GroupId, Generation)> for ProgramTimes {
    fn from_iter<T: IntoIterator<Item = (GroupId, Generation)>>(all: T) -> Self {
        let mut times = Self::default();
        all.into_iter().for_each(|(id, since)| times.insert(id, since));
        times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a program that is left under the generation of a former one, and bounds that are taken for others.
    #[test]
    fn what_lies_between_two_reports_is_found() {
        let id = |n| GroupId::new("group", n).unwrap();
        let mut times: ProgramTimes = [(id(1), 5), (id(2), 7), (id(3), 7)].into_iter().collect();
        let between = |times: &ProgramTimes, a, b| times.between(a, b).map(GroupId::get).collect::<Vec<_>>();
        assert_eq!(between(&times, None, Some(4)), [0; 0]);
        assert_eq!(between(&times, None, Some(5)), [1]);
        assert_eq!(between(&times, Some(5), Some(7)), [2, 3]);
        assert_eq!(between(&times, Some(9), Some(5)), [2, 3], "an agent that started over");
        assert_eq!(between(&times, Some(7), None), [1, 2, 3]);
        assert_eq!((between(&times, Some(5), Some(5)), between(&times, None, None)), (vec![], vec![]));
        times.insert(id(2), 9);
        times.remove(&id(3));
        assert_eq!(between(&times, None, Some(8)), [1]);
        assert_eq!((between(&times, Some(8), Some(9)), times.get(&id(2)), times.get(&id(3))), (vec![2], Some(9), None));
    }
}
