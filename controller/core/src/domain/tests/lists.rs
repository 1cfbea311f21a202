// SPDX-License-Identifier: Apache-2.0
//! Lists of nodes and of link directions: pages, filters, and the word for each.

use canopy_model::status::{ItemError, ItemKind, NodeStatus};

use super::*;
use crate::domain::NameFilter;
use crate::fields::{FieldSelector, LinkField, NodeField};
use crate::problem::ProblemCode;
use crate::selector::Selector;
use crate::states::{LinkState, NodeState, Trouble, Troubles};
use crate::testing::fabric;
use crate::view::Page;

/// All pages of up to `limit`.
fn all<T>(limit: usize, name: fn(&T) -> &str, page: impl Fn(Option<&str>) -> Page<T>) -> Vec<String> {
    let (mut names, mut after) = (Vec::new(), None::<String>);
    loop {
        let found = page(after.as_deref());
        assert!(found.items.len() <= limit);
        names.extend(found.items.iter().map(|item| name(item).to_owned()));
        after = found.next;
        if after.is_none() {
            return names;
        }
    }
}

fn nodes(w: &World, fields: &str, contains: &str, limit: usize) -> Vec<String> {
    let fields = FieldSelector::<NodeField>::parse("", fields).unwrap();
    let filter = NameFilter { fields, contains: contains.to_owned(), ..NameFilter::default() };
    all(limit, |node: &NodeView| &node.name, |after| w.domain.nodes(&filter, after, limit, false))
}

fn links(w: &World, fields: &str, troubles: &Troubles, limit: usize) -> Vec<String> {
    let filter = FieldSelector::<LinkField>::parse("", fields).unwrap();
    let page = |after: Option<&str>| {
        let after = after.and_then(|name| name.split_once('/'));
        w.domain.links(&filter, after, limit, troubles, instant(0))
    };
    all(limit, |link: &LinkView| &link.name, page)
}

fn report(w: &mut World, node: &str, errors: Vec<ItemError>) {
    let generation = w.domain.node(node).unwrap().spec.generation;
    let observed_term = w.domain.term();
    w.domain
        .report(NodeStatus {
            node: node.into(),
            observed_term,
            observed_generation: generation,
            errors,
            ..NodeStatus::default()
        })
        .unwrap();
}

/// Catches a page that loses an item or has one twice, another order, and a filter that compares another field.
#[test]
fn pages_have_every_node_and_every_direction_once() {
    let w = World::with(fabric(3, 2, 4));
    let no = Troubles::new();
    for limit in [1, 2, 3, 7, 1000] {
        assert_eq!(nodes(&w, "", "", limit), ["leaf1", "leaf2", "leaf3", "spine1", "spine2"], "{limit}");
        assert_eq!(nodes(&w, "", "ine", limit), ["spine1", "spine2"], "{limit}");
        assert_eq!(nodes(&w, "name!=leaf2", "leaf", limit), ["leaf1", "leaf3"], "{limit}");
        let mut wanted: Vec<String> = w.domain.all_links(instant(0)).into_iter().map(|link| link.name).collect();
        assert_eq!(wanted.len(), 3 * (2 + 4) + 2 * 3, "directions out of hosts are not listed");
        wanted.sort();
        assert_eq!(links(&w, "", &no, limit), wanted, "{limit}");
        assert_eq!(links(&w, "node=spine2", &no, limit), ["spine2/down1", "spine2/down2", "spine2/down3"], "{limit}");
        assert_eq!(links(&w, "to=spine2/down3", &no, limit), ["leaf3/up2"], "{limit}");
        assert_eq!(links(&w, "link=leaf1/up1--spine1/down1", &no, limit), ["leaf1/up1", "spine1/down1"], "{limit}");
        assert_eq!(links(&w, "node=spine9", &no, limit), <[&str; 0]>::default(), "{limit}");
    }
    assert_eq!(World::empty().domain.links(&FieldSelector::default(), None, 5, &no, instant(0)).items, []);
    let [with, without] =
        [true, false].map(|ports| w.domain.nodes(&NameFilter::default(), None, 1, ports).items.remove(0));
    assert_eq!((with.spec.ports.len(), with.spec.port_count), (6, 6));
    assert_eq!((without.spec.ports.len(), without.spec.port_count), (0, 6));
}

/// Catches a node that seems to have what it has not, and a filter that has another word than the node.
#[test]
fn a_node_has_one_word_and_is_found_by_it() {
    let mut w = World::with(fabric(2, 1, 1));
    let word = |w: &World| {
        let state = w.domain.node("leaf1").unwrap().status.state;
        assert!(nodes(w, &format!("state={state}"), "", 10).contains(&"leaf1".to_owned()), "{state}");
        assert!(!nodes(w, &format!("state!={state}"), "", 10).contains(&"leaf1".to_owned()), "{state}");
        state
    };
    assert_eq!(word(&w), NodeState::NotConnected);
    w.domain.agent_connected("leaf1");
    assert_eq!(word(&w), NodeState::NotReported);
    let generation = w.domain.node("leaf1").unwrap().spec.generation;
    let of_another_term =
        NodeStatus { node: "leaf1".into(), observed_term: 0, observed_generation: generation, ..NodeStatus::default() };
    w.domain.report(of_another_term).unwrap();
    assert_eq!(word(&w), NodeState::Behind, "of another controller's life");
    let missing = ItemError { kind: ItemKind::Route, name: "r".into(), group: None, detail: "gone".into() };
    report(&mut w, "leaf1", vec![missing]);
    assert_eq!(word(&w), NodeState::ItemErrors);
    report(&mut w, "leaf1", vec![]);
    assert_eq!(word(&w), NodeState::InSync);
    w.domain.agent_gone("leaf1", instant(0));
    assert_eq!(word(&w), NodeState::Restarting);
    w.domain.expire_restarts(instant(600_000_000_000));
    assert_eq!(word(&w), NodeState::NotConnected);
}

/// Catches a direction that is in service while nothing is known of it, a problem that is hidden by a drain, and the lesser of two.
#[test]
fn a_direction_has_one_word_and_is_found_by_it() {
    let mut w = World::with(fabric(2, 1, 1));
    let word = |w: &World, troubles: &Troubles| {
        let status = w.domain.link("leaf1", "up1", troubles, instant(0)).unwrap().status;
        let state = status.state;
        assert!(links(w, &format!("state={state}"), troubles, 10).contains(&"leaf1/up1".to_owned()), "{state}");
        assert!(!links(w, &format!("state!={state}"), troubles, 10).contains(&"leaf1/up1".to_owned()), "{state}");
        (state, status.trouble.map(|trouble| trouble.code))
    };
    let mut troubles = Troubles::new();
    assert_eq!(word(&w, &troubles), (LinkState::NotReported, None));
    w.domain.agent_connected("leaf1");
    report(&mut w, "leaf1", vec![]);
    assert_eq!(word(&w, &troubles), (LinkState::InService, None));
    w.domain.agent_gone("leaf1", instant(0));
    assert_eq!(word(&w, &troubles), (LinkState::InService, None), "what it reported holds while it restarts");
    w.domain.expire_restarts(instant(600_000_000_000));
    assert_eq!(word(&w, &troubles), (LinkState::AgentNotConnected, None));
    let spec = canopy_model::drain::DrainSpec {
        link: Some("leaf1/up1".into()),
        reason: "optics".into(),
        ..Default::default()
    };
    w.run(Command::PutDrain { name: "d".into(), labels: Labels::new(), spec, if_match: None, create_only: true })
        .unwrap();
    assert_eq!(word(&w, &troubles), (LinkState::Drained, None));
    let trouble = |code: ProblemCode| Trouble { code, severity: code.info().severity };
    troubles.insert("leaf1/up1--spine1/down1".into(), trouble(ProblemCode::LinkLossy));
    assert_eq!(word(&w, &troubles), (LinkState::Problem, Some(ProblemCode::LinkLossy)));
    troubles.insert("leaf1/up1".into(), trouble(ProblemCode::PortMisconfigured));
    assert_eq!(word(&w, &troubles), (LinkState::Problem, Some(ProblemCode::PortMisconfigured)));
    troubles.insert("leaf1/up1".into(), trouble(ProblemCode::ThresholdClamped));
    assert_eq!(word(&w, &troubles), (LinkState::Problem, Some(ProblemCode::LinkLossy)));
}

/// Catches labels that are lost, a selector that finds another node, and a change of labels alone that who watches the node does not see.
#[test]
fn nodes_are_selected_by_the_labels_that_the_topology_gives_them() {
    let labelled = |rack: &str| {
        let mut spec = fabric(3, 1, 1);
        spec.nodes[0].labels = [("rack".to_owned(), rack.to_owned()), ("row".to_owned(), "1".to_owned())].into();
        spec.nodes[1].labels = [("rack".to_owned(), "b".to_owned())].into();
        spec
    };
    let mut w = World::with(labelled("a"));
    let found = |w: &World, text: &str| {
        let filter = NameFilter::<NodeField> { labels: Selector::parse("", text).unwrap(), ..NameFilter::default() };
        all(1, |node: &NodeView| &node.name, |after| w.domain.nodes(&filter, after, 1, false)).join(" ")
    };
    assert_eq!(found(&w, "rack"), "leaf1 leaf2");
    assert_eq!(found(&w, "rack=a,row"), "leaf1");
    assert_eq!(found(&w, "rack!=a"), "leaf2 leaf3 spine1");
    assert_eq!(found(&w, "!rack"), "leaf3 spine1");
    assert_eq!(w.domain.node("leaf2").unwrap().labels, [("rack".to_owned(), "b".to_owned())].into());
    let generation = w.domain.node("leaf1").unwrap().spec.generation;
    let applied = w.run(topology(labelled("c"))).unwrap();
    assert_eq!((applied.nodes, found(&w, "rack=c")), (vec!["leaf1".to_owned()], "leaf1".to_owned()));
    assert_eq!(w.domain.node("leaf1").unwrap().spec.generation, generation, "its agent has nothing to do");
    let hosts = NameFilter { labels: Selector::parse("", "rack").unwrap(), ..NameFilter::default() };
    assert_eq!(w.domain.hosts(&hosts, None, 10).items, [], "hosts have no labels");
    let mut spec = labelled("not a value");
    spec.nodes[2].labels = [("".to_owned(), "x".to_owned())].into();
    let refused = w.run(topology(spec)).unwrap_err().to_string();
    assert!(refused.contains("spec.nodes[0].labels[rack]") && refused.contains("spec.nodes[2].labels"), "{refused}");
}

/// Catches a page that loses ports where the order of names is not that of nodes and ports: `-` comes before `/`.
#[test]
fn a_node_whose_name_begins_with_another_ones_loses_no_port() {
    let mut spec = fabric(2, 2, 1);
    let renamed = |name: &mut String| *name = name.replace("leaf2", "leaf1-a");
    spec.nodes.iter_mut().for_each(|node| renamed(&mut node.name));
    spec.links.iter_mut().flat_map(|link| [&mut link.a, &mut link.b]).for_each(|end| renamed(&mut end.device));
    let w = World::with(spec);
    let all = links(&w, "", &Troubles::new(), 1000);
    assert_eq!(all[..6], ["leaf1/host1", "leaf1/up1", "leaf1/up2", "leaf1-a/host1", "leaf1-a/up1", "leaf1-a/up2"]);
    for limit in 1..4 {
        assert_eq!(links(&w, "", &Troubles::new(), limit), all, "{limit}");
    }
}

/// Catches a scrape that counts what it leaves out wrongly.
#[test]
fn the_first_links_come_with_how_many_others_there_are() {
    let w = World::with(fabric(2, 2, 1));
    let all = w.domain.all_links(instant(0));
    for most in [0, 3, all.len()] {
        let (first, others) = w.domain.first_links(instant(0), most);
        assert_eq!((first.as_slice(), others), (&all[..most], all.len() - most));
    }
}
