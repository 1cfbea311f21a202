// SPDX-License-Identifier: Apache-2.0
//! All groups, by name, by identifier, by label and by host.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use canopy_model::ids::GroupId;

use super::host_index::HostIndex;
use super::labels::LabelIndex;
use crate::member::Member;
use crate::metadata::Selector;
use crate::resource::Group;

/// The groups and their indexes, which always agree.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    by_name: BTreeMap<String, Group>,
    names: HashMap<GroupId, String>,
    labels: LabelIndex,
    hosts: HostIndex,
}

impl Groups {
    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(super) fn get(&self, name: &str) -> Option<&Group> {
        self.by_name.get(name)
    }

    /// A group whose labels, identifier and members the caller does not change.
    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut Group> {
        self.by_name.get_mut(name)
    }

    pub(super) fn name(&self, id: GroupId) -> Option<&str> {
        self.names.get(&id).map(String::as_str)
    }

    pub(super) fn by_id(&self, id: GroupId) -> Option<&Group> {
        self.by_name.get(self.name(id)?)
    }

    /// Puts `new` into the place of the group called `name`, which is returned; `None`: no group has this name.
    pub(super) fn replace(&mut self, name: &str, new: Option<Group>) -> Option<Group> {
        let old = self.by_name.remove(name);
        self.hosts.change(name, old.as_ref().map(|g| &g.members), new.as_ref().map(|g| &g.members));
        if let Some(old) = &old {
            self.labels.remove(name, &old.metadata.labels);
            self.names.remove(&old.allocation.group_id);
        }
        if let Some(new) = new {
            self.labels.insert(name, &new.metadata.labels);
            self.names.insert(new.allocation.group_id, name.to_owned());
            self.by_name.insert(name.to_owned(), new);
        }
        old
    }

    /// Adds a member without any other change of its group; `false` if there is no such group.
    pub(super) fn add_member(&mut self, name: &str, member: Member) -> bool {
        let Some(group) = self.by_name.get_mut(name) else { return false };
        self.hosts.insert(&member.spec.host, name);
        group.members.insert(member.spec.host.clone(), member);
        true
    }

    /// The groups that a host is a member of, in name order.
    pub(super) fn of_host<'a>(&'a self, host: &str) -> impl ExactSizeIterator<Item = &'a str> + use<'a> {
        self.hosts.groups(host)
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
        self.by_name.is_empty() && self.names.is_empty() && self.labels.is_empty() && self.hosts.is_empty()
    }
}
