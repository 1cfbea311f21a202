// SPDX-License-Identifier: Apache-2.0
//! A group's entries in the configuration maps, as its program wants them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;

use canopy_agent_core::slots;
use canopy_bpf::bytes;
use canopy_bpf::node::types::{
    self, canopy_branch_kind as Kind, canopy_group_flag as Flag, canopy_port_kind as PortKind,
};
use canopy_model::ids::PortIndex;
use canopy_model::member::LateStart;
use canopy_model::node_spec::{Branch, BranchKind, GroupProgram, MAX_BRANCHES, NodeBase, Peer, Port};
use canopy_packet::bth::Opcode;
use canopy_packet::cnp::Cnp;
use canopy_packet::frame::RoceBuilder;
use canopy_packet::icrc;
use canopy_packet::ipv6::Ipv6;
use canopy_packet::srh::{Srh, Tlv};
use canopy_packet::udp::{ROCE_PORT, Udp};
use canopy_packet::{end_mt::EndMt, icrc::header_delta};
use canopy_units::nanos;
use ipnet::Ipv6Net;
use sha2::{Digest, Sha256};

use crate::srh_hmac;

const TURN: u64 = 1 << 24;
const NEXT_HEADER_ROUTING: u8 = 43;
const NEXT_HEADER_IPV6: u8 = 41;
const NEXT_HEADER_UDP: u8 = 17;
/// UDP + BTH + AETH + ICRC.
const ACK_PAYLOAD: u16 = 28;

/// Slots by branch address.
pub(crate) type Slots = BTreeMap<Ipv6Addr, u32>;
/// Existing interfaces of the node's ports.
pub(crate) type Ports = BTreeMap<PortIndex, u32>;

/// One group's entries in the configuration maps.
#[derive(Clone, Default)]
pub(crate) struct Entries {
    pub(crate) group: Option<types::canopy_group>,
    pub(crate) proxies: BTreeMap<Ipv6Addr, types::canopy_proxy>,
    pub(crate) qpns: BTreeSet<u32>,
    pub(crate) trees: BTreeSet<u32>,
    pub(crate) multicasts: BTreeSet<Ipv6Addr>,
    pub(crate) outer: Option<Box<types::canopy_outer>>,
    pub(crate) hmac: Option<types::canopy_hmac>,
    pub(crate) branches: BTreeMap<u32, types::canopy_branch>,
    pub(crate) peers: BTreeMap<Ipv6Addr, types::canopy_peer>,
}

impl Entries {
    /// The slot of each branch.
    pub(crate) fn slots(&self) -> Slots {
        self.peers.iter().map(|(address, peer)| (*address, peer.slot)).collect()
    }
}

/// What a group's program wants.
#[derive(Clone)]
pub(crate) struct Rendered {
    pub(crate) entries: Entries,
    /// How the branch of each slot joins; without standby branches.
    pub(crate) joins: BTreeMap<u32, Join>,
}

/// How a branch joins its group (decisions 3.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Join {
    pub(crate) at_boundary: bool,
    pub(crate) receiver: bool,
    pub(crate) since: u32,
    /// Where a late receiver started, once the controller knows it.
    pub(crate) start: Option<LateStart>,
    /// A late receiver that may have started elsewhere.
    pub(crate) lost: bool,
}

/// Whether two values of a map are the same octet by octet.
pub(crate) fn same<T: canopy_bpf::Plain>(a: &T, b: &T) -> bool {
    bytes(a) == bytes(b)
}

/// The node's own entry. `warm`: as it is.
pub(crate) fn node(base: &NodeBase, warm: u32) -> types::canopy_node {
    types::canopy_node {
        warm,
        usid: base.node_id.get().into(),
        program_nodes: base.host_programs.as_ref().map_or(0, |programs| programs.most_nodes.into()),
        pad: 0,
        address: base.node_address.into(),
        end_mt: base.end_mt.into(),
        replicate_hi: replicate_hi(base.end_mt),
        block: net(base.addressing.block),
        nodes: net(base.addressing.node_prefix),
        proxies: net(base.addressing.proxy_prefix),
        multicast: net(base.addressing.multicast_prefix),
    }
}

/// A port's entry. `programs`: its host may send path programs.
pub(crate) fn port(port: &Port, programs: bool) -> types::canopy_port {
    match &port.peer {
        Peer::Node { .. } => types::canopy_port { kind: PortKind::PORT_FABRIC.0, ..types::canopy_port::default() },
        Peer::Host { prefix, gateway, .. } => types::canopy_port {
            kind: PortKind::PORT_EDGE.0,
            programs: programs.into(),
            host: net(*prefix),
            link_local: port.link_local.into(),
            gateway: (*gateway).into(),
        },
    }
}

fn net(net: Ipv6Net) -> types::canopy_net {
    types::canopy_net { address: net.network().into(), mask: net.netmask().into() }
}

/// Renders a program; `held` are the current slots of the group's branches.
///
/// # Errors
/// Why the program cannot be rendered: an interface or a slot is missing, or its SRH is too long.
pub(crate) fn render(base: &NodeBase, g: &GroupProgram, ports: &Ports, held: &Slots) -> Result<Rendered, String> {
    let missing: BTreeSet<PortIndex> = used_ports(g).filter(|p| !ports.contains_key(p)).collect();
    if !missing.is_empty() {
        let names = base.ports.iter().filter(|p| missing.contains(&p.index)).map(|p| p.name.clone());
        let names: Vec<_> = names.collect();
        return Err(format!(
            "group {} needs interface {} on {}, which does not exist",
            g.name,
            names.join(", "),
            base.name
        ));
    }
    let id = g.group_id.get();
    let (slots, without) = slots::assign(g.branches.iter().map(|b| b.address), held);
    if let Some(b) = without.first() {
        return Err(format!("no room for branch {b}: a node serves {} branches of one group", MAX_BRANCHES));
    }
    let mut out = Rendered { entries: Entries::default(), joins: BTreeMap::new() };
    let e = &mut out.entries;
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
            let Branch { at_boundary, since, start, lost, .. } = *b;
            out.joins.insert(slot, Join { at_boundary, receiver, since, start, lost });
        }
        e.branches.insert(slot, branch(g, b, ports[&b.port]));
        e.peers.insert(b.address, types::canopy_peer { slot, ifindex });
    }
    conf.branches = digest(id, &e.branches);
    e.outer = outer(base, g)?.map(Box::new);
    e.hmac = srh_hmac::expected(base, g)?;
    if e.hmac.is_some() {
        conf.flags |= Flag::GROUP_HMAC.0;
    }
    e.group = Some(conf);
    e.proxies.insert(g.proxy, types::canopy_proxy { group_id: id, pad: 0, source: g.source.address.into() });
    e.qpns.insert(g.designated_qpn.get());
    e.trees.extend(g.replication_sid.map(|_| g.tree_id.get()));
    e.multicasts.extend(g.multicast.map(|m| m.group));
    Ok(out)
}

fn used_ports(g: &GroupProgram) -> impl Iterator<Item = PortIndex> {
    let up = [g.upstream.port].into_iter().chain(g.alternate_upstream);
    g.branches.iter().map(|b| b.port).chain(up).chain(g.headend.iter().map(|h| h.source_port))
}

/// First half of this node's Replication-SIDs: that of the End.MT SID with another function.
fn replicate_hi(end_mt: Ipv6Addr) -> u64 {
    let mut s = end_mt.segments();
    s[3] = canopy_model::addressing::FUNCTION_REPLICATE;
    types::canopy_addr::from(Ipv6Addr::from(s)).hi
}

fn group(g: &GroupProgram, ports: &Ports) -> types::canopy_group {
    let lengths = g.branches.iter().filter_map(|b| match &b.kind {
        BranchKind::Receiver { memory, .. } => Some(memory.map_or(0, |m| m.length)),
        BranchKind::Node { .. } => None,
    });
    let mut c = types::canopy_group {
        group_id: g.group_id.get(),
        epoch: g.epoch,
        dqpn: g.designated_qpn.get(),
        proxy: g.proxy.into(),
        source: g.source.address.into(),
        up_ifindex: ports[&g.upstream.port],
        alternate_ifindex: g.alternate_upstream.map_or(0, |port| ports[&port]),
        headend: g.headend_address.unwrap_or(Ipv6Addr::UNSPECIFIED).into(),
        up_sa: g.upstream.source_address.into(),
        up_da: g.upstream.destination.into(),
        up_qpn: g.upstream.dest_qp.get(),
        source_qpn: g.source.qpn.get(),
        up_sport: u32::from(ack_source_port(g)),
        ack_seed: ack_seed(g),
        cnp_icrc: cnp_icrc(g),
        start: TURN + u64::from(g.start_psn.get()),
        write_base: g.write_base_va,
        write_length: lengths.min().unwrap_or(0),
        write_rkey: g.write_rkey,
        window: g.params.window,
        reack_ns: nanos(g.params.reack_interval),
        nak_merge_ns: nanos(g.params.nak_merge),
        cnp_window_ns: nanos(g.params.cnp_window),
        cnp_min_ns: nanos(g.params.cnp_min_interval),
        ..types::canopy_group::default()
    };
    if let Some(h) = &g.headend {
        c.flags |= Flag::GROUP_HEADEND.0;
        c.source_ifindex = ports[&h.source_port];
        c.flight = h.max_flight;
        if !h.open {
            c.flags |= Flag::GROUP_CLOSED.0;
        }
        if h.held {
            c.flags |= Flag::GROUP_HELD.0;
        }
    }
    if g.receivers_provisioned {
        c.flags |= Flag::GROUP_PROVISIONED.0;
    }
    if g.multicast.is_some() {
        c.flags |= Flag::GROUP_MULTICAST.0;
    }
    c
}

fn branch(g: &GroupProgram, b: &Branch, ifindex: u32) -> types::canopy_branch {
    let mut c = types::canopy_branch { ifindex, address: b.address.into(), ..types::canopy_branch::default() };
    match &b.kind {
        BranchKind::Node { sid } => {
            c.kind = Kind::BRANCH_NODE.0;
            c.dst = (*sid).into();
        }
        BranchKind::Receiver { qpn, memory } => {
            c.kind = Kind::BRANCH_RECEIVER.0;
            c.dst = b.address.into();
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

/// Identifies a group and its branches. The programs use what they derived from branches while it stays the same.
fn digest(group: u32, branches: &BTreeMap<u32, types::canopy_branch>) -> u64 {
    let mut all = Sha256::new_with_prefix(group.to_be_bytes());
    for (slot, branch) in branches {
        all.update(slot.to_be_bytes());
        all.update(bytes(branch));
    }
    all.finalize().first_chunk().map_or(0, |first| u64::from_ne_bytes(*first))
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

/// ICRC of an upstream CNP: nothing in it depends on the CNPs that it stands for.
fn cnp_icrc(g: &GroupProgram) -> u32 {
    let mut cnp =
        RoceBuilder::new(g.upstream.source_address, g.upstream.destination, Opcode::CNP, g.upstream.dest_qp.get(), 0);
    (cnp.src_port, cnp.bth.migration, cnp.extensions.cnp) = (ack_source_port(g), true, Some(Cnp::default()));
    // Emitting fails only if a field does not fit its header: all are of a valid program.
    let packet = cnp.build().unwrap_or_default();
    packet.last_chunk().copied().map_or(0, u32::from_ne_bytes)
}

/// UDP source port of feedback that a node sends upstream. Between nodes its low 14 bits are the epoch, which the ICRC
/// covers: a parent node recognises feedback that was sent before receivers moved. Towards the source it is constant.
fn ack_source_port(g: &GroupProgram) -> u16 {
    let low = if g.headend.is_some() { g.designated_qpn.get() } else { g.epoch };
    0xC000 | (low & 0x3FFF) as u16
}

/// Outer IPv6 and SRH, at the headend of a group with child nodes (decisions 2.2).
fn outer(base: &NodeBase, g: &GroupProgram) -> Result<Option<types::canopy_outer>, String> {
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
        flags: base.hmac.as_ref().map_or(0, |hmac| hmac.sending().flag_bit.srh_flags()),
        tag: 0,
        segments: h.segments.clone(),
        tlvs,
        hmac: base.hmac.as_ref().map(|hmac| srh_hmac::tlv(hmac.sending(), base.node_address, g, &h.segments)),
    };
    let srh = srh.to_vec().map_err(|e| format!("SRH of group {}: {e}", g.name))?;
    let ip = Ipv6 {
        traffic_class: 0,
        // One flow label per group (RFC 6437), so that ECMP in the underlay does not reorder its packets.
        flow_label: g.designated_qpn.get() & 0xF_FFFF,
        payload_len: 0,
        next_header: NEXT_HEADER_ROUTING,
        hop_limit: 64,
        src: base.node_address,
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
