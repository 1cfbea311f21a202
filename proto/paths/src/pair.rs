// SPDX-License-Identifier: Apache-2.0
//! The paths of a pair of hosts.
//!
//! In a tiered plane they are all shortest up-down paths, elsewhere those of a heuristic (see `detour`). A plane uses its shortest ones only.
//! Of more than [`MAX_PATHS`], some are taken that are spread evenly over all.
//!
//! They are in an order in which each path shares as little as it can with those before it: first no plane, then the fewest links, then the
//! fewest nodes, then the links that fewest of them use, then by the numbers of nodes and ports.

use std::collections::BTreeMap;

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

/// What a path shares with those that were ranked before it, the most important first.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Shares {
    plane: bool,
    links: usize,
    nodes: usize,
    /// Of its links by all of those.
    uses: usize,
}

impl Shares {
    fn disjoint(self) -> Disjoint {
        match self {
            Self { plane: false, .. } => Disjoint::Plane,
            Self { links: 0, nodes: 0, .. } => Disjoint::Node,
            Self { links: 0, .. } => Disjoint::Link,
            _ => Disjoint::Not,
        }
    }
}

/// What of a path counts when paths are compared.
struct Counted {
    plane: usize,
    links: Vec<usize>,
    nodes: Vec<NodeId>,
}

impl Counted {
    /// A host's link and edge count only where it `has_more`.
    fn of(path: &Path, from_has_more: bool, to_has_more: bool) -> Self {
        let (mut links, mut nodes): (Vec<usize>, Vec<NodeId>) = (path.links().collect(), path.nodes().collect());
        let counts = |i: usize, len: usize| (i > 0 || from_has_more) && (i + 1 < len || to_has_more);
        retain_places(&mut links, counts);
        retain_places(&mut nodes, counts);
        Self { plane: path.plane, links, nodes }
    }
}

fn retain_places<T>(all: &mut Vec<T>, keeps: impl Fn(usize, usize) -> bool) {
    let (mut place, len) = (0, all.len());
    all.retain(|_| {
        place += 1;
        keeps(place - 1, len)
    });
}

/// Something that paths have in common: whether a ranked path has it, and the places of all that have it.
type Common<T> = BTreeMap<T, (bool, Vec<usize>)>;

/// Paths on their way into an order.
struct Ranking {
    /// By place of a path.
    shares: Vec<Shares>,
    planes: Common<usize>,
    links: Common<usize>,
    nodes: Common<NodeId>,
}

impl Ranking {
    fn new(paths: &[Counted]) -> Self {
        let (mut planes, mut links, mut nodes) = (Common::new(), Common::new(), Common::new());
        for (place, path) in paths.iter().enumerate() {
            planes.entry(path.plane).or_default().1.push(place);
            path.links.iter().for_each(|&link| links.entry(link).or_default().1.push(place));
            path.nodes.iter().for_each(|&node| nodes.entry(node).or_default().1.push(place));
        }
        Self { shares: vec![Shares::default(); paths.len()], planes, links, nodes }
    }

    /// A path is the next one: the others share with it, too.
    fn add(&mut self, path: &Counted) {
        let shares = &mut self.shares;
        share(&mut self.planes, path.plane, shares, |shares, _| shares.plane = true);
        for &link in &path.links {
            share(&mut self.links, link, shares, |shares, is_first| {
                shares.links += usize::from(is_first);
                shares.uses += 1;
            });
        }
        for &node in &path.nodes {
            share(&mut self.nodes, node, shares, |shares, is_first| shares.nodes += usize::from(is_first));
        }
    }
}

fn share<T: Ord>(common: &mut Common<T>, what: T, shares: &mut [Shares], mut count: impl FnMut(&mut Shares, bool)) {
    let Some((has_ranked, places)) = common.get_mut(&what) else { return };
    let is_first = !std::mem::replace(has_ranked, true);
    places.iter().for_each(|&place| count(&mut shares[place], is_first));
}

/// Puts paths in order. A host's link and edge count only where it `has_more`. Work is, for at most [`MAX_PATHS`] paths, a comparison of
/// each with each, and what each has in common with how many.
fn rank(paths: Vec<Path>, from_has_more: bool, to_has_more: bool) -> Vec<Ranked> {
    let counted: Vec<Counted> = paths.iter().map(|path| Counted::of(path, from_has_more, to_has_more)).collect();
    let mut ranking = Ranking::new(&counted);
    let mut rest: Vec<(Path, usize)> = paths.into_iter().zip(0..).collect();
    let mut ranked: Vec<Ranked> = Vec::with_capacity(rest.len());
    while let Some((next, _)) = rest.iter().enumerate().min_by_key(|(_, (_, place))| ranking.shares[*place]) {
        let (path, place) = rest.remove(next);
        let disjoint = (!ranked.is_empty()).then(|| ranking.shares[place].disjoint());
        ranking.add(&counted[place]);
        ranked.push(Ranked { path, disjoint });
    }
    ranked
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

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
