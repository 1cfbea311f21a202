// SPDX-License-Identifier: Apache-2.0
//! The responder of a Reliable Connection, IBTA volume 1 sections 9.7.4, 9.7.5.1 and 9.9.3: pure, no socket and no
//! clock. It has no timers.
//!
//! Where the specification leaves room, it behaves like Linux's rdma_rxe: it answers every duplicate with the latest
//! acknowledgement, whether AckReq is set or not; after one NAK for a gap it sends none until the gap is filled.

mod message;
mod settings;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Instant;

use canopy_packet::aeth::{Aeth, CREDITS_UNLIMITED, MSN_MAX, NakCode, Syndrome};
use canopy_packet::bth::{Opcode, RESV8A_BECN};

use crate::psn;
use crate::wire::{Headers, Packet};

use message::Message;
pub use message::Place;
pub use settings::{Counters, Settings};

/// The responder's state.
#[derive(Debug, Clone)]
pub struct Responder {
    settings: Settings,
    expected: u32,
    msn: u32,
    /// The message in progress: its first packet has arrived, its last has not.
    message: Option<Message>,
    /// The gap (or RNR condition) at `expected` has been reported.
    reported: bool,
    /// First PSN of the message that was answered with an RNR NAK: it is accepted the second time.
    refused: Option<u32>,
    messages_begun: u64,
    failure: Option<NakCode>,
    last_cnp: Option<Instant>,
    answers: VecDeque<Answer>,
    counters: Counters,
}

/// A packet to send to the requester.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Acknowledge.
    Acknowledge {
        /// PSN.
        psn: u32,
        /// Syndrome and MSN.
        aeth: Aeth,
    },
    /// Congestion Notification Packet.
    Cnp,
}

/// Payload that arrived in order, delivered once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery<'a> {
    /// Where the payload is stored.
    pub place: Place,
    /// The bytes.
    pub payload: &'a [u8],
    /// Immediate data.
    pub immediate: Option<u32>,
    /// The message is complete.
    pub ends_message: bool,
}

impl Responder {
    /// A responder that has received nothing and expects `start_psn` (24 bits).
    pub fn new(settings: Settings, start_psn: u32) -> Self {
        Self {
            settings,
            expected: start_psn & psn::MASK,
            msn: 0,
            message: None,
            reported: false,
            refused: None,
            messages_begun: 0,
            failure: None,
            last_cnp: None,
            answers: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// Handles a request and returns the payload to deliver, if there is any. `congested` is whether the packet was
    /// marked CE (RFC 3168). The caller has checked the source address and destination QP, and calls
    /// [`Responder::next_packet`] until it is `None` before the next `handle`.
    pub fn handle<'a>(&mut self, packet: &Packet<'a>, congested: bool, now: Instant) -> Option<Delivery<'a>> {
        self.counters.packets += 1;
        if self.failure.is_some() || self.is_stopped() {
            self.counters.ignored += 1;
            return None;
        }
        if congested {
            self.handle_congestion(now);
        }
        let bth = packet.headers.bth;
        match psn::distance(self.expected, bth.psn) {
            0 => self.handle_expected(packet),
            1.. => {
                self.counters.out_of_sequence += 1;
                if !self.reported {
                    self.reported = true;
                    self.counters.naks_sent += 1;
                    self.acknowledge(self.expected, Syndrome::NAK_PSN_SEQUENCE);
                }
                None
            }
            _ => {
                self.counters.duplicates += 1;
                self.counters.acks_sent += 1;
                self.acknowledge(psn::before(self.expected), Syndrome::ack(CREDITS_UNLIMITED));
                None
            }
        }
    }

    /// The next answer to send, in the order of the requests.
    pub fn next_packet(&mut self) -> Option<Answer> {
        self.answers.pop_front()
    }

    /// The fatal NAK code, if the QP is in its error state.
    pub fn failure(&self) -> Option<NakCode> {
        self.failure
    }

    /// The counters so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    fn handle_expected<'a>(&mut self, packet: &Packet<'a>) -> Option<Delivery<'a>> {
        self.reported = false;
        let bth = packet.headers.bth;
        if bth.opcode.is_first_or_only() {
            if self.is_refused(bth.opcode) {
                self.refused = Some(bth.psn);
                self.reported = true;
                self.counters.rnr_sent += 1;
                self.acknowledge(bth.psn, Syndrome::rnr_nak(self.settings.rnr_timer));
                return None;
            }
            self.messages_begun += 1;
        }
        let place = match message::accept(self.message, packet, &self.settings) {
            Ok((place, message)) => {
                self.message = message;
                place
            }
            Err(code) => {
                self.failure = Some(code);
                self.counters.fatal_naks_sent += 1;
                self.acknowledge(bth.psn, Syndrome::nak(code));
                return None;
            }
        };
        let ends_message = bth.opcode.is_last_or_only();
        self.expected = psn::add(self.expected, 1);
        self.counters.bytes += packet.payload.len() as u64;
        if ends_message {
            self.msn = (self.msn + 1) & MSN_MAX;
            self.counters.messages += 1;
        }
        if bth.ack_req {
            self.counters.acks_sent += 1;
            self.acknowledge(bth.psn, Syndrome::ack(CREDITS_UNLIMITED));
        }
        let immediate = packet.headers.immediate;
        Some(Delivery { place, payload: packet.payload, immediate, ends_message })
    }

    /// Whether to simulate a missing receive buffer for the message that starts at the expected PSN.
    fn is_refused(&self, opcode: Opcode) -> bool {
        let every = self.settings.rnr_every;
        let due = every > 0 && self.messages_begun % every == every - 1;
        due && opcode.is_send() && self.refused != Some(self.expected)
    }

    fn is_stopped(&self) -> bool {
        self.settings.stop_after.is_some_and(|bytes| self.counters.bytes >= bytes)
    }

    fn handle_congestion(&mut self, now: Instant) {
        self.counters.ce_marked += 1;
        let interval = self.settings.cnp_interval;
        if self.last_cnp.is_none_or(|last| now.saturating_duration_since(last) >= interval) {
            self.last_cnp = Some(now);
            self.counters.cnps_sent += 1;
            self.answers.push_back(Answer::Cnp);
        }
    }

    fn acknowledge(&mut self, psn: u32, syndrome: Syndrome) {
        let aeth = Aeth { syndrome, msn: self.msn };
        self.answers.push_back(Answer::Acknowledge { psn, aeth });
    }
}

impl Answer {
    /// Octets of payload behind the headers: a CNP has 16 of zero (IBTA annex A17.9.3).
    pub fn payload_len(&self) -> usize {
        match self {
            Self::Acknowledge { .. } => 0,
            Self::Cnp => canopy_packet::cnp::Cnp::LEN,
        }
    }

    /// The headers of this answer, to QP `dest_qp`.
    pub fn headers(&self, dest_qp: u32) -> Headers {
        match *self {
            Self::Acknowledge { psn, aeth } => {
                let headers = Headers::new(Opcode::ACKNOWLEDGE, dest_qp, psn);
                Headers { aeth: Some(aeth), ..headers }
            }
            Self::Cnp => {
                let mut headers = Headers::new(Opcode::CNP, dest_qp, 0);
                headers.bth.resv8a = RESV8A_BECN;
                headers
            }
        }
    }
}
