// SPDX-License-Identifier: Apache-2.0
//! Index of groups by tenant, so that what one tenant sees costs what it has, whatever the others have.

use std::collections::btree_set::Range;
use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;
use std::ops::Bound;
use std::sync::Arc;

use crate::view::TenantUsage;

/// For each tenant with groups: their names, and how many receivers they have.
#[derive(Clone, Debug, Default)]
pub(super) struct TenantIndex(BTreeMap<String, Owned>);

#[derive(Clone, Debug, Default)]
struct Owned {
    groups: BTreeSet<Arc<str>>,
    receivers: usize,
}

impl TenantIndex {
    /// Adds a group with so many receivers.
    pub(super) fn insert(&mut self, tenant: &str, name: Arc<str>, receivers: usize) {
        let owned = match self.0.get_mut(tenant) {
            Some(owned) => owned,
            None => self.0.entry(tenant.to_owned()).or_default(),
        };
        owned.groups.insert(name);
        owned.receivers += receivers;
    }

    /// Removes a group with so many receivers.
    pub(super) fn remove(&mut self, tenant: &str, name: &str, receivers: usize) {
        let Some(owned) = self.0.get_mut(tenant) else { return };
        owned.groups.remove(name);
        owned.receivers -= receivers;
        if owned.groups.is_empty() {
            self.0.remove(tenant);
        }
    }

    /// A group of this tenant has one more receiver.
    pub(super) fn receiver_joined(&mut self, tenant: &str) {
        if let Some(owned) = self.0.get_mut(tenant) {
            owned.receivers += 1;
        }
    }

    /// What a tenant has; nothing of one that is not known.
    pub(super) fn usage(&self, tenant: &str) -> TenantUsage {
        let owned = self.0.get(tenant);
        TenantUsage {
            groups: owned.map_or(0, |owned| owned.groups.len()),
            receivers: owned.map_or(0, |owned| owned.receivers),
        }
    }

    /// Tenants with groups, in name order, behind the name `after`.
    pub(super) fn behind(&self, after: Option<&str>) -> impl Iterator<Item = (&str, TenantUsage)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let range = self.0.range::<str, _>((from, Bound::Unbounded));
        range.map(|(name, owned)| {
            (name.as_str(), TenantUsage { groups: owned.groups.len(), receivers: owned.receivers })
        })
    }

    /// The names of the groups of these tenants, in order, from there on.
    pub(super) fn names<'a>(
        &'a self,
        tenants: &mut dyn Iterator<Item = &str>,
        from: Bound<&str>,
    ) -> impl Iterator<Item = &'a str> + use<'a> {
        let ranges = tenants.filter_map(|tenant| self.0.get(tenant));
        let mut ranges: Vec<Peekable<Range<'a, Arc<str>>>> =
            ranges.map(|owned| owned.groups.range::<str, _>((from, Bound::Unbounded)).peekable()).collect();
        // A caller has roles in a few tenants.
        std::iter::from_fn(move || {
            let heads = ranges.iter_mut().enumerate().filter_map(|(at, range)| Some((*range.peek()?, at)));
            let (_, at) = heads.min()?;
            ranges[at].next().map(|name| &**name)
        })
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a name that is left out where two tenants' names alternate, and one of a third.
    #[test]
    fn names_of_several_tenants_are_in_order() {
        let mut index = TenantIndex::default();
        for (tenant, name) in [("a", "g1"), ("b", "g2"), ("a", "g3"), ("c", "g4"), ("b", "g5"), ("b", "g6")] {
            index.insert(tenant, name.into(), 2);
        }
        let names =
            |tenants: &[&str], from| index.names(&mut tenants.iter().copied(), from).collect::<Vec<_>>().join(" ");
        assert_eq!(names(&["a", "b"], Bound::Unbounded), "g1 g2 g3 g5 g6");
        assert_eq!(names(&["b", "a"], Bound::Excluded("g2")), "g3 g5 g6");
        assert_eq!(names(&["c", "none"], Bound::Included("g4")), "g4");
        assert_eq!(names(&[], Bound::Unbounded), "");
        assert_eq!(index.usage("b"), TenantUsage { groups: 3, receivers: 6 });
        assert_eq!(index.behind(Some("a")).map(|(name, _)| name).collect::<Vec<_>>(), ["b", "c"]);
        for name in ["g2", "g5", "g6"] {
            index.remove("b", name, 2);
        }
        assert_eq!(index.usage("b"), TenantUsage::default());
        assert_eq!(index.behind(None).count(), 2);
    }
}
