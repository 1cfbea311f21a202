// SPDX-License-Identifier: Apache-2.0
//! The newest counters of every node, in memory only. Bounded by the topology and by each node's programs.

use std::collections::{BTreeMap, HashMap};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use canopy_controller_core::drops::Rise;
use canopy_model::ids::GroupId;
use canopy_model::telemetry::{DropCount, GroupTelemetry};
use canopy_units::UnixTime;

/// Branches kept of one group at one node; more than any node has ports and receivers for.
const MAX_BRANCHES: usize = 1024;
/// Distinct drop reasons kept per group.
const MAX_REASONS: usize = 128;
/// Distinct drop reasons and ports kept per node, beside those of groups.
const MAX_NODE_DROPS: usize = 4096;

/// Counters that one node last reported.
#[derive(Clone, Debug, Default)]
pub struct NodeTelemetry {
    /// The node's clock at its last sample.
    pub time: UnixTime,
    /// Per group.
    pub groups: BTreeMap<GroupId, GroupTelemetry>,
    /// Drops that belong to no group.
    pub drops: Vec<DropCount>,
}

/// What a group's counters at a node are more than in the sample before; zero where they fell, or there was none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Octets of data that arrived.
    pub octets: u64,
    /// Octets sent to all branches.
    pub branch_octets: u64,
    /// It has other branches.
    pub branches_changed: bool,
}

impl Progress {
    fn between(before: &GroupTelemetry, now: &GroupTelemetry) -> Self {
        let sent = |group: &GroupTelemetry| group.branches.iter().map(|b| b.octets.get()).fold(0, u64::saturating_add);
        // With other branches the sums have nothing in common.
        let is_same = before.branches.len() == now.branches.len()
            && before.branches.iter().zip(&now.branches).all(|(a, b)| a.address == b.address && a.octets <= b.octets);
        Self {
            octets: now.data_octets.get().saturating_sub(before.data_octets.get()),
            branch_octets: if is_same { sent(now).saturating_sub(sent(before)) } else { 0 },
            branches_changed: !before.branches.iter().map(|b| b.address).eq(now.branches.iter().map(|b| b.address)),
        }
    }
}

/// All nodes' counters.
#[derive(Default)]
pub struct Telemetry(RwLock<HashMap<String, Known>>);

/// What is known of a node.
#[derive(Default)]
struct Known {
    /// The node's clock at its last sample.
    time: UnixTime,
    groups: BTreeMap<GroupId, Sampled>,
    drops: Vec<DropCount>,
}

/// A group in the last sample that had it: its node leaves it out while it is at rest.
struct Sampled {
    time: UnixTime,
    group: GroupTelemetry,
}

impl Sampled {
    /// As it is at `time` on the node's clock.
    fn at(&self, time: UnixTime) -> GroupTelemetry {
        let mut group = self.group.clone();
        let later = Duration::from_nanos(time.nanos().saturating_sub(self.time.nanos()));
        for branch in &mut group.branches {
            branch.last_feedback = branch.last_feedback.map(|ago| ago.saturating_add(later));
        }
        group
    }
}

impl Telemetry {
    /// Stores one sample, and returns the drop counters that are higher than in the sample before: its groups replace their previous samples. Groups that `is_known` rejects are not stored, so
    /// that a node cannot make the controller store groups that it did not configure. Costs what the sample has.
    pub fn record(&self, node: &str, sample: NodeTelemetry, is_known: impl Fn(GroupId) -> bool) -> Vec<Rise> {
        let mut nodes = self.0.write().unwrap_or_else(PoisonError::into_inner);
        // The first sample after a start of the controller has what was counted before.
        let is_first = !nodes.contains_key(node);
        let known = nodes.entry(node.to_owned()).or_default();
        let mut rises = Vec::new();
        if !is_first {
            for (id, group) in &sample.groups {
                let before = known.groups.get(id).map(|g| g.group.drops.as_slice()).unwrap_or_default();
                add_rises(&mut rises, Some(*id), before, &group.drops);
            }
            add_rises(&mut rises, None, &known.drops, &sample.drops);
        }
        known.time = sample.time;
        for (id, mut group) in sample.groups.into_iter().filter(|(id, _)| is_known(*id)) {
            group.branches.truncate(MAX_BRANCHES);
            group.drops.truncate(MAX_REASONS);
            known.groups.insert(id, Sampled { time: sample.time, group });
        }
        if !sample.drops.is_empty() {
            known.drops = sample.drops;
            known.drops.truncate(MAX_NODE_DROPS);
        }
        rises
    }

    /// What `groups` are more than in the sample before, which [`Telemetry::record`] has not replaced yet.
    pub fn progress(&self, node: &str, groups: &BTreeMap<GroupId, GroupTelemetry>) -> HashMap<GroupId, Progress> {
        let nodes = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = nodes.get(node) else { return HashMap::new() };
        let both =
            groups.iter().filter_map(|(id, now)| Some((*id, Progress::between(&known.groups.get(id)?.group, now))));
        both.collect()
    }

    /// Removes a node.
    pub fn forget_node(&self, node: &str) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(node);
    }

    /// Removes some of one node's groups.
    pub fn forget_groups(&self, node: &str, gone: &[GroupId]) {
        if gone.is_empty() {
            return;
        }
        if let Some(known) = self.0.write().unwrap_or_else(PoisonError::into_inner).get_mut(node) {
            gone.iter().for_each(|id| _ = known.groups.remove(id));
        }
    }

    /// Removes one node's groups that `is_known` rejects: asks it for all of them.
    pub fn retain(&self, node: &str, is_known: impl Fn(GroupId) -> bool) {
        if let Some(known) = self.0.write().unwrap_or_else(PoisonError::into_inner).get_mut(node) {
            known.groups.retain(|id, _| is_known(*id));
        }
    }

    /// One node's counters; `None` when it never reported.
    pub fn node(&self, node: &str) -> Option<NodeTelemetry> {
        let nodes = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let Known { time, groups, drops } = nodes.get(node)?;
        let groups = groups.iter().map(|(id, sampled)| (*id, sampled.at(*time))).collect();
        Some(NodeTelemetry { time: *time, groups, drops: drops.clone() })
    }

    /// One group's counters at every node that reported them, in node order.
    pub fn group(&self, id: GroupId) -> BTreeMap<String, (UnixTime, GroupTelemetry)> {
        let nodes = self.0.read().unwrap_or_else(PoisonError::into_inner);
        nodes.iter().filter_map(|(name, n)| Some((name.clone(), (n.time, n.groups.get(&id)?.at(n.time))))).collect()
    }
}

fn add_rises(rises: &mut Vec<Rise>, group: Option<GroupId>, before: &[DropCount], now: &[DropCount]) {
    let key = |d: &DropCount| (d.reason, d.port.clone());
    let known: BTreeMap<_, u64> = before.iter().map(|d| (key(d), d.packets)).collect();
    for drop in now {
        let packets = drop.packets.saturating_sub(known.get(&key(drop)).copied().unwrap_or(0));
        if packets > 0 && rises.len() < MAX_NODE_DROPS {
            let (reason, name, port) = (drop.reason, drop.name.clone(), drop.port.clone());
            rises.push(Rise { group, port, reason, name, packets });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(v: u64) -> GroupId {
        GroupId::new("g", v).unwrap()
    }

    fn sample(groups: &[(u64, u64)]) -> NodeTelemetry {
        let group = |g: u64, packets| GroupTelemetry {
            group_id: id(g),
            epoch: 1,
            high: canopy_units::UnwrappedPsn::ZERO,
            min_next: None,
            acks_in: 0,
            acks_out: 0,
            naks_in: 0,
            naks_out: 0,
            cnps_in: 0,
            cnps_out: 0,
            data_packets: packets,
            fresh_packets: None,
            data_octets: canopy_units::Octets::ZERO,
            branches: vec![],
            drops: vec![],
        };
        NodeTelemetry {
            time: UnixTime::from_nanos(1),
            groups: groups.iter().map(|(g, p)| (id(*g), group(*g, *p))).collect(),
            drops: vec![],
        }
    }

    #[test]
    fn counters_that_rise_between_two_samples_are_returned() {
        let drop = |reason, port: Option<&str>, packets| DropCount {
            reason,
            name: format!("r{reason}"),
            packets,
            port: port.map(str::to_owned),
        };
        let t = Telemetry::default();
        let with = |of_group: Vec<DropCount>, drops: Vec<DropCount>| {
            let mut sample = sample(&[(1, 10)]);
            sample.groups.get_mut(&id(1)).unwrap().drops = of_group;
            sample.drops = drops;
            t.record("n1", sample, |_| true)
        };
        // What was counted before the controller started.
        assert_eq!(with(vec![drop(6, None, 5)], vec![drop(33, Some("eth1"), 9)]), []);
        assert_eq!(with(vec![drop(6, None, 5)], vec![drop(33, Some("eth1"), 9)]), []);
        let rises = with(vec![drop(6, None, 7)], vec![drop(33, Some("eth1"), 9), drop(33, Some("eth2"), 2)]);
        let short: Vec<_> = rises.iter().map(|r| (r.group.is_some(), r.port.as_deref(), r.reason, r.packets)).collect();
        assert_eq!(short, [(true, None, 6, 2), (false, Some("eth2"), 33, 2)]);
    }

    /// Catches feedback that seems to be as old as when the group came to rest.
    #[test]
    fn a_group_at_rest_is_as_its_last_sample_has_it_at_the_time_of_the_last_one() {
        let t = Telemetry::default();
        let at = |seconds: u64, groups: &[(u64, u64)]| {
            let mut sample = sample(groups);
            sample.time = UnixTime::from_nanos(seconds * 1_000_000_000);
            let branch = serde_json::json!({"address": "fcff::2", "next": 7, "unconfirmed": false, "ackPsn": 6, "epsn": null, "ccount": 0,
                "lastFeedbackNs": 500_000_000, "packets": 1, "bytes": 1, "completedMin": 0});
            sample.groups.values_mut().for_each(|g| g.branches = vec![serde_json::from_value(branch.clone()).unwrap()]);
            t.record("n1", sample, |_| true);
        };
        let last = |g: &GroupTelemetry| g.branches[0].last_feedback.unwrap().as_millis();
        at(10, &[(1, 10)]);
        assert_eq!(last(&t.group(id(1))["n1"].1), 500);
        at(40, &[(2, 10)]);
        assert_eq!(t.node("n1").unwrap().groups.values().map(last).collect::<Vec<_>>(), [30_500, 500]);
        let (time, group) = &t.group(id(1))["n1"];
        assert_eq!((time.nanos(), last(group)), (40_000_000_000, 30_500));
    }

    #[test]
    fn samples_merge_and_unknown_groups_leave_nothing() {
        let t = Telemetry::default();
        t.record("n1", sample(&[(1, 10), (2, 20), (9, 1)]), |g| g.get() < 9);
        t.record("n1", sample(&[(1, 11)]), |g| g.get() < 9);
        let groups = t.node("n1").unwrap().groups;
        assert_eq!(groups.values().map(|g| g.data_packets).collect::<Vec<_>>(), [11, 20]);
        t.retain("n1", |g| g.get() == 2);
        assert!(t.group(id(1)).is_empty());
        t.record("n1", sample(&[(3, 30)]), |_| true);
        t.forget_groups("n1", &[id(3), id(4)]);
        t.forget_groups("n2", &[id(2)]);
        assert!(t.group(id(3)).is_empty());
        assert_eq!(t.group(id(2)).keys().collect::<Vec<_>>(), ["n1"]);
        t.forget_node("n1");
        assert!(t.node("n1").is_none());
    }
}
