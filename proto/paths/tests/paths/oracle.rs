// SPDX-License-Identifier: Apache-2.0
//! Paths in random Clos fabrics and random graphs against a slow oracle: it tries every walk without a repeated node over the list of links,
//! and shares no code with the crate.

use std::collections::{BTreeMap, BTreeSet};

use canopy_paths::decode::{End, decode};
use canopy_paths::fabric::Fabric;
use canopy_paths::pair::{Disjoint, Method, Paths};
use canopy_paths::path::{Attachment, Path, Style};
use proptest::prelude::*;

use crate::net::Net;

/// Every path of at most `longest` links between two nodes, as links.
fn all_paths(net: &Net, from: u16, to: u16, longest: usize) -> Vec<Vec<usize>> {
    let (mut found, mut open) = (Vec::new(), vec![(vec![from], Vec::new())]);
    while let Some((nodes, links)) = open.pop() {
        let at = *nodes.last().unwrap();
        if at == to {
            found.push(links);
            continue;
        }
        if links.len() == longest {
            continue;
        }
        for (i, link) in net.links.iter().enumerate() {
            let Some(b) = link.b else { continue };
            let next = if link.a.0 == at { b.0 } else { link.a.0 };
            if (link.a.0 == at || b.0 == at) && !nodes.contains(&next) {
                let (mut nodes, mut links) = (nodes.clone(), links.clone());
                nodes.push(next);
                links.push(i);
                open.push((nodes, links));
            }
        }
    }
    found
}

fn shortest(net: &Net, from: u16, to: u16) -> Vec<Vec<usize>> {
    (0..net.nodes.len())
        .map(|longest| all_paths(net, from, to, longest))
        .find(|all| !all.is_empty())
        .unwrap_or_default()
}

fn links(path: &Path) -> Vec<usize> {
    path.hops.iter().map(|hop| hop.link).collect()
}

/// Each link of the path is one of the list, from one node of the path to the next, and none comes twice.
fn check_links(net: &Net, path: &Path) {
    let nodes: Vec<u16> = path.nodes().map(|node| node.get()).collect();
    assert_eq!(nodes.len(), path.hops.len() + 1);
    for (hop, ends) in path.hops.iter().zip(nodes.windows(2)) {
        let link = net.links[hop.link];
        let (a, b) = (link.a, link.b.unwrap());
        let (from, to) = if a.0 == ends[0] { (a, b) } else { (b, a) };
        assert_eq!((from, to.0), ((hop.from.node.get(), hop.from.port.get()), ends[1]));
        assert_eq!(ends[0], from.0);
    }
    let all: Vec<usize> = path.links().collect();
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "a link twice");
    assert_eq!(nodes.iter().collect::<BTreeSet<_>>().len(), nodes.len(), "a node twice");
}

/// The header on each link is decoded to the rest of the path, whatever the style.
fn check_programs(fabric: &Fabric, path: &Path) {
    for style in [Style::Nodes, Style::Links] {
        let nodes: Vec<_> = path.nodes().collect();
        for (i, header) in path.headers(fabric, style, None).unwrap().iter().enumerate() {
            let decoded = decode(fabric, header, Some(nodes[i]));
            let found: Vec<usize> = decoded.steps.iter().filter_map(|step| Some(step.crossing?.link)).collect();
            assert_eq!(found, links(path)[i..], "{header:?} at {}", nodes[i]);
            let end = match style {
                Style::Nodes => End::Node(path.to.edge.node),
                Style::Links => End::Port { port: path.to.edge, link: path.to.link, to: None },
            };
            assert_eq!(decoded.end, Ok(end));
        }
    }
}

fn check_order(paths: &Paths) {
    let all: BTreeSet<Vec<usize>> = paths.list.iter().map(|ranked| ranked.path.links().collect()).collect();
    assert_eq!(all.len(), paths.list.len(), "a path twice");
    // Both hosts have one link: neither it nor the edge counts.
    for (i, ranked) in paths.list.iter().enumerate() {
        let inner = |path: &Path| {
            let nodes: Vec<_> = path.nodes().map(|node| node.get()).collect();
            nodes[1.min(nodes.len())..nodes.len().max(2) - 1].to_vec()
        };
        let before = &paths.list[..i];
        let shares_link = before.iter().any(|b| links(&b.path).iter().any(|l| links(&ranked.path).contains(l)));
        let shares_node = before.iter().any(|b| inner(&b.path).iter().any(|n| inner(&ranked.path).contains(n)));
        let class = match (shares_link, shares_node) {
            (true, _) => Disjoint::Not,
            (false, true) => Disjoint::Link,
            (false, false) => Disjoint::Node,
        };
        assert_eq!(ranked.disjoint, (i > 0).then_some(class));
    }
}

/// Two hosts of a Clos as [`clos_of_edges`] has it.
fn clos() -> impl Strategy<Value = (Net, Attachment, Attachment)> {
    let ends = (any::<prop::sample::Index>(), any::<prop::sample::Index>());
    (clos_of_edges(), ends).prop_map(|((net, attached), (a, b))| {
        let (a, b) = (attached[a.index(attached.len())], attached[b.index(attached.len())]);
        (net, a, b)
    })
}

/// A Clos of two tiers, or of three with pods, and a host of each edge; some links are doubled, and some of them are absent.
pub(crate) fn clos_of_edges() -> impl Strategy<Value = (Net, Vec<Attachment>)> {
    let shape = (1_u16..3, 1_u16..4, 1_u16..4, 0_u16..3, proptest::collection::vec(0_u8..10, 64));
    (shape, any::<bool>()).prop_map(|((pods, leaves, spines, tops, dice), is_reversed)| {
        let mut dice = dice.into_iter().cycle();
        let of_pod = |pod: u16, tier: u16, i: u16| 0x100 * (pod + 1) + 0x10 * tier + i + 1;
        let mut nodes = Vec::new();
        let mut edges = Vec::new();
        for pod in 0..pods {
            edges.extend((0..leaves).map(|i| of_pod(pod, 0, i)));
            nodes.extend((0..leaves).map(|i| of_pod(pod, 0, i)));
            nodes.extend((0..spines).map(|i| of_pod(pod, 1, i)));
        }
        nodes.extend((0..tops).map(|i| of_pod(9, 2, i)));
        if is_reversed {
            nodes.reverse();
        }
        let mut net = Net::new(nodes);
        for pod in 0..pods {
            for leaf in 0..leaves {
                for spine in 0..spines {
                    let times = match dice.next().unwrap() {
                        0 => 0,
                        1 => 2,
                        _ => 1,
                    };
                    (0..times).for_each(|_| net.link(of_pod(pod, 0, leaf), of_pod(pod, 1, spine)));
                }
            }
            for spine in 0..spines {
                for top in 0..tops {
                    if dice.next().unwrap() > 0 {
                        net.link(of_pod(pod, 1, spine), of_pod(9, 2, top));
                    }
                }
            }
        }
        let attached = edges.iter().map(|&edge| net.host(edge)).collect();
        (net, attached)
    })
}

/// Any connected graph of up to 8 nodes with parallel links.
pub(crate) fn graph() -> impl Strategy<Value = (Net, Attachment, Attachment)> {
    let more = proptest::collection::vec((0_u16..8, 0_u16..8), 0..10);
    (2_u16..=8, more, any::<prop::sample::Index>()).prop_map(|(nodes, more, b)| {
        let mut net = Net::new(1..=nodes);
        (2..=nodes).for_each(|node| net.link(node / 2, node));
        for (a, b) in more {
            let (a, b) = (a % nodes + 1, b % nodes + 1);
            if a != b {
                net.link(a, b);
            }
        }
        let from = net.host(1);
        let to = net.host(b.index(nodes.into()) as u16 + 1);
        (net, from, to)
    })
}

proptest! {
    /// Catches a path that is missed, counted twice or by another number, and a valley.
    #[test]
    fn in_a_clos_they_are_all_shortest_paths((net, a, b) in clos()) {
        prop_assume!(a != b);
        let fabric = net.fabric();
        let paths = Paths::between(&fabric, &[a], &[b]);
        let expected = shortest(&net, a.edge.node.get(), b.edge.node.get());
        if paths.method == Method::UpDown && paths.total > 0 {
            // With absent links the shortest path may have a valley; then the oracle's shortest are other ones, and not more links long.
            let is_same_length = expected[0].len() == paths.list[0].path.hops.len();
            let found: BTreeSet<Vec<usize>> = paths.list.iter().map(|r| links(&r.path)).collect();
            let all: BTreeSet<Vec<usize>> = expected.into_iter().filter(|p| is_up_down(&net, a, p)).collect();
            if is_same_length {
                prop_assert_eq!(&found, &all);
                prop_assert_eq!(paths.total, all.len() as u64);
            }
        }
        prop_assert_eq!(paths.total == 0, shortest(&net, a.edge.node.get(), b.edge.node.get()).is_empty());
        paths.list.iter().for_each(|ranked| {
            check_links(&net, &ranked.path);
            check_programs(&fabric, &ranked.path);
            assert_eq!((ranked.path.from, ranked.path.to), (a, b));
        });
        check_order(&paths);
    }

    /// Catches a path over links that are not there, one that is longer than it may be, and a first path that is not a shortest one.
    #[test]
    fn elsewhere_they_are_bounded_and_the_first_is_a_shortest_one((net, a, b) in graph()) {
        prop_assume!(a != b);
        let fabric = net.fabric();
        let paths = Paths::between(&fabric, &[a], &[b]);
        let least = shortest(&net, a.edge.node.get(), b.edge.node.get())[0].len();
        prop_assert!((1..=256).contains(&paths.list.len()));
        if paths.method == Method::Detours {
            prop_assert!(paths.list.len() <= 16);
            prop_assert_eq!(paths.list[0].path.hops.len(), least);
            let possible = all_paths(&net, a.edge.node.get(), b.edge.node.get(), least + 2);
            for ranked in &paths.list {
                prop_assert!(possible.contains(&links(&ranked.path)));
            }
            // With a path that shares no link with the first one, the second one shares none.
            let first: BTreeSet<usize> = links(&paths.list[0].path).into_iter().collect();
            if possible.iter().any(|p| !p.is_empty() && p.iter().all(|link| !first.contains(link))) {
                prop_assert!(paths.list[1].disjoint >= Some(Disjoint::Link));
            }
        }
        for ranked in &paths.list {
            check_links(&net, &ranked.path);
            check_programs(&fabric, &ranked.path);
        }
        check_order(&paths);
    }

    /// Catches an order that follows from the order of declaration.
    #[test]
    fn the_order_of_nodes_in_the_list_changes_nothing((net, a, b) in clos()) {
        prop_assume!(a != b);
        let mut other = net.clone();
        other.nodes.reverse();
        let between = |net: &Net| Paths::between(&net.fabric(), &[a], &[b]);
        prop_assert_eq!(between(&other), between(&net));
    }
}

/// Whether the path goes up first and then down. A node's tier is its distance from a node with a host.
fn is_up_down(net: &Net, from: Attachment, path: &[usize]) -> bool {
    let mut tiers: BTreeMap<u16, usize> = net.links.iter().filter(|l| l.b.is_none()).map(|l| (l.a.0, 0)).collect();
    for tier in 0..net.nodes.len() {
        for link in &net.links {
            let Some(b) = link.b else { continue };
            for (low, high) in [(link.a.0, b.0), (b.0, link.a.0)] {
                if tiers.get(&low) == Some(&tier) {
                    tiers.entry(high).or_insert(tier + 1);
                }
            }
        }
    }
    let (mut at, mut is_down) = (from.edge.node.get(), false);
    path.iter().all(|&link| {
        let (a, b) = (net.links[link].a.0, net.links[link].b.unwrap().0);
        let next = if a == at { b } else { a };
        let goes_down = tiers[&next] < tiers[&at];
        at = next;
        let is_valley = is_down && !goes_down;
        is_down |= goes_down;
        !is_valley
    })
}

/// Catches counts that overflow or take the time of all paths, and more paths than the bound.
#[test]
fn more_paths_than_the_bound_are_counted_and_spread() {
    let mut net = Net::new((1..=2).chain(0x11..=0x50));
    for spine in 0x11..=0x50 {
        for leaf in [1, 2] {
            (0..8).for_each(|_| net.link(leaf, spine));
        }
    }
    let (a, b) = (net.host(1), net.host(2));
    let fabric = net.fabric();
    let paths = Paths::between(&fabric, &[a], &[b]);
    assert_eq!((paths.total, paths.list.len()), (64 * 64, 256));
    let spines: BTreeSet<u16> = paths.list.iter().map(|r| r.path.hops[0].to.get()).collect();
    assert_eq!(spines.len(), 64, "each spine is used");
    let nodes: BTreeSet<u16> = paths.list[..64].iter().map(|r| r.path.hops[0].to.get()).collect();
    assert_eq!(nodes.len(), 64, "the first 64 paths share no spine");
}
