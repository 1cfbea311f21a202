// SPDX-License-Identifier: Apache-2.0
//! Limits of concurrent connections: per owner, in total, of refused users, which only get the reason, and of pods that have not shown a
//! token yet.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::owner::Owner;

/// Connections per user or pod; a process needs one.
pub(super) const PER_OWNER: usize = 64;
const ALL: usize = 512;
/// Connections of refused users, in addition to `ALL`.
const REFUSED: usize = 16;
/// Connections on which no pod was identified yet, in addition to `ALL`.
const UNIDENTIFIED: usize = 32;

#[derive(Debug, Default)]
pub(super) struct Slots {
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    by_owner: HashMap<Owner, usize>,
    all: usize,
    refused: usize,
    unidentified: usize,
}

/// Slot of one connection, released when dropped.
#[derive(Debug)]
pub(super) struct Slot {
    of: Arc<Slots>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Owner(Owner),
    Refused,
    Unidentified,
}

impl Slots {
    pub(super) fn take(slots: &Arc<Self>, owner: Owner) -> Option<Slot> {
        let mut taken = slots.taken();
        if taken.all >= ALL || taken.by_owner.get(&owner).is_some_and(|n| *n >= PER_OWNER) {
            return None;
        }
        taken.all += 1;
        *taken.by_owner.entry(owner.clone()).or_default() += 1;
        Some(Slot { of: Arc::clone(slots), kind: Kind::Owner(owner) })
    }

    pub(super) fn take_refused(slots: &Arc<Self>) -> Option<Slot> {
        let mut taken = slots.taken();
        if taken.refused >= REFUSED {
            return None;
        }
        taken.refused += 1;
        Some(Slot { of: Arc::clone(slots), kind: Kind::Refused })
    }

    pub(super) fn take_unidentified(slots: &Arc<Self>) -> Option<Slot> {
        let mut taken = slots.taken();
        if taken.unidentified >= UNIDENTIFIED {
            return None;
        }
        taken.unidentified += 1;
        Some(Slot { of: Arc::clone(slots), kind: Kind::Unidentified })
    }

    fn taken(&self) -> std::sync::MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// Whether it is that of a pod that has not been identified.
    pub(super) fn is_unidentified(&self) -> bool {
        matches!(self.kind, Kind::Unidentified)
    }

    /// Another one, of `owner`.
    pub(super) fn another(&self, owner: Owner) -> Option<Self> {
        Slots::take(&self.of, owner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.of.taken();
        let owner = match &self.kind {
            Kind::Owner(owner) => owner,
            Kind::Refused => {
                taken.refused -= 1;
                return;
            }
            Kind::Unidentified => {
                taken.unidentified -= 1;
                return;
            }
        };
        taken.all -= 1;
        if let Some(n) = taken.by_owner.get_mut(owner) {
            *n -= 1;
            if *n == 0 {
                taken.by_owner.remove(owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_cannot_use_all_slots_and_slots_are_released() {
        let slots = Arc::<Slots>::default();
        let greedy: Vec<Slot> = std::iter::from_fn(|| Slots::take(&slots, Owner::User(1))).collect();
        assert_eq!(greedy.len(), PER_OWNER);
        let other = Slots::take(&slots, Owner::User(2));
        assert!(other.is_some());
        drop(greedy);
        assert!(Slots::take(&slots, Owner::User(1)).is_some());
        drop(other);
        let taken = slots.taken.lock().unwrap();
        assert!(taken.all == 0 && taken.by_owner.is_empty());
    }

    #[test]
    fn slots_are_bounded_in_total_for_refused_callers_and_for_unidentified_ones() {
        let slots = Arc::<Slots>::default();
        let all: Vec<Slot> = (0..).map_while(|n| Slots::take(&slots, Owner::User(n))).collect();
        assert_eq!(all.len(), ALL);
        let refused: Vec<Slot> = std::iter::from_fn(|| Slots::take_refused(&slots)).collect();
        assert_eq!(refused.len(), REFUSED);
        let unidentified: Vec<Slot> = std::iter::from_fn(|| Slots::take_unidentified(&slots)).collect();
        assert_eq!(unidentified.len(), UNIDENTIFIED);
        drop((refused, unidentified));
        assert!(Slots::take_refused(&slots).is_some() && Slots::take_unidentified(&slots).is_some());
    }
}
