// SPDX-License-Identifier: Apache-2.0
//! Groups in a scrape: the first 1,000 that the node has, each by its name, and all others together as group `_other`.
//!
//! A group stays where it is until it leaves the node or the agent restarts. What is under `_other` is the sum of rises since the agent
//! started, so that it does not fall when one of those groups leaves: Prometheus would take that for a restart and count everything again.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use canopy_metrics::{Description, Family, Page};
use canopy_model::ids::GroupId;
use canopy_model::node_spec::NodeSpec;
use canopy_model::telemetry::{BranchTelemetry, DropCount, GroupTelemetry};
use canopy_units::nanos;

/// Groups that have series of their own.
pub(super) const MAX_GROUPS: usize = 1000;
/// Group of all others; no group can have this name.
const OTHER: &str = "_other";

type Read = fn(&GroupTelemetry) -> u64;

const fn of_group(name: &'static str, help: &'static str) -> Family<1> {
    Family::counter(name, help, ["group"])
}

static COUNTERS: [Family<1>; 8] = [
    of_group("canopy_group_data_packets", "Data packets from upstream."),
    of_group("canopy_group_data_bytes", "Bytes of data packets from upstream."),
    of_group("canopy_group_acks_received", "ACKs from branches."),
    of_group("canopy_group_acks_sent", "ACKs sent upstream."),
    of_group("canopy_group_naks_received", "NAKs from branches."),
    of_group("canopy_group_naks_sent", "NAKs sent upstream."),
    of_group("canopy_group_cnps_received", "CNPs from branches."),
    of_group("canopy_group_cnps_sent", "CNPs sent upstream."),
];
const READ: [Read; 8] = [
    |t| t.data_packets,
    |t| t.data_octets.get(),
    |t| t.acks_in,
    |t| t.acks_out,
    |t| t.naks_in,
    |t| t.naks_out,
    |t| t.cnps_in,
    |t| t.cnps_out,
];
static GROUPS: Family<0> = Family::gauge("canopy_agent_groups", "Groups with counters at the node.", []);
static OTHERS: Family<0> =
    Family::gauge("canopy_agent_groups_in_other", "Groups without series of their own: they are in group _other.", []);
static EPOCH: Family<1> = Family::gauge("canopy_group_epoch", "Epoch of the program in force.", ["group"]);
static HIGH: Family<1> =
    Family::gauge("canopy_group_high_psn", "Highest data PSN sent down + 1, unwrapped.", ["group"]);
static MIN_NEXT: Family<1> =
    Family::gauge("canopy_group_min_next_psn", "Smallest next PSN of the branches, unwrapped.", ["group"]);
static BRANCH_PACKETS: Family<2> =
    Family::counter("canopy_branch_packets", "Copies sent to the branch.", ["group", "branch"]);
static BRANCH_BYTES: Family<2> =
    Family::counter("canopy_branch_bytes", "Bytes of the copies sent to the branch.", ["group", "branch"]);
static BRANCH_NEXT: Family<2> =
    Family::gauge("canopy_branch_next_psn", "AckPSN + 1 of the branch, unwrapped.", ["group", "branch"]);
static BRANCH_CNPS: Family<2> =
    Family::gauge("canopy_branch_window_cnps", "CNPs of the branch in the present window.", ["group", "branch"]);
static BRANCH_AGE: Family<2> = Family::gauge(
    "canopy_branch_last_feedback_seconds",
    "Time since feedback of the branch was last received, at the sample.",
    ["group", "branch"],
);
/// Series of one branch.
const BRANCH_SERIES: usize = 5;

pub(super) fn families() -> Vec<Description> {
    let mut all: Vec<_> = COUNTERS.iter().map(Family::describe).collect();
    all.extend([&GROUPS, &OTHERS].map(Family::describe));
    all.extend([&EPOCH, &HIGH, &MIN_NEXT].map(Family::describe));
    all.extend([&BRANCH_PACKETS, &BRANCH_BYTES, &BRANCH_NEXT, &BRANCH_CNPS, &BRANCH_AGE].map(Family::describe));
    all
}

/// Counters of one group, or of several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Counts {
    totals: [u64; READ.len()],
    /// Packets and name by reason.
    drops: BTreeMap<u32, (u64, String)>,
}

impl Counts {
    fn of(group: &GroupTelemetry) -> Self {
        let drops = group.drops.iter().map(|d| (d.reason, (d.packets, d.name.clone()))).collect();
        Self { totals: READ.map(|read| read(group)), drops }
    }

    /// Adds what has been counted between `before` and `now`; a lower count than before is one that started again.
    fn add_rise(&mut self, before: &Self, now: &Self) {
        let rise = |before: u64, now: u64| if now >= before { now - before } else { now };
        for (i, total) in self.totals.iter_mut().enumerate() {
            *total += rise(before.totals[i], now.totals[i]);
        }
        for (reason, (packets, name)) in &now.drops {
            let before = before.drops.get(reason).map_or(0, |(packets, _)| *packets);
            let known = self.drops.entry(*reason).or_insert_with(|| (0, name.clone()));
            known.0 += rise(before, *packets);
        }
    }
}

/// Which groups are shown, and what the others have counted.
#[derive(Debug, Default)]
pub(super) struct Groups {
    shown: BTreeSet<GroupId>,
    others: HashMap<GroupId, Counts>,
    sum: Counts,
    /// A sample has been taken in.
    has_begun: bool,
}

impl Groups {
    /// Takes in a sample. Costs its groups: as many as the sample itself had to read.
    pub(super) fn update(&mut self, sample: &[GroupTelemetry]) {
        let present: HashSet<GroupId> = sample.iter().map(|g| g.group_id).collect();
        self.shown.retain(|id| present.contains(id));
        self.others.retain(|id, _| present.contains(id));
        for group in sample {
            let id = group.group_id;
            if self.shown.contains(&id) {
                continue;
            }
            if !self.others.contains_key(&id) && self.shown.len() < MAX_GROUPS {
                self.shown.insert(id);
                continue;
            }
            let now = Counts::of(group);
            // What the kernel counted for an agent before this one was in the sum of that one.
            if self.has_begun {
                self.sum.add_rise(self.others.get(&id).unwrap_or(&Counts::default()), &now);
            }
            self.others.insert(id, now);
        }
        self.has_begun = true;
    }

    /// What a scrape shows of this sample, which is at most [`MAX_GROUPS`] groups.
    pub(super) fn rows(&self, sample: &[GroupTelemetry], spec: &NodeSpec) -> GroupRows {
        let row = |group: &GroupTelemetry| {
            let id = self.shown.get(&group.group_id)?;
            // A group whose program has just been removed may be in one sample more.
            let program = spec.groups.get(id)?;
            let branches = if program.branch_metrics { group.branches.clone() } else { Vec::new() };
            let counters = without_branches(group);
            Some(Row { name: program.name.clone(), counters, branches })
        };
        let other = (!self.others.is_empty() || self.sum != Counts::default()).then(|| self.sum.clone());
        GroupRows {
            rows: sample.iter().filter_map(row).collect(),
            other,
            groups: sample.len(),
            others: self.others.len(),
        }
    }
}

fn without_branches(group: &GroupTelemetry) -> GroupTelemetry {
    GroupTelemetry { branches: Vec::new(), drops: group.drops.clone(), ..*group }
}

struct Row {
    name: String,
    counters: GroupTelemetry,
    /// Only of groups that are labelled so.
    branches: Vec<BranchTelemetry>,
}

/// Groups of one sample.
pub(super) struct GroupRows {
    rows: Vec<Row>,
    other: Option<Counts>,
    groups: usize,
    others: usize,
}

impl GroupRows {
    pub(super) fn write(&self, page: &mut Page<'_>) -> std::fmt::Result {
        page.one(&GROUPS, self.groups as u64)?;
        page.one(&OTHERS, self.others as u64)?;
        for (i, family) in COUNTERS.iter().enumerate() {
            let own = self.rows.iter().map(|r| ([r.name.as_str()], READ[i](&r.counters)));
            page.write(family, own.chain(self.other.iter().map(|sum| ([OTHER], sum.totals[i]))))?;
        }
        page.write(&EPOCH, self.rows.iter().map(|r| ([r.name.as_str()], u64::from(r.counters.epoch))))?;
        page.write(&HIGH, self.rows.iter().map(|r| ([r.name.as_str()], r.counters.high.get())))?;
        let minima = self.rows.iter().filter_map(|r| Some(([r.name.as_str()], r.counters.min_next?.get())));
        page.write(&MIN_NEXT, minima)
    }

    /// Drops of groups: group, port and reason, and packets.
    pub(super) fn drops(&self) -> impl Iterator<Item = ([&str; 3], u64)> {
        fn of_row(row: &Row) -> impl Iterator<Item = ([&str; 3], u64)> {
            row.counters.drops.iter().map(|d: &DropCount| {
                ([row.name.as_str(), d.port.as_deref().unwrap_or_default(), d.name.as_str()], d.packets)
            })
        }
        let others = self.other.iter().flat_map(|sum| sum.drops.values());
        self.rows.iter().flat_map(of_row).chain(others.map(|(packets, name)| ([OTHER, "", name.as_str()], *packets)))
    }

    /// Last: these are the series that a page has no room for first.
    pub(super) fn write_branches(&self, page: &mut Page<'_>) -> std::fmt::Result {
        let every = || self.rows.iter().flat_map(|r| r.branches.iter().map(move |b| (r, b)));
        let room = page.room(BRANCH_SERIES);
        let shown: Vec<_> = every().take(room).map(|(r, b)| (r.name.as_str(), b, b.address.to_string())).collect();
        page.leave_out((every().count() - shown.len()) * BRANCH_SERIES);
        let each = || shown.iter().map(|(name, b, address)| ([*name, address.as_str()], *b));
        page.write(&BRANCH_PACKETS, each().map(|(labels, b)| (labels, b.packets)))?;
        page.write(&BRANCH_BYTES, each().map(|(labels, b)| (labels, b.octets.get())))?;
        page.write(&BRANCH_NEXT, each().filter_map(|(labels, b)| Some((labels, b.next?.get()))))?;
        page.write(&BRANCH_CNPS, each().map(|(labels, b)| (labels, u64::from(b.ccount))))?;
        let ages = each().filter_map(|(labels, b)| Some((labels, nanos(b.last_feedback?) as f64 / 1e9)));
        page.write(&BRANCH_AGE, ages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use canopy_units::{Octets, UnwrappedPsn};

    fn group(id: u64, packets: u64, drops: u64) -> GroupTelemetry {
        let drop = DropCount { reason: 3, name: "branch_unknown".into(), packets: drops, port: None };
        GroupTelemetry {
            group_id: GroupId::new("g", id).unwrap(),
            epoch: 1,
            high: UnwrappedPsn::ZERO,
            min_next: None,
            acks_in: 0,
            acks_out: 0,
            naks_in: 0,
            naks_out: 0,
            cnps_in: 0,
            cnps_out: 0,
            data_packets: packets,
            fresh_packets: None,
            data_octets: Octets::ZERO,
            branches: vec![],
            drops: if drops > 0 { vec![drop] } else { vec![] },
        }
    }

    const FULL: u64 = MAX_GROUPS as u64;

    /// As many groups as have series of their own, and some more.
    fn sample(more: &[(u64, u64, u64)]) -> Vec<GroupTelemetry> {
        let mut all: Vec<_> = (1..=FULL).map(|id| group(id, id, 0)).collect();
        all.extend(more.iter().map(|(id, packets, drops)| group(FULL + id, *packets, *drops)));
        all
    }

    fn other(groups: &Groups) -> (u64, Option<u64>) {
        (groups.sum.totals[0], groups.sum.drops.get(&3).map(|(packets, _)| *packets))
    }

    #[test]
    fn the_sum_of_the_others_never_falls() {
        let mut groups = Groups::default();
        groups.update(&sample(&[]));
        assert_eq!((groups.shown.len(), groups.others.len(), other(&groups)), (MAX_GROUPS, 0, (0, None)));
        groups.update(&sample(&[(1, 10, 0), (2, 20, 2)]));
        assert_eq!(other(&groups), (30, Some(2)));
        groups.update(&sample(&[(1, 11, 1), (2, 25, 2)]));
        assert_eq!(other(&groups), (36, Some(3)));
        // One leaves: what it has counted remains.
        groups.update(&sample(&[(2, 26, 2)]));
        assert_eq!((groups.others.len(), other(&groups)), (1, (37, Some(3))));
        // One that started again is counted from there.
        groups.update(&sample(&[(2, 4, 1)]));
        assert_eq!(other(&groups), (41, Some(4)));
    }

    /// Catches a restart of the agent that adds what the kernel has counted for years to the rate of one minute.
    #[test]
    fn the_sum_begins_at_zero_with_the_agent() {
        let mut groups = Groups::default();
        groups.update(&sample(&[(1, 1_000_000, 7)]));
        assert_eq!((groups.others.len(), other(&groups)), (1, (0, None)));
        groups.update(&sample(&[(1, 1_000_005, 8), (2, 3, 0)]));
        assert_eq!(other(&groups), (8, Some(1)));
    }

    #[test]
    fn a_scrape_has_the_sum_of_the_others_and_counts_the_branches_that_it_leaves_out() {
        static LEFT_OUT: Family<0> = Family::gauge("t_left_out", "Series left out.", []);
        static DROPS: Family<3> = Family::counter("t_drops", "Drops.", ["group", "port", "reason"]);
        struct Scrape(GroupRows);
        impl canopy_metrics::Source for Scrape {
            fn scrape(&self, page: &mut Page<'_>) -> std::fmt::Result {
                self.0.write(page)?;
                page.write(&DROPS, self.0.drops())?;
                self.0.write_branches(page)
            }
        }
        let mut groups = Groups::default();
        groups.update(&sample(&[]));
        groups.update(&sample(&[(1, 10, 2)]));
        let mut shown = group(1, 4, 0);
        let branch = |n: u16| BranchTelemetry {
            address: std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n),
            next: None,
            unconfirmed: false,
            ack_psn: None,
            epsn: None,
            fatal: None,
            late: None,
            start: None,
            ccount: 0,
            last_feedback: None,
            packets: 9,
            octets: Octets::ZERO,
            completed_min: None,
        };
        shown.branches = vec![branch(1), branch(2)];
        let row = Row { name: "demo".into(), branches: shown.branches.clone(), counters: shown };
        let rows = GroupRows { rows: vec![row], other: Some(groups.sum.clone()), groups: 1001, others: 1 };
        // 21 series before the branches, and room for one of them.
        let bound = canopy_metrics::Bound { most: 26, left_out: &LEFT_OUT };
        let text = canopy_metrics::format::Format::Text.write(Scrape(rows), bound).unwrap();
        for line in [
            "canopy_group_data_packets_total{group=\"demo\"} 4",
            "canopy_group_data_packets_total{group=\"_other\"} 10",
            "t_drops_total{group=\"_other\",port=\"\",reason=\"branch_unknown\"} 2",
            "canopy_branch_packets_total{group=\"demo\",branch=\"2001:db8::1\"} 9",
            "t_left_out 5",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("2001:db8::2"), "{text}");
    }

    #[test]
    fn a_place_goes_to_a_new_group_and_to_none_that_was_in_the_sum() {
        let mut groups = Groups::default();
        groups.update(&sample(&[]));
        groups.update(&sample(&[(1, 10, 0)]));
        let mut without_first = sample(&[(1, 11, 0)]);
        without_first.remove(0);
        groups.update(&without_first);
        assert_eq!((groups.shown.len(), groups.others.len()), (MAX_GROUPS - 1, 1));
        without_first.push(group(FULL + 2, 5, 0));
        groups.update(&without_first);
        assert!(groups.shown.contains(&GroupId::new("g", FULL + 2).unwrap()));
        assert_eq!((groups.others.len(), other(&groups).0), (1, 11));
    }
}
