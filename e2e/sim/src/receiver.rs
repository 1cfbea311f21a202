// SPDX-License-Identifier: Apache-2.0
//! A receiver: `canopy-rc`'s responder, with habits that other RC endpoints have.

use std::net::Ipv6Addr;
use std::time::Instant;

use canopy_packet::aeth::Syndrome;
use canopy_packet::bth::Opcode;
use canopy_rc::psn;
use canopy_rc::responder::{Answer, Responder, Settings};
use canopy_rc::wire::{Headers, Packet};

use crate::chance::Chance;
use crate::fabric::{Place, PortId};
use crate::net::{Burst, Feedback};

/// Path MTU, octets: the smallest.
pub const MTU: u32 = 256;

/// How receivers behave beyond what `canopy-rc` does, in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Habits {
    /// Messages that a receiver is not ready for, and the RNR timer code.
    pub rnr: (u64, u8),
    /// Packets after a gap that are answered with another NAK.
    pub more_naks: u64,
    /// Packets without AckReq that are acknowledged.
    pub unsolicited: u64,
    /// ACKs with other credits than the receiver's usual ones.
    pub credits: u64,
}

/// Whether and how a queue pair has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It works.
    Works,
    /// It answers the next packet with a fatal NAK.
    Fails,
    /// It sends nothing.
    Dead,
}

/// What a packet caused at a receiver.
pub enum Reaction {
    /// The packet with this number was delivered.
    Delivered(u64),
    /// An answer.
    Sends(Feedback),
}

/// A queue pair at a host.
pub struct Receiver {
    /// Its host.
    pub host: Place,
    /// The host's port.
    pub port: PortId,
    /// Name of the host.
    pub name: String,
    /// Its QPN.
    pub qpn: u32,
    /// Its branch left.
    pub gone: bool,
    /// Whether it has failed.
    pub health: Health,
    /// A packet, by number, that does not reach it the first time.
    pub loses: Option<u64>,
    /// Its address.
    pub address: Ipv6Addr,
    /// Credits that it usually announces.
    pub credits: u8,
    responder: Responder,
    now: Instant,
    start_psn: u32,
    /// Packets delivered.
    delivered: u64,
    /// PSN of the message that it answered with an RNR NAK; it is accepted the second time.
    refused: Option<u32>,
    waits: bool,
}

impl Receiver {
    /// A queue pair that has received nothing and expects `start_psn`.
    pub fn new((host, port, name): (Place, PortId, &str), address: Ipv6Addr, qpn: u32, start_psn: u32) -> Self {
        Self {
            host,
            port,
            name: name.to_owned(),
            qpn,
            gone: false,
            health: Health::Works,
            loses: None,
            address,
            credits: 31,
            responder: Responder::new(Settings::new(MTU), start_psn),
            now: Instant::now(),
            start_psn,
            delivered: 0,
            refused: None,
            waits: false,
        }
    }

    /// ACKs that it sent.
    pub fn acks_sent(&self) -> u64 {
        self.responder.counters().acks_sent
    }

    /// Why its QP is in the error state, if it is.
    pub fn failure(&self) -> Option<String> {
        self.responder.failure().map(|code| format!("{code:?}"))
    }

    /// Handles data; `react` gets what follows from it, in order.
    pub fn handle(&mut self, burst: &Burst, habits: Habits, chance: &mut Chance, mut react: impl FnMut(Reaction)) {
        if self.gone || self.health == Health::Dead {
            return;
        }
        if self.health == Health::Fails {
            self.health = Health::Dead;
            let code = chance.between(0x61, 0x64) as u8;
            react(Reaction::Sends(self.answer(code, psn::add(self.start_psn, self.delivered))));
            return;
        }
        if self.loses == Some(burst.number) {
            self.loses = None;
            return;
        }
        let last = burst.count - 1;
        let mut payload = [0; MTU as usize];
        for i in 0..burst.count {
            let (begins, ends) = (burst.begins && i == 0, burst.ends && i == last);
            let opcode = match (begins, ends) {
                (true, true) => Opcode::SEND_ONLY,
                (true, false) => Opcode::SEND_FIRST,
                (false, true) => Opcode::SEND_LAST,
                (false, false) => Opcode::SEND_MIDDLE,
            };
            let mut headers = Headers::new(opcode, self.qpn, psn::add(burst.psn, i.into()));
            headers.bth.ack_req = burst.ask && i == last;
            if self.is_refused(headers.bth.psn, begins, habits.rnr, chance, &mut react) {
                continue;
            }
            payload[..8].copy_from_slice(&(burst.number + u64::from(i)).to_be_bytes());
            let packet = Packet { headers, payload: &payload };
            let gap = psn::distance(psn::add(self.start_psn, self.delivered), headers.bth.psn) > 0;
            let known = self.responder.counters().naks_sent;
            if let Some(delivery) = self.responder.handle(&packet, false, self.now) {
                self.delivered += 1;
                let number = delivery.payload.first_chunk().map_or(u64::MAX, |octets| u64::from_be_bytes(*octets));
                react(Reaction::Delivered(number));
                if !headers.bth.ack_req && chance.happens(habits.unsolicited) {
                    react(Reaction::Sends(self.answer(self.announced(habits, chance), headers.bth.psn)));
                }
            }
            while let Some(sent) = self.responder.next_packet() {
                if let Answer::Acknowledge { psn, aeth } = sent {
                    let ack = aeth.syndrome.0 < 0x20;
                    let syndrome = if ack { self.announced(habits, chance) } else { aeth.syndrome.0 };
                    react(Reaction::Sends(Feedback { msn: aeth.msn, ..self.answer(syndrome, psn) }));
                }
            }
            if gap && known == self.responder.counters().naks_sent && chance.happens(habits.more_naks) {
                let expected = psn::add(self.start_psn, self.delivered);
                react(Reaction::Sends(self.answer(Syndrome::NAK_PSN_SEQUENCE.0, expected)));
            }
        }
    }

    /// Credits of an ACK.
    fn announced(&self, habits: Habits, chance: &mut Chance) -> u8 {
        if chance.happens(habits.credits) { chance.below(32) as u8 } else { self.credits }
    }

    fn answer(&self, syndrome: u8, psn: u32) -> Feedback {
        let msn = self.responder.counters().messages as u32 & 0xFF_FFFF;
        Feedback { from: self.address, syndrome, psn, msn, epoch: 0 }
    }

    /// RNR NAK (IBTA volume 1 section 9.7.5.2.8): sent once, then no answers until the packet is retransmitted.
    fn is_refused(
        &mut self,
        psn: u32,
        begins: bool,
        (often, timer): (u64, u8),
        chance: &mut Chance,
        react: &mut impl FnMut(Reaction),
    ) -> bool {
        let expected = psn::add(self.start_psn, self.delivered);
        let distance = psn::distance(expected, psn);
        if distance == 0 {
            let refuse = begins && self.refused != Some(psn) && chance.happens(often);
            self.waits = refuse;
            if refuse {
                self.refused = Some(psn);
                react(Reaction::Sends(self.answer(Syndrome::rnr_nak(timer).0, psn)));
            }
            return refuse;
        }
        self.waits && distance > 0
    }
}
