// SPDX-License-Identifier: Apache-2.0
//! Detects the branches that stall a group (decisions 3.10), and those whose queue pair is in error (3.7). Pure: takes samples and the time, returns events.
//!
//! A group makes no progress while its minimum is below the data sent downstream and does not change. A source that failed or
//! paused within a message has the same effect. A branch is therefore reported only if data was forwarded after a third of the
//! stall time, one retransmission timeout, and the branch did not acknowledge it for another third.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use std::time::Duration;

use canopy_model::ids::GroupId;
use canopy_model::telemetry::{BranchTelemetry, Event, EventCode, FatalNak, GroupTelemetry};
use canopy_units::{Monotonic, UnixTime, UnwrappedPsn};

#[cfg(test)]
mod tests;

/// Progress of every group between samples.
#[derive(Debug, Default)]
pub struct Stalls {
    groups: BTreeMap<GroupId, GroupProgress>,
    /// Branches whose fatal NAK was reported.
    fatal: BTreeSet<(GroupId, Ipv6Addr)>,
}

/// Progress of one group.
#[derive(Debug)]
struct GroupProgress {
    /// Of the program at the last sample.
    epoch: u32,
    min_next: UnwrappedPsn,
    data_packets: u64,
    /// When the minimum last changed, or data became outstanding.
    since: Monotonic,
    /// When data was first forwarded at least a third of the stall time after `since`.
    probed: Option<Monotonic>,
    /// When each branch was first sampled: a new branch gets a whole stall time.
    seen: BTreeMap<Ipv6Addr, Monotonic>,
    /// Reported branches, each with the next PSN at which it stalled.
    reported: BTreeMap<Ipv6Addr, UnwrappedPsn>,
}

impl Stalls {
    /// Processes a sample of all groups at `now` on any monotonic clock; groups that are not in it are forgotten. Groups
    /// without a `stall_after` time are not watched.
    pub fn observe(
        &mut self,
        groups: &[GroupTelemetry],
        stall_after: impl Fn(GroupId) -> Option<Duration>,
        now: Monotonic,
        time: UnixTime,
    ) -> Vec<Event> {
        let mut events = self.fatal(groups, time);
        let mut before = std::mem::take(&mut self.groups);
        for group in groups {
            let Some(stall_after) = stall_after(group.group_id) else { continue };
            let progress = before.remove(&group.group_id).unwrap_or_else(|| GroupProgress::new(group, now));
            let (progress, notices) = progress.observe(group, stall_after, now);
            self.groups.insert(group.group_id, progress);
            events.extend(notices.into_iter().map(|(code, branch, detail)| Event {
                time,
                code,
                group: Some(group.group_id),
                branch: Some(branch),
                epoch: Some(group.epoch),
                detail,
                reach: None,
            }));
        }
        events
    }

    /// Makes the next sample report stalled branches and fatal NAKs again, for a controller that may not have received the events.
    pub fn report_again(&mut self) {
        self.groups.values_mut().for_each(|progress| progress.reported.clear());
        self.fatal.clear();
    }

    /// Events for branches whose fatal NAK was not reported yet.
    fn fatal(&mut self, groups: &[GroupTelemetry], time: UnixTime) -> Vec<Event> {
        let all = groups.iter().flat_map(|g| g.branches.iter().map(move |b| (g, b)));
        let fatal: Vec<_> = all.filter_map(|(group, b)| Some((group, b.address, b.fatal?))).collect();
        let of = |(group, branch, _): &(&GroupTelemetry, Ipv6Addr, FatalNak)| (group.group_id, *branch);
        let before = std::mem::replace(&mut self.fatal, fatal.iter().map(of).collect());
        let new = fatal.into_iter().filter(|found| !before.contains(&of(found)));
        let event = |(group, branch, nak): (&GroupTelemetry, Ipv6Addr, FatalNak)| Event {
            time,
            code: EventCode::FatalNak,
            group: Some(group.group_id),
            branch: Some(branch),
            epoch: Some(group.epoch),
            detail: format!(
                "{branch} answered PSN {:#08x} with a fatal NAK ({}, AETH syndrome {:#04x}): its queue pair is in error and does not recover by retransmission",
                nak.psn,
                nak.meaning(),
                nak.syndrome
            ),
            reach: None,
        };
        new.map(event).collect()
    }
}

/// Next PSN of an unconfirmed branch.
const UNCONFIRMED: UnwrappedPsn = UnwrappedPsn::ZERO;

fn is_at(branch: &BranchTelemetry, next: UnwrappedPsn) -> bool {
    if branch.unconfirmed { next == UNCONFIRMED } else { branch.next == Some(next) }
}

type Notice = (EventCode, Ipv6Addr, String);

impl GroupProgress {
    fn new(group: &GroupTelemetry, now: Monotonic) -> Self {
        let (min_next, data_packets) = (group.min_next.unwrap_or(UNCONFIRMED), group.data_packets);
        let epoch = group.epoch;
        Self {
            epoch,
            min_next,
            data_packets,
            since: now,
            probed: None,
            seen: BTreeMap::new(),
            reported: BTreeMap::new(),
        }
    }

    fn observe(mut self, group: &GroupTelemetry, stall_after: Duration, now: Monotonic) -> (Self, Vec<Notice>) {
        let third = stall_after / 3;
        let forwarded = group.data_packets != self.data_packets;
        self.data_packets = group.data_packets;
        self.seen = group.branches.iter().map(|b| (b.address, *self.seen.get(&b.address).unwrap_or(&now))).collect();
        let mut notices = self.recovered(group);
        // The controller ignores reports of an earlier program.
        if self.epoch != group.epoch {
            self.epoch = group.epoch;
            self.reported.clear();
        }
        let unconfirmed = group.branches.iter().any(|b| b.unconfirmed) && group.high > UnwrappedPsn::ZERO;
        let Some(min_next) = group.min_next.filter(|min| *min < group.high).or(unconfirmed.then_some(UNCONFIRMED))
        else {
            // All data is acknowledged, or there is no branch to acknowledge it.
            (self.since, self.probed) = (now, None);
            return (self, notices);
        };
        if min_next != self.min_next {
            (self.min_next, self.since, self.probed) = (min_next, now, None);
        }
        if forwarded && self.probed.is_none() && now.since(self.since) >= third {
            self.probed = Some(now);
        }
        if self.probed.is_none_or(|probed| now.since(probed) < third) {
            return (self, notices);
        }
        for branch in group.branches.iter().filter(|b| is_at(b, min_next)) {
            let since = self.since.max(self.seen.get(&branch.address).copied().unwrap_or(now));
            let stalled = now.since(since);
            if stalled >= stall_after && self.reported.insert(branch.address, min_next).is_none() {
                let ms = stalled.as_millis();
                let missing = match min_next {
                    UNCONFIRMED => "it never did".to_owned(),
                    next => format!("{} packets are outstanding", group.high.since(next)),
                };
                let detail = format!(
                    "{} has acknowledged nothing for {ms} ms and holds the group up: {missing}",
                    branch.address
                );
                notices.push((EventCode::BranchStalled, branch.address, detail));
            }
        }
        (self, notices)
    }

    /// Events for reported branches that made progress; branches that left are dropped without one.
    fn recovered(&mut self, group: &GroupTelemetry) -> Vec<Notice> {
        let mut notices = Vec::new();
        self.reported.retain(|address, next| {
            let Some(branch) = group.branches.iter().find(|b| b.address == *address) else { return false };
            let stalled = is_at(branch, *next) && *next < group.high;
            if !stalled {
                notices.push((EventCode::BranchRecovered, *address, format!("{address} acknowledges again")));
            }
            stalled
        });
        notices
    }
}
