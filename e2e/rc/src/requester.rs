// SPDX-License-Identifier: Apache-2.0
//! The requester of a Reliable Connection, IBTA volume 1 section 9.7.5 and 9.9.2: pure, no socket and no clock.
//!
//! Packets are numbered from 0 in 64 bits; PSNs exist only on the wire. `acked <= next <= sent` always: `acked` packets
//! are acknowledged, `next` goes out next, and packets below `sent` have gone out at least once. Going back is
//! `next = acked`.

mod answer;
mod settings;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use canopy_packet::aeth::NakCode;

use crate::psn;
use crate::transfer::{Segment, Transfer};
use crate::window::Window;

pub use settings::{BACKOFF_MAX, Counters, Settings, SettingsError, WINDOW_MAX};

/// The requester's state.
#[derive(Debug, Clone)]
pub struct Requester {
    transfer: Transfer,
    settings: Settings,
    start_psn: u32,
    acked: u64,
    next: u64,
    sent: u64,
    window: Window,
    since_ack_req: u32,
    /// Set AckReq on the next packet, because it is the first of a retransmission.
    ask: bool,
    retry_at: Option<Instant>,
    backoff: u32,
    attempts: u32,
    /// The packet that the responder rejected with an RNR NAK, and when to retransmit it.
    not_ready: Option<(u64, Instant)>,
    failure: Option<Failure>,
    counters: Counters,
}

/// A packet to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// PSN.
    pub psn: u32,
    /// AckReq (BTH).
    pub ack_req: bool,
    /// The packet's part of the stream.
    pub segment: Segment,
    /// It was sent before.
    pub retransmission: bool,
}

/// Why a transfer failed. The QP is in its error state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The responder sent a fatal NAK.
    #[error("fatal NAK {code:?} for PSN {psn:#08x}")]
    Refused {
        /// NAK code.
        code: NakCode,
        /// PSN of the packet that was rejected.
        psn: u32,
    },
    /// No progress after the permitted number of retransmissions.
    #[error("PSN {psn:#08x} was retransmitted {attempts} times without progress")]
    RetriesExceeded {
        /// Oldest packet that is not acknowledged.
        psn: u32,
        /// Retransmissions.
        attempts: u32,
    },
}

impl Requester {
    /// A requester that has sent nothing. `start_psn` (24 bits) is the PSN of the first packet.
    pub fn new(transfer: Transfer, settings: Settings, start_psn: u32) -> Self {
        Self {
            // With at least ack_every packets permitted, one of those in flight has AckReq set, so the transfer
            // cannot stall.
            window: Window::new(settings.ack_every(), settings.window()),
            transfer,
            settings,
            start_psn: start_psn & psn::MASK,
            acked: 0,
            next: 0,
            sent: 0,
            since_ack_req: 0,
            ask: false,
            retry_at: None,
            backoff: 1,
            attempts: 0,
            not_ready: None,
            failure: None,
            counters: Counters::default(),
        }
    }

    /// The next packet that may go out now, if any; it counts as sent.
    pub fn next_packet(&mut self, now: Instant) -> Option<Request> {
        let window = u64::from(self.window.packets());
        let in_flight = self.next - self.acked;
        let may_send = in_flight < window && self.next < self.transfer.packets();
        if !may_send || self.failure.is_some() || self.not_ready.is_some() {
            return None;
        }
        let segment = self.transfer.segment(self.next);
        self.since_ack_req += 1;
        let fills_window = in_flight + 1 == window;
        let due = self.since_ack_req >= self.settings.ack_every();
        let ack_req = segment.ends_message || fills_window || due || self.ask;
        if ack_req {
            self.since_ack_req = 0;
            self.ask = false;
        }
        let psn = self.psn(self.next);
        let retransmission = self.next < self.sent;
        self.next += 1;
        self.sent = self.sent.max(self.next);
        self.counters.packets_sent += 1;
        self.counters.retransmitted += u64::from(retransmission);
        if self.retry_at.is_none() {
            self.arm(now);
        }
        Some(Request { psn, ack_req, segment, retransmission })
    }

    /// When [`Requester::handle_timeout`] must be called.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.not_ready.map(|(_, until)| until).or(self.retry_at)
    }

    /// Handles every timer that has expired by `now`; does nothing before that.
    pub fn handle_timeout(&mut self, now: Instant) {
        if let Some((_, until)) = self.not_ready {
            if now >= until {
                self.not_ready = None;
                self.go_back();
            }
        } else if self.retry_at.is_some_and(|at| now >= at) {
            self.counters.timeouts += 1;
            self.backoff = (self.backoff * 2).min(BACKOFF_MAX);
            self.retry();
        }
    }

    /// Number of the packet that goes out next.
    pub fn next_number(&self) -> u64 {
        self.next
    }

    /// Every packet is acknowledged.
    pub fn is_complete(&self) -> bool {
        self.acked == self.transfer.packets()
    }

    /// The failure, if the transfer has failed.
    pub fn failure(&self) -> Option<Failure> {
        self.failure
    }

    /// Bytes of payload in acknowledged packets.
    pub fn bytes_acked(&self) -> u64 {
        self.transfer.bytes_in(self.acked)
    }

    /// The counters so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    fn psn(&self, packet: u64) -> u32 {
        psn::add(self.start_psn, packet)
    }

    /// Everything below `packet`, which is more than before, is now acknowledged.
    fn progress(&mut self, packet: u64, now: Instant) {
        self.window.on_progress(packet - self.acked);
        self.acked = packet;
        self.next = self.next.max(packet);
        self.backoff = 1;
        self.attempts = 0;
        if self.not_ready.is_some_and(|(waiting, _)| waiting < packet) {
            self.not_ready = None;
        }
        self.retry_at = None;
        if self.acked < self.sent && self.not_ready.is_none() {
            self.arm(now);
        }
    }

    /// Goes back because there was no progress, or fails after the permitted number of retries.
    fn retry(&mut self) {
        self.attempts += 1;
        if self.settings.retries() > 0 && self.attempts > self.settings.retries() {
            let psn = self.psn(self.acked);
            self.failure = Some(Failure::RetriesExceeded { psn, attempts: self.attempts - 1 });
        }
        self.go_back();
    }

    fn go_back(&mut self) {
        self.next = self.acked;
        self.ask = true;
        // The retransmission arms it again.
        self.retry_at = None;
    }

    fn arm(&mut self, now: Instant) {
        let wait: Duration = self.settings.timeout() * self.backoff;
        self.retry_at = Some(now + wait);
    }
}
