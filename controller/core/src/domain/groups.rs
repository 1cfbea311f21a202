// SPDX-License-Identifier: Apache-2.0
//! All groups, by name, by identifier and by label.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use canopy_model::ids::GroupId;

use super::labels::LabelIndex;
use crate::metadata::Selector;
use crate::resource::Group;

/// The groups and their indexes, which always agree.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    by_name: BTreeMap<String, Group>,
    names: HashMap<GroupId, String>,
    labels: LabelIndex,
}

impl Groups {
    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(super) fn get(&self, name: &str) -> Option<&Group> {
        self.by_name.get(name)
    }

    /// A group whose labels and identifier the caller does not change.
    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut Group> {
        self.by_name.get_mut(name)
    }

    pub(super) fn name(&self, id: GroupId) -> Option<&str> {
        self.names.get(&id).map(String::as_str)
    }

    pub(super) fn by_id(&self, id: GroupId) -> Option<&Group> {
        self.by_name.get(self.name(id)?)
    }

    /// Adds a group; one of the same name must have been removed.
    pub(super) fn insert(&mut self, group: Group) {
        let name = group.metadata.name.clone();
        self.labels.insert(&name, &group.metadata.labels);
        self.names.insert(group.allocation.group_id, name.clone());
        self.by_name.insert(name, group);
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<Group> {
        let group = self.by_name.remove(name)?;
        self.labels.remove(name, &group.metadata.labels);
        self.names.remove(&group.allocation.group_id);
        Some(group)
    }

    /// All, in name order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&String, &Group)> {
        self.by_name.iter()
    }

    /// Those with members, in name order.
    pub(super) fn with_members(&self) -> impl Iterator<Item = (&String, &Group)> {
        self.iter().filter(|(_, g)| !g.members.is_empty())
    }

    /// Up to `limit` groups that `selector` matches, in name order, behind the name `after`.
    pub(super) fn matching<'a>(&'a self, selector: &'a Selector, after: Option<&str>, limit: usize) -> Vec<&'a Group> {
        let from = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let in_order: Box<dyn Iterator<Item = &Group>> = match self.labels.candidates(selector) {
            Some(names) => Box::new(names.range::<str, _>(from).filter_map(|n| self.by_name.get(n))),
            None => Box::new(self.by_name.range::<str, _>(from).map(|(_, g)| g)),
        };
        in_order.filter(|g| selector.matches(&g.metadata.labels)).take(limit).collect()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.by_name.is_empty() && self.names.is_empty() && self.labels.is_empty()
    }
}
