// SPDX-License-Identifier: Apache-2.0
//! The phase of every group, and how many there are in each: counted as they change, because a scrape or a page of a million groups asks
//! every second.

use std::collections::HashMap;

use canopy_model::status::GroupPhase;

/// Phases by name of the group.
#[derive(Debug, Default)]
pub(crate) struct Phases {
    of: HashMap<String, GroupPhase>,
    counts: [usize; GroupPhase::ALL.len()],
}

impl Phases {
    /// Sets a group's phase; true if it was another one, or none.
    pub(crate) fn set(&mut self, group: &str, phase: GroupPhase) -> bool {
        let before = match self.of.get_mut(group) {
            Some(known) => Some(std::mem::replace(known, phase)),
            None => self.of.insert(group.to_owned(), phase),
        };
        self.count(before, Some(phase));
        before != Some(phase)
    }

    pub(crate) fn remove(&mut self, group: &str) {
        let before = self.of.remove(group);
        self.count(before, None);
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.of.keys().cloned().collect()
    }

    /// Groups in each phase, those without one included.
    pub(crate) fn counts(&self) -> [(GroupPhase, usize); GroupPhase::ALL.len()] {
        std::array::from_fn(|i| (GroupPhase::ALL[i], self.counts[i]))
    }

    fn count(&mut self, before: Option<GroupPhase>, after: Option<GroupPhase>) {
        for (i, phase) in GroupPhase::ALL.into_iter().enumerate() {
            self.counts[i] = self.counts[i] + usize::from(after == Some(phase)) - usize::from(before == Some(phase));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_follow_every_change() {
        let mut phases = Phases::default();
        let counted = |phases: &Phases| phases.counts().into_iter().filter(|(_, n)| *n > 0).collect::<Vec<_>>();
        assert!(phases.set("a", GroupPhase::Pending) && phases.set("b", GroupPhase::Pending));
        assert!(!phases.set("a", GroupPhase::Pending));
        assert_eq!(counted(&phases), [(GroupPhase::Pending, 2)]);
        assert!(phases.set("a", GroupPhase::Failed));
        assert_eq!(counted(&phases), [(GroupPhase::Pending, 1), (GroupPhase::Failed, 1)]);
        phases.remove("a");
        phases.remove("a");
        assert_eq!((counted(&phases), phases.names()), (vec![(GroupPhase::Pending, 1)], vec!["b".to_owned()]));
    }
}
