// SPDX-License-Identifier: Apache-2.0
//! Desired network state of a node, observed network state of the kernel, and the commands from one to the other.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;

use canopy_model::node_spec::{NodeBase, Peer};
use canopy_model::status::{ItemError, ItemKind};
use ipnet::Ipv6Net;

use crate::hops::Hops;

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

/// The part of the kernel's network state that the agent owns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetState {
    /// Interfaces that must be up.
    pub up: BTreeSet<u32>,
    /// (interface, address/length).
    pub addresses: BTreeSet<(u32, Ipv6Net)>,
    /// Routes with the agent's protocol number: (prefix, interface, via).
    pub routes: BTreeSet<(Ipv6Net, u32, Via)>,
    /// Neighbours that the kernel keeps resolved: (interface, address).
    pub neighbours: BTreeSet<(u32, Ipv6Addr)>,
    /// Interfaces whose TC ingress runs the agent's program.
    pub attached: BTreeSet<u32>,
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
    /// Add or replace a route.
    AddRoute(Ipv6Net, u32, Via),
    /// Remove a route.
    RemoveRoute(Ipv6Net, u32, Via),
    /// Make the kernel keep a neighbour resolved.
    AddNeighbour(u32, Ipv6Addr),
    /// Remove a neighbour.
    RemoveNeighbour(u32, Ipv6Addr),
    /// Attach the agent's program.
    Attach(u32),
    /// Detach it.
    Detach(u32),
}

/// The desired state, and an error for each port that cannot be configured. `hops` is what the groups need.
pub fn desired(base: &NodeBase, hops: &Hops, interfaces: &BTreeMap<String, Interface>) -> (NetState, Vec<ItemError>) {
    let (mut state, mut errors) = (NetState::default(), Vec::new());
    let index_of: BTreeMap<_, _> =
        base.ports.iter().filter_map(|p| Some((p.index, interfaces.get(&p.name)?.index))).collect();
    if let Some(lo) = interfaces.get("lo") {
        state.up.insert(lo.index);
        state.addresses.insert((lo.index, Ipv6Net::from(base.node_address)));
    }
    ports(base, interfaces, &mut state, &mut errors);
    // The kernel requires a device on the route of a local SID; packets for the SID may arrive on any.
    if let Some(any) = index_of.values().next() {
        state.routes.insert((base.un, *any, Via::End));
    }
    for r in &base.routes {
        if let Some(ifindex) = index_of.get(&r.port) {
            state.routes.insert((r.prefix, *ifindex, Via::Gateway(r.next_hop)));
        }
    }
    for (address, port, next_hop) in hops.routes() {
        if let Some(ifindex) = index_of.get(port) {
            state.routes.insert((Ipv6Net::from(*address), *ifindex, Via::Gateway(*next_hop)));
        }
    }
    for (port, next_hop) in hops.neighbours() {
        if let Some(ifindex) = index_of.get(port) {
            state.neighbours.insert((*ifindex, *next_hop));
        }
    }
    (state, errors)
}

fn ports(base: &NodeBase, interfaces: &BTreeMap<String, Interface>, state: &mut NetState, errors: &mut Vec<ItemError>) {
    for p in &base.ports {
        let mut fault = |kind: ItemKind, detail: String| {
            errors.push(ItemError { kind, name: p.name.clone(), group: None, detail });
        };
        let mut problem = |detail: String| fault(ItemKind::Port, detail);
        let Some(i) = interfaces.get(&p.name) else {
            problem(format!(
                "interface {} does not exist on {}: create it, or correct the topology's link",
                p.name, base.name
            ));
            continue;
        };
        if i.mtu < p.mtu {
            problem(format!(
                "interface {} has MTU {}, its link in the topology has {}: raise the MTU of the interface, or lower the \
                 link's",
                p.name, i.mtu, p.mtu
            ));
        }
        if i.up && !i.carrier {
            // The controller routes around such a link.
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
                state.routes.insert((prefix.trunc(), i.index, Via::OnLink));
            }
        }
    }
}

/// The commands that change `observed` into `desired`: removals first, then links, addresses, routes.
pub fn plan(desired: &NetState, observed: &NetState) -> Vec<NetCommand> {
    let mut out = Vec::new();
    for i in observed.attached.difference(&desired.attached) {
        out.push(NetCommand::Detach(*i));
    }
    for (p, i, g) in observed.routes.difference(&desired.routes) {
        out.push(NetCommand::RemoveRoute(*p, *i, *g));
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
    for (p, i, g) in desired.routes.difference(&observed.routes) {
        out.push(NetCommand::AddRoute(*p, *i, *g));
    }
    for (i, a) in desired.neighbours.difference(&observed.neighbours) {
        out.push(NetCommand::AddNeighbour(*i, *a));
    }
    for i in desired.attached.difference(&observed.attached) {
        out.push(NetCommand::Attach(*i));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_from_equal_states_is_empty_and_removals_come_first() {
        let net: Ipv6Net = "5f00:0:2::/48".parse().unwrap();
        let gw = Via::Gateway("fe80::2:1".parse().unwrap());
        let want = NetState { routes: BTreeSet::from([(net, 3, gw)]), ..NetState::default() };
        assert!(plan(&want, &want).is_empty());
        let have = NetState { routes: BTreeSet::from([(net, 2, gw)]), ..NetState::default() };
        assert_eq!(plan(&want, &have), vec![NetCommand::RemoveRoute(net, 2, gw), NetCommand::AddRoute(net, 3, gw)]);
    }
}
