// SPDX-License-Identifier: Apache-2.0
//! All groups, by name, by identifier, by label and by host.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;

use canopy_model::ids::GroupId;
use canopy_model::member::Role;

use super::host_index::HostIndex;
use super::labels::LabelIndex;
use super::paging::{self, Found, GroupFilter};
use crate::fields::GroupField;
use crate::member::Member;
use crate::resource::Group;

/// The groups and their indexes, which always agree.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    by_name: BTreeMap<String, Group>,
    names: HashMap<GroupId, String>,
    labels: LabelIndex,
    hosts: HostIndex,
    /// Those that are being deleted.
    deleting: BTreeSet<String>,
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
            self.deleting.remove(name);
        }
        if let Some(new) = new {
            self.labels.insert(name, &new.metadata.labels);
            self.names.insert(new.allocation.group_id, name.to_owned());
            if new.deleting {
                self.deleting.insert(name.to_owned());
            }
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

    /// Names of those that are being deleted.
    pub(super) fn deleting(&self) -> impl Iterator<Item = &str> {
        self.deleting.iter().map(String::as_str)
    }

    /// Those with members, in name order.
    pub(super) fn with_members(&self) -> impl Iterator<Item = (&String, &Group)> {
        self.iter().filter(|(_, g)| !g.members.is_empty())
    }

    /// One page of the groups that a filter lets pass, in name order, behind the name `after`. Their phases are not examined.
    pub(super) fn matching<'a>(
        &'a self,
        filter: &'a GroupFilter,
        after: Option<&str>,
        limit: usize,
        most: usize,
    ) -> Found<&'a Group> {
        let from = (filter.begin(after), Bound::Unbounded);
        let in_order: Box<dyn Iterator<Item = &str>> = match self.labels.candidates(&filter.labels) {
            Some(names) => Box::new(names.range::<str, _>(from).map(String::as_str)),
            None => Box::new(self.by_name.range::<str, _>(from).map(|(name, _)| name.as_str())),
        };
        self.among(in_order.take_while(|name| name.starts_with(&filter.prefix)), filter, limit, most)
    }

    /// The same of `names`, which are in order.
    pub(super) fn among<'a, 'n>(
        &'a self,
        names: impl Iterator<Item = &'n str>,
        filter: &GroupFilter,
        limit: usize,
        most: usize,
    ) -> Found<&'a Group> {
        paging::page(names, limit, most, |name| self.by_name.get(name).filter(|group| passes(filter, group)))
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
            && self.names.is_empty()
            && self.labels.is_empty()
            && self.hosts.is_empty()
            && self.deleting.is_empty()
    }
}

fn passes(filter: &GroupFilter, group: &Group) -> bool {
    let source = || group.present(Role::Source).next().map_or("", |member| member.spec.host.as_str());
    let metadata = &group.metadata;
    filter.labels.matches(&metadata.labels)
        && filter.fields.allows(GroupField::Name, &metadata.name)
        && filter.fields.allows(GroupField::Tenant, &metadata.tenant)
        && (!filter.fields.requires(GroupField::Source) || filter.fields.allows(GroupField::Source, source()))
}
