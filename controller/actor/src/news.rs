// SPDX-License-Identifier: Apache-2.0
//! Which resources changed. Noting a change costs the same however many wait for other resources.
//!
//! - [`Follower`]: the names of all resources of a kind that changed since they were taken last, each once.
//! - [`GroupChanges`]: that one group changed, for those that wait for this one.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::{Notify, watch};

/// Names of one kind of resource that changed, for every follower.
#[derive(Default)]
pub(crate) struct News(Mutex<Vec<Weak<Names>>>);

#[derive(Default)]
struct Names {
    changed: Mutex<HashSet<String>>,
    wake: Notify,
}

/// Gets the names of all resources of a kind that change from now on.
pub struct Follower(Arc<Names>);

impl News {
    pub(crate) fn follow(&self) -> Follower {
        let names = Arc::new(Names::default());
        self.followers().push(Arc::downgrade(&names));
        Follower(names)
    }

    pub(crate) fn note<'a>(&self, changed: impl Iterator<Item = &'a String> + Clone) {
        self.followers().retain(|follower| {
            let Some(names) = follower.upgrade() else { return false };
            let mut known = lock(&names.changed);
            for name in changed.clone() {
                if !known.contains(name) {
                    known.insert(name.clone());
                }
            }
            drop(known);
            names.wake.notify_one();
            true
        });
    }

    fn followers(&self) -> MutexGuard<'_, Vec<Weak<Names>>> {
        lock(&self.0)
    }
}

impl Follower {
    /// Waits until a resource has changed. Returns the names of all that changed since the last call, in order.
    /// Dropping the future loses none.
    pub async fn changed(&mut self) -> Vec<String> {
        loop {
            let names = std::mem::take(&mut *lock(&self.0.changed));
            if !names.is_empty() {
                let mut names: Vec<String> = names.into_iter().collect();
                names.sort_unstable();
                return names;
            }
            self.0.wake.notified().await;
        }
    }
}

/// Groups that are waited for, by name.
#[derive(Default)]
pub(crate) struct WaitedGroups(Mutex<HashMap<String, watch::Sender<()>>>);

impl WaitedGroups {
    pub(crate) fn note(&self, groups: &[String]) {
        let waited = lock(&self.0);
        groups.iter().filter_map(|name| waited.get(name)).for_each(|group| group.send_replace(()));
    }
}

/// Waits for changes of one group.
pub struct GroupChanges {
    waited: Arc<WaitedGroups>,
    group: String,
    /// Present until this is dropped.
    receiver: Option<watch::Receiver<()>>,
}

impl GroupChanges {
    pub(crate) fn new(waited: Arc<WaitedGroups>, group: &str) -> Self {
        let receiver = lock(&waited.0).entry(group.to_owned()).or_default().subscribe();
        Self { waited, group: group.to_owned(), receiver: Some(receiver) }
    }

    /// Waits until the group has changed since this was made, or since the last call.
    pub async fn changed(&mut self) {
        match &mut self.receiver {
            // The sender exists as long as this.
            Some(receiver) => _ = receiver.changed().await,
            None => std::future::pending().await,
        }
    }
}

impl Drop for GroupChanges {
    fn drop(&mut self) {
        let mut waited = lock(&self.waited.0);
        // Under the lock, so that the last of several finds none left.
        self.receiver = None;
        if waited.get(&self.group).is_some_and(|sender| sender.receiver_count() == 0) {
            waited.remove(&self.group);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(of: &[&str]) -> Vec<String> {
        of.iter().map(|name| (*name).to_owned()).collect()
    }

    /// Catches a follower that takes the names of another one, and names that pile up for one that has gone.
    #[tokio::test]
    async fn each_follower_gets_each_name_once() {
        let news = News::default();
        news.note(names(&["before"]).iter());
        let (mut first, mut second) = (news.follow(), news.follow());
        news.note(names(&["b", "a", "b"]).iter());
        news.note(names(&["b"]).iter());
        assert_eq!(first.changed().await, ["a", "b"]);
        news.note(names(&["c"]).iter());
        assert_eq!(first.changed().await, ["c"]);
        assert_eq!(second.changed().await, ["a", "b", "c"]);
        drop((first, second));
        news.note(names(&["d"]).iter());
        assert!(news.followers().is_empty());
    }

    /// Catches a change of another group that wakes, and a group that stays in memory when no process waits for it any more.
    #[tokio::test(start_paused = true)]
    async fn a_group_wakes_only_those_that_wait_for_it() {
        let waited = Arc::new(WaitedGroups::default());
        let (mut a, mut again) = (GroupChanges::new(waited.clone(), "a"), GroupChanges::new(waited.clone(), "a"));
        let mut b = GroupChanges::new(waited.clone(), "b");
        waited.note(&names(&["a", "c"]));
        a.changed().await;
        again.changed().await;
        let late = tokio::time::timeout(std::time::Duration::from_secs(1), b.changed()).await;
        assert!(late.is_err(), "b has not changed");
        drop(a);
        assert_eq!(lock(&waited.0).len(), 2);
        drop((again, b));
        assert!(lock(&waited.0).is_empty());
    }
}
