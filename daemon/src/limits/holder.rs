// SPDX-License-Identifier: Apache-2.0
//! Callers by their credential: one who has several has no more than one share of others, and one credential no more than a part of that.
//!
//! An administrator makes tokens for others. Who has one of them, and takes all that it may, leaves something for the rest; a user who makes
//! many tokens gains little by it.

use super::{Account, Budget, OverBudget, Place, Places};

/// A caller, as limits count it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holder {
    /// Whose credential it is: the user that made it.
    pub maker: String,
    /// The credential; of a user without one, the maker.
    pub own: String,
}

/// Places for the callers' connections or streams.
#[derive(Clone)]
pub struct HolderPlaces {
    makers: Places<String>,
    own: Places<String>,
}

/// A place that is taken until it is dropped.
#[allow(dead_code, reason = "held, not read")]
pub struct HolderPlace(Place<String>, Place<String>);

impl HolderPlaces {
    /// Of all callers together, of one maker, and of one credential.
    pub fn new(most: usize, most_of_maker: usize, most_of_one: usize) -> Self {
        Self { makers: Places::new(most, most_of_maker), own: Places::new(most, most_of_one) }
    }

    /// A place for something of this caller; `None` if there is none.
    pub fn take(&self, holder: &Holder) -> Option<HolderPlace> {
        let own = self.own.take(holder.own.clone())?;
        Some(HolderPlace(self.makers.take(holder.maker.clone())?, own))
    }
}

/// Octets that are held for the callers.
#[derive(Clone)]
pub struct HolderBudget {
    makers: Budget<String>,
    own: Budget<String>,
}

/// What one request or answer holds, until it is dropped.
pub struct HolderAccount {
    maker: Account<String>,
    own: Account<String>,
}

impl HolderBudget {
    /// Of all callers together, of one maker, and of one credential.
    pub fn new(most: usize, most_of_maker: usize, most_of_one: usize) -> Self {
        Self { makers: Budget::new(most, most_of_maker), own: Budget::new(most, most_of_one) }
    }

    /// For something of this caller that holds nothing yet.
    pub fn open(&self, holder: &Holder) -> HolderAccount {
        HolderAccount { maker: self.makers.open(holder.maker.clone()), own: self.own.open(holder.own.clone()) }
    }
}

impl HolderAccount {
    /// Holds so many octets more.
    ///
    /// # Errors
    /// There is no room; what it holds already it keeps.
    pub fn take(&mut self, octets: usize) -> Result<(), OverBudget> {
        self.own.take(octets)?;
        self.maker.take(octets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(maker: &str, own: &str) -> Holder {
        Holder { maker: maker.into(), own: own.into() }
    }

    /// Catches a token that takes what others of its maker need, and a maker who gains by many tokens.
    #[test]
    fn one_token_leaves_places_for_others_of_its_maker_and_they_for_other_makers() {
        let places = HolderPlaces::new(10, 6, 4);
        let take = |maker: &str, own: &str| places.take(&token(maker, own));
        let mut held: Vec<_> = (0..4).map(|_| take("root", "first").unwrap()).collect();
        assert!(take("root", "first").is_none());
        held.extend((0..2).map(|_| take("root", "second").unwrap()));
        assert!(take("root", "third").is_none());
        held.extend((0..4).map(|_| take("alice", "alice").unwrap()));
        assert!(take("bob", "bob").is_none());
        // What was refused has left nothing taken.
        drop(held);
        assert!((0..4).map(|_| take("root", "third")).all(|place| place.is_some()));
    }

    /// The same of octets.
    #[test]
    fn one_token_leaves_octets_for_others_of_its_maker_and_they_for_other_makers() {
        let budget = HolderBudget::new(100, 40, 30);
        let (mut first, mut second) = (budget.open(&token("root", "first")), budget.open(&token("root", "second")));
        first.take(30).unwrap();
        assert_eq!(first.take(1), Err(OverBudget::Own { held: 30, share: 30 }));
        second.take(10).unwrap();
        assert_eq!(second.take(1), Err(OverBudget::Own { held: 40, share: 40 }));
        let mut other = budget.open(&token("alice", "alice"));
        other.take(30).unwrap();
        drop((first, second));
        let mut third = budget.open(&token("root", "third"));
        third.take(30).unwrap();
    }
}
