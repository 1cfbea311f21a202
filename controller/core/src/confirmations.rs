// SPDX-License-Identifier: Apache-2.0
//! Time from an intent to the kernels: from a command's arrival until every node whose desired state it changed has reconciled that state, or
//! a later one: has written it and read it back. What the kernel refused counts as reconciled; the node's errors have it.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use canopy_model::ids::Generation;
use canopy_units::{Monotonic, UnixTime};

use crate::request_id::RequestId;
use crate::trace::Trace;

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
/// Confirmations that are waited for, at most, of all nodes together: some tens of octets each. Beyond them the oldest changes are given
/// up, those of a node that is away first.
const MAX_WAITING: usize = 500_000;

/// Changes that wait for nodes, and how long those took that do not.
#[derive(Clone, Debug, Default)]
pub struct Confirmations {
    /// In the order of their arrival.
    changes: BTreeMap<u64, Change>,
    next: u64,
    /// Of each node, the changes that wait for it, in the order of their arrival, which is that of the generations.
    nodes: HashMap<Arc<str>, VecDeque<(Generation, u64)>>,
    /// In all queues of `nodes` together.
    waiting: usize,
    times: Times,
    /// Of each bucket the last traced change.
    exemplars: [Option<Exemplar>; BOUNDS.len() + 1],
    unmeasured: u64,
}

#[derive(Clone, Debug)]
struct Change {
    since: Monotonic,
    /// Nodes that it concerns.
    nodes: Vec<Arc<str>>,
    /// How many of them have not confirmed it.
    left: usize,
    /// Few are traced.
    traced: Option<Box<Published>>,
}

/// A change that is traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// Of which request.
    pub trace: Trace,
    /// When it was durable; when it was noted, before that.
    pub at: Monotonic,
}

/// A change whose trace has the parts of its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exemplar {
    /// Id of the trace.
    pub trace: RequestId,
    /// How long it took.
    pub time: Duration,
    /// When the last node confirmed it.
    pub at: UnixTime,
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
    /// Notes a change that arrived at `since`, and the generation that it gave each of these nodes. Returns its number; `None` if it
    /// concerns no node.
    pub fn change<'a>(
        &mut self,
        since: Monotonic,
        trace: Option<Trace>,
        nodes: impl Iterator<Item = (&'a str, Generation)>,
    ) -> Option<u64> {
        let id = self.next;
        let mut concerned = Vec::new();
        for (node, generation) in nodes {
            let name = self.nodes.get_key_value(node).map_or_else(|| Arc::from(node), |(name, _)| name.clone());
            self.nodes.entry(name.clone()).or_default().push_back((generation, id));
            concerned.push(name);
        }
        if concerned.is_empty() {
            return None;
        }
        self.next += 1;
        let left = concerned.len();
        self.waiting += left;
        let traced = trace.map(|trace| Box::new(Published { trace, at: since }));
        self.changes.insert(id, Change { since, nodes: concerned, left, traced });
        while self.waiting > MAX_WAITING
            && let Some((oldest, _)) = self.changes.first_key_value()
        {
            self.give_up(*oldest);
        }
        Some(id)
    }

    /// Notes that a traced change is durable, and on its way to its nodes.
    pub fn published(&mut self, change: u64, now: Monotonic) {
        if let Some(traced) = self.changes.get_mut(&change).and_then(|change| change.traced.as_mut()) {
            traced.at = now;
        }
    }

    /// The traced changes that a node gets with an update from one generation to another, the newest last.
    pub fn sent(&self, node: &str, from: Generation, to: Generation) -> Vec<Published> {
        let Some(queue) = self.nodes.get(node) else { return Vec::new() };
        let first = queue.partition_point(|(of, _)| *of <= from);
        let sent = queue.iter().skip(first).take_while(|(of, _)| *of <= to);
        sent.filter_map(|(_, id)| self.changes.get(id)?.traced.as_deref().copied()).collect()
    }

    /// Notes that a node has reconciled this generation. Costs the changes that it confirms; returns those that are traced.
    pub fn confirmed(&mut self, node: &str, generation: Generation, now: Monotonic) -> Vec<Published> {
        let mut traced = Vec::new();
        let Some(queue) = self.nodes.get_mut(node) else { return traced };
        while let Some((_, id)) = queue.pop_front_if(|(of, _)| *of <= generation) {
            self.waiting -= 1;
            let Entry::Occupied(mut change) = self.changes.entry(id) else { continue };
            change.get_mut().left -= 1;
            traced.extend(change.get().traced.as_deref().copied());
            if change.get().left == 0 {
                let Change { since, traced, .. } = change.remove();
                let time = now.since(since);
                let bucket = self.times.add(time);
                if let Some(Published { trace, .. }) = traced.as_deref() {
                    self.exemplars[bucket] = Some(Exemplar { trace: trace.id, time, at: trace.wall(now) });
                }
            }
        }
        if queue.is_empty() {
            self.nodes.remove(node);
        }
        traced
    }

    /// Forgets what waits for a node that is no longer there: no other node can confirm it.
    pub fn forget(&mut self, node: &str) {
        let waiting: Vec<u64> = self.nodes.get(node).into_iter().flatten().map(|(_, id)| *id).collect();
        waiting.into_iter().for_each(|id| self.give_up(id));
    }

    /// No longer waits for a change, wherever it is queued.
    fn give_up(&mut self, id: u64) {
        let Some(change) = self.changes.remove(&id) else { return };
        self.unmeasured += 1;
        for node in change.nodes {
            let Some(queue) = self.nodes.get_mut(&node) else { continue };
            if let Ok(at) = queue.binary_search_by_key(&id, |(_, id)| *id) {
                queue.remove(at);
                self.waiting -= 1;
            }
            if queue.is_empty() {
                self.nodes.remove(&node);
            }
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

    /// The last traced change of each bucket that had one, with the bucket.
    pub fn exemplars(&self) -> impl Iterator<Item = (usize, Exemplar)> {
        self.exemplars.iter().enumerate().filter_map(|(bucket, exemplar)| Some((bucket, (*exemplar)?)))
    }
}

impl Times {
    /// Adds a time. Returns its bucket.
    fn add(&mut self, time: Duration) -> usize {
        let bucket = BOUNDS.iter().position(|bound| time <= *bound).unwrap_or(BOUNDS.len());
        self.buckets[bucket] += 1;
        self.sum += time;
        bucket
    }
}

#[cfg(test)]
mod tests {
    use canopy_units::UnixTime;

    use super::*;
    use crate::request_id::RequestId;
    use crate::trace::SpanId;

    fn at(ms: u64) -> Monotonic {
        Monotonic::START + Duration::from_millis(ms)
    }

    fn buckets(of: &Confirmations) -> Vec<(usize, u64)> {
        of.times.buckets.iter().copied().enumerate().filter(|(_, n)| *n > 0).collect()
    }

    #[test]
    fn a_change_is_confirmed_by_the_last_of_its_nodes() {
        let mut c = Confirmations::default();
        c.change(at(0), None, [("a", 1), ("b", 7)].into_iter());
        c.change(at(10), None, [("a", 2)].into_iter());
        c.change(at(20), None, std::iter::empty());
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

    /// Catches a trace that is lost where a later change confirms it, and one that is sent twice.
    #[test]
    fn traced_changes_are_sent_once_and_confirmed_at_each_of_their_nodes() {
        let trace = |id: u8| {
            let (id, span) = (RequestId::new([id; 16]).unwrap(), SpanId::new([id; 8]).unwrap());
            Trace { id, span, arrived: (at(0), UnixTime::default()) }
        };
        let traces = |all: Vec<Published>| all.iter().map(|p| (p.trace, p.at)).collect::<Vec<_>>();
        let mut c = Confirmations::default();
        let first = c.change(at(1), Some(trace(1)), [("a", 1), ("b", 7)].into_iter()).unwrap();
        c.change(at(2), None, [("a", 2)].into_iter());
        let third = c.change(at(3), Some(trace(3)), [("a", 3)].into_iter()).unwrap();
        c.published(first, at(10));
        let (one, three) = ((trace(1), at(10)), (trace(3), at(3)));
        assert_eq!(
            [traces(c.sent("a", 0, 2)), traces(c.sent("a", 1, 3)), traces(c.sent("a", 0, 9))],
            [vec![one], vec![three], vec![one, three]]
        );
        assert_eq!((traces(c.sent("b", 0, 6)), traces(c.sent("none", 0, 9))), (vec![], vec![]));
        c.published(third, at(11));
        assert_eq!(traces(c.confirmed("a", 3, at(20))), [one, (trace(3), at(11))], "a later generation has both");
        assert_eq!((traces(c.confirmed("b", 9, at(21))), traces(c.sent("b", 0, 9))), (vec![one], vec![]));
        c.published(first, at(30));
        assert_eq!(c.waiting(), 0);
        // Of each bucket the last that was traced: 20 ms of the first and 17 of the third are one bucket.
        let exemplars: Vec<_> = c.exemplars().map(|(bucket, e)| (bucket, e.trace, e.time)).collect();
        assert_eq!(exemplars, [(4, trace(1).id, Duration::from_millis(20))]);
    }

    #[test]
    fn what_no_node_will_confirm_is_not_measured_and_does_not_stay() {
        let mut c = Confirmations::default();
        c.change(at(0), None, [("a", 1), ("b", 1)].into_iter());
        c.change(at(0), None, [("b", 2)].into_iter());
        c.forget("a");
        assert_eq!((c.waiting(), c.unmeasured(), buckets(&c)), (1, 1, vec![]));
        assert_eq!(c.nodes["b"], [(2, 1)]);
        c.forget("b");
        assert_eq!((c.waiting(), c.unmeasured(), c.nodes.len(), c.waiting), (0, 2, 0, 0));
    }

    /// Catches one node that is away for days and ends the measurement of all others, and queues that grow while all are away.
    #[test]
    fn a_node_that_is_away_costs_the_oldest_changes_and_no_later_ones() {
        let mut c = Confirmations::default();
        let away = MAX_WAITING as u64 / 2 + 1;
        (0..away).for_each(|g| _ = c.change(at(0), None, [("away", g), ("b", g)].into_iter()));
        assert_eq!((c.waiting(), c.unmeasured(), c.waiting), (MAX_WAITING / 2, 1, MAX_WAITING));
        c.change(at(5), None, [("c", 1)].into_iter());
        c.confirmed("c", 1, at(7));
        assert_eq!((c.unmeasured(), buckets(&c)), (2, vec![(1, 1)]));
        c.confirmed("b", away, at(10));
        c.confirmed("away", away, at(10));
        assert_eq!((c.waiting(), c.waiting, c.nodes.len()), (0, 0, 0));
        assert_eq!(c.times.buckets.iter().sum::<u64>(), away - 2 + 1);
    }
}
