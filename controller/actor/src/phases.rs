// SPDX-License-Identifier: Apache-2.0
//! The phase of every group, and how many there are in each: counted as they change, because a scrape or a page of a million groups asks
//! every second.

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use canopy_controller_core::GroupFilter;
use canopy_controller_core::uid::Uid;
use canopy_model::status::GroupPhase;

/// Phases by name of the group.
#[derive(Debug, Default)]
pub(crate) struct Phases {
    of: HashMap<Arc<str>, GroupPhase>,
    /// The names in each phase, in the order of [`GroupPhase::ALL`].
    names: [BTreeSet<Arc<str>>; GroupPhase::ALL.len()],
    uids: HashMap<Arc<str>, Uid>,
}

impl Phases {
    /// Sets a group's phase; true if it was another one, or none.
    pub(crate) fn set(&mut self, group: &str, phase: GroupPhase) -> bool {
        let before = self.of.get_key_value(group).map(|(name, before)| (name.clone(), *before));
        let name = match before {
            Some((_, before)) if before == phase => return false,
            Some((name, before)) => {
                self.names[at(before)].remove(&name);
                name
            }
            None => Arc::from(group),
        };
        self.of.insert(name.clone(), phase);
        self.names[at(phase)].insert(name);
        true
    }

    /// Whether a group of this name is another one than at the last call.
    pub(crate) fn is_successor(&mut self, group: &str, uid: Uid) -> bool {
        match self.uids.get_mut(group) {
            Some(known) => std::mem::replace(known, uid) != uid,
            None => self.uids.insert(Arc::from(group), uid).is_some(),
        }
    }

    pub(crate) fn remove(&mut self, group: &str) {
        self.uids.remove(group);
        if let Some(before) = self.of.remove(group) {
            self.names[at(before)].remove(group);
        }
    }

    /// Groups in each phase, those without one included.
    pub(crate) fn counts(&self) -> [(GroupPhase, usize); GroupPhase::ALL.len()] {
        std::array::from_fn(|i| (GroupPhase::ALL[i], self.names[i].len()))
    }

    /// The first `enough` names in one of these phases that a page of the filter has behind `after`, in order, and whether there are more.
    pub(crate) fn behind(
        &self,
        phases: &[GroupPhase],
        filter: &GroupFilter,
        after: Option<&str>,
        enough: usize,
    ) -> (Vec<String>, bool) {
        let from = (filter.begin(after), Bound::Unbounded);
        let mut names: Vec<&Arc<str>> = Vec::new();
        for phase in phases {
            let in_order = self.names[at(*phase)].range::<str, _>(from);
            names.extend(in_order.take_while(|name| name.starts_with(&filter.prefix)).take(enough + 1));
        }
        names.sort_unstable();
        let has_more = names.len() > enough;
        names.truncate(enough);
        (names.into_iter().map(|name| (**name).to_owned()).collect(), has_more)
    }
}

/// The index of a phase in [`GroupPhase::ALL`].
fn at(phase: GroupPhase) -> usize {
    GroupPhase::ALL.iter().position(|of| *of == phase).unwrap_or_default()
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
        assert_eq!(counted(&phases), [(GroupPhase::Pending, 1)]);
    }

    /// Catches a group that inherits what is kept of one that had its name.
    #[test]
    fn another_group_of_the_same_name_is_a_successor() {
        let mut phases = Phases::default();
        let uid = |uid: &str| serde_json::from_value(serde_json::json!(uid)).unwrap();
        let [first, second]: [Uid; 2] =
            [uid("00000000-0000-8000-8000-000000000001"), uid("00000000-0000-8000-8000-000000000002")];
        assert!(!phases.is_successor("a", first) && !phases.is_successor("a", first));
        assert!(phases.is_successor("a", second) && !phases.is_successor("a", second));
        phases.remove("a");
        assert!(!phases.is_successor("a", first));
    }

    /// Catches a name that two pages have or none, and one of a phase that the group has left.
    #[test]
    fn names_of_phases_are_in_order_and_in_pages() {
        let mut phases = Phases::default();
        let all =
            [("d", GroupPhase::Ready), ("a", GroupPhase::Ready), ("c", GroupPhase::Failed), ("b", GroupPhase::Pending)];
        all.into_iter().for_each(|(name, phase)| _ = phases.set(name, phase));
        let wanted = [GroupPhase::Ready, GroupPhase::Failed];
        let behind = |phases: &Phases, after, enough| {
            let (names, has_more) = phases.behind(&wanted, &GroupFilter::default(), after, enough);
            (names.concat(), has_more)
        };
        assert_eq!(behind(&phases, None, 2), ("ac".into(), true));
        assert_eq!(behind(&phases, Some("c"), 2), ("d".into(), false));
        assert_eq!(behind(&phases, None, 3), ("acd".into(), false));
        phases.set("a", GroupPhase::Pending);
        phases.remove("d");
        assert_eq!(behind(&phases, None, 3), ("c".into(), false));
    }
}
