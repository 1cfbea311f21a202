// SPDX-License-Identifier: Apache-2.0

use canopy_model::addressing::AddressPlan;
use canopy_model::topology::TopologySpec;
use proptest::prelude::*;

use super::*;
use crate::testing::{fabric, link, random_graph};

fn network(spec: TopologySpec) -> Network {
    Network::build(spec, &AddressPlan::default()).unwrap()
}

fn tree_id(id: u64) -> TreeId {
    TreeId::new("tree", id).unwrap()
}

/// Everything that makes it a shortest-path tree of the network that ends only at targets.
fn check(n: &Network, tree: &Tree, root: NodeIx, targets: &[NodeIx]) {
    let (distance, _) = n.distances(root, |_| false);
    assert_eq!(tree.nodes[0].node, root);
    let mut seen = HashSet::new();
    let mut depth = Vec::new();
    for (at, t) in tree.nodes.iter().enumerate() {
        assert!(seen.insert(t.node), "node {} is in the tree twice", t.node);
        match t.parent {
            None => {
                assert_eq!(at, 0, "a second root");
                depth.push(0);
            }
            Some(up) => {
                assert!(up.position < at && tree.nodes[up.position].children.contains(&at));
                let a = n.adjacent(t.node).iter().find(|a| a.port == up.port).expect("the port leads to a node");
                assert_eq!((a.to, a.far_port, a.link), (tree.nodes[up.position].node, up.parent_port, up.link));
                depth.push(depth[up.position] + 1);
            }
        }
        assert_eq!(depth[at], distance[t.node], "node {} is not on a shortest path", t.node);
        assert!(!t.children.is_empty() || targets.contains(&t.node) || at == 0, "leaf {} serves no receiver", t.node);
        for &c in &t.children {
            assert_eq!(tree.nodes[c].parent.map(|p| p.position), Some(at));
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
            .all(|x| n.adjacent(x).iter().any(|a| distance[a.to] + 1 == distance[x] && inside(a.to)))
    };
    let helpers =
        (0u32..1 << may.len()).filter(|&s| works(s)).map(u32::count_ones).min().expect("the whole network works");
    must.len() - 1 + helpers as usize
}

fn harmonic(n: usize) -> f64 {
    (1..=n).map(|i| 1.0 / i as f64).sum()
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
    fn its_links_are_near_the_fewest_possible(
        parents in prop::collection::vec(any::<usize>(), 1..10),
        extra in prop::collection::vec(any::<(usize, usize)>(), 0..12),
        targets in prop::collection::vec(any::<usize>(), 1..6),
    ) {
        let n = network(random_graph(&parents, &extra));
        let targets: Vec<NodeIx> = targets.iter().map(|t| t % n.len()).collect::<std::collections::BTreeSet<_>>().into_iter().collect();
        let tree = Tree::build(&n, tree_id(1), 0, targets.iter().copied()).unwrap();
        let (distance, _) = n.distances(0, |_| false);
        let links = tree.nodes.len() - 1;
        let best = optimum(&n, 0, &targets);
        let apart: usize = targets.iter().map(|&t| distance[t] as usize).sum();
        prop_assert!(best <= links && links <= apart, "{best} <= {links} <= {apart}");
        if targets.iter().all(|&t| distance[t] <= 2) {
            // One level of choice: exactly the greedy set cover, whose bound is known.
            let must: HashSet<NodeIx> = targets.iter().copied().filter(|&t| t != 0).collect();
            prop_assert!((links - must.len()) as f64 <= harmonic(must.len()) * (best - must.len()) as f64 + 1e-9);
        }
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
        prop_assert_eq!(tree.nodes.len() - 1, optimum(&n, leaf(&root), &targets));
    }
}

#[test]
fn a_node_that_is_in_the_tree_anyway_is_preferred() {
    // n0 - n1 - n3 and n0 - n2 - n3; n1 is a receiver itself, so the parent of n3 must be n1 for every tree id.
    let mut spec = random_graph(&[0, 0, 1], &[]);
    spec.links.push(link("n3/x", "n2/x"));
    let n = network(spec);
    for id in 1..50 {
        let tree = Tree::build(&n, tree_id(id), 0, [3, 1]).unwrap();
        assert_eq!(tree.nodes.iter().map(|t| t.node).collect::<Vec<_>>(), [0, 1, 3]);
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
        *spines.entry(tree.nodes[1].node).or_insert(0) += 1;
        links.insert(tree.nodes[1].parent.unwrap().link);
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
    assert!((1..30).all(|id| Tree::build(&n, tree_id(id), 0, [1]).unwrap().nodes[1].parent.unwrap().link == 1));
}

#[test]
fn a_parent_whose_children_others_took_is_counted_anew() {
    // Children 4..=9 of helpers n1, n2, n3 below the root: n1 covers 4 5 6 7, n2 covers 5 6 8, n3 covers 8 9.
    let mut spec = random_graph(&[0, 0, 0, 1, 1, 1, 1, 3, 3], &[]);
    for (k, (child, helper)) in [(5, 2), (6, 2), (8, 2)].into_iter().enumerate() {
        spec.links.push(link(&format!("n{child}/x{k}"), &format!("n{helper}/x{k}")));
    }
    let n = network(spec);
    for id in 1..50 {
        let tree = Tree::build(&n, tree_id(id), 0, 4..=9).unwrap();
        assert!(
            tree.nodes.iter().all(|t| t.node != 2),
            "n2 covers three by its first count, but only one that n1 leaves"
        );
    }
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
    assert_eq!(Tree::keep(&n, 0, [0], &long).unwrap().nodes.len(), 1);
}

#[test]
fn no_tree_leads_over_a_broken_link_but_one_is_kept_over_it() {
    let down = std::collections::BTreeSet::from([crate::testing::endpoint("n2/e1")]);
    let n = Network::build_around(random_graph(&[0, 1, 2], &[]), &AddressPlan::default(), &down, &[], &[]).unwrap();
    assert_eq!(Tree::build(&n, tree_id(1), 0, [1, 3]), Err(3));
    assert_eq!(Tree::build(&n, tree_id(1), 0, [1]).unwrap().nodes.len(), 2);
    let ports: Vec<_> = ["n1/e0", "n2/e1"].map(crate::testing::endpoint).into();
    assert_eq!(Tree::keep(&n, 0, [3], &ports).unwrap().nodes.len(), 4);
    assert_eq!(Tree::keep(&n, 0, [3], &ports[..1]), None);
}

/// The parent of each node but the root as the module's first paragraphs describe it, step by step over all nodes, with nothing kept between
/// two steps.
fn described(n: &Network, id: TreeId, root: NodeIx, targets: &[NodeIx]) -> BTreeSet<(NodeIx, NodeIx)> {
    let (distance, _) = n.sound_distances(root, |_| false);
    let rank = |node: NodeIx| (mix(id.get().into(), n.id(node).get().into()), node);
    let leads = |up: NodeIx, child: NodeIx| {
        distance[up].checked_add(1) == Some(distance[child]) && n.sound(child).any(|a| a.to == up)
    };
    let mut inside: BTreeSet<NodeIx> = targets.iter().copied().chain([root]).collect();
    let mut parents = BTreeSet::new();
    let deepest = inside.iter().map(|t| distance[*t]).max().unwrap();
    for level in (1..=deepest).rev() {
        let mut open: BTreeSet<NodeIx> = inside.iter().copied().filter(|t| distance[*t] == level).collect();
        let present: Vec<NodeIx> = inside.iter().copied().filter(|t| distance[*t] == level - 1).collect();
        for child in open.clone() {
            let found = present.iter().copied().filter(|up| leads(*up, child)).min_by_key(|up| rank(*up));
            parents.extend(found.map(|up| (child, up)));
            open.retain(|c| *c != child || found.is_none());
        }
        while !open.is_empty() {
            let covered = |up: NodeIx| open.iter().filter(|child| leads(up, **child)).count();
            let best = (0..n.len()).max_by_key(|up| (covered(*up), Reverse(rank(*up)))).unwrap();
            let taken: Vec<NodeIx> = open.iter().copied().filter(|child| leads(best, *child)).collect();
            inside.insert(best);
            parents.extend(taken.iter().map(|child| (*child, best)));
            open.retain(|child| !taken.contains(child));
        }
    }
    parents
}

proptest! {
    /// Catches a faster choice that is another one: the tree of a running group would move (decisions 3.14).
    #[test]
    fn the_tree_is_the_one_that_is_described(
        parents in prop::collection::vec(any::<usize>(), 0..16), extra in prop::collection::vec(any::<(usize, usize)>(), 0..40),
        (leaves, spines) in (2u16..9, 1u16..5), is_fabric in any::<bool>(), id in 1u64..1000, root in any::<usize>(),
        targets in prop::collection::vec(any::<usize>(), 1..12), down in any::<u64>(),
    ) {
        let whole = network(if is_fabric { fabric(leaves, spines, 0) } else { random_graph(&parents, &extra) });
        let links = whole.spec.links.iter().enumerate();
        let broken = links.filter(|(i, _)| down >> (i % 64) & (down >> ((i + 29) % 64)) & 1 == 1).map(|(_, link)| link.a.clone());
        let n = whole.with_links(&broken.collect(), &[], &[]);
        let (root, targets) = (root % n.len(), targets.iter().map(|t| t % n.len()).collect::<Vec<_>>());
        let (distance, _) = n.sound_distances(root, |_| false);
        match Tree::build(&n, tree_id(id), root, targets.iter().copied()) {
            Ok(tree) => {
                let built = tree.nodes.iter().filter_map(|t| Some((t.node, tree.nodes[t.parent?.position].node)));
                prop_assert_eq!(built.collect::<BTreeSet<_>>(), described(&n, tree_id(id), root, &targets));
            }
            Err(node) => {
                let unreached = targets.iter().copied().filter(|t| distance[*t] == u32::MAX).min();
                prop_assert_eq!(Some(node), unreached);
            }
        }
    }
}
