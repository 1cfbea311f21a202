// SPDX-License-Identifier: Apache-2.0
//! What a link loses of the groups' data (decisions 3.14): the counters of a parent and of its child in, lost packets out. Pure, and in
//! memory only. Echo Requests find nothing that happens to data alone: large packets, or those of one class.
//!
//! Both nodes sample at times of their own, and their clocks cannot be compared. What both know is the highest PSN, `high`. Of the PSNs
//! up to `high`, a node has *skipped* those that it did not receive in their turn: `high` less the packets that raised it. A
//! retransmission raises nothing, so it changes nothing there, whenever it passes. The child skips what the parent skipped, and what the
//! link between them lost:
//!
//! ```text
//! lost between two values of high = child's skipped - parent's skipped - copies that the parent did not send
//! ```
//!
//! The parent's number at the child's `high` is interpolated between two of its samples. It can be wrong by no more than what the parent
//! itself skipped between them, and that does not add up: all numbers count from the start. Packets on the way are in neither, because
//! the child's `high` is behind them. The last packets of a flight are skipped only if others pass after them, so somewhat less is found
//! than is lost.
//!
//! If nothing of a group arrives any more, the child's `high` stays where it is; [`DataFlows::withheld`] finds that.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::Ipv6Addr;
use std::time::Duration;

use canopy_model::ids::{GroupId, PortIndex};
use canopy_model::node_spec::{Branch, BranchKind};
use canopy_model::telemetry::GroupTelemetry;
use canopy_units::Monotonic;

use crate::programs::Program;
use crate::resource::Node;
use crate::status::AtNode;

/// Samples kept of a group at a node. Of a parent they must reach back beyond the newest one of its child.
const SAMPLES: usize = 4;
/// Fields of one sample are read one after the other, while packets pass.
const SKEW: i64 = 64;
/// A child that has counted no packet for this long does not receive what was sent meanwhile...
const IDLE: Duration = Duration::from_millis(900);
/// ...nor what its parent had sent this long ago: longer than packets and samples take on their way.
const ON_THE_WAY: Duration = Duration::from_millis(300);
/// A group that a parent has sent nothing of for this long is at rest there, too.
const EXPECTED: Duration = Duration::from_secs(5);
/// Fewest packets that must be missing then.
const FEWEST_WITHHELD: u64 = 8;
/// Bits of a PSN on the wire. A node that came into a tree later counts from another multiple of 2^24.
const PSN_BITS: u32 = 24;

/// Groups by node.
#[derive(Clone, Debug, Default)]
pub(super) struct DataFlows {
    flows: HashMap<String, BTreeMap<GroupId, Flow>>,
    /// By node: when its newest sample arrived that leaves out groups at rest, and the groups of which a parent has sent it data since its
    /// last sample of them, with the time of the parent's.
    rests: HashMap<String, Resting>,
}

/// What a node leaves out of its samples.
#[derive(Clone, Debug, Default)]
struct Resting {
    /// When the node's present stream began: its first sample has all groups that it has.
    since: Monotonic,
    at: Option<Monotonic>,
    expected: BTreeMap<GroupId, Monotonic>,
}

/// A group at a node, in one epoch.
#[derive(Clone, Debug)]
struct Flow {
    epoch: u32,
    /// When its first sample arrived.
    since: Monotonic,
    /// When its newest one did.
    newest: Monotonic,
    /// Oldest first; each with another `high`.
    points: VecDeque<Point>,
    data_packets: u64,
    /// When the first sample with these `data_packets` arrived.
    idle_since: Monotonic,
    children: Vec<Child>,
    /// Up to where the link from the parent was measured.
    base: Option<Base>,
}

#[derive(Clone, Copy, Debug)]
struct Point {
    at: Monotonic,
    high: u64,
    /// PSNs below `high` that did not come in their turn, and a constant.
    skipped: u64,
}

/// An active branch to a child node.
#[derive(Clone, Debug)]
struct Child {
    address: Ipv6Addr,
    /// `high` in the first sample in which it was active.
    from: u64,
    /// Oldest first.
    copies: VecDeque<Copies>,
}

#[derive(Clone, Copy, Debug)]
struct Copies {
    at: Monotonic,
    high: u64,
    /// Data packets of which the child got no copy, and a constant.
    unsent: u64,
    packets: u64,
    next: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Base {
    /// Of the parent's flow.
    since: Monotonic,
    high: u64,
    skipped: u64,
    of_parent: u64,
    unsent: u64,
    /// Lost packets that were counted too early, or less than none, for the interpolation's sake; never more than 0.
    early: i64,
}

/// What a link carried of one group between two samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Carried {
    /// Packets that the child had to get, without retransmissions.
    pub(super) packets: u64,
    /// Those that it did not get.
    pub(super) lost: u64,
}

/// Data of which nothing arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Withheld {
    /// Copies that were sent and did not arrive, at least.
    pub(super) packets: u64,
    /// Since when none has arrived.
    pub(super) since: Monotonic,
}

/// A node's part in a group, with its present program.
pub(super) struct Part<'a> {
    pub(super) at: AtNode<'a>,
    pub(super) program: Program<'a>,
}

impl<'a> Part<'a> {
    /// `None`: it has none.
    pub(super) fn of(at: AtNode<'a>) -> Option<Self> {
        Some(Self { at, program: at.program()? })
    }

    /// The parent, and the parent's port that leads here. `None` while this node moves to another one: both may send then.
    pub(super) fn parent(&self) -> Option<(Self, PortIndex)> {
        let (node, port, program) = self.program.parent()?;
        Some((Self { at: self.at.elsewhere(node), program }, port))
    }

    /// The child nodes, and the ports that lead there, but for those that move to another parent.
    pub(super) fn children(&self) -> impl Iterator<Item = (Self, PortIndex)> + use<'a> {
        let at = self.at;
        self.program.children().map(move |(node, port, program)| (Self { at: at.elsewhere(node), program }, port))
    }

    /// The name of one of the node's ports.
    pub(super) fn port_name(&self, port: PortIndex) -> Option<&'a str> {
        self.at.node.spec.base.ports.get(usize::from(port.get()) - 1).map(|port| port.name.as_str())
    }
}

impl DataFlows {
    /// Adds a node's sample, which arrived at `now`. False if it cannot be measured by: it is of another epoch than the node's present program,
    /// or of an agent that does not count what it takes.
    pub(super) fn add(&mut self, part: &Part<'_>, sample: &GroupTelemetry, now: Monotonic) -> bool {
        let (node, program, id) = (part.at.node, &part.program, sample.group_id);
        let Some(fresh) = sample.fresh_packets.filter(|_| program.epoch() == sample.epoch) else {
            self.forget(node, id);
            return false;
        };
        let flows = self.flows.entry(node.spec.base.name.clone()).or_default();
        let flow = match flows.remove(&id).filter(|flow| flow.is_continued_by(sample, fresh)) {
            Some(mut flow) => {
                flow.add(program, sample, fresh, now);
                flow
            }
            None => Flow::new(program, sample, fresh, now),
        };
        flows.insert(id, flow);
        true
    }

    /// Forgets groups that the node no longer has: their samples have stopped. Called for every message, and does nothing for most.
    pub(super) fn prune(&mut self, node: &Node) {
        let groups = &node.spec.groups;
        if let Some(flows) = self.flows.get_mut(&node.spec.base.name).filter(|flows| flows.len() > groups.len()) {
            flows.retain(|id, _| groups.contains(id));
        }
    }

    /// `parent` has sent `child` data of the group, as of a sample that arrived at `now`: unless the child leaves out the group, its next
    /// sample shows whether it arrived.
    pub(super) fn expect(&mut self, parent: &Part<'_>, child: &Part<'_>, now: Monotonic) {
        let (id, parent, child) = (parent.at.id(), parent.at.node, child.at.node);
        let Some(resting) = self.rests.get_mut(&child.spec.base.name) else { return };
        if resting.at.is_none_or(|at| now.since(at) >= expected(child)) {
            resting.expected.clear();
            return;
        }
        let flow = self.flows.get(&parent.spec.base.name).and_then(|flows| flows.get(&id));
        if flow.is_some_and(|flow| flow.idle_since == now) {
            resting.expected.insert(id, now);
        }
    }

    /// The first sample of a stream of the node arrived at `now`, before it is added.
    pub(super) fn begin(&mut self, node: &str, now: Monotonic) {
        self.rests.insert(node.to_owned(), Resting { since: now, ..Resting::default() });
    }

    /// The last part of a sample of the node arrived at `now`: what it leaves out has not changed. Returns those of these groups that a
    /// parent has sent data of to the node meanwhile.
    pub(super) fn rest(&mut self, node: &Node, now: Monotonic) -> Vec<GroupId> {
        let name = &node.spec.base.name;
        let resting = self.rests.entry(name.clone()).or_default();
        let before = resting.at.replace(now);
        resting.expected.retain(|_, since| now.since(*since) < expected(node));
        let (Some(before), Some(flows)) = (before, self.flows.get(name)) else { return Vec::new() };
        // Another one is in this sample.
        let since = resting.since;
        let is_left_out =
            |id: &&GroupId| flows.get(id).is_some_and(|flow| flow.newest <= before && flow.newest >= since);
        resting.expected.keys().filter(is_left_out).copied().collect()
    }

    fn forget(&mut self, node: &Node, id: GroupId) {
        if let Some(flows) = self.flows.get_mut(&node.spec.base.name) {
            flows.remove(&id);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.flows.values().map(BTreeMap::len).sum()
    }

    /// Forgets the nodes that `is_known` rejects.
    pub(super) fn retain(&mut self, is_known: impl Fn(&str) -> bool) {
        self.flows.retain(|node, _| is_known(node));
        self.rests.retain(|node, _| is_known(node));
    }

    /// What the link from `parent` to `child` carried of the group since the last call that returned something.
    pub(super) fn measure(&mut self, parent: &Part<'_>, child: &Part<'_>) -> Option<Carried> {
        let from = self.flow(parent)?;
        let branch = from.child(child.at.node)?;
        let (since, newest) = (from.since, from.points.back()?.high);
        let to = self.flow(child)?;
        let reached = |point: &Point| (near(point.high, newest), point.skipped);
        let (high, skipped) = to.points.iter().rev().map(reached).find(|(high, _)| *high <= newest)?;
        let (of_parent, between) = from.skipped_at(high).filter(|_| high >= branch.from)?;
        let unsent = branch.unsent_at(high)?;
        let before = to.base.filter(|base| base.since == since);
        if before.is_some_and(|base| high <= base.high) {
            return None;
        }
        let mut base = Base { since, high, skipped, of_parent, unsent, early: 0 };
        let carried = before.map(|before| {
            let by_parent = difference(of_parent, before.of_parent);
            let missing = difference(skipped, before.skipped) - by_parent - difference(unsent, before.unsent).max(0);
            let lost = before.early + missing;
            base.early = lost.min(0).max(-between - SKEW);
            let packets = (high - before.high).saturating_sub(by_parent.max(0) as u64);
            Carried { packets, lost: (lost.max(0) as u64).min(packets) }
        });
        self.flows.get_mut(child.at.name())?.get_mut(&child.at.id())?.base = Some(base);
        carried
    }

    /// Whether nothing of the group arrives at `child` although `parent` sends it copies: as of the child's newest sample, which arrived
    /// at `now`.
    pub(super) fn withheld(&self, parent: &Part<'_>, child: &Part<'_>, now: Monotonic) -> Option<Withheld> {
        let (from, to) = (self.flow(parent)?, self.flow(child)?);
        let branch = from.child(child.at.node)?;
        let since = to.idle_since;
        if now.since(since) < IDLE {
            return None;
        }
        let is_due = |at: Monotonic| now.since(at) >= ON_THE_WAY;
        // Of PSNs that the child has not reached; it has acknowledged none of them.
        let beyond = || {
            let newest = branch.copies.back()?;
            let sent = from.points.iter().rev().find(|point| is_due(point.at))?.high;
            let reached = near(to.points.back()?.high, sent);
            let unsent = difference(newest.unsent, branch.unsent_at(reached)?).max(0) as u64;
            let has_answered = newest.next.is_some_and(|next| near(next, sent) > reached);
            // Before the branch was active, another parent sent it data, or none; unless it got a copy of all that this one took.
            let first = if newest.unsent == 0 { reached } else { reached.max(branch.from) };
            (!has_answered).then_some(sent.saturating_sub(first).saturating_sub(unsent))
        };
        // Of any; no acknowledgement came meanwhile.
        let again = || {
            let first = branch.copies.iter().find(|copies| copies.at > since)?;
            let last = branch.copies.iter().rev().find(|copies| is_due(copies.at))?;
            let newest = branch.copies.back()?;
            (first.next == newest.next).then_some(last.packets.saturating_sub(first.packets))
        };
        let packets = beyond().max(again()).filter(|packets| *packets >= FEWEST_WITHHELD)?;
        Some(Withheld { packets, since })
    }

    /// The node's flow, if it is of the present program.
    fn flow(&self, part: &Part<'_>) -> Option<&Flow> {
        let flow = self.flows.get(part.at.name())?.get(&part.at.id());
        flow.filter(|flow| flow.epoch == part.program.epoch())
    }
}

impl Flow {
    fn new(program: &Program<'_>, sample: &GroupTelemetry, fresh: u64, now: Monotonic) -> Self {
        let mut flow = Self {
            epoch: sample.epoch,
            since: now,
            newest: now,
            points: VecDeque::new(),
            data_packets: sample.data_packets,
            idle_since: now,
            children: Vec::new(),
            base: None,
        };
        flow.add(program, sample, fresh, now);
        flow
    }

    /// Whether the counters continue where the last sample had them: a node that has lost its state starts over.
    fn is_continued_by(&self, sample: &GroupTelemetry, fresh: u64) -> bool {
        let is_next = |last: &Point| {
            let high = sample.high.get();
            let skipped = difference(high.wrapping_sub(fresh), last.skipped);
            high >= last.high && skipped >= -SKEW && skipped <= difference(high, last.high) + SKEW
        };
        self.epoch == sample.epoch && self.data_packets <= sample.data_packets && self.points.back().is_none_or(is_next)
    }

    fn add(&mut self, program: &Program<'_>, sample: &GroupTelemetry, fresh: u64, now: Monotonic) {
        self.newest = now;
        let high = sample.high.get();
        if self.data_packets != sample.data_packets {
            (self.data_packets, self.idle_since) = (sample.data_packets, now);
        }
        // 0: no data yet.
        if high != 0 && self.points.back().is_none_or(|last| last.high != high) {
            push(&mut self.points, Point { at: now, high, skipped: high.wrapping_sub(fresh) });
        }
        let mut before = std::mem::take(&mut self.children);
        let is_child = |b: &Branch| !b.standby && matches!(b.kind, BranchKind::Node { .. });
        let children: Vec<Ipv6Addr> = program.branches().filter(is_child).map(|b| b.address).collect();
        for branch in &sample.branches {
            let is_active = branch.next.is_some() || branch.unconfirmed;
            if !is_active || !children.contains(&branch.address) {
                continue;
            }
            let known = before.iter().position(|child| child.address == branch.address);
            let known = known.map(|at| before.swap_remove(at));
            let is_next = |child: &Child| child.copies.back().is_none_or(|last| last.packets <= branch.packets);
            let new = || Child { address: branch.address, from: high, copies: VecDeque::new() };
            let mut child = known.filter(is_next).unwrap_or_else(new);
            let packets = branch.packets;
            let unsent = sample.data_packets.wrapping_sub(packets);
            let next = branch.next.map(|next| next.get());
            push(&mut child.copies, Copies { at: now, high, unsent, packets, next });
            self.children.push(child);
        }
    }

    fn child(&self, node: &Node) -> Option<&Child> {
        self.children.iter().find(|child| child.address == node.spec.base.node_address)
    }

    /// What was skipped below `high`, and how much of that the interpolation can be wrong by. `None` where no two samples are around it.
    fn skipped_at(&self, high: u64) -> Option<(u64, i64)> {
        let after = self.points.iter().position(|point| point.high >= high)?;
        let (next, before) = (self.points[after], after.checked_sub(1).map(|at| self.points[at]));
        if next.high == high {
            return Some((next.skipped, 0));
        }
        let before = before?;
        let between = difference(next.skipped, before.skipped).max(0);
        let part = i128::from(between) * i128::from(high - before.high) / i128::from(next.high - before.high);
        Some((before.skipped.wrapping_add(part as u64), between))
    }
}

impl Child {
    /// As of the last sample before the parent passed `high`.
    fn unsent_at(&self, high: u64) -> Option<u64> {
        let before = self.copies.iter().rev().find(|copies| copies.high <= high);
        before.or(self.copies.front()).map(|copies| copies.unsent)
    }
}

fn push<T>(samples: &mut VecDeque<T>, sample: T) {
    if samples.len() == SAMPLES {
        samples.pop_front();
    }
    samples.push_back(sample);
}

/// How long a group is expected at a node after its parent's sample.
fn expected(child: &Node) -> Duration {
    EXPECTED.max(child.telemetry.interval * 3)
}

/// How much further `now` is than `before`; counters may start anywhere.
fn difference(now: u64, before: u64) -> i64 {
    now.wrapping_sub(before) as i64
}

/// The number with the PSN of `high` that is nearest to `other`.
fn near(high: u64, other: u64) -> u64 {
    let shift = 64 - PSN_BITS;
    let ahead = (high.wrapping_sub(other) << shift) as i64 >> shift;
    other.wrapping_add_signed(ahead)
}
