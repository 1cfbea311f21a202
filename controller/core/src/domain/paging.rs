// SPDX-License-Identifier: Apache-2.0
//! Pages of a list under a filter.

use std::ops::Bound;

use crate::fields::{FieldSelector, GroupField};
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

/// Items of a page, and the name behind which the next one begins.
pub(super) struct Found<T> {
    pub(super) items: Vec<T>,
    pub(super) next: Option<String>,
}

/// Takes up to `limit` of `candidates`, in name order, that `read` does not leave out; examines `most` of them.
pub(super) fn page<'a, T>(
    candidates: impl Iterator<Item = &'a str>,
    limit: usize,
    most: usize,
    read: impl Fn(&'a str) -> Option<T>,
) -> Found<T> {
    let mut items = Vec::new();
    let (mut last_taken, mut last_examined) = (None, None);
    for (examined, name) in candidates.enumerate() {
        if examined == most {
            let next = last_examined.map(str::to_owned);
            return Found { items, next };
        }
        last_examined = Some(name);
        let Some(item) = read(name) else { continue };
        if items.len() == limit {
            return Found { items, next: last_taken.map(str::to_owned) };
        }
        items.push(item);
        last_taken = Some(name);
    }
    Found { items, next: None }
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
                    assert!(found.items.len() <= limit && examined.get() <= most, "{limit} {most} {nth}");
                    all.extend(found.items);
                    match found.next {
                        Some(next) => after = next,
                        None => break,
                    }
                }
                let wanted: Vec<&str> = names.iter().map(String::as_str).filter(|name| passes(name)).collect();
                assert_eq!(all, wanted, "{limit} {most} {nth}");
            }
        }
        let found = page(["a", "b"].into_iter(), 2, 2, Some);
        assert_eq!((found.items, found.next), (vec!["a", "b"], None));
    }
}
