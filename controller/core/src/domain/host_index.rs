// SPDX-License-Identifier: Apache-2.0
//! Index of groups by the hosts that are their members, so that what concerns a host does not scan every group.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::member::Members;

/// For each host that is a member of a group: the names of its groups.
#[derive(Clone, Debug, Default)]
pub(super) struct HostIndex(HashMap<Arc<str>, BTreeSet<Arc<str>>>);

impl HostIndex {
    pub(super) fn insert(&mut self, host: &Arc<str>, group: &Arc<str>) {
        self.0.entry(Arc::clone(host)).or_default().insert(Arc::clone(group));
    }

    fn remove(&mut self, host: &str, group: &str) {
        if let Some(groups) = self.0.get_mut(host) {
            groups.remove(group);
            if groups.is_empty() {
                self.0.remove(host);
            }
        }
    }

    /// The members of a group are `new` and were `old`. Costs what differs.
    pub(super) fn change(&mut self, group: &Arc<str>, old: &Members, new: &Members) {
        for (host, is_new) in old.changed(new) {
            if is_new {
                self.insert(host, group);
            } else {
                self.remove(host, group);
            }
        }
    }

    /// The hosts that are members of a group, in no order.
    pub(super) fn hosts(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(AsRef::as_ref)
    }

    /// In name order.
    pub(super) fn groups<'a>(&'a self, host: &str) -> impl ExactSizeIterator<Item = &'a str> + use<'a> {
        static NONE: BTreeSet<Arc<str>> = BTreeSet::new();
        self.0.get(host).unwrap_or(&NONE).iter().map(AsRef::as_ref)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
