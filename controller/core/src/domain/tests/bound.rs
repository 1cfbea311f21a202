// SPDX-License-Identifier: Apache-2.0
//! However many changes a group has had, living children are never taken for old ones, nor old ones for living ones.

use canopy_model::node_spec::BranchKind;

use super::*;
use crate::testing::fabric;

/// Three leaves and a spine: the source behind leaf1, a receiver that stays behind leaf3.
fn world() -> World {
    let mut w = World::with(fabric(3, 1, 2));
    w.run(group("g")).unwrap();
    w.run(source("g", "h1-1")).unwrap();
    w.run(receiver("g", "h3-1")).unwrap();
    w.run(receiver("g", "h2-1")).unwrap();
    w.confirm_all();
    w
}

fn epoch(w: &World) -> u32 {
    w.domain.group("g").unwrap().status.epoch
}

/// The most epochs that a child's branch is behind, over all nodes.
fn most_behind(w: &World) -> u32 {
    let state = &w.domain.state;
    let programs: Vec<_> = (0..state.nodes.len()).flat_map(|at| state.programs_at(at)).map(|(_, p)| p.make()).collect();
    let behind = programs.iter().flat_map(|p| p.branches.iter().map(move |b| (p.epoch - b.since, &b.kind)));
    behind.filter(|(_, kind)| matches!(kind, BranchKind::Node { .. })).map(|(behind, _)| behind).max().unwrap()
}

/// Every node but this one confirms its spec.
fn confirm_without(w: &mut World, node: &str) {
    for n in w.domain.all_nodes().into_iter().filter(|n| n.name != node) {
        w.domain.agent_connected(&n.name);
        let report = reported(&n.name, n.spec.generation, vec![]);
        w.domain.report(NodeStatus { observed_term: w.domain.term(), ..report }).unwrap();
    }
}

#[test]
fn a_subtree_without_changes_is_counted_after_20000_changes_elsewhere() {
    let mut w = world();
    let mut most = 0;
    for n in 0..10_000 {
        w.run(receiver("g", "h2-2")).unwrap();
        w.run(leave("g", "h2-2")).unwrap();
        most = most.max(most_behind(&w));
        if n % 500 == 0 {
            w.confirm();
        }
    }
    assert!(epoch(&w) > 20_000 && (2_000..=4_096).contains(&most), "{most}");
}

#[test]
fn changes_wait_for_a_node_that_is_4096_epochs_behind_and_departures_do_not() {
    let mut w = world();
    for h in ["h1-2", "h3-2"] {
        w.run(receiver("g", h)).unwrap();
    }
    w.confirm();
    let first = epoch(&w);
    let refused = loop {
        if let Err(e) = w.run(receiver("g", "h2-2")) {
            break e.to_string();
        }
        w.run(leave("g", "h2-2")).unwrap();
        confirm_without(&mut w, "spine1");
        assert!(epoch(&w) - first <= 4_096);
    };
    assert!(refused.contains("node spine1 has not confirmed its program since epoch"), "{refused}");
    let last = epoch(&w);
    assert!(last - first > 4_090, "{last}");
    let edit = group_with(
        "g",
        GroupSpec { encoding: canopy_model::group::EncodingChoice::Provisioned, ..GroupSpec::default() },
    );
    let e = w.problem(edit.clone());
    assert!(e.starts_with("InUse") && e.contains("spine1"), "{e}");
    // No receiver waits for a node when it leaves.
    w.run(leave("g", "h1-2")).unwrap();
    let since = w.domain.state.groups.get("g").unwrap().members.get("h3-2").unwrap().since;
    w.run(Command::EvictMember { group: "g".into(), host: "h3-2".into(), since, reason: "failed".into() }).unwrap();
    assert_eq!(epoch(&w), last);
    w.domain = w.restarted();
    assert_eq!(epoch(&w), last);
    let e = w.problem(receiver("g", "h2-2"));
    assert!(e.contains("spine1") || e.contains("leaf"), "{e}");
    w.confirm();
    w.run(receiver("g", "h2-2")).unwrap();
    w.run(edit).unwrap();
    w.run(leave("g", "h3-1")).unwrap();
    w.run(leave("g", "h2-2")).unwrap();
    w.run(leave("g", "h2-1")).unwrap();
}

#[test]
fn before_a_group_is_open_no_change_waits() {
    let mut w = World::with(fabric(2, 1, 2));
    w.run(group("g")).unwrap();
    w.run(source("g", "h1-1")).unwrap();
    w.run(receiver("g", "h2-1")).unwrap();
    for _ in 0..2_100 {
        w.run(receiver("g", "h2-2")).unwrap();
        w.run(leave("g", "h2-2")).unwrap();
    }
    w.confirm_all();
    w.run(receiver("g", "h2-2")).unwrap();
}

#[test]
fn a_node_that_may_run_a_program_of_long_ago_gets_no_branch_before_it_has_reported() {
    // leaf2's program of the group is not taken away: its agent is gone when its receiver leaves.
    let mut w = world();
    w.run(leave("g", "h2-1")).unwrap();
    confirm_without(&mut w, "leaf2");
    for _ in 0..5 {
        w.age("g", 4_000);
        confirm_without(&mut w, "leaf2");
        w.run(receiver("g", "h1-2")).unwrap();
        w.run(leave("g", "h1-2")).unwrap();
        confirm_without(&mut w, "leaf2");
    }
    let e = w.problem(receiver("g", "h2-2"));
    assert!(e.contains("node leaf2 has not confirmed"), "{e}");
    w.confirm();
    w.run(receiver("g", "h2-2")).unwrap();
}

#[test]
fn a_broken_link_moves_a_tree_with_a_node_that_is_behind_until_programs_could_be_mistaken() {
    let mut w = World::with(fabric(2, 2, 1));
    w.run(group("g")).unwrap();
    w.run(source("g", "h1-1")).unwrap();
    w.run(receiver("g", "h2-1")).unwrap();
    w.confirm_all();
    let all = |w: &World| w.domain.group("g").unwrap().status;
    let down = |w: &mut World, up: bool| {
        let used = all(w).tree.iter().find(|t| t.node.starts_with("spine")).map(|t| format!("up{}", &t.node[5..]));
        let ports = used.filter(|_| !up).into_iter().collect();
        w.run(Command::PortsDown { node: "leaf1".into(), ports }).unwrap();
    };
    w.age("g", 4_096);
    down(&mut w, false);
    assert!(!all(&w).tree.is_empty());
    w.age("g", 8_189);
    w.run(leave("g", "h2-1")).unwrap();
    let e = w.problem(receiver("g", "h2-1"));
    assert!(e.contains("has not confirmed"), "{e}");
    w.confirm();
    w.run(receiver("g", "h2-1")).unwrap();
}
