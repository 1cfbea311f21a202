// SPDX-License-Identifier: Apache-2.0
//! What a node is to have. The programs of its groups are not part of it: they follow from the groups' plans, and are made when they are sent.

use std::sync::Arc;

use canopy_model::ids::{Generation, GroupId};
use canopy_model::node_spec::NodeBase;
use imbl::OrdMap;
use imbl::ordmap::DiffItem;

/// A [`NodeSpec`](canopy_model::node_spec::NodeSpec) without its programs.
#[derive(Clone, Debug)]
pub struct DesiredNode {
    /// Of the controller; of two specs, the one of the higher term counts.
    pub term: u64,
    /// The domain's revision in which this became so.
    pub generation: Generation,
    /// What does not depend on groups.
    pub base: Arc<NodeBase>,
    /// The groups that have a program here.
    pub groups: ProgramTimes,
}

impl DesiredNode {
    /// The base, to be changed; a copy of it while it is shared.
    pub(crate) fn base_mut(&mut self) -> &mut NodeBase {
        Arc::make_mut(&mut self.base)
    }
}

/// The groups that have a program at a node, and the generation that first carried each group's present one. A clone costs nothing, and
/// finding what differs between two that have a common origin costs what differs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramTimes(OrdMap<GroupId, Generation>);

impl ProgramTimes {
    /// Whether a group has a program.
    pub fn contains(&self, id: &GroupId) -> bool {
        self.0.contains_key(id)
    }

    /// Number of programs.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The groups in the order of their identifiers.
    pub fn ids(&self) -> impl Iterator<Item = GroupId> {
        self.0.keys().copied()
    }

    /// The groups whose programs are others than those of `before`; true: it has one now.
    pub fn changed_since<'a>(&'a self, before: &'a Self) -> impl Iterator<Item = (GroupId, bool)> + 'a {
        before.0.diff(&self.0).map(|change| match change {
            DiffItem::Add(id, _) | DiffItem::Update { new: (id, _), .. } => (*id, true),
            DiffItem::Remove(id, _) => (*id, false),
        })
    }

    pub(crate) fn get(&self, id: &GroupId) -> Option<Generation> {
        self.0.get(id).copied()
    }

    pub(crate) fn insert(&mut self, id: GroupId, since: Generation) {
        self.0.insert(id, since);
    }

    pub(crate) fn remove(&mut self, id: &GroupId) {
        self.0.remove(id);
    }
}

impl FromIterator<(GroupId, Generation)> for ProgramTimes {
    fn from_iter<T: IntoIterator<Item = (GroupId, Generation)>>(all: T) -> Self {
        Self(all.into_iter().collect())
    }
}

/// In which order the programs of a node became what they are: that of [`ProgramTimes`], and entries of programs that are others by now.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProgramOrder(Vec<(Generation, GroupId)>);

impl ProgramOrder {
    pub(crate) fn of(times: &ProgramTimes) -> Self {
        let mut all: Vec<(Generation, GroupId)> = times.0.iter().map(|(id, since)| (*since, *id)).collect();
        all.sort_unstable();
        Self(all)
    }

    /// `times`, as it is now, has the program of this group since `since`, the latest of all.
    pub(crate) fn push(&mut self, id: GroupId, since: Generation, times: &ProgramTimes) {
        // So that each entry is read once before as many have come.
        if self.0.len() > 2 * times.len() + 64 {
            self.0.retain(|(since, id)| times.get(id) == Some(*since));
        }
        self.0.push((since, id));
    }

    /// The groups of whose programs, as `times` has them, a node that has reconciled one of these generations has another set than one that has
    /// reconciled the other; `None`: it has reconciled nothing.
    pub(crate) fn between(
        &self,
        times: &ProgramTimes,
        a: Option<Generation>,
        b: Option<Generation>,
    ) -> impl Iterator<Item = GroupId> {
        let (least, most) = if a < b { (a, b) } else { (b, a) };
        let behind = |generation| self.0.partition_point(|(since, _)| Some(*since) <= generation);
        let between = self.0[behind(least)..behind(most)].iter();
        between.filter(|(since, id)| times.get(id) == Some(*since)).map(|(_, id)| *id)
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
        let mut order = ProgramOrder::of(&times);
        fn between(of: (&ProgramOrder, &ProgramTimes), a: Option<u64>, b: Option<u64>) -> Vec<u32> {
            of.0.between(of.1, a, b).map(|id| id.get()).collect()
        }
        let at = (&order, &times);
        assert_eq!(between(at, None, Some(4)), [0; 0]);
        assert_eq!(between(at, None, Some(5)), [1]);
        assert_eq!(between(at, Some(5), Some(7)), [2, 3]);
        assert_eq!(between(at, Some(9), Some(5)), [2, 3], "an agent that started over");
        assert_eq!(between(at, Some(7), None), [1, 2, 3]);
        assert_eq!((between(at, Some(5), Some(5)), between(at, None, None)), (vec![], vec![]));
        times.insert(id(2), 9);
        order.push(id(2), 9, &times);
        times.remove(&id(3));
        let at = (&order, &times);
        assert_eq!(between(at, None, Some(8)), [1]);
        assert_eq!((between(at, Some(8), Some(9)), times.get(&id(2)), times.get(&id(3))), (vec![2], Some(9), None));
    }

    /// Catches an order that grows with every change, and one that forgets a program when it is tidied.
    #[test]
    fn the_order_has_room_for_the_present_programs() {
        let id = |n| GroupId::new("group", n).unwrap();
        let (mut times, mut order) = (ProgramTimes::default(), ProgramOrder::default());
        for generation in 1..=10_000 {
            let changed = id(1 + generation % 7);
            times.insert(changed, generation);
            order.push(changed, generation, &times);
        }
        assert!(order.0.len() <= 2 * 7 + 65, "{}", order.0.len());
        let newest: Vec<GroupId> = order.between(&times, Some(9_997), Some(10_000)).collect();
        assert_eq!(newest, [9_998, 9_999, 10_000].map(|generation| id(1 + generation % 7)));
        assert_eq!(order.between(&times, None, Some(10_000)).count(), 7);
    }
}
