// SPDX-License-Identifier: Apache-2.0
//! A late receiver that may have started where it is not any more, and whose start was not stored, is never started anew (decisions 3.13).

use canopy_model::member::LateStart;
use canopy_model::node_spec::Branch;
use canopy_model::topology::Endpoint;

use super::*;
use crate::domain::LateNews;
use crate::testing::fabric;

/// The branch of the receiver on `host`, and the node that has it; `None` while there is no tree.
fn branch(d: &Domain, group: &str, host: &str) -> Option<(String, Branch)> {
    let address = d.member(group, host)?.status.address;
    let id = d.group(group)?.status.group_id;
    d.all_nodes().into_iter().find_map(|n| {
        let spec = d.node_spec(&n.name)?;
        Some((n.name, spec.groups.get(&id)?.branches.iter().find(|b| b.address == address)?.clone()))
    })
}

/// Its node, and whether a node that does not know it takes it for lost.
fn at(d: &Domain, host: &str) -> (String, bool) {
    branch(d, "g", host).map(|(node, b)| (node, b.lost)).unwrap()
}

/// Three leaves; an open group with h2-1, and h2-2 that joined then.
fn with_late_receiver() -> World {
    let mut w = World::with(fabric(3, 2, 2));
    w.run(group("g")).unwrap();
    w.run(source("g", "h1-1")).unwrap();
    w.run(receiver("g", "h2-1")).unwrap();
    w.confirm_all();
    w.run(receiver("g", "h2-2")).unwrap();
    w
}

/// Connects h2-2 to another leaf.
fn connect(w: &mut World, leaf: &str) {
    let mut spec = fabric(3, 2, 2);
    let link = spec.links.iter_mut().find(|l| l.b.device == "h2-2").unwrap();
    link.a = Endpoint { device: leaf.to_owned(), port: "host9".to_owned() };
    w.run(topology(spec)).unwrap();
}

#[test]
fn a_late_receiver_whose_host_moves_before_its_start_is_stored_is_lost_also_where_it_was() {
    let mut w = with_late_receiver();
    assert_eq!(at(&w.domain, "h2-2"), ("leaf2".into(), false));
    // The last one is the headend.
    for leaf in ["leaf3", "leaf2", "leaf1"] {
        connect(&mut w, leaf);
        assert_eq!(at(&w.domain, "h2-2"), (leaf.into(), true));
        assert_eq!(at(&w.restarted(), "h2-2"), (leaf.into(), true), "after a restart of the controller");
        assert!(!branch(&w.domain, "g", "h2-1").unwrap().1.lost, "it is not late");
    }
    let (node, b) = branch(&w.domain, "g", "h2-2").unwrap();
    let id = w.domain.group("g").unwrap().status.group_id;
    let command = w.domain.late_receiver(&node, id, b.address, LateNews::Lost).unwrap();
    w.run(command).unwrap();
    let reason = w.domain.group("g").unwrap().status.evicted[0].reason.clone();
    assert!(reason.starts_with("receiver h2-2 moved to node leaf1") && reason.contains("then join"), "{reason}");
    w.run(receiver("g", "h2-2")).unwrap();
    assert_eq!(at(&w.domain, "h2-2"), ("leaf1".into(), false));
}

/// Catches a receiver that joins, and is lost, because a link of the tree is cut before its agent has taken in the join.
#[test]
fn a_late_receiver_whose_edge_stays_is_not_lost_when_its_tree_moves() {
    let mut w = with_late_receiver();
    let epoch = |w: &World| w.domain.group("g").unwrap().status.epoch;
    let before = epoch(&w);
    // One of them has the way to the leaf.
    for port in ["up2", "up1"] {
        w.run(ports_down("leaf2", &[port])).unwrap();
        assert_eq!(at(&w.domain, "h2-2"), ("leaf2".into(), false), "without {port}");
        assert_eq!(at(&w.restarted(), "h2-2"), ("leaf2".into(), false), "without {port}, after a restart");
        w.run(ports_down("leaf2", &[])).unwrap();
    }
    assert!(epoch(&w) > before + 1, "the tree moved at once");
    assert!(at(&w.restarted_by_a_version_without_trees(), "h2-2").1, "the records of a version that knew moves alone");
    // Its host is connected to another port of its leaf.
    let mut spec = fabric(3, 2, 2);
    spec.links.iter_mut().find(|l| l.b.device == "h2-2").unwrap().a.port = "host9".to_owned();
    w.run(topology(spec.clone())).unwrap();
    assert_eq!(at(&w.domain, "h2-2"), ("leaf2".into(), false), "at another port");
    // Its host has another address.
    let host = spec.hosts.iter_mut().find(|h| h.name == "h2-2").unwrap();
    host.address = (u128::from(host.address) + 8).into();
    let mut moved = World { domain: w.restarted(), records: w.records.clone() };
    moved.run(topology(spec)).unwrap();
    assert_eq!(at(&moved.domain, "h2-2"), ("leaf2".into(), true), "at another address");
    connect(&mut w, "leaf3");
    w.run(receiver("g", "h3-1")).unwrap();
    w.run(ports_down("leaf3", &["up1"])).unwrap();
    w.run(ports_down("leaf3", &["up2"])).unwrap();
    assert_eq!(at(&w.domain, "h2-2"), ("leaf3".into(), true));
    assert_eq!(at(&w.restarted(), "h2-2"), ("leaf3".into(), true));
    assert_eq!(at(&w.domain, "h3-1"), ("leaf3".into(), false));
    assert_eq!(at(&w.restarted(), "h3-1"), ("leaf3".into(), false));
}

/// Catches records of which a version that knows moves of trees alone wrote some, after which a receiver with another edge starts anew.
#[test]
fn where_another_version_wrote_the_records_a_tree_that_moved_counts_as_another_edge() {
    let mut w = with_late_receiver();
    w.run(ports_down("leaf2", &["up2"])).unwrap();
    w.run(ports_down("leaf2", &["up1"])).unwrap();
    assert!(!at(&w.restarted(), "h2-2").1);
    let mut links = w.records.clone();
    let Some(Record::Topology(record)) = links.get_mut("topology/default") else { panic!("no topology") };
    record.displaced = None;
    assert!(at(&restored(links).unwrap(), "h2-2").1, "the links");
    w.run(receiver("g", "h3-1")).unwrap();
    assert!(!at(&w.restarted(), "h2-2").1);
    let mut groups = w.records.clone();
    let Some(Record::Group(record)) = groups.get_mut("group/g") else { panic!("no group") };
    record.displaced = None;
    assert!(at(&restored(groups).unwrap(), "h2-2").1, "the group");
}

#[test]
fn a_late_receiver_whose_start_is_stored_moves() {
    let mut w = with_late_receiver();
    let (node, b) = branch(&w.domain, "g", "h2-2").unwrap();
    let id = w.domain.group("g").unwrap().status.group_id;
    let start = LateStart { shift: 77, msn_base: 5 };
    let command = w.domain.late_receiver(&node, id, b.address, LateNews::Started(start)).unwrap();
    w.run(command).unwrap();
    connect(&mut w, "leaf3");
    let (node, b) = branch(&w.domain, "g", "h2-2").unwrap();
    assert_eq!((node.as_str(), b.start, b.lost), ("leaf3", Some(start), false));
}

#[test]
fn a_late_receiver_of_a_group_that_has_no_tree_for_a_moment_is_lost() {
    let mut w = World::with(with_a_small_spine());
    let mut seen = 0;
    for name in (0..20).map(|i| format!("g{i}")) {
        w.run(group(&name)).unwrap();
        w.run(source(&name, "h1-1")).unwrap();
        if w.run(receiver(&name, "h3-1")).is_err() {
            // Its tree would lead over spine2.
            continue;
        }
        w.confirm_all();
        w.run(receiver(&name, "h2-1")).unwrap();
        assert!(!branch(&w.domain, &name, "h2-1").unwrap().1.lost);
        w.run(ports_down("leaf2", &["up1"])).unwrap();
        assert_eq!(branch(&w.domain, &name, "h2-1"), None);
        w.run(leave(&name, "h3-1")).unwrap();
        if seen % 2 == 1 {
            w.domain = w.restarted();
        }
        w.run(ports_down("leaf2", &[])).unwrap();
        assert!(branch(&w.domain, &name, "h2-1").unwrap().1.lost);
        w.run(receiver(&name, "h3-1")).unwrap();
        assert!(!branch(&w.domain, &name, "h3-1").unwrap().1.lost, "it joined then");
        seen += 1;
    }
    assert!(seen > 1);
}
