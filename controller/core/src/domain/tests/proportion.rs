// SPDX-License-Identifier: Apache-2.0
//! A change of a group re-programs the nodes that it concerns (decisions 3.15): how many those are, of a large tree.

use std::collections::BTreeSet;

use canopy_model::node_spec::BranchKind;

use super::*;
use crate::desired::ProgramTimes;
use crate::metadata::Metadata;
use crate::record::{MemberRecord, member_key};
use crate::testing::clos::{EDGES, HOSTS, PODS, clos};
use crate::testing::{fabric, link, node};

/// Every host but h0, spread over all pods and edges.
fn spread() -> impl Iterator<Item = String> {
    let all = PODS * EDGES * HOSTS;
    (1..all).map(move |n| format!("h{}", u32::from(n) * 1_237 % u32::from(all)))
}

/// A group from h0 to so many receivers, all in time, and no node has confirmed anything.
fn grown(receivers: usize) -> World {
    let mut w = World::with(clos());
    w.run(group("g")).unwrap();
    w.run(source("g", "h0")).unwrap();
    let hosts: Vec<String> = spread().take(receivers).collect();
    w.run(receiver("g", &hosts[0])).unwrap();
    let Some(Record::Member(first)) = w.records.get(&member_key("g", &hosts[0])).cloned() else { panic!("no member") };
    for host in &hosts[1..] {
        let spec = member(host, Role::Receiver, 0x22);
        let metadata = Metadata { name: host.clone(), ..first.metadata.clone() };
        let record = MemberRecord { metadata, spec, ..*first.clone() };
        w.records.insert(member_key("g", host), Record::Member(Box::new(record)));
    }
    w.records.values_mut().for_each(Record::forget_trees);
    w.domain = w.restarted();
    assert_eq!(w.domain.group("g").unwrap().status.receivers as usize, receivers);
    w
}

/// Nodes that each of 16 joins re-programs, of receivers that come one after the other.
fn joins(w: &mut World, first: usize) -> Vec<usize> {
    let hosts: Vec<String> = spread().skip(first).take(16).collect();
    hosts.iter().map(|host| w.run(receiver("g", host)).unwrap().nodes.len()).collect()
}

fn mean(counts: &[usize]) -> f64 {
    counts.iter().sum::<usize>() as f64 / counts.len() as f64
}

/// As one epoch of the whole tree had it, every join re-programmed all nodes of the tree, and a join behind a known edge too.
#[test]
fn a_join_reprograms_a_few_nodes_of_a_large_tree() {
    for (receivers, nodes) in [(64, 80..100), (1_024, 500..560)] {
        let mut w = grown(receivers);
        let tree = w.domain.group("g").unwrap().status.tree.len();
        let in_time = joins(&mut w, receivers);
        w.confirm_all();
        let late = joins(&mut w, receivers + 16);
        println!(
            "{receivers} receivers, a tree of {tree} nodes: a join before the group is open re-programs {:.1} nodes, a late one {:.1}; {in_time:?} {late:?}",
            mean(&in_time),
            mean(&late)
        );
        assert!(nodes.contains(&tree), "{tree} nodes");
        // Besides its edge, what is new of its way, and the headend with its list, an edge whose receivers no longer fit into that list.
        assert!(mean(&in_time) <= 4.0 && in_time.iter().all(|n| *n <= 5), "{receivers}: {in_time:?}");
        // The whole way.
        assert!(mean(&late) <= 6.0 && late.iter().all(|n| *n <= 7), "{receivers}: {late:?}");
    }
}

/// Programs of the group by node.
fn programs(w: &World) -> BTreeMap<String, canopy_model::node_spec::GroupProgram> {
    let state = &w.domain.state;
    let first = |at: usize| Some((state.nodes[at].spec.base.name.clone(), state.programs_at(at).next()?.1.make()));
    (0..state.nodes.len()).filter_map(first).collect()
}

/// Who joins in time behind an edge of the tree changes the edge, and the list of the headend; who leaves does too.
#[test]
fn a_receiver_behind_a_known_edge_changes_no_epoch_before_the_group_is_open() {
    let mut w = World::with(fabric(3, 1, 3));
    w.run(group("g")).unwrap();
    for command in [source("g", "h1-1"), receiver("g", "h2-1"), receiver("g", "h3-1")] {
        w.run(command).unwrap();
    }
    let epochs = |w: &World| programs(w).into_iter().map(|(node, p)| (node, p.epoch)).collect::<BTreeMap<_, _>>();
    let before = epochs(&w);
    assert_eq!(w.run(receiver("g", "h2-2")).unwrap().nodes, ["leaf1", "leaf2"]);
    assert_eq!(epochs(&w), before);
    w.confirm_all();
    assert_eq!(w.run(leave("g", "h2-1")).unwrap().nodes, ["leaf1", "leaf2"]);
    assert_eq!(epochs(&w), before);
    // Where a late receiver starts may be before what its edge has acknowledged, if the edge lost its state.
    assert_eq!(w.run(receiver("g", "h2-3")).unwrap().nodes, ["leaf1", "leaf2", "spine1"]);
    let epoch = w.domain.group("g").unwrap().status.epoch;
    let changed: Vec<_> = epochs(&w).into_iter().filter(|(_, of)| *of == epoch).map(|(node, _)| node).collect();
    assert_eq!(changed, ["leaf1", "leaf2", "spine1"]);
}

/// Records of a version that had one epoch per tree: every node's program stays as that version made it, until a change concerns it.
#[test]
fn a_tree_of_a_version_with_one_epoch_stays_as_it_is() {
    let mut w = World::with(fabric(3, 1, 2));
    w.run(group("g")).unwrap();
    for command in [source("g", "h1-1"), receiver("g", "h2-1"), receiver("g", "h3-1"), receiver("g", "h3-2")] {
        w.run(command).unwrap();
    }
    let Some(Record::Group(record)) = w.records.get_mut("group/g") else { panic!("no group") };
    record.forget_epochs();
    w.domain = w.restarted();
    let epoch = w.domain.group("g").unwrap().status.epoch;
    let old = programs(&w);
    assert_eq!(old.values().map(|p| p.epoch).collect::<BTreeSet<_>>(), BTreeSet::from([epoch]), "one per tree");
    let since = |w: &World| {
        let branches = programs(w)["spine1"].branches.clone();
        branches.iter().filter(|b| matches!(b.kind, BranchKind::Node { .. })).map(|b| b.since).collect::<Vec<_>>()
    };
    assert_eq!(since(&w), [epoch - 2, epoch], "of the last join behind each");
    w.run(receiver("g", "h2-2")).unwrap();
    let new = programs(&w);
    let same: Vec<&String> = old.keys().filter(|node| old[*node] == new[*node]).collect();
    assert_eq!(same, ["leaf3", "spine1"]);
    // What became durable is what a restart finds.
    w.domain = w.restarted();
    assert_eq!(programs(&w), new);
}

/// Nodes are the same by their names, wherever they stand in a topology.
#[test]
fn a_topology_with_its_nodes_in_another_order_changes_no_program() {
    let mut w = World::with(fabric(3, 2, 2));
    w.run(group("g")).unwrap();
    w.run(source("g", "h1-1")).unwrap();
    for host in ["h2-1", "h2-2", "h3-1"] {
        w.run(receiver("g", host)).unwrap();
    }
    w.confirm_all();
    let times = |w: &World| -> BTreeMap<String, ProgramTimes> {
        w.domain
            .node_names()
            .into_iter()
            .map(|node| (node.clone(), w.domain.desired(&node).unwrap().groups.clone()))
            .collect()
    };
    let (before, made) = (times(&w), programs(&w));
    let mut spec = fabric(3, 2, 2);
    spec.nodes.reverse();
    spec.nodes.insert(0, node("spine3", 0x103));
    spec.links.push(link("spine3/down9", "spine1/cross"));
    w.run(topology(spec)).unwrap();
    assert_eq!(programs(&w), made);
    let mut after = times(&w);
    assert_eq!(after.remove("spine3"), Some(ProgramTimes::default()));
    assert_eq!(after, before);
}
