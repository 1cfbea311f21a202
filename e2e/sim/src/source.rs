// SPDX-License-Identifier: Apache-2.0
//! The source: `canopy-rc`'s requester in simulated time.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use canopy_packet::aeth::{Aeth, Syndrome};
use canopy_packet::bth::Opcode;
use canopy_rc::psn;
use canopy_rc::requester::{Counters, Request, Requester, Settings};
use canopy_rc::transfer::{Operation, Transfer};
use canopy_rc::wire::{Headers, Packet};

use crate::config::Setup;
use crate::net::{Address, Burst, Feedback};
use crate::receiver::MTU;

/// The requester, with state that only the simulator needs.
pub struct Source {
    requester: Requester,
    epoch: Instant,
    start_psn: u32,
    burst: u32,
    held_back: Option<Request>,
    /// Highest packet sent + 1, by number.
    pub sent: u64,
    /// Packets that the application has posted; later ones are not sent yet.
    pub posted: u64,
    /// Every packet below is acknowledged, according to the feedback delivered.
    pub acked: u64,
    /// Length of the retry timer that was armed last, ns.
    pub timer: u64,
    armed: Option<Instant>,
}

impl Source {
    /// A source that has sent nothing.
    ///
    /// # Errors
    /// If the requester rejects the setup.
    pub fn new(setup: &Setup) -> Result<Self> {
        let mtu = u64::from(MTU);
        let (bytes, message) = (setup.packets * mtu, u64::from(setup.message) * mtu);
        let transfer = Transfer::new(bytes, message, MTU, Operation::Send, false).context("packets, message")?;
        let settings = Settings::new(setup.window, setup.ack_every, Duration::from_nanos(setup.timeout), 0)
            .context("window, ack-every, timeout")?;
        Ok(Self {
            requester: Requester::new(transfer, settings, setup.start_psn),
            epoch: Instant::now(),
            start_psn: setup.start_psn,
            burst: setup.burst,
            held_back: None,
            sent: 0,
            posted: 0,
            acked: 0,
            timer: setup.timeout,
            armed: None,
        })
    }

    /// The packets that may be sent now.
    pub fn send(&mut self, now: u64) -> Option<Burst> {
        let at = self.instant(now);
        if self.held_back.is_none() && self.requester.next_number() >= self.posted {
            return None;
        }
        let first = self.held_back.take().or_else(|| self.requester.next_packet(at))?;
        let number = self.number(first.psn).max(0) as u64;
        let (mut last, mut count) = (first, 1);
        while count < self.burst && !last.ack_req && !last.segment.ends_message {
            let Some(next) = self.requester.next_packet(at) else { break };
            if next.psn != psn::add(last.psn, 1) || next.segment.opcode.is_first_or_only() {
                self.held_back = Some(next);
                break;
            }
            (last, count) = (next, count + 1);
        }
        self.sent = self.sent.max(number + u64::from(count));
        self.watch_timer(now);
        let begins = first.segment.opcode.is_first_or_only();
        let (ends, ask, to) = (last.segment.ends_message, last.ack_req, Address::Proxy);
        Some(Burst { psn: first.psn, number, count, begins, ends, ask, to })
    }

    /// Handles an ACK or a NAK.
    pub fn handle(&mut self, feedback: &Feedback, now: u64) {
        let mut headers = Headers::new(Opcode::ACKNOWLEDGE, 1, feedback.psn);
        headers.aeth = Some(Aeth { syndrome: Syndrome(feedback.syndrome), msn: feedback.msn });
        let at = self.instant(now);
        self.requester.handle(&Packet { headers, payload: &[] }, at);
        let held = self.number(feedback.psn) + i64::from(feedback.syndrome < 0x20);
        let held = held.max(0) as u64;
        if held <= self.sent {
            self.acked = self.acked.max(held);
        }
        self.watch_timer(now);
    }

    /// Handles its timer.
    pub fn handle_timeout(&mut self, now: u64) {
        let at = self.instant(now);
        self.requester.handle_timeout(at);
        self.watch_timer(now);
    }

    /// When its timer expires.
    pub fn poll_timeout(&self) -> Option<u64> {
        self.requester.poll_timeout().map(|at| at.duration_since(self.epoch).as_nanos() as u64)
    }

    /// Number of the packet with this `psn`: the nearest to the acknowledged ones.
    pub fn number(&self, psn: u32) -> i64 {
        let near = psn::add(self.start_psn, self.acked);
        self.acked as i64 + i64::from(psn::distance(near, psn))
    }

    /// Every packet is acknowledged.
    pub fn is_complete(&self) -> bool {
        self.requester.is_complete()
    }

    /// The failure, if the transfer failed.
    pub fn failure(&self) -> Option<String> {
        self.requester.failure().map(|failure| failure.to_string())
    }

    /// The requester's counters.
    pub fn counters(&self) -> &Counters {
        self.requester.counters()
    }

    fn instant(&self, now: u64) -> Instant {
        self.epoch + Duration::from_nanos(now)
    }

    /// Records the duration of the timer that was just armed.
    fn watch_timer(&mut self, now: u64) {
        let due = self.requester.poll_timeout();
        if due != self.armed {
            self.armed = due;
            self.timer = due.map_or(self.timer, |at| at.duration_since(self.instant(now)).as_nanos() as u64);
        }
    }
}
