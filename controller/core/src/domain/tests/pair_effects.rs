// SPDX-License-Identifier: Apache-2.0
//! What a command does to the paths between edges, beside the paths that hosts then have.

use std::collections::BTreeMap;

use canopy_model::drain::DrainSpec;
use canopy_paths::path::Style;
use proptest::prelude::*;

use super::super::pair_effects::{MAX_WORK, of_pairs};
use super::*;
use crate::effect::{Effect, EffectKind, EffectObject};
use crate::testing::{fabric, random_graph};

fn drain(node: Option<&str>, link: Option<String>) -> Command {
    let spec = DrainSpec { node: node.map(str::to_owned), link, reason: "x".into(), ..DrainSpec::default() };
    Command::PutDrain { name: "x".into(), labels: Labels::new(), spec, if_match: None, create_only: true }
}

fn effects(w: &World, command: Command) -> Vec<Effect> {
    let found = w.domain.effects(&w.domain.prepare(command).unwrap());
    found.into_iter().filter(|effect| effect.object == EffectObject::Pairs).collect()
}

fn permit(spec: &mut TopologySpec, hosts: &[&str]) {
    let permitted = spec.hosts.iter_mut().filter(|host| hosts.contains(&host.name.as_str()));
    permitted.for_each(|host| host.path_programs = true);
}

type Kinds<'a> = Vec<(EffectKind, &'a str, u64, &'a str, &'a str, bool)>;

fn kinds(effects: &[Effect]) -> Kinds<'_> {
    let of = |e: &'_ Effect| e.pairs.unwrap();
    effects.iter().map(|e| (e.kind, e.name.as_str(), of(e), e.from.as_str(), e.to.as_str(), e.lossless)).collect()
}

/// Catches a drain that names pairs of which no host sends path programs, and one that does not name the edge that pairs have in common.
#[test]
fn a_drained_spine_leaves_fewer_paths_to_pairs_that_send_programs() {
    let mut spec = fabric(4, 3, 2);
    assert_eq!(effects(&World::with(spec.clone()), drain(Some("spine1"), None)), [], "no host sends any");
    permit(&mut spec, &["h2-2"]);
    let w = World::with(spec.clone());
    let fewer = (EffectKind::PathsFewer, "leaf2", 3, "3", "2", true);
    assert_eq!(kinds(&effects(&w, drain(Some("spine1"), None))), [fewer]);
    permit(&mut spec, &["h1-1", "h2-2", "h3-1", "h4-2"]);
    let mut w = World::with(spec);
    let fewer = (EffectKind::PathsFewer, "leaf1 - leaf2", 6, "3", "2", true);
    assert_eq!(kinds(&effects(&w, drain(Some("spine1"), None))), [fewer]);
    w.run(drain(Some("spine1"), None)).unwrap();
    let more = (EffectKind::PathsMore, "leaf1 - leaf2", 6, "2", "3", true);
    assert_eq!(kinds(&effects(&w, Command::DeleteDrain { name: "x".into() })), [more]);
}

/// Catches drained links that count as dead ones, by which packets would be lost, and the reverse.
#[test]
fn pairs_without_another_path_stay_on_drained_links_and_stop_at_dead_ones() {
    let mut spec = fabric(3, 1, 1);
    permit(&mut spec, &["h1-1", "h2-1", "h3-1"]);
    let mut w = World::with(spec);
    let link = "leaf3/up1--spine1/down3".to_owned();
    let stays = (EffectKind::PathsStay, "leaf3", 2, "1", "0", true);
    assert_eq!(kinds(&effects(&w, drain(None, Some(link.clone())))), [stays]);
    // A dead link that is drained as well changes nothing.
    w.run(Command::PortsDown { node: "leaf3".into(), ports: ["up1".to_owned()].into() }).unwrap();
    assert_eq!(effects(&w, drain(None, Some(link.clone()))), []);
    let mut spec = fabric(3, 2, 1);
    permit(&mut spec, &["h3-1"]);
    let mut w = World::with(spec.clone());
    w.run(Command::PortsDown { node: "leaf3".into(), ports: ["up2".to_owned()].into() }).unwrap();
    spec.links.retain(|l| l.label() != link);
    let stop = (EffectKind::PathsStop, "leaf3", 2, "1", "0", false);
    assert_eq!(kinds(&effects(&w, topology(spec))), [stop]);
}

/// Catches a plane of another form whose edges are taken as alike, and work without a bound.
#[test]
fn outside_a_clos_each_pair_is_searched_up_to_a_bound() {
    // A ring of nodes with a host each.
    let ring = |nodes: u16| {
        let mut spec = TopologySpec::default();
        for n in 1..=nodes {
            spec.nodes.push(crate::testing::node(&format!("n{n}"), n.into()));
            let mut host = crate::testing::host(&format!("h{n}"), n);
            host.path_programs = true;
            spec.hosts.push(host);
            spec.links.push(crate::testing::link(&format!("n{n}/host"), &format!("h{n}/eth0")));
            spec.links.push(crate::testing::link(&format!("n{n}/right"), &format!("n{}/left", n % nodes + 1)));
        }
        spec
    };
    let found = effects(&World::with(ring(5)), drain(None, Some("n1/right".into())));
    // Neighbours have one path, as the other way is more than two links longer; those with a node between have both.
    let stays = (EffectKind::PathsStay, "n1 - n2", 1, "1", "0", true);
    let fewer = (EffectKind::PathsFewer, "n1 - n3", 5, "2", "1", true);
    assert_eq!(kinds(&found), [stays, fewer]);
    let mut w = World::with(ring(40));
    let before = w.clone();
    w.run(drain(None, Some("n1/right".into()))).unwrap();
    let (old, new) = (before.domain.state.network().unwrap(), w.domain.state.network().unwrap());
    let found = of_pairs(old, new, 200_000);
    let not_counted = found.iter().find(|effect| effect.kind == EffectKind::PathsNotCounted).unwrap().pairs.unwrap();
    assert!((1..40 * 39 / 2).contains(&not_counted), "{found:?}");
    assert!(of_pairs(old, new, MAX_WORK).iter().all(|effect| effect.kind != EffectKind::PathsNotCounted));
    // Another label of a host is no reason to search.
    let mut other = ring(40);
    other.hosts[0].name = "other".into();
    other.links[0].b.device = "other".into();
    assert_eq!(effects(&World::with(ring(40)), topology(other)), []);
}

/// Catches pairs that are passed over because no link above them has changed: without a node above both, their paths lead over any link.
#[test]
fn a_path_over_another_edge_is_counted() {
    let mut spec = random_graph(&[0, 1, 2, 3], &[(2, 3)]);
    for n in [0, 2, 4] {
        let mut host = crate::testing::host(&format!("h{n}"), n + 1);
        host.path_programs = true;
        spec.hosts.push(host);
        spec.links.push(crate::testing::link(&format!("n{n}/host"), &format!("h{n}/eth0")));
    }
    // n0 - n1 - n2 = n3 - n4: hosts at both ends and in the middle.
    let w = World::with(spec);
    let found = effects(&w, drain(None, Some("n2/e4".into())));
    assert_eq!(kinds(&found), [(EffectKind::PathsFewer, "n4", 2, "2", "1", true)]);
}

/// Paths in service of each pair of edges with a host that sends programs, and whether there are more without a dead link, as hosts get them.
fn in_service(w: &World) -> BTreeMap<(String, String), (u64, u64)> {
    let spec = w.domain.topology().unwrap().spec;
    // The first host of each node.
    let mut hosts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for link in &spec.links {
        let host = spec.hosts.iter().find(|host| host.name == link.b.device);
        hosts.entry(link.a.device.clone()).or_default().extend(host.map(|host| host.name.clone()));
    }
    hosts.retain(|_, hosts| !hosts.is_empty());
    let sends = |node: &str| spec.hosts.iter().any(|host| hosts[node].contains(&host.name) && host.path_programs);
    let mut all = BTreeMap::new();
    for (a, of_a) in &hosts {
        for (b, of_b) in hosts.range::<String, _>((std::ops::Bound::Excluded(a), std::ops::Bound::Unbounded)) {
            if sends(a) || sends(b) {
                let (from, to) = if sends(a) { (of_a, of_b) } else { (of_b, of_a) };
                let view = w.domain.paths(&from[0], &to[0], Style::Nodes).unwrap();
                let count = |bad: fn(&crate::path::LinkMarks) -> bool| {
                    let is_good = |path: &&crate::path::PathView| !path.links.iter().any(|link| bad(&link.marks));
                    view.list.iter().filter(is_good).count() as u64
                };
                all.insert((a.clone(), b.clone()), (count(|m| m.dead || m.drained), count(|m| m.dead)));
            }
        }
    }
    all
}

/// Pairs by what became of them, from the paths alone.
fn expected(before: &World, after: &World) -> BTreeMap<(EffectKind, u64, u64), u64> {
    let (before, after) = (in_service(before), in_service(after));
    let mut all = BTreeMap::new();
    for (pair, (was, was_alive)) in before {
        let Some(&(is, is_alive)) = after.get(&pair) else { continue };
        let kind = match () {
            () if is > was => EffectKind::PathsMore,
            () if is < was && is > 0 => EffectKind::PathsFewer,
            () if was_alive > 0 && is_alive == 0 => EffectKind::PathsStop,
            () if is < was => EffectKind::PathsStay,
            () => continue,
        };
        *all.entry((kind, was, is)).or_default() += 1;
    }
    all
}

fn counted(effects: &[Effect]) -> BTreeMap<(EffectKind, u64, u64), u64> {
    effects.iter().map(|e| ((e.kind, e.from.parse().unwrap(), e.to.parse().unwrap()), e.pairs.unwrap())).collect()
}

/// A Clos without some of its links, or any graph; some hosts may send programs.
fn world() -> impl Strategy<Value = TopologySpec> {
    let clos = (2_u16..5, 1_u16..4, proptest::collection::vec(any::<u8>(), 12)).prop_map(|(leaves, spines, gone)| {
        let mut spec = fabric(leaves, spines, 1);
        let mut gone = gone.iter().cycle();
        spec.links.retain(|link| {
            let is_kept = link.a.port.starts_with("host") || link.b.device == "spine1";
            is_kept || gone.next().unwrap() % 4 > 0
        });
        // A spine without links would not be connected.
        spec.nodes.retain(|node| spec.links.iter().any(|l| l.a.device == node.name || l.b.device == node.name));
        spec
    });
    let parents = proptest::collection::vec(any::<usize>(), 2..6);
    let graph = (parents, proptest::collection::vec((any::<usize>(), any::<usize>()), 0..5)).prop_map(|(p, extra)| {
        let mut spec = random_graph(&p, &extra);
        for n in (0..=p.len() as u16).step_by(2) {
            spec.hosts.push(crate::testing::host(&format!("h{n}"), n + 1));
            spec.links.push(crate::testing::link(&format!("n{n}/host"), &format!("h{n}/eth0")));
        }
        spec
    });
    (prop_oneof![clos, graph], proptest::collection::vec(any::<bool>(), 8)).prop_map(|(mut spec, sends)| {
        spec.hosts.iter_mut().zip(sends).for_each(|(host, sends)| host.path_programs = sends);
        spec
    })
}

proptest! {
    /// Catches a count that is not what happened: of drains and dead links, then of links that leave the topology.
    #[test]
    fn what_was_foretold_is_what_happened(
        spec in world(),
        dead in any::<prop::sample::Index>(),
        drained in proptest::collection::vec(any::<prop::sample::Index>(), 1..4),
        gone in any::<prop::sample::Index>(),
    ) {
        let inner: Vec<(String, String, String)> = spec.links.iter().filter(|link| spec.nodes.iter().any(|n| n.name == link.b.device))
            .map(|link| (link.label(), link.a.device.clone(), link.a.port.clone())).collect();
        prop_assume!(!inner.is_empty());
        let mut w = World::with(spec.clone());
        let (_, node, port) = dead.get(&inner).clone();
        w.run(Command::PortsDown { node, ports: [port].into() }).unwrap();
        for (n, link) in drained.iter().enumerate() {
            let Command::PutDrain { labels, spec, .. } = drain(None, Some(link.get(&inner).0.clone())) else { unreachable!() };
            let command = Command::PutDrain { name: format!("d{n}"), labels, spec, if_match: None, create_only: true };
            let Ok(prepared) = w.domain.prepare(command.clone()) else { continue };
            let foretold = w.domain.effects(&prepared);
            let foretold: Vec<Effect> = foretold.into_iter().filter(|e| e.object == EffectObject::Pairs).collect();
            let before = w.clone();
            w.run(command).unwrap();
            prop_assert_eq!(counted(&foretold), expected(&before, &w));
        }
        let mut other = spec.clone();
        let (label, ..) = gone.get(&inner);
        other.links.retain(|link| link.label() != *label);
        // A link that connects the rest cannot go.
        let Ok(prepared) = w.domain.prepare(topology(other.clone())) else { return Ok(()) };
        let foretold: Vec<Effect> = w.domain.effects(&prepared).into_iter().filter(|e| e.object == EffectObject::Pairs).collect();
        let before = w.clone();
        w.run(topology(other)).unwrap();
        prop_assert_eq!(counted(&foretold), expected(&before, &w));
    }
}

/// Catches work without a bound in a Clos whose edges are all different, and pairs that are left out.
#[test]
fn what_would_take_too_long_is_not_counted_and_its_pairs_are() {
    let mut spec = fabric(5, 4, 1);
    spec.hosts.iter_mut().for_each(|host| host.path_programs = true);
    // Three edges of one class, and two that lack a link.
    spec.links.retain(|link| !["leaf4/up3--spine3/down4", "leaf5/up4--spine4/down5"].contains(&link.label().as_str()));
    let mut w = World::with(spec);
    let before = w.clone();
    w.run(drain(Some("spine1"), None)).unwrap();
    let within = |work: usize| {
        let (old, new) = (before.domain.state.network().unwrap(), w.domain.state.network().unwrap());
        of_pairs(old, new, work)
    };
    let fewer = |from, to, name, pairs| (EffectKind::PathsFewer, name, pairs, from, to, true);
    let not_counted = |pairs| (EffectKind::PathsNotCounted, "", pairs, "", "", false);
    let (all, none) = (within(MAX_WORK), within(0));
    let (two, three) = (fewer("2", "1", "leaf4 - leaf5", 1), fewer("3", "2", "leaf1 - leaf4", 6));
    let four = fewer("4", "3", "leaf1 - leaf2", 3);
    assert_eq!((kinds(&all), kinds(&none)), (vec![two, three, four], vec![not_counted(10)]));
    // The pairs of the largest class are counted first.
    let bounded: Vec<Vec<Effect>> = (0..1000).map(within).collect();
    assert!(bounded.iter().any(|found| kinds(found) == [four, not_counted(7)]));
    assert!(bounded.iter().all(|found| found.iter().filter_map(|effect| effect.pairs).sum::<u64>() == 10));
}
