// SPDX-License-Identifier: Apache-2.0
//! Octets that are held for callers, all together and of each.
//!
//! A caller may hold as much as is left (Choudhury and Hahne, dynamic thresholds for shared buffers): one alone gets a half of the budget,
//! two a third each, and something is always left for the next one. A bound of its own keeps it below that.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// So many octets at once, and at most so many of one source.
#[derive(Clone)]
pub struct Budget<S: Eq + Hash>(Arc<Bounded<S>>);

struct Bounded<S> {
    most: usize,
    most_of_one: usize,
    held: Mutex<Held<S>>,
}

struct Held<S> {
    all: usize,
    by_source: HashMap<S, usize>,
}

/// What one request or answer holds, until it is dropped.
pub struct Account<S: Clone + Eq + Hash> {
    source: S,
    held: usize,
    budget: Budget<S>,
}

/// The budget has no room for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverBudget {
    /// The caller has its share.
    #[error("the caller has {held} octets in flight, and may have {share} now")]
    Own {
        /// What it has.
        held: usize,
        /// What it may have.
        share: usize,
    },
    /// All callers together have what there is.
    #[error("all callers together have {0} octets in flight, which is all that there may be")]
    All(usize),
}

impl<S: Clone + Eq + Hash> Budget<S> {
    /// For so many octets together, and of one source.
    pub fn new(most: usize, most_of_one: usize) -> Self {
        let held = Mutex::new(Held { all: 0, by_source: HashMap::new() });
        Self(Arc::new(Bounded { most, most_of_one, held }))
    }

    /// For something of this source that holds nothing yet.
    pub fn open(&self, source: S) -> Account<S> {
        Account { source, held: 0, budget: self.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, Held<S>> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Clone + Eq + Hash> Account<S> {
    /// Holds so many octets more.
    ///
    /// # Errors
    /// There is no room; what it holds already it keeps.
    pub fn take(&mut self, octets: usize) -> Result<(), OverBudget> {
        let Bounded { most, most_of_one, .. } = *self.budget.0;
        let mut held = self.budget.lock();
        let own = held.by_source.get(&self.source).copied().unwrap_or(0);
        let left = most - held.all;
        if octets > left {
            return Err(OverBudget::All(held.all));
        }
        let share = most_of_one.min(left);
        if own + octets > share {
            return Err(OverBudget::Own { held: own, share });
        }
        held.all += octets;
        held.by_source.insert(self.source.clone(), own + octets);
        self.held += octets;
        Ok(())
    }

    /// Gives back what it holds beyond so many octets.
    pub fn keep(&mut self, octets: usize) {
        let given = self.held.saturating_sub(octets);
        if given == 0 {
            return;
        }
        let mut held = self.budget.lock();
        held.all -= given;
        match held.by_source.get_mut(&self.source) {
            Some(own) if *own > given => *own -= given,
            _ => _ = held.by_source.remove(&self.source),
        }
        self.held -= given;
    }
}

impl<S: Clone + Eq + Hash> Drop for Account<S> {
    fn drop(&mut self) {
        self.keep(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches octets that are never given back, and an account that gives back what another one holds.
    #[test]
    fn what_is_given_back_can_be_taken_again() {
        let budget = Budget::new(100, 60);
        let (mut first, mut second) = (budget.open("a"), budget.open("a"));
        first.take(30).unwrap();
        second.take(10).unwrap();
        assert_eq!(first.take(21), Err(OverBudget::Own { held: 40, share: 60 }));
        drop(first);
        assert_eq!(budget.lock().by_source["a"], 10);
        second.take(30).unwrap();
        second.keep(50);
        second.keep(15);
        {
            let held = budget.lock();
            assert_eq!((held.all, held.by_source["a"]), (15, 15));
        }
        second.keep(0);
        second.keep(0);
        let held = budget.lock();
        assert!(held.all == 0 && held.by_source.is_empty());
    }

    /// Catches a caller that leaves nothing for the others, and many that do so together.
    #[test]
    fn something_is_left_for_the_next_caller() {
        let budget = Budget::new(1 << 20, 1 << 20);
        let mut all: Vec<_> = (0..20).map(|source| budget.open(source)).collect();
        // All take what they get, octet by octet in large steps, again and again.
        for _ in 0..1000 {
            all.iter_mut().for_each(|account| _ = account.take(1000));
        }
        let mut next = budget.open(20);
        next.take(30_000).unwrap();
        assert_eq!(next.take(1 << 20), Err(OverBudget::All(budget.lock().all)));
        drop(all);
        let mut alone = budget.open(21);
        while alone.take(1000).is_ok() {}
        assert!((490_000..=524_288).contains(&alone.held), "{}", alone.held);
    }
}
