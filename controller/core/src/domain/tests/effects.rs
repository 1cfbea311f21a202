// SPDX-License-Identifier: Apache-2.0
//! The effects of a command, beside what it then does.

use std::collections::BTreeSet;

use canopy_model::drain::DrainSpec;

use super::*;
use crate::effect::{Effect, EffectKind};
use crate::testing::fabric;

fn world() -> World {
    let mut w = World::with(fabric(2, 2, 1));
    w.run(group("g")).unwrap();
    w.run(source("g", "h1-1")).unwrap();
    w.run(receiver("g", "h2-1")).unwrap();
    w.confirm_all();
    w
}

fn effects(w: &World, command: Command) -> Vec<Effect> {
    let prepared = w.domain.prepare(command).unwrap();
    w.domain.effects(&prepared)
}

fn kinds(effects: &[Effect]) -> Vec<(EffectKind, &str)> {
    effects.iter().map(|e| (e.kind, e.name.as_str())).collect()
}

fn nodes(w: &World) -> BTreeSet<String> {
    w.domain.group("g").unwrap().status.tree.into_iter().map(|n| n.node).collect()
}

fn spine(w: &World) -> String {
    nodes(w).into_iter().find(|n| n.starts_with("spine")).unwrap()
}

fn drain(name: &str, node: &str) -> Command {
    let spec = DrainSpec { node: Some(node.to_owned()), reason: "x".into(), ..DrainSpec::default() };
    Command::PutDrain { name: name.into(), labels: Labels::new(), spec, if_match: None, create_only: true }
}

#[test]
fn a_drain_shows_where_a_tree_moves_and_which_stays_for_want_of_another_way() {
    let mut w = world();
    let old = spine(&w);
    let found = effects(&w, drain("x", &old));
    let moves: Vec<&Effect> = found.iter().filter(|e| e.kind == EffectKind::TreeMoves).collect();
    let [moved] = moves[..] else { panic!("{found:?}") };
    assert!(moved.name == "g" && moved.lossless, "{moved:?}");
    // By a command that shares no code with it: the tree that is in force in the end.
    w.run(drain("x", &old)).unwrap();
    w.confirm();
    w.run(Command::FinishMove { group: "g".into() }).unwrap();
    w.confirm();
    let new = spine(&w);
    assert!(moved.from.contains(&format!("{old}/")) && !moved.from.contains(&format!("{new}/")), "{moved:?}");
    assert!(moved.to.contains(&format!("{new}/")) && !moved.to.contains(&format!("{old}/")), "{moved:?}");

    // Both are drained then: one of them is used all the same.
    let found = effects(&w, drain("y", &new));
    let stays: Vec<&Effect> = found.iter().filter(|e| e.kind == EffectKind::TreeStays).collect();
    assert_eq!(stays.len(), 1, "{found:?}");
    w.run(drain("y", &new)).unwrap();
    while w.made().is_some() {
        w.confirm();
        w.run(Command::FinishMove { group: "g".into() }).unwrap();
    }
    assert!(stays[0].name == "g" && stays[0].to.contains(&format!("{}/", spine(&w))), "{stays:?}");
}

/// Catches a drain that passes over trees which it does not change: an operator has to know that they stay.
#[test]
fn a_tree_that_stays_on_a_drained_node_is_found() {
    let mut w = World::with(fabric(2, 1, 1));
    for command in [group("g"), source("g", "h1-1"), receiver("g", "h2-1")] {
        w.run(command).unwrap();
    }
    let found = effects(&w, drain("x", "spine1"));
    assert_eq!(kinds(&found), [(EffectKind::TreeStays, "g")]);
}

#[test]
fn trees_that_start_grow_shrink_and_stop_are_found_and_labels_do_nothing() {
    let mut w = World::with(fabric(2, 1, 2));
    w.run(group("g")).unwrap();
    assert_eq!(effects(&w, source("g", "h1-1")), []);
    w.run(source("g", "h1-1")).unwrap();
    let found = effects(&w, receiver("g", "h1-2"));
    assert_eq!((kinds(&found), found[0].lossless), (vec![(EffectKind::TreeStarts, "g")], true));
    w.run(receiver("g", "h1-2")).unwrap();
    let found = effects(&w, receiver("g", "h2-1"));
    assert_eq!(kinds(&found), [(EffectKind::TreeMoves, "g")]);
    assert!(found[0].lossless && found[0].from.is_empty() && found[0].to.contains("leaf2/"), "{found:?}");
    w.run(receiver("g", "h2-1")).unwrap();
    let found = effects(&w, leave("g", "h2-1"));
    assert!(found[0].lossless && found[0].to.is_empty() && found[0].from.contains("leaf2/"), "{found:?}");
    let found = effects(&w, leave("g", "h1-1"));
    assert_eq!((kinds(&found), found[0].lossless), (vec![(EffectKind::TreeStops, "g")], false));
    assert!(found[0].to.contains("source"), "{found:?}");
    let found = effects(&w, Command::DeleteGroup { name: "g".into() });
    assert_eq!((kinds(&found), found[0].from.as_str()), (vec![(EffectKind::GroupDeleted, "g")], "3 members"));
    let labels = Labels::from([("a".to_owned(), "b".to_owned())]);
    let spec = w.domain.group("g").unwrap().spec;
    let relabel =
        Command::PutGroup { tenant: None, name: "g".into(), labels, spec, if_match: None, create_only: false };
    assert_eq!(effects(&w, relabel), []);
}

#[test]
fn another_topology_has_its_nodes_and_the_worst_first() {
    let w = world();
    let two = spine(&w);
    let mut spec = fabric(2, 3, 1);
    spec.nodes.retain(|n| n.name != two);
    spec.links.retain(|l| l.a.device != two && l.b.device != two);
    let found = effects(&w, topology(spec));
    let all = kinds(&found);
    assert_eq!(all[0], (EffectKind::NodeRemoved, two.as_str()));
    assert!(all.contains(&(EffectKind::NodeAdded, "spine3")), "{all:?}");
    assert!(all.contains(&(EffectKind::NodeChanged, "leaf1")), "{all:?}");
    let moved = found.iter().find(|e| e.kind == EffectKind::TreeMoves).unwrap();
    // Its links are gone: there is nothing to make before it breaks.
    assert!(!moved.lossless && moved.from.contains(&two), "{moved:?}");
    assert!(found.windows(2).all(|pair| pair[0].kind >= pair[1].kind), "{all:?}");
    assert_eq!(effects(&w, topology(fabric(2, 2, 1))), []);
}
