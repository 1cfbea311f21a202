// SPDX-License-Identifier: Apache-2.0
//! Path SIDs of the node in the maps (decisions 5): which link each uSID leads over, and what passed by them.

use std::collections::BTreeMap;

use canopy_agent_core::PathPackets;
use canopy_agent_core::net::Interface;
use canopy_bpf::node::types::{canopy_path_action as Action, canopy_port_kind as PortKind};
use canopy_bpf::node::{Node, types};
use canopy_bpf::{Context, Result};
use canopy_model::node_spec::{NodeBase, Peer};
use canopy_model::usid::Usid;

use crate::observe::is;

/// Links by uSID.
type Links = BTreeMap<u32, types::canopy_path_link>;

/// The links that the base wants, of ports whose interface exists.
fn wanted(base: &NodeBase, interfaces: &BTreeMap<String, Interface>) -> Links {
    let mut links = Links::new();
    for path_link in &base.path_links {
        let Some(port) = base.ports.iter().find(|p| p.index == path_link.port) else { continue };
        let Some(interface) = interfaces.get(&port.name) else { continue };
        let mut link = types::canopy_path_link { ifindex: interface.index, ..types::canopy_path_link::default() };
        match port.peer {
            Peer::Node { .. } => {
                link.kind = PortKind::PORT_FABRIC.0;
                link.next_hop = base.addressing.ua_local(port.index).addr().into();
            }
            Peer::Host { .. } => link.kind = PortKind::PORT_EDGE.0,
        }
        let usids = [Some(Usid::Adjacency(port.index)), path_link.un.map(Usid::Node)];
        links.extend(usids.into_iter().flatten().map(|usid| (u32::from(usid.get()), link)));
    }
    links
}

/// Writes the links that path programs lead over, and reads them back. Entries that are as wanted stay; counters go with their interface.
pub(crate) fn configure(bpf: &Node, base: &NodeBase, interfaces: &BTreeMap<String, Interface>) -> Result<()> {
    let (wanted, held) = (wanted(base, interfaces), held(bpf)?);
    if !same(&held, &wanted) {
        for usid in held.keys().filter(|usid| !wanted.contains_key(usid)) {
            bpf.path_links().delete(usid)?;
        }
        for (usid, link) in wanted.iter().filter(|(usid, link)| !is(held.get(usid), Some(*link))) {
            bpf.path_links().put(usid, link)?;
        }
        if !same(&self::held(bpf)?, &wanted) {
            return Err("it has other entries than were written").context("reading back map path_links");
        }
    }
    let is_there = |ifindex: u32| interfaces.values().any(|i| i.index == ifindex);
    for key in bpf.path_packets().keys().iter().filter(|key| !is_there(key.ifindex)) {
        bpf.path_packets().delete(key)?;
    }
    Ok(())
}

fn held(bpf: &Node) -> Result<Links> {
    Ok(bpf.path_links().entries()?.into_iter().collect())
}

fn same(held: &Links, wanted: &Links) -> bool {
    held.len() == wanted.len() && wanted.iter().all(|(usid, link)| is(held.get(usid), Some(link)))
}

/// What passed by path SIDs, by the name of the port on which it arrived.
pub(crate) fn packets(bpf: &Node, names: &BTreeMap<u32, String>) -> Result<BTreeMap<String, PathPackets>> {
    let mut all: BTreeMap<String, PathPackets> = BTreeMap::new();
    for (key, packets) in bpf.path_packets().entries()? {
        let Some(port) = names.get(&key.ifindex) else { continue };
        let of_port = all.entry(port.clone()).or_default();
        let packets = packets.into_iter().sum();
        match Action(key.action) {
            Action::PATH_FORWARDED => of_port.forwarded = packets,
            Action::PATH_ENDED => of_port.ended = packets,
            _ => {}
        }
    }
    Ok(all)
}
