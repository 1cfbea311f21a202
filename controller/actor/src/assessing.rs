// SPDX-License-Identifier: Apache-2.0
//! When the phases of groups, and the problems of groups and nodes, are assessed: with what changes them, or, where many changes come at once,
//! soon after. Each of many joins concerns the same nodes, and each of many agents that connect or report concerns the same groups.
//!
//! What people and applications read of one group or node does not wait for it, nor do those who watch one.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::Controller;

/// What changes within this time costs one assessment, beyond [`MOST`].
const TOGETHER: Duration = Duration::from_millis(20);
/// Groups, and nodes, that are assessed within [`TOGETHER`] with what changes them.
const MOST: usize = 32;
/// Groups or nodes that are assessed without a break.
pub(crate) const AT_ONCE: usize = 100;
/// A break is so many times as long as what was assessed before it took.
const BREAK: u32 = 3;

/// What waits to be assessed.
#[derive(Debug, Default)]
pub(crate) struct Assessing {
    waiting: Mutex<Waiting>,
    news: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    groups: BTreeSet<String>,
    nodes: BTreeSet<String>,
    /// Some of those that waited are being assessed.
    is_at_nodes: bool,
    with_groups: Budget,
    with_nodes: Budget,
}

/// How many were assessed with what changed them.
#[derive(Debug, Default)]
struct Budget {
    /// Since when those are counted, for [`TOGETHER`].
    since: Option<Instant>,
    done: usize,
}

impl Budget {
    /// Whether so many more may be; they are counted then.
    fn allows(&mut self, count: usize, now: Instant) -> bool {
        if self.since.is_none_or(|since| now.duration_since(since) >= TOGETHER) {
            *self = Self { since: Some(now), done: 0 };
        }
        let allows = self.done + count <= MOST;
        self.done += if allows { count } else { 0 };
        allows
    }
}

impl Assessing {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Controller {
    /// Something about these groups changed.
    pub(crate) fn groups_changed(&self, groups: &[String]) {
        let is_now = {
            let mut waiting = self.assessing().lock();
            // A node's problem is to be known before those that it causes.
            let knows_nodes = waiting.nodes.is_empty() && !waiting.is_at_nodes;
            knows_nodes && waiting.with_groups.allows(groups.len(), Instant::now())
        };
        if is_now {
            self.assess_groups(groups);
        } else {
            self.forget_former(groups);
            self.assess_soon(groups);
        }
        self.publish_groups(groups);
    }

    /// An agent of these groups came or went: others are about to, and all of it is news once.
    pub(crate) fn assess_soon(&self, groups: &[String]) {
        if !groups.is_empty() {
            self.assessing().lock().groups.extend(groups.iter().cloned());
            self.assessing().news.notify_one();
        }
    }

    /// Something about a node changed.
    pub(crate) fn reassess_node(&self, node: &str) {
        let mut waiting = self.assessing().lock();
        if waiting.with_nodes.allows(1, Instant::now()) {
            drop(waiting);
            self.assess_node(node);
        } else {
            waiting.nodes.insert(node.to_owned());
            self.assessing().news.notify_one();
        }
    }

    /// Groups, and nodes, that wait to be assessed.
    pub fn assessments_waiting(&self) -> (usize, usize) {
        let waiting = self.assessing().lock();
        (waiting.groups.len(), waiting.nodes.len())
    }

    /// Assesses what waits, until it is aborted: a quarter of the time at most.
    pub(crate) async fn assess_waiting(self) {
        loop {
            self.assessing().news.notified().await;
            tokio::time::sleep(TOGETHER).await;
            let nodes: Vec<String> = {
                let mut waiting = self.assessing().lock();
                waiting.is_at_nodes = true;
                std::mem::take(&mut waiting.nodes).into_iter().collect()
            };
            for some in nodes.chunks(AT_ONCE) {
                let begun = Instant::now();
                some.iter().for_each(|node| self.assess_node(node));
                tokio::time::sleep(begun.elapsed() * BREAK).await;
            }
            let groups: Vec<String> = {
                let mut waiting = self.assessing().lock();
                waiting.is_at_nodes = false;
                std::mem::take(&mut waiting.groups).into_iter().collect()
            };
            for some in groups.chunks(AT_ONCE) {
                let begun = Instant::now();
                self.assess_groups(some);
                self.publish_groups(some);
                tokio::time::sleep(begun.elapsed() * BREAK).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_are_assessed_with_what_changes_them_and_as_many_again_later() {
        let (mut budget, now) = (Budget::default(), Instant::now());
        assert!(budget.allows(MOST - 1, now) && !budget.allows(2, now) && budget.allows(1, now));
        let before = now + TOGETHER - Duration::from_nanos(1);
        assert!(!budget.allows(1, before) && budget.allows(0, before));
        let later = now + TOGETHER;
        assert!(!budget.allows(MOST + 1, later) && budget.allows(MOST, later) && !budget.allows(1, later));
    }
}
