// SPDX-License-Identifier: Apache-2.0
//! Links and nodes that operators take out of service, beside what the topology has.

use canopy_model::drain::DrainSpec;
use canopy_units::UnixTime;

use super::*;
use crate::command::Outcome;
use crate::metadata::Labels;
use crate::testing::{fabric, host, link};
use crate::view::DrainStatus;

/// Two leaves, two spines; group `g` from h1-1 to h2-1, through one of the spines.
fn world() -> World {
    let mut w = World::with(fabric(2, 2, 1));
    w.run(group("g")).unwrap();
    w.run(source("g", "h1-1")).unwrap();
    w.run(receiver("g", "h2-1")).unwrap();
    w.confirm_all();
    w
}

fn spine(d: &Domain) -> String {
    let tree = d.group("g").unwrap().status.tree;
    tree.into_iter().map(|n| n.node).find(|n| n.starts_with("spine")).unwrap()
}

/// The link from leaf1 to a spine.
fn label(spine: &str) -> String {
    format!("leaf1/up{0}--{spine}/down1", &spine[5..])
}

fn put(name: &str, spec: DrainSpec) -> Command {
    Command::PutDrain { name: name.into(), labels: Labels::new(), spec, if_match: None, create_only: true }
}

fn of_link(link: &str) -> DrainSpec {
    DrainSpec { link: Some(link.to_owned()), reason: "optics".into(), ..DrainSpec::default() }
}

fn of_node(node: &str) -> DrainSpec {
    DrainSpec { node: Some(node.to_owned()), reason: "kernel".into(), ..DrainSpec::default() }
}

/// Catches members that the node of a second link is thought to serve, and ones that the node of the first link is not.
#[test]
fn a_host_with_several_links_keeps_only_the_node_of_the_first_from_a_drain_and_from_leaving() {
    let mut spec = fabric(3, 2, 1);
    spec.links.push(link("leaf2/second", "h1-1/eth1"));
    let mut w = World::with(spec);
    w.run(group("g")).unwrap();
    w.run(source("g", "h3-1")).unwrap();
    w.run(receiver("g", "h1-1")).unwrap();
    w.confirm_all();
    w.run(put("d2", of_node("leaf2"))).unwrap();
    assert_eq!(status(&w.domain, "d2").hosts, Vec::<String>::new());
    assert!(w.run(put("d1", of_node("leaf1"))).unwrap_err().to_string().contains("h1-1 are members of groups"));
    let hosts = |node: &str| super::super::leaving::hosts(&w.domain.state, node);
    assert_eq!((hosts("leaf2"), hosts("leaf1").is_some()), (None, true));
    let second = w.run(put("l", of_link("leaf2/second"))).unwrap_err().to_string();
    assert!(second.contains("leads to a host"), "{second}");
}

fn status(d: &Domain, name: &str) -> DrainStatus {
    d.drain(name).unwrap().status
}

fn drained_links(d: &Domain) -> Vec<String> {
    let mut all: Vec<String> =
        d.all_links(instant(0)).into_iter().filter(|l| l.spec.drained).map(|l| l.spec.link).collect();
    all.sort();
    all.dedup();
    all
}

/// The next tree is confirmed and comes into force.
fn finish(w: &mut World) {
    assert_eq!(w.made(), Some(false));
    w.confirm();
    assert_eq!(w.made(), Some(true));
    w.run(Command::FinishMove { group: "g".into() }).unwrap();
    w.confirm();
}

#[test]
fn a_drained_link_is_left_in_two_steps_and_no_topology_takes_it_back() {
    let mut w = world();
    let old = spine(&w.domain);
    // By the name of one of its ends.
    let done = w.run(put("x", of_link(&format!("{old}/down1")))).unwrap();
    assert_eq!((done.outcome, done.generation), (Outcome::Created, 1));
    assert_eq!(w.domain.drain("x").unwrap().spec.link, Some(label(&old)));
    let (links, groups, hosts) = (vec![label(&old)], 1, vec![]);
    assert_eq!(status(&w.domain, "x"), DrainStatus { links, groups, hosts });
    finish(&mut w);
    assert_ne!(spine(&w.domain), old);
    assert_eq!((status(&w.domain, "x").groups, drained_links(&w.domain)), (0, vec![label(&old)]));

    // Another operator applies the file of before.
    let labels = Labels::from([("by".to_owned(), "another".to_owned())]);
    let again = |spec: TopologySpec| Command::PutTopology { labels: labels.clone(), spec: spec.into(), if_match: None };
    w.run(again(fabric(2, 2, 1))).unwrap();
    assert_eq!((w.made(), drained_links(&w.domain)), (None, vec![label(&old)]));
    let mut more = fabric(2, 2, 1);
    more.hosts.push(host("h1-9", 0x999));
    more.links.push(link("leaf1/host9", "h1-9/eth0"));
    w.run(again(more)).unwrap();
    assert_eq!((w.made(), drained_links(&w.domain)), (None, vec![label(&old)]));

    // It is durable.
    let restarted = w.restarted();
    assert_eq!((restarted.drains(), drained_links(&restarted)), (w.domain.drains(), vec![label(&old)]));
    assert_ne!(spine(&restarted), old);

    assert_eq!(w.run(Command::DeleteDrain { name: "x".into() }).unwrap().outcome, Outcome::Deleted);
    assert_eq!((w.domain.drains(), drained_links(&w.domain)), (vec![], vec![]));
    finish(&mut w);
    assert_eq!(spine(&w.domain), old);
    assert_eq!(w.restarted().drains(), []);
}

#[test]
fn a_link_is_drained_until_neither_a_drain_nor_the_topology_has_it_so() {
    let mut w = world();
    let old = spine(&w.domain);
    w.run(put("x", of_link(&label(&old)))).unwrap();
    w.run(put("y", of_node(&old))).unwrap();
    finish(&mut w);
    w.run(Command::DeleteDrain { name: "x".into() }).unwrap();
    assert_eq!((w.made(), drained_links(&w.domain).len()), (None, 2));
    let mut spec = fabric(2, 2, 1);
    spec.links.iter_mut().filter(|l| l.label() == label(&old)).for_each(|l| l.drained = true);
    w.run(topology(spec)).unwrap();
    w.run(Command::DeleteDrain { name: "y".into() }).unwrap();
    assert_eq!((w.made(), drained_links(&w.domain)), (None, vec![label(&old)]));
    w.run(topology(fabric(2, 2, 1))).unwrap();
    finish(&mut w);
    assert_eq!(spine(&w.domain), old);
}

#[test]
fn a_node_is_drained_of_what_passes_it_and_refused_while_it_serves_hosts() {
    let mut w = world();
    let old = spine(&w.domain);
    w.run(put("x", of_node(&old))).unwrap();
    assert_eq!((status(&w.domain, "x").links.len(), status(&w.domain, "x").groups), (2, 1));
    finish(&mut w);
    assert_eq!(status(&w.domain, "x").groups, 0);

    let refused = w.problem(put("y", of_node("leaf2")));
    assert!(refused.starts_with("InUse: ") && refused.contains("h2-1") && refused.contains("acceptLoss"), "{refused}");
    w.run(put("y", DrainSpec { accept_loss: true, ..of_node("leaf2") })).unwrap();
    let now = status(&w.domain, "y");
    assert_eq!((now.groups, now.hosts), (0, vec!["h2-1".to_owned()]));
    // Its hosts are served as before: there is no other way.
    assert_eq!(w.domain.group("g").unwrap().status.receivers, 1);
    assert!(w.domain.group("g").unwrap().status.tree.iter().any(|n| n.node == "leaf2"));
    w.run(leave("g", "h2-1")).unwrap();
    w.run(Command::DeleteDrain { name: "y".into() }).unwrap();
    w.run(put("y", of_node("leaf2"))).unwrap();
}

#[test]
fn the_drain_that_ends_first_is_the_next() {
    let mut w = World::with(fabric(2, 2, 1));
    let at = |s: u64| UnixTime::from_nanos(s * 1_000_000_000);
    let next = |w: &World| w.domain.next_drain_end().map(|(until, name)| (until, name.to_owned()));
    let until = |name: &str, spec: DrainSpec, s: Option<u64>| Command::PutDrain {
        name: name.into(),
        labels: Labels::new(),
        spec: DrainSpec { until: s.map(at), ..spec },
        if_match: None,
        create_only: false,
    };
    w.run(until("x", of_node("spine1"), None)).unwrap();
    assert_eq!(next(&w), None);
    for (name, s) in [("c", 30), ("a", 20), ("b", 20)] {
        w.run(until(name, of_node("spine2"), Some(s))).unwrap();
    }
    assert_eq!(next(&w), Some((at(20), "a".into())));
    let restarted = w.restarted();
    assert_eq!(restarted.next_drain_end(), Some((at(20), "a")));
    assert_eq!(restarted.drains(), w.domain.drains());
    // Another time, and none any more.
    w.run(until("a", of_node("spine2"), Some(40))).unwrap();
    assert_eq!(next(&w), Some((at(20), "b".into())));
    w.run(until("b", of_node("spine2"), None)).unwrap();
    assert_eq!(next(&w), Some((at(30), "c".into())));
    w.run(Command::DeleteDrain { name: "c".into() }).unwrap();
    w.run(Command::DeleteTopology).unwrap();
    assert_eq!(next(&w), Some((at(40), "a".into())));
    w.run(Command::DeleteDrain { name: "a".into() }).unwrap();
    assert_eq!(next(&w), None);
}

#[test]
fn what_cannot_be_drained_is_refused_and_changes_nothing() {
    let mut w = world();
    let before = w.domain.revision();
    for (spec, wanted) in [
        (of_link("leaf1/up9"), "spec.link"),
        (of_link("leaf1/host1"), "leads to a host"),
        (of_node("leaf9"), "spec.node"),
        (DrainSpec { reason: String::new(), ..of_node("spine1") }, "spec.reason"),
        (DrainSpec::default(), "spec.link or spec.node"),
    ] {
        let refused = w.problem(put("x", spec));
        assert!(refused.starts_with("Invalid: ") && refused.contains(wanted), "{refused}");
    }
    assert!(w.problem(put("Not a name", of_node("spine1"))).contains("metadata.name"));
    assert_eq!(w.problem(Command::DeleteDrain { name: "x".into() }), "NotFound: there is no drain \"x\"");
    assert_eq!(w.domain.revision(), before);

    w.run(put("x", of_node("spine1"))).unwrap();
    let taken = w.problem(put("x", of_node("spine2")));
    assert!(
        taken.starts_with("AlreadyExists: ") && taken.contains("node spine1") && taken.contains("kernel"),
        "{taken}"
    );
    let change = |if_match, reason: &str| Command::PutDrain {
        name: "x".into(),
        labels: Labels::new(),
        spec: DrainSpec { reason: reason.into(), ..of_node("spine1") },
        if_match,
        create_only: false,
    };
    assert_eq!(w.run(change(Some(1), "kernel")).unwrap().outcome, Outcome::Unchanged);
    assert!(w.problem(change(Some(7), "fans")).starts_with("Conflict: "));
    assert_eq!(w.run(change(Some(1), "fans")).unwrap().generation, 2);
}

#[test]
fn a_drain_of_what_the_topology_no_longer_has_waits_for_it() {
    let mut w = World::with(fabric(2, 2, 1));
    w.run(put("x", of_node("spine2"))).unwrap();
    w.run(topology(fabric(2, 1, 1))).unwrap();
    assert_eq!(status(&w.domain, "x").links, Vec::<String>::new());
    w.run(Command::DeleteTopology).unwrap();
    assert_eq!((status(&w.domain, "x").groups, w.restarted().drains()), (0, w.domain.drains()));
    assert_eq!(w.problem(put("y", of_node("spine1"))), "NotFound: there is no topology \"default\"");
    w.run(topology(fabric(2, 2, 1))).unwrap();
    assert_eq!(drained_links(&w.domain).len(), 2);
    w.run(Command::DeleteTopology).unwrap();
    w.run(Command::DeleteDrain { name: "x".into() }).unwrap();
    assert_eq!(w.restarted().drains(), []);
}
