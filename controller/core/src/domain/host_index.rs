// SPDX-License-Identifier: Apache-2.0
//! Index of groups by the hosts that are their members, so that what concerns a host does not scan every group.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};

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

    /// The members of a group are `new` and were `old`; `None`: there is no group. Both are read in their order once, and only what differs
    /// costs more than a comparison.
    pub(super) fn change(&mut self, group: &str, old: Option<&Members>, new: Option<&Members>) {
        let mut old = old.into_iter().flat_map(Members::keys).peekable();
        let mut new = new.into_iter().flat_map(Members::keys).peekable();
        loop {
            let order = match (old.peek(), new.peek()) {
                (None, None) => return,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(old), Some(new)) => old.cmp(new),
            };
            let left = old.next_if(|_| order.is_le());
            let joined = new.next_if(|_| order.is_ge());
            match (left, joined) {
                (Some(host), None) => self.remove(host, group),
                (None, Some(host)) => self.insert(host, group),
                _ => {}
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
