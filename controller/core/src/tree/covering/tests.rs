// SPDX-License-Identifier: Apache-2.0

use proptest::prelude::*;

use super::*;
use crate::testing::{fabric, link, random_graph};
use crate::tree::tests::{network, tree_id};

#[test]
fn a_node_that_is_in_the_tree_anyway_is_preferred() {
    // n0 - n1 - n3 and n0 - n2 - n3; n1 is a receiver itself, so the parent of n3 must be n1 for every tree id.
    let mut spec = random_graph(&[0, 0, 1], &[]);
    spec.links.push(link("n3/x", "n2/x"));
    let n = network(spec);
    for id in 1..50 {
        let tree = Tree::covering(&n, tree_id(id), 0, [3, 1]).unwrap();
        assert_eq!(tree.nodes().map(|t| t.node).collect::<Vec<_>>(), [0, 1, 3]);
    }
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
        let tree = Tree::covering(&n, tree_id(id), 0, 4..=9).unwrap();
        assert!(tree.nodes().all(|t| t.node != 2), "n2 covers three by its first count, but only one that n1 leaves");
    }
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
    /// Catches a choice that is not the one of earlier versions: after an upgrade the tree of a running group would not be found.
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
        match Tree::covering(&n, tree_id(id), root, targets.iter().copied()) {
            Ok(tree) => {
                let built = tree.nodes().filter_map(|t| Some((t.node, tree.node(t.parent?.position).node)));
                prop_assert_eq!(built.collect::<BTreeSet<_>>(), described(&n, tree_id(id), root, &targets));
            }
            Err(node) => {
                let unreached = targets.iter().copied().filter(|t| distance[*t] == u32::MAX).min();
                prop_assert_eq!(Some(node), unreached);
            }
        }
    }
}
