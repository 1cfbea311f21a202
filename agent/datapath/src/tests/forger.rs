// SPDX-License-Identifier: Apache-2.0
//! Makes feedback that must be dropped, with the expected drop reason.
//!
//! PSNs are relative to the group's start PSN: each branch has acknowledged everything below its `NEXT`, and the source has sent
//! everything below `HIGH`.

use std::net::Ipv6Addr;

use canopy_packet::aeth::{Aeth, NakCode, Syndrome};
use canopy_packet::bth::Opcode;
use canopy_packet::cnp::Cnp;
use canopy_packet::frame::RoceBuilder;
use canopy_packet::icrc;

use crate::testbed::*;

/// Active branches: five receivers, then two child nodes.
pub(super) const BRANCHES: u32 = 7;
pub(super) const RECEIVERS: u32 = 5;
/// A provisioned receiver that waits for the next message start.
pub(super) const WAITS: u32 = 5;
/// A receiver whose queue pair is known to be in error.
pub(super) const IN_ERROR: u32 = 2;
/// Next PSN of each branch.
pub(super) const NEXT: [i64; BRANCHES as usize] = [9, 20, 25, 33, 41, 51, 59];
/// Number of PSNs sent.
pub(super) const HIGH: i64 = 64;
/// Epoch of the child nodes.
pub(super) const EPOCH: u16 = 2;
const WINDOW: i64 = (1 << 22) - 1;
const HALF_TURN: i64 = 1 << 23;
/// Octets of the IPv6 and UDP headers; the same with the BTH.
const HEADERS: usize = 48;
const BTH_END: usize = 60;
const ICRC: usize = 4;

/// xorshift64*: the same seed gives the same packets.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % n
    }

    /// In `from..=to`, every other time near one of the ends.
    fn edgy(&mut self, from: i64, to: i64) -> i64 {
        let near = self.below(4).min((to - from) as u64) as i64;
        match self.below(4) {
            0 => from + near,
            1 => to - near,
            _ => from + self.below((to - from + 1) as u64) as i64,
        }
    }

    fn bool(&mut self) -> bool {
        self.below(2) == 0
    }
}

/// A packet that must be dropped.
pub(super) struct Forged {
    pub(super) port: String,
    pub(super) packet: Vec<u8>,
    pub(super) reason: &'static str,
}

/// Port of a branch, or of the receiver that waits.
pub(super) fn port_of(branch: u32) -> String {
    if branch < RECEIVERS || branch == BRANCHES { "d0".into() } else { format!("d{}", 1 + branch - RECEIVERS) }
}

fn address_of(branch: u32) -> Ipv6Addr {
    match branch {
        BRANCHES => receiver(WAITS),
        b if b < RECEIVERS => receiver(b),
        b => plan().node_address(node(u64::from(10 + b - RECEIVERS))),
    }
}

fn is_child(branch: u32) -> bool {
    (RECEIVERS..BRANCHES).contains(&branch)
}

fn here() -> Ipv6Addr {
    plan().node_address(node(1))
}

/// Feedback of `branch`: of a receiver to the Proxy Address, of a child node to this node with its epoch.
pub(super) fn feedback_of(branch: u32, epoch: u16, syndrome: Syndrome, psn: u32, msn: u32) -> RoceBuilder<'static> {
    let to = if is_child(branch) { here() } else { proxy() };
    let mut b = RoceBuilder::new(address_of(branch), to, Opcode::ACKNOWLEDGE, DQPN, psn);
    b.src_port = 0xC000 | (epoch & 0x3FFF);
    b.extensions.aeth = Some(Aeth { syndrome, msn });
    b
}

/// A CNP of `branch`.
pub(super) fn cnp_of(branch: u32) -> RoceBuilder<'static> {
    let to = if is_child(branch) { here() } else { proxy() };
    let mut b = RoceBuilder::new(address_of(branch), to, Opcode::CNP, DQPN, 0);
    b.src_port = 0xC000 | EPOCH;
    b.bth.resv8a = 0x40;
    b.extensions.cnp = Some(Cnp::default());
    b
}

/// Corrects the lengths of IPv6 and UDP and the ICRC, so that only the forged field is wrong.
fn sealed(mut packet: Vec<u8>) -> Vec<u8> {
    let len = (packet.len() + ICRC - 40) as u16;
    packet[4..6].copy_from_slice(&len.to_be_bytes());
    packet[44..46].copy_from_slice(&len.to_be_bytes());
    icrc::append(&mut packet).unwrap();
    packet
}

/// Forges packets for a group with this start PSN.
pub(super) struct Forger {
    start: u32,
    pub(super) dice: Dice,
    /// The source has sent, branches have acknowledged, and one waits. Before that, all valid feedback is outside the window.
    pub(super) running: bool,
}

impl Forger {
    pub(super) fn new(start: u32, dice: Dice) -> Self {
        Self { start, dice, running: false }
    }

    pub(super) fn wire(&self, psn: i64) -> u32 {
        (i64::from(self.start) + psn) as u32 & 0xFF_FFFF
    }

    fn branch(&mut self) -> u32 {
        self.dice.below(BRANCHES.into()) as u32
    }

    fn msn(&mut self) -> u32 {
        self.dice.below(1 << 24) as u32
    }

    /// An ACK, a PSN sequence NAK, or an RNR NAK, and the offset of its PSN from the next PSN.
    fn syndrome(&mut self) -> (Syndrome, i64) {
        match self.dice.below(3) {
            0 => (Syndrome::ack(self.dice.below(32) as u8), -1),
            1 => (Syndrome::nak(NakCode::PsnSequence), 0),
            _ => (Syndrome::rnr_nak(self.dice.below(32) as u8), 0),
        }
    }

    /// Valid feedback of a branch: its PSN is in the window and not below what the branch has acknowledged.
    fn valid_feedback(&mut self, branch: u32) -> RoceBuilder<'static> {
        let from = NEXT.get(branch as usize).copied().unwrap_or(0);
        let next = self.dice.edgy(from, HIGH);
        let (syndrome, ahead) = self.syndrome();
        let psn = self.wire(next + ahead);
        feedback_of(branch, EPOCH, syndrome, psn, self.msn())
    }

    fn feedback_about(&mut self, branch: u32, next: i64) -> RoceBuilder<'static> {
        let (syndrome, ahead) = self.syndrome();
        let psn = self.wire(next + ahead);
        feedback_of(branch, EPOCH, syndrome, psn, self.msn())
    }

    /// The next forged packet.
    pub(super) fn forge(&mut self) -> Forged {
        let forged = self.forge_feedback();
        let reason = at_the_boundary(&forged).unwrap_or(forged.reason);
        Forged { reason, ..forged }
    }

    fn forge_feedback(&mut self) -> Forged {
        let b = self.branch();
        let (packet, reason) = match self.dice.below(18) {
            0 => (self.flip_bits(b), "feedback_icrc"),
            1 => (self.stranger(b), "branch_unknown"),
            2 => return self.elsewhere(b),
            3 => {
                let next = self.dice.edgy(HIGH + 1, HIGH + HALF_TURN - 1);
                (self.feedback_about(b, next).build().unwrap(), "feedback_window")
            }
            4 => {
                let next = self.dice.edgy(HIGH - HALF_TURN + 1, NEXT[0] - WINDOW - 1);
                (self.feedback_about(b, next).build().unwrap(), "feedback_window")
            }
            5 => (self.ghost(b), "nak_ghost"),
            6 => return self.old_epoch(),
            7 => return self.not_started(),
            8 => return self.fatal(),
            9 => (self.other_opcode(b), "feedback_malformed"),
            10 => (self.other_length(b), "feedback_malformed"),
            11 => (self.other_syndrome(b), "feedback_malformed"),
            12 => self.other_qpn(b),
            13 => (self.cut(b), "truncated"),
            14 => (cnp_of(b).build().unwrap(), if self.running { "cnp_rate" } else { return self.forge_feedback() }),
            15 => return self.epoch_ahead(),
            16 => (self.other_header(b), "feedback_malformed"),
            _ => (self.in_the_name_of_the_source(b), "source_unregistered"),
        };
        // Before any data, feedback that is valid except for its PSN is outside the window.
        let reason = if !self.running && reason == "nak_ghost" { "feedback_window" } else { reason };
        Forged { port: port_of(b), packet, reason }
    }

    fn any(&mut self, branch: u32) -> RoceBuilder<'static> {
        if self.dice.below(4) == 0 { cnp_of(branch) } else { self.valid_feedback(branch) }
    }

    /// Flips one to three bits of the ICRC or of what it covers: a CRC-32 detects each such error.
    fn flip_bits(&mut self, branch: u32) -> Vec<u8> {
        let mut packet = self.any(branch).build().unwrap();
        let whole = packet.clone();
        // The UDP source port, and everything after the BTH opcode except for resv8a and the QPN.
        let places: Vec<usize> = [40..42, 49..52, 56..packet.len()].into_iter().flatten().collect();
        while packet == whole {
            for _ in 0..1 + self.dice.below(3) {
                let at = places[self.dice.below(places.len() as u64) as usize];
                packet[at] ^= 1 << self.dice.below(8);
            }
        }
        packet
    }

    /// With a transport version that does not exist, or of another partition than the default one.
    fn other_header(&mut self, branch: u32) -> Vec<u8> {
        let mut b = self.any(branch);
        match self.dice.bool() {
            true => b.bth.version = 1 + self.dice.below(15) as u8,
            false => b.bth.pkey = self.dice.below(0x7FFF) as u16 | (u16::from(self.dice.bool()) << 15),
        }
        b.build().unwrap()
    }

    /// From an address that is no branch, but may differ from one in a single bit.
    fn stranger(&mut self, branch: u32) -> Vec<u8> {
        let mut b = self.any(branch);
        b.src = loop {
            let any = match self.dice.below(5) {
                0 => plan().node_address(node(2)),
                1 => here(),
                2 => b.dst,
                3 => receiver(self.dice.edgy(7, 10_000) as u32),
                _ => Ipv6Addr::from(u128::from(b.src) ^ 1 << self.dice.below(128)),
            };
            if any != source() && (0..=BRANCHES).all(|b| any != address_of(b)) {
                break any;
            }
        };
        b.build().unwrap()
    }

    fn elsewhere(&mut self, branch: u32) -> Forged {
        let ports: Vec<_> = ["u0", "d0", "d1", "d2"].into_iter().filter(|p| *p != port_of(branch)).collect();
        let port = ports[self.dice.below(ports.len() as u64) as usize].to_string();
        Forged { port, packet: self.any(branch).build().unwrap(), reason: "wrong_port" }
    }

    fn ghost(&mut self, branch: u32) -> Vec<u8> {
        let syndrome = match self.dice.bool() {
            true => Syndrome::nak(NakCode::PsnSequence),
            false => Syndrome::rnr_nak(self.dice.below(32) as u8),
        };
        let psn = self.dice.edgy(NEXT[0] - WINDOW, NEXT[branch as usize] - 1);
        feedback_of(branch, EPOCH, syndrome, self.wire(psn), self.msn()).build().unwrap()
    }

    fn old_epoch(&mut self) -> Forged {
        let b = RECEIVERS + self.dice.below(u64::from(BRANCHES - RECEIVERS)) as u32;
        let mut feedback = self.valid_feedback(b);
        feedback.src_port = 0xC000 | (EPOCH.wrapping_sub(self.dice.edgy(1, 0x2000) as u16) & 0x3FFF);
        let reason = if self.running { "epoch_old" } else { "feedback_window" };
        Forged { port: port_of(b), packet: feedback.build().unwrap(), reason }
    }

    /// With an epoch that the node has not adopted: its own is one after [`EPOCH`] once the late receiver has joined.
    fn epoch_ahead(&mut self) -> Forged {
        let b = RECEIVERS + self.dice.below(u64::from(BRANCHES - RECEIVERS)) as u32;
        let mut ack = self.valid_feedback(b);
        ack.src_port = 0xC000 | ((EPOCH + 1 + self.dice.edgy(1, 0x1FFE) as u16) & 0x3FFF);
        let reason = if self.running { "epoch_ahead" } else { "feedback_window" };
        Forged { port: port_of(b), packet: ack.build().unwrap(), reason }
    }

    fn not_started(&mut self) -> Forged {
        let packet = self.valid_feedback(BRANCHES).build().unwrap();
        let reason = if self.running { "branch_inactive" } else { "branch_unknown" };
        Forged { port: port_of(BRANCHES), packet, reason }
    }

    /// 0x61 to 0x64, a QP in error: repeated by the receiver that is known for it, about a PSN that its receiver has acknowledged, or of
    /// a child node.
    fn fatal(&mut self) -> Forged {
        let child = RECEIVERS + self.dice.below(u64::from(BRANCHES - RECEIVERS)) as u32;
        let (b, at, reason) = match self.dice.below(3) {
            0 => (IN_ERROR, self.dice.edgy(NEXT[IN_ERROR as usize], HIGH), "nak_fatal"),
            1 => (0, self.dice.edgy(NEXT[0] - WINDOW, NEXT[0] - 1), "nak_ghost"),
            _ => (child, self.dice.edgy(NEXT[child as usize], HIGH), "feedback_malformed"),
        };
        let packet = feedback_of(b, EPOCH, Syndrome(0x61 + self.dice.below(4) as u8), self.wire(at), self.msn());
        let reason = if self.running { reason } else { "feedback_window" };
        Forged { port: port_of(b), packet: packet.build().unwrap(), reason }
    }

    fn other_opcode(&mut self, branch: u32) -> Vec<u8> {
        let mut packet = self.any(branch).build().unwrap();
        let opcode = loop {
            let any = self.dice.below(256) as u8;
            if ![Opcode::ACKNOWLEDGE.0, Opcode::CNP.0].contains(&any) {
                break any;
            }
        };
        packet[HEADERS] = opcode;
        packet.truncate(packet.len() - ICRC);
        sealed(packet)
    }

    fn other_length(&mut self, branch: u32) -> Vec<u8> {
        let packet = self.any(branch).build().unwrap();
        let right = packet.len() - BTH_END - ICRC;
        let wrong = loop {
            let any = self.dice.below(100) as usize;
            if any != right {
                break any;
            }
        };
        let mut packet = packet[..BTH_END + right.min(wrong)].to_vec();
        packet.resize(BTH_END + wrong, 0);
        sealed(packet)
    }

    fn other_syndrome(&mut self, branch: u32) -> Vec<u8> {
        let mut feedback = self.valid_feedback(branch);
        let syndrome = match self.dice.below(3) {
            0 => self.dice.edgy(0x40, 0x5F),
            1 => self.dice.edgy(0x65, 0x7F),
            _ => self.dice.edgy(0x80, 0xFF),
        };
        feedback.extensions.aeth = Some(Aeth { syndrome: Syndrome(syndrome as u8), msn: 1 });
        feedback.build().unwrap()
    }

    /// A wrong QPN: to the Proxy Address it is not that of the group, to the node address it belongs to no group.
    fn other_qpn(&mut self, branch: u32) -> (Vec<u8>, &'static str) {
        let mut feedback = self.any(branch);
        feedback.bth.dest_qp = (DQPN ^ (1 + self.dice.below((1 << 24) - 1) as u32)) & 0xFF_FFFF;
        (feedback.build().unwrap(), if is_child(branch) { "group_unknown" } else { "feedback_malformed" })
    }

    /// Shorter than its headers claim, or with different lengths in IPv6 and UDP.
    fn cut(&mut self, branch: u32) -> Vec<u8> {
        let mut packet = self.any(branch).build().unwrap();
        let len = packet.len();
        match self.dice.below(3) {
            // A shorter packet has no UDP port, and the program passes it to the kernel.
            0 => packet.truncate(self.dice.edgy(44, len as i64 - 1) as usize),
            1 => packet[44] ^= 1 << self.dice.below(8),
            _ => {
                packet.truncate(len - ICRC);
                packet = sealed(packet);
                let more = (len - 40 + 1 + self.dice.below(1000) as usize) as u16;
                packet[4..6].copy_from_slice(&more.to_be_bytes());
                packet[44..46].copy_from_slice(&more.to_be_bytes());
            }
        }
        packet
    }

    /// From the source to the Proxy Address at a node that is not the headend.
    fn in_the_name_of_the_source(&mut self, branch: u32) -> Vec<u8> {
        let mut feedback = self.any(branch);
        (feedback.src, feedback.dst) = (source(), proxy());
        feedback.build().unwrap()
    }
}

/// Why the boundary of the domain refuses a packet, whatever feedback it is: `d0` leads to a host.
fn at_the_boundary(forged: &Forged) -> Option<&'static str> {
    let src = &forged.packet[8..24];
    match forged.port.as_str() {
        "d0" if src[0] == 0xFE && src[1] & 0xC0 == 0x80 || *src == [0; 16] => Some("edge_link_local"),
        "d0" if src[..8] != [0x20, 0x01, 0x0D, 0xB8, 0, 1, 0, 0] => Some("edge_source"),
        "d0" if forged.packet[24..30] == [0xFC, 0xFF, 0, 0, 0, 0] => Some("edge_node_address"),
        _ => None,
    }
}
