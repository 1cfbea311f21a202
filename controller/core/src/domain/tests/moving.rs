// SPDX-License-Identifier: Apache-2.0
//! A tree moves in two steps if possible, otherwise at once.

use super::*;
use crate::testing::fabric;

/// Two leaves, two spines, a source behind the first leaf and a receiver behind the second.
fn world() -> (World, TopologySpec) {
    let spec = fabric(2, 2, 1);
    let mut w = World::with(spec.clone());
    w.run(group("g")).unwrap();
    w.run(source("g", "h1-1")).unwrap();
    w.run(receiver("g", "h2-1")).unwrap();
    w.confirm_all();
    (w, spec)
}

/// Nodes with a program of `g`, each with its branches' addresses and whether they are staged.
fn programs(d: &Domain) -> BTreeMap<String, Vec<(String, bool)>> {
    let mut out = BTreeMap::new();
    for n in d.nodes() {
        if let Some(p) = d.node_spec(&n.name).unwrap().groups.values().next() {
            out.insert(n.name, p.branches.iter().map(|b| (b.address.to_string(), b.standby)).collect());
        }
    }
    out
}

fn spine(d: &Domain) -> String {
    programs(d).into_keys().find(|n| n.starts_with("spine")).unwrap()
}

/// The link from leaf1 to `spine`, drained or not.
fn drained(mut spec: TopologySpec, spine: &str, is: bool) -> Command {
    spec.links.iter_mut().filter(|l| l.a.device == "leaf1" && l.b.device == spine).for_each(|l| l.drained = is);
    topology(spec)
}

fn epoch(w: &World) -> u32 {
    w.domain.group("g").unwrap().status.epoch
}

#[test]
fn a_drained_link_is_left_after_the_new_tree_was_made() {
    let (mut w, spec) = world();
    let (old, before) = (spine(&w.domain), epoch(&w));
    let new = if old == "spine1" { "spine2" } else { "spine1" };
    w.run(drained(spec, &old, true)).unwrap();
    assert_eq!(epoch(&w), before, "the epoch does not change yet");
    let p = programs(&w.domain);
    assert_eq!(p["leaf1"].iter().map(|b| b.1).collect::<Vec<_>>(), [false, true]);
    assert_eq!(p[new].iter().map(|b| b.1).collect::<Vec<_>>(), [true]);
    assert_eq!(p[&old].iter().map(|b| b.1).collect::<Vec<_>>(), [false]);
    let leaf2 = w.domain.node_spec("leaf2").unwrap().groups.values().next().unwrap().clone();
    assert!(leaf2.alternate_upstream.is_some_and(|p| p != leaf2.upstream.port));
    assert_eq!(w.domain.is_made("g"), Some(false));
    assert_eq!(w.domain.group("g").unwrap().status.nodes.len(), 4);
    w.confirm_all();
    assert_eq!(w.domain.is_made("g"), Some(true));

    w.run(Command::FinishMove { group: "g".into() }).unwrap();
    assert_eq!((w.domain.is_made("g"), epoch(&w)), (None, before + 1));
    let p = programs(&w.domain);
    assert_eq!(p.keys().map(String::as_str).collect::<Vec<_>>(), ["leaf1", "leaf2", new]);
    assert!(p.values().flatten().all(|b| !b.1));
    let since = |node: &str| w.domain.node_spec(node).unwrap().groups.values().next().unwrap().branches[0].since;
    assert_eq!((since("leaf1"), since(new)), (before + 1, before + 1), "children send their state again");
    assert_eq!(since("leaf2"), 3, "the receiver stayed where it was");
    assert!(w.run(Command::FinishMove { group: "g".into() }).unwrap().nodes.is_empty(), "once is enough");
}

#[test]
fn a_broken_link_is_left_at_once_and_a_mended_one_taken_back_in_two_steps() {
    let (mut w, _) = world();
    let (old, before) = (spine(&w.domain), epoch(&w));
    let port = format!("up{}", &old[5..]);
    let down = |ports: &[&str]| Command::PortsDown {
        node: "leaf1".into(),
        ports: ports.iter().map(|p| (*p).to_owned()).collect(),
    };
    w.run(down(&[&port])).unwrap();
    assert_eq!((w.domain.is_made("g"), epoch(&w)), (None, before + 1));
    assert_ne!(spine(&w.domain), old);
    assert!(w.run(down(&[&port, "no-such-port"])).unwrap().nodes.is_empty(), "nothing new");
    assert_eq!(epoch(&w), before + 1);
    // A restarted controller keeps the ports without carrier.
    assert_eq!(programs(&w.restarted()), programs(&w.domain));

    w.run(down(&[])).unwrap();
    assert_eq!((w.domain.is_made("g"), epoch(&w)), (Some(false), before + 1));
    w.run(Command::FinishMove { group: "g".into() }).unwrap();
    assert_eq!((spine(&w.domain), epoch(&w)), (old, before + 2));
}

/// Such a child may still wait for a message, and then gets no copies: those of a staged tree would start its receivers before their
/// branch counts. Found by `canopy-sim`.
#[test]
fn a_tree_that_has_a_child_with_late_receivers_only_moves_at_once() {
    let spec = fabric(3, 2, 1);
    let mut w = World::with(spec.clone());
    w.run(group("g")).unwrap();
    w.run(source("g", "h1-1")).unwrap();
    w.run(receiver("g", "h2-1")).unwrap();
    w.confirm_all();
    let mut in_time = w.clone();
    w.run(receiver("g", "h3-1")).unwrap();
    w.confirm_all();
    let (old, before) = (spine(&w.domain), epoch(&w));
    w.run(drained(spec.clone(), &old, true)).unwrap();
    assert_eq!((w.domain.is_made("g"), epoch(&w)), (None, before + 1));
    in_time.run(drained(spec, &old, true)).unwrap();
    assert_eq!(in_time.domain.is_made("g"), Some(false), "without the late receiver it is staged");
}

#[test]
fn a_change_while_the_new_tree_is_made_moves_at_once() {
    let (mut w, spec) = world();
    let (old, before) = (spine(&w.domain), epoch(&w));
    w.run(drained(spec.clone(), &old, true)).unwrap();
    let update = |label: &str| Command::PutGroup {
        name: "g".into(),
        labels: BTreeMap::from([("a".to_owned(), label.to_owned())]).into_iter().collect(),
        spec: GroupSpec::default(),
        if_match: None,
        create_only: false,
    };
    let mut labelled = w.clone();
    labelled.run(update("b")).unwrap();
    assert_eq!((labelled.domain.is_made("g"), epoch(&labelled)), (None, before + 1));
    assert_ne!(spine(&labelled.domain), old);
    // The link is back before the old tree was removed: a move of its own, in a new epoch.
    w.run(drained(spec, &old, false)).unwrap();
    assert_eq!((w.domain.is_made("g"), epoch(&w)), (None, before + 1));
    assert_eq!(spine(&w.domain), old);
    assert!(programs(&w.domain).values().flatten().all(|b| !b.1));
}

#[test]
fn a_node_behind_nothing_but_a_broken_link_waits_for_it() {
    let mut w = World::with(fabric(2, 1, 1));
    w.run(group("g")).unwrap();
    w.run(source("g", "h1-1")).unwrap();
    w.run(receiver("g", "h2-1")).unwrap();
    let before = (programs(&w.domain), epoch(&w));
    w.run(Command::PortsDown { node: "leaf1".into(), ports: ["up1".to_owned()].into() }).unwrap();
    assert_eq!((programs(&w.domain), epoch(&w)), before, "static forwarding");
    let e = w.problem(Command::PortsDown { node: "leaf9".into(), ports: Default::default() });
    assert!(e.contains("leaf9"), "{e}");
}
