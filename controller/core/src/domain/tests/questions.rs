// SPDX-License-Identifier: Apache-2.0
//! What the controller asks the domain about nodes, groups and ports.

use std::collections::BTreeSet;

use canopy_model::drain::DrainSpec;
use canopy_model::group::{EncodingChoice, EncodingMode};

use super::*;
use crate::domain::BranchNews;
use crate::testing::{fabric, link, node};

/// Group `g` from h1-1 to h2-1, through one of two spines.
fn world() -> World {
    let mut w = World::with(fabric(2, 2, 1));
    w.run(group("g")).unwrap();
    w.run(source("g", "h1-1")).unwrap();
    w.run(receiver("g", "h2-1")).unwrap();
    w.confirm_all();
    w
}

fn report(w: &mut World, node: &str, kind: ItemKind, port: &str) {
    let generation = w.domain.node_spec(node).unwrap().generation;
    let error = ItemError { kind, name: port.into(), group: None, detail: "x".into() };
    w.domain.report(reported(node, generation, vec![error])).unwrap();
}

fn set<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.map(str::to_owned).into()
}

#[test]
fn a_new_leader_puts_its_term_into_every_spec() {
    let mut w = world();
    let nodes: Vec<String> = w.domain.all_nodes().into_iter().map(|n| n.name).collect();
    let before = w.domain.node_spec("leaf1").unwrap();
    assert_eq!(w.domain.raise_term(7), nodes);
    assert_eq!(w.domain.term(), 7);
    assert!(nodes.iter().all(|name| w.domain.node_spec(name).unwrap().term == 7));
    let after = w.domain.node_spec("leaf1").unwrap();
    assert_eq!((&after.base, &after.groups, after.generation), (&before.base, &before.groups, before.generation));
}

#[test]
fn a_branch_is_fatal_from_its_fatal_nak_until_it_recovers() {
    let mut w = world();
    let status = w.domain.group("g").unwrap().status;
    let (id, address) = (status.group_id, w.domain.member("g", "h2-1").unwrap().status.address);
    let is_fatal = |w: &World, node: &str| w.domain.is_fatal(node, id, address);
    w.domain.branch_news("leaf2", id, address, BranchNews::Stalled);
    assert!(!is_fatal(&w, "leaf2"), "a stall is not fatal");
    w.domain.branch_news("leaf2", id, address, BranchNews::Fatal);
    assert!(is_fatal(&w, "leaf2") && !is_fatal(&w, "leaf1") && !is_fatal(&w, "absent"));
    w.domain.branch_news("leaf2", id, address, BranchNews::Recovered);
    assert!(!is_fatal(&w, "leaf2"));
}

#[test]
fn groups_that_move_are_named_until_they_have_moved() {
    let mut w = world();
    w.run(group("other")).unwrap();
    assert_eq!(w.domain.all_moving(), [""; 0]);
    let tree = w.domain.group("g").unwrap().status.tree;
    let spine = tree.into_iter().map(|n| n.node).find(|n| n.starts_with("spine")).unwrap();
    let label = format!("leaf1/up{0}--{spine}/down1", &spine[5..]);
    let spec = DrainSpec { link: Some(label), reason: "optics".into(), ..DrainSpec::default() };
    let drain = Command::PutDrain { name: "d".into(), labels: Labels::new(), spec, if_match: None, create_only: true };
    w.run(drain).unwrap();
    assert_eq!(w.domain.all_moving(), ["g"]);
    let drains: Vec<String> = w.domain.drains().into_iter().map(|d| d.metadata.name).collect();
    assert_eq!(drains, ["d"]);
    w.confirm_all();
    w.run(Command::FinishMove { group: "g".into() }).unwrap();
    assert_eq!(w.domain.all_moving(), [""; 0]);
}

#[test]
fn a_report_is_news_unless_it_repeats_the_last_one() {
    let mut w = world();
    let generation = w.domain.node_spec("leaf1").unwrap().generation;
    let status = |errors| reported("leaf1", generation, errors);
    let error = ItemError { kind: ItemKind::Link, name: "up1".into(), group: None, detail: "x".into() };
    let (before, after) = (status(vec![]), status(vec![error]));
    assert!(!w.domain.is_news(&before) && w.domain.is_news(&after));
    w.domain.report(after.clone()).unwrap();
    assert!(w.domain.is_news(&before) && !w.domain.is_news(&after));
    assert!(!w.domain.is_news(&reported("absent", generation, vec![])), "no such node");
}

#[test]
fn ports_that_are_down_are_known_and_reported() {
    let mut w = World::with(fabric(2, 2, 1));
    assert_eq!((w.domain.ports_down("leaf1"), w.domain.ports_down("absent")), (None, None), "it has not reported");
    w.confirm();
    assert_eq!(w.domain.ports_down("leaf1"), Some((set([]), set([]))));
    report(&mut w, "leaf1", ItemKind::Link, "up1");
    assert_eq!(w.domain.ports_down("leaf1"), Some((set([]), set(["up1"]))));
    w.run(Command::PortsDown { node: "leaf1".into(), ports: set(["up1"]) }).unwrap();
    w.confirm();
    assert_eq!(w.domain.ports_down("leaf1"), Some((set(["up1"]), set([]))));
    assert_eq!(w.domain.ports_down("leaf2"), Some((set([]), set([]))));
}

#[test]
fn only_a_link_that_loses_every_packet_with_its_carrier_up_is_silence() {
    let mut w = world();
    assert!(!w.domain.reports_silence("leaf1") && !w.domain.reports_silence("absent"));
    report(&mut w, "leaf1", ItemKind::Link, "up1");
    assert!(!w.domain.reports_silence("leaf1"));
    report(&mut w, "leaf1", ItemKind::Silence, "up1");
    assert!(w.domain.reports_silence("leaf1") && !w.domain.reports_silence("leaf2"));
}

#[test]
fn a_group_is_found_by_its_identifier_and_the_prefixes_are_those_of_the_configuration() {
    let plan = AddressPlan { proxy_prefix: "fcfe::/112".parse().unwrap(), ..AddressPlan::default() };
    let (thresholds, hmac) = (ThresholdSettings::default(), HmacSettings::default());
    let domain = Domain::restore(plan.clone(), thresholds, hmac, secret(), TERM, []).unwrap();
    assert_eq!(*domain.address_plan(), plan);
    let w = world();
    let id = w.domain.group("g").unwrap().status.group_id;
    assert_eq!(w.domain.group_name(id), Some("g"));
}

#[test]
fn a_receiver_shows_how_its_edge_gets_the_list_of_receivers() {
    let encoding = |choice| {
        let mut w = World::with(fabric(2, 1, 1));
        w.run(group_with("g", GroupSpec { encoding: choice, ..GroupSpec::default() })).unwrap();
        w.run(source("g", "h1-1")).unwrap();
        w.run(receiver("g", "h2-1")).unwrap();
        let of = |host: &str| w.domain.member("g", host).unwrap().status.encoding;
        ["h1-1", "h2-1"].map(of)
    };
    let (listed, in_band) = (Some(EncodingMode::Provisioned), Some(EncodingMode::InBand));
    assert_eq!(encoding(EncodingChoice::Provisioned), [None, listed]);
    assert_eq!(encoding(EncodingChoice::InBand), [None, in_band]);
}

/// It was infeasible before: the change of the topology may repair others.
#[test]
fn a_group_without_a_tree_does_not_refuse_a_topology() {
    let mut spec = with_a_small_spine();
    let mut w = World::with(spec.clone());
    for i in 0..20 {
        let name = format!("g{i}");
        w.run(group(&name)).unwrap();
        w.run(source(&name, "h1-1")).unwrap();
        // Refused if its tree would lead over spine2.
        _ = w.run(receiver(&name, "h2-1"));
    }
    w.run(ports_down("leaf2", &["up1"])).unwrap();
    let reasons = |w: &World| {
        let groups = w.domain.groups(&GroupFilter::default(), None, usize::MAX).items;
        groups.into_iter().map(|g| g.status.reason).filter(|r| r.contains("MTU 1500")).count()
    };
    let before = reasons(&w);
    assert!(before > 0, "spine2 is the only way left");
    spec.nodes.push(node("spine3", 0x200));
    spec.links.push(link("leaf3/up3", "spine3/down3"));
    w.run(topology(spec)).unwrap();
    assert_eq!(reasons(&w), before);
}
