// SPDX-License-Identifier: Apache-2.0
//! All groups, by name, by identifier, by label, by host, by tenant and by the links of their trees.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use canopy_model::ids::GroupId;
use canopy_model::member::Role;

use super::host_index::HostIndex;
use super::labels::LabelIndex;
use super::paging::{self, Found, GroupFilter};
use super::tenant_index::TenantIndex;
use super::tree_index::TreeIndex;
use crate::fields::GroupField;
use crate::member::Member;
use crate::resource::{Behind, Group, GroupState};

/// The groups and their indexes, which always agree.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    by_name: BTreeMap<Arc<str>, Group>,
    names: HashMap<GroupId, Arc<str>>,
    labels: LabelIndex,
    hosts: HostIndex,
    tenants: TenantIndex,
    trees: TreeIndex,
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

    /// A group whose labels, identifier, members and tree the caller does not change.
    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut Group> {
        self.by_name.get_mut(name)
    }

    pub(super) fn name(&self, id: GroupId) -> Option<&str> {
        self.names.get(&id).map(|name| &**name)
    }

    pub(super) fn by_id(&self, id: GroupId) -> Option<&Group> {
        self.by_name.get(self.name(id)?)
    }

    /// Puts `new` into the place of the group called `name`, which is returned; `None`: no group has this name.
    pub(super) fn replace(&mut self, name: &str, new: Option<Group>) -> Option<Group> {
        let (shared, old) = match self.by_name.remove_entry(name) {
            Some((name, old)) => (name, Some(old)),
            None => (name.into(), None),
        };
        let members = |group: &Option<Group>| group.as_ref().map(|group| group.members.clone()).unwrap_or_default();
        self.hosts.change(&shared, &members(&old), &members(&new));
        self.trees.change(old.as_ref(), new.as_ref());
        if let Some(old) = &old {
            self.labels.remove(name, &old.metadata.labels);
            self.tenants.remove(&old.metadata.tenant, name, receivers(old));
            self.names.remove(&old.allocation.group_id);
            self.deleting.remove(name);
        }
        if let Some(new) = new {
            self.labels.insert(name, &new.metadata.labels);
            self.tenants.insert(&new.metadata.tenant, shared.clone(), receivers(&new));
            self.names.insert(new.allocation.group_id, shared.clone());
            if new.deleting {
                self.deleting.insert(name.to_owned());
            }
            self.by_name.insert(shared, new);
        }
        old
    }

    /// Adds a member without any other change of its group; `false` if there is no such group.
    pub(super) fn add_member(&mut self, name: &str, member: Member) -> bool {
        let Some(group) = self.by_name.get_mut(name) else { return false };
        // A group that is there has its name there.
        if let Some(name) = self.names.get(&group.allocation.group_id) {
            self.hosts.insert(&member.host, name);
        }
        if member.role == Role::Receiver {
            self.tenants.receiver_joined(&group.metadata.tenant);
        }
        group.members.insert(member);
        true
    }

    /// Gives a group another tree, or none, without any other change; `false` if there is no such group.
    pub(super) fn replan(
        &mut self,
        name: &str,
        epoch: u32,
        displaced: u32,
        state: GroupState,
        behind: Option<Behind>,
    ) -> bool {
        let Some(group) = self.by_name.get_mut(name) else { return false };
        self.trees.change(Some(&*group), None);
        (group.epoch, group.displaced) = (epoch, displaced);
        group.moved = group.moved.max(state.moved(epoch));
        (group.state, group.behind) = (state, behind);
        self.trees.change(None, Some(&*group));
        true
    }

    /// The groups by the links of their trees.
    pub(super) fn trees(&self) -> &TreeIndex {
        &self.trees
    }

    /// What tenants have.
    pub(super) fn tenants(&self) -> &TenantIndex {
        &self.tenants
    }

    /// The hosts that are members of a group, in no order.
    pub(super) fn hosts(&self) -> impl Iterator<Item = &str> {
        self.hosts.hosts()
    }

    /// The groups that a host is a member of, in name order.
    pub(super) fn of_host<'a>(&'a self, host: &str) -> impl ExactSizeIterator<Item = &'a str> + use<'a> {
        self.hosts.groups(host)
    }

    /// All, in name order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Group)> {
        self.by_name.iter().map(|(name, group)| (name.as_ref(), group))
    }

    /// Names of those that are being deleted.
    pub(super) fn deleting(&self) -> impl Iterator<Item = &str> {
        self.deleting.iter().map(String::as_str)
    }

    /// Those with members, in name order.
    pub(super) fn with_members(&self) -> impl Iterator<Item = (&str, &Group)> {
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
        let in_order: Box<dyn Iterator<Item = &str>> = match (filter.tenants(), self.labels.candidates(&filter.labels))
        {
            // Before labels: a page that ends behind a name that it leaves out shows that name.
            (Some(mut tenants), _) => Box::new(self.tenants.names(&mut tenants, from.0)),
            (None, Some(names)) => Box::new(names.range::<str, _>(from).map(String::as_str)),
            (None, None) => Box::new(self.by_name.range::<str, _>(from).map(|(name, _)| name.as_ref())),
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
        let read = |name| self.by_name.get(name).filter(|group| passes(filter, group));
        let (items, next) = paging::page(names, limit, most, read);
        Found { items, next: next.map(str::to_owned) }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
            && self.names.is_empty()
            && self.labels.is_empty()
            && self.hosts.is_empty()
            && self.tenants.is_empty()
            && self.trees.is_empty()
            && self.deleting.is_empty()
    }
}

fn passes(filter: &GroupFilter, group: &Group) -> bool {
    let source = || group.present(Role::Source).next().map_or("", |member| member.host.as_ref());
    let metadata = &group.metadata;
    filter.scope.has(&metadata.tenant)
        && filter.labels.matches(&metadata.labels)
        && filter.fields.allows(GroupField::Name, &metadata.name)
        && filter.fields.allows(GroupField::Tenant, &metadata.tenant)
        && (!filter.fields.requires(GroupField::Source) || filter.fields.allows(GroupField::Source, source()))
}

/// Members with the role of a receiver, also those of a session that has ended.
fn receivers(group: &Group) -> usize {
    group.members.iter().filter(|member| member.role == Role::Receiver).count()
}
