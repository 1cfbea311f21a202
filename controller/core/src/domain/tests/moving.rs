// SPDX-License-Identifier: Apache-2.0
//! A tree moves in two steps if possible, otherwise at once.

use canopy_model::status::GroupPhase;
use canopy_model::topology::LinkDecl;

use super::*;
use crate::condition::{Condition, ConditionKind, ConditionReason, ConditionStatus};
use crate::testing::{fabric, link, node};
use crate::tree::Tree;

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
    for n in d.all_nodes() {
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
fn drained(spec: impl Into<Arc<TopologySpec>>, spine: &str, is: bool) -> Command {
    let mut spec = Arc::unwrap_or_clone(spec.into());
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
    assert_eq!(w.made(), Some(false));
    assert_eq!(w.domain.group("g").unwrap().status.nodes.len(), 4);
    w.confirm_all();
    assert_eq!(w.made(), Some(true));

    w.run(Command::FinishMove { group: "g".into() }).unwrap();
    assert_eq!((w.made(), epoch(&w)), (None, before + 1));
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
    assert_eq!((w.made(), epoch(&w)), (None, before + 1));
    assert_ne!(spine(&w.domain), old);
    assert!(w.run(down(&[&port, "no-such-port"])).unwrap().nodes.is_empty(), "nothing new");
    assert_eq!(epoch(&w), before + 1);
    // A restarted controller keeps the ports without carrier.
    assert_eq!(programs(&w.restarted()), programs(&w.domain));

    w.run(down(&[])).unwrap();
    assert_eq!((w.made(), epoch(&w)), (Some(false), before + 1));
    w.confirm();
    w.run(Command::FinishMove { group: "g".into() }).unwrap();
    assert_eq!((spine(&w.domain), epoch(&w)), (old, before + 2));
}

#[test]
fn a_change_while_the_next_tree_is_made_does_not_end_that() {
    let (mut w, spec) = world();
    let (old, before) = (spine(&w.domain), epoch(&w));
    let new = if old == "spine1" { "spine2" } else { "spine1" };
    let applied = w.run(drained(spec.clone(), &old, true)).unwrap();
    w.run(Command::PutGroup {
        tenant: None,
        name: "g".into(),
        labels: BTreeMap::from([("a".to_owned(), "b".to_owned())]).into_iter().collect(),
        spec: GroupSpec::default(),
        if_match: None,
        create_only: false,
    })
    .unwrap();
    w.run(leave("g", "h2-1")).unwrap();
    assert_eq!(w.made(), None, "without a receiver there is no tree that could move");
    w.run(drained(spec.clone(), &old, false)).unwrap();
    w.run(receiver("g", "h2-1")).unwrap();
    w.confirm_all();
    assert_eq!(spine(&w.domain), old);

    let before = (epoch(&w), before, applied).0;
    let mut more = fabric(2, 2, 2);
    w.run(topology(more.clone())).unwrap();
    assert_eq!((w.made(), epoch(&w)), (None, before), "another host is no move");
    more.links.iter_mut().filter(|l| l.a.device == "leaf1" && l.b.device == old).for_each(|l| l.drained = true);
    w.run(topology(more.clone())).unwrap();
    let since = w.domain.moving("g").unwrap().since;
    w.run(receiver("g", "h2-2")).unwrap();
    assert_eq!(w.domain.moving("g").unwrap().since, since, "the same move");
    assert_eq!(epoch(&w), before + 1);
    let p = programs(&w.domain);
    assert_eq!(p["leaf1"].iter().map(|b| b.1).collect::<Vec<_>>(), [false, true]);
    assert_eq!(p["leaf2"].iter().map(|b| b.1).collect::<Vec<_>>(), [false, false]);
    assert!(p[new].iter().all(|b| b.1));

    // A controller that restarts continues; one of a version that finds no tree in the records moves at once, in an epoch in which no
    // node has been.
    let again = w.restarted();
    assert_eq!(again.group("g").unwrap().status.epoch, before + 1);
    assert!(again.moving("g").is_some());
    assert_eq!(programs(&again), programs(&w.domain));
    let again = w.restarted_by_a_version_without_trees();
    assert_eq!((again.group("g").unwrap().status.epoch, again.moving("g")), (before + 2, None));
    let since = |d: &Domain, node: &str| d.node_spec(node).unwrap().groups.values().next().unwrap().branches[0].since;
    assert_eq!((since(&again, "leaf1"), since(&again, new)), (before + 2, before + 2));

    // The link is back before the next tree was made: nothing moves.
    let mut back = w.clone();
    more.links.iter_mut().for_each(|l| l.drained = false);
    back.run(topology(more)).unwrap();
    assert_eq!((back.made(), epoch(&back)), (None, before + 1));
    assert_eq!(spine(&back.domain), old);
    assert!(programs(&back.domain).values().flatten().all(|b| !b.1));

    w.confirm();
    w.run(Command::FinishMove { group: "g".into() }).unwrap();
    assert_eq!((spine(&w.domain).as_str(), epoch(&w)), (new, before + 2));
    assert_eq!(programs(&w.restarted()), programs(&w.domain));
}

/// The condition of a kind of `g`.
fn condition(w: &World, kind: ConditionKind) -> Condition {
    w.domain.group("g").unwrap().status.conditions.into_iter().find(|c| c.kind == kind).unwrap()
}

/// A node confirms its spec, with an error or without.
fn confirm(w: &mut World, node: &str, error: Option<ItemError>) {
    w.domain.agent_connected(node);
    let generation = w.domain.node(node).unwrap().spec.generation;
    w.domain.report(reported(node, generation, error.into_iter().collect())).unwrap();
}

#[test]
fn a_tree_moves_only_when_every_node_of_the_next_one_has_confirmed_it_without_an_error() {
    let (mut w, spec) = world();
    let (old, before) = (spine(&w.domain), epoch(&w));
    let new = if old == "spine1" { "spine2" } else { "spine1" };
    w.domain.agent_gone(&old, instant(0));
    w.run(drained(spec, &old, true)).unwrap();
    let since = w.domain.moving("g").unwrap().since;
    let id = w.domain.group("g").unwrap().status.group_id;
    let refusal = ItemError { kind: ItemKind::Group, name: "g".into(), group: Some(id), detail: "no memory".into() };
    confirm(&mut w, "leaf1", None);
    confirm(&mut w, "leaf2", None);
    assert_eq!(w.made(), Some(false));
    let c = condition(&w, ConditionKind::Moved);
    assert_eq!((c.status, c.reason), (ConditionStatus::False, ConditionReason::Making));
    assert!(c.message.starts_with(&format!("node {new} has not confirmed its program; ")), "{}", c.message);
    confirm(&mut w, new, Some(refusal.clone()));
    assert_eq!(w.made(), Some(false), "a node that refuses its program has not confirmed it");
    assert!(w.run(Command::FinishMove { group: "g".into() }).unwrap().nodes.is_empty());
    assert_eq!(condition(&w, ConditionKind::Healthy).status, ConditionStatus::True, "the tree in force is whole");

    // What is wrong with a host behind a node does not hold the move up.
    let port = |kind, name: &str| ItemError { kind, name: name.into(), group: None, detail: "silent".into() };
    let mut elsewhere = w.clone();
    confirm(&mut elsewhere, new, None);
    assert_eq!(elsewhere.made(), Some(true), "the node that the tree leaves need not confirm");
    for kind in [ItemKind::Link, ItemKind::Port] {
        confirm(&mut elsewhere, "leaf2", Some(port(kind, "host1")));
        assert_eq!(elsewhere.made(), Some(true));
        confirm(&mut elsewhere, "leaf2", Some(port(kind, &format!("up{}", &new[5..]))));
        assert_eq!(elsewhere.made(), Some(false), "the port of the next tree");
    }
    let silent = ItemError { group: Some(id), ..port(ItemKind::Neighbour, "host1/2001:db8::1") };
    confirm(&mut elsewhere, "leaf2", Some(silent));
    assert_eq!(elsewhere.made(), Some(true));

    let give_up = |since| Command::GiveUpMove { group: "g".into(), since };
    assert!(w.run(give_up(since + 1)).unwrap().nodes.is_empty(), "another move");
    w.run(give_up(since)).unwrap();
    assert_eq!((w.made(), epoch(&w), spine(&w.domain)), (None, before, old.clone()));
    assert_eq!(programs(&w.domain).len(), 3);
    assert!(programs(&w.domain).values().flatten().all(|b| !b.1));
    let leaf2 = w.domain.node_spec("leaf2").unwrap().groups.values().next().unwrap().clone();
    assert_eq!(leaf2.alternate_upstream, None);
    assert_eq!(w.domain.given_up_because_of("g"), Some(new));
    let c = condition(&w, ConditionKind::Moved);
    assert_eq!((c.status, c.reason), (ConditionStatus::False, ConditionReason::GivenUp));
    assert!(c.message.contains(&format!("node {new}: group g: no memory")), "{}", c.message);
    assert_eq!(w.domain.group("g").unwrap().status.phase, GroupPhase::Degraded);

    // Receivers still leave the tree in force.
    w.run(leave("g", "h2-1")).unwrap();
    let mut w = {
        let (mut w, spec) = world();
        w.run(drained(spec, &old, true)).unwrap();
        let since = w.domain.moving("g").unwrap().since;
        w.run(give_up(since)).unwrap();
        w
    };
    assert!(w.run(Command::RetryMove { group: "other".into() }).is_err());
    w.run(Command::RetryMove { group: "g".into() }).unwrap();
    assert_eq!(w.made(), Some(false));
    assert!(w.domain.moving("g").unwrap().since > since);
    w.confirm();
    assert!(w.run(give_up(w.domain.moving("g").unwrap().since)).unwrap().nodes.is_empty(), "every node confirmed");
    w.run(Command::FinishMove { group: "g".into() }).unwrap();
    assert_eq!((spine(&w.domain).as_str(), epoch(&w)), (new, before + 1));
    assert!(w.run(Command::RetryMove { group: "g".into() }).unwrap().nodes.is_empty(), "it has moved");
    assert_eq!(condition(&w, ConditionKind::Moved).reason, ConditionReason::InForce);
}

#[test]
fn another_mtu_and_another_node_move_a_tree_in_two_steps() {
    let (mut w, mut spec) = world();
    let (old, before) = (spine(&w.domain), epoch(&w));
    // A node that is declared before all others has the index of the first.
    spec.nodes.insert(0, node("spine3", 0x103));
    spec.links.push(link("spine3/down9", "spine1/cross"));
    w.run(topology(spec.clone())).unwrap();
    assert_eq!((w.made(), epoch(&w)), (None, before), "no program changes");
    w.confirm_all();
    let used = |l: &&mut LinkDecl| l.a.device == "leaf1" && l.b.device == old;
    spec.links.iter_mut().filter(used).for_each(|l| (l.drained, l.mtu) = (true, l.mtu - 1));
    spec.nodes.insert(0, node("spine4", 0x104));
    w.run(topology(spec.clone())).unwrap_err();
    spec.links.push(link("spine4/down9", "spine1/cross2"));
    w.run(topology(spec.clone())).unwrap();
    assert_eq!((w.made(), epoch(&w)), (Some(false), before));
    w.confirm();
    w.run(Command::FinishMove { group: "g".into() }).unwrap();
    assert_eq!(epoch(&w), before + 1);
    assert_ne!(spine(&w.domain), old);

    // A link that packets do not fit any longer cannot carry: the tree leaves it at once.
    let (mut w, mut spec) = world();
    let small = GroupSpec::default().path_mtu + 100;
    spec.links.iter_mut().filter(used).for_each(|l| (l.drained, l.mtu) = (true, small));
    w.run(topology(spec)).unwrap();
    assert_eq!((w.made(), epoch(&w)), (None, before + 1));
    assert_ne!(spine(&w.domain), old);
}

/// Specs without term and generation.
fn contents(d: &Domain) -> Vec<String> {
    let specs = d.all_nodes().into_iter().map(|n| d.node_spec(&n.name).unwrap());
    specs.map(|s| format!("{:?} {:?}", s.base, s.groups)).collect()
}

#[test]
fn a_controller_that_restarts_continues_the_move_that_it_finds() {
    let (mut w, spec) = world();
    let (old, before) = (spine(&w.domain), epoch(&w));
    let new = if old == "spine1" { "spine2" } else { "spine1" };
    w.run(drained(spec.clone(), &old, true)).unwrap();
    let mut again = World { domain: w.restarted(), records: w.records.clone() };
    assert_eq!((again.made(), epoch(&again)), (Some(false), before));
    assert_eq!(contents(&again.domain), contents(&w.domain));
    // Also after changes of the group and of another link.
    for w in [&mut w, &mut again] {
        w.run(Command::PortsDown { node: "leaf2".into(), ports: ["host1".to_owned()].into() }).unwrap();
        w.run(group("other")).unwrap();
    }
    assert_eq!(contents(&again.restarted()), contents(&w.domain));
    again.confirm();
    again.run(Command::FinishMove { group: "g".into() }).unwrap();
    assert_eq!((spine(&again.domain).as_str(), epoch(&again)), (new, before + 1));
    assert_eq!(contents(&again.restarted()), contents(&again.domain));

    // A move that was given up is tried again.
    let since = w.domain.moving("g").unwrap().since;
    w.run(Command::GiveUpMove { group: "g".into(), since }).unwrap();
    let mut again = World { domain: w.restarted(), records: w.records.clone() };
    assert_eq!((again.made(), epoch(&again)), (Some(false), before));
    assert_eq!(programs(&again.domain)["leaf1"].iter().map(|b| b.1).collect::<Vec<_>>(), [false, true]);
    assert!(again.run(receiver("g", "h1-1")).is_err());
}

#[test]
fn a_move_that_follows_on_one_at_once_is_found_in_the_topologys_record() {
    let (mut w, _) = world();
    let (old, before) = (spine(&w.domain), epoch(&w));
    let down = |ports: &[String]| Command::PortsDown { node: "leaf1".into(), ports: ports.iter().cloned().collect() };
    w.run(down(&[format!("up{}", &old[5..])])).unwrap();
    assert_eq!((w.made(), epoch(&w)), (None, before + 1));
    assert_eq!(contents(&w.restarted()), contents(&w.domain));
    w.run(down(&[])).unwrap();
    assert_eq!((w.made(), epoch(&w)), (Some(false), before + 1));
    let again = w.restarted();
    assert_eq!(contents(&again), contents(&w.domain));
    assert!(again.moving("g").is_some());
    let again = w.restarted_by_a_version_without_trees();
    assert_eq!((again.group("g").unwrap().status.epoch, again.moving("g")), (before + 2, None));
}

#[test]
fn a_tree_of_another_planner_is_in_force_until_the_next_one_is_made() {
    let (w, _) = world();
    let (old, before) = (spine(&w.domain), epoch(&w));
    let new = if old == "spine1" { "spine2" } else { "spine1" };
    let mut records = w.records.clone();
    let foreign = |port: &str| crate::testing::endpoint(port);
    let Some(Record::Group(record)) = records.get_mut("group/g") else { panic!() };
    let tree = record.tree.as_mut().unwrap();
    tree.uplinks = vec![foreign(&format!("{new}/down1")), foreign(&format!("leaf2/up{}", &new[5..]))];
    let mut again = World { domain: restored(records.clone()).unwrap(), records: records.clone() };
    assert_eq!((again.made(), epoch(&again)), (Some(false), before));
    let p = programs(&again.domain);
    assert_eq!((p["leaf1"][0].1, p["leaf1"][1].1, p[new][0].1, p[&old][0].1), (false, true, false, true));
    again.confirm();
    again.run(Command::FinishMove { group: "g".into() }).unwrap();
    assert_eq!((spine(&again.domain), epoch(&again)), (old.clone(), before + 1));

    // Of one that topology changes moved, only a digest is known.
    let mut w = w;
    let ports = [format!("up{}", &old[5..])].into();
    w.run(Command::PortsDown { node: "leaf1".into(), ports }).unwrap();
    assert_eq!(w.restarted().group("g").unwrap().status.epoch, before + 1);
    let mut records = w.records.clone();
    let Some(Record::Topology(record)) = records.get_mut("topology/default") else { panic!() };
    record.digests.values_mut().for_each(|digest| *digest += 1);
    let again = restored(records).unwrap();
    let since = |node: &str| again.node_spec(node).unwrap().groups.values().next().unwrap().branches[0].since;
    assert_eq!(
        (again.group("g").unwrap().status.epoch, since("leaf1"), since(new)),
        (before + 2, before + 2, before + 2)
    );
}

/// Catches a tree of an earlier version of which only the digest is known, and that a new version moves at once, with a pause.
#[test]
fn a_tree_that_an_earlier_version_moved_is_found_by_its_digest_and_moved_in_two_steps() {
    let mut seen = 0;
    for i in 0..8 {
        let mut w = World::with(fabric(2, 3, 1));
        // The tree's number is that of the group's Proxy Address: it differs with every group.
        (0..i).for_each(|i| _ = w.run(group(&format!("other{i}"))).unwrap());
        w.run(group("g")).unwrap();
        w.run(source("g", "h1-1")).unwrap();
        w.run(receiver("g", "h2-1")).unwrap();
        w.confirm_all();
        let first = format!("up{}", &spine(&w.domain)[5..]);
        w.run(ports_down("leaf1", &[&first])).unwrap();
        w.confirm_all();
        let before = epoch(&w);
        let network = w.domain.state.network().unwrap();
        let [leaf1, leaf2] = ["leaf1", "leaf2"].map(|name| network.node(name).unwrap());
        let allocation = w.domain.state.groups.get("g").unwrap().allocation;
        let earlier = Tree::covering(network, allocation.tree_id, leaf1, [leaf2]).unwrap();
        let (old, new) = (network.name(earlier.node(1).node).to_owned(), spine(&w.domain));
        if old == new {
            continue;
        }
        seen += 1;
        let mut records = w.records.clone();
        let Some(Record::Topology(record)) = records.get_mut("topology/default") else { panic!() };
        assert!(record.digests.insert(allocation.group_id.get(), earlier.digest(network)).is_some());
        let mut again = World { domain: restored(records.clone()).unwrap(), records };
        assert_eq!((again.made(), epoch(&again)), (Some(false), before));
        let p = programs(&again.domain);
        assert_eq!(p["leaf1"].iter().map(|b| b.1).collect::<Vec<_>>(), [false, true]);
        assert_eq!((p[&old][0].1, p[&new][0].1), (false, true));
        again.confirm();
        again.run(Command::FinishMove { group: "g".into() }).unwrap();
        assert_eq!((spine(&again.domain), epoch(&again)), (new, before + 1));
    }
    assert!(seen > 0);
}

/// Catches a group that waits to move to the tree that it has: the receiver that it was for has left.
#[test]
fn a_move_ends_when_the_tree_in_force_is_the_wanted_one() {
    for is_given_up in [false, true] {
        let mut w = World::with(fabric(3, 2, 1));
        w.run(group("g")).unwrap();
        for command in [source("g", "h1-1"), receiver("g", "h2-1"), receiver("g", "h3-1")] {
            w.run(command).unwrap();
        }
        w.confirm_all();
        let (old, before) = (spine(&w.domain), epoch(&w));
        let mut spec = Arc::unwrap_or_clone(w.domain.topology().unwrap().spec);
        let of_leaf3 = spec.links.iter_mut().find(|l| l.a.device == "leaf3" && l.b.device == old);
        of_leaf3.unwrap().drained = true;
        w.run(topology(spec)).unwrap();
        assert_eq!((w.made(), epoch(&w)), (Some(false), before));
        if is_given_up {
            let since = w.domain.moving("g").unwrap().since;
            w.run(Command::GiveUpMove { group: "g".into(), since }).unwrap();
        }
        w.run(leave("g", "h3-1")).unwrap();
        assert_eq!((w.made(), spine(&w.domain)), (None, old));
        assert!(w.domain.given_up_because_of("g").is_none());
        assert_eq!(contents(&w.restarted()), contents(&w.domain), "given up: {is_given_up}");
    }
}

#[test]
fn what_changes_elsewhere_gives_a_move_no_more_time_and_no_other_try() {
    let mut w = World::with(fabric(3, 2, 1));
    w.run(group("g")).unwrap();
    w.run(source("g", "h1-1")).unwrap();
    w.run(receiver("g", "h2-1")).unwrap();
    w.confirm_all();
    let (old, spec) = (spine(&w.domain), w.domain.topology().unwrap().spec);
    w.run(drained(spec.clone(), &old, true)).unwrap();
    let since = w.domain.moving("g").unwrap().since;
    let flap = |w: &mut World, down: &[&str]| {
        let ports = down.iter().map(|p| (*p).to_owned()).collect();
        w.run(Command::PortsDown { node: "leaf3".into(), ports }).unwrap();
    };
    for down in [&["up1"][..], &[], &["up2"], &[]] {
        flap(&mut w, down);
        assert_eq!(w.domain.moving("g").map(|m| m.since), Some(since), "{down:?}");
    }
    w.run(Command::GiveUpMove { group: "g".into(), since }).unwrap();
    let node = w.domain.given_up_because_of("g").unwrap().to_owned();
    for down in [&["up1"][..], &[]] {
        flap(&mut w, down);
        assert_eq!(w.domain.given_up_because_of("g"), Some(node.as_str()), "{down:?}");
        assert_eq!(w.made(), None);
    }
    // Another next tree is another move.
    w.run(drained(spec, &old, false)).unwrap();
    assert_eq!((w.made(), w.domain.given_up_because_of("g")), (None, None));
}

#[test]
fn a_tree_in_force_waits_for_the_only_link_to_a_node_and_no_new_one_leads_over_it() {
    let mut w = World::with(fabric(3, 1, 2));
    w.run(group("g")).unwrap();
    w.run(source("g", "h1-1")).unwrap();
    w.run(receiver("g", "h2-1")).unwrap();
    w.confirm_all();
    let before = (programs(&w.domain), epoch(&w));
    let down = |node: &str, ports: &[&str]| Command::PortsDown {
        node: node.into(),
        ports: ports.iter().map(|p| (*p).to_owned()).collect(),
    };
    w.run(down("leaf2", &["up1"])).unwrap();
    assert_eq!((programs(&w.domain), epoch(&w)), before, "static forwarding");
    let c = condition(&w, ConditionKind::Moved);
    assert_eq!((c.status, c.reason), (ConditionStatus::False, ConditionReason::Infeasible));
    assert!(c.message.contains("leaf2") && c.message.contains("leaf2/up1"), "{}", c.message);
    assert_eq!(w.domain.group("g").unwrap().status.phase, GroupPhase::Degraded);
    assert_eq!(programs(&w.restarted()), before.0);
    // Others still join and leave; a receiver that cannot be reached is refused, because it would stop them.
    w.run(receiver("g", "h3-1")).unwrap();
    w.run(leave("g", "h3-1")).unwrap();
    w.run(receiver("g", "h3-1")).unwrap();
    w.run(leave("g", "h2-1")).unwrap();
    let mut without = w.clone();
    without.confirm();
    without.run(Command::FinishMove { group: "g".into() }).unwrap();
    assert_eq!(condition(&without, ConditionKind::Moved).reason, ConditionReason::InForce);
    let e = without.problem(receiver("g", "h2-1"));
    assert!(e.starts_with("InUse") && e.contains("leaf2/up1"), "{e}");

    // Nor does a host move behind the link.
    let mut spec = Arc::unwrap_or_clone(without.domain.topology().unwrap().spec);
    spec.links.iter_mut().filter(|l| l.b.device == "h3-1").for_each(|l| l.a = crate::testing::endpoint("leaf2/moved"));
    let e = without.problem(topology(spec));
    assert!(e.starts_with("InUse") && e.contains("leaf2/up1"), "{e}");

    // A group without a tree waits for the link, and gets its tree without any further command.
    w.run(group("new")).unwrap();
    w.run(receiver("new", "h2-2")).unwrap();
    w.run(source("new", "h1-2")).unwrap();
    let status = |d: &Domain| d.group("new").unwrap().status;
    let s = status(&w.domain);
    assert!(s.phase == GroupPhase::Degraded && s.tree.is_empty() && s.reason.contains("leaf2/up1"), "{}", s.reason);
    assert_eq!(status(&w.restarted()).reason, s.reason);
    w.run(down("leaf2", &[])).unwrap();
    assert_eq!((status(&w.domain).phase, status(&w.domain).tree.len()), (GroupPhase::Programming, 3));
    assert_eq!(programs(&w.restarted()), programs(&w.domain));
    let e = w.problem(down("leaf9", &[]));
    assert!(e.contains("leaf9"), "{e}");
}

#[test]
fn a_group_that_broken_links_left_without_a_tree_starts_over_when_one_is_mended() {
    let mut spec = fabric(2, 2, 1);
    spec.links.iter_mut().filter(|l| l.b.device == "spine2").for_each(|l| l.mtu = 1500);
    spec.links.iter_mut().filter(|l| l.a.device == "leaf2" && l.b.device == "spine2").for_each(|l| l.drained = true);
    let mut w = World::with(spec);
    w.run(group("g")).unwrap();
    w.run(source("g", "h1-1")).unwrap();
    w.run(receiver("g", "h2-1")).unwrap();
    w.confirm_all();
    let before = epoch(&w);
    let down = |ports: &[&str]| Command::PortsDown {
        node: "leaf2".into(),
        ports: ports.iter().map(|p| (*p).to_owned()).collect(),
    };
    w.run(down(&["up1"])).unwrap();
    assert!(programs(&w.domain).is_empty());
    assert_eq!((condition(&w, ConditionKind::Planned).reason, epoch(&w)), (ConditionReason::Infeasible, before + 1));
    w.run(down(&[])).unwrap();
    assert_eq!((w.made(), epoch(&w)), (None, before + 2));
    let since = |d: &Domain, node: &str| d.node_spec(node).unwrap().groups.values().next().unwrap().branches[0].since;
    assert_eq!((since(&w.domain, "leaf1"), since(&w.domain, "spine1")), (before + 2, before + 2));
    let again = w.restarted();
    assert_eq!((since(&again, "leaf1"), since(&again, "spine1")), (before + 2, before + 2));
}
