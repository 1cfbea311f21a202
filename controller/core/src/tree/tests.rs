// SPDX-License-Identifier: Apache-2.0

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use canopy_model::addressing::AddressPlan;
use canopy_model::topology::TopologySpec;
use proptest::prelude::*;

use super::*;
use crate::testing::clos::fat_tree;
use crate::testing::{fabric, link, random_graph};

pub(super) fn network(spec: TopologySpec) -> Network {
    Network::build(spec, &AddressPlan::default()).unwrap()
}

pub(super) fn tree_id(id: u64) -> TreeId {
    TreeId::new("tree", id).unwrap()
}

/// Everything that makes it a shortest-path tree of the network that ends only at targets.
fn check(n: &Network, tree: &Tree, root: NodeIx, targets: &[NodeIx]) {
    let (distance, _) = n.distances(root, |_| false);
    assert_eq!(tree.root(), root);
    let mut seen = HashSet::new();
    let mut depth = Vec::new();
    for (at, t) in tree.nodes().enumerate() {
        assert!(seen.insert(t.node), "node {} is in the tree twice", t.node);
        match t.parent {
            None => {
                assert_eq!(at, 0, "a second root");
                depth.push(0);
            }
            Some(up) => {
                assert!(up.position < at && tree.node(up.position).children().any(|child| child == at));
                let a = n.adjacent(t.node).find(|a| a.port == up.port).expect("the port leads to a node");
                assert_eq!((a.to, a.far_port, a.link), (tree.node(up.position).node, up.parent_port, up.link));
                depth.push(depth[up.position] + 1);
            }
        }
        assert_eq!(depth[at], distance[t.node], "node {} is not on a shortest path", t.node);
        assert!(t.children().len() > 0 || targets.contains(&t.node) || at == 0, "leaf {} serves no receiver", t.node);
        for c in t.children() {
            assert_eq!(tree.node(c).parent.map(|p| p.position), Some(at));
        }
    }
    assert!(targets.iter().all(|t| seen.contains(t)), "a target is not reached");
}

/// Fewest nodes besides the root of any shortest-path tree to the targets: tries every set of helpers.
fn optimum(n: &Network, root: NodeIx, targets: &[NodeIx]) -> usize {
    let (distance, _) = n.distances(root, |_| false);
    let must: HashSet<NodeIx> = targets.iter().copied().chain([root]).collect();
    let may: Vec<NodeIx> = (0..n.len()).filter(|i| !must.contains(i)).collect();
    let works = |set: u32| {
        let inside =
            |x: NodeIx| must.contains(&x) || may.iter().position(|&m| m == x).is_some_and(|i| set >> i & 1 == 1);
        (0..n.len())
            .filter(|&x| x != root && inside(x))
            .all(|x| n.adjacent(x).any(|a| distance[a.to] + 1 == distance[x] && inside(a.to)))
    };
    let helpers =
        (0u32..1 << may.len()).filter(|&s| works(s)).map(u32::count_ones).min().expect("the whole network works");
    must.len() - 1 + helpers as usize
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn it_is_a_shortest_path_tree_to_every_target(
        parents in prop::collection::vec(any::<usize>(), 0..60),
        extra in prop::collection::vec(any::<(usize, usize)>(), 0..80),
        root in any::<usize>(), targets in prop::collection::vec(any::<usize>(), 0..20), id in 1u64..1000,
    ) {
        let n = network(random_graph(&parents, &extra));
        let root = root % n.len();
        let targets: Vec<NodeIx> = targets.iter().map(|t| t % n.len()).collect();
        let tree = Tree::build(&n, tree_id(id), root, targets.iter().copied()).unwrap();
        check(&n, &tree, root, &targets);
        prop_assert_eq!(tree, Tree::build(&n, tree_id(id), root, targets.iter().rev().copied()).unwrap(), "depends on the order of targets");
    }

    #[test]
    fn on_a_leaf_spine_fabric_it_has_the_fewest_links(
        leaves in 1u16..6, spines in 1u16..5, root in any::<usize>(), targets in prop::collection::vec(any::<usize>(), 1..6), id in 1u64..100,
    ) {
        let n = network(fabric(leaves, spines, 0));
        // Nodes are declared leaves first.
        let leaf = |x: &usize| x % usize::from(leaves);
        let targets: Vec<NodeIx> = targets.iter().map(leaf).collect();
        let tree = Tree::build(&n, tree_id(id), leaf(&root), targets.iter().copied()).unwrap();
        check(&n, &tree, leaf(&root), &targets);
        prop_assert_eq!(tree.len() - 1, optimum(&n, leaf(&root), &targets));
    }
}

#[test]
fn groups_spread_over_spines_and_parallel_links() {
    let mut spec = fabric(2, 4, 0);
    spec.links.extend((1..=4).map(|s| link(&format!("leaf1/par{s}"), &format!("spine{s}/par1"))));
    let n = network(spec);
    let (mut spines, mut links) = (HashMap::new(), HashSet::new());
    for id in 1..=400 {
        let tree = Tree::build(&n, tree_id(id), 0, [1]).unwrap();
        *spines.entry(tree.node(1).node).or_insert(0) += 1;
        links.insert(tree.node(1).parent.unwrap().link);
    }
    assert_eq!(spines.len(), 4);
    assert!(spines.values().all(|&count| count > 50), "{spines:?}");
    assert_eq!(links.len(), 8);
}

#[test]
fn of_parallel_links_the_one_that_carries_more_is_used() {
    let mut spec = random_graph(&[0], &[(0, 1), (0, 1)]);
    spec.links[0].mtu = 1500;
    spec.links[2].mtu = 1500;
    let n = network(spec);
    assert!((1..30).all(|id| Tree::build(&n, tree_id(id), 0, [1]).unwrap().node(1).parent.unwrap().link == 1));
}

#[test]
fn a_tree_is_kept_over_its_ports_and_extended_by_the_shortest_path() {
    // A ring of 6; the short way from 0 to 3 and the long one to 2.
    let mut spec = random_graph(&[0, 1, 2, 3, 4], &[]);
    spec.links.push(link("n5/x", "n0/x"));
    let n = network(spec);
    let ports = |tree: &Tree| tree.uplinks(&n).iter().map(ToString::to_string).collect::<Vec<_>>();
    let long: Vec<_> = ["n5/x", "n4/e4", "n3/e3", "n2/e2"].map(crate::testing::endpoint).into();
    let tree = Tree::keep(&n, 0, [2], &long).unwrap();
    assert_eq!(ports(&tree), ["n5/x", "n4/e4", "n3/e3", "n2/e2"]);
    assert_eq!(Tree::keep(&n, 0, [2], &tree.uplinks(&n)).unwrap(), tree);
    // Node 1 is next to node 0; what leads to no receiver any longer is left out.
    assert_eq!(ports(&Tree::keep(&n, 0, [4, 1], &long).unwrap()), ["n1/e0", "n5/x", "n4/e4"]);
    // Ports in a circle, or of other networks, lead nowhere.
    let circle: Vec<_> = ["n2/e2", "n3/e2", "n9/e1"].map(crate::testing::endpoint).into();
    assert_eq!(ports(&Tree::keep(&n, 0, [2], &circle).unwrap()), ["n1/e0", "n2/e1"]);
    assert_eq!(Tree::keep(&n, 0, [0], &long).unwrap().len(), 1);
}

#[test]
fn no_tree_leads_over_a_broken_link_but_one_is_kept_over_it() {
    let down = std::collections::BTreeSet::from([crate::testing::endpoint("n2/e1")]);
    let n = Network::build_around(random_graph(&[0, 1, 2], &[]), &AddressPlan::default(), &down, &[], &[]).unwrap();
    assert_eq!(Tree::build(&n, tree_id(1), 0, [1, 3]), Err(3));
    assert_eq!(Tree::build(&n, tree_id(1), 0, [1]).unwrap().len(), 2);
    let ports: Vec<_> = ["n1/e0", "n2/e1"].map(crate::testing::endpoint).into();
    assert_eq!(Tree::keep(&n, 0, [3], &ports).unwrap().len(), 4);
    assert_eq!(Tree::keep(&n, 0, [3], &ports[..1]), None);
}

/// The parent of `child` as the module's first paragraphs describe it, found by comparing all nodes.
fn described(n: &Network, id: TreeId, distance: &[u32], child: NodeIx) -> NodeIx {
    let level = distance[child] - 1;
    let nearer = (0..n.len()).filter(|up| distance[*up] == level && n.sound(child).any(|a| a.to == *up));
    let hash = |up: NodeIx| mix(mix(id.get().into(), level.into()), n.id(up).get().into());
    nearer.reduce(|best, up| if hash(up) < hash(best) { up } else { best }).expect("a neighbour that is nearer")
}

/// Each node of the tree with its parent.
fn parents(tree: &Tree) -> BTreeMap<NodeIx, NodeIx> {
    tree.nodes().filter_map(|t| Some((t.node, tree.node(t.parent?.position).node))).collect()
}

/// A random network, or a fabric with equal paths, of which some links are broken: the bits of `down`.
fn some_network(
    is_fabric: bool,
    parents: &[usize],
    extra: &[(usize, usize)],
    (leaves, spines): (u16, u16),
    down: u64,
) -> Network {
    let whole = network(if is_fabric { fabric(leaves, spines, 0) } else { random_graph(parents, extra) });
    let links = whole.spec.links.iter().enumerate();
    let broken =
        links.filter(|(i, _)| down >> (i % 64) & (down >> ((i + 29) % 64)) & 1 == 1).map(|(_, link)| link.a.clone());
    whole.with_links(&broken.collect(), &[], &[])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Catches a faster choice that is another one: the trees of running groups would move at an upgrade (decisions 3.14).
    #[test]
    fn the_tree_is_the_one_that_is_described(
        up in prop::collection::vec(any::<usize>(), 0..16), extra in prop::collection::vec(any::<(usize, usize)>(), 0..40),
        size in (2u16..9, 1u16..5), is_fabric in any::<bool>(), id in 1u64..1000, root in any::<usize>(),
        targets in prop::collection::vec(any::<usize>(), 1..12), down in any::<u64>(),
    ) {
        let n = some_network(is_fabric, &up, &extra, size, down);
        let (root, targets) = (root % n.len(), targets.iter().map(|t| t % n.len()).collect::<Vec<_>>());
        let (distance, _) = n.sound_distances(root, |_| false);
        match Tree::build(&n, tree_id(id), root, targets.iter().copied()) {
            Ok(tree) => {
                let mut expected = BTreeMap::new();
                for mut at in targets {
                    while at != root {
                        let next = described(&n, tree_id(id), &distance, at);
                        expected.insert(at, next);
                        at = next;
                    }
                }
                prop_assert_eq!(parents(&tree), expected);
            }
            Err(node) => {
                let unreached = targets.iter().copied().filter(|t| distance[*t] == u32::MAX).min();
                prop_assert_eq!(Some(node), unreached);
            }
        }
    }

    /// Catches a choice that depends on who else receives, or on links that the tree does not lead over.
    #[test]
    fn a_join_adds_the_rest_of_one_path_and_a_failure_moves_only_who_used_the_link(
        up in prop::collection::vec(any::<usize>(), 0..16), extra in prop::collection::vec(any::<(usize, usize)>(), 0..40),
        size in (2u16..9, 2u16..6), is_fabric in any::<bool>(), id in 1u64..1000, root in any::<usize>(),
        targets in prop::collection::vec(any::<usize>(), 1..12), another in any::<usize>(), lost in any::<usize>(),
    ) {
        let n = some_network(is_fabric, &up, &extra, size, 0);
        let of = |n: &Network, targets: &[NodeIx]| Tree::build(n, tree_id(id), root % n.len(), targets.iter().map(|t| t % n.len()));
        let tree = of(&n, &targets).unwrap();
        let before = parents(&tree);
        let with: Vec<usize> = targets.iter().copied().chain([another]).collect();
        let after = parents(&of(&n, &with).unwrap());
        prop_assert!(before.iter().all(|(node, up)| after.get(node) == Some(up)), "{before:?} {after:?}");
        // What is new is one path, that ends where the tree was.
        let mut at = another % n.len();
        let mut path = BTreeSet::new();
        while at != root % n.len() && !before.contains_key(&at) {
            path.insert(at);
            at = after[&at];
        }
        let new: BTreeSet<NodeIx> = after.keys().copied().filter(|node| !before.contains_key(node)).collect();
        prop_assert_eq!(new, path);

        let lost = lost % n.spec.links.len().max(1);
        let Some(link) = n.spec.links.get(lost) else { return Ok(()) };
        let without = n.with_links(&BTreeSet::from([link.a.clone()]), &[], &[]);
        let Ok(rest) = of(&without, &targets) else { return Ok(()) };
        let now = parents(&rest);
        for target in targets.iter().map(|t| t % n.len()) {
            let path = |parents: &BTreeMap<NodeIx, NodeIx>| std::iter::successors(Some(target), |at| parents.get(at).copied()).collect::<Vec<_>>();
            let ways = path(&before);
            let used = tree.nodes().any(|t| ways.contains(&t.node) && t.parent.is_some_and(|up| up.link == lost));
            prop_assert!(used || path(&now) == ways, "{target}: {ways:?} became {:?}", path(&now));
        }
    }
}

/// Trees in a Clos are about as large as those of a choice among all receivers' paths at once. In other networks they are larger:
/// ARCHITECTURE.md has by how much.
#[test]
fn in_a_clos_trees_have_hardly_more_nodes_than_the_greedy_ones() {
    let clos = network(crate::testing::clos::clos());
    let edges: Vec<NodeIx> = (0..clos.len()).filter(|n| clos.name(*n).starts_with("edge")).collect();
    let dice = |seed: u64, i: u64, below: usize| mix(seed, i) as usize % below;
    let sizes = |n: &Network, seed: u64, among: &[NodeIx], receivers: u64| {
        let root = among[dice(seed, 0, among.len())];
        let targets: Vec<NodeIx> = (1..=receivers).map(|i| among[dice(seed, i, among.len())]).collect();
        let size = |tree: Result<Tree, NodeIx>| tree.map_or(0, |tree| tree.len());
        let id = tree_id(seed + 1);
        [size(Tree::build(n, id, root, targets.iter().copied())), size(Tree::covering(n, id, root, targets))]
    };
    let ratio = |pairs: &[[usize; 2]]| {
        let [stable, greedy] = [0, 1].map(|i| pairs.iter().map(|pair| pair[i]).sum::<usize>());
        stable as f64 / greedy as f64
    };
    for percent in [0, 1, 5] {
        let broken = clos.spec.links.iter().enumerate().filter(|(i, _)| mix(percent, *i as u64) % 100 < percent);
        let n = clos.with_links(&broken.map(|(_, link)| link.a.clone()).collect(), &[], &[]);
        for receivers in [4, 64, 1_024] {
            let pairs: Vec<[usize; 2]> = (0..100).map(|seed| sizes(&n, seed, &edges, receivers)).collect();
            println!("Clos, {percent} % of the links broken, {receivers} receivers: {:.3}", ratio(&pairs));
            assert!(
                percent > 1 || ratio(&pairs) <= 1.1,
                "{percent} % broken, {receivers} receivers: {}",
                ratio(&pairs)
            );
        }
    }
    let pairs: Vec<[usize; 2]> = (0..400)
        .map(|seed| {
            let some = |i: u64| mix(seed, i) as usize;
            let (parents, extra) = (
                (0..60).map(some).collect::<Vec<_>>(),
                (0..120).map(|i| (some(100 + i), some(300 + i))).collect::<Vec<_>>(),
            );
            let n = network(random_graph(&parents, &extra));
            let all: Vec<NodeIx> = (0..n.len()).collect();
            sizes(&n, seed, &all, 12)
        })
        .collect();
    println!("random graphs of 61 nodes and 180 links, 12 receivers: {:.3}", ratio(&pairs));
}

/// What trees cost beside a search of the network, which the first tree from a root needs: printed by `make bench`, of 2,880 nodes.
#[test]
fn a_tree_costs_no_search_of_the_network() {
    let is_bench = std::env::var_os("CANOPY_DEEP").is_some();
    let n = network(fat_tree(if is_bench { 48 } else { 8 }));
    let edges: Vec<NodeIx> = (0..n.len()).filter(|node| n.name(*node).starts_with("edge")).collect();
    let dice = |seed: u64, i: u64| edges[mix(seed, i) as usize % edges.len()];
    for receivers in [64, 1_024] {
        let groups: Vec<(NodeIx, Vec<NodeIx>)> = (0..if is_bench { 200 } else { 2 })
            .map(|seed| (dice(seed, 0), (1..=receivers).map(|i| dice(seed, i)).collect()))
            .collect();
        let mut nodes = 0;
        let mut all = |which: &dyn Fn(usize) -> usize| {
            let start = Instant::now();
            nodes = (0..groups.len()).map(which).sum::<usize>() / groups.len();
            start.elapsed() / groups.len() as u32
        };
        let search = all(&|i| n.sound_distances(groups[i].0, |_| false).1.len());
        let tree = |i: usize| {
            let (root, targets) = &groups[i];
            Tree::build(&n, tree_id(i as u64 + 1), *root, targets.iter().copied()).unwrap()
        };
        let first = all(&|i| tree(i).len());
        let next: Vec<_> = (0..5).map(|_| all(&|i| tree(i).len())).collect();
        if is_bench {
            let per_search = |time: &Duration| time.as_secs_f64() / search.as_secs_f64();
            let [least, most] = [next.iter().min(), next.iter().max()].map(|time| time.map_or(0., per_search));
            println!(
                "{receivers} receivers, {nodes} nodes of {}: {:.2} searches for the first tree from a root, {least:.2} to {most:.2} ({:?}) for another; a search takes {search:?}",
                n.len(),
                per_search(&first),
                next[0]
            );
        }
        let (root, _) = groups[0];
        assert!(Arc::ptr_eq(&n.hops_from(root), &n.hops_from(root)), "it is searched again");
    }
    // Hops over other links are others.
    let (root, link) = (edges[0], &n.spec.links[n.adjacent(edges[0]).next().unwrap().link]);
    let without = n.with_links(&BTreeSet::from([link.a.clone()]), &[], &[]);
    assert_eq!(without.hops_from(root).iter().filter(|hops| **hops == 1).count() + 1, n.adjacent(root).count());
}
