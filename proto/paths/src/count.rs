// SPDX-License-Identifier: Apache-2.0
//! How many paths a pair of edges has, and how many of them lead over no link out of service: by the links up from both edges, without the paths.
//!
//! In a tiered plane two edges whose links up lead to the same nodes have equally many paths to each other edge: they are of one [`Class`]. So all
//! pairs of a fabric are counted by pairs of classes, of which a Clos with faults has few.

use std::collections::BTreeMap;

use canopy_model::ids::NodeId;

use crate::detour::{self, Used};
use crate::fabric::{Fabric, NodeIx};

/// Whether a link is in service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Service {
    /// Sources use it.
    #[default]
    In,
    /// Sources avoid it, and it carries what they send all the same.
    Drained,
    /// It carries nothing.
    Dead,
}

/// Paths between two edges, `u64::MAX` for more than that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Count {
    /// All that the fabric has.
    pub all: u64,
    /// Those without a dead link.
    pub alive: u64,
    /// Those without a drained or dead link.
    pub in_service: u64,
}

impl Count {
    const ONE: Self = Self { all: 1, alive: 1, in_service: 1 };

    fn over(service: Service) -> Self {
        Self { all: 1, alive: u64::from(service != Service::Dead), in_service: u64::from(service == Service::In) }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            all: self.all.saturating_add(other.all),
            alive: self.alive.saturating_add(other.alive),
            in_service: self.in_service.saturating_add(other.in_service),
        }
    }

    fn times(self, other: Self) -> Self {
        Self {
            all: self.all.saturating_mul(other.all),
            alive: self.alive.saturating_mul(other.alive),
            in_service: self.in_service.saturating_mul(other.in_service),
        }
    }
}

/// Edges that have equally many paths to each other edge, and to each other, where these lead up and down.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Class(Alike);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Alike {
    /// In a tiered plane: the nodes that the edge's links lead up to, and over how many links.
    Uplinks(Vec<(NodeIx, Count)>),
    /// In any other plane all paths are found by the heuristic.
    Plane(usize),
}

/// Nodes of one tier in ascending order, and the ways up to each.
type Level = Vec<(NodeIx, Count)>;
/// By tier, from that above an edge.
type Climb = Vec<Level>;

/// A fabric of which some links are out of service.
pub struct Counts<'a> {
    fabric: &'a Fabric,
    service: &'a dyn Fn(usize) -> Service,
    climbs: BTreeMap<NodeIx, Climb>,
    work: usize,
}

impl<'a> Counts<'a> {
    /// `service` has what the link of a number is, as numbered for [`Fabric::new`].
    pub fn new(fabric: &'a Fabric, service: &'a dyn Fn(usize) -> Service) -> Self {
        Self { fabric, service, climbs: BTreeMap::new(), work: 0 }
    }

    /// What was done so far, in ports and nodes that were read.
    pub fn work(&self) -> usize {
        self.work
    }

    /// What [`Self::detours`] adds to that: each link once for each path, and once more to find that there is no further one. Near the source a
    /// link is read more often, and far from it never.
    pub fn work_of_detours(&self) -> usize {
        (detour::MAX_PATHS + 1) * self.fabric.links()
    }

    /// The class of a node with hosts; `None`: the fabric has no such node. Work is in the order of its links.
    pub fn class(&mut self, edge: NodeId) -> Option<Class> {
        let edge = self.fabric.find(edge).filter(|edge| self.fabric.tier(*edge) == 0)?;
        let plane = self.fabric.plane(edge);
        Some(Class(match self.fabric.is_tiered(plane) {
            true => Alike::Uplinks(self.higher(&[(edge, Count::ONE)], 1)),
            false => Alike::Plane(plane),
        }))
    }

    /// The paths from one edge to another one, as [`Paths`](crate::pair::Paths) has them: those over the lowest tier at which a node is above both,
    /// and none between two planes. `None`: the [heuristic](Self::detours) has to find them. The nodes above an edge are found once; the rest of
    /// the work is in their order.
    pub fn up_down(&mut self, from: NodeId, to: NodeId) -> Option<Count> {
        if !self.is_one_plane(from, to) {
            return Some(Count::default());
        }
        let (from, to) = (self.edge(from)?, self.edge(to)?);
        self.climb(from);
        self.climb(to);
        let (from, to) = (&self.climbs[&from], &self.climbs[&to]);
        self.work += from.iter().chain(to).map(Vec::len).sum::<usize>();
        from.iter().zip(to).find_map(|(from, to)| common(from, to))
    }

    /// Whether [`Self::up_down`] has the paths of two edges. Work is mostly in the order of the nodes of one tier above them.
    pub fn is_up_down(&mut self, from: NodeId, to: NodeId) -> bool {
        if !self.is_one_plane(from, to) {
            return true;
        }
        let Some((from, to)) = self.edge(from).zip(self.edge(to)) else { return false };
        self.climb(from);
        self.climb(to);
        let (from, to) = (&self.climbs[&from], &self.climbs[&to]);
        let tier = from.iter().zip(to).position(|(from, to)| shared(from, to).next().is_some());
        // In a Clos the first nodes of the tier that has a common one are common.
        let whole = tier.unwrap_or(from.len().min(to.len()));
        self.work += from[..whole].iter().chain(&to[..whole]).map(Vec::len).sum::<usize>() + 1;
        tier.is_some()
    }

    /// Whether the links up from an edge, and from the nodes above it, are in service as in `other`, which has the same fabric.
    pub fn is_same_above(&mut self, other: &mut Self, edge: NodeId) -> bool {
        let Some(edge) = self.edge(edge) else { return false };
        self.climb(edge);
        other.climb(edge);
        self.work += self.climbs[&edge].iter().map(Vec::len).sum::<usize>();
        self.climbs[&edge] == other.climbs[&edge]
    }

    /// The paths from one node to another one that the heuristic finds. Work is [`Self::work_of_detours`]: many times the links of the plane.
    pub fn detours(&mut self, from: NodeId, to: NodeId) -> Count {
        self.work += self.work_of_detours();
        let ends = self.fabric.find(from).zip(self.fabric.find(to));
        let paths = ends.map(|(from, to)| detour::detours(self.fabric, from, to, &mut Used::default()));
        let over = |link: usize| Count::over((self.service)(link));
        let count = |path: Vec<(NodeIx, crate::fabric::Port)>| {
            path.into_iter().fold(Count::ONE, |count, (_, port)| count.times(over(port.link)))
        };
        paths.unwrap_or_default().into_iter().map(count).fold(Count::default(), Count::plus)
    }

    fn is_one_plane(&self, a: NodeId, b: NodeId) -> bool {
        let plane = |node| self.fabric.find(node).map(|node| self.fabric.plane(node));
        plane(a) == plane(b)
    }

    fn edge(&self, node: NodeId) -> Option<NodeIx> {
        let node = self.fabric.find(node)?;
        (self.fabric.is_tiered(self.fabric.plane(node)) && self.fabric.tier(node) == 0).then_some(node)
    }

    fn climb(&mut self, edge: NodeIx) {
        if self.climbs.contains_key(&edge) {
            return;
        }
        let (mut climb, mut level) = (Vec::new(), vec![(edge, Count::ONE)]);
        // Nothing is above the highest tier: the ports of its nodes are not read.
        for tier in self.fabric.tier(edge) + 1..=self.fabric.top() {
            level = self.higher(&level, tier);
            if level.is_empty() {
                break;
            }
            climb.push(level.clone());
        }
        self.climbs.insert(edge, climb);
    }

    /// The nodes of a tier above these nodes, with the ways to each.
    fn higher(&mut self, level: &[(NodeIx, Count)], tier: u32) -> Level {
        let mut higher: BTreeMap<NodeIx, Count> = BTreeMap::new();
        for (node, ways) in level {
            for (port, far) in self.fabric.neighbours(*node) {
                self.work += 1;
                if self.fabric.tier(far) == tier {
                    let sum = higher.entry(far).or_default();
                    *sum = sum.plus(ways.times(Count::over((self.service)(port.link))));
                }
            }
        }
        higher.into_iter().collect()
    }
}

/// The ways up to each node of both levels and down again; `None`: they have no node in common.
fn common(from: &Level, to: &Level) -> Option<Count> {
    shared(from, to).reduce(Count::plus)
}

/// By node of both levels, in ascending order: the ways up to it and down again.
fn shared<'a>(from: &'a Level, to: &'a Level) -> impl Iterator<Item = Count> + 'a {
    let mut to = to.iter().peekable();
    from.iter().filter_map(move |(node, up)| {
        while to.next_if(|(other, _)| other < node).is_some() {}
        let (_, down) = to.next_if(|(other, _)| other == node)?;
        Some(up.times(*down))
    })
}
