// SPDX-License-Identifier: Apache-2.0
//! Index of groups by label, so that a selector with an equality does not scan every group.

use std::collections::{BTreeSet, HashMap};

use crate::metadata::Labels;
use crate::selector::Selector;

/// For each (key, value): the names of the groups with that label.
#[derive(Clone, Debug, Default)]
pub(crate) struct LabelIndex(HashMap<(String, String), BTreeSet<String>>);

impl LabelIndex {
    /// Adds the labels of `name`.
    pub(crate) fn insert(&mut self, name: &str, labels: &Labels) {
        for (key, value) in labels {
            self.0.entry((key.clone(), value.clone())).or_default().insert(name.to_owned());
        }
    }

    /// Removes the labels of `name`.
    pub(crate) fn remove(&mut self, name: &str, labels: &Labels) {
        for (key, value) in labels {
            let entry = (key.clone(), value.clone());
            if let Some(names) = self.0.get_mut(&entry) {
                names.remove(name);
                if names.is_empty() {
                    self.0.remove(&entry);
                }
            }
        }
    }

    /// The shortest list of names that contains all matches; `None` if `selector` has no equality and needs a scan.
    pub(crate) fn candidates(&self, selector: &Selector) -> Option<&BTreeSet<String>> {
        static NONE: BTreeSet<String> = BTreeSet::new();
        selector
            .equalities()
            .map(|(k, v)| self.0.get(&(k.to_owned(), v.to_owned())).unwrap_or(&NONE))
            .min_by_key(|names| names.len())
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
