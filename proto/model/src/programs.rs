// SPDX-License-Identifier: Apache-2.0
//! The programs of a node's groups: two versions share what they have in common.

// Circle: a node's spec holds its programs, and this is a map of what the spec's file defines.

use std::ops::Bound;
use std::sync::Arc;

use imbl::OrdMap;
use imbl::ordmap::DiffItem;

use crate::ids::GroupId;
use crate::node_spec::GroupProgram;

/// Programs by their groups' identifiers. A clone costs nothing, and finding what differs between two that have a common origin costs
/// what differs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Programs(OrdMap<GroupId, Arc<GroupProgram>>);

impl Programs {
    /// The program of a group.
    pub fn get(&self, id: &GroupId) -> Option<&GroupProgram> {
        self.0.get(id).map(AsRef::as_ref)
    }

    /// Whether a group has a program.
    pub fn contains_key(&self, id: &GroupId) -> bool {
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
    pub fn keys(&self) -> impl Iterator<Item = &GroupId> {
        self.0.keys()
    }

    /// The programs in the order of their groups' identifiers.
    pub fn values(&self) -> impl Iterator<Item = &GroupProgram> {
        self.0.values().map(AsRef::as_ref)
    }

    /// Groups and programs in the order of the groups' identifiers.
    pub fn iter(&self) -> impl Iterator<Item = (&GroupId, &GroupProgram)> {
        self.0.iter().map(|(id, program)| (id, program.as_ref()))
    }

    /// The same of the groups behind this one; of all if it is `None`.
    pub fn after(&self, id: Option<GroupId>) -> impl Iterator<Item = (&GroupId, &GroupProgram)> + Send {
        let behind = id.map_or(Bound::Unbounded, Bound::Excluded);
        self.0.range((behind, Bound::Unbounded)).map(|(id, program)| (id, program.as_ref()))
    }

    /// Adds or replaces a program.
    pub fn insert(&mut self, id: GroupId, program: GroupProgram) {
        self.0.insert(id, Arc::new(program));
    }

    /// Removes a program, and returns it.
    pub fn remove(&mut self, id: &GroupId) -> Option<Arc<GroupProgram>> {
        self.0.remove(id)
    }

    /// Removes the program of the group with the lowest identifier, and returns it.
    pub fn pop_first(&mut self) -> Option<Arc<GroupProgram>> {
        let id = self.0.get_min().map(|(id, _)| *id)?;
        self.remove(&id)
    }

    /// Removes every program for which `keep` is false.
    pub fn retain(&mut self, keep: impl Fn(&GroupId, &GroupProgram) -> bool) {
        let gone: Vec<GroupId> = self.iter().filter(|(id, program)| !keep(id, program)).map(|(id, _)| *id).collect();
        gone.iter().for_each(|id| drop(self.remove(id)));
    }

    /// Removes every program.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The program of a group, to change it.
    pub fn get_mut(&mut self, id: &GroupId) -> Option<&mut GroupProgram> {
        self.0.get_mut(id).map(Arc::make_mut)
    }

    /// Changes every program.
    pub fn for_each_mut(&mut self, mut change: impl FnMut(&mut GroupProgram)) {
        let all: Vec<GroupId> = self.keys().copied().collect();
        for id in all {
            if let Some(program) = self.get_mut(&id) {
                change(program);
            }
        }
    }

    /// The groups whose programs differ from those of `before`, with the programs that they have now.
    pub fn changed_since<'a>(
        &'a self,
        before: &'a Self,
    ) -> impl Iterator<Item = (GroupId, Option<&'a GroupProgram>)> + 'a {
        before.0.diff(&self.0).map(|change| match change {
            DiffItem::Add(id, program) | DiffItem::Update { new: (id, program), .. } => (*id, Some(program.as_ref())),
            DiffItem::Remove(id, _) => (*id, None),
        })
    }
}

impl FromIterator<(GroupId, GroupProgram)> for Programs {
    fn from_iter<T: IntoIterator<Item = (GroupId, GroupProgram)>>(all: T) -> Self {
        Self(all.into_iter().map(|(id, program)| (id, Arc::new(program))).collect())
    }
}

impl<const N: usize> From<[(GroupId, GroupProgram); N]> for Programs {
    fn from(all: [(GroupId, GroupProgram); N]) -> Self {
        all.into_iter().collect()
    }
}
