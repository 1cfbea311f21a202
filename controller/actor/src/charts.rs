// SPDX-License-Identifier: Apache-2.0
//! Chart data from what nodes report. The charts' lock is taken before the domain's, never inside it: what left the domain is removed
//! under the same lock, so that no late sample brings it back.

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv6Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use canopy_controller_core::DesiredNode;
use canopy_controller_core::chart::series::{ChartObject, Series};
use canopy_controller_core::chart::span::{MAX_SPAN, Pace, Span};
use canopy_controller_core::chart::store::{Chart, Charts, Range, Usage, range, seconds};
use canopy_controller_core::chart::track::Reading;
use canopy_controller_core::view::{BranchReceiver, BranchRole, Branches, TreeNodeView};
use canopy_model::congestion::PortCongestion;
use canopy_model::ids::{GroupId, PortIndex};
use canopy_model::status::GroupPhase;
use canopy_model::telemetry::{GroupTelemetry, LinkLoss, LinkRtt};
use canopy_units::{Monotonic, UnixTime};

use crate::Controller;
use crate::telemetry::Progress;

/// Branches of one group at one node that are charted, at most.
const MAX_BRANCHES: usize = 1024;
/// Time between two readings of the fleet.
const FLEET_EVERY: Duration = Duration::from_secs(1);
/// The charts' clock is the wall clock of the controller's start and runs evenly from there; answers are moved by its distance to the
/// wall clock, if that was set meanwhile.
const MAX_DRIFT: u64 = 1_000_000_000;

/// Everything about charts that the controller keeps.
pub(crate) struct ChartState {
    inner: Mutex<Inner>,
    /// The wall clock at the start.
    origin: UnixTime,
}

impl Default for ChartState {
    fn default() -> Self {
        Self { inner: Mutex::default(), origin: UnixTime::now() }
    }
}

#[derive(Default)]
struct Inner {
    charts: Charts,
    nodes: HashMap<String, NodeCharts>,
    /// Nodes that were known since the start.
    known: u32,
    fleet: Pace,
}

/// What is kept of a node; one that is new has numbers of samples that no other node has, nor it itself before it left.
fn entry<'a>(nodes: &'a mut HashMap<String, NodeCharts>, known: &mut u32, node: &str) -> &'a mut NodeCharts {
    nodes.entry(node.to_owned()).or_insert_with(|| {
        *known = known.wrapping_add(1);
        NodeCharts { pace: Pace::new(*known), ..NodeCharts::default() }
    })
}

/// What the fleet's charts need of one node.
#[derive(Default)]
struct NodeCharts {
    pace: Pace,
    sample: u64,
    /// Octets that groups got from their sources here in the last sample, and what unicast would have sent more.
    octets: f64,
    saved: f64,
    /// The sample's time, and its length in seconds.
    end: Monotonic,
    length: f64,
    /// Packets dropped since the node is known.
    dropped: u64,
    /// Hops of all receivers of the groups whose headend the node is, with the group's epoch.
    hops: HashMap<GroupId, (u32, f64)>,
}

impl NodeCharts {
    fn next(&mut self, taken: UnixTime, now: Monotonic) -> Span {
        let span = self.pace.next(taken, now);
        if span.sample != self.sample {
            (self.sample, self.octets, self.saved) = (span.sample, 0.0, 0.0);
            (self.end, self.length) = (span.end, span.end.since(span.start).as_secs_f64());
        }
        span
    }
}

/// Groups of a sample; `None`: the node has no program of it.
type Names = Vec<Option<Named>>;

/// A group at a node.
struct Named {
    name: String,
    epoch: u32,
    is_headend: bool,
}

/// Charts of one object, and where their steps are on the wall clock.
pub struct Charted {
    /// Start of the first step.
    pub start: UnixTime,
    /// Seconds per step.
    pub step: u64,
    /// The series.
    pub charts: Vec<Chart>,
}

/// For which receivers the source of a group waited, by second.
pub struct Strip {
    /// Start of the first second.
    pub start: UnixTime,
    /// All of the tree.
    pub receivers: Vec<StripReceiver>,
}

/// A receiver's shares of what its source waited for.
pub struct StripReceiver {
    /// Its host.
    pub host: String,
    /// Its edge.
    pub node: String,
    /// By second: 0 to 1; `None` where nothing was acknowledged, or nothing is known.
    pub shares: Vec<Option<f32>>,
}

/// Seconds of a [`Strip`]: all that is kept second by second.
const STRIP: u64 = 300;

impl Controller {
    /// Charts what a node counted of its groups; `progress` is what that is more than in the sample before. `others_at_rest`: of all other
    /// groups nothing has changed.
    pub fn chart_groups(
        &self,
        node: &str,
        taken: UnixTime,
        groups: &BTreeMap<GroupId, GroupTelemetry>,
        progress: &HashMap<GroupId, Progress>,
        others_at_rest: bool,
    ) {
        if groups.is_empty() && !others_at_rest {
            return;
        }
        let mut inner = self.charts();
        let Inner { charts, nodes, known, .. } = &mut *inner;
        let Some((spec, names)) = self.names(node, groups) else { return };
        let at = entry(nodes, known, node);
        let span = at.next(taken, self.chart_now());
        if others_at_rest {
            charts.rest(span);
        }
        for (group, name) in groups.values().zip(names) {
            let Some(Named { name, epoch, is_headend }) = name else { continue };
            let progress = progress.get(&group.group_id).copied().unwrap_or_default();
            at.saved -= progress.branch_octets as f64;
            if is_headend {
                let known = at.hops.get(&group.group_id).filter(|(of, _)| *of == epoch);
                let of_epoch = known.map(|(_, hops)| *hops).unwrap_or_else(|| {
                    let counted = self.read(|d| d.group(&name)).map_or(0.0, |g| hops(&g.status.tree));
                    at.hops.insert(group.group_id, (epoch, counted));
                    counted
                });
                at.octets += progress.octets as f64;
                at.saved += of_epoch * progress.octets as f64;
                let object = ChartObject::Group(name.clone());
                charts.read_whole(&object, span, &group_readings(group), progress.octets > 0);
            } else if at.hops.remove(&group.group_id).is_some() {
                charts.read_whole(&ChartObject::Group(name.clone()), span, &[], false);
            }
            if progress.branches_changed {
                let is_gone = |address: Ipv6Addr| !group.branches.iter().any(|branch| branch.address == address);
                charts.remove_branches(&name, Some(node), is_gone);
            }
            let completed =
                group.branches.iter().filter_map(|branch| branch.completed_min).fold(0, u64::saturating_add);
            for branch in group.branches.iter().take(MAX_BRANCHES) {
                let object =
                    ChartObject::Branch { group: name.clone(), node: node.to_owned(), address: branch.address };
                let lag = branch.next.map(|next| (Series::Lag, Reading::level(group.high.since(next) as f64)));
                let waited = branch.completed_min.filter(|_| lag.is_some());
                let waited = waited.map(|part| (Series::Waited, Reading::Share { part, whole: completed }));
                let readings: Vec<_> = lag.into_iter().chain(waited).collect();
                charts.read_whole(&object, span, &readings, progress.octets > 0);
            }
        }
        // Does nothing for most messages.
        if at.hops.len() > spec.groups.len() {
            at.hops.retain(|id, _| spec.groups.contains(id));
        }
    }

    /// Charts what a node counted of its links.
    pub fn chart_links(
        &self,
        node: &str,
        taken: UnixTime,
        losses: &[LinkLoss],
        rtts: &[LinkRtt],
        queues: &[PortCongestion],
    ) {
        if losses.is_empty() && rtts.is_empty() && queues.is_empty() {
            return;
        }
        let mut inner = self.charts();
        let Inner { charts, nodes, known, .. } = &mut *inner;
        let Some(spec) = self.read(|d| d.desired(node)) else { return };
        let span = entry(nodes, known, node).next(taken, self.chart_now());
        let mut read = |port: PortIndex, readings: &[(Series, Reading)]| {
            let Some(port) = spec.base.ports.get(usize::from(port.get()) - 1) else { return };
            let object = ChartObject::Link { node: node.to_owned(), port: port.name.clone() };
            charts.read(&object, span, readings, true);
        };
        for loss in losses {
            let share = Reading::Share { part: loss.lost, whole: loss.requests };
            read(loss.port, &[(Series::Loss, share), (Series::Drops, Reading::count(loss.queue_drops))]);
        }
        for rtt in rtts {
            if let Some(value) = rtt.rtt {
                read(rtt.port, &[(Series::Rtt, Reading::level(value.as_secs_f64()))]);
            }
        }
        for PortCongestion { port, queue, .. } in queues {
            let (value, peak) = (queue.queue.get() as f64, queue.peak_queue.get().max(queue.queue.get()) as f64);
            let readings = [
                (Series::Bytes, Reading::count(queue.octets.get())),
                (Series::Packets, Reading::count(queue.packets)),
                (Series::Marks, Reading::count(queue.marked)),
                (Series::Queue, Reading::Level { value, peak }),
            ];
            read(*port, &readings);
        }
    }

    /// Charts packets that a node dropped since the sample before.
    pub fn chart_drops(&self, node: &str, taken: UnixTime, packets: u64) {
        let mut inner = self.charts();
        let Inner { charts, nodes, known, .. } = &mut *inner;
        if self.read(|d| d.desired(node)).is_none() {
            return;
        }
        let at = entry(nodes, known, node);
        at.dropped += packets;
        let span = at.next(taken, self.chart_now());
        charts.read(&ChartObject::Node(node.to_owned()), span, &[(Series::Drops, Reading::count(at.dropped))], true);
    }

    /// The node's counters are another agent's from now on.
    pub(crate) fn charts_interrupt(&self, node: &str) {
        if let Some(at) = self.charts().nodes.get_mut(node) {
            at.pace.interrupt();
        }
    }

    /// Removes the charts of a node that left the topology.
    pub(crate) fn charts_forget_node(&self, node: &str) {
        let mut inner = self.charts();
        if let Some(at) = inner.nodes.remove(node) {
            inner.charts.forget_rest(at.pace.node());
            inner.charts.remove_node(node);
        }
    }

    /// Groups have left a node: what its samples leave out is not of them any more.
    pub(crate) fn charts_left(&self, node: &str, groups: &[GroupId]) {
        let mut inner = self.charts();
        let Inner { charts, nodes, .. } = &mut *inner;
        let Some(at) = nodes.get(node) else { return };
        let names: Vec<String> =
            self.read(|d| groups.iter().filter_map(|id| d.group_name(*id).map(str::to_owned)).collect());
        names.iter().for_each(|name| charts.left(name, node, at.pace.node()));
    }

    /// Removes the charts of a group that was deleted.
    pub(crate) fn charts_forget_group(&self, group: &str) {
        self.charts().charts.remove_group(group);
    }

    /// Charts the fleet, now and then: all nodes are visited once a second.
    pub(crate) fn chart_fleet(&self, problems: u64) {
        let now = self.chart_now();
        let ready = self.phases().iter().find(|(phase, _)| *phase == GroupPhase::Ready).map_or(0, |(_, n)| *n);
        let mut inner = self.charts();
        let Inner { charts, nodes, fleet, .. } = &mut *inner;
        if fleet.last().is_some_and(|last| now.since(last) < FLEET_EVERY) {
            return;
        }
        let span = fleet.next(UnixTime::from_nanos(now.nanos()), now);
        let fresh = nodes.values().filter(|at| now.since(at.end) <= MAX_SPAN && at.length > 0.0);
        let sums = fresh.map(|at| (at.octets / at.length, at.saved / at.length));
        let sum = sums.reduce(|a, b| (a.0 + b.0, a.1 + b.1));
        let mut readings = vec![
            (Series::GroupsReady, Reading::level(ready as f64)),
            (Series::Problems, Reading::level(problems as f64)),
        ];
        // Nothing is known of the traffic while no node reports.
        if let Some((octets, saved)) = sum {
            readings.push((Series::Bytes, Reading::level(octets)));
            readings.push((Series::Saved, Reading::level(saved)));
        }
        charts.read(&ChartObject::Fleet, span, &readings, true);
    }

    /// Charts of `object`, from and to seconds since 1970; `None` if there are none.
    ///
    /// # Errors
    /// The parameter that is wrong, and why.
    pub fn chart(
        &self,
        object: &ChartObject,
        series: Option<Series>,
        from: Option<u64>,
        to: Option<u64>,
        step: Option<u64>,
    ) -> Result<Option<Charted>, (&'static str, String)> {
        let (now, shift) = (self.chart_now(), self.chart_shift());
        let own = |wall: u64| u64::try_from(i128::from(wall) - i128::from(shift / 1_000_000_000)).unwrap_or(0);
        let Range { tier, step, first, count } =
            range(object, now.nanos() / 1_000_000_000, from.map(own), to.map(own), step)?;
        let inner = self.charts();
        let Some(known) = inner.charts.series(object) else { return Ok(None) };
        let wanted = known.iter().filter(|s| series.is_none_or(|wanted| wanted == **s)).count();
        canopy_controller_core::chart::store::check_points(wanted, count)?;
        let charts = inner.charts.charts(object, series, Range { tier, step, first, count });
        Ok(Some(Charted { start: self.chart_wall(first * step * 1_000_000_000), step, charts }))
    }

    /// For which receivers the source of a group waited, by second over the last 5 minutes; `None` if there is no such group.
    pub fn waited_strip(&self, group: &str) -> Option<Strip> {
        let Branches { nodes, receivers } = self.read(|d| d.branches(group))?;
        let now = self.chart_now().nanos() / 1_000_000_000;
        let first = (now + 1).saturating_sub(STRIP);
        let range = seconds(first, (now + 1 - first) as usize);
        let inner = self.charts();
        // A receiver's share is the product of those from the headend down to it.
        let below = |of: &[Option<f32>], node: &str, address: Ipv6Addr| -> Vec<Option<f32>> {
            let object = ChartObject::Branch { group: group.to_owned(), node: node.to_owned(), address };
            let charts = inner.charts.charts(&object, Some(Series::Waited), range);
            let shares = charts.first().map(|chart| chart.points.as_slice()).unwrap_or_default();
            let share = |at: usize| shares.get(at).copied().flatten().map(|point| point.mean);
            of.iter().enumerate().map(|(at, of)| Some(of.as_ref()? * share(at)?)).collect()
        };
        let mut of_nodes: Vec<Vec<Option<f32>>> = Vec::with_capacity(nodes.len());
        for node in &nodes {
            let shares = match node.parent {
                None => vec![Some(1.0); range.count],
                Some(parent) => below(&of_nodes[parent], &nodes[parent].name, node.address),
            };
            of_nodes.push(shares);
        }
        let receivers = receivers.into_iter().map(|BranchReceiver { host, edge, address }| {
            let node = nodes[edge].name.clone();
            let shares = below(&of_nodes[edge], &node, address);
            StripReceiver { host, node, shares }
        });
        let receivers = receivers.collect();
        Some(Strip { start: self.chart_wall(first * 1_000_000_000), receivers })
    }

    /// What charts take.
    pub fn chart_usage(&self) -> Usage {
        self.charts().charts.usage()
    }

    /// An instant of the charts' clock on the wall clock.
    pub(crate) fn chart_wall(&self, nanos: u64) -> UnixTime {
        let wall = i128::from(nanos) + i128::from(self.chart_shift());
        UnixTime::from_nanos(u64::try_from(wall).unwrap_or(0))
    }

    /// Now on the charts' clock.
    pub(crate) fn chart_now(&self) -> Monotonic {
        Monotonic::from_nanos(self.chart_state().origin.nanos()) + Duration::from_nanos(self.now().nanos())
    }

    /// By how much the wall clock was set since the start.
    fn chart_shift(&self) -> i64 {
        let shift = i128::from(UnixTime::now().nanos()) - i128::from(self.chart_now().nanos());
        let shift = i64::try_from(shift).unwrap_or(0);
        if shift.unsigned_abs() < MAX_DRIFT { 0 } else { shift }
    }

    /// What a node is to have, and what charts have to know of groups there; `None` of a group that it has no program of.
    fn names(&self, node: &str, groups: &BTreeMap<GroupId, GroupTelemetry>) -> Option<(Arc<DesiredNode>, Names)> {
        self.read(|d| {
            let desired = d.desired(node)?;
            let named = |id| {
                let name = d.group_name(id).filter(|_| desired.groups.contains(&id))?.to_owned();
                Some(Named { name, epoch: d.group_epoch(id)?, is_headend: d.is_headend(node, id) })
            };
            let names = groups.keys().map(|id| named(*id)).collect();
            Some((desired, names))
        })
    }

    /// Reads the charts. The domain may be read inside, incidents may not.
    pub(crate) fn with_charts<R>(&self, read: impl FnOnce(&Charts) -> R) -> R {
        read(&self.charts().charts)
    }

    fn charts(&self) -> MutexGuard<'_, Inner> {
        self.chart_state().inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn group_readings(group: &GroupTelemetry) -> Vec<(Series, Reading)> {
    let mut readings = vec![
        (Series::Bytes, Reading::count(group.data_octets.get())),
        (Series::Packets, Reading::count(group.data_packets)),
        (Series::Naks, Reading::count(group.naks_in)),
        (Series::Cnps, Reading::count(group.cnps_in)),
    ];
    if let Some(fresh) = group.fresh_packets {
        readings.push((Series::Retransmissions, Reading::count(group.data_packets.saturating_sub(fresh))));
    }
    if let Some(min) = group.min_next {
        let each = group.data_octets.get() as f64 / group.data_packets.max(1) as f64;
        readings.push((Series::Goodput, Reading::Counter { count: min.get(), each }));
        readings.push((Series::Outstanding, Reading::level(group.high.since(min) as f64)));
    }
    readings
}

/// Links from the headend to every receiver, summed: what unicast would send over for each packet. Parents are before their children.
fn hops(tree: &[TreeNodeView]) -> f64 {
    let mut depths: HashMap<&str, u64> = HashMap::new();
    let mut sum = 0;
    for node in tree {
        let depth = node.parent.as_deref().and_then(|parent| depths.get(parent)).map_or(0, |depth| depth + 1);
        depths.insert(&node.node, depth);
        let receivers = node.branches.iter().filter(|branch| branch.kind == BranchRole::Receiver);
        sum += receivers.count() as u64 * (depth + 1);
    }
    sum as f64
}
