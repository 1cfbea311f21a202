// SPDX-License-Identifier: Apache-2.0
//! Phases: the nodes' reports compared with the plan.

use std::collections::BTreeSet;

use canopy_model::ids::GroupId;
use canopy_model::node_spec::BranchKind;
use canopy_model::status::GroupPhase;

use super::*;
use crate::condition::{ConditionKind, ConditionStatus};
use crate::testing::fabric;
use crate::view::GroupStatus;

fn status(w: &World, group: &str) -> GroupStatus {
    w.domain.group(group).unwrap().status
}

fn condition(w: &World, kind: ConditionKind) -> (ConditionStatus, String) {
    let c = status(w, "g").conditions.into_iter().find(|c| c.kind == kind).unwrap();
    (c.status, c.message)
}

fn error(kind: ItemKind, name: &str, group: Option<GroupId>) -> ItemError {
    ItemError { kind, name: name.into(), group, detail: "is down: plug it in".into() }
}

/// Groups g (leaf1 to leaf2) and other (leaf1 to leaf1), every node confirmed.
fn ready() -> World {
    let mut w = World::with(fabric(3, 1, 3));
    for (name, from, to) in [("g", "h1-1", "h2-1"), ("other", "h1-2", "h1-3")] {
        w.run(group(name)).unwrap();
        w.run(source(name, from)).unwrap();
        w.run(receiver(name, to)).unwrap();
    }
    w.confirm_all();
    w
}

#[test]
fn a_group_goes_from_pending_over_programming_to_ready() {
    let mut w = World::with(fabric(2, 1, 1));
    w.run(group("g")).unwrap();
    assert_eq!(
        (status(&w, "g").phase, status(&w, "g").reason.as_str()),
        (GroupPhase::Pending, "waiting for a source to join")
    );
    w.run(source("g", "h1-1")).unwrap();
    assert_eq!(
        (status(&w, "g").phase, status(&w, "g").reason.as_str()),
        (GroupPhase::Pending, "waiting for receivers to join")
    );
    w.run(receiver("g", "h2-1")).unwrap();
    assert_eq!(status(&w, "g").phase, GroupPhase::Programming);
    assert!(
        status(&w, "g").reason.starts_with("agents on leaf1, spine1, leaf2 are not connected: start canopy-agent"),
        "{}",
        status(&w, "g").reason
    );
    for node in ["leaf1", "leaf2", "spine1"] {
        assert_eq!(w.domain.agent_connected(node), ["g"]);
        assert!(w.domain.agent_connected(node).is_empty(), "nothing changed");
    }
    assert_eq!(status(&w, "g").reason, "waiting for leaf1, spine1, leaf2 to confirm their programs");
    let generation = w.domain.node_spec("leaf1").unwrap().generation;
    // The previous generation does not carry the group.
    assert!(w.domain.report(reported("leaf1", generation - 1, vec![])).unwrap().is_empty());
    assert_eq!(w.domain.report(reported("leaf1", generation, vec![])).unwrap(), ["g"]);
    assert!(w.domain.report(reported("leaf1", generation, vec![])).unwrap().is_empty(), "the same again");
    w.domain.report(reported("leaf2", generation, vec![])).unwrap();
    assert_eq!(status(&w, "g").reason, "waiting for spine1 to confirm its program");
    w.domain.report(reported("spine1", generation, vec![])).unwrap();
    assert_eq!(status(&w, "g").reason, "every node confirmed; the headend is about to take data");
    w.run(Command::OpenGroup { group: "g".into() }).unwrap();
    assert_eq!(status(&w, "g").reason, "waiting for leaf1 to confirm its program");
    let generation = w.domain.node_spec("leaf1").unwrap().generation;
    w.domain.report(reported("leaf1", generation, vec![])).unwrap();
    assert_eq!((status(&w, "g").phase, status(&w, "g").reason.as_str()), (GroupPhase::Ready, ""));
    assert!(status(&w, "g").conditions.iter().all(
        |c| (c.status == ConditionStatus::True) != matches!(c.kind, ConditionKind::Stalled | ConditionKind::Lossy)
    ));
    // One more membership change: the new epoch is not confirmed.
    w.run(leave("g", "h2-1")).unwrap();
    assert_eq!(status(&w, "g").phase, GroupPhase::Pending);
}

#[test]
fn anothers_change_at_a_shared_node_does_not_unready_a_group() {
    let mut w = ready();
    w.run(leave("other", "h1-3")).unwrap();
    w.run(receiver("other", "h1-3")).unwrap();
    assert_eq!(status(&w, "g").phase, GroupPhase::Ready);
    assert_eq!(status(&w, "other").phase, GroupPhase::Programming);
    let p = &status(&w, "g").nodes[0];
    assert!(
        p.desired_generation <= p.observed_generation.unwrap()
            && p.observed_generation.unwrap() < w.domain.node_spec("leaf1").unwrap().generation
    );
}

#[test]
fn a_new_host_elsewhere_does_not_unready_a_group() {
    let mut w = ready();
    let mut spec = Arc::unwrap_or_clone(w.domain.topology().unwrap().spec);
    spec.hosts.push(crate::testing::host("new", 0xFFF));
    spec.links.push(crate::testing::link("leaf3/new", "new/eth0"));
    assert_eq!(w.run(topology(spec)).unwrap().nodes, ["leaf1", "leaf2", "leaf3", "spine1"], "every node gets a route");
    assert_eq!((status(&w, "g").phase, status(&w, "other").phase), (GroupPhase::Ready, GroupPhase::Ready));
    assert_eq!(w.domain.topology().unwrap().status.synced_nodes, 0);
}

#[test]
fn an_error_degrades_exactly_the_groups_it_concerns() {
    let mut w = ready();
    let generation = w.domain.node_spec("leaf1").unwrap().generation;
    let (g, other) = (status(&w, "g").group_id, status(&w, "other").group_id);
    let cases = [
        (error(ItemKind::Port, "up1", None), vec!["g"]),
        (error(ItemKind::Port, "host1", None), vec!["g"]),
        (error(ItemKind::Port, "host3", None), vec!["other"]),
        (error(ItemKind::Port, "nothing", None), vec![]),
        (error(ItemKind::Route, "::/0", None), vec!["g", "other"]),
        (error(ItemKind::Program, "xdp", None), vec!["g", "other"]),
        (error(ItemKind::Neighbour, "fe80::1", None), vec!["g", "other"]),
        (error(ItemKind::Group, "g", Some(g)), vec!["g"]),
        (error(ItemKind::Group, "other", Some(other)), vec!["other"]),
    ];
    for (e, concerned) in cases {
        assert_eq!(w.domain.report(reported("leaf1", generation, vec![e.clone()])).unwrap(), concerned, "{e:?}");
        for name in ["g", "other"] {
            let expected = if concerned.contains(&name) { GroupPhase::Degraded } else { GroupPhase::Ready };
            assert_eq!(status(&w, name).phase, expected, "{name} with {e:?}");
        }
        if concerned == ["g"] {
            assert_eq!(status(&w, "g").reason, format!("node leaf1: {} {}: is down: plug it in", e.kind, e.name));
        }
        // The groups recover when the error is gone.
        assert_eq!(w.domain.report(reported("leaf1", generation, vec![])).unwrap(), concerned);
        assert_eq!(status(&w, "g").phase, GroupPhase::Ready);
    }
}

#[test]
fn an_agent_that_goes_away_after_confirming_leaves_the_group_ready() {
    let mut w = ready();
    assert_eq!(w.domain.agent_gone("spine1", instant(0)), ["g"]);
    assert_eq!(status(&w, "g").phase, GroupPhase::Ready);
    let (connected, message) = condition(&w, ConditionKind::AgentsConnected);
    assert_eq!(connected, ConditionStatus::False);
    assert!(message.contains("from spine1:"), "{message}");
    assert!(w.domain.agent_gone("leaf3", instant(0)).is_empty(), "no group runs over leaf3");
    w.run(receiver("g", "h2-2")).unwrap();
    assert_eq!(status(&w, "g").phase, GroupPhase::Programming);
    assert!(status(&w, "g").reason.starts_with("agent on spine1 is not connected"), "{}", status(&w, "g").reason);
}

#[test]
fn a_report_from_another_life_of_the_store_confirms_nothing() {
    let mut w = ready();
    let generation = w.domain.node_spec("leaf2").unwrap().generation;
    // Equal numbers of another term, and a generation that this term has not reached.
    let other_term = NodeStatus { observed_term: TERM + 1, ..reported("leaf2", generation, vec![]) };
    for foreign in [other_term, reported("leaf2", generation + 1_000_000, vec![])] {
        assert_eq!(w.domain.report(foreign).unwrap(), ["g"]);
        assert_eq!(status(&w, "g").phase, GroupPhase::Programming);
        assert_eq!(status(&w, "g").reason, "waiting for leaf2 to confirm its program");
        let synced = &w.domain.node("leaf2").unwrap().status.conditions[1];
        assert_eq!((synced.kind, synced.holds()), (ConditionKind::Synced, false));
        assert_eq!(w.domain.report(reported("leaf2", generation, vec![])).unwrap(), ["g"]);
        assert_eq!(status(&w, "g").phase, GroupPhase::Ready);
    }
}

#[test]
fn after_a_restart_nodes_confirm_anew_and_the_group_is_ready() {
    let mut w = ready();
    let before = status(&w, "g");
    w.domain = w.restarted();
    assert_eq!(status(&w, "g").phase, GroupPhase::Programming);
    w.confirm_all();
    let after = status(&w, "g");
    assert_eq!((after.phase, after.epoch, after.tree), (GroupPhase::Ready, before.epoch, before.tree));
}

#[test]
fn a_departure_from_a_group_that_is_infeasible_is_allowed_and_reported() {
    let mut w = World::with(with_a_small_spine());
    let mut seen = false;
    for i in 0..20 {
        let name = format!("g{i}");
        w.run(group(&name)).unwrap();
        w.run(source(&name, "h1-1")).unwrap();
        if w.run(receiver(&name, "h3-1")).is_err() {
            // Its tree would lead over spine2.
            continue;
        }
        w.run(receiver(&name, "h2-1")).unwrap();
        w.run(ports_down("leaf2", &["up1"])).unwrap();
        w.run(leave(&name, "h3-1")).unwrap();
        let s = status(&w, &name);
        assert_eq!(s.phase, GroupPhase::Degraded);
        assert!(s.reason.contains("has MTU 1500") && s.tree.is_empty(), "{}", s.reason);
        assert!(w.domain.state.nodes.iter().all(|n| !n.spec.groups.contains(&s.group_id)));
        assert_eq!(w.restarted().group(&name).unwrap().status.reason, s.reason);
        // The group recovers. A node that was slow may still run the program from before: what a child of it acknowledged then
        // does not cover who is behind that child now.
        w.run(ports_down("leaf2", &[])).unwrap();
        let back = status(&w, &name);
        assert_eq!((back.phase, back.epoch), (GroupPhase::Programming, s.epoch + 1));
        assert_eq!(since_of_children(&w, &name), BTreeSet::from([back.epoch]));
        assert_eq!(w.restarted().group(&name).unwrap().status.epoch, back.epoch);
        seen = true;
    }
    assert!(seen);
}

/// Epochs from which the feedback of child nodes counts.
fn since_of_children(w: &World, name: &str) -> BTreeSet<u32> {
    let id = status(w, name).group_id;
    let state = &w.domain.state;
    let programs = (0..state.nodes.len()).filter_map(|at| state.program_of(id, at)).map(|program| program.make());
    let children = programs.flat_map(|p| p.branches).filter(|b| matches!(b.kind, BranchKind::Node { .. }));
    children.map(|b| b.since).collect()
}

#[test]
fn nodes_and_topology_show_their_conditions() {
    let mut w = ready();
    let t = w.domain.topology().unwrap().status;
    assert_eq!((t.nodes, t.connected_nodes, t.synced_nodes, t.hosts, t.links), (4, 4, 4, 9, 12));
    assert_eq!(t.conditions[0].status, ConditionStatus::True);
    w.domain.agent_gone("leaf3", instant(0));
    w.domain.report(reported("leaf1", 1, vec![error(ItemKind::Port, "up1", None)])).unwrap();
    assert_eq!(w.domain.topology().unwrap().status.synced_nodes, 3);
    let leaf1 = w.domain.node("leaf1").unwrap();
    assert_eq!((leaf1.spec.groups, leaf1.spec.ports.len(), leaf1.status.observed_generation), (2, 4, Some(1)));
    let holds = |n: &crate::view::NodeView| {
        n.status.conditions.iter().map(|c| c.status == ConditionStatus::True).collect::<Vec<_>>()
    };
    assert_eq!(holds(&leaf1), [true, false, false]);
    assert_eq!(holds(&w.domain.node("leaf3").unwrap()), [false, true, true]);
    assert_eq!(
        w.domain.all_nodes().iter().map(|n| n.name.clone()).collect::<Vec<_>>(),
        ["leaf1", "leaf2", "leaf3", "spine1"]
    );
    let m = w.domain.member("g", "h2-1").unwrap();
    assert_eq!(
        (m.status.node.as_str(), m.status.port.as_str(), m.status.address.to_string().as_str()),
        ("leaf2", "host1", "2001:db8:201::1")
    );
    assert_eq!(w.domain.members("g").unwrap().len(), 2);
    assert!(w.domain.members("x").is_none() && w.domain.member("g", "h3-1").is_none() && w.domain.node("x").is_none());
}
