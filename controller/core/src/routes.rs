// SPDX-License-Identifier: Apache-2.0
//! The part of a node's spec that does not depend on groups: identity, ports, unicast routes and links of path programs.
//!
//! Routes follow shortest paths to every other node's locator (uN) and address, and to the prefixes of its hosts, of which those that fill a
//! shorter prefix are one route. A host with several links is reached by way of the nearest of its nodes,
//! of those that links in service lead to, if any do.
//! Every hop lies on a shortest path to the destination, so no combination of the nodes' choices makes a loop; ties are
//! broken by a hash of destination and neighbour, or of both nodes. Prefixes of the node's own hosts are on-link at their ports, not
//! routes, except those of a host whose link is broken and that another node has a link to: packets go there.
//!
//! Path programs follow no route. The links that they lead over are those of the topology, whether or not they are in service: what a
//! uSID means does not change with a fault.

use std::collections::{BTreeMap, BTreeSet};

use canopy_model::addressing::AddressPlan;
use canopy_model::host_programs::HostPrograms;
use canopy_model::ids::PortIndex;
use canopy_model::node_spec::{NodeBase, PathLink, Peer, Port};
use canopy_model::routes::{FirstHop, Routes};
use canopy_model::srh_hmac::SrhHmac;

use crate::first_hops::{FirstHops, first_hops};
use crate::homes::{exceptions, nearest};
use crate::topology::{Adjacent, Far, Network, NodeIx, PortInfo};

/// The base of `node`'s spec.
pub(crate) fn node_base(network: &Network, plan: &AddressPlan, hmac: Option<&SrhHmac>, node: NodeIx) -> NodeBase {
    let id = network.id(node);
    NodeBase {
        name: network.name(node).to_owned(),
        node_id: id,
        node_address: plan.node_address(id),
        un: plan.un(id),
        end_mt: plan.end_mt(id),
        ports: ports(network, plan, node),
        routes: routes(network, plan, node),
        addressing: plan.clone(),
        hmac: hmac.cloned(),
        path_links: path_links(network, node),
        host_programs: network.host_programs().map(|all| host_programs(network, all, node)),
    }
}

/// Which ports of `node` have a host that may send path programs, and, if one has, what these may be.
fn host_programs(network: &Network, all: &HostPrograms, node: NodeIx) -> HostPrograms {
    let may = |p: &&PortInfo| matches!(p.far, Far::Host(host) if network.spec.hosts[host].path_programs);
    let ports: BTreeSet<PortIndex> = network.ports(node).iter().filter(may).map(|p| p.index).collect();
    if ports.is_empty() { HostPrograms::of_others(all.most_nodes) } else { HostPrograms { ports, ..all.clone() } }
}

/// The links of `node`, each with the uN that leads over it: none where a host is behind it, or parallel links lead to the same node.
fn path_links(network: &Network, node: NodeIx) -> Vec<PathLink> {
    let far = |p: &PortInfo| match p.far {
        Far::Node { node, .. } => Some(node),
        Far::Host(_) => None,
    };
    let mut links: BTreeMap<NodeIx, usize> = BTreeMap::new();
    network.ports(node).iter().filter_map(far).for_each(|to| *links.entry(to).or_default() += 1);
    let only = |to: &NodeIx| links.get(to) == Some(&1);
    let link = |p: &PortInfo| PathLink { port: p.index, un: far(p).filter(only).map(|to| network.id(to)) };
    network.ports(node).iter().map(link).collect()
}

fn ports(network: &Network, plan: &AddressPlan, node: NodeIx) -> Vec<Port> {
    let peer = |far: Far| match far {
        Far::Node { node, port } => {
            Peer::Node { name: network.name(node).to_owned(), link_local: plan.link_local(network.id(node), port) }
        }
        Far::Host(host) => {
            let host = &network.spec.hosts[host];
            Peer::Host {
                name: host.name.clone(),
                prefix: host.prefix,
                address: host.address,
                gateway: plan.host_gateway(),
            }
        }
    };
    let port = |p: &PortInfo| Port {
        index: p.index,
        name: network.port_name(node, p.index).to_owned(),
        mtu: network.spec.links[p.link].mtu,
        link_local: plan.link_local(network.id(node), p.index),
        peer: peer(p.far),
        thresholds: None,
    };
    network.ports(node).iter().map(port).collect()
}

/// Routes of `node`, in the order of their prefixes.
fn routes(network: &Network, plan: &AddressPlan, node: NodeIx) -> Routes {
    let FirstHops { mut of_nodes, hops, distance } = first_hops(network, node);
    let far = |to: NodeIx| u32::from(distance[to]);
    let near = |set: &Vec<NodeIx>| nearest(network, node, set, far).map_or(0, |nearest| of_nodes[nearest]);
    let of_sets: Vec<u32> = network.shared().iter().map(near).collect();
    let hop = |hop: &Adjacent| (hop.port, plan.link_local(network.id(hop.to), hop.far_port));
    let hops: Vec<FirstHop> = hops.iter().map(hop).collect();
    let first_hop = |to: NodeIx| hops.get((of_nodes[to] as usize).checked_sub(1)?).copied();
    let exceptions = exceptions(network, node, far, first_hop);
    of_nodes.extend(of_sets);
    Routes::new(network.destinations().clone(), of_nodes, &hops).except(exceptions)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use ipnet::Ipv6Net;
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{fabric, host, link, random_graph, with_multi_homed};

    /// Follows the routes hop by hop, as packets would, and counts the hops.
    fn walk(network: &Network, bases: &[NodeBase], from: NodeIx, to: Ipv6Addr) -> Option<(NodeIx, u32)> {
        let (mut at, mut hops) = (from, 0);
        loop {
            let base = &bases[at];
            let mine = base.un.contains(&to) || base.node_address == to;
            let on_link =
                base.ports.iter().any(|p| matches!(&p.peer, Peer::Host { prefix, .. } if prefix.contains(&to)));
            if mine || on_link {
                return Some((at, hops));
            }
            let route = base.routes.iter().filter(|r| r.prefix.contains(&to)).max_by_key(|r| r.prefix.prefix_len())?;
            let port = base.ports.iter().find(|p| p.index == route.port)?;
            let Peer::Node { name, link_local } = &port.peer else { return None };
            assert_eq!(*link_local, route.next_hop, "the next hop is not the node on the port");
            at = network.node(name)?;
            hops += 1;
            assert!(hops <= network.len() as u32, "the routes make a loop");
        }
    }

    proptest! {
        #[test]
        fn every_address_is_reached_by_a_shortest_path_from_everywhere(
            parents in prop::collection::vec(any::<usize>(), 0..12), extra in prop::collection::vec(any::<(usize, usize)>(), 0..16), hosts in 0u16..4,
        ) {
            let mut spec = random_graph(&parents, &extra);
            for h in 0..hosts {
                spec.hosts.push(host(&format!("h{h}"), h + 1));
                spec.links.push(link(&format!("n{}/host{h}", usize::from(h) % spec.nodes.len()), &format!("h{h}/eth0")));
            }
            let plan = AddressPlan::default();
            let n = Network::build(spec, &plan).unwrap();
            let bases: Vec<NodeBase> = (0..n.len()).map(|i| node_base(&n, &plan, None, i)).collect();
            for from in 0..n.len() {
                let (distance, _) = n.distances(from, |_| false);
                for (to, base) in bases.iter().enumerate() {
                    prop_assert_eq!(walk(&n, &bases, from, base.node_address), Some((to, distance[to])));
                    prop_assert_eq!(walk(&n, &bases, from, base.end_mt), Some((to, distance[to])));
                }
                for host in &n.spec.hosts {
                    let at = n.host(&host.name).unwrap().node;
                    prop_assert_eq!(walk(&n, &bases, from, host.address), Some((at, distance[at])));
                }
                let prefixes: BTreeSet<Ipv6Net> = bases[from].routes.iter().map(|r| r.prefix).collect();
                prop_assert_eq!(prefixes.len(), bases[from].routes.len(), "two routes to one prefix");
            }
        }
    }

    proptest! {
        /// Catches a loop between nodes that choose different ones of a host's nodes, a host that is led to by way of a longer path, one that is
        /// led to over links out of service though others lead to another of its nodes, and two routes to one prefix.
        #[test]
        fn a_host_with_several_links_is_reached_by_way_of_the_nearest_node_that_is_best_to_reach(
            parents in prop::collection::vec(any::<usize>(), 1..12), extra in prop::collection::vec(any::<(usize, usize)>(), 0..16),
            homes in prop::collection::vec(any::<usize>(), 2..5), broken in any::<u64>(), drained in any::<u64>(),
        ) {
            let graph = random_graph(&parents, &extra);
            let between = graph.links.len();
            let mut spec = with_multi_homed(graph, &homes);
            let is = |set: u64, link: usize| link < between && set >> (link % 64) & 1 == 1;
            spec.links.iter_mut().enumerate().for_each(|(at, link)| link.drained = is(drained & drained >> 7, at));
            let down = (0..between).filter(|link| is(broken & broken >> 9, *link)).map(|link| spec.links[link].a.clone()).collect();
            let plan = AddressPlan::default();
            let n = Network::build_around(spec, &plan, &down, &[], &[]).unwrap();
            let bases: Vec<NodeBase> = (0..n.len()).map(|i| node_base(&n, &plan, None, i)).collect();
            let homes: BTreeSet<NodeIx> = n.host_links("h1").map(|at| at.node).collect();
            // Worked out by floods of its own, over the links as declared.
            let flood = |from: NodeIx, may: &dyn Fn(usize) -> bool| {
                let mut hops = BTreeMap::from([(from, 0u32)]);
                let mut next = std::collections::VecDeque::from([from]);
                while let Some(at) = next.pop_front() {
                    for decl in (0..between).filter(|link| may(*link)).map(|link| &n.spec.links[link]) {
                        let ends = [&decl.a, &decl.b].map(|end| n.node(&end.device).unwrap());
                        for (near, far) in [(ends[0], ends[1]), (ends[1], ends[0])] {
                            if near == at && !hops.contains_key(&far) {
                                hops.insert(far, hops[&at] + 1);
                                next.push_back(far);
                            }
                        }
                    }
                }
                hops
            };
            let sound = |link: usize| !down.contains(&n.spec.links[link].a);
            for from in 0..n.len() {
                for host in ["h1", "h2"] {
                    let (at, hops) = walk(&n, &bases, from, n.host(host).unwrap().address).expect("a way");
                    prop_assert!(homes.contains(&at));
                    let in_service = flood(from, &|link| sound(link) && !n.spec.links[link].drained);
                    let nearest = homes.iter().filter_map(|home| in_service.get(home)).min();
                    if let Some(nearest) = nearest {
                        prop_assert_eq!(in_service.get(&at).map(|_| hops), Some(*nearest), "from {} to {}", from, at);
                    } else if homes.iter().any(|home| flood(from, &sound).contains_key(home)) {
                        prop_assert!(flood(from, &sound).contains_key(&at));
                    }
                }
                let prefixes: BTreeSet<Ipv6Net> = bases[from].routes.iter().map(|r| r.prefix).collect();
                prop_assert_eq!(prefixes.len(), bases[from].routes.len(), "two routes to one prefix");
                let on_link = homes.contains(&from);
                prop_assert_eq!(n.spec.hosts.iter().any(|h| bases[from].routes.iter().any(|r| r.prefix.contains(&h.address))), !on_link);
            }
        }
    }

    proptest! {
        /// Catches a packet that is led to a link of its host which carries nothing, or to a drained one, though another one is in service; a loop
        /// between a node that leads elsewhere and one that leads to it; and another host's packets that go another way.
        #[test]
        fn links_of_hosts_that_carry_nothing_are_led_around(
            parents in prop::collection::vec(any::<usize>(), 1..10), extra in prop::collection::vec(any::<(usize, usize)>(), 0..12),
            homes in prop::collection::vec(any::<usize>(), 2..5), broken in any::<u64>(), drained in any::<u64>(),
        ) {
            let graph = random_graph(&parents, &extra);
            let between = graph.links.len();
            let mut spec = with_multi_homed(graph, &homes);
            let of_h1: Vec<usize> = (between..spec.links.len()).filter(|at| spec.links[*at].b.device == "h1").collect();
            of_h1.iter().zip(0..).for_each(|(at, bit)| spec.links[*at].drained = drained >> bit & 1 == 1);
            let is_broken = |bit: usize| broken >> bit & 1 == 1;
            let down = of_h1.iter().zip(0..).filter(|(_, bit)| is_broken(*bit)).map(|(at, _)| spec.links[*at].a.clone());
            let down: BTreeSet<_> = down.collect();
            let plan = AddressPlan::default();
            let n = Network::build_around(spec, &plan, &down, &[], &[]).unwrap();
            let bases: Vec<NodeBase> = (0..n.len()).map(|i| node_base(&n, &plan, None, i)).collect();
            let arrives = |from: NodeIx, host: &str| {
                let to = n.host(host).unwrap();
                let mut at = from;
                for _ in 0..=n.len() {
                    let route = bases[at].routes.iter().filter(|r| r.prefix.contains(&to.address)).max_by_key(|r| r.prefix.prefix_len());
                    let Some(route) = route else { return Some(at) };
                    at = n.adjacent(at).find(|a| a.port == route.port).unwrap().to;
                }
                None
            };
            let links: Vec<_> = n.host_links("h1").collect();
            let state = |link: usize| (down.contains(&n.spec.links[link].a), n.spec.links[link].drained);
            let best = links.iter().map(|at| state(at.link)).min().unwrap();
            for from in 0..n.len() {
                let at = arrives(from, "h1").expect("no loop");
                let link = links.iter().find(|link| link.node == at).expect("a node of the host").link;
                if !best.0 {
                    // A node on the way to the best one keeps to its own link, which is drained.
                    let (far, _) = n.distances(from, |_| false);
                    let nearest = links.iter().filter(|at| state(at.link) == best).map(|at| far[at.node]).min().unwrap();
                    let is_own = !state(link).0 && far[at] < nearest;
                    prop_assert!(state(link) == best || is_own, "from {} to {}", from, at);
                }
                let other = arrives(from, "h2").expect("no loop");
                prop_assert_eq!(n.host_links("h2").any(|at| at.node == from), other == from);
            }
        }
    }

    /// Catches an edge that takes programs to one of a host's nodes alone, and prefixes of hosts with several links that are not joined.
    #[test]
    fn programs_may_end_at_each_node_of_a_host() {
        let plan = AddressPlan::default();
        let mut spec = fabric(4, 2, 2);
        for h in 1..=2 {
            spec.links.push(link(&format!("leaf2/more{h}"), &format!("h1-{h}/eth1")));
        }
        spec.hosts[7].path_programs = true;
        let n = Network::build(spec, &plan).unwrap();
        let ends = node_base(&n, &plan, None, n.node("leaf4").unwrap()).host_programs.unwrap().ends;
        let of = |host: &str| {
            let address = n.host(host).unwrap().address;
            let nodes = ends.iter().filter(|(prefix, _)| prefix.contains(&address)).map(|(_, node)| node.get());
            nodes.collect::<Vec<_>>()
        };
        assert_eq!((of("h1-1"), of("h1-2"), of("h2-1"), of("h4-1")), (vec![1, 2], vec![1, 2], vec![2], vec![4]));
        let mut prefixes: Vec<Ipv6Net> = ends.iter().map(|(prefix, _)| *prefix).collect();
        prefixes.dedup();
        let all = prefixes.len();
        prefixes.sort_unstable();
        prefixes.dedup();
        assert_eq!(prefixes.len(), all, "an agent wants the nodes of a prefix next to each other");
        let ports = |leaf: &str| {
            let base = node_base(&n, &plan, None, n.node(leaf).unwrap());
            base.ports.iter().filter(|p| matches!(&p.peer, Peer::Host { name, .. } if name == "h1-1")).count()
        };
        assert_eq!(["leaf1", "leaf2", "leaf3"].map(ports), [1, 1, 0]);
    }

    /// Catches a uN over one of several links, one over the link of a host, and a link without its uA.
    #[test]
    fn a_un_leads_over_the_only_link_to_its_node() {
        let plan = AddressPlan::default();
        let mut spec = fabric(2, 2, 1);
        spec.links.push(link("leaf2/again", "spine1/again"));
        let n = Network::build(spec, &plan).unwrap();
        let uns = |name: &str| {
            let links = node_base(&n, &plan, None, n.node(name).unwrap()).path_links;
            let ports: Vec<u16> = links.iter().map(|link| link.port.get()).collect();
            assert_eq!(ports, (1..=links.len() as u16).collect::<Vec<_>>(), "{name}");
            links.iter().filter_map(|link| link.un).collect::<BTreeSet<_>>()
        };
        let ids = |names: &[&str]| names.iter().map(|name| n.id(n.node(name).unwrap())).collect::<BTreeSet<_>>();
        assert_eq!(uns("leaf1"), ids(&["spine1", "spine2"]));
        assert_eq!(uns("leaf2"), ids(&["spine2"]));
        assert_eq!(uns("spine1"), ids(&["leaf1"]));
        let count = |name: &str| node_base(&n, &plan, None, n.node(name).unwrap()).path_links.len();
        assert_eq!((count("leaf1"), count("leaf2"), count("spine1")), (3, 4, 3), "hosts' ports have a uA, too");
    }

    /// Catches a uN that moves to another link when one fails, and a change at nodes that are at neither end of a new link.
    #[test]
    fn path_links_follow_the_topology_and_not_the_state_of_links() {
        let plan = AddressPlan::default();
        let spec = fabric(3, 2, 1);
        let all = |n: &Network| (0..n.len()).map(|node| node_base(n, &plan, None, node).path_links).collect::<Vec<_>>();
        let n = Network::build(spec.clone(), &plan).unwrap();
        let down = n.endpoint(n.node("leaf1").unwrap(), n.ports(n.node("leaf1").unwrap())[0].index);
        assert_eq!(all(&n.with_links(&[down].into(), &[], &[])), all(&n));
        let mut more = spec;
        more.links.push(link("leaf1/new", "spine1/new"));
        let more = Network::build(more, &plan).unwrap();
        let pairs = all(&n).into_iter().zip(all(&more)).enumerate();
        let changed: Vec<&str> = pairs.filter(|(_, (was, is))| was != is).map(|(node, _)| n.name(node)).collect();
        assert_eq!(changed.into_iter().collect::<BTreeSet<_>>(), BTreeSet::from(["leaf1", "spine1"]));
    }

    /// Catches a domain whose nodes take programs of hosts though none may send any, a port of another host, an end of a host at another node,
    /// and ends that are kept once for each node.
    #[test]
    fn programs_of_hosts_are_let_in_at_their_ports_and_end_where_hosts_are() {
        let plan = AddressPlan::default();
        let mut spec = fabric(3, 2, 2);
        let all =
            |n: &Network| (0..n.len()).map(|node| node_base(n, &plan, None, node).host_programs).collect::<Vec<_>>();
        assert_eq!(all(&Network::build(spec.clone(), &plan).unwrap()), vec![None; 5]);
        let name = spec.hosts[3].name.clone();
        spec.hosts[3].path_programs = true;
        let mut n = Network::build(spec.clone(), &plan).unwrap();
        let at = *n.host(&name).unwrap();
        for (node, programs) in all(&n).into_iter().enumerate() {
            let programs = programs.unwrap();
            if node != at.node {
                assert_eq!(programs, HostPrograms::of_others(5), "{}", n.name(node));
                continue;
            }
            assert_eq!((programs.most_nodes, programs.ports), (5, [at.port].into()), "two tiers, there and back");
            for host in &n.spec.hosts {
                let end = programs.ends.iter().find(|(prefix, _)| prefix.contains(&host.address));
                assert_eq!(end.map(|(_, un)| *un), Some(n.id(n.host(&host.name).unwrap().node)), "{}", host.name);
            }
            assert!(n.spec.nodes.iter().all(|node| programs.nodes.has(node.id)));
            assert_eq!(programs.nodes.bits().iter().map(|octet| octet.count_ones()).sum::<u32>(), 5);
            assert!(!programs.ends.iter().any(|(prefix, _)| prefix.contains(&plan.node_address(n.id(0)))));
        }
        spec.hosts[0].path_programs = true;
        let old = std::mem::replace(&mut n, Network::build(spec, &plan).unwrap());
        n.share(&old);
        assert!(std::sync::Arc::ptr_eq(&n.host_programs().unwrap().ends, &old.host_programs().unwrap().ends));
        let both: Vec<_> = all(&n).into_iter().flatten().filter(|programs| !programs.ports.is_empty()).collect();
        assert!(
            both.iter().all(|programs| std::sync::Arc::ptr_eq(&programs.ends, &n.host_programs().unwrap().ends))
                && both.len() == 2
        );
    }

    #[test]
    fn equal_paths_are_spread_over_neighbours() {
        let plan = AddressPlan::default();
        let n = Network::build(fabric(40, 4, 0), &plan).unwrap();
        let mut uses: BTreeMap<_, usize> = BTreeMap::new();
        for route in node_base(&n, &plan, None, 0).routes.iter().filter(|r| r.prefix.prefix_len() == 48) {
            *uses.entry(route.port).or_default() += 1;
        }
        assert_eq!(uses.len(), 4, "{uses:?}");
        assert!(uses.values().all(|&u| u > 4), "{uses:?}");
    }
}
