// SPDX-License-Identifier: Apache-2.0
//! Path SIDs of the node in the maps (decisions 5): which link each uSID leads over, and what passed by them.

use std::collections::BTreeMap;

use canopy_agent_core::PathPackets;
use canopy_agent_core::net::Interface;
use canopy_bpf::node::types::{canopy_path_action as Action, canopy_port_kind as PortKind};
use canopy_bpf::node::{NODE, Node, types};
use canopy_bpf::{Context, Map, Plain, Result, bytes};
use canopy_model::host_programs::HostPrograms;
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

/// Writes the links that path programs lead over. Entries that are as wanted stay; counters go with their interface.
pub(crate) fn configure(bpf: &Node, base: &NodeBase, interfaces: &BTreeMap<String, Interface>) -> Result<()> {
    write(&bpf.path_links(), wanted(base, interfaces))?;
    let is_there = |ifindex: u32| interfaces.values().any(|i| i.index == ifindex);
    for key in bpf.path_packets().keys().iter().filter(|key| !is_there(key.ifindex)) {
        bpf.path_packets().delete(key)?;
    }
    Ok(())
}

/// Writes what programs of the node's own hosts may be.
pub(crate) fn permit(bpf: &Node, programs: Option<&HostPrograms>) -> Result<()> {
    let ends = write(&bpf.path_ends(), programs.into_iter().flat_map(ends));
    write(&bpf.path_nodes(), [(NODE, nodes(programs))])?;
    ends
}

/// The uNs at which programs of hosts to each prefix may end.
fn ends(programs: &HostPrograms) -> impl Iterator<Item = (types::canopy_prefix, types::canopy_ends)> {
    programs.ends.chunk_by(|(prefix, _), (next, _)| prefix == next).filter_map(|nodes| {
        let (prefix, _) = nodes.first()?;
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = prefix.network().octets();
        let words = [[a, b, c, d], [e, f, g, h], [i, j, k, l], [m, n, o, p]];
        let length = prefix.prefix_len().into();
        let mut ends = types::canopy_ends::default();
        ends.un.iter_mut().zip(nodes).for_each(|(un, (_, node))| *un = node.get());
        Some((types::canopy_prefix { length, address: words.map(u32::from_ne_bytes) }, ends))
    })
}

/// The uNs that programs of hosts may have.
fn nodes(programs: Option<&HostPrograms>) -> types::canopy_uns {
    let mut uns = types::canopy_uns::default();
    let bits = programs.map_or(&[][..], |programs| programs.nodes.bits());
    for (word, octets) in uns.word.iter_mut().zip(bits.chunks(8)) {
        *word = octets.iter().rev().fold(0, |word, octet| word << 8 | u64::from(*octet));
    }
    uns
}

/// Makes the map what is wanted, and reads it back. New entries come first, if there is room for both: of prefixes, one that others take the
/// place of has its node until these are there.
fn write<K: Plain, V: Plain>(map: &Map<'_, K, V>, wanted: impl IntoIterator<Item = (K, V)>) -> Result<()> {
    let wanted = Entries::of(wanted);
    let held = Entries::of(map.entries()?);
    let gone = held.0.iter().filter(|(key, _)| !wanted.0.contains_key(*key));
    let other = wanted.0.iter().filter(|(key, (_, value))| !held.has(key, value));
    let (gone, other): (Vec<_>, Vec<_>) = (gone.collect(), other.collect());
    if gone.is_empty() && other.is_empty() {
        return Ok(());
    }
    let put = || other.iter().try_for_each(|(_, (key, value))| map.put(key, value));
    let has_room = put().is_ok();
    gone.iter().try_for_each(|(_, (key, _))| map.delete(key))?;
    if !has_room {
        put()?;
    }
    let held = Entries::of(map.entries()?);
    if held.0.len() == wanted.0.len() && wanted.0.iter().all(|(key, (_, value))| held.has(key, value)) {
        return Ok(());
    }
    Err("it has other entries than were written").with_context(|| format!("reading back map {}", map.name()))
}

/// Entries of a map by the octets of their keys.
struct Entries<K, V>(BTreeMap<Vec<u8>, (K, V)>);

impl<K: Plain, V: Plain> Entries<K, V> {
    fn of(entries: impl IntoIterator<Item = (K, V)>) -> Self {
        Self(entries.into_iter().map(|(key, value)| (bytes(&key).to_vec(), (key, value))).collect())
    }

    fn has(&self, key: &[u8], value: &V) -> bool {
        is(self.0.get(key).map(|(_, value)| value), Some(value))
    }
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
