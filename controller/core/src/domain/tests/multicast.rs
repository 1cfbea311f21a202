// SPDX-License-Identifier: Apache-2.0
//! Groups whose nodes replicate by IP multicast.

use canopy_model::group::{Replication, StallPolicy};
use canopy_model::node_spec::{BranchKind, Multicast};
use canopy_model::topology::TopologySpec;

use super::*;
use crate::testing::{fabric, host, link, node};

fn multicast(name: &str) -> Command {
    group_with(name, GroupSpec { replication: Replication::Multicast, ..GroupSpec::default() })
}

fn world() -> World {
    let mut w = World::with(fabric(3, 1, 2));
    w.run(multicast("g")).unwrap();
    w.run(source("g", "h1-1")).unwrap();
    for h in ["h1-2", "h2-1", "h3-1"] {
        w.run(receiver("g", h)).unwrap();
    }
    w
}

#[test]
fn one_address_names_the_group_at_every_node() {
    let w = world();
    let flow = Multicast { source: "fcff:0:0:1::1".parse().unwrap(), group: "ff3e::8000:1".parse().unwrap() };
    let program = |n: &str| w.domain.node_spec(n).unwrap().groups.values().next().cloned().unwrap();
    for n in ["leaf1", "spine1", "leaf2", "leaf3"] {
        let p = program(n);
        assert_eq!((p.multicast, p.replication_sid), (Some(flow), None), "{n}");
        for b in &p.branches {
            assert!(!matches!(b.kind, BranchKind::Node { sid } if sid != flow.group), "{n}: {b:?}");
        }
    }
    let root = program("leaf1");
    assert_eq!(root.headend.as_ref().unwrap().segments, [root.proxy, flow.group]);
    let route = root.multicast_route().unwrap();
    assert_eq!(
        (route.input, route.outputs.len()),
        (root.headend.unwrap().source_port, 1),
        "h1-2 is not an output of the kernel's route"
    );
    let spine = program("spine1");
    let route = spine.multicast_route().unwrap();
    assert_eq!((route.input, route.outputs.len()), (spine.upstream.port, 2));
    assert_eq!(program("leaf2").multicast_route(), None, "a node with receivers only needs no route");
    let view = w.domain.group("g").unwrap();
    assert!(view.status.tree.iter().all(|t| t.sid == flow.group));
    assert_eq!(w.restarted().group("g").unwrap().status.tree, view.status.tree);
}

#[test]
fn no_receiver_joins_an_open_group_until_there_is_another_source() {
    let mut w = world();
    w.confirm_all();
    assert_eq!(
        w.problem(receiver("g", "h2-2")),
        "InUse: group \"g\" is in use: it replicates by IP multicast and takes data: let all receivers join first (spec.minReceivers), or use replication srv6 for groups that grow"
    );
    // Nor a member with a new QP: its PSNs would start in the middle.
    let other = Command::PutMember {
        group: "g".into(),
        spec: member("h2-1", Role::Receiver, 0x99),
        create_only: false,
        instance: None,
        lease: None,
    };
    assert!(w.problem(other).contains("takes data"));
    w.run(leave("g", "h2-1")).unwrap();
    w.run(leave("g", "h1-1")).unwrap();
    w.run(receiver("g", "h2-2")).unwrap();
    w.run(source("g", "h1-1")).unwrap();
    w.run(receiver("g", "h2-1")).unwrap();
}

#[test]
fn the_mode_changes_only_while_the_group_has_no_members() {
    let mut w = world();
    assert!(w.problem(group("g")).starts_with("Invalid: spec.replication: cannot change while the group has members"));
    let spec =
        GroupSpec { replication: Replication::Multicast, stall_policy: StallPolicy::Evict, ..GroupSpec::default() };
    w.run(group_with("g", spec)).unwrap();
    for h in ["h1-1", "h1-2", "h2-1", "h3-1"] {
        w.run(leave("g", h)).unwrap();
    }
    w.run(group("g")).unwrap();
}

/// n1 with the source, and `leaves` nodes around it with a host each.
fn star(leaves: u16) -> TopologySpec {
    let mut t = TopologySpec { nodes: vec![node("n1", 1)], ..TopologySpec::default() };
    t.hosts.push(host("s", 0x100));
    t.links.push(link("n1/up", "s/eth0"));
    for i in 1..=leaves {
        t.nodes.push(node(&format!("e{i}"), 1 + u64::from(i)));
        t.hosts.push(host(&format!("r{i}"), i));
        t.links.push(link(&format!("n1/d{i}"), &format!("e{i}/u")));
        t.links.push(link(&format!("e{i}/d"), &format!("r{i}/eth0")));
    }
    t
}

#[test]
fn a_node_has_thirty_two_multicast_interfaces_for_all_groups() {
    let mut w = World::with(star(40));
    for (name, receivers) in [("a", 1..=16), ("b", 16..=31)] {
        w.run(multicast(name)).unwrap();
        w.run(source(name, "s")).unwrap();
        receivers.for_each(|i| drop(w.run(receiver(name, &format!("r{i}"))).unwrap()));
    }
    // The 31 ports and the source's are in use: one more is refused, for either group, while a port already in use is
    // accepted.
    let wanted =
        "Limit: node n1 would need 33 ports for IP multicast with group a, and Linux has 32 multicast interfaces";
    assert!(w.problem(receiver("a", "r32")).starts_with(wanted), "{}", w.problem(receiver("a", "r32")));
    assert!(w.problem(receiver("b", "r32")).contains("node n1 would need 33 ports for IP multicast with group b"));
    w.run(receiver("a", "r20")).unwrap();
    w.run(group("c")).unwrap();
    w.run(source("c", "s")).unwrap();
    w.run(receiver("c", "r33")).unwrap();
    w.run(leave("b", "r31")).unwrap();
    w.run(receiver("a", "r32")).unwrap();
}

#[test]
fn a_topology_that_needs_too_many_multicast_interfaces_is_refused() {
    // The same receivers behind a middle node; without it, n1 needs a port for each of them.
    let mut behind = star(40);
    behind.nodes.push(node("m", 0x200));
    behind.links.push(link("n1/m", "m/up"));
    for l in behind.links.iter_mut().filter(|l| l.a.device == "n1" && l.b.device.starts_with('e')).skip(20) {
        l.a.device = "m".into();
    }
    let mut w = World::with(behind);
    w.run(multicast("g")).unwrap();
    w.run(source("g", "s")).unwrap();
    (1..=40).for_each(|i| drop(w.run(receiver("g", &format!("r{i}"))).unwrap()));
    assert!(
        w.problem(topology(star(40))).starts_with("Limit: node n1 would need 41 ports for IP multicast with group g")
    );
}
