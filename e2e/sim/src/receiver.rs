// SPDX-License-Identifier: Apache-2.0
//! A receiver: `canopy-rc`'s responder, and the oracle's knowledge of it.

use std::time::Instant;

use canopy_packet::aeth::Syndrome;
use canopy_packet::bth::Opcode;
use canopy_rc::psn;
use canopy_rc::responder::{Answer, Responder, Settings};
use canopy_rc::wire::{Headers, Packet};

use crate::chance::Chance;
use crate::net::{Burst, Feedback, Place};

/// Path MTU, octets: the smallest, because the payload is not checked.
pub const MTU: u32 = 256;
const PAYLOAD: [u8; MTU as usize] = [0; MTU as usize];

/// A responder, and its position in the group.
pub struct Receiver {
    responder: Responder,
    now: Instant,
    /// The first PSN that its QP expects.
    start_psn: u32,
    /// The node that receives its feedback.
    pub parent: Place,
    /// Number of the packet at which it starts, once its branch has started.
    pub started: Option<u64>,
    /// Its branch left: the source's acknowledgements no longer cover it.
    pub gone: bool,
    /// It sends no more answers.
    pub dead: bool,
    /// Packets delivered.
    delivered: u64,
    /// PSN of the message that it answered with an RNR NAK; it is accepted the second time.
    refused: Option<u32>,
    waits: bool,
    /// A packet, by number, that does not reach it the first time.
    pub loses: Option<u64>,
}

impl Receiver {
    /// A receiver that has received nothing and expects `start_psn`.
    pub fn new(start_psn: u32, parent: Place) -> Self {
        Self {
            responder: Responder::new(Settings::new(MTU), start_psn),
            now: Instant::now(),
            start_psn,
            parent,
            started: None,
            gone: false,
            dead: false,
            delivered: 0,
            refused: None,
            waits: false,
            loses: None,
        }
    }

    /// Every acknowledgement that the source receives must cover it.
    pub fn is_current(&self) -> bool {
        self.started.is_some() && !self.gone
    }

    /// It has received every packet below this since its start.
    pub fn holds_below(&self) -> u64 {
        self.started.unwrap_or(0) + self.delivered
    }

    /// ACKs that it sent.
    pub fn acks_sent(&self) -> u64 {
        self.responder.counters().acks_sent
    }

    /// Why its QP is in the error state, if it is.
    pub fn failure(&self) -> Option<String> {
        self.responder.failure().map(|code| format!("{code:?}"))
    }

    /// Handles data and passes its answers to `answer`. It sends an RNR NAK `rnr` times in a million messages, with
    /// timer code `timer`.
    pub fn handle(&mut self, burst: Burst, rnr: (u64, u8), chance: &mut Chance, mut answer: impl FnMut(Feedback)) {
        if self.dead {
            return;
        }
        if self.loses == Some(burst.number) {
            self.loses = None;
            return;
        }
        let last = burst.count - 1;
        for i in 0..burst.count {
            let (begins, ends) = (burst.begins && i == 0, burst.ends && i == last);
            let opcode = match (begins, ends) {
                (true, true) => Opcode::SEND_ONLY,
                (true, false) => Opcode::SEND_FIRST,
                (false, true) => Opcode::SEND_LAST,
                (false, false) => Opcode::SEND_MIDDLE,
            };
            let mut headers = Headers::new(opcode, 1, psn::add(burst.psn, i.into()));
            headers.bth.ack_req = burst.ask && i == last;
            if self.is_refused(headers.bth.psn, begins, rnr, chance, &mut answer) {
                continue;
            }
            let packet = Packet { headers, payload: &PAYLOAD };
            self.delivered += u64::from(self.responder.handle(&packet, false, self.now).is_some());
            while let Some(sent) = self.responder.next_packet() {
                if let Answer::Acknowledge { psn, aeth } = sent {
                    answer(Feedback { syndrome: aeth.syndrome.0, psn, msn: aeth.msn, epoch: 0 });
                }
            }
        }
    }

    /// RNR NAK (IBTA volume 1 section 9.7.5.2.8): sent once, then no answers until the packet is retransmitted.
    fn is_refused(
        &mut self,
        psn: u32,
        begins: bool,
        (often, timer): (u64, u8),
        chance: &mut Chance,
        answer: &mut impl FnMut(Feedback),
    ) -> bool {
        let expected = psn::add(self.start_psn, self.delivered);
        let distance = psn::distance(expected, psn);
        if distance == 0 {
            let refuse = begins && self.refused != Some(psn) && chance.happens(often);
            self.waits = refuse;
            if refuse {
                self.refused = Some(psn);
                let msn = self.responder.counters().messages as u32 & 0xFF_FFFF;
                answer(Feedback { syndrome: Syndrome::rnr_nak(timer).0, psn, msn, epoch: 0 });
            }
            return refuse;
        }
        self.waits && distance > 0
    }
}
