// SPDX-License-Identifier: Apache-2.0
//! A book of records with bounds that its owners share: each tenant is one, and the domain.
//!
//! In a full book, the oldest record of the owner that has most of what is short leaves: of records, or of octets. The record that comes
//! counts as there. So an owner that writes without end displaces its own records once no other has more than it, and none is displaced
//! that has less than a book's part of each owner. Work is proportional to what leaves, whatever the book has.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use canopy_controller_core::tenant::recorded;

/// Whose a record is; `None`: the domain's.
pub(crate) type Owner = Option<Arc<str>>;

/// How much a book has, at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) records: usize,
    pub(crate) octets: u64,
}

/// Records by their number, which grows: the oldest is the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shares<T> {
    bounds: Bounds,
    records: BTreeMap<u64, Shared<T>>,
    owners: BTreeMap<Owner, Share>,
    /// Owners by how many records they have.
    by_records: BTreeSet<(u64, Owner)>,
    /// Owners by their octets.
    by_octets: BTreeSet<(u64, Owner)>,
    octets: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Shared<T> {
    what: T,
    octets: u32,
    owner: Owner,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Share {
    numbers: BTreeSet<u64>,
    octets: u64,
}

/// What is short.
#[derive(Clone, Copy)]
enum Short {
    Records,
    Octets,
}

/// The owner of what is of this tenant's group; `None`: it is of none.
pub(crate) fn owner(tenant: Option<&str>) -> Owner {
    tenant.map(Arc::from)
}

/// The owner of a record about a group, with what the record has of the tenant.
pub(crate) fn owner_of_group(in_record: Option<&str>) -> Owner {
    owner(Some(recorded(in_record)))
}

impl<T> Shares<T> {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            records: BTreeMap::new(),
            owners: BTreeMap::new(),
            by_records: BTreeSet::new(),
            by_octets: BTreeSet::new(),
            octets: 0,
        }
    }

    /// Adds a record under a number that no other has.
    pub(crate) fn add(&mut self, number: u64, what: T, octets: u32, owner: &Owner) {
        // One allocation for all records of an owner.
        let owner = self.owners.get_key_value(owner).map_or_else(|| owner.clone(), |(known, _)| known.clone());
        self.octets += u64::from(octets);
        self.change(&owner, |share| {
            share.numbers.insert(number);
            share.octets += u64::from(octets);
        });
        self.records.insert(number, Shared { what, octets, owner });
    }

    /// Removes a record.
    pub(crate) fn remove(&mut self, number: u64) -> Option<T> {
        let Shared { what, octets, owner } = self.records.remove(&number)?;
        self.octets -= u64::from(octets);
        self.change(&owner, |share| {
            share.numbers.remove(&number);
            share.octets -= u64::from(octets);
        });
        Some(what)
    }

    /// What is under a number.
    pub(crate) fn get(&self, number: u64) -> Option<&T> {
        self.records.get(&number).map(|record| &record.what)
    }

    /// The oldest record of all.
    pub(crate) fn oldest(&self) -> Option<(u64, &T)> {
        self.records.first_key_value().map(|(number, record)| (*number, &record.what))
    }

    /// The number of the newest record.
    pub(crate) fn last(&self) -> Option<u64> {
        self.records.last_key_value().map(|(number, _)| *number)
    }

    /// Adds to `leaving`, up to `most` in all, what has to leave beside it when a record of `octets` comes.
    pub(crate) fn make_room(&self, leaving: &mut Vec<u64>, most: usize, octets: u32, owner: &Owner) {
        while leaving.len() < most
            && let Some(short) = self.lacks(leaving, octets)
            && let Some(next) = self.next(leaving, short, octets, owner)
        {
            leaving.push(next);
        }
    }

    /// What a record of `octets` has no room for beside all but those that leave.
    fn lacks(&self, leaving: &[u64], octets: u32) -> Option<Short> {
        let freed: u64 = leaving.iter().map(|number| self.octets_of(*number)).sum();
        if self.records.len() + 1 - leaving.len() > self.bounds.records {
            return Some(Short::Records);
        }
        (self.octets - freed + u64::from(octets) > self.bounds.octets).then_some(Short::Octets)
    }

    /// The oldest record of the owner that has most.
    fn next(&self, leaving: &[u64], short: Short, octets: u32, new: &Owner) -> Option<u64> {
        let by = match short {
            Short::Records => &self.by_records,
            Short::Octets => &self.by_octets,
        };
        // Each that leaves makes one owner smaller, so the greatest is among so many, or it is the one whose record comes.
        let most = by.iter().rev().take(leaving.len() + 1).map(|(_, owner)| owner);
        let weighed = most.chain([new]).filter_map(|owner| {
            let share = self.owners.get(owner)?;
            let gone = || leaving.iter().filter(|number| share.numbers.contains(number));
            let comes = owner == new;
            let has = match short {
                Short::Records => share.numbers.len() as u64 + u64::from(comes) - gone().count() as u64,
                Short::Octets => {
                    let gone: u64 = gone().map(|number| self.octets_of(*number)).sum();
                    share.octets + u64::from(if comes { octets } else { 0 }) - gone
                }
            };
            let oldest = share.numbers.iter().find(|number| !leaving.contains(number))?;
            Some((has, std::cmp::Reverse(*oldest)))
        });
        weighed.max().map(|(_, oldest)| oldest.0)
    }

    fn octets_of(&self, number: u64) -> u64 {
        self.records.get(&number).map_or(0, |record| u64::from(record.octets))
    }

    /// Changes an owner's share, and where it is in the order of owners.
    fn change(&mut self, owner: &Owner, change: impl FnOnce(&mut Share)) {
        let mut share = self.owners.remove(owner).unwrap_or_default();
        self.by_records.remove(&(share.numbers.len() as u64, owner.clone()));
        self.by_octets.remove(&(share.octets, owner.clone()));
        change(&mut share);
        if !share.numbers.is_empty() {
            self.by_records.insert((share.numbers.len() as u64, owner.clone()));
            self.by_octets.insert((share.octets, owner.clone()));
            self.owners.insert(owner.clone(), share);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { records: 10, octets: 1000 };

    /// Adds a record, with what it displaces. Returns that.
    fn add(shares: &mut Shares<()>, tenant: &str, octets: u32) -> Vec<u64> {
        let (number, owner, mut leaving) = (shares.last().map_or(0, |last| last + 1), owner(Some(tenant)), Vec::new());
        shares.make_room(&mut leaving, 2, octets, &owner);
        leaving.iter().for_each(|number| shares.remove(*number).unwrap());
        shares.add(number, (), octets, &owner);
        leaving
    }

    fn has(shares: &Shares<()>, tenant: &str) -> usize {
        shares.owners.get(&owner(Some(tenant))).map_or(0, |share| share.numbers.len())
    }

    /// Catches an owner that displaces one with less than it.
    #[test]
    fn who_writes_without_end_displaces_its_own() {
        let mut shares = Shares::new(BOUNDS);
        (0..3).for_each(|_| assert!(add(&mut shares, "quiet", 1).is_empty()));
        (0..100).for_each(|_| _ = add(&mut shares, "loud", 1));
        assert_eq!((has(&shares, "quiet"), has(&shares, "loud")), (3, 7));
        // Who has nothing yet gets its part of who has most, and no more.
        (0..100).for_each(|_| _ = add(&mut shares, "new", 1));
        assert_eq!((has(&shares, "quiet"), has(&shares, "loud"), has(&shares, "new")), (3, 3, 4));
    }

    /// Catches a bound of octets at which the owner of many small records pays for one of large ones.
    #[test]
    fn octets_are_shared_as_records_are() {
        let mut shares = Shares::new(BOUNDS);
        (0..5).for_each(|_| _ = add(&mut shares, "small", 10));
        (0..100).for_each(|_| _ = add(&mut shares, "large", 300));
        assert_eq!((has(&shares, "small"), has(&shares, "large"), shares.octets), (5, 3, 950));
        // One that is greater than what its owner has displaces two, and not itself.
        assert_eq!(add(&mut shares, "other", 900).len(), 2);
    }

    /// Catches an index that is not what the records are, by which another owner would be found.
    #[test]
    fn what_is_removed_leaves_nothing() {
        let mut shares = Shares::new(BOUNDS);
        (0..4).for_each(|i| _ = add(&mut shares, ["a", "b"][i % 2], 7));
        assert_eq!((shares.oldest(), shares.get(3)), (Some((0, &())), Some(&())));
        (0..4).for_each(|number| assert_eq!(shares.remove(number), Some(())));
        assert_eq!((shares.remove(0), shares), (None, Shares::new(BOUNDS)));
    }
}
