// SPDX-License-Identifier: Apache-2.0

use std::collections::BTreeSet;

use canopy_model::ids::{GroupId, Psn};
use canopy_model::member::MemoryRegion;

use super::*;
use crate::NodePrograms;
use crate::Outcome;
use crate::desired::ProgramTimes;
use crate::domain::GroupFilter;
use crate::selector::Selector;
use crate::testing::{fabric, link, node};
use crate::view::TreeRole;

#[test]
fn two_hundred_lives_of_a_group_leave_nothing_and_repeat_no_number() {
    let mut w = World::with(fabric(3, 2, 2));
    let kept: Vec<String> = w.records.keys().cloned().collect();
    let (mut qpns, mut trees, mut proxies) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for _ in 0..200 {
        w.run(group("g")).unwrap();
        w.run(source("g", "h1-1")).unwrap();
        w.run(receiver("g", "h2-1")).unwrap();
        w.run(receiver("g", "h3-2")).unwrap();
        let status = w.domain.group("g").unwrap().status;
        assert!(
            qpns.insert(status.connection.designated_qpn)
                && trees.insert(status.tree_id)
                && proxies.insert(status.connection.proxy_address)
        );
        assert!(w.domain.node_spec("leaf1").unwrap().groups.contains_key(&status.group_id));
        w.run(Command::DeleteGroup { name: "g".into() }).unwrap();
        assert_eq!(w.domain.group_name(status.group_id), None);
    }
    assert_eq!(w.records.keys().cloned().collect::<Vec<_>>(), kept);
    assert_eq!(w.domain.state.pools.in_use(), [0; 4]);
    assert!(w.domain.state.groups.is_empty());
    for n in &w.domain.state.nodes {
        assert_eq!(n.spec.groups, ProgramTimes::default());
    }
    // A restart does not reuse a freed number at once either.
    let mut again = World { domain: w.restarted(), records: w.records };
    again.run(group("g")).unwrap();
    assert!(qpns.insert(again.domain.connection("g").unwrap().designated_qpn));
}

#[test]
fn the_programs_are_those_of_the_drafts_figure() {
    // S1 - N6 - N4, N5; N4 - N1, N2; N5 - N3. Receivers behind N1 (2), N2 and N3; the root is the source's node.
    let mut t = TopologySpec { nodes: (1..=6).map(|i| node(&format!("n{i}"), i)).collect(), ..Default::default() };
    for (i, (a, b)) in [("n6", "n4"), ("n6", "n5"), ("n4", "n1"), ("n4", "n2"), ("n5", "n3")].into_iter().enumerate() {
        t.links.push(link(&format!("{a}/d{i}"), &format!("{b}/u{i}")));
    }
    for (i, (host, at)) in
        [("s1", "n6"), ("r1", "n1"), ("r2", "n1"), ("r3", "n2"), ("r4", "n3")].into_iter().enumerate()
    {
        t.hosts.push(crate::testing::host(host, i as u16 + 1));
        t.links.push(link(&format!("{at}/h{i}"), &format!("{host}/eth0")));
    }
    let mut w = World::with(t);
    w.run(group("g")).unwrap();
    w.run(source("g", "s1")).unwrap();
    for r in ["r1", "r2", "r3", "r4"] {
        w.run(receiver("g", r)).unwrap();
    }
    let program = |name: &str| w.domain.node_spec(name).unwrap().groups.values().next().cloned().unwrap();
    let ip = |s: &str| s.parse::<std::net::Ipv6Addr>().unwrap();
    let status = w.domain.group("g").unwrap().status;
    let (proxy, t) = (status.connection.proxy_address, status.tree_id.get());
    assert_eq!(proxy.segments()[..4], [0xfcfe, 0, 0, 0]);
    let sid = |node: u16| format!("5f00:0:{node}:f002:{:x}:{:x}::", t >> 16, t & 0xFFFF);

    let root = program("n6");
    assert_eq!(root.headend.as_ref().unwrap().segments, [proxy, ip(&sid(6))]);
    let tlvs: Vec<(String, usize)> =
        root.headend.as_ref().unwrap().tlvs.iter().map(|t| (t.edge.to_string(), t.receivers.len())).collect();
    assert_eq!(
        tlvs,
        [("fcff:0:0:1::1".to_owned(), 2), ("fcff:0:0:2::1".to_owned(), 1), ("fcff:0:0:3::1".to_owned(), 1)]
    );
    assert_eq!(
        (root.upstream.source_address, root.upstream.destination, root.upstream.next_hop),
        (proxy, ip("2001:db8:1::1"), ip("2001:db8:1::1"))
    );
    assert_eq!(root.upstream.dest_qp.get(), 0x11);
    let sids = |p: &canopy_model::node_spec::GroupProgram| {
        p.branches
            .iter()
            .map(|b| match b.kind {
                canopy_model::node_spec::BranchKind::Node { sid } => sid.to_string(),
                canopy_model::node_spec::BranchKind::Receiver { .. } => b.address.to_string(),
            })
            .collect::<Vec<_>>()
    };
    // n4 and n5 replicate; n1, n2 and n3 only run End.MT.
    assert_eq!(sids(&root), [ip(&sid(4)).to_string(), ip(&sid(5)).to_string()]);
    assert_eq!(sids(&program("n4")), ["5f00:0:1:f001::", "5f00:0:2:f001::"]);
    assert_eq!(sids(&program("n1")), ["2001:db8:2::1", "2001:db8:3::1"]);
    let (n4, n1) = (program("n4"), program("n1"));
    assert_eq!(n1.replication_sid, None);
    assert_eq!((n4.upstream.source_address, n4.upstream.destination), (ip("fcff:0:0:4::1"), ip("fcff:0:0:6::1")));
    assert_eq!(n4.upstream.dest_qp, n4.designated_qpn);
    assert_eq!(n4.upstream.next_hop, ip("fe80::6:1"), "n6's first port");
    assert_eq!(n1.write_rkey >> 8, n1.designated_qpn.get());
}

#[test]
fn a_transit_node_with_receivers_is_addressed_by_its_replication_sid() {
    let mut t = crate::testing::random_graph(&[0, 1], &[]);
    for (i, (host, at)) in [("s", "n0"), ("a", "n1"), ("b", "n2")].into_iter().enumerate() {
        t.hosts.push(crate::testing::host(host, i as u16 + 1));
        t.links.push(link(&format!("{at}/h{i}"), &format!("{host}/eth0")));
    }
    let mut w = World::with(t);
    w.run(group("g")).unwrap();
    w.run(source("g", "s")).unwrap();
    w.run(receiver("g", "a")).unwrap();
    let before = w.domain.group("g").unwrap();
    assert_eq!(before.status.tree[1].sid, "5f00:0:2:f001::".parse::<std::net::Ipv6Addr>().unwrap());
    w.run(receiver("g", "b")).unwrap();
    let after = w.domain.group("g").unwrap();
    let t = after.status.tree_id.get();
    let sid = format!("5f00:0:2:f002:{:x}:{:x}::", t >> 16, t & 0xFFFF);
    assert_eq!(after.status.tree[1].sid, sid.parse::<std::net::Ipv6Addr>().unwrap());
    assert_eq!(after.status.tree[1].roles, [TreeRole::Transit, TreeRole::Edge]);
}

#[test]
fn joining_again_is_a_success_only_with_the_same_content() {
    let mut w = World::with(fabric(2, 1, 1));
    w.run(group("g")).unwrap();
    assert_eq!(w.run(receiver("g", "h1-1")).unwrap().outcome, Outcome::Created);
    let (revision, records) = (w.domain.revision(), w.records.clone());
    let again = w.run(receiver("g", "h1-1")).unwrap();
    assert_eq!((again.outcome, again.nodes.len()), (Outcome::Unchanged, 0));
    assert_eq!((w.domain.revision(), &w.records), (revision, &records));
    let other = member("h1-1", Role::Receiver, 0x99);
    assert!(
        w.problem(join_with("g", other.clone()))
            .starts_with("AlreadyExists: member \"g/h1-1\" exists already: it joined as receiver with QPN 34")
    );
    let put = Command::PutMember { group: "g".into(), spec: other, create_only: false, instance: None, lease: None };
    assert_eq!(
        w.run(put).unwrap(),
        Applied { outcome: Outcome::Updated, generation: 2, nodes: vec![], groups: vec!["g".into()] }
    );
}

#[test]
fn only_nodes_of_the_tree_get_a_change() {
    let mut w = World::with(fabric(4, 1, 1));
    w.run(group("g")).unwrap();
    assert_eq!(w.run(source("g", "h1-1")).unwrap().nodes, [""; 0]);
    assert_eq!(w.run(receiver("g", "h2-1")).unwrap().nodes, ["leaf1", "leaf2", "spine1"]);
    let leaf4 = w.domain.node_spec("leaf4").unwrap().generation;
    assert_eq!(w.run(receiver("g", "h3-1")).unwrap().nodes, ["leaf1", "leaf3", "spine1"]);
    assert_eq!(w.run(leave("g", "h2-1")).unwrap().nodes, ["leaf1", "leaf2", "spine1"]);
    assert!(w.domain.node_spec("leaf2").unwrap().groups.is_empty());
    assert_eq!(w.domain.node_spec("leaf4").unwrap().generation, leaf4);
    // A change of labels does not change any node's spec.
    let spec = GroupSpec::default();
    let labels = Labels::from([("a".to_owned(), "b".to_owned())]);
    let put = Command::PutGroup { tenant: None, name: "g".into(), labels, spec, if_match: Some(1), create_only: false };
    assert_eq!(
        w.run(put).unwrap(),
        Applied { outcome: Outcome::Updated, generation: 2, nodes: vec![], groups: vec!["g".into()] }
    );
    // But for the one that agents have to know, and that needs no epoch.
    let epoch = |w: &World| w.domain.group("g").unwrap().status.epoch;
    let before = epoch(&w);
    let labels = Labels::from([("canopy/metrics".to_owned(), "branches".to_owned())]);
    let put = |labels, generation| Command::PutGroup {
        tenant: None,
        name: "g".into(),
        labels,
        spec: GroupSpec::default(),
        if_match: Some(generation),
        create_only: false,
    };
    assert_eq!(w.run(put(labels, 2)).unwrap().nodes, ["leaf1", "leaf3", "spine1"]);
    let is_set = |w: &World| w.domain.node_spec("spine1").unwrap().groups.values().all(|g| g.branch_metrics);
    assert!(is_set(&w) && epoch(&w) == before);
    let labels = Labels::from([("canopy/metrics".to_owned(), "none".to_owned())]);
    assert_eq!(w.run(put(labels, 3)).unwrap().nodes, ["leaf1", "leaf3", "spine1"]);
    assert!(!is_set(&w) && epoch(&w) == before);
    assert_eq!(w.run(leave("g", "h3-1")).unwrap().nodes, ["leaf1", "leaf3", "spine1"]);
}

#[test]
fn programs_that_wait_to_be_sent_are_not_changed_underneath() {
    let mut w = World::with(fabric(2, 1, 2));
    w.run(group("g")).unwrap();
    w.run(source("g", "h1-1")).unwrap();
    w.run(receiver("g", "h2-1")).unwrap();
    let made = |held: &NodePrograms| held.after(None).collect::<Vec<_>>();
    let held = |w: &World| w.domain.programs("leaf1", w.domain.desired("leaf1").unwrap().groups.ids()).unwrap();
    let first = held(&w);
    let copy = made(&first);
    assert_eq!(copy.len(), 1);
    w.run(receiver("g", "h2-2")).unwrap();
    assert_eq!(made(&first), copy);
    assert_ne!(made(&held(&w)), copy);
    // A snapshot that broke off continues behind the group that the agent has.
    w.run(group("h")).unwrap();
    w.run(source("h", "h1-1")).unwrap();
    w.run(receiver("h", "h2-1")).unwrap();
    let both = held(&w);
    let ids: Vec<GroupId> = made(&both).into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids.len(), 2);
    let behind = |id| both.after(Some(id)).map(|(id, _)| id).collect::<Vec<_>>();
    assert_eq!((behind(ids[0]), behind(ids[1])), (vec![ids[1]], vec![]));
}

#[test]
fn a_new_topology_moves_only_the_groups_that_it_touches() {
    let mut w = World::with(fabric(4, 2, 1));
    for (g, s, r) in [("a", "h1-1", "h2-1"), ("b", "h3-1", "h4-1")] {
        w.run(group(g)).unwrap();
        w.run(source(g, s)).unwrap();
        w.run(receiver(g, r)).unwrap();
    }
    let epoch = |d: &Domain, g: &str| d.group(g).unwrap().status.epoch;
    let (a, b) = (epoch(&w.domain, "a"), epoch(&w.domain, "b"));
    let spine = w.domain.group("a").unwrap().status.tree[1].node.clone();
    let mut spec = Arc::unwrap_or_clone(w.domain.topology().unwrap().spec);
    // The link is replaced by one to the same two nodes on new ports: only group a ran over it.
    let used = spec.links.iter().position(|l| l.a.device == "leaf1" && l.b.device == spine).unwrap();
    spec.links.remove(used);
    let applied = w.run(topology(spec)).unwrap();
    assert_eq!(applied.outcome, Outcome::Updated);
    assert_eq!(epoch(&w.domain, "a"), a + 1);
    // Spine ports are numbered by link order, so b moves exactly if it runs over that spine behind the lost port.
    let touched = w.domain.group("b").unwrap().status.tree[1].node == spine;
    assert_eq!(epoch(&w.domain, "b"), b + u32::from(touched));
    let again = w.restarted();
    assert_eq!(
        (epoch(&again, "a"), epoch(&again, "b")),
        (epoch(&w.domain, "a"), epoch(&w.domain, "b")),
        "epochs go back with a restart"
    );
    assert_eq!(again.node_spec("leaf1").unwrap().groups, w.domain.node_spec("leaf1").unwrap().groups);
}

#[test]
fn numbers_come_back_as_asked_and_lengths_as_the_least() {
    let mut w = World::with(fabric(3, 1, 1));
    let spec = GroupSpec { start_psn: Some(Psn::new("p", 77).unwrap()), ..GroupSpec::default() };
    w.run(group_with("g", spec)).unwrap();
    w.run(group("h")).unwrap();
    assert_eq!(w.domain.connection("g").unwrap().start_psn.get(), 77);
    assert_ne!(w.domain.connection("h").unwrap().start_psn.get(), 0);
    let with = |host: &str, length| MemberSpec {
        memory: Some(MemoryRegion { va: 0x1000, rkey: 1, length }),
        ..member(host, Role::Receiver, 5)
    };
    let length = |w: &World| w.domain.connection("g").unwrap().write_length;
    assert_eq!(length(&w), 0);
    w.run(join_with("g", with("h1-1", 900))).unwrap();
    w.run(join_with("g", with("h2-1", 500))).unwrap();
    assert_eq!(length(&w), 500);
    w.run(receiver("g", "h3-1")).unwrap();
    assert_eq!(length(&w), 0, "one receiver has no memory");
    assert_eq!(w.domain.connection("absent"), None);
}

#[test]
fn groups_come_in_pages_and_by_label() {
    let mut w = World::empty();
    for i in 0..10 {
        let labels = Labels::from([
            ("parity".to_owned(), if i % 2 == 0 { "even" } else { "odd" }.to_owned()),
            ("n".to_owned(), i.to_string()),
        ]);
        w.run(Command::PutGroup {
            tenant: None,
            name: format!("g{i}"),
            labels,
            spec: GroupSpec::default(),
            if_match: None,
            create_only: true,
        })
        .unwrap();
    }
    let names = |d: &Domain, selector: &str, after: Option<&str>, limit| {
        let labels = Selector::parse("selector", selector).unwrap();
        let page = d.groups(&GroupFilter { labels, ..GroupFilter::default() }, after, limit);
        (page.items.iter().map(|g| g.metadata.name.clone()).collect::<Vec<_>>().join(" "), page.next)
    };
    for d in [&w.domain, &w.restarted()] {
        assert_eq!(names(d, "", None, 4), ("g0 g1 g2 g3".into(), Some("g3".into())));
        assert_eq!(names(d, "", Some("g7"), 4), ("g8 g9".into(), None));
        assert_eq!(names(d, "parity=odd", Some("g1"), 2), ("g3 g5".into(), Some("g5".into())));
        assert_eq!(names(d, "parity=odd,n!=7", Some("g5"), 2), ("g9".into(), None));
        assert_eq!(names(d, "parity=none", None, 2), (String::new(), None));
    }
    // The index follows changes and deletions.
    w.run(group("g1")).unwrap();
    w.run(Command::DeleteGroup { name: "g3".into() }).unwrap();
    assert_eq!(names(&w.domain, "parity=odd", None, 9).0, "g5 g7 g9");
}

#[test]
fn records_that_make_no_domain_are_named() {
    let mut w = World::with(fabric(2, 1, 1));
    for g in ["g", "h"] {
        w.run(group(g)).unwrap();
    }
    w.run(receiver("g", "h1-1")).unwrap();
    let broken = |change: &dyn Fn(&mut Records)| {
        let mut records = w.records.clone();
        change(&mut records);
        restored(records).unwrap_err()
    };
    let text = |e: RestoreError| e.to_string();
    let moved = |r: &mut Records, from: &str, to: &str| {
        let value = r.remove(from).unwrap();
        r.insert(to.to_owned(), value);
    };
    assert_eq!(
        text(broken(&|r| moved(r, "group/g", "group/x"))),
        "record \"group/x\": its content belongs at \"group/g\""
    );
    assert!(
        text(broken(&|r| drop(r.remove("group/g")))).starts_with("record \"member/g/h1-1\": there is no group \"g\"")
    );
    assert!(text(broken(&|r| drop(r.remove("topology/default")))).contains("it has members, but there is no topology"));
    let twice = broken(&|r| {
        let mut again = r["group/g"].clone();
        let Record::Group(group) = &mut again else { panic!("{again:?}") };
        group.metadata.name = "x".into();
        r.insert("group/x".into(), again);
    });
    assert_eq!(text(twice), "record \"group/x\": its group identifier is out of range or belongs to another group");
}
