// SPDX-License-Identifier: Apache-2.0
//! The packets that the node gets, and the frames that must leave it, octet by octet, from what the reference decided.

use std::net::Ipv6Addr;

use canopy_model::node_spec::NodeSpec;
use canopy_packet::aeth::{Aeth, Syndrome};
use canopy_packet::bth::Opcode;
use canopy_packet::frame::RoceBuilder;
use canopy_packet::immdt::ImmDt;
use canopy_packet::ipv6::Ipv6;
use canopy_packet::reth::Reth;
use canopy_packet::srh::Srh;
use canopy_reference::aggregate::Feedback;

use super::events::Dice;
use super::taps::{Frame, Taps};
use super::{BRANCHES, RECEIVERS};
use crate::testbed::*;
use crate::tests::with_udp_checksum;

/// Virtual address and R_Key with which the source writes, as in the spec of the test bed.
const WRITE_BASE: u64 = 0x1000;
const WRITE_RKEY: u32 = 0xABCD;
/// Octets of the memory of a receiver.
pub(super) const MEMORY: u64 = 0x800;

/// Virtual address and R_Key of the memory of receiver `i`.
pub(super) fn memory_of(i: u32) -> (u64, u32) {
    (0x7F00_0000_0000 + (u64::from(i) << 20), 0x9000 + i)
}

/// In an IPv6 header.
const HOP_LIMIT: usize = 7;
const DESTINATION: std::ops::Range<usize> = 24..40;
const CE: u8 = 3;
const ECT: u8 = 2;

/// First and only packets, and all others, of SENDs and WRITEs.
const BEGINS: [Opcode; 6] = [
    Opcode::SEND_FIRST,
    Opcode::SEND_ONLY,
    Opcode::SEND_ONLY_IMM,
    Opcode::WRITE_FIRST,
    Opcode::WRITE_ONLY,
    Opcode::WRITE_ONLY_IMM,
];
const CONTINUES: [Opcode; 6] = [
    Opcode::SEND_MIDDLE,
    Opcode::SEND_LAST,
    Opcode::SEND_LAST_IMM,
    Opcode::WRITE_MIDDLE,
    Opcode::WRITE_LAST,
    Opcode::WRITE_LAST_IMM,
];

/// Where the node is in the tree of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Next to the source, whose packets it encapsulates.
    Headend,
    /// Below another node, which sends encapsulated packets.
    Below,
}

/// A data packet of the source as the node gets it. Nothing that is drawn changes whether it is accepted.
pub(super) struct Packet {
    place: Place,
    inner: RoceBuilder<'static>,
    /// The source computes the UDP checksum.
    checksum: bool,
    /// Receivers that the packet names: so many from the first one on. `None`: those of the program.
    named: Option<u32>,
    outer_congested: bool,
    /// From its first IPv6 header on.
    pub(super) octets: Vec<u8>,
}

impl Packet {
    pub(super) fn draw(dice: &mut Dice, place: Place, psn: u32, begins: bool) -> Self {
        const PAYLOAD: &[u8; 70] = b"The octets of a payload have no meaning to any node, only their number";
        let opcode = (if begins { BEGINS } else { CONTINUES })[dice.below(6) as usize];
        let mut inner = RoceBuilder::new(source(), proxy(), opcode, DQPN, psn);
        inner.payload = &PAYLOAD[..dice.below(71) as usize];
        inner.bth.migration = dice.one_in(2);
        inner.bth.ack_req = dice.one_in(2);
        inner.bth.solicited = dice.one_in(2);
        inner.src_port = 0xC000 | dice.below(1 << 14) as u16;
        inner.flow_label = dice.below(1 << 20) as u32;
        inner.hop_limit = 2 + dice.below(254) as u8;
        if opcode.has_reth() {
            let at = dice.below(MEMORY / 2);
            inner.extensions.reth = Some(Reth { va: WRITE_BASE + at, rkey: WRITE_RKEY, dma_len: (MEMORY - at) as u32 });
        }
        if opcode.has_immdt() {
            inner.extensions.immdt = Some(ImmDt(dice.below(1 << 32) as u32));
        }
        // Congestion met on the way to this node is in the outer header, and passes to an inner one that can carry it.
        let (inside, outside) = [(0, 0), (ECT, ECT), (ECT, CE), (CE, CE)][dice.below(4) as usize];
        let class = (dice.below(64) as u8) << 2;
        inner.traffic_class = class | inside;
        let mut packet = Self {
            place,
            inner,
            checksum: dice.one_in(2),
            named: dice.one_in(3).then(|| 1 + dice.below(u64::from(RECEIVERS)) as u32),
            outer_congested: outside == CE,
            octets: Vec::new(),
        };
        if place == Place::Headend {
            (packet.named, packet.outer_congested) = (None, false);
            packet.octets = packet.finish(packet.inner.clone());
            return packet;
        }
        let to = if dice.one_in(2) { end_mt() } else { replication() };
        let tlvs = packet.named.map_or(Vec::new(), |n| list(0..n));
        packet.octets = encapsulated(&packet.finish(packet.inner.clone()), to, tlvs, class | outside);
        packet.octets[HOP_LIMIT] = 2 + dice.below(254) as u8;
        packet
    }

    /// The octets of the inner packet, with a UDP checksum if the source computes it.
    fn finish(&self, inner: RoceBuilder<'_>) -> Vec<u8> {
        let octets = inner.build().unwrap();
        if self.checksum { with_udp_checksum(octets) } else { octets }
    }

    /// Decisions 2.2 and 2.3: what a child node gets.
    fn for_child(&self, child: u32) -> Vec<u8> {
        let mut copy = self.octets.clone();
        copy[HOP_LIMIT] -= 1;
        if self.place == Place::Headend {
            copy = self.encapsulate(&copy);
        }
        copy[DESTINATION].copy_from_slice(&plan().end_mt(node(child_number(child))).octets());
        copy
    }

    /// Decisions 2.2: the outer header of the headend, whose own receivers are in the SRH too.
    fn encapsulate(&self, inner: &[u8]) -> Vec<u8> {
        let (segments, tlvs) = (vec![proxy(), replication()], list(0..RECEIVERS));
        let srh =
            Srh { next_header: 41, segments_left: 1, flags: 0, tag: 0, segments, tlvs, hmac: None }.to_vec().unwrap();
        let ip = Ipv6 {
            traffic_class: self.inner.traffic_class,
            flow_label: DQPN & 0xF_FFFF,
            payload_len: (srh.len() + inner.len()) as u16,
            next_header: 43,
            hop_limit: 64,
            src: plan().node_address(node(1)),
            dst: replication(),
        };
        let mut outer = vec![0; 40];
        ip.emit(&mut outer).unwrap();
        [&outer[..], &srh, inner].concat()
    }

    /// Decisions 2.4 and 2.8: what a receiver gets whose PSNs are `shift` behind those of the group.
    fn for_receiver(&self, i: u32, shift: u64) -> Vec<u8> {
        let mut copy = self.inner.clone();
        (copy.src, copy.dst, copy.bth.dest_qp) = (proxy(), receiver(i), receiver_qpn(i));
        copy.bth.psn = (u64::from(copy.bth.psn).wrapping_sub(shift) & 0xFF_FFFF) as u32;
        copy.hop_limit -= 1;
        if self.outer_congested {
            copy.traffic_class |= CE;
        }
        if let Some(reth) = &mut copy.extensions.reth {
            let (va, rkey) = memory_of(i);
            (reth.va, reth.rkey) = (reth.va - WRITE_BASE + va, rkey);
        }
        self.finish(copy)
    }
}

/// A port and the Ethernet header of the frames to one neighbour behind it.
struct Link {
    port: String,
    ethernet: Vec<u8>,
}

impl Link {
    fn frame(&self, packet: &[u8]) -> Frame {
        Frame { port: self.port.clone(), octets: [&self.ethernet, packet].concat() }
    }
}

/// The links to the parent or the source and to the branches, as the spec has them.
pub(super) struct Links {
    place: Place,
    up: Link,
    /// By slot.
    down: Vec<Link>,
}

impl Links {
    pub(super) fn new(place: Place, spec: &NodeSpec, taps: &Taps) -> Self {
        let group = spec.groups.values().next().unwrap();
        let link = |index, hop: Ipv6Addr| {
            let port = spec.base.ports.iter().find(|p| p.index == index).unwrap().name.clone();
            let to = [2, 0, 0, 0, 0, hop.octets()[15]];
            Link { ethernet: [&to[..], &taps.address(&port), &[0x86, 0xDD]].concat(), port }
        };
        let branch = |slot| group.branches.iter().find(|b| b.address == address_of(slot)).unwrap();
        let down = (0..BRANCHES).map(|slot| link(branch(slot).port, branch(slot).next_hop)).collect();
        Self { place, up: link(group.upstream.port, group.upstream.next_hop), down }
    }

    /// The frames of a packet to the branches in `copies`, with the shift of each.
    pub(super) fn copies(&self, packet: &Packet, copies: impl Iterator<Item = (u32, u64)>) -> Vec<Frame> {
        let named = packet.named.unwrap_or(RECEIVERS);
        let included = copies.filter(|(slot, _)| *slot >= RECEIVERS || *slot < named);
        let copy = |(slot, shift)| {
            let octets = if slot < RECEIVERS { packet.for_receiver(slot, shift) } else { packet.for_child(slot) };
            self.down[slot as usize].frame(&octets)
        };
        included.map(copy).collect()
    }

    /// The frame to the parent node, by a node whose program has this epoch; or to the source, to which it has no meaning.
    pub(super) fn upstream(&self, epoch: u32, feedback: Feedback) -> Frame {
        let (from, to, qpn, low) = match self.place {
            Place::Headend => (proxy(), source(), SOURCE_QPN, DQPN),
            Place::Below => (plan().node_address(node(1)), plan().node_address(node(2)), DQPN, epoch),
        };
        let mut b = RoceBuilder::new(from, to, Opcode::ACKNOWLEDGE, qpn, feedback.psn);
        b.src_port = 0xC000 | (low & 0x3FFF) as u16;
        b.bth.migration = true;
        b.extensions.aeth = Some(Aeth { syndrome: Syndrome(feedback.syndrome), msn: feedback.msn });
        self.up.frame(&b.build().unwrap())
    }

    /// The port of a branch.
    pub(super) fn port(&self, branch: u32) -> &str {
        &self.down[branch as usize].port
    }
}

fn child_number(slot: u32) -> u64 {
    u64::from(10 + slot - RECEIVERS)
}

/// Slots are in the order of addresses: first the receivers, then the child nodes of the test bed.
pub(super) fn address_of(branch: u32) -> Ipv6Addr {
    if branch < RECEIVERS { receiver(branch) } else { plan().node_address(node(child_number(branch))) }
}

/// Feedback of a branch: of a receiver to the Proxy Address, of a child node to this node. The source port is the epoch of a child
/// node; that of a receiver has no meaning.
pub(super) fn feedback_of(branch: u32, epoch: u32, syndrome: u8, psn: u32, msn: u32, migration: bool) -> Vec<u8> {
    let to = if branch < RECEIVERS { proxy() } else { plan().node_address(node(1)) };
    let mut b = RoceBuilder::new(address_of(branch), to, Opcode::ACKNOWLEDGE, DQPN, psn);
    b.src_port = 0xC000 | (epoch & 0x3FFF) as u16;
    b.bth.migration = migration;
    b.extensions.aeth = Some(Aeth { syndrome: Syndrome(syndrome), msn });
    b.build().unwrap()
}
