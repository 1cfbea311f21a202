// SPDX-License-Identifier: Apache-2.0
//! Index of groups by the hosts that are their members, so that what concerns a host does not scan every group.

use std::collections::{BTreeSet, HashMap};

use imbl::ordmap::DiffItem;

use crate::member::Members;

/// For each host that is a member of a group: the names of its groups.
#[derive(Clone, Debug, Default)]
pub(super) struct HostIndex(HashMap<String, BTreeSet<String>>);

impl HostIndex {
    pub(super) fn insert(&mut self, host: &str, group: &str) {
        self.0.entry(host.to_owned()).or_default().insert(group.to_owned());
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
    pub(super) fn change(&mut self, group: &str, old: &Members, new: &Members) {
        for change in old.diff(new) {
            match change {
                DiffItem::Add(host, _) => self.insert(host, group),
                DiffItem::Remove(host, _) => self.remove(host, group),
                DiffItem::Update { .. } => {}
            }
        }
    }

    /// In name order.
    pub(super) fn groups<'a>(&'a self, host: &str) -> impl ExactSizeIterator<Item = &'a str> + use<'a> {
        static NONE: BTreeSet<String> = BTreeSet::new();
        self.0.get(host).unwrap_or(&NONE).iter().map(String::as_str)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
