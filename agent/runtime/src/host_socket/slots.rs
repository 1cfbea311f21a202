// SPDX-License-Identifier: Apache-2.0
//! Limits of concurrent connections: per user, in total, and of refused callers, which only get the reason.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Connections per user; a process needs one.
pub(super) const PER_USER: usize = 64;
const ALL: usize = 512;
/// Connections of refused callers, in addition to `ALL`.
const REFUSED: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Slots {
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    by_user: HashMap<u32, usize>,
    all: usize,
    refused: usize,
}

/// Slot of one connection, released when dropped.
#[derive(Debug)]
pub(super) struct Slot {
    of: Arc<Slots>,
    /// `None` for a refused caller.
    uid: Option<u32>,
}

impl Slots {
    pub(super) fn take(slots: &Arc<Self>, uid: u32) -> Option<Slot> {
        let mut taken = slots.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.all >= ALL || taken.by_user.get(&uid).is_some_and(|n| *n >= PER_USER) {
            return None;
        }
        taken.all += 1;
        *taken.by_user.entry(uid).or_default() += 1;
        Some(Slot { of: Arc::clone(slots), uid: Some(uid) })
    }

    pub(super) fn take_refused(slots: &Arc<Self>) -> Option<Slot> {
        let mut taken = slots.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.refused >= REFUSED {
            return None;
        }
        taken.refused += 1;
        Some(Slot { of: Arc::clone(slots), uid: None })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.of.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(uid) = self.uid else {
            taken.refused -= 1;
            return;
        };
        taken.all -= 1;
        if let Some(n) = taken.by_user.get_mut(&uid) {
            *n -= 1;
            if *n == 0 {
                taken.by_user.remove(&uid);
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
        let greedy: Vec<Slot> = std::iter::from_fn(|| Slots::take(&slots, 1)).collect();
        assert_eq!(greedy.len(), PER_USER);
        let other = Slots::take(&slots, 2);
        assert!(other.is_some());
        drop(greedy);
        assert!(Slots::take(&slots, 1).is_some());
        drop(other);
        let taken = slots.taken.lock().unwrap();
        assert!(taken.all == 0 && taken.by_user.is_empty());
    }

    #[test]
    fn slots_are_bounded_in_total_and_for_refused_callers() {
        let slots = Arc::<Slots>::default();
        let all: Vec<Slot> = (0..).map_while(|n| Slots::take(&slots, n)).collect();
        assert_eq!(all.len(), ALL);
        let refused: Vec<Slot> = std::iter::from_fn(|| Slots::take_refused(&slots)).collect();
        assert_eq!(refused.len(), REFUSED);
        drop(refused);
        assert!(Slots::take_refused(&slots).is_some());
    }
}
