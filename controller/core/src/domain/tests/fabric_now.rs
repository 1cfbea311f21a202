// SPDX-License-Identifier: Apache-2.0
//! What hosts compose path programs from.

use canopy_model::fabric::{FabricHost, FabricLink};
use canopy_model::host_programs;
use canopy_model::ids::{NodeId, PortIndex};
use canopy_model::topology::LinkDecl;

use super::*;
use crate::testing::{fabric, link};

fn node(number: u64) -> NodeId {
    NodeId::new("node", number).unwrap()
}

fn port(number: u64) -> PortIndex {
    PortIndex::new("port", number).unwrap()
}

fn unusable(w: &World) -> Vec<(u16, u16)> {
    w.domain.fabric_now().unusable().iter().map(|(node, port)| (node.get(), port.get())).collect()
}

fn reason(w: &World, host: &str) -> String {
    w.domain.fabric_now().sender(host).unwrap().reason
}

fn report(w: &mut World, of: &str, minor_version: u32) {
    let generation = w.domain.node(of).unwrap().spec.generation;
    let observed_term = w.domain.term();
    let status = NodeStatus { observed_term, minor_version, ..reported(of, generation, vec![]) };
    w.domain.report(status).unwrap();
}

/// Catches a link at both of its ends or at none, and nodes by their places instead of their numbers.
#[test]
fn each_link_is_at_the_smaller_of_its_ends() {
    let spec = fabric(2, 2, 1);
    let w = World::with(spec.clone());
    let now = w.domain.fabric_now();
    let of_hosts = now.fabric().unwrap();
    assert_eq!(of_hosts.nodes.keys().map(|id| id.get()).collect::<Vec<_>>(), [1, 2, 0x101, 0x102]);
    let leaf = &of_hosts.nodes[&node(2)];
    let mtu = spec.links[0].mtu;
    let to = |at: u64, far: u64| FabricLink { port: port(at), far: node(far), far_port: port(2), mtu };
    assert_eq!((leaf.name.as_str(), &leaf.links[..]), ("leaf2", &[to(1, 0x101), to(2, 0x102)][..]));
    let host = spec.hosts.iter().find(|host| host.name == "h2-1").unwrap();
    assert_eq!(leaf.hosts, [FabricHost { port: port(3), prefix: host.prefix, mtu }]);
    let spine = &of_hosts.nodes[&node(0x101)];
    assert!(spine.links.is_empty() && spine.hosts.is_empty(), "its links are at the leaves: {spine:?}");

    let again = World::with(spec.clone());
    assert_eq!(again.domain.fabric_now().fabric(), Some(of_hosts), "equal topologies, equal fabrics");
    let mut other = spec;
    other.links[0].mtu -= 100;
    let changed = World::with(other).domain.fabric_now();
    let differs = |id: &&NodeId| changed.fabric().unwrap().nodes[id] != of_hosts.nodes[id];
    assert_eq!(of_hosts.nodes.keys().filter(differs).map(|id| id.get()).collect::<Vec<_>>(), [1]);
}

/// Catches a link whose loss is another fabric, one that is missing, and a host's own link among those between nodes.
#[test]
fn drained_and_broken_links_are_not_to_be_used() {
    let mut spec = fabric(2, 2, 1);
    spec.links[0].drained = true;
    let mut w = World::with(spec);
    assert_eq!(unusable(&w), [(1, 1)]);
    let before = w.domain.fabric_now();
    assert!(w.domain.is_fabric_of(&before));
    w.run(ports_down("leaf2", &["up2"])).unwrap();
    assert!(!w.domain.is_fabric_of(&before));
    assert_eq!(unusable(&w), [(1, 1), (2, 2)]);
    let after = w.domain.fabric_now();
    assert!(Arc::ptr_eq(before.fabric().unwrap(), after.fabric().unwrap()), "the topology is the same");
    assert!(!Arc::ptr_eq(after.clone().share(&before).unusable(), before.unusable()));
    assert!(Arc::ptr_eq(w.domain.fabric_now().share(&after).unusable(), after.unusable()), "made once");
    w.run(ports_down("leaf2", &[])).unwrap();
    assert_eq!(unusable(&w), [(1, 1)]);
    w.run(group("g")).unwrap();
    let now = w.domain.fabric_now();
    w.run(receiver("g", "h1-1")).unwrap();
    assert!(w.domain.is_fabric_of(&now), "groups change nothing of it");
}

/// Catches a path over a link of a host that carries nothing though another one of it does, and a host's only link, which has no alternative.
#[test]
fn a_broken_link_of_a_host_with_several_is_not_to_be_used() {
    let mut spec = fabric(3, 2, 1);
    spec.links.push(link("h1-1/eth1", "leaf2/second"));
    spec.links.push(LinkDecl { drained: true, ..link("h1-1/eth2", "leaf3/third") });
    let mut w = World::with(spec);
    w.run(ports_down("leaf2", &["second", "host1"])).unwrap();
    assert_eq!(unusable(&w), [(2, 4), (3, 4)]);
    w.run(ports_down("leaf1", &["host1", "up1"])).unwrap();
    assert_eq!(unusable(&w), [(1, 1), (1, 3), (2, 4), (3, 4)]);
    w.run(ports_down("leaf2", &[])).unwrap();
    assert_eq!(unusable(&w), [(1, 1), (1, 3), (3, 4)]);
}

/// Catches a permission of another host, and an agent that drops programs and is no reason.
#[test]
fn a_host_gets_what_it_may_send_and_why_it_would_be_dropped() {
    let mut spec = fabric(2, 2, 1);
    spec.hosts.iter_mut().filter(|host| host.name == "h2-1").for_each(|host| host.path_programs = true);
    let address = spec.hosts.iter().find(|host| host.name == "h2-1").unwrap().address;
    let mut w = World::with(spec);
    let of = |w: &World, host: &str| w.domain.fabric_now().sender(host).unwrap();
    let sender = of(&w, "h2-1");
    let edge = (sender.edge.get(), sender.edge_port.get());
    assert_eq!((sender.permitted, sender.reason.as_str(), edge, sender.most_nodes), (true, "", (2, 3), 5));
    assert_eq!((sender.address, sender.block.to_string().as_str()), (address, "5f00::/32"));
    let refused = of(&w, "h1-1");
    assert_eq!(refused.reason, "the topology has no `pathPrograms: true` for host h1-1");
    assert!(!refused.permitted && w.domain.fabric_now().sender("h9-1").is_none());

    report(&mut w, "leaf2", host_programs::MINOR_VERSION - 1);
    assert_eq!(
        reason(&w, "h2-1"),
        "the agent of its edge leaf2 has contract 1.9: it lets in programs of hosts from 1.10 on"
    );
    assert_eq!(w.domain.early_contract("leaf2"), Some(9));
    report(&mut w, "leaf2", host_programs::MINOR_VERSION);
    report(&mut w, "spine1", 8);
    assert!(reason(&w, "h2-1").starts_with("agents of nodes have contracts before 1.10"), "{}", reason(&w, "h2-1"));
    report(&mut w, "spine1", host_programs::MINOR_VERSION + 1);
    assert_eq!((reason(&w, "h2-1").as_str(), w.domain.early_contract("spine1")), ("", None));
}
