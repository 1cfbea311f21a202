// SPDX-License-Identifier: Apache-2.0
//! When the phases of groups, and the problems of groups and nodes, are assessed: with what changes them, or, where many changes come at once,
//! soon after. Each of many joins concerns the same nodes, and each of many agents that connect or report concerns the same groups.
//!
//! What people and applications read of one group or node does not wait for it, nor do those who watch one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use canopy_controller_core::view::GroupSummary;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::Controller;
use crate::events::Code;

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
    /// True: nothing of its change was news yet.
    groups: BTreeMap<String, bool>,
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

impl Waiting {
    /// Whether so many groups are assessed with what changes them: not while a node waits, because its problem is to be known before those that
    /// it causes.
    fn allows_groups(&mut self, count: usize, now: Instant) -> bool {
        self.nodes.is_empty() && !self.is_at_nodes && self.with_groups.allows(count, now)
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
        self.forget_former(groups);
        let mut waiting = self.assessing().lock();
        if waiting.allows_groups(groups.len(), Instant::now()) {
            drop(waiting);
            groups.iter().for_each(|group| self.reassess_group(group));
        } else {
            groups.iter().for_each(|group| _ = waiting.groups.entry(group.clone()).or_default());
            drop(waiting);
            self.assessing().news.notify_one();
        }
        self.note_groups(groups);
    }

    /// An agent of these groups came or went: others are about to, and all of it is news once.
    pub(crate) fn assess_soon(&self, groups: Vec<String>) {
        if !groups.is_empty() {
            self.assessing().lock().groups.extend(groups.into_iter().map(|group| (group, true)));
            self.assessing().news.notify_one();
        }
    }

    /// For what the API shows of a node. Telemetry changes none of it.
    pub(crate) fn node_changed(&self, node: &str) {
        self.reassess_node(node);
        self.note_node(node);
    }

    /// Something about a node changed that may be, or end, a problem.
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
            let nodes = {
                let mut waiting = self.assessing().lock();
                waiting.is_at_nodes = true;
                std::mem::take(&mut waiting.nodes)
            };
            with_breaks(nodes, |node| self.assess_node(&node)).await;
            let groups = {
                let mut waiting = self.assessing().lock();
                waiting.is_at_nodes = false;
                std::mem::take(&mut waiting.groups)
            };
            with_breaks(groups, |(group, is_news)| {
                self.reassess_group(&group);
                if is_news {
                    self.note_groups(&[group]);
                }
            })
            .await;
        }
    }

    /// Forgets what is known of groups that were deleted, and of those that were created again since: it may be another tenant's.
    fn forget_former(&self, groups: &[String]) {
        for name in groups {
            let mut phases = self.phases_lock();
            let uid = self.read(|d| d.declared_group(name).map(|(metadata, _)| metadata.uid));
            if uid.is_none_or(|uid| phases.is_successor(name, uid)) {
                phases.remove(name);
                self.charts_forget_group(name);
            }
        }
    }

    /// Reads the phase and the problems of a group.
    fn reassess_group(&self, name: &str) {
        {
            // Locked before the read, so that an older phase never overwrites a newer one.
            let mut phases = self.phases_lock();
            let summary = self.read(|d| d.group_summary(name));
            if let Some(GroupSummary { tenant, phase, reason, .. }) = summary
                && phases.set(name, phase)
            {
                let detail = if reason.is_empty() { format!("{phase:?}") } else { format!("{phase:?}: {reason}") };
                self.events().note_group(Code::GroupPhase, None, (name, Some(tenant)), detail);
            }
        }
        self.assess_group(name);
    }
}

/// Assesses each, with a break behind each [`AT_ONCE`].
async fn with_breaks<T>(all: impl IntoIterator<Item = T>, assess: impl Fn(T)) {
    let mut all = all.into_iter().peekable();
    while all.peek().is_some() {
        let begun = Instant::now();
        all.by_ref().take(AT_ONCE).for_each(&assess);
        tokio::time::sleep(begun.elapsed() * BREAK).await;
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

    #[test]
    fn groups_wait_while_a_node_waits_or_is_being_assessed() {
        let (mut waiting, now) = (Waiting::default(), Instant::now());
        assert!(waiting.allows_groups(1, now));
        waiting.nodes.insert("n1".into());
        assert!(!waiting.allows_groups(1, now));
        (waiting.nodes, waiting.is_at_nodes) = (BTreeSet::new(), true);
        assert!(!waiting.allows_groups(1, now));
        waiting.is_at_nodes = false;
        assert!(waiting.allows_groups(MOST - 1, now) && !waiting.allows_groups(1, now));
    }
}
