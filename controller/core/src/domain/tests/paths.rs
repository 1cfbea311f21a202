// SPDX-License-Identifier: Apache-2.0
//! Paths by uSIDs of a declared topology, and the marks of their links.

use std::collections::BTreeSet;

use canopy_paths::pair::{Disjoint, Method};
use canopy_paths::path::Style;
use canopy_paths::program::Header;

use super::*;
use crate::path::{DecodedEnd, LinkMarks, PathView, PathsView};
use crate::testing::{fabric, link};

fn paths(w: &World, from: &str, to: &str) -> PathsView {
    w.domain.paths(from, to, Style::Nodes).unwrap()
}

fn marked(path: &PathView) -> Vec<(&str, LinkMarks)> {
    let marked = path.links.iter().filter(|link| link.marks != LinkMarks::default());
    marked.map(|link| (link.link.as_str(), link.marks)).collect()
}

fn captured(w: &World, destination: &str, at: Option<&str>) -> Option<crate::path::DecodedView> {
    let header = Header { destination: destination.parse().unwrap(), segments: Vec::new(), segments_left: 0 };
    w.domain.decode_path(&header, at)
}

/// Catches a path whose links, names or addresses are in another order than packets meet them.
#[test]
fn paths_have_the_names_of_the_topology() {
    let w = World::with(fabric(2, 2, 1));
    let view = paths(&w, "h1-1", "h2-1");
    assert_eq!((view.total, view.method, view.list.len()), (2, Method::UpDown, 2));
    let first = &view.list[0];
    assert_eq!(first.program, ["uN 0x0001", "uN 0x0101", "uN 0x0002"]);
    let links: Vec<String> = first
        .links
        .iter()
        .map(|l| format!("{} {} {}", l.from, l.link, l.destination.map_or("-".to_owned(), |d| d.to_string())))
        .collect();
    let expected = [
        "h1-1 leaf1/host1--h1-1/eth0 5f00:0:1:101:2::",
        "leaf1 leaf1/up1--spine1/down1 5f00:0:101:2::",
        "spine1 leaf2/up1--spine1/down2 5f00:0:2::",
        "leaf2 leaf2/host1--h2-1/eth0 -",
    ];
    assert_eq!(links, expected);
    assert_eq!((first.header.segments.len(), first.mtu, first.disjoint), (0, 8960, None));
    assert_eq!(view.list[1].disjoint, Some(Disjoint::Node));
    assert!(view.list.iter().all(PathView::is_sound));
    let by_links = w.domain.paths("h1-1", "h2-1", Style::Links).unwrap();
    assert_eq!(by_links.list[0].program, ["uA 0xe001", "uA 0xe002", "uA 0xe003"]);
    assert_eq!((first.refused, by_links.list[0].refused), (None, Some(crate::path::Refused::Adjacency)));
    assert_eq!(w.domain.paths("h1-1", "h9-1", Style::Nodes), None);
    assert_eq!(w.domain.paths("leaf1", "h2-1", Style::Nodes), None, "paths are of hosts");
}

/// Two hosts with two links each: the draft's illustration, with numbers of this fabric. Catches a link that no path begins or ends at, an order
/// in which the first paths share a link or a node, and a mark of another host's link.
#[test]
fn hosts_with_several_links_have_the_paths_of_all() {
    let mut spec = fabric(4, 2, 1);
    spec.links.push(link("leaf2/second", "h1-1/eth1"));
    spec.links.push(link("leaf4/second", "h3-1/eth1"));
    let w = World::with(spec);
    let view = paths(&w, "h1-1", "h3-1");
    let addresses: BTreeSet<String> = view.list.iter().map(|path| path.header.destination.to_string()).collect();
    let all = [1, 2].into_iter().flat_map(|from| {
        [0x101, 0x102].into_iter().flat_map(move |spine| [3, 4].map(|to| format!("5f00:0:{from:x}:{spine:x}:{to:x}::")))
    });
    assert_eq!((view.total, addresses), (8, all.collect()));
    assert_eq!([0, 1, 2].map(|at| view.list[at].disjoint), [None, Some(Disjoint::Node), Some(Disjoint::Not)]);
    for path in &view.list {
        let ends = [path.links.first(), path.links.last()].map(|link| link.unwrap().link.as_str());
        let second = path.header.destination.segments();
        let of = |leaf: u16, first: &str, other: &str, host: &str| match leaf {
            1 | 3 => format!("leaf{leaf}/{first}--{host}/eth0"),
            _ => format!("leaf{leaf}/{other}--{host}/eth1"),
        };
        assert_eq!(ends, [of(second[2], "host1", "second", "h1-1"), of(second[4], "host1", "second", "h3-1")]);
    }
    // A host with one link: its link and its edge do not count.
    assert_eq!(paths(&w, "h2-1", "h3-1").list.len(), 4);
    assert_eq!(w.domain.paths("h1-1", "h9-1", Style::Nodes), None);
}

/// Catches a path that is not shown because it is out of service, and a mark on another link.
#[test]
fn drained_and_dead_links_are_marked_and_their_paths_shown() {
    let mut spec = fabric(2, 2, 1);
    spec.links[0].drained = true;
    let mut w = World::with(spec);
    w.run(Command::PortsDown { node: "leaf2".into(), ports: ["up2".to_owned()].into() }).unwrap();
    let view = paths(&w, "h1-1", "h2-1");
    let drained = LinkMarks { drained: true, ..LinkMarks::default() };
    let dead = LinkMarks { dead: true, ..LinkMarks::default() };
    assert_eq!(marked(&view.list[0]), [("leaf1/up1--spine1/down1", drained)]);
    assert_eq!(marked(&view.list[1]), [("leaf2/up2--spine2/down2", dead)]);
    assert!(!view.list[0].is_sound() && !view.list[1].is_sound());
}

/// Catches an agent of an earlier contract that counts, and a node that no path leads over.
#[test]
fn paths_are_forwarded_once_every_node_that_they_lead_over_has_reported_that_it_does() {
    let mut w = World::with(fabric(3, 2, 1));
    let report = |w: &mut World, node: &str, minor_version: u32| {
        let generation = w.domain.node(node).unwrap().spec.generation;
        let observed_term = w.domain.term();
        let status = NodeStatus { observed_term, minor_version, ..reported(node, generation, vec![]) };
        w.domain.report(status).unwrap();
    };
    assert!(!paths(&w, "h1-1", "h2-1").forwarded, "no node has reported");
    for node in ["leaf1", "leaf2", "spine1"] {
        report(&mut w, node, canopy_model::host_programs::MINOR_VERSION);
    }
    report(&mut w, "spine2", canopy_model::usid::MINOR_VERSION - 1);
    assert!(!paths(&w, "h1-1", "h2-1").forwarded);
    let by = |w: &World, spine: &str| captured(w, &format!("5f00:0:1:{spine}:2::"), None).unwrap().forwarded;
    assert_eq!((by(&w, "101"), by(&w, "102")), (true, false));
    report(&mut w, "spine2", canopy_model::host_programs::MINOR_VERSION - 1);
    assert_eq!((by(&w, "102"), paths(&w, "h1-1", "h2-1").forwarded), (true, false), "programs of nodes only");
    report(&mut w, "spine2", canopy_model::host_programs::MINOR_VERSION);
    assert!(paths(&w, "h1-1", "h2-1").forwarded, "leaf3 is on none of them");
    assert!(!paths(&w, "h1-1", "h3-1").forwarded);
}

/// Catches a permission of the destination that counts for the source.
#[test]
fn a_source_is_permitted_what_the_topology_permits_it() {
    let mut spec = fabric(2, 2, 1);
    spec.hosts.iter_mut().filter(|host| host.name == "h2-1").for_each(|host| host.path_programs = true);
    let w = World::with(spec);
    assert_eq!((paths(&w, "h1-1", "h2-1").permitted, paths(&w, "h2-1", "h1-1").permitted), (false, true));
    let of_host = |name: &str| w.domain.host(name).unwrap().spec.path_programs;
    assert_eq!((of_host("h1-1"), of_host("h2-1")), (false, true));
}

/// Catches nodes that are named by their place in the topology and not by their number.
#[test]
fn a_captured_address_is_decoded_by_name() {
    let mut spec = fabric(2, 2, 1);
    spec.nodes.reverse();
    let w = World::with(spec);
    let decoded = captured(&w, "5f00:0:102:2::", Some("leaf1")).unwrap();
    let steps: Vec<(&str, Option<&str>)> =
        decoded.steps.iter().map(|step| (step.node.as_str(), step.link.as_deref())).collect();
    assert_eq!(steps, [("spine2", Some("leaf1/up2--spine2/down1")), ("leaf2", Some("leaf2/up2--spine2/down2"))]);
    assert_eq!(decoded.end, Ok(DecodedEnd::Node { node: "leaf2".into() }));
    let delivered = captured(&w, "5f00:0:2:e003::", None).unwrap().end;
    let link = "leaf2/host1--h2-1/eth0".to_owned();
    assert_eq!(delivered, Ok(DecodedEnd::Port { node: "leaf2".into(), to: "h2-1".into(), link }));
    let error = captured(&w, "5f00:0:1:2::", None).unwrap().end.unwrap_err();
    assert!(error.starts_with("uSID 2 of the destination address: no link leads from node 1 to node 2"), "{error}");
    assert_eq!(captured(&w, "5f00:0:1:2::", Some("leaf9")), None);
}
