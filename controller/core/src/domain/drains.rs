// SPDX-License-Identifier: Apache-2.0
//! Drains by name, and in the order in which they end.

use std::collections::{BTreeMap, BTreeSet};

use canopy_model::drain::DrainTarget;
use canopy_units::UnixTime;

use crate::resource::Drain;

/// What operators take out of service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Drains {
    by_name: BTreeMap<String, Drain>,
    /// Of those that end by themselves.
    by_end: BTreeSet<(UnixTime, String)>,
}

impl Drains {
    pub(super) fn get(&self, name: &str) -> Option<&Drain> {
        self.by_name.get(name)
    }

    /// In name order.
    pub(super) fn all(&self) -> impl Iterator<Item = &Drain> {
        self.by_name.values()
    }

    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Adds a drain, or replaces the one of its name.
    pub(super) fn insert(&mut self, drain: Drain) {
        let name = drain.metadata.name.clone();
        self.remove(&name);
        self.by_end.extend(drain.spec.until.map(|until| (until, name.clone())));
        self.by_name.insert(name, drain);
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<Drain> {
        let drain = self.by_name.remove(name)?;
        if let Some(until) = drain.spec.until {
            self.by_end.remove(&(until, name.to_owned()));
        }
        Some(drain)
    }

    /// The links and nodes that they name.
    pub(super) fn targets(&self) -> Vec<DrainTarget<'_>> {
        self.all().filter_map(|drain| drain.spec.target()).collect()
    }

    /// The drain that ends first, and when.
    pub(super) fn next_end(&self) -> Option<(UnixTime, &str)> {
        self.by_end.first().map(|(until, name)| (*until, name.as_str()))
    }
}
