// SPDX-License-Identifier: Apache-2.0
//! A link that goes out of service or comes back concerns the groups and nodes that use it, or could. What becomes of them, and of all
//! others, is what planning everything over the network from scratch gives.

use std::collections::BTreeSet;
use std::sync::Arc;

use canopy_model::drain::DrainSpec;
use canopy_model::ids::GroupId;
use canopy_model::retirement::RetireSpec;

use super::*;
use crate::DesiredNode;
use crate::domain::change::{Effect, LinksEffect, TopologyEffect};
use crate::domain::replan::Replanner;
use crate::hash::mix;
use crate::resource::{GroupState, Topology};
use crate::retirement::{RetireStep, left};
use crate::routes::node_base;
use crate::testing::clos::clos;
use crate::testing::{fabric, host, link, random_graph};
use crate::topology::{Difference, Network, NodeIx};

const GROUPS: u64 = 6;

/// Numbers that a seed determines.
struct Dice(u64, u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.1 += 1;
        mix(self.0, self.1) % n
    }
}

/// A random network, or a fabric with equal paths, in which every node of the first few has hosts.
fn network(dice: &mut Dice) -> (TopologySpec, u64) {
    if dice.below(2) == 0 {
        return (fabric(5, 3, 2), 10);
    }
    let parents: Vec<usize> = (0..6 + dice.below(8)).map(|_| dice.below(1 << 40) as usize).collect();
    let some = |dice: &mut Dice| (dice.below(1 << 40) as usize, dice.below(1 << 40) as usize);
    let extra: Vec<(usize, usize)> = (0..4 + dice.below(14)).map(|_| some(dice)).collect();
    let mut t = random_graph(&parents, &extra);
    for h in 0..10 {
        t.hosts.push(host(&format!("h{}-{}", h / 2 + 1, h % 2 + 1), h + 1));
        t.links.push(link(
            &format!("n{}/h{h}", usize::from(h) % t.nodes.len()),
            &format!("h{}-{}/eth0", h / 2 + 1, h % 2 + 1),
        ));
    }
    (t, 10)
}

fn a_command(w: &World, dice: &mut Dice, hosts: u64) -> Command {
    let group = format!("g{}", dice.below(GROUPS));
    let h = dice.below(hosts);
    let host = format!("h{}-{}", h / 2 + 1, h % 2 + 1);
    let names: Vec<String> = w.domain.state.nodes.iter().map(|n| n.spec.base.name.clone()).collect();
    let node = names[dice.below(names.len() as u64) as usize].clone();
    let put_drain = |spec: DrainSpec| Command::PutDrain {
        name: "d".into(),
        labels: Labels::new(),
        spec: DrainSpec { accept_loss: true, ..spec },
        if_match: None,
        create_only: false,
    };
    match dice.below(23) {
        0..4 => receiver(&group, &host),
        4 => source(&group, &host),
        5 => leave(&group, &host),
        6 => Command::OpenGroup { group },
        7 => Command::FinishMove { group },
        8 => {
            let since = w.domain.moving(&group).map_or(0, |m| m.since);
            Command::GiveUpMove { group, since }
        }
        9 => put_drain(DrainSpec { node: Some(node), ..DrainSpec::default() }),
        10 => {
            let links = &w.domain.state.network().unwrap().spec.links;
            let link = links[dice.below(links.len() as u64) as usize].label();
            put_drain(DrainSpec { link: Some(link), ..DrainSpec::default() })
        }
        11 => Command::DeleteDrain { name: "d".into() },
        // Nodes leave for good, and come back.
        12 => Command::Retire {
            node,
            spec: RetireSpec { accept_loss: true, without_agent: true, ..RetireSpec::default() },
        },
        13 => match w.domain.state.retirements.values().next() {
            Some(of) if of.reached.step == RetireStep::Revoking => {
                Command::NodeRevoked { node: of.node.clone(), retirement: of.id }
            }
            Some(of) => Command::CancelRetirement { node: of.node.clone() },
            None => Command::AdvanceRetirements,
        },
        14 => Command::AdvanceRetirements,
        15 => Command::DeleteGroup { name: group },
        16 => super::group(&group),
        17 => {
            let mut spec = Arc::unwrap_or_clone(w.domain.topology().unwrap().spec);
            let at = dice.below(spec.links.len() as u64) as usize;
            spec.links[at].drained = dice.below(3) == 0;
            topology(spec)
        }
        _ => {
            let ports = w.domain.state.node(&node).unwrap().spec.base.ports.clone();
            let few = dice.below(3);
            let down = ports.into_iter().filter(|_| few > 0 && dice.below(3) == 0).map(|p| p.name);
            Command::PortsDown { node, ports: down.collect() }
        }
    }
}

/// The domain `before` with everything planned over the network of `after`.
fn from_scratch(before: &Domain, after: &Domain) -> Domain {
    let mut all = before.clone();
    let t = after.state.topology.clone().unwrap();
    let (spec, plan) = (TopologySpec::clone(&t.network.spec), &before.state.addresses);
    let network =
        Network::build_around(spec, plan, &t.down, &after.state.drains.targets(), &left(&after.state.retirements))
            .unwrap();
    let replanner = Replanner::new(&before.state, &network);
    let replans = replanner.all(|_, _, e| Ok(e.to_string())).unwrap();
    let unrecorded = replanner.unrecorded(&replans);
    let base = |node| before.state.with_thresholds(node_base(&network, plan, None, node));
    let bases = (0..network.len()).map(base).collect();
    let topology = Some(Topology { network: Arc::new(network), ..t });
    all.state.revision += 1;
    all.state.apply_topology(TopologyEffect { topology, bases, replans, unrecorded });
    all
}

/// The groups that may be planned again, of all, and for gained links by all pairs of a root and a node.
fn stated(before: &Domain, new: &Network, difference: &Difference, drained: bool) -> BTreeSet<String> {
    let far = |a: NodeIx, b: NodeIx| new.sound_distances(a, |_| false).0[b];
    let groups = before.state.groups.iter().filter(|(_, group)| {
        if group.behind.is_some() || matches!(group.state, GroupState::Infeasible(_)) || drained {
            return true;
        }
        let Some(plan) = group.plan() else { return false };
        let root = plan.tree.root();
        let over_lost = plan.tree.nodes().filter_map(|t| t.parent).any(|up| difference.lost.contains(&up.link));
        let gained: Vec<[NodeIx; 2]> = difference.gained.iter().filter_map(|link| new.ends(*link)).collect();
        over_lost
            || plan.tree.nodes().any(|t| {
                let (at, direct) = (t.node, far(root, t.node));
                let via = |a, b| far(root, a).saturating_add(1).saturating_add(far(b, at));
                // A node that a lost link has moved away is on a tree that leads over it.
                gained.iter().any(|[a, b]| via(*a, *b) <= direct || via(*b, *a) <= direct)
            })
    });
    groups.map(|(name, _)| name.to_owned()).collect()
}

/// The prepared effect of a change of links.
fn effect(prepared: &crate::Prepared) -> Option<&LinksEffect> {
    match &prepared.effect {
        Effect::Links(effect) => Some(effect),
        _ => None,
    }
}

fn groups_text(d: &Domain) -> BTreeMap<String, String> {
    d.state.groups.iter().map(|(name, group)| (name.to_owned(), format!("{group:?}"))).collect()
}

/// Catches a group or node that a change of links passes over, one that it changes without need, and an index that is not kept by a join, a
/// leave, a move or a change before.
#[test]
fn every_change_of_links_gives_what_planning_from_scratch_gives() {
    let (mut events, mut visited, mut all, mut lost_only) = (0, 0, 0, 0);
    for seed in 0..60 {
        let mut dice = Dice(seed, 0);
        let (spec, hosts) = network(&mut dice);
        let mut w = if seed % 2 == 0 { World::with(spec) } else { World::apart(spec) };
        for g in 0..GROUPS {
            w.run(group(&format!("g{g}"))).unwrap();
            w.run(source(&format!("g{g}"), &format!("h{}-1", g % 5 + 1))).unwrap();
        }
        for step in 0..120 {
            if dice.below(8) == 0 {
                w.confirm();
            }
            if dice.below(30) == 0 {
                w.domain = w.restarted();
            }
            let command = a_command(&w, &mut dice, hosts);
            let what = format!("seed {seed} step {step}: {command:?}");
            let before = w.domain.clone();
            let Ok(prepared) = w.domain.prepare(command.clone()) else { continue };
            let found = effect(&prepared).map(|e| {
                let replans: BTreeSet<String> = e.replans.iter().map(|replan| replan.name.clone()).collect();
                (replans, e.bases.len(), e.drains.is_some())
            });
            let applied = w.run(command).unwrap();
            let Some((replans, bases, is_drain)) = found else { continue };
            let after = &w.domain;
            let scratch = from_scratch(&before, after);
            let (old, new) = (before.state.network().unwrap(), after.state.network().unwrap());
            for n in 0..new.len() {
                let of = |d: &Domain| format!("{:?}", d.state.network().unwrap().adjacent(n).collect::<Vec<_>>());
                assert_eq!(of(after), of(&scratch), "{what}");
                let (is, asked) = (&after.state.nodes[n], &scratch.state.nodes[n]);
                let desired = |of: &DesiredNode| (of.term, of.generation, of.base.clone(), of.groups.clone());
                assert_eq!(desired(&is.spec), desired(&asked.spec), "{what}");
                assert_eq!(after.state.whole_spec(n).groups, scratch.state.whole_spec(n).groups, "{what}");
                let was = &before.state.nodes[n].spec;
                let is_other = was.base != is.spec.base || was.groups != is.spec.groups;
                let name = &is.spec.base.name;
                // A node whose retirement takes a step is named, too.
                if before.state.retirements.get(name) == after.state.retirements.get(name) {
                    assert_eq!(applied.nodes.contains(name), is_other, "{what}: {name}");
                }
            }
            assert_eq!(groups_text(after), groups_text(&scratch), "{what}");
            assert_eq!(after.state.unrecorded, scratch.state.unrecorded, "{what}");
            let other_bases =
                (0..new.len()).filter(|n| before.state.nodes[*n].spec.base != after.state.nodes[*n].spec.base);
            assert_eq!(bases, other_bases.count(), "{what}");
            let difference = old.difference(new);
            let stated = stated(&before, new, &difference, is_drain);
            assert!(replans.is_subset(&stated), "{what}: {replans:?} are planned, of {stated:?}");
            lost_only += usize::from(difference.gained.is_empty() && !difference.lost.is_empty());
            (events, visited, all) = (events + 1, visited + replans.len(), all + GROUPS as usize);
        }
        for g in 0..GROUPS {
            for h in 0..hosts {
                _ = w.run(leave(&format!("g{g}"), &format!("h{}-{}", h / 2 + 1, h % 2 + 1)));
            }
        }
        assert!(w.domain.state.groups.trees().is_empty(), "seed {seed}: {:?}", w.domain.state.groups.trees());
    }
    println!("{events} changes of links, {lost_only} of them only lose some, planned {visited} groups of {all}");
    assert!(events > 1_000 && lost_only > 100 && visited < all, "{events} {lost_only} {visited} {all}");
}

/// Catches a loop over all groups, or over all nodes' bases: in a network of 16 pods the groups of 15 pods have nothing to do with a link of
/// the other one.
#[test]
fn a_link_of_one_pod_concerns_its_groups_and_few_nodes() {
    let mut w = World::with(clos());
    let hosts_of = |pod: usize| [0, 1, 2, 3].map(|edge| format!("h{}", (pod * 32 + edge) * 4));
    for pod in 0..16 {
        let name = format!("g{pod}");
        w.run(group(&name)).unwrap();
        let [first, rest @ ..] = hosts_of(pod);
        w.run(source(&name, &first)).unwrap();
        for host in rest {
            w.run(receiver(&name, &host)).unwrap();
        }
    }
    let id = |d: &Domain, name: &str| d.state.groups.get(name).unwrap().allocation.group_id;
    let up = |d: &Domain, node: &str, id: GroupId| {
        let spec = d.node_spec(node).unwrap();
        let port = spec.groups.get(&id).unwrap().upstream.port;
        spec.base.ports.iter().find(|p| p.index == port).unwrap().name.clone()
    };
    let used = up(&w.domain, "edge3-1", id(&w.domain, "g3"));
    let ports = |node: &str, ports: &[&str]| Command::PortsDown {
        node: node.to_owned(),
        ports: ports.iter().map(|port| (*port).to_owned()).collect(),
    };
    let mut counted = Vec::new();
    for command in [
        ports("edge3-1", &[&used]),
        ports("edge3-1", &[]),
        ports("core9", &["pod3"]),
        ports("core9", &[]),
        ports("edge3-20", &["up1"]),
        ports("edge3-20", &[]),
    ] {
        let prepared = w.domain.prepare(command.clone()).unwrap();
        let effect = effect(&prepared).unwrap();
        counted.push((effect.replans.len(), effect.bases.len()));
        w.run(command).unwrap();
        w.confirm();
        for group in w.domain.all_moving() {
            w.run(Command::FinishMove { group }).unwrap();
        }
    }
    println!("groups that are planned, and nodes whose bases change: {counted:?} of 16 groups and 604 nodes");
    let [used_down, used_up, core_down, core_up, unused_down, unused_up] = counted[..] else { panic!("{counted:?}") };
    assert_eq!((used_down.0, used_up.0), (1, 1));
    assert_eq!((core_down.0, core_up.0), (0, 0), "no group of one pod leads over a core");
    assert_eq!((unused_down.0, unused_up.0), (0, 0));
    assert!(core_down.1 < 100 && core_up.1 < 100, "{counted:?}");
}

/// Catches that all groups behind an edge are planned because it has one uplink more: of equal ways, each tree has its own.
#[test]
fn an_uplink_that_comes_back_concerns_the_groups_that_would_rather_use_it() {
    let mut w = World::with(clos());
    w.run(ports_down("edge3-1", &["up1"])).unwrap();
    let names: Vec<String> = (0..64).map(|i| format!("g{i}")).collect();
    let receivers_of = (3 * 32 + 1) * 4;
    for name in &names {
        w.run(group(name)).unwrap();
        w.run(source(name, "h0")).unwrap();
        w.run(receiver(name, &format!("h{receivers_of}"))).unwrap();
    }
    w.confirm();
    let uses = |d: &Domain| {
        let spec = d.node_spec("edge3-1").unwrap();
        let up1 = spec.base.ports.iter().find(|port| port.name == "up1").unwrap().index;
        spec.groups.values().filter(|p| p.upstream.port == up1).count()
    };
    assert_eq!(uses(&w.domain), 0);
    let command = ports_down("edge3-1", &[]);
    let prepared = w.domain.prepare(command.clone()).unwrap();
    let planned = effect(&prepared).unwrap().replans.len();
    w.run(command).unwrap();
    w.confirm();
    for group in w.domain.all_moving() {
        w.run(Command::FinishMove { group }).unwrap();
    }
    println!("{planned} of {} groups behind the edge are planned", names.len());
    assert!((4..40).contains(&planned), "a quarter of 64 is expected: {planned}");
    assert_eq!(uses(&w.domain), planned, "each of them uses it");
}
