// SPDX-License-Identifier: Apache-2.0
//! A domain of as many hosts as the limits allow; what it costs is printed by `make bench`.

use std::time::Instant;

use canopy_model::topology::{Endpoint, HostDecl, LongHaulFormat};

use super::*;
use crate::testing::clos::fat_tree;
use crate::testing::link;

/// The same switches with so many hosts at each edge.
pub(super) fn with_hosts(mut t: TopologySpec, each: u32) -> TopologySpec {
    let edges: Vec<String> = t.nodes.iter().filter(|n| n.name.starts_with("edge")).map(|n| n.name.clone()).collect();
    for (at, edge) in edges.iter().enumerate() {
        for port in 0..each {
            let number = at as u32 * each + port;
            let (high, low, name) = (number >> 16, number & 0xFFFF, format!("h{number}"));
            t.hosts.push(HostDecl {
                prefix: format!("2001:db8:{high:x}:{low:x}::/64").parse().unwrap(),
                address: format!("2001:db8:{high:x}:{low:x}::1").parse().unwrap(),
                long_haul_cnp: LongHaulFormat::default(),
                path_programs: false,
                name: name.clone(),
            });
            t.links.push(link(&format!("{edge}/host{port}"), &format!("{name}/eth0")));
        }
    }
    t
}

/// Catches what is compared with everything else when a topology is declared, and a route for each host at each node.
#[test]
fn a_topology_of_as_many_hosts_as_the_limits_allow_is_declared() {
    let is_bench = std::env::var_os("CANOPY_DEEP").is_some();
    let (ports, each) = if is_bench { (48, 113) } else { (8, 16) };
    let t = with_hosts(fat_tree(ports), each);
    let (nodes, hosts, links) = (t.nodes.len(), t.hosts.len(), t.links.len());
    let port: Endpoint = t.links[0].a.clone();
    let octets = serde_json::to_vec(&t).unwrap().len();
    let mut w = World::empty();
    let start = Instant::now();
    let prepared = w.domain.prepare(topology(t)).unwrap();
    let checked = start.elapsed();
    w.domain.apply(prepared, instant(0)).unwrap();
    let declared = start.elapsed();
    let routes = w.domain.state.nodes.iter().map(|n| n.spec.base.routes.len()).max().unwrap();
    // One for the locator and one for the address of each other node, and for the hosts of an edge no more than a binary number has digits.
    let of_an_edge = 2 * (u32::BITS - each.leading_zeros()) as usize;
    let edges = hosts / each as usize;
    assert!(routes <= 2 * nodes + edges * of_an_edge, "{routes} routes at a node, {hosts} hosts at {edges} edges");
    let start = Instant::now();
    w.run(Command::PortsDown { node: port.device, ports: [port.port].into() }).unwrap();
    let lost = start.elapsed();
    if is_bench {
        println!(
            "{nodes} nodes, {hosts} hosts, {links} links, {octets} octets of JSON: checked and planned in {checked:?}, in force after {declared:?}, at most {routes} routes at a node; a link goes out of service in {lost:?}"
        );
    }
}
