// SPDX-License-Identifier: Apache-2.0
//! The Session-Sender of one link, RFC 8762 section 4.2.

use std::collections::VecDeque;

use canopy_model::ids::PortIndex;
use canopy_model::telemetry::LinkRtt;
use canopy_packet::stamp::{ReflectorPacket, SenderPacket};

use super::{ERROR_ESTIMATE, Timestamp};

/// A test packet without an answer for this long is lost; also the longest round-trip time that is accepted.
const LOST_AFTER_NS: u64 = 10_000_000_000;
/// Maximum number of test packets without an answer; beyond it the oldest counts as lost.
const MAX_WAITING: usize = 128;

/// Settings of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionSettings {
    /// Time between two test packets, nanoseconds, at least 1.
    pub interval_ns: u64,
}

/// A session; its packets are numbered from 0.
#[derive(Clone, Debug)]
pub struct Session {
    settings: SessionSettings,
    due_ns: u64,
    next: u32,
    waiting: VecDeque<Waiting>,
    smallest_ns: Option<u64>,
    samples: u64,
    lost: u64,
    refused: u64,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    sequence: u32,
    timestamp: Timestamp,
    sent_ns: u64,
}

impl Session {
    /// A session that sends its first packet at `now_ns`. Counters continue from `before`, an earlier session of the port.
    pub fn new(settings: SessionSettings, now_ns: u64, before: Option<&LinkRtt>) -> Self {
        Self {
            settings,
            due_ns: now_ns,
            next: 0,
            waiting: VecDeque::new(),
            smallest_ns: None,
            samples: before.map_or(0, |b| b.samples),
            lost: before.map_or(0, |b| b.lost),
            refused: 0,
        }
    }

    /// When to call [`Session::handle_timeout`] next.
    pub fn poll_timeout(&self) -> u64 {
        let lost_at = self.waiting.front().map_or(u64::MAX, |w| w.sent_ns.saturating_add(LOST_AFTER_NS));
        self.due_ns.min(lost_at)
    }

    /// Counts expired test packets as lost; returns the test packet to send now, if one is due, with `timestamp` in it.
    pub fn handle_timeout(&mut self, now_ns: u64, timestamp: Timestamp) -> Option<SenderPacket> {
        while self.waiting.front().is_some_and(|w| now_ns.saturating_sub(w.sent_ns) >= LOST_AFTER_NS) {
            self.lose_oldest();
        }
        if now_ns < self.due_ns {
            return None;
        }
        // A delayed sender does not catch up with a burst.
        let next = self.due_ns + self.settings.interval_ns;
        self.due_ns = if next > now_ns { next } else { now_ns + self.settings.interval_ns };
        if self.waiting.len() >= MAX_WAITING {
            self.lose_oldest();
        }
        let sequence = self.next;
        self.next = self.next.wrapping_add(1);
        self.waiting.push_back(Waiting { sequence, timestamp, sent_ns: now_ns });
        Some(SenderPacket { sequence, timestamp: timestamp.0, error_estimate: ERROR_ESTIMATE })
    }

    /// Processes an answer that arrived at `arrived`. It is accepted if it answers an outstanding packet, carries that packet's
    /// timestamp, and its times are consistent; returns the round-trip time without the reflector's delay, nanoseconds.
    pub fn handle_answer(&mut self, packet: &ReflectorPacket, arrived: Timestamp) -> Option<u64> {
        let rtt_ns = self.round_trip(packet, arrived);
        match rtt_ns {
            Some(rtt_ns) => {
                self.waiting.retain(|w| w.sequence != packet.sender.sequence);
                self.smallest_ns = Some(self.smallest_ns.map_or(rtt_ns, |smallest| smallest.min(rtt_ns)));
                self.samples += 1;
            }
            None => self.refused += 1,
        }
        rtt_ns
    }

    /// Answers that were not accepted.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Smallest round-trip time since the last call, and counters since the start.
    pub fn take(&mut self, port: PortIndex) -> LinkRtt {
        LinkRtt { port, rtt_ns: self.smallest_ns.take(), samples: self.samples, lost: self.lost }
    }

    #[cfg(test)]
    pub(super) fn waiting_len(&self) -> usize {
        self.waiting.len()
    }

    fn round_trip(&self, packet: &ReflectorPacket, arrived: Timestamp) -> Option<u64> {
        let sent = self.waiting.iter().find(|w| w.sequence == packet.sender.sequence)?.timestamp;
        if packet.sender.timestamp != sent.0 {
            return None;
        }
        let all_ns = arrived.since_ns(sent)?;
        // PTP timestamps hold nanoseconds where NTP timestamps hold fractions of a second.
        let inside_ns = if packet.error_estimate.ptp {
            ptp_ns(packet.timestamp).checked_sub(ptp_ns(packet.receive_timestamp))?
        } else {
            Timestamp(packet.timestamp).since_ns(Timestamp(packet.receive_timestamp))?
        };
        // If the reflector's clock ran faster than the local one, the result must still be above zero.
        let rtt_ns = all_ns.checked_sub(inside_ns)?.max(1);
        (rtt_ns <= LOST_AFTER_NS).then_some(rtt_ns)
    }

    fn lose_oldest(&mut self) {
        self.waiting.pop_front();
        self.lost += 1;
    }
}

fn ptp_ns(timestamp: u64) -> u64 {
    (timestamp >> 32) * 1_000_000_000 + (timestamp & u64::from(u32::MAX))
}
