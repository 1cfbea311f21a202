// SPDX-License-Identifier: Apache-2.0
//! Time from an intent to the kernels: from a command's arrival until every node whose desired state it changed has read that state, or a
//! later one, back from its kernel.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use canopy_model::ids::Generation;
use canopy_units::Monotonic;

/// Upper bounds of the buckets; what takes longer is in one more.
pub const BOUNDS: [Duration; 15] = [
    Duration::from_millis(1),
    Duration::from_micros(2_500),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(25),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_millis(2_500),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_secs(60),
];
/// Changes that wait at most; those beyond are not measured. 10,000 changes a second, for as long as a node may be away unnoticed.
const MAX_WAITING: usize = 100_000;

/// Changes that wait for nodes, and how long those took that do not.
#[derive(Clone, Debug, Default)]
pub struct Confirmations {
    changes: HashMap<u64, Change>,
    next: u64,
    /// Of each node, the changes that wait for it, in the order of generations.
    nodes: HashMap<String, VecDeque<(Generation, u64)>>,
    times: Times,
    unmeasured: u64,
}

#[derive(Clone, Copy, Debug)]
struct Change {
    since: Monotonic,
    nodes: usize,
}

/// Times of the changes that every node has confirmed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Changes in each bucket alone; the last one has no bound.
    pub buckets: [u64; BOUNDS.len() + 1],
    /// All times together.
    pub sum: Duration,
}

impl Confirmations {
    /// Notes a change that arrived at `since`, and the generation that it gave each of these nodes.
    pub fn change<'a>(&mut self, since: Monotonic, nodes: impl Iterator<Item = (&'a str, Generation)>) {
        let mut nodes = nodes.peekable();
        if nodes.peek().is_none() {
            return;
        }
        if self.changes.len() >= MAX_WAITING {
            self.unmeasured += 1;
            return;
        }
        let id = self.next;
        self.next += 1;
        let mut waits = 0;
        for (node, generation) in nodes {
            self.nodes.entry(node.to_owned()).or_default().push_back((generation, id));
            waits += 1;
        }
        self.changes.insert(id, Change { since, nodes: waits });
    }

    /// Notes that a node has this generation in its kernel. Costs the changes that it confirms.
    pub fn confirmed(&mut self, node: &str, generation: Generation, now: Monotonic) {
        let Some(waiting) = self.nodes.get_mut(node) else { return };
        let mut last = Vec::new();
        while let Some((_, id)) = waiting.pop_front_if(|(of, _)| *of <= generation) {
            let Some(change) = self.changes.get_mut(&id) else { continue };
            change.nodes -= 1;
            if change.nodes == 0 {
                last.push(id);
            }
        }
        if waiting.is_empty() {
            self.nodes.remove(node);
        }
        for id in last {
            if let Some(change) = self.changes.remove(&id) {
                self.times.add(now.since(change.since));
            }
        }
    }

    /// Forgets what waits for a node that is no longer there: no other node can confirm it.
    pub fn forget(&mut self, node: &str) {
        for (_, id) in self.nodes.remove(node).into_iter().flatten() {
            self.unmeasured += u64::from(self.changes.remove(&id).is_some());
        }
    }

    /// Changes that at least one node has not confirmed.
    pub fn waiting(&self) -> usize {
        self.changes.len()
    }

    /// Changes whose time is not known.
    pub fn unmeasured(&self) -> u64 {
        self.unmeasured
    }

    /// Times of the others.
    pub fn times(&self) -> Times {
        self.times
    }
}

impl Times {
    fn add(&mut self, time: Duration) {
        let bucket = BOUNDS.iter().position(|bound| time <= *bound).unwrap_or(BOUNDS.len());
        self.buckets[bucket] += 1;
        self.sum += time;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Monotonic {
        Monotonic::START + Duration::from_millis(ms)
    }

    fn buckets(of: &Confirmations) -> Vec<(usize, u64)> {
        of.times.buckets.iter().copied().enumerate().filter(|(_, n)| *n > 0).collect()
    }

    #[test]
    fn a_change_is_confirmed_by_the_last_of_its_nodes() {
        let mut c = Confirmations::default();
        c.change(at(0), [("a", 1), ("b", 7)].into_iter());
        c.change(at(10), [("a", 2)].into_iter());
        c.change(at(20), std::iter::empty());
        c.confirmed("a", 1, at(12));
        c.confirmed("b", 6, at(13));
        assert_eq!((c.waiting(), buckets(&c)), (2, vec![]));
        // A later generation has what the earlier ones changed.
        c.confirmed("b", 9, at(30));
        assert_eq!((c.waiting(), buckets(&c), c.times.sum), (1, vec![(5, 1)], Duration::from_millis(30)));
        c.confirmed("a", 2, at(100_000));
        assert_eq!((c.waiting(), buckets(&c), c.unmeasured()), (0, vec![(5, 1), (BOUNDS.len(), 1)], 0));
        assert!(c.nodes.is_empty());
    }

    #[test]
    fn what_no_node_will_confirm_is_not_measured_and_does_not_stay() {
        let mut c = Confirmations::default();
        c.change(at(0), [("a", 1), ("b", 1)].into_iter());
        c.forget("a");
        c.confirmed("b", 1, at(1));
        assert_eq!((c.waiting(), c.unmeasured(), buckets(&c)), (0, 1, vec![]));
        (0..=MAX_WAITING as u64).for_each(|g| c.change(at(0), [("a", g)].into_iter()));
        assert_eq!((c.waiting(), c.unmeasured()), (MAX_WAITING, 2));
    }
}
