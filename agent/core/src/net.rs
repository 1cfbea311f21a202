// SPDX-License-Identifier: Apache-2.0
//! Desired network state of a node, observed network state of the kernel, and the commands from one to the other.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;

use canopy_model::node_spec::{NodeBase, Peer};
use canopy_model::status::{ItemError, ItemKind};
use ipnet::Ipv6Net;

use crate::hops::Hops;
use crate::rules::{Machine, Rule};

/// A network interface as the kernel has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Interface index.
    pub index: u32,
    /// MTU, bytes.
    pub mtu: u32,
    /// Administratively up.
    pub up: bool,
    /// Has carrier.
    pub carrier: bool,
    /// The bond, bridge or team that takes this interface's packets.
    pub master: Option<u32>,
    /// The interface on which the packets of this VLAN, macvlan or ipvlan arrive.
    pub lower: Option<u32>,
}

impl Interface {
    /// An interface with carrier, on its own.
    pub fn alone(index: u32, mtu: u32) -> Self {
        Self { index, mtu, up: true, carrier: true, master: None, lower: None }
    }
}

/// Next hop of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Via {
    /// The destination is a neighbour.
    OnLink,
    /// A neighbour's link-local address.
    Gateway(Ipv6Addr),
    /// None: the kernel is the SRv6 endpoint uN (End with NEXT-CSID, RFC 8986 and RFC 9800).
    End,
}

/// A route: prefix, interface, next hop.
pub type RouteKey = (Ipv6Net, u32, Via);

/// Largest MTU that the kernel stores with a route.
const MAX_ROUTE_MTU: u32 = 65_520;

/// The part of the kernel's network state that the agent owns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetState {
    /// Interfaces that must be up.
    pub up: BTreeSet<u32>,
    /// (interface, address/length).
    pub addresses: BTreeSet<(u32, Ipv6Net)>,
    /// Routes with the agent's protocol number, in the table of the fabric, and the MTU that each has locked, 0 if none: an ICMPv6
    /// error about the path does not change it.
    pub routes: BTreeMap<RouteKey, u32>,
    /// Routes with the agent's protocol number in other tables: those of agents before the table.
    pub strays: BTreeSet<RouteKey>,
    /// Rules that lead to the table of the fabric, and to multicast routes.
    pub rules: BTreeSet<Rule>,
    /// The kernel forwards IPv6: names below net.ipv6.conf.
    pub forwarding: BTreeSet<String>,
    /// Neighbours that the kernel keeps resolved: (interface, address).
    pub neighbours: BTreeSet<(u32, Ipv6Addr)>,
    /// Ports, which run the agent's programs at TC ingress and egress.
    pub attached: BTreeSet<u32>,
    /// Interfaces outside the topology, which run the boundary's program at TC ingress.
    pub guarded: BTreeSet<u32>,
}

/// One change of the kernel's network state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetCommand {
    /// Set an interface up.
    Up(u32),
    /// Add an address.
    AddAddress(u32, Ipv6Net),
    /// Remove an address.
    RemoveAddress(u32, Ipv6Net),
    /// Add or replace a route; it has this MTU, locked.
    AddRoute(Ipv6Net, u32, Via, u32),
    /// Remove a route.
    RemoveRoute(Ipv6Net, u32, Via),
    /// Remove a route from the main table.
    RemoveStray(Ipv6Net, u32, Via),
    /// Add a rule.
    AddRule(Rule),
    /// Remove a rule.
    RemoveRule(Rule),
    /// Let the kernel forward IPv6, by this name below net.ipv6.conf.
    Forward(String),
    /// Make the kernel keep a neighbour resolved.
    AddNeighbour(u32, Ipv6Addr),
    /// Remove a neighbour.
    RemoveNeighbour(u32, Ipv6Addr),
    /// Attach the agent's programs to a port.
    Attach(u32),
    /// Attach the boundary's program to an interface outside the topology.
    Guard(u32),
    /// Detach all of them.
    Detach(u32),
}

/// Name below net.ipv6.conf of the switch for every interface, and of the value that new interfaces get.
const ALL: &str = "all";
const DEFAULT: &str = "default";

/// The desired state, and an error for each port that cannot be configured. `hops` is what the groups need.
pub fn desired(
    base: &NodeBase,
    hops: &Hops,
    interfaces: &BTreeMap<String, Interface>,
    machine: Machine,
) -> (NetState, Vec<ItemError>) {
    let (mut state, mut errors) = (NetState::default(), Vec::new());
    let index_of: BTreeMap<_, _> =
        base.ports.iter().filter_map(|p| Some((p.index, interfaces.get(&p.name)?.index))).collect();
    if let Some(lo) = interfaces.get("lo") {
        state.up.insert(lo.index);
        state.addresses.insert((lo.index, Ipv6Net::from(base.node_address)));
    }
    ports(base, interfaces, &mut state, &mut errors);
    let below = below(&state.attached, interfaces);
    let outside = interfaces.iter().filter(|(name, i)| *name != "lo" && !below.contains(&i.index));
    state.guarded = outside.map(|(_, i)| i.index).filter(|i| !state.attached.contains(i)).collect();
    let ports = || base.ports.iter().map(|p| p.name.as_str()).filter(|name| interfaces.contains_key(*name));
    state.rules = Rule::wanted(machine, ports());
    // The programs find no next hop at a port whose own switch is off; the kernel's stack checks the one for all.
    state.forwarding = [ALL, DEFAULT].into_iter().chain(ports()).map(str::to_owned).collect();
    let mtu_of: BTreeMap<u32, u32> = interfaces.values().map(|i| (i.index, i.mtu.min(MAX_ROUTE_MTU))).collect();
    let mut add = |prefix, ifindex: u32, via| {
        state.routes.insert((prefix, ifindex, via), mtu_of.get(&ifindex).copied().unwrap_or(0));
    };
    // The kernel requires a device on the route of a local SID; packets for the SID may arrive on any.
    if let Some(any) = index_of.values().next() {
        add(base.un, *any, Via::End);
    }
    // A tree uses a link that unicast paths avoid until it has moved: the programs need its route, and a prefix has one.
    let of_trees: BTreeSet<Ipv6Net> = hops.routes().map(|(address, ..)| Ipv6Net::from(*address)).collect();
    for r in base.routes.iter().filter(|r| !of_trees.contains(&r.prefix)) {
        if let Some(ifindex) = index_of.get(&r.port) {
            add(r.prefix, *ifindex, Via::Gateway(r.next_hop));
        }
    }
    for (address, port, next_hop) in hops.routes() {
        if let Some(ifindex) = index_of.get(port) {
            add(Ipv6Net::from(*address), *ifindex, Via::Gateway(*next_hop));
        }
    }
    // The programs find the far end of a link by the route of its uA: no other link has it, and nothing repairs it.
    for link in &base.path_links {
        let port = base.ports.iter().find(|p| p.index == link.port);
        if let (Some(Peer::Node { link_local, .. }), Some(ifindex)) = (port.map(|p| &p.peer), index_of.get(&link.port))
        {
            add(base.addressing.ua_local(link.port), *ifindex, Via::Gateway(*link_local));
        }
    }
    for (port, next_hop) in hops.neighbours() {
        if let Some(ifindex) = index_of.get(port) {
            state.neighbours.insert((*ifindex, *next_hop));
        }
    }
    (state, errors)
}

/// Interfaces that packets pass on their way to a port: members of a bond or bridge, the base of a VLAN. The boundary is at the port;
/// below it, every packet would count as one from outside. What such an interface keeps for itself has no way into the fabric.
fn below(ports: &BTreeSet<u32>, interfaces: &BTreeMap<String, Interface>) -> BTreeSet<u32> {
    let (mut tops, mut below) = (ports.clone(), BTreeSet::new());
    while !tops.is_empty() {
        let members = interfaces.values().filter(|i| i.master.is_some_and(|m| tops.contains(&m))).map(|i| i.index);
        let bases = interfaces.values().filter(|i| tops.contains(&i.index)).filter_map(|i| i.lower);
        tops = members.chain(bases).filter(|i| !below.contains(i)).collect();
        below.extend(&tops);
    }
    below
}

fn ports(base: &NodeBase, interfaces: &BTreeMap<String, Interface>, state: &mut NetState, errors: &mut Vec<ItemError>) {
    for p in &base.ports {
        let mut fault = |kind: ItemKind, detail: String| {
            errors.push(ItemError { kind, name: p.name.clone(), group: None, detail });
        };
        // The controller leads trees and routes around what is of kind `Link`.
        let Some(i) = interfaces.get(&p.name) else {
            let (name, node) = (&p.name, &base.name);
            fault(
                ItemKind::Link,
                format!("interface {name} does not exist on {node}: create it, or correct the topology's link"),
            );
            continue;
        };
        if i.mtu < p.mtu {
            fault(
                ItemKind::Port,
                format!(
                    "interface {} has MTU {}, its link in the topology has {}: raise the MTU of the interface, or lower the link's",
                    p.name, i.mtu, p.mtu
                ),
            );
        }
        if i.up && !i.carrier {
            fault(ItemKind::Link, format!("interface {} has no carrier: check the cable or the far end", p.name));
        }
        state.up.insert(i.index);
        state.attached.insert(i.index);
        state.addresses.insert((i.index, Ipv6Net::new_assert(p.link_local, 64)));
        match &p.peer {
            Peer::Node { link_local, .. } => {
                state.neighbours.insert((i.index, *link_local));
            }
            Peer::Host { prefix, gateway, .. } => {
                state.addresses.insert((i.index, Ipv6Net::new_assert(*gateway, 64)));
                // Where this link carries nothing, another node leads to a host with several links.
                if base.routes.to(prefix.trunc()).is_none() {
                    state.routes.insert((prefix.trunc(), i.index, Via::OnLink), i.mtu.min(MAX_ROUTE_MTU));
                }
            }
        }
    }
}

/// The commands that change `observed` into `desired`: first the boundary, then removals, links, addresses, routes.
pub fn plan(desired: &NetState, observed: &NetState) -> Vec<NetCommand> {
    let mut out = Vec::new();
    for i in desired.attached.difference(&observed.attached) {
        out.push(NetCommand::Attach(*i));
    }
    for i in desired.guarded.difference(&observed.guarded) {
        out.push(NetCommand::Guard(*i));
    }
    let wanted = |i: &u32| desired.attached.contains(i) || desired.guarded.contains(i);
    for i in observed.attached.union(&observed.guarded).filter(|i| !wanted(i)) {
        out.push(NetCommand::Detach(*i));
    }
    for (i, a) in observed.neighbours.difference(&desired.neighbours) {
        out.push(NetCommand::RemoveNeighbour(*i, *a));
    }
    for (i, a) in observed.addresses.difference(&desired.addresses) {
        out.push(NetCommand::RemoveAddress(*i, *a));
    }
    for i in desired.up.difference(&observed.up) {
        out.push(NetCommand::Up(*i));
    }
    for (i, a) in desired.addresses.difference(&observed.addresses) {
        out.push(NetCommand::AddAddress(*i, *a));
    }
    out.extend(plan_routes(&desired.routes, &observed.routes));
    for (i, a) in desired.neighbours.difference(&observed.neighbours) {
        out.push(NetCommand::AddNeighbour(*i, *a));
    }
    for rule in desired.rules.difference(&observed.rules) {
        out.push(NetCommand::AddRule(rule.clone()));
    }
    let mut off: BTreeSet<_> = desired.forwarding.difference(&observed.forwarding).cloned().collect();
    if let Some(all) = off.take(ALL) {
        // It sets every other one.
        off = BTreeSet::from([all]);
    }
    out.extend(off.into_iter().map(NetCommand::Forward));
    // Last: until the rules are there, packets need the routes of the main table.
    for (p, i, g) in observed.strays.difference(&desired.strays) {
        out.push(NetCommand::RemoveStray(*p, *i, *g));
    }
    for rule in observed.rules.difference(&desired.rules) {
        out.push(NetCommand::RemoveRule(rule.clone()));
    }
    out
}

/// Those of routes. An address that is routed the same way before and afterwards, if by a longer or a shorter prefix, is so at every moment
/// between: first come prefixes that are new, the longest first, then those that lead another way, then those that go, the shortest first.
fn plan_routes(desired: &BTreeMap<RouteKey, u32>, observed: &BTreeMap<RouteKey, u32>) -> Vec<NetCommand> {
    let prefixes = |of: &BTreeMap<RouteKey, u32>| of.keys().map(|(prefix, ..)| *prefix).collect::<BTreeSet<Ipv6Net>>();
    let (wanted, present) = (prefixes(desired), prefixes(observed));
    let remove = |(prefix, port, via): &RouteKey| NetCommand::RemoveRoute(*prefix, *port, *via);
    let gone = observed.keys().filter(|route| !desired.contains_key(*route));
    let (former, mut gone): (Vec<&RouteKey>, Vec<_>) = gone.partition(|(prefix, ..)| wanted.contains(prefix));
    gone.sort_by_key(|(prefix, ..)| prefix.prefix_len());
    // One with another MTU is replaced at once and not removed before.
    let others = desired.iter().filter(|(route, mtu)| observed.get(*route) != Some(*mtu));
    let (there, mut new): (Vec<_>, Vec<_>) = others.partition(|((prefix, ..), _)| present.contains(prefix));
    new.sort_by_key(|((prefix, ..), _)| std::cmp::Reverse(prefix.prefix_len()));
    let add = |((prefix, port, via), mtu): (&RouteKey, &u32)| NetCommand::AddRoute(*prefix, *port, *via, *mtu);
    let mut out: Vec<NetCommand> = new.into_iter().map(add).collect();
    let mut former = former.into_iter().peekable();
    for route in there {
        // Next to each other: both are in the order of the prefixes.
        while let Some(old) = former.next_if(|(prefix, ..)| *prefix <= route.0.0) {
            out.push(remove(old));
        }
        out.push(add(route));
    }
    out.extend(former.chain(gone).map(remove));
    out
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use canopy_model::node_spec::{PathLink, Port};
    use canopy_model::routes::Route;
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{any, base, index, port};

    const MACHINE: Machine = Machine { user: 0, multicast_rules: true };

    #[test]
    fn a_plan_from_equal_states_is_empty_and_removals_come_first() {
        let net: Ipv6Net = "5f00:0:2::/48".parse().unwrap();
        let gw = Via::Gateway("fe80::2:1".parse().unwrap());
        let state = |port, mtu| NetState { routes: BTreeMap::from([((net, port, gw), mtu)]), ..NetState::default() };
        let want = state(3, 9000);
        assert!(plan(&want, &want).is_empty());
        let add = NetCommand::AddRoute(net, 3, gw, 9000);
        assert_eq!(plan(&want, &state(2, 9000)), vec![NetCommand::RemoveRoute(net, 2, gw), add.clone()]);
        // Another MTU, or none as agents before it set: the route is there all the time.
        assert_eq!((plan(&want, &state(3, 1500)), plan(&want, &state(3, 0))), (vec![add.clone()], vec![add]));
    }

    /// The port of a packet to `to`: that of the longest prefix.
    fn port_to(table: &BTreeMap<RouteKey, u32>, to: Ipv6Addr) -> Option<u32> {
        let matching = table.keys().filter(|(prefix, ..)| prefix.contains(&to));
        matching.max_by_key(|(prefix, ..)| prefix.prefix_len()).map(|(_, port, _)| *port)
    }

    proptest! {
        /// Catches a host that nothing reaches for a moment because its prefix is joined with that of another one, or no longer is.
        #[test]
        fn what_is_routed_the_same_way_before_and_after_is_never_routed_another_way(
            before in prop::collection::btree_map((60u8..=64, 0u128..16), 1u32..4, 0..12),
            after in prop::collection::btree_map((60u8..=64, 0u128..16), 1u32..4, 0..12),
        ) {
            let first: u128 = u128::from("2001:db8::".parse::<Ipv6Addr>().unwrap());
            let address = |n: u128| Ipv6Addr::from(first + (n << 64) + 1);
            let table = |of: &BTreeMap<(u8, u128), u32>| -> BTreeMap<RouteKey, u32> {
                let prefixes: BTreeMap<Ipv6Net, u32> =
                    of.iter().map(|((length, n), port)| (Ipv6Net::new_assert(address(*n), *length).trunc(), *port)).collect();
                prefixes.into_iter().map(|(prefix, port)| ((prefix, port, Via::OnLink), 9000)).collect()
            };
            let (before, after) = (table(&before), table(&after));
            let mut now = before.clone();
            for command in plan_routes(&after, &before) {
                match command {
                    NetCommand::AddRoute(prefix, port, via, mtu) => {
                        prop_assert!(now.keys().all(|(other, ..)| *other != prefix), "two routes to {prefix}");
                        now.insert((prefix, port, via), mtu);
                    }
                    NetCommand::RemoveRoute(prefix, port, via) => prop_assert!(now.remove(&(prefix, port, via)).is_some()),
                    other => prop_assert!(false, "{other:?}"),
                }
                for to in (0..16).map(address) {
                    let (was, is) = (port_to(&before, to), port_to(&after, to));
                    prop_assert!(was != is || port_to(&now, to) == is, "{to}: {was:?}, {:?}, {is:?}", port_to(&now, to));
                }
            }
            prop_assert_eq!(now, after);
        }
    }

    #[test]
    fn a_tree_keeps_its_route_to_a_node_while_unicast_paths_avoid_its_link() {
        let [node, other, gateway]: [Ipv6Addr; 3] = ["fcff::2", "fcff::3", "fe80::1"].map(|a| a.parse().unwrap());
        let route = |to: Ipv6Addr| Route { prefix: to.into(), port: index(1), next_hop: gateway };
        let base =
            NodeBase { routes: [route(node), route(other)].into_iter().collect(), ..base(vec![port(1), port(2)]) };
        let interfaces = [1, 2].map(|n| (format!("eth{n}"), Interface::alone(n, 9000))).into();
        let led = |hops: &Hops| {
            let (state, _) = desired(&base, hops, &interfaces, MACHINE);
            let to = |a| state.routes.keys().filter(|(p, ..)| *p == Ipv6Net::from(a)).map(|r| r.1).collect::<Vec<_>>();
            (to(node), to(other))
        };
        assert_eq!(led(&Hops::default()), (vec![1], vec![1]));
        assert_eq!(led(&Hops::of((node, index(2), gateway))), (vec![2], vec![1]), "one route to each");
    }

    /// Catches a uA without a route, one whose route leads over another link to the same node, and one towards a host.
    #[test]
    fn the_ua_of_each_link_to_a_node_has_a_route_over_that_link() {
        let host = Peer::Host { name: "h".into(), prefix: any().into(), address: any(), gateway: any() };
        let ports = vec![port(1), port(2), Port { peer: host, ..port(3) }];
        let path_links = [1, 2, 3, 4].map(|n| PathLink { port: index(n), un: None }).into();
        let base = NodeBase { path_links, ..base(ports) };
        let interfaces = [1, 2, 3].map(|n| (format!("eth{n}"), Interface::alone(n, 9000))).into();
        let (state, _) = desired(&base, &Hops::default(), &interfaces, MACHINE);
        let ua = |n: u16| format!("5f00:0:{:x}::/48", 0xE000 + n).parse().unwrap();
        let gateway = Via::Gateway(any());
        let routes: Vec<_> = state.routes.keys().filter(|(_, _, via)| *via == gateway).copied().collect();
        assert_eq!(routes, [(ua(1), 1, gateway), (ua(2), 2, gateway)]);
    }

    /// eth1 is a VLAN of nic; mgmt has no part in the fabric.
    #[test]
    fn ports_get_the_agents_programs_and_what_is_outside_gets_the_boundarys() {
        let interfaces = BTreeMap::from([
            ("lo".to_string(), Interface::alone(1, 65_536)),
            ("eth1".into(), Interface { lower: Some(3), ..Interface::alone(2, 9000) }),
            ("nic".into(), Interface::alone(3, 9000)),
            ("mgmt".into(), Interface::alone(4, 1500)),
        ]);
        let (state, errors) = desired(&base(vec![port(1)]), &Hops::default(), &interfaces, MACHINE);
        assert_eq!(errors, []);
        assert_eq!((state.attached, state.guarded), (BTreeSet::from([2]), BTreeSet::from([4])));
        assert_eq!(state.up, BTreeSet::from([1, 2]));
        assert_eq!(state.neighbours, BTreeSet::from([(2, any())]));
        let addresses = [(1, Ipv6Net::from(any())), (2, Ipv6Net::new_assert(any(), 64))];
        assert_eq!(state.addresses, BTreeSet::from(addresses));
    }

    #[test]
    fn a_port_without_its_interface_its_carrier_or_its_mtu_is_an_error_and_one_that_is_down_is_not() {
        let found = |eth1: Option<Interface>| {
            let interfaces = eth1.map(|eth1| ("eth1".to_string(), eth1)).into_iter().collect();
            let (_, errors) = desired(&base(vec![port(1)]), &Hops::default(), &interfaces, MACHINE);
            errors.into_iter().map(|e| (e.kind, e.name)).collect::<Vec<_>>()
        };
        let of = |kind| vec![(kind, "eth1".to_string())];
        let eth1 = |mtu| Interface::alone(2, mtu);
        assert_eq!(found(None), of(ItemKind::Link));
        assert_eq!([8999, 9000, 9001].map(|mtu| found(Some(eth1(mtu)))), [of(ItemKind::Port), vec![], vec![]]);
        let without = Interface { carrier: false, ..eth1(9000) };
        assert_eq!(found(Some(without.clone())), of(ItemKind::Link));
        // The agent sets it up; then its carrier is known.
        assert_eq!(found(Some(Interface { up: false, ..without })), []);
    }

    #[test]
    fn what_is_below_a_port_is_not_outside() {
        let alone = |index| Interface::alone(index, 9000);
        let interfaces = BTreeMap::from([
            ("port".to_string(), Interface { lower: Some(2), ..alone(1) }),
            ("bond".into(), alone(2)),
            ("eth0".into(), Interface { master: Some(2), ..alone(3) }),
            ("eth1".into(), Interface { master: Some(2), ..alone(4) }),
            ("other".into(), alone(5)),
            ("vlan".into(), Interface { lower: Some(5), ..alone(6) }),
        ]);
        assert_eq!(below(&BTreeSet::from([1]), &interfaces), BTreeSet::from([2, 3, 4]));
        assert_eq!(below(&BTreeSet::from([5]), &interfaces), BTreeSet::new());
        // A loop that the kernel does not permit ends too.
        let ring = BTreeMap::from([
            ("a".to_string(), Interface { lower: Some(2), ..alone(1) }),
            ("b".into(), Interface { lower: Some(1), ..alone(2) }),
        ]);
        assert_eq!(below(&BTreeSet::from([1]), &ring), BTreeSet::from([1, 2]));
    }

    #[test]
    fn each_port_forwards_and_the_switch_for_all_sets_every_other_one() {
        let on = |names: &[&str]| NetState {
            forwarding: names.iter().map(|n| (*n).to_owned()).collect(),
            ..NetState::default()
        };
        let desired = on(&["all", "default", "eth1", "eth2"]);
        let commands = |observed: &[&str]| plan(&desired, &on(observed));
        let forward = |name: &str| NetCommand::Forward(name.into());
        assert_eq!(commands(&["all", "default", "eth1"]), [forward("eth2")]);
        assert_eq!(commands(&["all", "eth1", "eth2"]), [forward("default")]);
        assert_eq!(commands(&["eth1"]), [forward("all")]);
    }

    #[test]
    fn the_boundary_comes_before_routes_and_the_routes_of_the_main_table_go_last() {
        let net: Ipv6Net = "5f00:0:2::/48".parse().unwrap();
        let gw = Via::Gateway("fe80::2:1".parse().unwrap());
        let want = NetState {
            routes: BTreeMap::from([((net, 3, gw), 9000)]),
            rules: Rule::wanted(MACHINE, ["eth3"]),
            forwarding: BTreeSet::from(["all".into(), "eth3".into()]),
            attached: BTreeSet::from([3]),
            guarded: BTreeSet::from([4]),
            ..NetState::default()
        };
        let have = NetState {
            strays: BTreeSet::from([(net, 3, gw)]),
            rules: BTreeSet::from([Rule::OwnOfAll]),
            guarded: BTreeSet::from([5]),
            ..NetState::default()
        };
        let commands = plan(&want, &have);
        let at = |c: NetCommand| commands.iter().position(|x| *x == c).unwrap();
        assert!(at(NetCommand::Attach(3)).max(at(NetCommand::Guard(4))) < at(NetCommand::AddRoute(net, 3, gw, 9000)));
        assert!(at(NetCommand::AddRoute(net, 3, gw, 9000)) < at(NetCommand::AddRule(Rule::Passed)));
        let last = [NetCommand::RemoveStray(net, 3, gw), NetCommand::RemoveRule(Rule::OwnOfAll)];
        assert!(commands.ends_with(&last), "{commands:?}");
        assert!(commands.contains(&NetCommand::Detach(5)) && commands.contains(&NetCommand::Forward("all".into())));
        // What was a port and is outside now changes hands and is not detached.
        let was = NetState { attached: BTreeSet::from([3, 4]), ..want.clone() };
        let was = NetState { guarded: BTreeSet::new(), ..was };
        assert_eq!(plan(&want, &was), vec![NetCommand::Guard(4)]);
    }
}
