// SPDX-License-Identifier: Apache-2.0
//! What other links in service do to the paths between edges: how many pairs of edges have fewer or more of them, or none.
//!
//! They are counted for classes of edges (see [`canopy_paths::count`]): in a Clos without faults there is one for each pod. Work is in the order of
//! links, and of pairs of classes times the nodes above both; beyond [`MAX_WORK`] pairs are not counted.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use canopy_model::ids::NodeId;
use canopy_model::topology::Endpoint;
use canopy_paths::count::{Class, Count, Counts, Service};

use crate::effect::{Effect, EffectKind, EffectObject};
use crate::topology::{Far, Network, NodeIx};

/// What is done for one command at most, in ports and nodes that are read: some tenths of a second.
pub(super) const MAX_WORK: usize = 30_000_000;

/// Of the pairs of edges of which one may send path programs. Nothing where no host may, or where links and edges are as they were.
pub(super) fn of_pairs(old: &Network, new: &Network, max_work: usize) -> Vec<Effect> {
    if new.host_programs().is_none() || is_same(old, new) {
        return Vec::new();
    }
    let Some((before, after)) = old.fabric().zip(new.fabric()) else { return Vec::new() };
    let (was, is) = (|link: usize| service(old, link), |link: usize| service(new, link));
    let mut pairs = Pairs {
        before: Counts::new(before, &was),
        after: Counts::new(after, &is),
        is_same_fabric: std::ptr::eq(before, after),
        max_work,
        decided: 0,
        found: Found::default(),
    };
    pairs.count(&edges(old, new));
    pairs.found.effects()
}

/// Whether both have the same nodes, the same links between them in the same service, and hosts at the same nodes.
fn is_same(old: &Network, new: &Network) -> bool {
    fn links(network: &Network) -> impl Iterator<Item = (&Endpoint, &Endpoint, Service)> {
        let all = network.spec.links.iter().enumerate().filter(|(link, _)| network.ends(*link).is_some());
        all.map(|(link, decl)| (&decl.a, &decl.b, service(network, link)))
    }
    let has_hosts =
        |network: &Network| (0..network.len()).map(|node| sends(network, node).is_some()).collect::<Vec<_>>();
    old.spec.nodes.iter().map(|node| &node.name).eq(new.spec.nodes.iter().map(|node| &node.name))
        && links(old).eq(links(new))
        && has_hosts(old) == has_hosts(new)
}

/// A node with hosts, before and after.
struct Edge<'a> {
    name: &'a str,
    before: NodeId,
    after: NodeId,
    /// Whether a host of it may send path programs.
    sends: bool,
}

/// Whether a host of the node may send path programs; `None`: it has no host.
fn sends(network: &Network, node: NodeIx) -> Option<bool> {
    let hosts = network.ports(node).iter().filter_map(|port| match port.far {
        Far::Host(host) => Some(network.spec.hosts[host].path_programs),
        Far::Node { .. } => None,
    });
    hosts.reduce(|sends, also| sends || also)
}

/// The nodes with hosts that the network has before and after, in the order of their declaration.
fn edges<'a>(old: &Network, new: &'a Network) -> Vec<Edge<'a>> {
    let edge = |node: NodeIx| {
        let name = new.name(node);
        let was = old.node(name)?;
        sends(old, was)?;
        Some(Edge { name, before: old.id(was), after: new.id(node), sends: sends(new, node)? })
    };
    (0..new.len()).filter_map(edge).collect()
}

fn service(network: &Network, link: usize) -> Service {
    match network.is_dead(link) {
        true => Service::Dead,
        false if network.is_drained(link) => Service::Drained,
        false => Service::In,
    }
}

struct Pairs<'a> {
    before: Counts<'a>,
    after: Counts<'a>,
    is_same_fabric: bool,
    max_work: usize,
    /// Pairs whose paths were counted, or are as before.
    decided: u64,
    found: Found<'a>,
}

/// What edges have in common that have equally many paths: their classes before and after, and whether they send path programs.
type Key = (Option<Class>, Option<Class>, bool);

impl<'a> Pairs<'a> {
    fn count(&mut self, edges: &[Edge<'a>]) {
        self.count_classes(edges);
        let number = |sends: bool| edges.iter().filter(|edge| edge.sends == sends).count() as u64;
        let (senders, others) = (number(true), number(false));
        self.found.not_counted = senders * senders.saturating_sub(1) / 2 + senders * others - self.decided;
    }

    fn count_classes(&mut self, edges: &[Edge<'a>]) {
        let mut classes: BTreeMap<Key, Vec<&Edge<'a>>> = BTreeMap::new();
        for edge in edges {
            let (before, after) = (self.before.class(edge.before), self.after.class(edge.after));
            classes.entry((before, after, edge.sends)).or_default().push(edge);
        }
        // The largest first: what is beyond the bound is fewest pairs.
        let mut classes: Vec<Vec<&Edge<'a>>> = classes.into_values().collect();
        classes.sort_by_key(|edges| (Reverse(edges.len()), edges[0].after));
        let mut changed = Vec::new();
        for edges in &classes {
            if self.work() > self.max_work {
                return;
            }
            changed.push(self.is_changed(edges[0]));
        }
        for (n, some) in classes.iter().enumerate() {
            for (m, others) in classes.iter().enumerate().skip(n) {
                if self.work() > self.max_work {
                    return;
                }
                if some[0].sends || others[0].sends {
                    self.of_classes(some, others, changed[n] || changed[m]);
                }
            }
        }
    }

    fn work(&self) -> usize {
        self.before.work() + self.after.work()
    }

    /// Whether a link above the edge is no longer as it was, or may not be.
    fn is_changed(&mut self, edge: &Edge<'_>) -> bool {
        !(self.is_same_fabric && self.before.is_same_above(&mut self.after, edge.before))
    }

    fn of_classes(&mut self, some: &[&Edge<'a>], others: &[&Edge<'a>], is_changed: bool) {
        let is_same = std::ptr::eq(some, others);
        let Some((a, b)) = some.first().zip(others.get(usize::from(is_same))) else { return };
        let number = if is_same { some.len() * (some.len() - 1) / 2 } else { some.len() * others.len() } as u64;
        // Other paths than those up and down lead over any link.
        if !is_changed && self.before.is_up_down(a.before, b.before) {
            self.decided += number;
            return;
        }
        let before = self.before.up_down(a.before, b.before);
        let after = self.after.up_down(a.after, b.after);
        if let Some((before, after)) = before.zip(after) {
            self.decided += number;
            self.found.add(before, after, number, (a, b), common(some, others, is_same));
            return;
        }
        // Paths of a heuristic are those of a pair.
        for (n, a) in some.iter().enumerate() {
            for b in if is_same { &others[n + 1..] } else { others } {
                if self.work() + self.before.work_of_detours() + self.after.work_of_detours() > self.max_work {
                    return;
                }
                self.of_pair(a, b);
            }
        }
    }

    fn of_pair(&mut self, a: &Edge<'a>, b: &Edge<'a>) {
        // The heuristic's paths there are not those back.
        let (from, to) = if a.sends { (a, b) } else { (b, a) };
        let before = paths(&mut self.before, from.before, to.before);
        let after = paths(&mut self.after, from.after, to.after);
        self.decided += 1;
        self.found.add(before, after, 1, (a, b), [Some(a.name), Some(b.name)]);
    }
}

fn paths(counts: &mut Counts<'_>, from: NodeId, to: NodeId) -> Count {
    counts.up_down(from, to).unwrap_or_else(|| counts.detours(from, to))
}

/// The edges that all pairs of two classes have.
fn common<'a>(some: &[&Edge<'a>], others: &[&Edge<'a>], is_same: bool) -> [Option<&'a str>; 2] {
    let only = |edges: &[&Edge<'a>]| (edges.len() == 1).then(|| edges[0].name);
    match is_same {
        true if some.len() == 2 => [Some(some[0].name), Some(some[1].name)],
        true => [None, None],
        false => [only(some), only(others)],
    }
}

/// Pairs with as many paths in service before, and as many after.
#[derive(Default)]
struct Found<'a> {
    /// By what becomes of them, and how many they have after and before.
    groups: BTreeMap<(EffectKind, u64, u64), Group<'a>>,
    not_counted: u64,
}

struct Group<'a> {
    pairs: u64,
    first: (&'a str, &'a str),
    /// The edges that all of them have.
    common: [Option<&'a str>; 2],
    lossless: bool,
}

impl<'a> Found<'a> {
    fn add(
        &mut self,
        before: Count,
        after: Count,
        pairs: u64,
        (a, b): (&Edge<'a>, &Edge<'a>),
        common: [Option<&'a str>; 2],
    ) {
        let Some(kind) = kind(before, after) else { return };
        let lossless = after.alive >= before.alive;
        let first = if a.after < b.after { (a.name, b.name) } else { (b.name, a.name) };
        let group = self.groups.entry((kind, after.in_service, before.in_service)).or_insert(Group {
            pairs: 0,
            first,
            common,
            lossless,
        });
        group.pairs += pairs;
        group.common = group.common.map(|edge| edge.filter(|edge| common.contains(&Some(edge))));
        group.lossless &= lossless;
    }

    fn effects(self) -> Vec<Effect> {
        let effect = |((kind, after, before), group): ((EffectKind, u64, u64), Group<'a>)| {
            let name = match group.common {
                [Some(edge), None] | [None, Some(edge)] => edge.to_owned(),
                _ => format!("{} - {}", group.first.0, group.first.1),
            };
            let (from, to, pairs) = (before.to_string(), after.to_string(), Some(group.pairs));
            Effect { kind, object: EffectObject::Pairs, name, from, to, pairs, lossless: group.lossless }
        };
        let not_counted = (self.not_counted > 0).then(|| Effect {
            kind: EffectKind::PathsNotCounted,
            object: EffectObject::Pairs,
            name: String::new(),
            from: String::new(),
            to: String::new(),
            pairs: Some(self.not_counted),
            lossless: false,
        });
        self.groups.into_iter().map(effect).chain(not_counted).collect()
    }
}

fn kind(before: Count, after: Count) -> Option<EffectKind> {
    match (before.in_service, after.in_service) {
        (was, is) if is > was => Some(EffectKind::PathsMore),
        (was, is) if is > 0 && is < was => Some(EffectKind::PathsFewer),
        (_, 0) if after.alive == 0 && before.alive > 0 => Some(EffectKind::PathsStop),
        (1.., 0) => Some(EffectKind::PathsStay),
        _ => None,
    }
}
