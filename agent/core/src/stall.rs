// SPDX-License-Identifier: Apache-2.0
//! Finds the branches that hold a group up (decisions 3.10). Pure: samples and the time come in, events go out.
//!
//! A group stands still while its minimum is below what was sent down and does not change. That alone blames nobody: a
//! source that died or pauses in the middle of a message leaves the same picture. So its data must have been seen to pass
//! after a third of the time, one retransmission timeout, and the branch gets another third to answer that.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use canopy_model::ids::GroupId;
use canopy_model::telemetry::{BranchTelemetry, Event, GroupTelemetry};

#[cfg(test)]
mod tests;

/// Code of the event that a branch holds its group up.
pub const STALLED: &str = "BranchStalled";
/// Code of the event that it no longer does.
pub const RECOVERED: &str = "BranchRecovered";

/// What is remembered of every group between samples.
#[derive(Debug, Default)]
pub struct Stalls(BTreeMap<GroupId, Watched>);

/// One group.
#[derive(Debug)]
struct Watched {
    min_next: u64,
    data_packets: u64,
    /// When the minimum came to stand where it is, with data outstanding.
    since: u64,
    /// When data was first seen to pass a third of the time later.
    asked: Option<u64>,
    /// When each branch was first seen: one that is new has held up nobody.
    seen: BTreeMap<Ipv6Addr, u64>,
    /// Branches that are stalled, with the `next` that they stand at.
    told: BTreeMap<Ipv6Addr, u64>,
}

impl Stalls {
    /// Takes in a sample of all groups at `now_ns` on any steady clock; groups that are not in it are forgotten. Groups for
    /// which `stall_after` has no time are not watched.
    pub fn observe(
        &mut self,
        groups: &[GroupTelemetry],
        stall_after: impl Fn(GroupId) -> Option<u64>,
        now_ns: u64,
        time_unix_ns: u64,
    ) -> Vec<Event> {
        let mut events = Vec::new();
        let mut before = std::mem::take(&mut self.0);
        for group in groups {
            let Some(stall_after_ns) = stall_after(group.group_id) else { continue };
            let watched = before.remove(&group.group_id).unwrap_or_else(|| Watched::new(group, now_ns));
            let (watched, notices) = watched.observe(group, stall_after_ns, now_ns);
            self.0.insert(group.group_id, watched);
            events.extend(notices.into_iter().map(|(code, branch, detail)| Event {
                time_unix_ns,
                code: code.to_owned(),
                group: Some(group.group_id),
                branch: Some(branch),
                detail,
            }));
        }
        events
    }

    /// Forgets what was told, so that it is told again: to somebody who may not have heard it.
    pub fn tell_again(&mut self) {
        self.0.values_mut().for_each(|w| w.told.clear());
    }
}

/// Where a branch stands that never acknowledged anything.
const NOTHING: u64 = 0;

fn stands_at(branch: &BranchTelemetry, next: u64) -> bool {
    if branch.unheard { next == NOTHING } else { branch.next == Some(next) }
}

type Notice = (&'static str, Ipv6Addr, String);

impl Watched {
    fn new(group: &GroupTelemetry, now: u64) -> Self {
        let (min_next, data_packets) = (group.min_next.unwrap_or(0), group.data_packets);
        Self { min_next, data_packets, since: now, asked: None, seen: BTreeMap::new(), told: BTreeMap::new() }
    }

    fn observe(mut self, group: &GroupTelemetry, stall_after: u64, now: u64) -> (Self, Vec<Notice>) {
        let third = stall_after / 3;
        let passed = group.data_packets != self.data_packets;
        self.data_packets = group.data_packets;
        self.seen = group.branches.iter().map(|b| (b.address, *self.seen.get(&b.address).unwrap_or(&now))).collect();
        let mut notices = self.recovered(group);
        let silent = group.branches.iter().any(|b| b.unheard) && group.high > 0;
        let Some(min_next) = group.min_next.filter(|min| *min < group.high).or(silent.then_some(NOTHING)) else {
            // Everything that was sent is acknowledged, or there is nobody to acknowledge it.
            (self.since, self.asked) = (now, None);
            return (self, notices);
        };
        if min_next != self.min_next {
            (self.min_next, self.since, self.asked) = (min_next, now, None);
        }
        if passed && self.asked.is_none() && now.saturating_sub(self.since) >= third {
            self.asked = Some(now);
        }
        if self.asked.is_none_or(|asked| now.saturating_sub(asked) < third) {
            return (self, notices);
        }
        for branch in group.branches.iter().filter(|b| stands_at(b, min_next)) {
            let since = self.since.max(self.seen.get(&branch.address).copied().unwrap_or(now));
            let still = now.saturating_sub(since);
            if still >= stall_after && self.told.insert(branch.address, min_next).is_none() {
                let ms = still / 1_000_000;
                let missing = match min_next {
                    NOTHING => "it never did".to_owned(),
                    next => format!("{} packets are outstanding", group.high - next),
                };
                let detail = format!(
                    "{} has acknowledged nothing for {ms} ms and holds the group up: {missing}",
                    branch.address
                );
                notices.push((STALLED, branch.address, detail));
            }
        }
        (self, notices)
    }

    /// Stalled branches that moved on; of one that left there is nothing to say.
    fn recovered(&mut self, group: &GroupTelemetry) -> Vec<Notice> {
        let mut notices = Vec::new();
        self.told.retain(|address, stood| {
            let Some(branch) = group.branches.iter().find(|b| b.address == *address) else { return false };
            let stands = stands_at(branch, *stood) && *stood < group.high;
            if !stands {
                notices.push((RECOVERED, *address, format!("{address} acknowledges again")));
            }
            stands
        });
        notices
    }
}
