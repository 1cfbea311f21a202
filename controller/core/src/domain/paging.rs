// SPDX-License-Identifier: Apache-2.0
//! Pages of a list under a filter.

use std::ops::Bound;

use crate::fields::{Field, FieldSelector, GroupField};
use crate::selector::Selector;
use crate::tenant::Scope;

/// Names that one page examines, at most. Behind so many, a page ends before it is full, with the name at which the next one continues: a
/// filter that lets almost nothing pass costs many short pages instead of one that keeps writers waiting.
pub const EXAMINED: usize = 20_000;

/// Which groups a list has. The default has all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupFilter {
    /// By who may see them: a page has no name of another group, and costs none.
    pub scope: Scope,
    /// By their labels.
    pub labels: Selector,
    /// By their fields.
    pub fields: FieldSelector<GroupField>,
    /// By the beginning of their names.
    pub prefix: String,
}

impl GroupFilter {
    /// Where a page begins: at the prefix, or behind `after` if that is further on.
    pub fn begin<'a>(&'a self, after: Option<&'a str>) -> Bound<&'a str> {
        match after {
            Some(after) if after >= self.prefix.as_str() => Bound::Excluded(after),
            _ => Bound::Included(&self.prefix),
        }
    }

    /// The tenants whose groups it has, if it names them.
    pub(super) fn tenants(&self) -> Option<Box<dyn Iterator<Item = &str> + '_>> {
        match &self.scope {
            Scope::Tenants(tenants) => Some(Box::new(tenants.iter().map(String::as_str))),
            Scope::Domain => {
                let one = self.fields.required(GroupField::Tenant)?;
                Some(Box::new(std::iter::once(one)))
            }
        }
    }

    /// True if another index than that of phases finds what it has.
    pub fn is_indexed(&self) -> bool {
        self.labels.has_equality() || self.tenants().is_some()
    }

    /// True if it compares nothing but phases, behind the prefix.
    pub fn is_of_phases(&self) -> bool {
        self.labels.is_empty() && self.fields.is_only(GroupField::Phase)
    }
}

/// Which nodes or hosts a list has. The default has all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameFilter<F> {
    /// By their fields.
    pub fields: FieldSelector<F>,
    /// By their labels; hosts have none.
    pub labels: Selector,
    /// By a part of their names, which are in small letters; empty for any.
    pub contains: String,
}

impl<F> Default for NameFilter<F> {
    fn default() -> Self {
        Self { fields: FieldSelector::default(), labels: Selector::default(), contains: String::new() }
    }
}

impl<F: Field> NameFilter<F> {
    /// The names among which a page of up to `limit` finds its own, in order: those behind `after`, and one more than it examines, so that
    /// it knows whether there is a next one. `names` are in any order.
    pub(super) fn begin<'a>(
        &self,
        names: impl Iterator<Item = &'a str>,
        after: Option<&str>,
        limit: usize,
    ) -> Vec<&'a str> {
        let is_wanted = |name: &&str| after.is_none_or(|after| *name > after) && name.contains(&*self.contains);
        let mut names: Vec<&str> = names.filter(is_wanted).collect();
        let enough = if self.fields.is_empty() && self.labels.is_empty() { limit } else { EXAMINED } + 1;
        if names.len() > enough {
            names.select_nth_unstable(enough);
            names.truncate(enough);
        }
        names.sort_unstable();
        names
    }
}

/// Items of a page of groups, and the name behind which the next one begins.
pub(super) struct Found<T> {
    pub(super) items: Vec<T>,
    pub(super) next: Option<String>,
}

/// Takes up to `limit` of `candidates`, in order, that `read` does not leave out; examines `most` of them. Returns them, and the candidate
/// behind which the next page begins.
pub(super) fn page<C: Copy, T>(
    candidates: impl Iterator<Item = C>,
    limit: usize,
    most: usize,
    read: impl Fn(C) -> Option<T>,
) -> (Vec<T>, Option<C>) {
    let mut items = Vec::new();
    let (mut last_taken, mut last_examined) = (None, None);
    for (examined, candidate) in candidates.enumerate() {
        if examined == most {
            return (items, last_examined);
        }
        last_examined = Some(candidate);
        let Some(item) = read(candidate) else { continue };
        if items.len() == limit {
            return (items, last_taken);
        }
        items.push(item);
        last_taken = Some(candidate);
    }
    (items, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches an item that two pages have or none, a page that examines more than it may, and a token behind the last item.
    #[test]
    fn pages_have_every_item_once_whatever_is_left_out() {
        let names: Vec<String> = (0..100).map(|i| format!("g{i:02}")).collect();
        for (limit, most) in [(1, 7), (3, 7), (7, 7), (10, 100), (100, 1000), (2, 1)] {
            for nth in [1, 3, 50, 1000] {
                let passes = |name: &str| name[1..].parse::<usize>().unwrap() % nth == nth / 2;
                let (mut after, mut all) = (String::new(), Vec::new());
                loop {
                    let examined = std::cell::Cell::new(0);
                    let behind = names.iter().map(String::as_str).filter(|name| **name > *after);
                    let found = page(behind, limit, most, |name| {
                        examined.set(examined.get() + 1);
                        passes(name).then_some(name)
                    });
                    assert!(found.0.len() <= limit && examined.get() <= most, "{limit} {most} {nth}");
                    all.extend(found.0);
                    match found.1 {
                        Some(next) => after = next.to_owned(),
                        None => break,
                    }
                }
                let wanted: Vec<&str> = names.iter().map(String::as_str).filter(|name| passes(name)).collect();
                assert_eq!(all, wanted, "{limit} {most} {nth}");
            }
        }
        let found = page(["a", "b"].into_iter(), 2, 2, Some);
        assert_eq!(found, (vec!["a", "b"], None));
    }
}
