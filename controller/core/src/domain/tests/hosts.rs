// SPDX-License-Identifier: Apache-2.0
//! Hosts: where they are attached, the state of their port, and their groups.

use super::*;
use crate::domain::NameFilter;
use crate::fields::{FieldSelector, HostField};
use canopy_model::topology::LinkDecl;

use crate::testing::{endpoint, fabric, link};
use crate::view::{HostGroup, HostView, PortState};

fn view(w: &World, host: &str) -> HostView {
    w.domain.host(host).unwrap()
}

/// `+` sends, `-` receives, `!` belongs to a session that has ended.
fn groups(w: &World, host: &str) -> Vec<String> {
    let text = |HostGroup { name, role, ended }: &HostGroup| {
        let sign = if *role == Role::Source { '+' } else { '-' };
        format!("{sign}{name}{}", if *ended { "!" } else { "" })
    };
    let view = view(w, host);
    let counted = |role: Role| view.status.groups.iter().filter(|g| g.role == role).count() as u32;
    assert_eq!((view.status.sources, view.status.receivers), (counted(Role::Source), counted(Role::Receiver)));
    view.status.groups.iter().map(text).collect()
}

#[test]
fn a_host_has_the_groups_that_it_is_a_member_of() {
    let mut w = World::with(fabric(2, 2, 2));
    assert_eq!(w.domain.host("h9-9"), None);
    for name in ["b", "a", "c"] {
        w.run(group(name)).unwrap();
        w.run(receiver(name, "h2-1")).unwrap();
    }
    w.run(source("a", "h1-1")).unwrap();
    w.run(source("c", "h2-2")).unwrap();
    w.run(receiver("a", "h1-2")).unwrap();
    let all = |w: &World| ["h1-1", "h1-2", "h2-1", "h2-2"].map(|host| groups(w, host));
    let expected = [vec!["+a"], vec!["-a"], vec!["-a", "-b", "-c"], vec!["+c"]];
    assert_eq!(all(&w), expected);
    w.domain = w.restarted();
    assert_eq!(all(&w), expected);

    w.run(leave("b", "h2-1")).unwrap();
    // The session ends with its source; the receivers of it stay members.
    w.run(leave("a", "h1-1")).unwrap();
    assert_eq!(all(&w), [vec![], vec!["-a!"], vec!["-a!", "-c"], vec!["+c"]]);
    w.run(Command::DeleteGroup { name: "c".into() }).unwrap();
    assert_eq!(all(&w), [vec![], vec!["-a!"], vec!["-a!"], vec![]]);
    let spec = view(&w, "h2-1").spec;
    assert_eq!((spec.node.as_str(), spec.port.as_str(), spec.mtu), ("leaf2", "host1", 9000));
    assert!(spec.prefix.contains(&spec.address));
}

/// Catches a link that is not shown, one whose port has the state of another, and a link that its ends do not name.
#[test]
fn a_host_with_several_links_has_the_state_of_each() {
    let mut spec = fabric(3, 2, 1);
    spec.links.push(LinkDecl { mtu: 4200, ..link("leaf2/second", "h1-1/eth1") });
    let mut w = World::with(spec);
    let error = |name: &str| ItemError { kind: ItemKind::Link, name: name.into(), group: None, detail: "cut".into() };
    w.domain.agent_connected("leaf2");
    let status = NodeStatus { node: "leaf2".into(), errors: vec![error("second")], ..NodeStatus::default() };
    w.domain.report(status).unwrap();
    let HostView { spec, status, .. } = view(&w, "h1-1");
    assert_eq!((spec.node.as_str(), spec.port.as_str(), spec.mtu), ("leaf1", "host1", 9000));
    let links: Vec<_> = spec.links.iter().map(|l| (l.node.as_str(), l.port.as_str(), l.mtu)).collect();
    assert_eq!(links, [("leaf1", "host1", 9000), ("leaf2", "second", 4200)]);
    let ports = status.links.iter().map(|l| (l.node.as_str(), l.port.as_str(), l.state, l.reason.as_str()));
    let unknown = ("leaf1", "host1", PortState::Unknown, "the agent of leaf1 is not connected");
    assert_eq!(ports.collect::<Vec<_>>(), [unknown, ("leaf2", "second", PortState::Down, "cut")]);
    assert_eq!(status.port, PortState::Unknown);
    assert_eq!(view(&w, "h3-1").status.links.len(), 1);
    let found = |port: &str| {
        let fields = FieldSelector::parse("", &format!("port={port}")).unwrap();
        let filter = NameFilter { fields, ..NameFilter::default() };
        w.domain.hosts(&filter, None, 9).items.into_iter().map(|host| host.name).collect::<Vec<_>>()
    };
    assert_eq!((found("Down"), found("Up")), (vec!["h1-1".to_owned()], vec!["h2-1".to_owned()]));
    let declared = w.domain.topology().unwrap().status;
    assert_eq!((declared.hosts, declared.links, declared.host_links), (3, 10, 4));
    let network = w.domain.state.network().unwrap();
    for (end, label) in [
        ("leaf2/second", "leaf2/second--h1-1/eth1"),
        ("h1-1/eth1", "leaf2/second--h1-1/eth1"),
        ("h1-1/eth0", "leaf1/host1--h1-1/eth0"),
    ] {
        let found = network.link_at(&endpoint(end)).map(|at| network.spec.links[at].label());
        assert_eq!(found.as_deref(), Some(label));
        let named = super::super::links::link_named(network, end).map(|at| network.spec.links[at].label());
        assert_eq!(named.as_deref(), Some(label), "{end}");
    }
}

/// Catches a base that is left as it was when a host's link fails or is back, one that lacks what a new tree or another fault changes as well,
/// and more nodes that change than have another way.
#[test]
fn a_link_of_a_host_changes_the_routes_of_the_nodes_that_led_to_it() {
    let mut spec = fabric(4, 3, 3);
    for (h, leaf) in [("h1-1", 2), ("h1-2", 3), ("h2-1", 1), ("h3-3", 4)] {
        spec.links.push(link(&format!("leaf{leaf}/{h}"), &format!("{h}/eth1")));
    }
    let mut w = World::with(spec);
    let plan = AddressPlan::default();
    let mut draw = 0x2545_F491_4F6C_DD1D_u64;
    let mut most = 0;
    for round in 0..60 {
        draw ^= draw << 13;
        draw ^= draw >> 7;
        draw ^= draw << 17;
        let leaf = draw as usize % 4 + 1;
        let all = ["host1", "host2", "host3", "h1-1", "h1-2", "h2-1", "h3-3", "up1", "up2", "up3"];
        let ports: Vec<&str> =
            all.into_iter().enumerate().filter(|(bit, _)| draw >> (20 + bit) & 9 == 9).map(|(_, p)| p).collect();
        let generations =
            |w: &World| ["leaf1", "leaf2", "leaf3", "leaf4"].map(|leaf| w.domain.node(leaf).unwrap().spec.generation);
        let before = generations(&w);
        w.run(ports_down(&format!("leaf{leaf}"), &ports)).unwrap();
        most = most.max(before.iter().zip(generations(&w)).filter(|(was, is)| **was != *is).count());
        let network = Arc::clone(&w.domain.state.topology.as_ref().unwrap().network);
        for (node, known) in w.domain.state.nodes.iter().enumerate() {
            let fresh = w.domain.state.with_thresholds(crate::routes::node_base(&network, &plan, None, node));
            assert_eq!(*known.spec.base, fresh, "round {round}: {ports:?} of leaf{leaf}");
        }
    }
    assert!(most > 1);
    w.domain = w.restarted();
}

#[test]
fn hosts_are_listed_in_pages_in_the_order_of_their_names() {
    let mut spec = fabric(3, 2, 4);
    spec.hosts.reverse();
    let mut w = World::with(spec);
    w.run(group("g")).unwrap();
    w.run(receiver("g", "h2-1")).unwrap();
    let mut expected: Vec<String> =
        (1..=3).flat_map(|leaf| (1..=4).map(move |host| format!("h{leaf}-{host}"))).collect();
    expected.sort();
    for limit in [1, 5, 6, 11, 12, 13, 1000] {
        let (mut listed, mut after, mut pages) = (Vec::new(), None::<String>, 0);
        loop {
            let page = w.domain.hosts(&NameFilter::default(), after.as_deref(), limit);
            assert!(page.items.len() <= limit);
            listed.extend(page.items);
            pages += 1;
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(
            (listed.iter().map(|h| h.name.clone()).collect::<Vec<_>>(), pages),
            (expected.clone(), 12_usize.div_ceil(limit))
        );
        let member = listed.iter().find(|h| h.name == "h2-1").unwrap();
        assert_eq!((member.status.receivers, member.status.groups.len()), (1, 0), "names are left out");
    }
    assert_eq!(w.domain.hosts(&NameFilter::default(), Some("h3-4"), 5).items, []);
    w.run(leave("g", "h2-1")).unwrap();
    w.run(Command::DeleteTopology).unwrap();
    assert_eq!((w.domain.hosts(&NameFilter::default(), None, 5).items, w.domain.host("h2-1")), (vec![], None));
}

#[test]
fn the_state_of_a_port_is_what_its_node_last_reported() {
    let mut w = World::with(fabric(2, 2, 2));
    let port = |w: &World, host: &str| {
        let status = view(w, host).status;
        (status.port, status.reason)
    };
    assert_eq!(port(&w, "h1-1"), (PortState::Unknown, "the agent of leaf1 is not connected".into()));
    w.domain.agent_connected("leaf1");
    assert_eq!(port(&w, "h1-1"), (PortState::Unknown, "the agent of leaf1 has not reported yet".into()));
    let error =
        |kind, name: &str, detail: &str| ItemError { kind, name: name.into(), group: None, detail: detail.into() };
    let mut report =
        |errors| w.domain.report(NodeStatus { node: "leaf1".into(), errors, ..NodeStatus::default() }).unwrap();
    report(vec![
        error(ItemKind::Link, "host2", "no carrier"),
        error(ItemKind::Neighbour, "host1/2001:db8::1", "no answer"),
        error(ItemKind::Route, "host1", "not of a port"),
    ]);
    assert_eq!(port(&w, "h1-1"), (PortState::Up, "no answer".into()));
    assert_eq!(port(&w, "h1-2"), (PortState::Down, "no carrier".into()));
    w.domain.report(NodeStatus { node: "leaf1".into(), ..NodeStatus::default() }).unwrap();
    assert_eq!(port(&w, "h1-2"), (PortState::Up, String::new()));
    w.domain.agent_gone("leaf1", instant(0));
    assert_eq!(port(&w, "h1-2").0, PortState::Unknown);
}

/// Catches a filtered page that loses hosts behind those that it leaves out, or compares another node or port.
#[test]
fn a_filter_leaves_out_hosts_and_no_page_loses_any() {
    let mut w = World::with(fabric(3, 2, 4));
    let listed = |w: &World, text: &str, limit: usize| {
        let fields = FieldSelector::<HostField>::parse("", text).unwrap();
        let filter = NameFilter { fields, ..NameFilter::default() };
        let (mut listed, mut after) = (Vec::new(), None::<String>);
        loop {
            let page = w.domain.hosts(&filter, after.as_deref(), limit);
            assert!(page.items.len() <= limit);
            listed.extend(page.items.into_iter().map(|host| host.name));
            after = page.next;
            if after.is_none() {
                return listed.join(" ");
            }
        }
    };
    let leaf = view(&w, "h2-1").spec.node;
    for limit in [1, 2, 3, 1000] {
        assert_eq!(listed(&w, &format!("node={leaf}"), limit), "h2-1 h2-2 h2-3 h2-4", "{limit}");
        assert_eq!(listed(&w, &format!("node={leaf},name!=h2-3"), limit), "h2-1 h2-2 h2-4", "{limit}");
        assert_eq!(listed(&w, "port=Up", limit), "");
        assert_eq!(listed(&w, "port=Unknown,name=h3-1", limit), "h3-1");
    }
    w.domain.agent_connected(&leaf);
    w.domain.report(NodeStatus { node: leaf, ..NodeStatus::default() }).unwrap();
    assert_eq!(listed(&w, "port=Up", 3), "h2-1 h2-2 h2-3 h2-4");
}
