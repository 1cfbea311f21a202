// SPDX-License-Identifier: Apache-2.0
//! Desired content of the configuration maps for a `NodeSpec`, byte for byte.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use canopy_agent_core::net::Interface;
use canopy_agent_core::slots;
use canopy_model::ids::PortIndex;
use canopy_model::node_spec::{Branch, BranchKind, GroupProgram, MAX_BRANCHES, NodeSpec};
use canopy_model::status::{ItemError, ItemKind};
use canopy_packet::icrc;
use canopy_packet::ipv6::Ipv6;
use canopy_packet::srh::{Srh, Tlv};
use canopy_packet::udp::{ROCE_PORT, Udp};
use canopy_packet::{end_mt::EndMt, icrc::header_delta};

use crate::plain::bytes;
use crate::skel::types;

/// One map's entries.
pub(crate) type Entries = BTreeMap<Vec<u8>, Vec<u8>>;
/// Slots by group and branch address.
pub(crate) type Slots = BTreeMap<u32, BTreeMap<Ipv6Addr, u32>>;

pub(crate) const GROUP_HEADEND: u32 = 1;
const GROUP_PROVISIONED: u32 = 2;
const GROUP_MULTICAST: u32 = 4;
const BRANCH_NODE: u32 = 1;
const BRANCH_RECEIVER: u32 = 2;
/// Key of an empty leaf of the minimum tree (shared.h KEY_EMPTY).
pub(crate) const KEY_EMPTY: u64 = u64::MAX;
const TURN: u64 = 1 << 24;
const NEXT_HEADER_ROUTING: u8 = 43;
const NEXT_HEADER_IPV6: u8 = 41;
const NEXT_HEADER_UDP: u8 = 17;
/// UDP + BTH + AETH + ICRC.
const ACK_PAYLOAD: u16 = 28;

/// Desired content of every configuration map.
#[derive(Default)]
pub(crate) struct Tables {
    pub(crate) node: Option<types::canopy_node>,
    pub(crate) groups: BTreeMap<u32, types::canopy_group>,
    pub(crate) proxies: Entries,
    pub(crate) qpns: Entries,
    pub(crate) trees: Entries,
    pub(crate) multicasts: Entries,
    pub(crate) outers: Entries,
    pub(crate) branches: Entries,
    pub(crate) peers: Entries,
    pub(crate) slots: Slots,
    /// How the branch of each (group, slot) joins; without standby branches.
    pub(crate) join_points: BTreeMap<(u32, u32), JoinPoint>,
}

/// How a branch joins its group (decisions 3.9).
pub(crate) struct JoinPoint {
    pub(crate) at_boundary: bool,
    pub(crate) receiver: bool,
    pub(crate) since: u32,
}

/// An address in wire order, as the maps store it.
pub(crate) fn addr(a: Ipv6Addr) -> types::canopy_addr {
    let o = a.octets();
    let half = |at: usize| {
        u64::from_ne_bytes([o[at], o[at + 1], o[at + 2], o[at + 3], o[at + 4], o[at + 5], o[at + 6], o[at + 7]])
    };
    types::canopy_addr { hi: half(0), lo: half(8) }
}

/// The address of a map's entry.
pub(crate) fn address(a: &types::canopy_addr) -> Ipv6Addr {
    let (hi, lo) = (a.hi.to_ne_bytes(), a.lo.to_ne_bytes());
    let mut o = [0; 16];
    o[..8].copy_from_slice(&hi);
    o[8..].copy_from_slice(&lo);
    Ipv6Addr::from(o)
}

/// Map key of a slot.
pub(crate) fn slot_key(group_id: u32, slot: u32) -> types::canopy_slot_key {
    types::canopy_slot_key { group_id, slot }
}

impl Tables {
    /// Renders `spec`; `held` are the current slots of the branches. A group that cannot be rendered is an error and left out.
    pub(crate) fn desired(
        spec: &NodeSpec,
        interfaces: &BTreeMap<String, Interface>,
        held: &Slots,
    ) -> (Self, Vec<ItemError>) {
        let (mut t, mut errors) = (Self::default(), Vec::new());
        let ports: BTreeMap<PortIndex, u32> =
            spec.base.ports.iter().filter_map(|p| Some((p.index, interfaces.get(&p.name)?.index))).collect();
        t.node = Some(types::canopy_node {
            address: addr(spec.base.node_address),
            end_mt: addr(spec.base.end_mt),
            replicate_hi: replicate_hi(spec.base.end_mt),
        });
        for g in spec.groups.values() {
            let mut fail = |detail: String| {
                errors.push(ItemError { kind: ItemKind::Group, name: g.name.clone(), group: Some(g.group_id), detail });
            };
            let missing: Vec<_> = used_ports(g).filter(|p| !ports.contains_key(p)).map(|p| p.to_string()).collect();
            if !missing.is_empty() {
                let names: Vec<_> = spec
                    .base
                    .ports
                    .iter()
                    .filter(|p| missing.contains(&p.index.to_string()))
                    .map(|p| p.name.clone())
                    .collect();
                fail(format!(
                    "group {} needs interface {} on {}, which does not exist",
                    g.name,
                    names.join(", "),
                    spec.base.name
                ));
                // The group stays in its last state: branches on existing interfaces continue to forward.
                continue;
            }
            if let Err(detail) = t.add(spec.base.node_address, g, &ports, held.get(&g.group_id.get())) {
                fail(detail);
            }
        }
        (t, errors)
    }

    fn add(
        &mut self,
        node_address: Ipv6Addr,
        g: &GroupProgram,
        ports: &BTreeMap<PortIndex, u32>,
        held: Option<&BTreeMap<Ipv6Addr, u32>>,
    ) -> Result<(), String> {
        let id = g.group_id.get();
        let none = BTreeMap::new();
        let (slots, without) = slots::assign(g.branches.iter().map(|b| b.address), held.unwrap_or(&none));
        if let Some(b) = without.first() {
            return Err(format!("no room for branch {b}: a node serves {} branches of one group", MAX_BRANCHES));
        }
        let mut conf = group(g, ports);
        for b in &g.branches {
            let slot = slots[&b.address];
            let set = if matches!(b.kind, BranchKind::Node { .. }) { &mut conf.children } else { &mut conf.receivers };
            set.word[slot as usize / 64] |= 1 << (slot % 64);
            let receiver = matches!(b.kind, BranchKind::Receiver { .. });
            // A standby branch has a slot, but no port on which its feedback is accepted.
            let ifindex = if b.standby { 0 } else { ports[&b.port] };
            if b.standby {
                conf.standby.word[slot as usize / 64] |= 1 << (slot % 64);
            } else {
                self.join_points.insert((id, slot), JoinPoint { at_boundary: b.at_boundary, receiver, since: b.since });
            }
            let value = branch(g, b, ports[&b.port]);
            self.branches.insert(bytes(&slot_key(id, slot)).to_vec(), bytes(&value).to_vec());
            let key = types::canopy_peer_key { group_id: id, pad: 0, address: addr(b.address) };
            self.peers.insert(bytes(&key).to_vec(), bytes(&types::canopy_peer { slot, ifindex }).to_vec());
        }
        if let Some(outer) = outer(node_address, g)? {
            self.outers.insert(bytes(&id).to_vec(), bytes(&outer).to_vec());
        }
        self.groups.insert(id, conf);
        self.proxies.insert(bytes(&addr(g.proxy)).to_vec(), bytes(&id).to_vec());
        self.qpns.insert(bytes(&g.designated_qpn.get()).to_vec(), bytes(&id).to_vec());
        if g.replication_sid.is_some() {
            self.trees.insert(bytes(&g.tree_id.get()).to_vec(), bytes(&id).to_vec());
        }
        if let Some(m) = g.multicast {
            self.multicasts.insert(bytes(&addr(m.group)).to_vec(), bytes(&id).to_vec());
        }
        self.slots.insert(id, slots);
        Ok(())
    }
}

fn used_ports(g: &GroupProgram) -> impl Iterator<Item = PortIndex> {
    let up = [g.upstream.port].into_iter().chain(g.alternate_upstream);
    g.branches.iter().map(|b| b.port).chain(up).chain(g.headend.iter().map(|h| h.source_port))
}

/// First half of this node's Replication-SIDs: that of the End.MT SID with another function.
fn replicate_hi(end_mt: Ipv6Addr) -> u64 {
    let mut s = end_mt.segments();
    s[3] = canopy_model::addressing::FUNCTION_REPLICATE;
    addr(Ipv6Addr::from(s)).hi
}

fn group(g: &GroupProgram, ports: &BTreeMap<PortIndex, u32>) -> types::canopy_group {
    let lengths = g.branches.iter().filter_map(|b| match &b.kind {
        BranchKind::Receiver { memory, .. } => Some(memory.map_or(0, |m| m.length)),
        BranchKind::Node { .. } => None,
    });
    let mut c = types::canopy_group {
        group_id: g.group_id.get(),
        epoch: g.epoch,
        dqpn: g.designated_qpn.get(),
        proxy: addr(g.proxy),
        source: addr(g.source.address),
        up_ifindex: ports[&g.upstream.port],
        alternate_ifindex: g.alternate_upstream.map_or(0, |port| ports[&port]),
        up_sa: addr(g.upstream.source_address),
        up_da: addr(g.upstream.destination),
        up_qpn: g.upstream.dest_qp.get(),
        source_qpn: g.source.qpn.get(),
        up_sport: u32::from(ack_source_port(g)),
        ack_seed: ack_seed(g),
        start: TURN + u64::from(g.start_psn.get()),
        write_base: g.write_base_va,
        write_length: lengths.min().unwrap_or(0),
        write_rkey: g.write_rkey,
        window: g.params.window,
        reack_ns: g.params.reack_interval_ns,
        nak_merge_ns: g.params.nak_merge_ns,
        cnp_window_ns: g.params.cnp_window_ns,
        cnp_min_ns: g.params.cnp_min_interval_ns,
        ..types::canopy_group::default()
    };
    if let Some(h) = &g.headend {
        c.flags |= GROUP_HEADEND;
        c.source_ifindex = ports[&h.source_port];
    }
    if g.receivers_provisioned {
        c.flags |= GROUP_PROVISIONED;
    }
    if g.multicast.is_some() {
        c.flags |= GROUP_MULTICAST;
    }
    c
}

fn branch(g: &GroupProgram, b: &Branch, ifindex: u32) -> types::canopy_branch {
    let mut c = types::canopy_branch { ifindex, address: addr(b.address), ..types::canopy_branch::default() };
    match &b.kind {
        BranchKind::Node { sid } => {
            c.kind = BRANCH_NODE;
            c.dst = addr(*sid);
        }
        BranchKind::Receiver { qpn, memory } => {
            c.kind = BRANCH_RECEIVER;
            c.dst = addr(b.address);
            c.qpn = qpn.get();
            c.icrc_delta =
                header_delta(g.source.address, g.proxy, g.designated_qpn.get(), g.proxy, b.address, qpn.get());
            if let Some(m) = memory {
                (c.va, c.length, c.rkey) = (m.va, m.length, m.rkey);
            }
        }
    }
    c
}

/// The CRC register after the constant first bytes of an upstream ACK.
fn ack_seed(g: &GroupProgram) -> u32 {
    let ip = Ipv6 {
        traffic_class: 0,
        flow_label: 0,
        payload_len: ACK_PAYLOAD,
        next_header: NEXT_HEADER_UDP,
        hop_limit: 64,
        src: g.upstream.source_address,
        dst: g.upstream.destination,
    };
    let udp = Udp { src_port: ack_source_port(g), dst_port: ROCE_PORT, length: ACK_PAYLOAD, checksum: 0 };
    let (mut ip_bytes, mut udp_bytes) = ([0; 40], [0; 8]);
    // Emitting fails only if the buffer is too short; both have the length of their header.
    let _ = ip.emit(&mut ip_bytes).and(udp.emit(&mut udp_bytes));
    let qpn = g.upstream.dest_qp.get().to_be_bytes();
    icrc::seed(&ip_bytes, &udp_bytes, &[0x11, 0x40, 0xFF, 0xFF, 0, qpn[1], qpn[2], qpn[3]])
}

/// UDP source port of feedback that a node sends upstream. Between nodes its low 14 bits are the epoch, which the ICRC
/// covers: a parent node recognises feedback that was sent before receivers moved. Towards the source it is constant.
fn ack_source_port(g: &GroupProgram) -> u16 {
    let low = if g.headend.is_some() { g.designated_qpn.get() } else { g.epoch };
    0xC000 | (low & 0x3FFF) as u16
}

/// Outer IPv6 and SRH, at the headend of a group with child nodes (decisions 2.2).
fn outer(node_address: Ipv6Addr, g: &GroupProgram) -> Result<Option<types::canopy_outer>, String> {
    let Some(h) = &g.headend else { return Ok(None) };
    let first = *h.segments.last().ok_or("headend without a segment list")?;
    let tlvs = h
        .tlvs
        .iter()
        .map(|t| {
            Tlv::EndMt(EndMt { edge: t.edge, receivers: t.receivers.iter().map(|(a, q)| (*a, q.get())).collect() })
        })
        .collect();
    let srh = Srh {
        next_header: NEXT_HEADER_IPV6,
        segments_left: 1,
        flags: 0,
        tag: 0,
        segments: h.segments.clone(),
        tlvs,
        hmac: None,
    };
    let srh = srh.to_vec().map_err(|e| format!("SRH of group {}: {e}", g.name))?;
    let ip = Ipv6 {
        traffic_class: 0,
        // One flow label per group (RFC 6437), so that ECMP in the underlay does not reorder its packets.
        flow_label: g.designated_qpn.get() & 0xF_FFFF,
        payload_len: 0,
        next_header: NEXT_HEADER_ROUTING,
        hop_limit: 64,
        src: node_address,
        dst: first,
    };
    let mut o = types::canopy_outer::default();
    let len = 40 + srh.len();
    if len > o.bytes.len() {
        return Err(format!("SRH of group {} has {} bytes, at most 2048 fit", g.name, srh.len()));
    }
    ip.emit(&mut o.bytes[..40]).map_err(|e| format!("outer header of group {}: {e}", g.name))?;
    o.bytes[40..len].copy_from_slice(&srh);
    o.len = len as u32;
    Ok(Some(o))
}
