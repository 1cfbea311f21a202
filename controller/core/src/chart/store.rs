// SPDX-License-Identifier: Apache-2.0
//! All series, within a budget. An object is idle while all that is charted of it is zero; when the budget is used up, the one that has been
//! idle longest makes room for one that is not idle.

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv6Addr;
use std::sync::Arc;

use super::ring::{Point, Tier};
use super::series::{ChartObject, Series};
use super::span::{Rest, Span, node_of};
use super::track::{Reading, Track};

/// Octets of all series, at most: 256 MiB.
pub const BUDGET: usize = 256 << 20;
/// Points of one answer, at most, all series together.
pub const MAX_POINTS: usize = 3600;
/// Seconds of a step of an answer, at most.
pub const MAX_STEP: u64 = 86_400;
/// An object makes room for another one when it has been idle for so many seconds.
const IDLE: u64 = 60;

const SECONDS: Tier = Tier { step: 1, steps: 300 };
const TENS: Tier = Tier { step: 10, steps: 360 };
const MINUTES: Tier = Tier { step: 60, steps: 1440 };
const TIERS: &[Tier] = &[SECONDS, TENS];
const FLEET_TIERS: &[Tier] = &[SECONDS, TENS, MINUTES];

/// The resolutions of an object's series, the finest first.
pub fn tiers(object: &ChartObject) -> &'static [Tier] {
    match object {
        ChartObject::Fleet => FLEET_TIERS,
        _ => TIERS,
    }
}

/// Steps of a series that are wanted: `count` of `step` seconds, from step `first` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Resolution that they are made from.
    pub tier: Tier,
    /// Seconds per step, a multiple of the tier's.
    pub step: u64,
    /// Number of the first step.
    pub first: u64,
    /// Number of steps.
    pub count: usize,
}

/// `count` seconds from `first` on, at the finest resolution.
pub fn seconds(first: u64, count: usize) -> Range {
    Range { tier: SECONDS, step: SECONDS.step, first, count }
}

/// Points of one series.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Of what.
    pub series: Series,
    /// One per step; `None` is a gap.
    pub points: Vec<Option<Point>>,
}

#[derive(Debug)]
struct Entry {
    serial: u64,
    /// Second since which it has been idle.
    active: u64,
    tracks: Vec<Track>,
}

/// What is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Octets.
    pub octets: u64,
    /// Series.
    pub series: u64,
    /// Series that made room for others.
    pub evicted: u64,
    /// Objects that got no series because no other one was idle; counted once per sample.
    pub left_out: u64,
}

/// All series.
#[derive(Debug)]
pub struct Charts {
    budget: usize,
    usage: Usage,
    serial: u64,
    objects: BTreeMap<Arc<ChartObject>, Entry>,
    /// By the node's number.
    rests: HashMap<u32, Rest>,
    /// In the order in which they make room.
    idle: BTreeMap<(u64, u64), Arc<ChartObject>>,
}

impl Default for Charts {
    fn default() -> Self {
        Self::new(BUDGET)
    }
}

impl Charts {
    /// No series yet, and room for `budget` octets.
    pub fn new(budget: usize) -> Self {
        Self {
            budget,
            usage: Usage::default(),
            serial: 0,
            objects: BTreeMap::new(),
            rests: HashMap::new(),
            idle: BTreeMap::new(),
        }
    }

    /// This sample of a node has all groups of it that are not at rest: of those that it does not have, and of their branches, the last readings
    /// hold until its end.
    pub fn rest(&mut self, span: Span) {
        let node = node_of(span.sample);
        self.rests.insert(node, Rest::with(self.rests.get(&node).copied(), span));
    }

    /// Takes readings of an object. One without series gets room that others have to leave only if it `is_active`.
    pub fn read(&mut self, object: &ChartObject, span: Span, readings: &[(Series, Reading)], is_active: bool) {
        let second = span.end.nanos() / 1_000_000_000;
        if !self.objects.contains_key(object) && !self.add_object(object, second, readings.len(), is_active) {
            return;
        }
        let tiers = tiers(object);
        let rest = self.rest_of(object, span.sample);
        for (series, reading) in readings {
            let known = self.objects.get(object).and_then(|e| e.tracks.iter().position(|t| t.series == *series));
            let at = match known {
                Some(at) => at,
                None if self.make_room(Track::octets(tiers), second, Some(object)) => {
                    self.add_octets(Track::octets(tiers));
                    self.usage.series += 1;
                    let Some(entry) = self.objects.get_mut(object) else { return };
                    entry.tracks.push(Track::new(*series, tiers));
                    entry.tracks.len() - 1
                }
                None => {
                    self.usage.left_out += 1;
                    continue;
                }
            };
            let Some(entry) = self.objects.get_mut(object) else { return };
            if entry.tracks[at].read(span, *reading, rest.as_ref()) && entry.active < second {
                let key = (entry.active, entry.serial);
                entry.active = second;
                if let Some(shared) = self.idle.remove(&key) {
                    self.idle.insert((second, key.1), shared);
                }
            }
        }
    }

    /// As [`Charts::read`], of an object that the sample has, with all that is known of it: its other series have a gap.
    pub fn read_whole(&mut self, object: &ChartObject, span: Span, readings: &[(Series, Reading)], is_active: bool) {
        if !readings.is_empty() {
            self.read(object, span, readings, is_active);
        }
        let tracks = self.objects.get_mut(object).map(|entry| entry.tracks.as_mut_slice()).unwrap_or_default();
        let is_missing = |track: &&mut Track| readings.iter().all(|(series, _)| *series != track.series);
        tracks.iter_mut().filter(is_missing).for_each(Track::end);
    }

    /// Samples that leave out what is at rest, of the node that sample `sample` is of; `None` if the object is in every one.
    fn rest_of(&self, object: &ChartObject, sample: u64) -> Option<Rest> {
        let is_left_out = matches!(object, ChartObject::Group(_) | ChartObject::Branch { .. });
        self.rests.get(&node_of(sample)).copied().filter(|_| is_left_out)
    }

    /// Removes an object's series.
    pub fn remove(&mut self, object: &ChartObject) {
        if let Some(entry) = self.objects.remove(object) {
            self.idle.remove(&(entry.active, entry.serial));
            self.usage.series -= entry.tracks.len() as u64;
            self.usage.octets -= cost(object, entry.tracks.len()) as u64;
        }
    }

    /// Removes the series of a group and of its branches.
    pub fn remove_group(&mut self, group: &str) {
        self.remove(&ChartObject::Group(group.to_owned()));
        self.remove_branches(group, None, |_| true);
    }

    /// Removes the series of a group's branches at one node, or at all, if the branch `is_gone`.
    pub fn remove_branches(&mut self, group: &str, at: Option<&str>, is_gone: impl Fn(Ipv6Addr) -> bool) {
        let all = self.branches(group, at);
        let gone = all.filter(|object| matches!(&***object, ChartObject::Branch { address, .. } if is_gone(*address)));
        let gone: Vec<Arc<ChartObject>> = gone.cloned().collect();
        gone.iter().for_each(|object| self.remove(object));
    }

    /// A group has left a node, which has this number: no sample of the node is of it any more.
    pub fn left(&mut self, group: &str, node: &str, number: u32) {
        let mut objects: Vec<Arc<ChartObject>> = self.branches(group, Some(node)).cloned().collect();
        objects.push(Arc::new(ChartObject::Group(group.to_owned())));
        for object in objects {
            let tracks = self.objects.get_mut(&object).map(|entry| entry.tracks.as_mut_slice()).unwrap_or_default();
            let of_node = |track: &&mut Track| track.last().is_some_and(|sample| node_of(sample) == number);
            tracks.iter_mut().filter(of_node).for_each(Track::end);
        }
    }

    /// The group's branches that have series, at one node or at all.
    fn branches(&self, group: &str, at: Option<&str>) -> impl Iterator<Item = &Arc<ChartObject>> {
        let node = at.unwrap_or_default().to_owned();
        let first = ChartObject::Branch { group: group.to_owned(), node, address: Ipv6Addr::UNSPECIFIED };
        let is_wanted = move |object: &ChartObject| match object {
            ChartObject::Branch { group: g, node, .. } => g == group && at.is_none_or(|at| at == node),
            _ => false,
        };
        self.objects.range(Arc::new(first)..).map(|(object, _)| object).take_while(move |object| is_wanted(object))
    }

    /// The node with this number is gone: forgets its samples of [`Charts::rest`].
    pub fn forget_rest(&mut self, node: u32) {
        self.rests.remove(&node);
    }

    /// Removes the series of a node, its ports and its branches. As long as there are objects: a node seldom leaves.
    pub fn remove_node(&mut self, name: &str) {
        let is_gone = |object: &ChartObject| match object {
            ChartObject::Node(node) | ChartObject::Link { node, .. } | ChartObject::Branch { node, .. } => node == name,
            ChartObject::Fleet | ChartObject::Group(_) => false,
        };
        let gone: Vec<Arc<ChartObject>> = self.objects.keys().filter(|object| is_gone(object)).cloned().collect();
        gone.iter().for_each(|object| self.remove(object));
    }

    /// The objects from `first` on that are `wanted`, in order, at most `most`.
    pub fn objects(&self, first: ChartObject, most: usize, wanted: impl Fn(&ChartObject) -> bool) -> Vec<ChartObject> {
        let all = self.objects.range(Arc::new(first)..).map(|(object, _)| object).take_while(|object| wanted(object));
        all.take(most).map(|object| (**object).clone()).collect()
    }

    /// Whether there are series of an object.
    pub fn has(&self, object: &ChartObject) -> bool {
        self.objects.contains_key(object)
    }

    /// The series of an object; `None` if there are none.
    pub fn series(&self, object: &ChartObject) -> Option<Vec<Series>> {
        Some(self.objects.get(object)?.tracks.iter().map(|track| track.series).collect())
    }

    /// Points of an object's series `wanted`, or of all.
    pub fn charts(&self, object: &ChartObject, wanted: Option<Series>, range: Range) -> Vec<Chart> {
        let tracks = self.objects.get(object).map(|entry| entry.tracks.as_slice()).unwrap_or_default();
        let tracks = tracks.iter().filter(|track| wanted.is_none_or(|series| series == track.series));
        let chart = |track: &Track| {
            debug_assert!(track.tiers().any(|tier| tier == range.tier), "a tier of the object");
            let rest = track.last().and_then(|sample| self.rest_of(object, sample));
            let points = track.rested(rest.as_ref()).points(range.tier, range.first, range.step, range.count);
            Chart { series: track.series, points }
        };
        tracks.map(chart).collect()
    }

    /// What is kept.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// An object without readings; false if there is no room for as many series.
    fn add_object(&mut self, object: &ChartObject, second: u64, series: usize, is_active: bool) -> bool {
        let octets = cost(object, series);
        let fits = self.usage.octets as usize + octets <= self.budget;
        if !(fits || is_active && self.make_room(octets, second, None)) {
            self.usage.left_out += 1;
            return false;
        }
        self.serial += 1;
        let shared = Arc::new(object.clone());
        self.idle.insert((second, self.serial), shared.clone());
        self.objects.insert(shared, Entry { serial: self.serial, active: second, tracks: Vec::new() });
        self.add_octets(cost(object, 0));
        true
    }

    /// Evicts what has been idle longest until `octets` fit; false if not enough has been idle for long. `but` stays.
    fn make_room(&mut self, octets: usize, second: u64, but: Option<&ChartObject>) -> bool {
        while self.usage.octets as usize + octets > self.budget {
            let oldest = self.idle.iter().find(|(_, object)| but.is_none_or(|but| but != &***object));
            let Some((&(active, _), object)) = oldest else { return false };
            if active + IDLE > second || **object == ChartObject::Fleet {
                return false;
            }
            let object = object.clone();
            let before = self.usage.series;
            self.remove(&object);
            self.usage.evicted += before - self.usage.series;
        }
        true
    }

    fn add_octets(&mut self, octets: usize) {
        self.usage.octets += octets as u64;
    }
}

/// Octets of an object with as many series: its tracks, its names, and what the two maps have of it.
fn cost(object: &ChartObject, tracks: usize) -> usize {
    let maps = size_of::<(Arc<ChartObject>, Entry)>() + size_of::<((u64, u64), Arc<ChartObject>)>();
    tracks * Track::octets(tiers(object)) + size_of::<ChartObject>() + object.octets() + maps
}

/// The steps from `from` to `to`, both seconds on the chart's clock, whose newest second is `now`. Without `step`, the finest resolution
/// that covers `from`.
///
/// # Errors
/// The parameter that is wrong, and why.
pub fn range(
    object: &ChartObject,
    now: u64,
    from: Option<u64>,
    to: Option<u64>,
    step: Option<u64>,
) -> Result<Range, (&'static str, String)> {
    let to = to.unwrap_or(now).min(now);
    let from = from.unwrap_or_else(|| to.saturating_sub(SECONDS.covers().as_secs()));
    if from > to {
        return Err(("from", "is later than `to`, or in the future".to_owned()));
    }
    let tiers = tiers(object);
    // The newest step is not over.
    let covers = |tier: &&Tier| from + tier.covers().as_secs() >= now.saturating_sub(tier.step);
    let coarsest = tiers.last().copied().unwrap_or(SECONDS);
    let finest = tiers.iter().find(covers).copied().unwrap_or(coarsest);
    let step = step.unwrap_or(finest.step);
    if step > MAX_STEP {
        return Err(("step", format!("{step} is more than {MAX_STEP}, a day")));
    }
    if step == 0 || !step.is_multiple_of(finest.step) {
        let detail = format!(
            "{step} is not a multiple of {}: what is kept since `from` has steps of {} s",
            finest.step, finest.step
        );
        return Err(("step", detail));
    }
    // A coarser resolution that divides the step gives the same from fewer points.
    let tier =
        tiers.iter().rev().find(|tier| step.is_multiple_of(tier.step) && tier.step <= step).copied().unwrap_or(finest);
    let first = from / step;
    let count = (to / step - first + 1) as usize;
    check_points(1, count)?;
    Ok(Range { tier, step, first, count })
}

/// Refuses answers that are too long.
///
/// # Errors
/// The parameter that is wrong, and why.
pub fn check_points(series: usize, count: usize) -> Result<(), (&'static str, String)> {
    if series * count <= MAX_POINTS {
        return Ok(());
    }
    let detail = format!(
        "{count} steps of {series} series are more than {MAX_POINTS} points: use a longer step, a later `from`, or one series"
    );
    Err(("step", detail))
}

#[cfg(test)]
mod tests;
