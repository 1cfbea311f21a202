// SPDX-License-Identifier: Apache-2.0
//! Bounds on what known callers have at once: so many together, and fewer of one source, so that one that opens many does not keep others out.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Places for connections, calls or streams; a source is an address, a user, or the key of a certificate.
#[derive(Clone)]
pub struct Places<S: Eq + Hash>(Arc<Bounded<S>>);

struct Bounded<S> {
    /// At once, of all sources.
    most: usize,
    /// At once, of one source.
    most_of_one: usize,
    taken: Mutex<Taken<S>>,
}

struct Taken<S> {
    all: usize,
    by_source: HashMap<S, usize>,
}

/// A place that is taken until it is dropped.
pub struct Place<S: Eq + Hash> {
    source: S,
    places: Places<S>,
}

impl<S: Clone + Eq + Hash> Places<S> {
    /// Of all sources together, and of one.
    pub fn new(most: usize, most_of_one: usize) -> Self {
        let taken = Mutex::new(Taken { all: 0, by_source: HashMap::new() });
        Self(Arc::new(Bounded { most, most_of_one, taken }))
    }

    /// A place for something of this source; `None` if there is none.
    pub fn take(&self, source: S) -> Option<Place<S>> {
        let mut taken = self.lock();
        let own = taken.by_source.get(&source).copied().unwrap_or(0);
        if taken.all >= self.0.most || own >= self.0.most_of_one {
            return None;
        }
        taken.all += 1;
        taken.by_source.insert(source.clone(), own + 1);
        drop(taken);
        Some(Place { source, places: self.clone() })
    }
}

impl<S: Eq + Hash> Places<S> {
    fn lock(&self) -> MutexGuard<'_, Taken<S>> {
        self.0.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Eq + Hash> Drop for Place<S> {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
        taken.all -= 1;
        match taken.by_source.get_mut(&self.source) {
            Some(own) if *own > 1 => *own -= 1,
            _ => _ = taken.by_source.remove(&self.source),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::network;
    use super::*;

    #[test]
    fn one_source_does_not_take_the_places_of_others() {
        let places = Places::new(100, 4);
        let at = |text: &str| places.take(network(text.parse().unwrap()));
        // The mapped form of an IPv4 address is that address.
        let mut held: Vec<_> = (0..4).map(|i| at(&format!("2001:db8::{i:x}")).unwrap()).collect();
        assert!(at("2001:db8::ffff:1").is_none() && at("2001:db8:0:1::1").is_some());
        held.extend((0..4).map(|_| at("192.0.2.1").unwrap()));
        assert!(at("::ffff:192.0.2.1").is_none() && at("192.0.2.2").is_some());
        held.pop();
        assert!(at("192.0.2.1").is_some());
        drop(held);
        let taken = places.lock();
        assert!(taken.all == 0 && taken.by_source.is_empty());
    }

    #[test]
    fn all_together_are_bounded() {
        let places = Places::new(10, 4);
        let held: Vec<_> = (0..10).map(|source| places.take(source).unwrap()).collect();
        assert!(places.take(10).is_none());
        drop(held);
        assert!(places.take(10).is_some());
    }
}
