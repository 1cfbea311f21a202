// SPDX-License-Identifier: Apache-2.0
//! How the requester handles the responder's packets, IBTA volume 1 sections 9.7.5.1, 9.7.5.2 and annex A17.9.

use std::time::Instant;

use canopy_packet::aeth::{NakCode, SyndromeKind, rnr_timer};
use canopy_packet::bth::Opcode;

use super::{Failure, Requester};
use crate::psn;
use crate::wire::Packet;

/// Position of a PSN relative to the packets in flight.
enum Place {
    /// Acknowledged before the last acknowledged packet.
    Past,
    /// The last acknowledged packet.
    JustAcked,
    /// Sent and not acknowledged.
    InFlight(u64),
    /// Never sent.
    Future,
}

impl Requester {
    /// Handles a packet from the responder. The caller has checked its source address and destination QP.
    pub fn handle(&mut self, packet: &Packet<'_>, now: Instant) {
        let bth = packet.headers.bth;
        match (bth.opcode, packet.headers.aeth) {
            (Opcode::CNP, _) => {
                self.counters.cnps_received += 1;
                if self.settings.applies_cnps() {
                    self.window.on_cnp(self.acked, self.sent);
                }
            }
            (Opcode::ACKNOWLEDGE, Some(aeth)) => match aeth.syndrome.kind() {
                SyndromeKind::Ack { .. } => self.handle_ack(bth.psn, now),
                SyndromeKind::RnrNak { timer } => self.handle_rnr(bth.psn, timer, now),
                SyndromeKind::Nak(code) => self.handle_nak(bth.psn, code, now),
                SyndromeKind::Reserved => self.counters.unexpected += 1,
            },
            _ => self.counters.unexpected += 1,
        }
    }

    fn handle_ack(&mut self, psn: u32, now: Instant) {
        self.counters.acks_received += 1;
        match self.place(psn) {
            Place::InFlight(packet) => self.progress(packet + 1, now),
            Place::JustAcked => self.counters.duplicate_acks += 1,
            Place::Past => self.counters.ack_out_of_window += 1,
            Place::Future => {
                self.counters.ack_out_of_window += 1;
                self.counters.false_acks += 1;
            }
        }
    }

    fn handle_nak(&mut self, psn: u32, code: NakCode, now: Instant) {
        let Some(packet) = self.nak(psn, now) else { return };
        if code != NakCode::PsnSequence {
            self.failure = Some(Failure::Refused { code, psn });
            return;
        }
        self.counters.naks_received += 1;
        // A packet that was rejected with an RNR NAK still waits for its RNR timer.
        if self.not_ready.is_none_or(|(waiting, _)| waiting != packet) {
            self.retry();
        }
    }

    fn handle_rnr(&mut self, psn: u32, timer: u8, now: Instant) {
        let Some(packet) = self.nak(psn, now) else { return };
        if let Some(wait) = rnr_timer(timer) {
            self.counters.rnr_received += 1;
            self.not_ready = Some((packet, now + wait));
            self.retry_at = None;
        }
    }

    /// Applies what every NAK implies: all packets before its PSN have arrived. `None` if its PSN is not in flight.
    fn nak(&mut self, psn: u32, now: Instant) -> Option<u64> {
        match self.place(psn) {
            Place::InFlight(packet) => {
                if packet > self.acked {
                    self.progress(packet, now);
                }
                Some(packet)
            }
            Place::JustAcked | Place::Past => {
                self.counters.ghost_naks += 1;
                None
            }
            Place::Future => {
                self.counters.false_acks += 1;
                None
            }
        }
    }

    fn place(&self, psn: u32) -> Place {
        let distance = i64::from(psn::distance(self.psn(self.acked), psn));
        match u64::try_from(distance) {
            Ok(ahead) if self.acked + ahead < self.sent => Place::InFlight(self.acked + ahead),
            Ok(_) => Place::Future,
            Err(_) if distance == -1 => Place::JustAcked,
            Err(_) => Place::Past,
        }
    }
}
