// SPDX-License-Identifier: Apache-2.0
//! The paths of a pair of hosts.
//!
//! In a tiered plane they are all shortest up-down paths, elsewhere those of a heuristic (see `detour`). A plane uses its shortest ones only.
//! Of more than [`MAX_PATHS`], some are taken that are spread evenly over all.
//!
//! They are in an order in which each path shares as little as it can with those before it: first no plane, then the fewest links, then the
//! fewest nodes, then the links that fewest of them use, then by the numbers of nodes and ports.

use std::collections::{BTreeMap, BTreeSet};

use canopy_model::ids::NodeId;

use crate::detour::{self, Used};
use crate::fabric::{Fabric, NodeIx, Port, PortOf};
use crate::path::{Attachment, Hop, Path};
use crate::updown::UpDown;

/// Paths of a pair, at most.
pub const MAX_PATHS: usize = 256;

/// The paths of a pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// Those that were chosen, in order.
    pub list: Vec<Ranked>,
    /// How many there are, `u64::MAX` for more than that. Outside a Clos: how many the heuristic has found.
    pub total: u64,
    /// How they were found.
    pub method: Method,
}

/// How paths are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// All shortest up-down paths.
    UpDown,
    /// A heuristic, in at least one plane.
    Detours,
}

/// A path, and what it shares with those before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranked {
    /// The path.
    pub path: Path,
    /// `None`: the first one.
    pub disjoint: Option<Disjoint>,
}

/// What a path does not share with any path before it. What a host has one of, its link and its edge, does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Disjoint {
    /// It shares a link.
    Not,
    /// No link, but a node.
    Link,
    /// No node, but the plane.
    Node,
    /// Not even the plane.
    Plane,
}

/// Candidates of two attachments.
enum Candidates<'a> {
    UpDown(UpDown<'a>),
    Detours(Vec<Vec<(NodeIx, Port)>>),
}

impl Candidates<'_> {
    fn count(&self) -> u64 {
        match self {
            Self::UpDown(paths) => paths.count(),
            Self::Detours(paths) => paths.len() as u64,
        }
    }

    fn path(&self, n: u64) -> Vec<(NodeIx, Port)> {
        match self {
            Self::UpDown(paths) => paths.path(n),
            Self::Detours(paths) => paths[n as usize].clone(),
        }
    }
}

impl Paths {
    /// The paths from one host to another, each with one or more attachments. None if no plane has both, or the fabric has not their edges.
    pub fn between(fabric: &Fabric, from: &[Attachment], to: &[Attachment]) -> Self {
        let mut used = Used::default();
        let mut all: Vec<(Attachment, Attachment, Candidates<'_>)> = Vec::new();
        let mut shortest: BTreeMap<usize, usize> = BTreeMap::new();
        for &a in from {
            for &b in to {
                let ends = (fabric.find(a.edge.node), fabric.find(b.edge.node));
                let (Some(first), Some(last)) = ends else { continue };
                if fabric.plane(first) != fabric.plane(last) {
                    continue;
                }
                let candidates = match UpDown::new(fabric, first, last) {
                    Some(paths) => Candidates::UpDown(paths),
                    None => Candidates::Detours(detour::detours(fabric, first, last, &mut used)),
                };
                if candidates.count() > 0 {
                    let length = candidates.path(0).len();
                    let least = shortest.entry(fabric.plane(first)).or_insert(length);
                    *least = length.min(*least);
                    all.push((a, b, candidates));
                }
            }
        }
        let plane = |a: &Attachment| fabric.find(a.edge.node).map_or(0, |node| fabric.plane(node));
        // The heuristic's longer paths have their place; another edge that is nearer has not.
        all.retain(|(a, _, candidates)| candidates.path(0).len() == shortest[&plane(a)]);
        let is_clos = all.iter().all(|(.., candidates)| matches!(candidates, Candidates::UpDown(_)));
        let total = all.iter().fold(0u64, |sum, (.., candidates)| sum.saturating_add(candidates.count()));
        let paths = spread(total, MAX_PATHS as u64).filter_map(|mut n| {
            let (a, b, candidates) = all.iter().find(|(.., candidates)| {
                let is_here = n < candidates.count();
                if !is_here {
                    n -= candidates.count();
                }
                is_here
            })?;
            Some(path(fabric, *a, *b, &candidates.path(n)))
        });
        let mut list = rank(paths.collect(), from.len() > 1, to.len() > 1);
        if !is_clos {
            list.truncate(detour::MAX_PATHS);
        }
        let total = if is_clos { total } else { list.len() as u64 };
        Self { list, total, method: if is_clos { Method::UpDown } else { Method::Detours } }
    }
}

fn path(fabric: &Fabric, from: Attachment, to: Attachment, steps: &[(NodeIx, Port)]) -> Path {
    let hop = |&(node, port): &(NodeIx, Port)| {
        let far = port.far?;
        Some(Hop {
            from: PortOf { node: fabric.id(node), port: port.port },
            to: fabric.id(far),
            link: port.link,
            is_parallel: fabric.between(node, far).len() > 1,
        })
    };
    let plane = fabric.find(from.edge.node).map_or(0, |node| fabric.plane(node));
    Path { from, hops: steps.iter().filter_map(hop).collect(), to, plane }
}

/// `some` different numbers below `total`, or all: multiples of a number near the golden section of `total` that has no factor in common with it,
/// so that they are spread evenly however the paths are numbered.
fn spread(total: u64, some: u64) -> impl Iterator<Item = u64> {
    let golden = (u128::from(total) * 618_034 / 1_000_000) as u64;
    let step = (1..=golden.max(1)).rev().find(|&step| greatest_common(step, total) == 1).unwrap_or(1);
    let is_all = total <= some;
    (0..total.min(some)).map(move |n| match is_all {
        true => n,
        false => (u128::from(n) * u128::from(step) % u128::from(total)) as u64,
    })
}

fn greatest_common(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// What the paths that were ranked use.
#[derive(Default)]
struct Ranking {
    planes: BTreeSet<usize>,
    links: BTreeMap<usize, usize>,
    nodes: BTreeSet<NodeId>,
}

/// What of a path counts when paths are compared.
struct Shared {
    path: Path,
    links: Vec<usize>,
    nodes: Vec<NodeId>,
}

impl Ranking {
    fn key(&self, candidate: &Shared) -> (bool, usize, usize, usize) {
        let uses = candidate.links.iter().filter_map(|link| self.links.get(link));
        let nodes = candidate.nodes.iter().filter(|node| self.nodes.contains(node)).count();
        (self.planes.contains(&candidate.path.plane), uses.clone().count(), nodes, uses.sum())
    }

    fn disjoint(&self, candidate: &Shared) -> Option<Disjoint> {
        let class = match self.key(candidate) {
            (false, ..) => Disjoint::Plane,
            (_, 0, 0, _) => Disjoint::Node,
            (_, 0, ..) => Disjoint::Link,
            _ => Disjoint::Not,
        };
        (!self.planes.is_empty()).then_some(class)
    }

    fn add(&mut self, candidate: Shared) -> Ranked {
        let disjoint = self.disjoint(&candidate);
        self.planes.insert(candidate.path.plane);
        self.nodes.extend(candidate.nodes);
        for link in candidate.links {
            *self.links.entry(link).or_default() += 1;
        }
        Ranked { path: candidate.path, disjoint }
    }
}

/// Puts paths in order. A host's link and edge count only where it `has_more`. At most [`MAX_PATHS`] paths, so that comparing each with
/// each is bounded.
fn rank(paths: Vec<Path>, from_has_more: bool, to_has_more: bool) -> Vec<Ranked> {
    let shared = |path: Path| {
        let (links, nodes): (Vec<usize>, Vec<NodeId>) = (path.links().collect(), path.nodes().collect());
        let counts = |i: usize, len: usize| (i > 0 || from_has_more) && (i + 1 < len || to_has_more);
        let len = links.len();
        let links = links.into_iter().enumerate().filter(|(i, _)| counts(*i, len)).map(|(_, link)| link).collect();
        let len = nodes.len();
        let nodes = nodes.into_iter().enumerate().filter(|(i, _)| counts(*i, len)).map(|(_, node)| node).collect();
        Shared { path, links, nodes }
    };
    let mut rest: Vec<Shared> = paths.into_iter().map(shared).collect();
    let mut ranking = Ranking::default();
    let mut ranked = Vec::with_capacity(rest.len());
    while let Some((next, _)) = rest.iter().enumerate().min_by_key(|(_, candidate)| ranking.key(candidate)) {
        let candidate = rest.remove(next);
        ranked.push(ranking.add(candidate));
    }
    ranked
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches numbers that come twice, are outside, or leave a large part of the paths unused.
    #[test]
    fn numbers_are_different_and_spread() {
        for total in [1, 2, 255, 256, 257, 1000, 1024, 65_536, 1 << 40, u64::MAX] {
            let numbers: BTreeSet<u64> = spread(total, 256).collect();
            assert_eq!(numbers.len() as u64, total.min(256), "of {total}");
            assert!(numbers.iter().all(|&n| n < total));
            let quarter = |n: u64| (u128::from(n) * 4 / u128::from(total)) as usize;
            let mut quarters = [0; 4];
            numbers.iter().for_each(|&n| quarters[quarter(n)] += 1);
            assert!(total < 256 || quarters.iter().all(|&n| (48..=80).contains(&n)), "{total}: {quarters:?}");
        }
        assert_eq!(spread(5, 256).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        assert_eq!(spread(0, 256).count(), 0);
    }
}
